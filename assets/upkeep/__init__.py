"""Verbs: jobs that change tables or the registry, each by an op that takes what a person may set.

What a run did is an observation of the thing that it changed. The things themselves are assets, in the room
above this one; so are the verbs that find out by themselves what is due.
"""
