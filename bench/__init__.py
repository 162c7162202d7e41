"""Measurements of Photon on this machine: `python -m bench --help` lists them.

`join_measurement` compares Photon's join with those of Spark and Flink; `live_measurement` watches live
traffic; each other command has a module of its name. `figures` draws the figures of the Photon papers. All
start servers and processes by `infra.servers`, and draw by `plots`. Tests of behaviour belong in `tests`.
"""
