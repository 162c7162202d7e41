"""The Delta tables of a datacenter: write files, commit them, read rows back.

What the rows mean is said where they are made.
"""
