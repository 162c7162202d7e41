"""Sending one kind of request to all endpoints at once, cut into batches.

Which store is in which slot follows the register's members. An endpoint that does not answer is spared.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from photon.clock import Clock
from photon.registry.consensus.acceptor import (
    Accept,
    Acceptor,
    AcceptReply,
    Insert,
    NoReply,
    Prepare,
    PrepareReply,
    ReadReply,
    Replace,
    WriteReply,
)
from photon.registry.consensus.layout import REGISTER_KEY, ItemKey
from photon.registry.consensus.register import Members
from photon.registry.endpoints.breaker import Breaker, is_silence
from photon.registry.endpoints.concurrency_limit import ConcurrencyLimit
from photon.registry.endpoints.deadline import MACHINE_CHANCE, Deadline

Q = TypeVar("Q")
R = TypeVar("R")
Send = Callable[[Acceptor, Sequence[Q]], list[R]]
Reopen = Callable[[int, str], Acceptor]  # the acceptor of an incarnation of the store in a slot

PROBES_AT_ONCE = 5  # as many as a registry has endpoints

_NOT_ASKED = NoReply("the endpoint is out of use: it is being repaired", "not_asked")
_SPARED = NoReply("the endpoint did not answer lately; it is being probed", "not_asked")

log = logging.getLogger(__name__)


class Channel(Protocol):
    """How requests travel: by threads, or in a simulation as its scheduler decides."""

    def exchange(
        self, send: Send[Q, R], requests: Sequence[tuple[Acceptor, Sequence[Q]]]
    ) -> Iterator[tuple[int, list[R]]]:
        """Send all requests at once: the index and the replies of each, as they are answered."""
        ...

    def in_background(self, work: Callable[[], None]) -> None:
        """Have `work` done some time, without waiting for it."""
        ...

    def close(self) -> None:
        """Stop, once all requests are answered."""
        ...


class Threads:
    """The channel of the product: up to `concurrency` requests at once to each store, each on a thread.

    Each store has threads of its own: requests to a slow one do not hold up those to the others.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._lanes: WeakKeyDictionary[Acceptor, tuple[ThreadPoolExecutor, ConcurrencyLimit]] = (
            WeakKeyDictionary()
        )
        self._background = ThreadPoolExecutor(PROBES_AT_ONCE, thread_name_prefix="registry-probe")

    def exchange(
        self, send: Send[Q, R], requests: Sequence[tuple[Acceptor, Sequence[Q]]]
    ) -> Iterator[tuple[int, list[R]]]:
        futures: dict[Future[list[R]], int] = {}
        for index, (acceptor, batch) in enumerate(requests):
            threads, limit = self._lane_of(acceptor)
            futures[threads.submit(limit.send, partial(send, acceptor, batch))] = index
        return ((futures[future], future.result()) for future in as_completed(futures))

    def in_background(self, work: Callable[[], None]) -> None:
        self._background.submit(work)

    def close(self) -> None:
        with self._lock:
            lanes = list(self._lanes.values())
        for threads, _ in lanes:
            threads.shutdown()
        self._background.shutdown()

    def _lane_of(self, acceptor: Acceptor) -> tuple[ThreadPoolExecutor, ConcurrencyLimit]:
        with self._lock:
            if acceptor not in self._lanes:
                threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="registry")
                self._lanes[acceptor] = (threads, ConcurrencyLimit(self._concurrency))
            return self._lanes[acceptor]


@dataclass(frozen=True, slots=True)
class ActiveEndpoints:
    """The acceptors that are asked under these members, by slot; None where one is out of use."""

    members: Members | None  # None: the register has not been read yet
    acceptors: tuple[Acceptor | None, ...]

    @staticmethod
    def of(members: Members | None, acceptors: Sequence[Acceptor]) -> ActiveEndpoints:
        """All acceptors but those in slots that are down."""
        down = () if members is None else members.down
        asked = tuple(None if slot in down else acceptor for slot, acceptor in enumerate(acceptors))
        return ActiveEndpoints(members, asked)


class Endpoints:
    """The acceptors of a registry, the channel to them, the clock and the randomness of the client.

    `chance` makes ballots unique: the machine's own, except in a simulation that has to be repeatable.
    `members`: those of the acceptors, if known; `reopen` opens other incarnations, if the acceptors may move.
    """

    def __init__(
        self,
        acceptors: Sequence[Acceptor],
        channel: Channel,
        clock: Clock,
        chance: random.Random = MACHINE_CHANCE,
        breaker: Breaker | None = None,
        members: Members | None = None,
        reopen: Reopen | None = None,
    ) -> None:
        self.acceptors = tuple(acceptors)  # also of slots that are out of use: for their limits
        self._channel = channel
        self._clock = clock
        self.chance = chance
        self._breaker = breaker
        self._reopen = reopen
        self._lock = threading.Lock()
        self._active = ActiveEndpoints.of(members, self.acceptors)

    @property
    def n(self) -> int:
        """How many endpoints there are, also out of use: N of the protocol."""
        return len(self.acceptors)

    @property
    def active(self) -> ActiveEndpoints:
        """The endpoints that are asked now. Replies under different ones do not go together (B11)."""
        return self._active

    def close(self) -> None:
        """Close the channel, once all requests are answered."""
        self._channel.close()

    def alone(self, acceptor: Acceptor, channel: Channel | None = None) -> Endpoints:
        """One store by itself, in use or not, without a breaker; over the same channel or another one."""
        return Endpoints([acceptor], channel or self._channel, self._clock, self.chance)

    def in_background(self, work: Callable[[], None]) -> None:
        """Have `work` done some time, without waiting for it; it may ask the endpoints."""
        self._channel.in_background(work)

    def deadline(self, seconds: float) -> Deadline:
        """The end of a call that may be `seconds` without progress."""
        return Deadline(self._clock, seconds, self.chance)

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
            self._active = ActiveEndpoints.of(members, self.acceptors)

    # -- requests, as of `Acceptor`: for each the replies of the endpoints, in their order

    def insert(
        self,
        inserts: Sequence[Insert],
        after_each: Callable[[], None] = lambda: None,
        asked: Mapping[int, Sequence[int]] | None = None,
    ) -> list[list[WriteReply]]:
        return self.ask(
            lambda acceptor, batch: acceptor.insert(batch), inserts, self._writes(), after_each, asked
        )

    def read(self, items: Sequence[ItemKey]) -> list[list[ReadReply]]:
        per_request = min(acceptor.reads_per_request for acceptor in self.acceptors)
        return self.ask(lambda acceptor, batch: acceptor.read(batch), items, per_request)

    def prepare(self, prepares: Sequence[Prepare]) -> list[list[PrepareReply]]:
        return self.ask(lambda acceptor, batch: acceptor.prepare(batch), prepares, self._writes())

    def accept(
        self,
        accepts: Sequence[Accept],
        after_each: Callable[[], None] = lambda: None,
        asked: Mapping[int, Sequence[int]] | None = None,
    ) -> list[list[AcceptReply]]:
        return self.ask(
            lambda acceptor, batch: acceptor.accept(batch), accepts, self._writes(), after_each, asked
        )

    def replace(self, replaces: Sequence[Replace]) -> list[list[WriteReply]]:
        return self.ask(lambda acceptor, batch: acceptor.replace(batch), replaces, self._writes())

    def _writes(self) -> int:
        return min(acceptor.writes_per_request for acceptor in self.acceptors)

    def ask(
        self,
        send: Send[Q, R],
        requests: Sequence[Q],
        per_request: int,
        after_each: Callable[[], None] = lambda: None,
        asked: Mapping[int, Sequence[int]] | None = None,
    ) -> list[list[R]]:
        """Send requests in batches of `per_request`, all under the same members.

        `asked`: by slot the indices of the requests for it; None: all for each. `after_each` is called, in
        this thread, whenever a batch has been answered.
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
            if slot in silent or not (self._breaker is None or self._breaker.lets_pass(slot)):
                return [_SPARED] * len(batch)
            answers = send(acceptor, batch)
            if is_silence(answers):
                silent.add(slot)
            return answers

        by_slot = dict.fromkeys(range(self.n), range(len(requests))) if asked is None else asked
        parts: list[tuple[int, Sequence[int]]] = []
        sent: list[tuple[Acceptor, Sequence[Q]]] = []
        for start in range(0, len(requests), per_request):
            for slot, indices in by_slot.items():
                acceptor, part = active.acceptors[slot], indices[start : start + per_request]
                if acceptor is not None and part:
                    parts.append((slot, part))
                    sent.append((acceptor, [requests[index] for index in part]))
        nobody: Any = _NOT_ASKED
        replies: list[list[R]] = [[nobody] * self.n for _ in requests]
        for number, answers in self._channel.exchange(send_unless_silent, sent):
            slot, part = parts[number]
            if self._active.acceptors[slot] is sent[number][0]:
                self._take_note(slot, answers)
            for index, reply in zip(part, answers, strict=True):
                replies[index][slot] = reply
            after_each()
        return replies

    def _probe(self, active: ActiveEndpoints) -> None:
        """See in the background whether endpoints that did not answer do again."""
        if self._breaker is None:
            return
        for slot, acceptor in enumerate(active.acceptors):
            if acceptor is not None and self._breaker.take_probe(slot):
                self._channel.in_background(partial(self._send_probe, slot, acceptor))

    def _send_probe(self, slot: int, acceptor: Acceptor) -> None:
        self._take_note(slot, acceptor.read([REGISTER_KEY]))

    def _take_note(self, slot: int, answers: Sequence[Any]) -> None:
        news = None if self._breaker is None else self._breaker.saw(slot, answers)
        if news == "fell_silent":
            log.warning("endpoint %d of the registry does not answer: %s", slot + 1, answers[0].reason)
        elif news == "denies":
            reason = next(answer.reason for answer in answers if answer.kind == "denied")
            log.warning("endpoint %d of the registry does not let us in: %s", slot + 1, reason)
        elif news == "is_back":
            log.warning("endpoint %d of the registry answers again", slot + 1)
