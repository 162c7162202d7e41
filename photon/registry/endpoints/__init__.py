"""Ask all endpoints at once, as much as each bears, and spare those that are down.

`photon.registry.quorum` decides what to ask next.
"""
