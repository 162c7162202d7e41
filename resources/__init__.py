"""Dagster resources: how Dagster gets at the engine's objects.

Here belong `ConfigurableResource`s that return objects of `photon` and sessions of `jobs`, and
this is the only package that reads the environment. What the objects do belongs to `photon`;
what is done with them belongs to `assets`.
"""
