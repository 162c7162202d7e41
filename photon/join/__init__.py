"""What runs in a task: read records, look them up, adapt, register, write rows.

Which records a task gets, and what becomes of its results, is decided in `photon.dispatcher`.
"""
