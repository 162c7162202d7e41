"""The assets that Dagster shows, with their metadata: logs, joined events, reports and upkeep.

`landing`, `logs`, `joined_events`, `daily_joins` and `side_tables` are the data. `reports` are looked at,
`evaluations` find out by themselves what is due, and `upkeep` has jobs that people start. `runs` and `work`
say how each of them runs; an asset calls `photon` or `jobs` through a resource. `orchestration` says when.
Read `joined_events` first.
"""
