"""Upkeep of the registry that needs tables or verifications too: clearing, gc, what a lost datacenter holds.

Upkeep that needs only the registry is in `photon.registry.operations`.
"""
