"""The demo: Dagster, live logs of two datacenters and a killed shift, before the eyes of its user.

It sees Photon from outside: processes, files, tables, and Dagster's API.
"""
