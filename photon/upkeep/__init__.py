"""Upkeep of the registry that needs tables or verifications too: clearing of tokens, gc of old ids.

Upkeep that needs only the registry is in `photon.registry.operations`.
"""
