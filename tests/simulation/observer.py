"""An observer of all stores of a simulated registry, and the rules F3, F6, F9 and C3 after every step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import lru_cache
from itertools import pairwise
from typing import Any

from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.layout import (
    REGISTER_KEY,
    Cleared,
    ItemKey,
    datacenter_of,
    encode_value,
    is_cleared,
)
from photon.registry.consensus.register import Members, Register, decode_register
from tests.simulation.chosen_values import Acceptance, chain_problem, chosen, step_problem

NO_END = float("inf")

_decode = lru_cache(1_000)(decode_register)  # the same few texts, again and again


class RuleBroken(AssertionError):
    """A rule does not hold; the message says which one and where."""


class Observer:
    """All that the stores in n slots ever took, and what follows from it.

    What a store took counts as long as its slot is its own: when the members change, what was not chosen by
    then never is by its help. `event_us`: by range key, when the events were. `is_silent`: it only looks, so
    that what others find can be told apart.
    """

    def __init__(
        self, n: int, now: Callable[[], float], event_us: Mapping[str, int], is_silent: bool = False
    ) -> None:
        self.n = n
        self.register: Register  # as it was last chosen
        self._is_silent = is_silent
        self._now = now
        self._event_us = event_us
        self._taken: dict[ItemKey, list[set[Acceptance]]] = defaultdict(lambda: [set() for _ in range(n)])
        self._chosen: dict[ItemKey, list[Acceptance]] = defaultdict(list)
        self._shards: dict[str, str] = {}
        self._first_held: dict[tuple[ItemKey, str], float] = {}
        self._cleared: set[tuple[ItemKey, str]] = set()  # with the value that names the owner
        self._registers: list[tuple[float, Register]] = []

    def begin(self, register: Register, stored: Stored) -> None:
        """The registry is made: every slot has this register."""
        self.register = register
        for slot, incarnation in enumerate(register.members.incarnations):
            self.saw(slot, incarnation, REGISTER_KEY, Stored(), stored)

    def saw(self, slot: int, incarnation: str, key: ItemKey, before: Stored, after: Stored) -> None:
        """One item at one store, before and after a request."""
        if after == before:
            return
        self._must_hold(step_problem(before, after), key)
        if after.value is None or self.register.members.incarnations[slot] != incarnation:
            return
        taken = self._taken[key]
        taken[slot].add((after.accepted, after.value))
        if is_cleared(after.value):
            self._cleared.add((key, after.value))
        counted = self._counted_registers(taken) if key == REGISTER_KEY else taken
        new = [a for a in chosen(counted, self.n) if a not in self._chosen[key]]
        if not new:
            return
        self._chosen[key] += new
        if key == REGISTER_KEY:
            self._follow_register()
            return
        for _, value in new:
            self._first_held.setdefault((key, value.split("\n")[0].removeprefix("T:")), self._now())
        if not self.is_forgotten(key):
            self._must_hold(chain_problem(self.values(key)), key)
            if any(not value.startswith("X:") for _, value in new):
                self._must_hold(self._shard_problem(key), key)

    def values(self, key: ItemKey) -> list[str]:
        """The values that were ever chosen for an item, by ballot."""
        return [v for _, v in sorted(self._chosen[key], key=lambda a: (a[0], a[1].startswith("C:")))]

    def boundary_us(self, moment: float) -> int:
        """How far ids may have been forgotten at a moment of virtual time."""
        return max((r.boundary_us or 0 for since, r in self._registers if since <= moment), default=0)

    def is_forgotten(self, key: ItemKey) -> bool:
        """Whether gc may delete the id by now: what is stored from then on is read by nobody."""
        boundary_us = self.register.boundary_us
        return boundary_us is not None and self._event_us[key.s] < boundary_us

    def first_held(self, key: ItemKey, token: str) -> float:
        """When the token was first chosen, be it forgotten since."""
        return self._first_held.get((key, token), NO_END)

    def is_cleared_of(self, key: ItemKey, datacenter: str) -> bool:
        """Whether a datacenter has held the id, and a store that counts has its name in place of a token.

        One such copy decides (protocol B6). Where a minority is down, a clearing ends with a majority of
        them, and that need not be *chosen*: the fast round needs more.
        """
        if (key, encode_value(Cleared(datacenter))) not in self._cleared:
            return False
        return any(held == key and datacenter_of(token) == datacenter for held, token in self._first_held)

    # -- a registry that is put back from a copy

    def snapshot(self) -> tuple[Any, ...]:
        """All that was chosen until now."""
        return deepcopy((self.register, dict(self._taken), dict(self._chosen), self._shards, self._registers))

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """All that was chosen since is as if it had never been; but who held an id has held it."""
        self.register, taken, values, self._shards, self._registers = snapshot
        self._taken.clear()
        self._taken.update(taken)
        self._chosen.clear()
        self._chosen.update(values)

    # -- the register

    def _counted_registers(self, taken: Iterable[set[Acceptance]]) -> list[set[Acceptance]]:
        """Without what was taken by stores that do not count for the register: before it, or with it."""
        before = _out(self.register.members)
        return [
            {a for a in by_slot if slot not in (*before, *_out(_decode(a[1]).members))}
            for slot, by_slot in enumerate(taken)
        ]

    def _follow_register(self) -> None:
        history = [_decode(value) for value in self.values(REGISTER_KEY)]
        incarnations = self.register.members.incarnations
        self.register = history[-1]
        self._registers.append((self._now(), self.register))
        for before, after in pairwise(history):
            self._must_hold(_went_back(before, after), REGISTER_KEY)
        for slot, incarnation in enumerate(self.register.members.incarnations):
            if incarnation != incarnations[slot]:
                for taken in self._taken.values():
                    taken[slot].clear()

    # -- rules

    def _shard_problem(self, key: ItemKey) -> str | None:
        shard = self._shards.setdefault(key.s, key.p)
        return None if shard == key.p else f"C3: the id is under two configs, also in {shard}"

    def _must_hold(self, problem: str | None, key: ItemKey) -> None:
        if problem and not self._is_silent:
            raise RuleBroken(f"{key}: {problem}")


def _out(members: Members) -> tuple[int, ...]:
    return (*members.down, *members.fresh)


def _went_back(before: Register, after: Register) -> str | None:
    if before.horizon_us is not None and (after.horizon_us or 0) < before.horizon_us:
        return f"F9: the horizon went back from {before.horizon_us} to {after.horizon_us}"
    if not after.has_boundary_of(before):
        return f"F9: a boundary went back, from {before.boundary_us} to {after.boundary_us}"
    if after.members.version < before.members.version:
        return "F9: the members' version went back"
    if _places(after, before.horizon_us) != _places(before, before.horizon_us):
        return f"C3: ids below the horizon {before.horizon_us} are looked for elsewhere"
    return None


def _places(register: Register, horizon_us: int | None) -> list[tuple[int, int | None]]:
    """Into how many shards ids go from when on, below a horizon."""
    return [
        (config.shards, config.start_us)
        for config in register.configs
        if config.start_us is None or horizon_us is None or config.start_us < horizon_us
    ]
