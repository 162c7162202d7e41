"""The EventStore: index primary events, and find one by its id, in memory or in the logs.

Foreign events are read in `photon.join`.
"""
