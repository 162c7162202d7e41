"""PySpark programs: the Spark session, the batch job, verification.

What they decide is in `photon`, as plain functions; nothing here imports Dagster.
"""
