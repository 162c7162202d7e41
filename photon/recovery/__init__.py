"""What datacenters tell each other through the registry, what is done about a silent one, and work orders.

Each dispatcher calls it between batches; it joins nothing itself.
"""
