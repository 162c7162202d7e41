"""Outages of whole datacenters: real processes, killed, stopped and cut off under load, by a seeded plan.

What comes of it is checked here without any engine code. Faults in virtual time belong in `tests/simulation`.
"""
