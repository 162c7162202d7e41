"""Ask the stores in parallel, under the members that the register names, until the replies suffice (B13).

What is under way then ends aside. A store that did not answer is spared until a probe gets an answer.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from photon.process.clock import Clock
from photon.registry.register import Members
from photon.registry.stores.channel import Channel
from photon.registry.stores.copies import REGISTER_KEY, NoReply, Store
from photon.registry.stores.deadline import Deadline
from photon.registry.stores.health import EndpointsHealth

Q = TypeVar("Q")
R = TypeVar("R")
Reopen = Callable[[int, str], Store]
Enough = Callable[[int, Sequence[Any]], bool]  # whether the replies to the request of this number suffice

ASIDE_AT_ONCE = 4  # requests to a slow endpoint, which nobody waits for: they are no load for it

_NOT_HEARD = NoReply("the store is out of use, or was not waited for", "not_asked")


@dataclass(frozen=True, slots=True, eq=False)
class ActiveStores:
    """The stores that are asked under these members, by slot; None where one is out of use."""

    members: Members
    stores: tuple[Store | None, ...]

    @property
    def n(self) -> int:
        """How many there are, also out of use: quorums never change."""
        return len(self.stores)

    @property
    def slots(self) -> list[int]:
        """Those in use."""
        return [slot for slot, store in enumerate(self.stores) if store is not None]

    @property
    def out(self) -> tuple[int, ...]:
        """The slots that do not count for the register."""
        return (*self.members.down, *self.members.fresh)


class Stores:
    """All stores of a registry, the channel to them, the clock and the randomness. Thread-safe.

    `members`: as found; `reopen` opens the store of an incarnation in a slot. `chance` makes ballots unique.
    """

    def __init__(
        self,
        members: Members,
        reopen: Reopen,
        channel: Channel,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._reopen = reopen
        self._channel = channel
        self._clock = clock
        self._chance = chance
        self._lock = threading.Lock()
        self._opened = [reopen(slot, name) for slot, name in enumerate(members.incarnations)]
        self._active = self._under(members)
        self.health = EndpointsHealth(len(self._opened), clock)

    @property
    def active(self) -> ActiveStores:
        """The stores that are asked now. Replies under different ones do not go together (B11)."""
        return self._active

    def deadline(self, seconds: float) -> Deadline:
        """The end of a call, by the monotonic clock (B15)."""
        return Deadline(self._clock, seconds, self._chance)

    def new_proposer(self) -> str:
        """Random 64 bits as 16 hex digits, which keep ballots of different proposers apart (B4)."""
        return f"{self._chance.getrandbits(64):016x}"

    def follow(self, members: Members) -> None:
        """Ask the stores that `members` name, from the next attempt on."""
        with self._lock:
            before = self._active.members
            if members == before:
                return
            for slot, incarnation in enumerate(members.incarnations):
                if before.incarnations[slot] != incarnation:
                    self._opened[slot] = self._reopen(slot, incarnation)
                    self.health.forget(slot)
            self._active = self._under(members)

    def close(self) -> None:
        """Stop, once all requests that are under way are answered."""
        self._channel.close()

    def prompt(self, active: ActiveStores) -> int:
        """How many stores will answer in time, as far as is known."""
        return len(self.health.prompt_among(active.slots))

    def nearest(self, active: ActiveStores) -> int:
        """The slot of the store that has been quickest."""
        return self.health.nearest_among(active.slots)

    def ask(
        self,
        active: ActiveStores,
        call: Callable[[Store, Q], R],
        requests: Sequence[Q],
        enough: Enough,
        deadline: Deadline,
        slots: Collection[int] | None = None,
        is_write: bool = False,
    ) -> list[list[R | NoReply]]:
        """The replies of all stores to each request, once they are `enough` or the deadline passes.

        `slots`: only these are asked. A slow store is left out while it has too much to do.
        """
        self._probe(active)
        asked = self._asked(active, active.slots if slots is None else slots)
        parts = [(slot, number) for number in range(len(requests)) for slot in asked]
        sent = [(cast(Store, active.stores[slot]), (slot, requests[number])) for slot, number in parts]

        def send(store: Store, request: tuple[int, Q]) -> R | NoReply:
            # Asked when it is its turn: what stood in line behind a time-out need not meet it too.
            slot, asked_for = request
            return call(store, asked_for) if self.health.lets_pass(slot) else _spared(slot)

        def heard(index: int, reply: R | NoReply, seconds: float) -> None:
            slot = parts[index][0]
            if self._active.stores[slot] is active.stores[slot]:
                self.health.heard(slot, reply, is_write)
                self.health.measure(slot, reply, seconds)
                if slots is None and not isinstance(reply, NoReply):
                    self.health.took(slot, seconds)

        replies: list[list[R | NoReply]] = [[_NOT_HEARD] * active.n for _ in requests]
        left = set(range(len(requests))) if deadline.left_seconds() else set()
        if not left:
            return replies
        with closing(self._channel.exchange(send, sent, heard, is_write, deadline)) as exchange:
            for come in exchange:
                for index, reply in come:
                    slot, number = parts[index]
                    replies[number][slot] = reply
                told = {parts[index][1] for index, _ in come}
                left -= {number for number in told & left if enough(number, replies[number])}
                if not left:
                    break
        return replies

    def _asked(self, active: ActiveStores, slots: Collection[int]) -> list[int]:
        """Those in use. Of the slow ones that nobody need wait for, as long as they bear it.

        They are still asked: so it is seen when they are quick again, and they miss little.
        """
        in_use = [slot for slot in active.slots if slot in slots]
        slow = self.health.slow_among([slot for slot in in_use if slot not in active.out])
        return [slot for slot in in_use if slot not in slow or self._bears_more(active.stores[slot])]

    def _bears_more(self, store: Store | None) -> bool:
        return store is not None and self._channel.load(store) < ASIDE_AT_ONCE

    def _under(self, members: Members) -> ActiveStores:
        return ActiveStores(
            members,
            tuple(None if slot in members.down else store for slot, store in enumerate(self._opened)),
        )

    def _probe(self, active: ActiveStores) -> None:
        """See in the background whether stores that did not answer do again."""
        for slot in filter(self.health.take_probe, active.slots):
            self._channel.in_background(partial(self._send_probe, slot, active.stores[slot]))

    def _send_probe(self, slot: int, store: Store | None) -> None:
        assert store is not None
        self.health.heard(slot, store.get(REGISTER_KEY))


def _spared(slot: int) -> NoReply:
    return NoReply(f"endpoint {slot + 1} did not answer lately; it is being probed", "not_asked")
