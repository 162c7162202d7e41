"""The demo: Dagster, live logs of two datacenters and a killed shift, before the eyes of its user.

It sees Photon from outside: processes, files, tables, and Dagster's API. `demo` plays the phases that
`scenario` lists. `dagster_stack` and `process_tree` are what runs, `traffic_process` writes the logs,
`latency` reads the tables, `summary` says what came of it. Measurements use the traffic and the reader too.
"""
