"""Dagster resources that give assets the engine's objects; the only readers of the environment.

What the objects do belongs to `photon` and `jobs`, their use to `assets`.
"""
