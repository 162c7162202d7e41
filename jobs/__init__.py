"""PySpark programs: what runs on Spark, and the only place that builds a Spark session.

Here belong the session builder, the batch job, verification, backfill and compaction. What they
decide belongs to `photon`, as plain functions that need no Spark to be tested; when they run
belongs to `orchestration`. Nothing here imports Dagster.
"""
