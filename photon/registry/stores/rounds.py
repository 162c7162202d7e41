"""The rounds that decide positions: insert at all stores, and a ballot where that decides nothing.

One round goes to many positions at once, one in each ledger. See the package for what each proves.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from photon.registry.register import Register
from photon.registry.stores.asking import ActiveStores, Stores
from photon.registry.stores.copies import (
    Accept,
    Copy,
    Insert,
    Key,
    NoReply,
    Prepare,
    Promised,
    Refused,
    Store,
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

OUTRUN_TIMES = 2  # positions lost to others and not made up for by own ones; a single loss is chance
WAYS_GIVEN = 2  # waits for who has reserved the position: he needs two round trips, and then seems gone
THROTTLED_SECONDS = 0.5  # an insert waits so long for a store that throttles; then a ballot decides (B14)

Judge = Callable[[Key, Any], Any]  # returns a reply, or NoReply in place of one with a damaged copy


class Reserved(NamedTuple):
    """A position that a majority has promised to this client, before it had a value to offer there."""

    active: ActiveStores
    key: Key
    ballot: str
    copies: Sequence[Copy]  # those that the promising stores had before


@dataclass(slots=True)
class Contender:
    """One value offered for one position. `chosen`: what is, once that is known."""

    key: Key
    value: bytes
    proposer: str  # this offer's alone: two values of one writer must never share a ballot
    reserved: Reserved | None = None  # an earlier offer reserved it, as a check has confirmed
    is_outrun: bool = False  # others are faster in this ledger, again and again
    counter: int = 1
    needs_ballot: bool = False
    was_outbid: bool = False  # somebody else is about to decide there: let him end first
    gave_way: int = 0  # how often it waited for who has reserved the position
    reason: str = ""
    chosen: bytes | None = None
    next: Reserved | None = None  # the position behind it, for the next offer

    def next_ballot(self) -> str:
        """A ballot above all seen. Each is used once: an answer to it may have got lost."""
        self.counter += 1
        return ballot(self.counter - 1, self.proposer)

    def note(self, copies: Iterable[Copy]) -> None:
        """Go above these ballots."""
        self.counter = max(self.counter, counter_above(copies))

    def gives_way(self, copies: Sequence[Copy], n: int) -> bool:
        """Whether to wait for who has reserved the position, and is about to offer there."""
        is_reserved = sum(copy.value is None for copy in copies) >= majority(n)
        self.gave_way += is_reserved
        return is_reserved and self.gave_way <= WAYS_GIVEN


class Reservations:
    """A client's offers so far, as far as they decide how it makes its next ones, by ledger. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reserved: dict[str, Reserved] = {}
        self._outrun: defaultdict[str, int] = defaultdict(int)  # how often; a success takes one away

    def contender(self, key: Key, value: bytes, proposer: str, active: ActiveStores) -> Contender:
        """An offer under these members. What was reserved is used once: a ballot has one value."""
        with self._lock:
            reserved = self._reserved.pop(key.ledger, None)
            is_outrun = self._outrun[key.ledger] >= OUTRUN_TIMES
        if reserved is not None and (reserved.key != key or reserved.active is not active):
            reserved = None
        return Contender(key, value, proposer, reserved, is_outrun)

    def keep(self, reserved: Sequence[Reserved]) -> None:
        """Use these for the next offers: a check has confirmed that they count (B11)."""
        with self._lock:
            self._reserved.update((one.key.ledger, one) for one in reserved)

    def ended(self, ledger: str, is_own: bool) -> None:
        """Take note of whether the value that was chosen is the own one."""
        with self._lock:
            by = -1 if is_own else 1
            self._outrun[ledger] = min(max(0, self._outrun[ledger] + by), OUTRUN_TIMES)


Proposed = tuple[Contender, str, bytes]  # with a ballot, and the value that goes with it


class Rounds:
    """Offers values under the members of an attempt. It returns at the latest when the deadline passes."""

    def __init__(
        self,
        stores: Stores,
        register: RegisterStore,
        judged: Judge,
        active: ActiveStores,
        deadline: Deadline,
    ) -> None:
        self._stores = stores
        self._register = register
        self._judged = judged
        self._active = active
        self._n = active.n
        self._deadline = deadline

    def offer(self, contenders: Sequence[Contender]) -> None:
        """Bring each position to a decision; a contender without one has a reason."""
        left = list(contenders)
        for contender in left:
            contender.needs_ballot = contender.is_outrun or self._lacks_stores()
        while left:
            reserved = [(c, c.reserved) for c in left if c.reserved is not None]
            others = [c for c in left if c.reserved is None]
            self._reserved(reserved)
            self._fast([c for c in others if not c.needs_ballot])
            self._classic([c for c in others if c.needs_ballot and c.chosen is None])
            left = [contender for contender in left if contender.chosen is None]
            if left and not any(contender.needs_ballot or contender.was_outbid for contender in left):
                # The members may have moved: then we know whom to ask.
                self._register.read_once(self._deadline)
            if self._stores.active is not self._active:
                for contender in left:
                    contender.reason = MEMBERS_MOVED
                return
            if left and not self._deadline.pause(outbid=any(contender.was_outbid for contender in left)):
                return

    def _reserved(self, reserved: Sequence[tuple[Contender, Reserved]]) -> None:
        """Offer where promises are there, and a check was after them: that is all that B11 asks for."""
        proposed = []
        for contender, (_, _, own, copies) in reserved:
            contender.reserved = None
            contender.note([*copies, Copy(promised=own)])
            proposed.append((contender, own, value_to_propose(contender.value, copies, self._n)))
        self._accept(proposed)

    def _fast(self, contenders: Sequence[Contender]) -> None:
        """Insert the values."""
        inserts = [Insert(contender.key, contender.value) for contender in contenders]
        for contender, replies in zip(contenders, self._insert(inserts), strict=True):
            # An inserted value lies there as a copy without a ballot.
            copies = [reply.now for reply in replies if isinstance(reply, Refused)]
            copies += [Copy(contender.value)] * count_done(replies)
            contender.note(copies)
            contender.chosen = chosen(copies, self._n)
            contender.reason = reason_of(replies)
            contender.was_outbid = contender.gives_way(copies, self._n)
            contender.needs_ballot = len(copies) >= majority(self._n) and not contender.was_outbid

    def _insert(self, inserts: Sequence[Insert]) -> list[list[Any]]:
        """Insert at all stores; again where one throttles, which had no effect there (B14)."""
        asked: list[int] | None = None
        throttled = self._stores.deadline(THROTTLED_SECONDS)
        replies: list[list[Any]] = [[] for _ in inserts]
        left = list(range(len(inserts)))
        while left:
            answers = self._stores.ask(
                self._active,
                lambda store, insert: self._judged(insert.key, store.insert(insert)),
                [inserts[number] for number in left],
                lambda _, some: count_answers(some) >= fast_quorum(self._n),
                self._deadline,
                slots=asked,
                is_write=True,
            )
            for number, some in zip(left, answers, strict=True):
                before = replies[number] or some
                replies[number] = [
                    new if isinstance(old, NoReply) else old for old, new in zip(before, some, strict=True)
                ]
            left = [number for number in left if _waits_for_capacity(replies[number], self._n)]
            asked = sorted({s for number in left for s, r in enumerate(replies[number]) if _is_throttled(r)})
            if left and not (self._deadline.left_seconds() and throttled.pause()):
                break
        return replies

    def _classic(self, contenders: Sequence[Contender]) -> None:
        """Prepare and accept with a ballot above all seen."""
        if not contenders or not self._deadline.left_seconds() or self._stores.active is not self._active:
            return
        prepares = [Prepare(contender.key, contender.next_ballot()) for contender in contenders]
        answers = self.vote(prepares, [c for c in contenders if c.is_outrun])
        proposed: list[Proposed] = []
        for contender, prepare, replies in zip(contenders, prepares, answers, strict=True):
            promised = [reply.before for reply in replies if isinstance(reply, Promised)]
            self._heed(contender, replies)
            contender.chosen = chosen([*promised, *_refusing(replies)], self._n)
            if contender.chosen is None and len(promised) >= majority(self._n):
                value = value_to_propose(contender.value, promised, self._n)
                proposed.append((contender, prepare.ballot, value))
        if proposed and self._has_same_members([contender for contender, _, _ in proposed]):
            self._accept(proposed)

    def _has_same_members(self, contenders: Sequence[Contender]) -> bool:
        """Whether the register has the same members as before the promises (B11)."""
        register = self._register.read_once(self._deadline)
        if isinstance(register, Register) and self._stores.active is self._active:
            return True
        for contender in contenders:
            contender.reason = register.reason if isinstance(register, NoReply) else MEMBERS_MOVED
        return False

    def _accept(self, proposed: Sequence[Proposed]) -> None:
        """Accept what a majority promised. Where inserts would decide nothing, reserve what is behind it."""
        if not proposed:
            return
        accepts = [Accept(contender.key, own, value) for contender, own, value in proposed]
        alone = [contender for contender, _, _ in proposed if not contender.is_outrun]
        answers = self.vote(accepts, alone if self._lacks_stores() else [])
        for (contender, _, value), replies in zip(proposed, answers, strict=True):
            self._heed(contender, replies)
            contender.needs_ballot = True
            if count_done(replies) >= majority(self._n):
                contender.chosen = value

    def _lacks_stores(self) -> bool:
        """Whether too few will answer in time for inserts to decide, as far as is known (B13)."""
        return self._stores.prompt(self._active) < fast_quorum(self._n)

    def vote(self, requests: Sequence[Prepare | Accept], reserving: Sequence[Contender]) -> list[list[Any]]:
        """The replies of a majority to each request. In the same step reserve what is behind these offers."""
        reserving = [contender for contender in reserving if contender.next is None]
        prepares = [
            Prepare(Key(one.key.ledger, one.key.position + 1), ballot(1, one.proposer)) for one in reserving
        ]

        def send(store: Store, request: Prepare | Accept) -> Any:
            sent = store.prepare(request) if isinstance(request, Prepare) else store.accept(request)
            return self._judged(request.key, sent)

        answers = self._stores.ask(
            self._active,
            send,
            [*requests, *prepares],
            lambda _, replies: is_voted(replies, self._n) and self._tells_enough(replies),
            self._deadline,
            is_write=True,
        )
        for contender, prepare, replies in zip(reserving, prepares, answers[len(requests) :], strict=True):
            contender.next = reserved_by(prepare, replies, self._active)
        return answers[: len(requests)]

    def _tells_enough(self, replies: Sequence[Any]) -> bool:
        """Not, if one more reply may prove that what others have offered is chosen: that saves a round."""
        has_value = any(isinstance(one, Promised) and one.before.value is not None for one in replies)
        return not has_value or count_answers(replies) >= self._stores.prompt(self._active)

    def _heed(self, contender: Contender, replies: Sequence[Any]) -> None:
        refusing = _refusing(replies)
        contender.note([*refusing, *(reply.before for reply in replies if isinstance(reply, Promised))])
        contender.was_outbid = bool(refusing)
        contender.reason = reason_of(replies)


def reserved_by(prepare: Prepare, replies: Sequence[Any], active: ActiveStores) -> Reserved | None:
    """The position, if a majority has promised it."""
    promised = [reply.before for reply in replies if isinstance(reply, Promised)]
    if len(promised) < majority(active.n):
        return None
    return Reserved(active, prepare.key, prepare.ballot, promised)


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
