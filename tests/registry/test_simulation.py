"""Ledgers keep their rules in random schedules of kills, sleepers, copies, rolls and collections (L1-L12)."""

from __future__ import annotations

import pytest

from tests.registry.simulation import Simulation, simulate

SEEDS_OF_A_TEST = 50


@pytest.mark.parametrize("first", range(0, 3 * SEEDS_OF_A_TEST, SEEDS_OF_A_TEST))
def test_the_rules_hold_in_random_schedules(first: int) -> None:
    problems = {seed: simulate(seed) for seed in range(first, first + SEEDS_OF_A_TEST)}
    wrong = {seed: problem for seed, problem in problems.items() if problem is not None}
    assert not wrong, f"again: python -m tests.registry.simulation --seed {min(wrong)}"


def test_a_seed_tells_the_same_story_each_time() -> None:
    def story(seed: int) -> list[str]:
        simulation = Simulation(seed)
        simulation.run()
        return simulation.world.story

    assert story(7)
    assert story(7) == story(7)
