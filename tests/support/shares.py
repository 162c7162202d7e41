"""Shares of many cases: some run always, and all of them by hand (`make test-long`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(some: int, every: int) -> list[Any]:
    """The seeds below `every`; those from `some` on are long."""
    return [_case(seed, seed < some) for seed in range(every)]


def a_third(cases: Sequence[Any], first: int) -> list[Any]:
    """All cases; every third from `first` on runs always.

    A crash at each fault point has many tests, each with a third of its own: so each point has some.
    """
    return [_case(case, index % 3 == first) for index, case in enumerate(cases)]


def _case(value: Any, is_always: bool) -> Any:
    return value if is_always else pytest.param(value, marks=pytest.mark.long)
