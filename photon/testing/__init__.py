"""Testing tools for users: traffic, log writer, in-memory registry.

Simulators and checkers that test Photon itself belong in `tests/simulation`.
"""
