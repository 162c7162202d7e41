"""Pure rules: what a store keeps and is asked, what its replies mean, and how the register may change.

Nothing here sends a request; see `photon.registry.quorum` and `photon.registry.dynamodb`.
"""
