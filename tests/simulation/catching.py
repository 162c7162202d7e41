"""Catch registries that are broken on purpose: each way prints what caught one, and fails if nothing did.

A way to be caught is told by words that the finding must have (`because`): a broken registry may also be in
its own way, and that is no proof that the rule is looked after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

SEEDS = 400
WORDS_TOLD = 60  # characters of a finding of another kind


def caught_by_story(story: Callable[[], None], because: str) -> None:
    """Expect a story told step by step to fail: simulations come upon this fault too seldom."""
    with pytest.raises(AssertionError, match=because) as caught:
        story()
    name = getattr(story, "func", story).__name__  # a partial has its function's name
    print(f"caught by {name}: {caught.value}")


def search(run: Callable[[int], str | None], seeds: range, because: str, by: str) -> None:
    """Run seeds until one finds the fault that is looked for; fail if none does."""
    others: Counter[str] = Counter()
    for seed in seeds:
        problem = run(seed)
        if problem is not None and because in problem:
            print(f"caught by {by} (seed {seed}, from {seeds.start} on): {problem}; before it {dict(others)}")
            return
        if problem is not None:
            others[problem[:WORDS_TOLD]] += 1
    pytest.fail(f"none of {len(seeds)} seeds finds that {because!r} by {by}; but {dict(others)}")
