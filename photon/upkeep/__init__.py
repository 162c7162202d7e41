"""Upkeep of the registry that reads outputs or reports: clearing of tokens, garbage collection.

Upkeep that needs only the registry is in `photon.registry.operations`.
"""
