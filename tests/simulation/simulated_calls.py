"""Calls of simulated clients: made, judged at once, and written down for the checker of histories.

Rules F3 to F5 and C3 for what a client is told, and B6 for what a clearing leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from photon.clock import microseconds
from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import ABSENT, Stored
from photon.registry.consensus.layout import ItemKey, fast_value, fenced_epoch, item_key
from photon.registry.consensus.register import Register
from photon.registry.interface import (
    BeyondHorizon,
    Claim,
    Fenced,
    Joined,
    Lost,
    Released,
    TooOld,
    Unknown,
    Won,
)
from photon.registry.quorum.proposer import QuorumRegistry
from tests.simulation.chosen_values import is_held_by, is_released
from tests.simulation.history import Kind, Operation, in_words
from tests.simulation.network import Client, Network
from tests.simulation.observer import NO_END, Observer, RuleBroken
from tests.simulation.simulated_stores import Store, Stores


@dataclass(frozen=True, slots=True)
class Fate:
    """A token that was made for an event, and whether its row will be in the output."""

    token: str
    key: EventKey
    has_row: bool


@dataclass(frozen=True, slots=True)
class Began:
    """What was so when a call began: virtual time, its client's clock, the register."""

    seconds: float
    clock_us: int
    register: Register

    def is_placed(self, key: EventKey) -> bool:
        """Whether the id had its place: it is below the horizon, or carries no time."""
        return key.time_us is None or _is_below(key, self.register.horizon_us)

    def may_be_beyond(self, key: EventKey) -> bool:
        """Whether the event may be beyond the horizon: for what has been, a client moves that on."""
        return not self.is_placed(key) and not _is_below(key, self.clock_us)


class Calls:
    """All calls of one simulation. `only_history`: they are written down and not judged.

    `is_whole`: every store is in use all the time, so that nobody misses an answer for want of one.
    """

    def __init__(
        self,
        network: Network,
        observer: Observer,
        stores: Stores,
        keys: Sequence[EventKey],
        only_history: bool,
        is_whole: bool,
    ) -> None:
        self.operations: list[Operation] = []
        self._network = network
        self._observer = observer
        self._stores = stores
        self._keys = keys
        self._only_history = only_history
        self._is_whole = is_whole

    def commit(self, registry: QuorumRegistry, client: Client, fates: Sequence[Fate]) -> None:
        """Register these tokens."""
        self._call("commit", client, fates, lambda: registry.commit(_claims(fates)))

    def lookup(self, registry: QuorumRegistry, client: Client, keys: Sequence[EventKey]) -> None:
        """Ask who holds these ids."""
        fates = [Fate("", key, False) for key in keys]
        self._call("lookup", client, fates, lambda: registry.lookup(keys))

    def release(self, registry: QuorumRegistry, client: Client, fates: Sequence[Fate]) -> None:
        """Release these tokens."""
        self._call("release", client, fates, lambda: registry.release(_claims(fates)))

    def clear(self, registry: QuorumRegistry, client: Client, fates: Sequence[Fate]) -> None:
        """Clear these tokens."""

        def clear() -> Sequence[object]:
            copies = self._copies_of(fates)
            registry.clear(_claims(fates))
            if self._is_whole and client not in self._network.unheard and not self._only_history:
                _must_be_gone(copies)
            return ["cleared"] * len(fates)

        self._call("clear", client, fates, clear)

    def history(self) -> list[Operation]:
        """The calls, as far as something follows from them."""
        return [
            replace(o, answer="unknown", holder="", end=NO_END) if self._is_moot(o) else o
            for o in self.operations
        ]

    def _is_moot(self, operation: Operation) -> bool:
        """A release asks for no boundary: below it nothing follows from what it found."""
        return operation.kind == "release" and self._may_be_forgotten(operation.id)

    def _call(
        self, kind: Kind, client: Client, fates: Sequence[Fate], call: Callable[[], Sequence[object]]
    ) -> None:
        began = Began(self._network.now_seconds, client.now_us(), self._observer.register)
        self._network.disturbed.discard(client)
        self._network.unheard.discard(client)
        first = len(self.operations)
        # Noted before it begins: a client may be killed within its call.
        self.operations += [
            Operation(kind, f.key.id, f.token, began.seconds, NO_END, "unknown") for f in fates
        ]
        try:
            outcomes = call()
        except RegistryUnavailable:
            outcomes = [Unknown("unavailable")] * len(fates)
        # The clock may have been set back meanwhile.
        elapsed_us = microseconds(timedelta(seconds=self._network.now_seconds - began.seconds))
        began = replace(began, clock_us=min(began.clock_us, client.now_us() - elapsed_us))
        calm = self._is_whole and client not in self._network.disturbed and not self._network.weather.repeated
        for place, (fate, outcome) in enumerate(zip(fates, outcomes, strict=True), first):
            if kind == "release" and not began.is_placed(fate.key):
                continue  # the id has no place yet: nothing follows
            answer, holder = in_words(outcome)
            end = NO_END if answer == "unknown" else self._network.now_seconds
            self.operations[place] = replace(
                self.operations[place],
                end=end,
                answer=answer,
                holder=holder,
                undisturbed=calm,
                may_be_refused=self._is_too_old(fate.key) or began.may_be_beyond(fate.key),
            )
            if not self._only_history:
                self.judge(fate, outcome, began)

    def _is_too_old(self, key: EventKey) -> bool:
        """Whether a boundary above the event was ever raised."""
        return _is_below(key, self._observer.boundary_us(self._network.now_seconds))

    def judge(self, fate: Fate, outcome: object, began: Began) -> None:
        """Whether what a client was told can be true. RuleBroken."""
        register = self._observer.register
        item = item_key(fate.key, register.configs)
        held = self._observer.first_held(item, fate.token)
        values, is_forgotten = self._observer.values(item), self._observer.is_forgotten(item)
        match outcome:
            case Won() if held > self._network.now_seconds:
                raise RuleBroken(f"F3: {fate} won, but is not chosen")
            case Won() if _is_below(fate.key, self._observer.boundary_us(max(began.seconds, held))):
                raise RuleBroken(f"F5: {fate} won below the boundary")
            case Won() if fate.key.time_us is not None and not _is_below(fate.key, register.horizon_us):
                raise RuleBroken(f"C3: {fate} won beyond the horizon {register.horizon_us}")
            case TooOld() if not self._is_too_old(fate.key):
                raise RuleBroken(f"F5: {fate} was told that it is too old, and no boundary is above it")
            case BeyondHorizon() if not began.may_be_beyond(fate.key):
                raise RuleBroken(
                    f"C3: {fate} was told that it is beyond the horizon, {began.register.horizon_us}"
                )
            case Won() if fenced_epoch(fate.token, began.register):
                raise RuleBroken(f"B18: {fate} won, and its epoch was over")
            case Fenced() if not (
                fenced_epoch(fate.token, began.register) or fenced_epoch(fate.token, register)
            ):
                raise RuleBroken(f"B18: {fate} was told that its epoch is over, which it is not")
            case Lost(holder) | Joined(holder):
                if not is_forgotten and not is_held_by(values, holder):
                    raise RuleBroken(f"F4: {fate} was told {outcome}, never chosen")
            case Released() if not is_forgotten and not is_released(values, fate.token):
                raise RuleBroken(f"F3: {fate} was told {outcome}, which it is not")

    def _copies_of(self, fates: Sequence[Fate]) -> list[tuple[Store, ItemKey, Stored]]:
        """Where tokens are stored now."""
        copies = []
        for fate in fates:
            item = item_key(fate.key, self._observer.register.configs)
            there = [(store, item, store.items.get(item, ABSENT)) for store in self._stores.in_use()]
            copies += [copy for copy in there if copy[2].value == fast_value(fate.token)]
        return copies

    def _may_be_forgotten(self, event_id: str) -> bool:
        configs = self._observer.register.configs
        return any(self._observer.is_forgotten(item_key(k, configs)) for k in self._keys if k.id == event_id)


def _must_be_gone(copies: Sequence[tuple[Store, ItemKey, Stored]]) -> None:
    """A clearing that every endpoint answered leaves no copy that was there when it began."""
    for store, item, there in copies:
        if store.items.get(item) == there:
            raise RuleBroken(f"B6: {there} was cleared, and is still in slot {store.slot}, which answers")


def _is_below(key: EventKey, bound_us: int | None) -> bool:
    return key.event_us is not None and bound_us is not None and key.event_us < bound_us


def _claims(fates: Sequence[Fate]) -> list[Claim]:
    return [Claim(fate.key, fate.token) for fate in fates]
