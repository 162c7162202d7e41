"""The pipeline file: its keys and values, and what is wrong with one by line and key.

It also decides what identifies an event. What is done with a pipeline belongs in the other rooms.
"""
