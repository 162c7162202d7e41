"""The IdRegistry: which datacenter joined which event, over DynamoDB-compatible stores.

Upkeep that reads outputs or reports belongs in `photon.upkeep`.
"""
