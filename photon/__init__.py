"""Join two kinds of event logs exactly once, across datacenters: the engine, in plain Python.

It imports neither Dagster nor PySpark; PySpark programs are in `jobs`, Dagster in the other folders.
"""
