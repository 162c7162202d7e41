"""One value an id over 1, 3 or 5 endpoints: pure decisions, rounds, the register.

No request is written here; see `photon.registry.dynamodb`.
"""
