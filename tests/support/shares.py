"""Shares of many cases: some run always, and all of them by hand (`make test-long`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(some: int, every: int) -> list[Any]:
    """The seeds below `every`; those from `some` on are long."""
    return [_case(seed, seed < some) for seed in range(every)]


def a_share(cases: Sequence[Any], first: int, of: int = 3) -> list[Any]:
    """All cases; every third, or each `of`-th, from `first` on runs always.

    A crash at each fault point has many tests, each with a share of its own: so each point has some.
    """
    return [_case(case, index % of == first) for index, case in enumerate(cases)]


def one_a_rule(variants: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Broken variants, each behind its rule and named by what stands in: the first of a rule runs always."""
    rules = [rule for rule, *_ in variants]
    return [
        pytest.param(
            *one, id=f"{one[0]} {one[1].__name__}", marks=[pytest.mark.long] * (one[0] in rules[:at])
        )
        for at, one in enumerate(variants)
    ]


def _case(value: Any, is_always: bool) -> Any:
    return value if is_always else pytest.param(value, marks=pytest.mark.long)
