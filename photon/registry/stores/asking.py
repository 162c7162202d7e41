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

from photon.clock import MICROSECONDS, Clock
from photon.registry.register import Members
from photon.registry.stores.channel import Channel
from photon.registry.stores.copies import REGISTER_KEY, NoReply, Store
from photon.registry.stores.deadline import MACHINE_CHANCE, Deadline
from photon.registry.stores.health import Health, Hearing, Part

Q = TypeVar("Q")
R = TypeVar("R")
Reopen = Callable[[int, str], Store]  # the store of an incarnation in a slot
Enough = Callable[[int, Sequence[Any]], bool]  # whether the replies to the request of this number suffice

NEWS_SHARE = 0.2  # of the latest request in the time that a store is said to take: one is chance

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

    `chance` makes ballots unique: the machine's own, except in a simulation that has to be repeatable.
    """

    def __init__(
        self,
        members: Members,
        reopen: Reopen,
        channel: Channel,
        clock: Clock,
        chance: random.Random | None = None,
    ) -> None:
        self._reopen = reopen
        self._channel = channel
        self._clock = clock
        self._chance = chance or MACHINE_CHANCE
        self._lock = threading.Lock()
        self._opened = [reopen(slot, name) for slot, name in enumerate(members.incarnations)]
        self._active = self._under(members)
        self.health = Health(len(self._opened), clock)
        self._seconds = [0.0] * len(self._opened)  # how long a store takes, lately

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
        prompt = self.health.prompt_among(active.slots) or active.slots
        return min(prompt, key=lambda slot: (self._seconds[slot], slot))

    def ask(
        self,
        active: ActiveStores,
        call: Callable[[Store, Q], R],
        requests: Sequence[Q],
        enough: Enough,
        deadline: Deadline,
        slots: Collection[int] | None = None,
        is_write: bool = False,
        slow_too: bool = False,
    ) -> list[list[R | NoReply]]:
        """By request the replies of all stores, once they are `enough` or the deadline passes.

        `slots`: only these are asked. A slow store is asked aside, unless the others are no majority;
        `slow_too`: it is waited for if the others' replies are not enough.
        """
        asked = [slot for slot in active.slots if slots is None or slot in slots]
        self._probe(active)
        slow = self.health.slow_among([slot for slot in asked if slot not in active.out])
        parts = [
            Part(slot, cast(Store, active.stores[slot]), number)
            for number in range(len(requests))
            for slot in asked
        ]
        hearing = Hearing(self.health, lambda part: self._active.stores[part.slot] is part.store)
        send = hearing.sender(self._sending(call, active if slots is None else None), parts)
        rounds = [[part for part in parts if (part.slot in slow) is is_slow] for is_slow in (False, True)]
        replies: list[list[R | NoReply]] = [[_NOT_HEARD] * active.n for _ in requests]
        if rounds[1] and not slow_too:
            self._channel.aside(
                send, *hearing.told_of([(part, [requests[part.group]]) for part in rounds.pop()])
            )
        left = set(range(len(requests)))
        for some in rounds:
            sent = [(part, [requests[part.group]]) for part in some if part.group in left]
            if sent and deadline.left_seconds():
                exchange = self._channel.exchange(send, *hearing.told_of(sent), is_write, deadline)
                with closing(exchange):
                    for come in exchange:
                        for number, (reply,) in come:
                            part = sent[number][0]
                            replies[part.group][part.slot] = reply
                        heard = {sent[number][0].group for number, _ in come}
                        left -= {group for group in heard & left if enough(group, replies[group])}
                        if not left:
                            return replies
        return replies

    def _sending(
        self, call: Callable[[Store, Q], R], active: ActiveStores | None
    ) -> Callable[[Any, Sequence[Q]], Sequence[R]]:
        """A request of one; where all of the active stores get the same, how long each takes is noted."""

        def send(store: Any, batch: Sequence[Q]) -> Sequence[R]:
            began_us = self._clock.elapsed_us()
            replies = [call(store, request) for request in batch]
            if active is not None and store in active.stores and not isinstance(replies[0], NoReply):
                slot = active.stores.index(store)
                took_seconds = (self._clock.elapsed_us() - began_us) / MICROSECONDS
                self._seconds[slot] += NEWS_SHARE * (took_seconds - self._seconds[slot])
            return replies

        return send

    def _under(self, members: Members) -> ActiveStores:
        return ActiveStores(
            members,
            tuple(None if slot in members.down else store for slot, store in enumerate(self._opened)),
        )

    def _probe(self, active: ActiveStores) -> None:
        """See in the background whether stores that did not answer do again."""
        for slot in self.health.probes_due(active.slots):
            self._channel.in_background(partial(self._send_probe, slot, active.stores[slot]))

    def _send_probe(self, slot: int, store: Store | None) -> None:
        assert store is not None
        self.health.heard(slot, [store.get(REGISTER_KEY)])
