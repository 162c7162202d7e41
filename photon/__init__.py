"""Join two kinds of event logs exactly once, across datacenters.

The rooms of this folder are the engine, in plain Python. Its links lead to folders beside it, so that all is
imported, and installed, as one package: PySpark programs are in `jobs`; `resources`, `assets` and
`orchestration` are Dagster's; `docs` has the pages that messages name (docs/adr/0084).
"""
