"""Outages of whole datacenters: real processes, killed, stopped and cut off under load, by a seeded plan.

Tests check the results without any engine code. Faults in virtual time belong in `tests/simulation`.
"""
