"""How registries of single ids that are broken on purpose are caught: by exploration, or by simulation."""

from __future__ import annotations

from tests.simulation.catching import SEEDS, search
from tests.simulation.exploration_cases import CASES
from tests.simulation.registry_simulation import simulate
from tests.simulation.simulated_operators import Upkeep

# What several broken registries are caught by.
ANOTHER_CHOSEN = "was chosen after"
TWO_HELD = "two held the id without a release between"
HELD_AFTER_RELEASE = "a token held the id after it was released"


def caught_by_exploration(case: str, because: str) -> None:
    """By the first finding of all, on a shortest way."""
    explored = CASES[case].explore()
    print(f"caught by exploration ({case}, {explored.states} states): {explored.problem}")
    assert explored.problem is not None
    assert because in explored.problem


def caught_by_simulation(
    *upkeep: Upkeep, because: str, first_seed: int = 0, over_requests: bool = False
) -> None:
    """By the rules, in one of so many seeds. `over_requests`: the product's own requests are broken.

    `first_seed`: near one that is known to find it, where hundreds before it do not, at 0.2 s each.
    """
    _search(upkeep, because, first_seed, only_history=False, over_requests=over_requests)


def caught_by_the_checker_of_histories(
    *upkeep: Upkeep, because: str, first_seed: int = 0, over_requests: bool = False
) -> None:
    """By what clients were told alone, as it is with real servers."""
    _search(upkeep, f"history: {because}", first_seed, only_history=True, over_requests=over_requests)


def _search(
    upkeep: tuple[Upkeep, ...], because: str, first_seed: int, only_history: bool, over_requests: bool
) -> None:
    by = "the checker of histories" if only_history else "simulation"
    seeds = range(first_seed, first_seed + SEEDS)
    search(lambda seed: simulate(seed, only_history, upkeep, over_requests), seeds, because, by)
