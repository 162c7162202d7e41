"""Upkeep: the registry's state, gc, resharding, repair and refill, retired datacenters, and compaction."""
