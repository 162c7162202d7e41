"""The memory of a datacenter: files and offsets, the open plan and its attempts, waiting records, counts.

One SQLite database with its stored formats; beside it a timeline, and a note of what people know to be lost.
What is done with them is in `photon.dispatcher`.
"""
