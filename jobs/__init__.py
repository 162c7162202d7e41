"""Work of Photon that Spark runs, or DuckDB where it is too small for a JVM.

`session` builds the only Spark session, and `spark_errors` says what its errors mean. `batch_job` runs a
batch of the dispatcher as tasks, `backfill` makes rows of past days again, `verification` classifies all
records anew and `log_copies` compares the datacenters' logs. `photon` decides what is to be done, by plain
functions; nothing here imports Dagster. Read `batch_job` first, and `verification` after it.
"""
