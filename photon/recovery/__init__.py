"""What datacenters tell each other through the registry, and what is done about one that is silent.

Each dispatcher calls it between batches; it joins nothing itself.
"""
