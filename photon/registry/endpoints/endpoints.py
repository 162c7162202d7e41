"""Sending one kind of request to all endpoints at once, cut into batches.

Which store is in which slot follows the register's members. An endpoint that does not answer is spared.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from photon.clock import MICROSECONDS, Clock
from photon.registry.consensus.acceptor import Acceptor, NoReply
from photon.registry.consensus.layout import REGISTER_KEY
from photon.registry.consensus.register import Members
from photon.registry.endpoints.breaker import Breaker, is_silence
from photon.registry.endpoints.channel import Channel

Q = TypeVar("Q")
R = TypeVar("R")

FIRST_BACKOFF_SECONDS = 0.02
MAX_BACKOFF_SECONDS = 1.0

log = logging.getLogger(__name__)

MACHINE_CHANCE: random.Random = random.SystemRandom()


# The acceptor of an incarnation of the store in a slot.
Reopen = Callable[[int, str], Acceptor]

_NOT_ASKED = NoReply("the endpoint is out of use: it is being repaired", "not_asked")
_SPARED = NoReply("the endpoint did not answer lately; it is being probed", "not_asked")


@dataclass(frozen=True, slots=True)
class ActiveEndpoints:
    """Who is asked under these members: the acceptor in each slot, None where it is out of use."""

    members: Members | None  # None: the register has not been read yet
    acceptors: tuple[Acceptor | None, ...]
    changes: int = 0  # how often members were followed


class Endpoints:
    """The acceptors of a registry, the channel to them, and the randomness of the one who asks.

    `chance` makes ballots unique: the machine's own, except in a simulation that has to be repeatable.
    `members`: whose stores the acceptors are, as far as known; `reopen` gives those of other incarnations.
    Without `reopen` the acceptors stay, whatever the members are called.
    """

    def __init__(
        self,
        acceptors: Sequence[Acceptor],
        channel: Channel,
        chance: random.Random = MACHINE_CHANCE,
        breaker: Breaker | None = None,
        members: Members | None = None,
        reopen: Reopen | None = None,
    ) -> None:
        self.acceptors = tuple(acceptors)  # also of slots that are out of use: for their limits
        self.chance = chance
        self._channel = channel
        self._breaker = breaker
        self._reopen = reopen
        self._lock = threading.Lock()
        self._active = _active_endpoints(members, self.acceptors)

    @property
    def n(self) -> int:
        """How many endpoints there are: N of the protocol. Slots that are out of use are among them."""
        return len(self.acceptors)

    @property
    def active(self) -> ActiveEndpoints:
        """Who is asked now. Replies under different ones do not go together (protocol B11)."""
        return self._active

    def close(self) -> None:
        """End the channel, once what was sent is answered."""
        self._channel.close()

    def alone(self, acceptor: Acceptor) -> Endpoints:
        """One store by itself, in use or not, over the same channel: nothing is counted or spared here."""
        return Endpoints([acceptor], self._channel, self.chance)

    def new_proposer(self) -> str:
        """Random 64 bits as 16 hex digits, which keep ballots of different proposers apart (protocol B4)."""
        return f"{self.chance.getrandbits(64):016x}"

    def follow(self, members: Members) -> None:
        """Ask the stores that `members` name, from the next request on."""
        with self._lock:
            before = self._active.members
            if members == before:
                return
            acceptors = list(self.acceptors)
            for slot, incarnation in enumerate(members.incarnations):
                moved = before is not None and before.incarnations[slot] != incarnation
                if moved and self._reopen is not None:
                    acceptors[slot] = self._reopen(slot, incarnation)
                    if self._breaker is not None:
                        self._breaker.forget(slot)
            self.acceptors = tuple(acceptors)
            self._active = _active_endpoints(members, self.acceptors, self._active.changes + 1)

    def ask(
        self,
        send: Callable[[Acceptor, Sequence[Q]], list[R]],
        requests: Sequence[Q],
        per_request: int,
        after_each: Callable[[], None] = lambda: None,
        without: Collection[int] = (),
    ) -> list[list[R]]:
        """For each request the replies of the endpoints, in their order, all under the same members.

        Slots in `without` are not asked. `after_each` is called, in this thread, whenever a batch has been
        answered.
        """
        if not requests:
            return []
        active = self._active
        self._probe(active)
        slots = {id(acceptor): slot for slot, acceptor in enumerate(active.acceptors)}
        silent: set[int] = set()

        def send_unless_silent(acceptor: Acceptor, batch: Sequence[Q]) -> list[Any]:
            # Decided on the thread that sends: what waited in line behind a time-out need not meet it too.
            slot = slots[id(acceptor)]
            if slot in silent or not self._lets_pass(slot):
                return [_SPARED] * len(batch)
            answers = send(acceptor, batch)
            if is_silence(answers):
                silent.add(slot)
            return answers

        replies: dict[tuple[int, int], R] = {}
        parts: list[tuple[int, int]] = []
        sent: list[tuple[Acceptor, Sequence[Q]]] = []
        for start in range(0, len(requests), per_request):
            for slot, acceptor in enumerate(active.acceptors):
                if acceptor is not None and slot not in without:
                    parts.append((start, slot))
                    sent.append((acceptor, requests[start : start + per_request]))
        for index, answers in self._channel.exchange(send_unless_silent, sent):
            start, slot = parts[index]
            if self._active.acceptors[slot] is sent[index][0]:
                self._hear(slot, answers)
            for offset, reply in enumerate(answers):
                replies[start + offset, slot] = reply
            after_each()
        nobody: Any = _NOT_ASKED
        return [
            [replies.get((index, slot), nobody) for slot in range(self.n)] for index in range(len(requests))
        ]

    def _lets_pass(self, slot: int) -> bool:
        return self._breaker is None or self._breaker.lets_pass(slot)

    def _probe(self, active: ActiveEndpoints) -> None:
        """See aside whether those who did not answer do again."""
        if self._breaker is None:
            return
        for slot, acceptor in enumerate(active.acceptors):
            if acceptor is not None and self._breaker.take_probe(slot):
                self._channel.in_background(partial(self._look, slot, acceptor))

    def _look(self, slot: int, acceptor: Acceptor) -> None:
        self._hear(slot, acceptor.read([REGISTER_KEY]))

    def _hear(self, slot: int, answers: Sequence[Any]) -> None:
        news = None if self._breaker is None else self._breaker.saw(slot, answers)
        if news == "fell_silent":
            log.warning("endpoint %d of the registry does not answer: %s", slot + 1, answers[0].reason)
        elif news == "is_back":
            log.warning("endpoint %d of the registry answers again", slot + 1)


def _active_endpoints(
    members: Members | None, acceptors: Sequence[Acceptor], changes: int = 0
) -> ActiveEndpoints:
    down = () if members is None else members.down
    asked = tuple(None if slot in down else acceptor for slot, acceptor in enumerate(acceptors))
    return ActiveEndpoints(members, asked, changes)


class Deadline:
    """The time that a call may take without getting on, and the pauses between its attempts."""

    def __init__(self, clock: Clock, seconds: float, chance: random.Random = MACHINE_CHANCE) -> None:
        self._clock = clock
        self._chance = chance
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Begin anew: the call gets on, and a large one may take longer than the time for an answer."""
        self._end_us = self._clock.now_us() + round(self._seconds * MICROSECONDS)
        self._attempts = 0

    def pause(self) -> bool:
        """Wait, longer each time and with jitter, for the next attempt; False if the time is up."""
        left_seconds = (self._end_us - self._clock.now_us()) / MICROSECONDS
        if left_seconds <= 0:
            return False
        longest = min(FIRST_BACKOFF_SECONDS * 2**self._attempts, MAX_BACKOFF_SECONDS)
        self._attempts += 1
        # Jitter: proposers that collided once must not do so again and again.
        self._clock.sleep(min(longest * self._chance.uniform(0.5, 1.0), left_seconds))
        return True
