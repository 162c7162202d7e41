"""Datacenters tell each other things through the registry, act on a silent one, and take up work orders.

Each dispatcher calls it between batches; it joins nothing itself.
"""
