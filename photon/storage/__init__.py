"""Delta tables of a datacenter: writing files, committing and reading them.

What the rows mean belongs in the room that makes them.
"""
