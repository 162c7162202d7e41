"""Photon: joins two kinds of event logs exactly once, across datacenters.

The engine in plain Python. Nothing in this package imports Dagster or PySpark,
and importing it does no I/O: PySpark programs live in `jobs`, Dagster in
`resources`, `assets` and `orchestration`.
"""
