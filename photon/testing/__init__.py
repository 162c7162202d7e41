"""Testing tools for users: traffic, log writer, in-memory registry, and fault points (`arm`, `disarm`).

Simulators and checkers that test Photon itself belong in `tests/simulation`.
"""

from photon.faults import ALL_FAULT_POINTS, arm, disarm

__all__ = ["ALL_FAULT_POINTS", "arm", "disarm"]
