"""Assets with their metadata, as Dagster shows them: logs, joined events, reports and upkeep.

An asset calls `photon` or `jobs` through a resource. When it runs belongs to `orchestration`.
"""
