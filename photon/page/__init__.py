"""The live page of a pipeline: what a browser shows of its datacenters, and the server behind it.

`app.py` has the addresses; each of `now.py`, `history.py`, `records.py` and `event.py` makes the answer of
one. They read lakes and states and disturb no join, on threads that `asking.py` gives a bounded time.
`guard.py` says who may ask, and how much; `connections.py` lets go who asks nothing. The files that the
browser is sent are in `static`. Read `app.py` first.
"""
