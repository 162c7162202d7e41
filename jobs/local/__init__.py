"""Queries without Spark: the part of PySpark's data frames that this project's queries use, on DuckDB.

A verification that is too small for a JVM runs on it (docs/adr/0068). `session` stands for Spark's session,
`frames` and `columns` make SQL text until somebody wants the rows, and `functions` stands for
`pyspark.sql.functions`. Read `session` first. Add what a query needs, and no more.
"""
