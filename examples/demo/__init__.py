"""The demo: Dagster, live logs of two datacenters and a killed shift, before the eyes of its user.

Here belongs what starts, watches, disturbs and ends a whole Photon on one machine. It sees Photon as any
outsider does: processes, files, tables, and Dagster's HTTP API.
"""
