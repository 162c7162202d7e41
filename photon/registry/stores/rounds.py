"""The rounds that decide positions: insert at all stores, and a ballot where that decides nothing.

One round goes to many positions at once, one in each ledger. See the package for what each proves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from photon.registry.register import Register
from photon.registry.stores.asking import ActiveStores, Stores
from photon.registry.stores.copies import (
    FAST_BALLOT,
    Accept,
    Copy,
    Done,
    Insert,
    Key,
    NoReply,
    Prepare,
    Promised,
    Refused,
)
from photon.registry.stores.deadline import Deadline
from photon.registry.stores.decisions import (
    ballot,
    chosen,
    count_answers,
    count_done,
    counter_above,
    fast_quorum,
    is_voted,
    majority,
    reason_of,
    value_to_propose,
)
from photon.registry.stores.register_store import MEMBERS_MOVED, RegisterStore

THROTTLED_SECONDS = 0.5  # then the other stores decide by a ballot, if they can (B14)

Judge = Callable[[Key, Any], Any]  # a reply as it counts: NoReply in place of one with a damaged copy


@dataclass(slots=True)
class Contender:
    """One value offered for one position. `chosen`: what is, once that is known."""

    key: Key
    value: bytes
    proposer: str  # of this offer alone: two values of one writer must never share a ballot
    counter: int = 1
    needs_ballot: bool = False
    was_outbid: bool = False
    reason: str = ""
    chosen: bytes | None = None

    def next_ballot(self) -> str:
        """A ballot above all seen. Each is used once: an answer to it may have got lost."""
        self.counter += 1
        return ballot(self.counter - 1, self.proposer)

    def note(self, copies: Iterable[Copy]) -> None:
        """Go above these ballots."""
        self.counter = max(self.counter, counter_above(copies))


class Rounds:
    """Offers values under the members of an attempt. It returns at the latest when the deadline passes."""

    def __init__(self, stores: Stores, register: RegisterStore, judged: Judge) -> None:
        self._stores = stores
        self._register = register
        self._judged = judged

    def offer(self, contenders: Sequence[Contender], active: ActiveStores, deadline: Deadline) -> None:
        """Bring each position to a decision; a contender without one has a reason."""
        left = list(contenders)
        while left:
            self._fast([c for c in left if not c.needs_ballot], active, deadline)
            self._classic([c for c in left if c.needs_ballot and c.chosen is None], active, deadline)
            left = [contender for contender in left if contender.chosen is None]
            if left and all(not contender.needs_ballot for contender in left):
                self._register.read_once(deadline)  # the members may have moved: then we know whom to ask
            if self._stores.active is not active:
                for contender in left:
                    contender.reason = MEMBERS_MOVED
                return
            if left and not deadline.pause(outbid=any(contender.was_outbid for contender in left)):
                return

    def _fast(self, contenders: Sequence[Contender], active: ActiveStores, deadline: Deadline) -> None:
        """Insert the values, with a promise where too few stores will answer in time (B13)."""
        with_promise = self._stores.prompt(active) < fast_quorum(active.n)
        inserts = [
            Insert(c.key, c.value, c.next_ballot() if with_promise else FAST_BALLOT) for c in contenders
        ]
        promised: list[tuple[Contender, str, bytes]] = []
        for contender, insert, replies in zip(
            contenders, inserts, self._insert(inserts, active, deadline), strict=True
        ):
            done = count_done(replies)
            # What was inserted lies there as a copy without a ballot.
            copies = [reply.now for reply in replies if isinstance(reply, Refused)]
            copies += [Copy(insert.value)] * done
            contender.note(copies)
            contender.chosen = chosen(copies, active.n)
            if contender.chosen is not None:
                continue
            contender.reason = reason_of(replies)
            contender.needs_ballot = len(copies) >= majority(active.n)
            if insert.ballot != FAST_BALLOT and done >= majority(active.n):
                # A majority promised, and had nothing but the own value: that is what is carried on (B4).
                promised.append((contender, insert.ballot, insert.value))
        self._accept(promised, active, deadline)

    def _insert(self, inserts: Sequence[Insert], active: ActiveStores, deadline: Deadline) -> list[list[Any]]:
        """Insert at all stores; again where one throttles, which had no effect there (B14)."""
        asked: list[int] | None = None
        throttled = self._stores.deadline(THROTTLED_SECONDS)
        replies: list[list[Any]] = [[] for _ in inserts]
        left = list(range(len(inserts)))
        while left:
            answers = self._stores.ask(
                active,
                lambda store, insert: self._judged(insert.key, store.insert(insert)),
                [inserts[number] for number in left],
                lambda _, some: count_answers(some) >= fast_quorum(active.n),
                deadline,
                slots=asked,
                is_write=True,
            )
            for number, some in zip(left, answers, strict=True):
                before = replies[number] or some
                replies[number] = [
                    new if isinstance(old, NoReply) else old for old, new in zip(before, some, strict=True)
                ]
            left = [number for number in left if _waits_for_capacity(replies[number], active.n)]
            asked = sorted({s for number in left for s, r in enumerate(replies[number]) if _is_throttled(r)})
            if left and not (deadline.left_seconds() and throttled.pause()):
                break
        return replies

    def _classic(self, contenders: Sequence[Contender], active: ActiveStores, deadline: Deadline) -> None:
        """Prepare and accept with a ballot above all seen."""
        if not contenders or not deadline.left_seconds() or self._stores.active is not active:
            return
        prepares = [Prepare(contender.key, contender.next_ballot()) for contender in contenders]
        answers = self._stores.ask(
            active,
            lambda store, prepare: self._judged(prepare.key, store.prepare(prepare)),
            prepares,
            lambda _, replies: is_voted(replies, active.n),
            deadline,
            is_write=True,
        )
        proposed: list[tuple[Contender, str, bytes]] = []
        for contender, prepare, replies in zip(contenders, prepares, answers, strict=True):
            promised = [reply.before for reply in replies if isinstance(reply, Promised)]
            self._heed(contender, replies)
            contender.chosen = chosen([*promised, *_refusing(replies)], active.n)
            if contender.chosen is None and len(promised) >= majority(active.n):
                value = value_to_propose(contender.value, promised, active.n)
                proposed.append((contender, prepare.ballot, value))
        self._accept(proposed, active, deadline)

    def _accept(
        self, proposed: Sequence[tuple[Contender, str, bytes]], active: ActiveStores, deadline: Deadline
    ) -> None:
        """Accept what a majority promised, once the register has the same members as before (B11)."""
        if not proposed:
            return
        register = self._register.read_once(deadline)
        if not isinstance(register, Register) or self._stores.active is not active:
            for contender, _, _ in proposed:
                contender.reason = register.reason if isinstance(register, NoReply) else MEMBERS_MOVED
            return
        answers = self._stores.ask(
            active,
            lambda store, accept: self._judged(accept.key, store.accept(accept)),
            [Accept(contender.key, own, value) for contender, own, value in proposed],
            lambda _, replies: is_voted(replies, active.n),
            deadline,
            is_write=True,
        )
        for (contender, _, value), replies in zip(proposed, answers, strict=True):
            self._heed(contender, replies)
            contender.needs_ballot = True
            if sum(isinstance(reply, Done) for reply in replies) >= majority(active.n):
                contender.chosen = value

    def _heed(self, contender: Contender, replies: Sequence[Any]) -> None:
        refusing = _refusing(replies)
        contender.note([*refusing, *(reply.before for reply in replies if isinstance(reply, Promised))])
        contender.was_outbid = bool(refusing)
        contender.reason = reason_of(replies)


def _refusing(replies: Sequence[Any]) -> list[Copy]:
    return [reply.now for reply in replies if isinstance(reply, Refused)]


def _is_throttled(reply: object) -> bool:
    return isinstance(reply, NoReply) and reply.kind == "throttled"


def _waits_for_capacity(replies: Sequence[object], n: int) -> bool:
    """Whether a store throttles, no other value is in the way, and more inserts are needed."""
    return (
        any(map(_is_throttled, replies))
        and not any(isinstance(reply, Refused) for reply in replies)
        and count_done(replies) < fast_quorum(n)
    )
