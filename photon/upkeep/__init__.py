"""Upkeep of the registry that needs outputs or reports: clearing tokens, garbage collection.

What needs the registry alone belongs in `photon.registry.operations`.
"""
