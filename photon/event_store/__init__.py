"""The EventStore: find a primary event by its id, in memory or in the logs.

Reading of foreign events belongs in `photon.join`.
"""
