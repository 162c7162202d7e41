"""Servers that this machine runs for tests, measurements and the demo on a MinIO.

A `ServerProcess` starts one server in a folder, waits until it answers, and kills it with the thread that
started it. `stores` has the registry's servers, `minio` a store that speaks S3, `postgres` a database,
`spark_cluster` a standalone cluster; `slow_cores` gives each process a share of a core. Read `process` first.
"""
