"""An observer of all endpoints of a simulated registry, and the rules F3, F6 and F9 after every step.

What clients are told is judged in `photon.testing.registry_simulation`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from photon.registry.decisions import ABSENT, Stored
from photon.registry.layout import REGISTER_KEY, ItemKey
from photon.registry.register import Register, decode_register
from photon.testing.chosen import Acceptance, chain_problem, chosen, step_problem
from photon.testing.memory_registry import MemoryAcceptor

NO_END = float("inf")


class RuleBroken(AssertionError):
    """A rule does not hold; the message says which one and where."""


class Endpoint(MemoryAcceptor):
    """A durable endpoint that an observer watches."""

    def __init__(self, observer: Observer, number: int) -> None:
        super().__init__()
        self._observer = observer
        self._number = number

    def _serve(
        self, kind: str, batch: Sequence[Any], keys: Sequence[ItemKey], apply: Callable[[Any], Any]
    ) -> list[Any]:
        before = [self.items.get(key, ABSENT) for key in keys]
        replies = super()._serve(kind, batch, keys, apply)
        for key, stored in zip(keys, before, strict=True):
            self._observer.saw(self._number, key, stored, self.items.get(key, ABSENT))
        return replies


class Observer:
    """All that endpoints ever took, and the rules F3, F6 and F9 after every step.

    `is_silent`: it only looks, so that what others find can be told apart.
    """

    def __init__(self, n: int, now: Callable[[], float], is_silent: bool = False) -> None:
        self.n = n
        self._is_silent = is_silent
        self._now = now
        self._taken: dict[ItemKey, list[set[Acceptance]]] = defaultdict(lambda: [set() for _ in range(n)])
        self._chosen: dict[ItemKey, list[Acceptance]] = defaultdict(list)
        self._forgotten: set[ItemKey] = set()
        self._first_held: dict[tuple[ItemKey, str], float] = {}
        self._boundaries_us: list[tuple[float, dict[str, int]]] = []

    def saw(self, endpoint: int, key: ItemKey, before: Stored, after: Stored) -> None:
        """One item at one endpoint, before and after a request."""
        if after == before:
            return
        self._must_hold(step_problem(before, after), key)
        if after.value is None:
            return
        taken = self._taken[key]
        taken[endpoint].add((after.accepted, after.value))
        new = [a for a in chosen(taken, self.n) if a not in self._chosen[key]]
        self._chosen[key] += new
        for _, value in new:
            self._first_held.setdefault((key, value.split("\n")[0].removeprefix("T:")), self._now())
        if new and key == REGISTER_KEY:
            self._check_register()
        elif new and key not in self._forgotten:
            self._must_hold(chain_problem(self.values(key)), key)

    def _check_register(self) -> None:
        history = [decode_register(value) for value in self.values(REGISTER_KEY)]
        self._boundaries_us.append((self._now(), dict(history[-1].boundaries_us)))
        for before, after in pairwise(history):
            self._must_hold(_went_back(before, after), REGISTER_KEY)

    def values(self, key: ItemKey) -> list[str]:
        """The values that were ever chosen for an item, by ballot."""
        return [v for _, v in sorted(self._chosen[key], key=lambda a: (a[0], a[1].startswith("C:")))]

    def boundary_us(self, shard: str, moment: float) -> int:
        """How far ids of the shard may have been forgotten at a moment of virtual time."""
        return max((b.get(shard, 0) for since, b in self._boundaries_us if since <= moment), default=0)

    def first_held(self, key: ItemKey, token: str) -> float:
        """When the token was first chosen, be it forgotten since."""
        return self._first_held.get((key, token), NO_END)

    def forget(self, key: ItemKey) -> None:
        """The id is being collected: whatever is stored from now on is left over, and read by nobody."""
        self._forgotten.add(key)

    def _must_hold(self, problem: str | None, key: ItemKey) -> None:
        if problem and not self._is_silent:
            raise RuleBroken(f"{key}: {problem}")


def _went_back(before: Register, after: Register) -> str | None:
    if before.horizon_us is not None and (after.horizon_us or 0) < before.horizon_us:
        return f"F9: the horizon went back from {before.horizon_us} to {after.horizon_us}"
    for shard, boundary_us in before.boundaries_us.items():
        if after.boundaries_us.get(shard, 0) < boundary_us:
            return f"F9: the boundary of {shard} went back from {boundary_us}"
    if after.members.version < before.members.version:
        return "F9: the members' version went back"
    return None
