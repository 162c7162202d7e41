"""Ask all endpoints at once, as much as each bears, and spare those that are down.

What to ask next is for `photon.registry.quorum`.
"""
