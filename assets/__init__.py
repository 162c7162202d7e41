"""What Dagster shows: logs, joined events, reports, registry state and maintenance, as assets.

Here belong asset definitions and their metadata, each a thin call of `photon` or `jobs` through a
resource. Schedules, sensors, partitions, checks and what is put together with what belong to
`orchestration`.
"""
