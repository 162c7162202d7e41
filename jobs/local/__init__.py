"""Queries without Spark: the part of PySpark's data frames that this project's queries use, on DuckDB.

For what is too small for a JVM (docs/adr/0068). Columns and frames are SQL text until somebody wants their
rows. What queries do not use is not here.
"""
