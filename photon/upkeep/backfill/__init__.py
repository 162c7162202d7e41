"""Backfill: rows of some days made again or filled in, while live rows arrive (protocol E3, E4).

Decides what is read and what takes its place, and commits that. The Spark program is in `jobs`. What is
missing is found by `verification` and joined by the dispatcher: nothing here registers an id.
"""
