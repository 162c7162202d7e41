"""The IdRegistry: which datacenter joined which event, over DynamoDB-compatible stores.

Upkeep that reads the output is in `photon.upkeep`.
"""
