"""How registries that are broken on purpose are caught: each way prints by what, and fails if it was not."""

from __future__ import annotations

from photon.testing.registry_simulation import first_failure
from photon.testing.simulated_operators import Upkeep

SEEDS = range(400)


def caught_by_simulation(*upkeep: Upkeep) -> str:
    ran, seed, problem = first_failure(SEEDS, upkeep=upkeep)
    print(f"caught by simulation (seed {seed}, the {ran}th): {problem}")
    assert problem is not None
    return problem


def caught_by_the_checker_of_histories(*upkeep: Upkeep) -> str:
    """By what clients were told alone, as it is with real servers."""
    ran, seed, problem = first_failure(SEEDS, only_history=True, upkeep=upkeep)
    print(f"caught by the checker (seed {seed}, the {ran}th): {problem}")
    assert problem is not None
    return problem
