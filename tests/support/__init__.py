"""Stand-ins that break on command, for tests within one process: a disk, a clock, ledgers in memory, a crash.

Each is held against the real thing by a test of its own. `crashes` kills at a fault point, `faulty_disk`
loses what was not synced, `manual_clock` moves only when told, `memory_ledgers` is a registry without a
server.
"""
