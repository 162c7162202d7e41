"""What a majority says: rounds over all endpoints, the register, and the IdRegistry made of them.

What the replies mean is decided in `photon.registry.consensus`.
"""
