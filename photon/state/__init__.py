"""What a datacenter remembers: files and offsets, the open plan and its attempts, waiting records, counts.

One SQLite database with its stored formats. What is done with it is in `photon.dispatcher`.
"""
