"""Run one datacenter's dispatcher for a while, one process at a time, and tell how it goes.

`run.Shift` takes the datacenter's lock (`lease`), opens state, registry and tables, wires them to a
dispatcher, and runs it until `ending` says so. `run.run_shift` does that on this machine. `measured`,
`report` and `points` keep what was done for others to read. The rest only reads: `growth` sees whether
there is work, `people` what was decided on datacenters, `misconfigured` signs of a wrong pipeline file,
`keys` those of a wrong key, `deletable_files` the logs that joins need no more. `photon.health` judges and
tells all of it. `landing` is another kind of shift: it makes logs, and has a lease of its own.

Read `run.py` first. A decision on batches belongs in `photon.dispatcher`.
"""
