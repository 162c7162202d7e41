"""The pipeline file: its keys and values, and what is wrong with one by line and key.

Also the identity of an event, which the file decides. What is done with a pipeline belongs in the other rooms.
"""
