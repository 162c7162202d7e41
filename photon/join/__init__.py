"""What runs in a task: read records, look them up, adapt, write rows, propose.

`photon.dispatcher` decides which records a task gets, and what happens with its results.
"""
