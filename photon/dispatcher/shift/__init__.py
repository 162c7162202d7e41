"""Run one datacenter's dispatcher for a while, one process at a time, and tell how it goes.

`run.Shift` takes the datacenter's lock (`lease`), opens state, registry and tables, wires them to a
dispatcher, and runs it until `ending` says so. `run.run_shift` does that on this machine. The others only
read: `status`, `stages`, `growth`, `lakes` and `people` gather what `photon status` and metrics show,
`misconfigured` names signs of a wrong pipeline file, `deletable_files` the logs that joins need no more.

Read `run.py` first. A decision on batches belongs in `photon.dispatcher`.
"""
