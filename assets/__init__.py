"""What Dagster shows: logs, joined events, reports and upkeep, as assets with their metadata.

An asset calls `photon` or `jobs` through a resource. When it runs belongs to `orchestration`.
"""
