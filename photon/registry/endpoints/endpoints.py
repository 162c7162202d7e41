"""Sending one kind of request to all endpoints at once, cut into batches, until enough have answered.

Which store is in which slot follows the register's members. An endpoint that does not answer is spared.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

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
    Same,
    WriteReply,
    different,
)
from photon.registry.consensus.layout import REGISTER_KEY, ItemKey
from photon.registry.consensus.quorums import Enough, all_of_them
from photon.registry.consensus.register import Members
from photon.registry.endpoints.channel import Channel, Send
from photon.registry.endpoints.deadline import MACHINE_CHANCE, Deadline
from photon.registry.endpoints.health import Health, Hearing
from photon.registry.endpoints.parts import Part, Replies, batches, cut

Q = TypeVar("Q")
R = TypeVar("R")
Reopen = Callable[[int, str], Acceptor]  # the acceptor of an incarnation of the store in a slot


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


@dataclass(slots=True)
class _Call:
    """A call of one thread: nothing is waited for beyond its deadline, and nothing is asked later."""

    deadline: Deadline | None = None  # None: it waits for all that it asks
    reason: str = "no answer before the call's deadline"  # why there was none, as it was last heard

    @property
    def is_over(self) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and not self.deadline.left_seconds()

    def hear(self, answers: Sequence[object]) -> None:
        """Take note of what an endpoint says, if it says why there is no answer."""
        for answer in different(answers):
            if isinstance(answer, NoReply) and answer.kind != "not_asked":
                self.reason = answer.reason


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
        health: Health | None = None,
        members: Members | None = None,
        reopen: Reopen | None = None,
    ) -> None:
        self.acceptors = tuple(acceptors)  # also of slots that are out of use: for their limits
        self._channel = channel
        self._clock = clock
        self.chance = chance
        self._health = health
        self._reopen = reopen
        self._lock = threading.Lock()
        self._active = ActiveEndpoints.of(members, self.acceptors)
        self._calls = threading.local()

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
        """One store by itself, in use or not, whatever its health; over the same channel or another one."""
        return Endpoints([acceptor], channel or self._channel, self._clock, self.chance)

    def in_background(self, work: Callable[[], None]) -> None:
        """Have `work` done some time, without waiting for it; it may ask the endpoints."""
        self._channel.in_background(work)

    def deadline(self, seconds: float) -> Deadline:
        """The end of work that may be `seconds` without progress, and does not outlive this thread's call."""
        return Deadline(self._clock, seconds, self.chance, within=self._call().deadline)

    @contextmanager
    def call(self, seconds: float) -> Iterator[Deadline]:
        """A call of this thread, or a part of one, that may be `seconds` without progress: its deadline.

        Nothing that the thread asks in it is waited for any longer, and nothing is asked later.
        """
        outer, deadline = self._call(), self.deadline(seconds)
        self._calls.current = _Call(deadline)
        try:
            yield deadline
        finally:
            self._calls.current = outer

    def _call(self) -> _Call:
        return getattr(self._calls, "current", None) or _Call()

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
                    if self._health is not None:
                        self._health.forget(slot)
            self.acceptors = tuple(acceptors)
            self._active = ActiveEndpoints.of(members, self.acceptors)

    # -- requests, as of `Acceptor`: for each the replies of the endpoints, in their order

    def insert(
        self,
        inserts: Sequence[Insert],
        enough: Enough,
        after_each: Callable[[], None] = lambda: None,
        asked: Mapping[int, Sequence[int]] | None = None,
    ) -> Replies[WriteReply]:
        return self._write(lambda a, batch: a.insert(batch), inserts, enough, after_each, asked)

    def read(self, items: Sequence[ItemKey], enough: Enough, slow_too: bool = False) -> Replies[ReadReply]:
        per_request = min(acceptor.reads_per_request for acceptor in self.acceptors)
        return self.ask(
            lambda acceptor, batch: acceptor.read(batch), items, per_request, enough, slow_too=slow_too
        )

    def prepare(self, prepares: Sequence[Prepare], enough: Enough) -> Replies[PrepareReply]:
        return self._write(lambda a, batch: a.prepare(batch), prepares, enough)

    def accept(
        self,
        accepts: Sequence[Accept],
        enough: Enough,
        after_each: Callable[[], None] = lambda: None,
        asked: Mapping[int, Sequence[int]] | None = None,
    ) -> Replies[AcceptReply]:
        return self._write(lambda a, batch: a.accept(batch), accepts, enough, after_each, asked)

    def replace(self, replaces: Sequence[Replace], enough: Enough) -> Replies[WriteReply]:
        return self._write(lambda a, batch: a.replace(batch), replaces, enough)

    def _write(
        self,
        send: Send[Q, R],
        writes: Sequence[Q],
        enough: Enough,
        after_each: Callable[[], None] = lambda: None,
        asked: Mapping[int, Sequence[int]] | None = None,
    ) -> Replies[R]:
        per_request = min(acceptor.writes_per_request for acceptor in self.acceptors)
        return self.ask(send, writes, per_request, enough, after_each, asked, is_write=True)

    def ask(
        self,
        send: Send[Q, R],
        requests: Sequence[Q],
        per_request: int,
        enough: Enough,
        after_each: Callable[[], None] = lambda: None,
        asked: Mapping[int, Sequence[int]] | None = None,
        is_write: bool = False,
        slow_too: bool = False,
    ) -> Replies[R]:
        """Send requests in batches of `per_request`, all under the same members.

        Returns once the replies to each request are `enough`, or the deadline of the thread's call passes.
        The rest arrives aside (protocol B13). So does what a slow endpoint is sent, unless `all_of_them` are
        wanted; `slow_too`: or unless the others' replies are not enough. `asked`: by slot the indices of the
        requests for it; None: all for each. `after_each` is called, in this thread, whenever a batch has been
        answered.
        """
        if not requests:
            return Replies(0, self.n, (), enough)
        active = self._active
        self._probe(active)
        parts = cut(len(requests), per_request, active.acceptors, asked)
        sent = list(zip(parts, batches(requests, parts), strict=True))
        slow = frozenset[int]() if enough is all_of_them else self._slow(active)
        quick, late = (
            [(part, batch) for part, batch in sent if (part.slot in slow) is is_slow]
            for is_slow in (False, True)
        )
        waited_for = parts if slow_too else [part for part, _ in quick]
        replies: Replies[R] = Replies(len(requests), self.n, waited_for, enough)
        hearing = Hearing(self._health, lambda part: self._active.acceptors[part.slot] is part.acceptor)
        send = hearing.sender(send, parts)
        if late and not slow_too:
            self._channel.aside(send, *hearing.told_of(late))
        self._wait_for(quick, send, hearing, replies, after_each, is_write)
        if slow_too:
            needed = [(part, batch) for part, batch in late if replies.needs(part)]
            self._wait_for(needed, send, hearing, replies, after_each, is_write)
        return replies

    def _wait_for(
        self,
        sent: Sequence[tuple[Part, Sequence[Q]]],
        send: Send[Q, Any],
        hearing: Hearing,
        replies: Replies[Any],
        after_each: Callable[[], None],
        is_write: bool,
    ) -> None:
        """Send these parts, and put their answers among the replies until these are enough."""
        call, unheard = self._call(), dict(enumerate(part for part, _ in sent))
        if sent and not call.is_over:
            until, patience_seconds = call.deadline, call.deadline.left_seconds() if call.deadline else 0.0
            with closing(self._channel.exchange(send, *hearing.told_of(sent), is_write, until)) as exchange:
                for come in exchange:
                    got_on = replies.got_on
                    for number, answers in come:
                        replies.take(unheard.pop(number), answers)
                        after_each()
                        call.hear(answers)
                    if replies.are_enough():
                        return
                    if until is not None and replies.got_on > got_on:
                        until.leave(patience_seconds)  # so many take a while: only the last of them count
        for part in unheard.values():  # the call's time is up
            replies.take(part, Same(NoReply(call.reason, "not_asked"), len(part.indices)))

    def prompt(self) -> int:
        """How many endpoints will answer in time, as far as is known."""
        slots = _slots_of(self._active)
        return len(slots if self._health is None else self._health.prompt_among(slots))

    def _slow(self, active: ActiveEndpoints) -> frozenset[int]:
        """The slots that nobody need wait for: a majority that counts for the register too is quicker."""
        if self._health is None:
            return frozenset()
        fresh = () if active.members is None else active.members.fresh
        return self._health.slow_among([slot for slot in _slots_of(active) if slot not in fresh])

    def _probe(self, active: ActiveEndpoints) -> None:
        """See in the background whether endpoints that did not answer do again."""
        if self._health is None:
            return
        for slot in self._health.probes_due(_slots_of(active)):
            acceptor = active.acceptors[slot]
            assert acceptor is not None
            self._channel.in_background(partial(self._send_probe, self._health, slot, acceptor))

    def _send_probe(self, health: Health, slot: int, acceptor: Acceptor) -> None:
        health.heard(slot, acceptor.read([REGISTER_KEY]))


def _slots_of(active: ActiveEndpoints) -> list[int]:
    return [slot for slot, acceptor in enumerate(active.acceptors) if acceptor is not None]
