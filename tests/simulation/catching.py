"""How registries that are broken on purpose are caught: each way prints by what, and fails if it was not.

A way to be caught is told by words that the finding must have (`because`): a broken registry may also be in
its own way, and that is no proof that the rule is looked after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.simulation.exploration_cases import CASES
from tests.simulation.registry_simulation import simulate
from tests.simulation.simulated_operators import Upkeep

SEEDS = 400
WORDS_TOLD = 60  # characters of a finding that was of another kind

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


def caught_by_story(story: Callable[[], None], because: str) -> None:
    """By a story that is told step by step: simulations come upon it too seldom."""
    with pytest.raises(AssertionError, match=because) as caught:
        story()
    name = getattr(story, "func", story).__name__  # of a partial the function's
    print(f"caught by {name}: {caught.value}")


def _search(
    upkeep: tuple[Upkeep, ...], because: str, first_seed: int, only_history: bool, over_requests: bool
) -> None:
    by = "the checker of histories" if only_history else "simulation"
    seeds = range(first_seed, first_seed + SEEDS)
    search(lambda seed: simulate(seed, only_history, upkeep, over_requests), seeds, because, by)


def search(run: Callable[[int], str | None], seeds: range, because: str, by: str) -> None:
    """Run one seed after the other until what goes wrong is what is looked for; fail if none does so."""
    others: Counter[str] = Counter()
    for seed in seeds:
        problem = run(seed)
        if problem is not None and because in problem:
            print(f"caught by {by} (seed {seed}, from {seeds.start} on): {problem}; before it {dict(others)}")
            return
        if problem is not None:
            others[problem[:WORDS_TOLD]] += 1
    pytest.fail(f"none of {len(seeds)} seeds finds that {because!r} by {by}; but {dict(others)}")
