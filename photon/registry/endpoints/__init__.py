"""Ask all endpoints at once, as much as each bears, and spare those that are down.

What the replies mean is decided in `photon.registry.consensus`.
"""
