"""Whole clients of the registry over a bad network, as many seeds as fit in the time."""

from __future__ import annotations

import pytest

from photon.testing.registry_simulation import Simulation, first_failure

BUDGET_SECONDS = 120.0
ALL_SEEDS = range(1_000_000)


@pytest.mark.slow
def test_no_seed_breaks_a_rule() -> None:
    ran, seed, problem = first_failure(ALL_SEEDS, BUDGET_SECONDS)
    print(f"{ran} seeds")
    assert problem is None, f"python -m photon.testing.registry_simulation --seed {seed}: {problem}"


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_can_be_replayed(seed: int) -> None:
    first, again = Simulation(seed), Simulation(seed)
    first.run()
    again.run()
    assert first.calls.operations == again.calls.operations


def test_what_a_seed_does_is_worth_checking() -> None:
    answers = set()
    for seed in range(40):
        simulation = Simulation(seed)
        simulation.run()
        answers |= {operation.answer for operation in simulation.calls.operations}
    assert answers >= {"won", "lost", "released", "joined", "free", "cleared", "too old", "unknown"}
