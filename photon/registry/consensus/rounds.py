"""One attempt at each round of protocol B for many ids at once: fast, classic, reading.

An attempt sends requests, lets `decisions` say what the replies mean and checks the register afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from photon.faults import fault_point
from photon.registry.consensus.acceptor import (
    Accept,
    Done,
    Insert,
    NoReply,
    Prepare,
    PrepareReply,
    Promised,
    ReadReply,
    Refused,
    Stored,
    Unchanged,
    WriteReply,
)
from photon.registry.consensus.decisions import (
    FastReply,
    NeedsBallot,
    TooFewReplies,
    Verdict,
    ballot,
    decide_fast,
    decide_lookup,
    majority,
    next_counter,
    recover,
    tokens_in,
)
from photon.registry.consensus.layout import (
    ItemKey,
    Value,
    encode_value,
    fast_value,
    stored_time,
)
from photon.registry.consensus.register import Register
from photon.registry.consensus.register_store import RegisterStore
from photon.registry.endpoints.endpoints import ActiveEndpoints, Endpoints
from photon.registry.interface import Claim, Holder, Lost

Propose = Callable[[str | None, str], Value]
Judge = Callable[[Value, str], Verdict]
T = TypeVar("T")

_MEMBERS_MOVED = "the registry's endpoints changed meanwhile"


@dataclass
class Contender:
    """One claim on its way: what is known of it so far."""

    claim: Claim
    item: ItemKey
    needs_ballot: bool = False
    counter: int = 1  # of the next ballot: above all that were seen
    verdict: Verdict | None = None
    confirmed_by: Register | None = None  # the check, begun after the replies that the verdict rests on (B11)
    reason: str = "no endpoint was asked"  # why there is no verdict yet

    def saw(self, stored: Iterable[Stored]) -> None:
        """Outbid these from now on."""
        self.counter = max(self.counter, next_counter(stored))


@dataclass
class Reading(Generic[T]):
    """A look at many distinct items on its way. What is known stays known: asked again is what is open."""

    items: Sequence[ItemKey]
    decide: Callable[[Sequence[Stored], int], T | TooFewReplies]  # from the replies for an item, and N
    found: dict[ItemKey, T] = field(default_factory=dict)
    asked: ActiveEndpoints | None = None
    reason: str = "no endpoint was asked"


def holders_of(items: Sequence[ItemKey]) -> Reading[Holder | None]:
    """Who holds each id; None: nobody."""
    return Reading(items, decide_lookup)


def tokens_of(items: Sequence[ItemKey]) -> Reading[frozenset[str]]:
    """The tokens that any endpoint has for each id, of those that answer."""
    return Reading(items, tokens_in)


class Rounds:
    """Single attempts over the endpoints. What gets no answer keeps no verdict, and a reason."""

    def __init__(self, endpoints: Endpoints, register: RegisterStore) -> None:
        self.endpoints = endpoints
        self._register = register
        self._proposer = endpoints.new_proposer()
        self._inserts = min(acceptor.inserts_per_request for acceptor in endpoints.acceptors)
        self.writes = min(acceptor.writes_per_request for acceptor in endpoints.acceptors)
        self._reads = min(acceptor.reads_per_request for acceptor in endpoints.acceptors)
        self.known: Register | None = None  # as it was last read; the proposer reads it before any round

    # -- fast round

    def fast(self, contenders: Sequence[Contender]) -> None:
        """Insert all tokens: a verdict for what is decided, `needs_ballot` for the others."""
        began_with = self.endpoints.active
        inserts = [Insert(c.item, fast_value(c.claim.token), stored_time(c.claim)) for c in contenders]
        inserted = self.endpoints.ask(
            lambda acceptor, batch: acceptor.insert(batch), inserts, self._inserts, after_each=_amid_register
        )
        there = self._read_where_exists(contenders, inserted)
        verdicts: dict[int, Verdict] = {}
        too_few = False
        for index, contender in enumerate(contenders):
            replies = fast_replies(inserted[index], there.get(index, ()))
            match decide_fast(contender.claim.token, replies, self.endpoints.n):
                case NeedsBallot():
                    contender.needs_ballot = True
                    contender.saw(reply for reply in replies if isinstance(reply, Stored))
                case TooFewReplies():
                    contender.reason = reason_of((*inserted[index], *there.get(index, ())))
                    too_few = True
                case verdict:
                    verdicts[index] = verdict
        if too_few and not verdicts:
            self._read_register()  # the members may have moved: whom to ask next is known afterwards
        self._confirm(contenders, verdicts, began_with)

    def _read_where_exists(
        self, contenders: Sequence[Contender], inserted: Sequence[Sequence[WriteReply]]
    ) -> Mapping[int, Sequence[ReadReply]]:
        """By index: what each endpoint has of the ids that some endpoint has already (protocol B2)."""
        indices = [i for i, replies in enumerate(inserted) if any(isinstance(r, Unchanged) for r in replies)]
        return dict(zip(indices, self.read_items([contenders[i].item for i in indices]), strict=True))

    # -- classic round

    def classic(
        self, contenders: Sequence[Contender], propose: Propose, judge: Judge, to_the_end: bool = False
    ) -> None:
        """Prepare and accept with a ballot above all seen: a verdict for what was chosen.

        `propose(current value, token)` is the new value, `judge(chosen value, token)` the verdict. Proposers
        who find another one's value chosen end there, instead of outbidding each other with it, unless
        they go `to_the_end`.
        """
        began_with = self.endpoints.active
        ballots = [ballot(c.counter, self._proposer) for c in contenders]
        for contender in contenders:
            contender.counter += 1  # a ballot is used once: an answer to it may have got lost
        recovered, verdicts = self._recover(contenders, self._prepare(contenders, ballots), to_the_end)
        answered = [contenders[i] for i in (*recovered, *verdicts)]
        if self.check(answered, began_with) is None or not answered:
            return
        chosen = {i: propose(current, contenders[i].claim.token) for i, current in recovered.items()}
        accepts = [
            Accept(contenders[i].item, ballots[i], encode_value(v), stored_time(contenders[i].claim))
            for i, v in chosen.items()
        ]
        answers = self.endpoints.ask(
            lambda acceptor, batch: acceptor.accept(batch), accepts, self.writes, after_each=_amid_register
        )
        for (index, value), replies in zip(chosen.items(), answers, strict=True):
            contender = contenders[index]
            self._note(contender, replies)
            if sum(isinstance(reply, Done) for reply in replies) >= majority(self.endpoints.n):
                verdicts[index] = judge(value, contender.claim.token)
        self._confirm(contenders, verdicts, began_with)

    def _prepare(self, contenders: Sequence[Contender], ballots: Sequence[str]) -> list[list[PrepareReply]]:
        prepares = [
            Prepare(c.item, b, stored_time(c.claim)) for c, b in zip(contenders, ballots, strict=True)
        ]
        return self.endpoints.ask(lambda acceptor, batch: acceptor.prepare(batch), prepares, self.writes)

    def _recover(
        self, contenders: Sequence[Contender], answers: Sequence[Sequence[PrepareReply]], to_the_end: bool
    ) -> tuple[dict[int, str | None], dict[int, Verdict]]:
        """By index: the value to go on with, for each id that a majority promised; who has lost already."""
        recovered: dict[int, str | None] = {}
        verdicts: dict[int, Verdict] = {}
        for index, (contender, replies) in enumerate(zip(contenders, answers, strict=True)):
            self._note(contender, replies)
            promised = [reply.before for reply in replies if isinstance(reply, Promised)]
            refused = [reply.now for reply in replies if isinstance(reply, Refused)]
            found = decide_fast(contender.claim.token, [*promised, *refused], self.endpoints.n)
            if isinstance(found, Lost) and not to_the_end:
                verdicts[index] = found
            elif len(promised) >= majority(self.endpoints.n):
                recovered[index] = recover(promised, self.endpoints.n)
        return recovered, verdicts

    # -- reading

    def read(self, reading: Reading[T]) -> Register | None:
        """Ask for what is still open: the register that confirms all; None, with a reason, if not all is."""
        active = self.endpoints.active
        if reading.asked is not active:  # replies of other members do not go together with these (B11)
            reading.found.clear()
            reading.asked = active
        left = [item for item in reading.items if item not in reading.found]
        for item, replies in zip(left, self.read_items(left), strict=True):
            decided = reading.decide([r for r in replies if isinstance(r, Stored)], self.endpoints.n)
            if isinstance(decided, TooFewReplies):
                reading.reason = reason_of(replies)
            else:
                reading.found[item] = decided
        register = self._read_register()
        if isinstance(register, NoReply):
            reading.reason = register.reason
        elif not self._is_of(register, active):
            reading.reason = _MEMBERS_MOVED
        elif len(reading.found) == len(reading.items):
            return register
        return None

    # -- the register: nothing counts that a check, begun afterwards, does not confirm

    def _read_register(self) -> Register | NoReply:
        register = self._register.read_once()
        if isinstance(register, Register):
            self.known = register
        return register

    def _is_of(self, register: Register, began_with: ActiveEndpoints) -> bool:
        """Whether all that was asked since then was asked of the members that the register names (B11)."""
        return register.members == began_with.members and self.endpoints.active is began_with

    def check(self, contenders: Sequence[Contender], began_with: ActiveEndpoints) -> Register | None:
        """The register as it is now; None if it does not answer or the members have moved (B11)."""
        register = self._read_register()
        if isinstance(register, Register) and self._is_of(register, began_with):
            return register
        for contender in contenders:
            if isinstance(register, NoReply):
                contender.reason = register.reason
            else:
                contender.reason, contender.needs_ballot = _MEMBERS_MOVED, True
        return None

    def _confirm(
        self, contenders: Sequence[Contender], verdicts: Mapping[int, Verdict], began_with: ActiveEndpoints
    ) -> None:
        if not verdicts:
            return
        register = self.check([contenders[index] for index in verdicts], began_with)
        if register is None:
            return
        for index, verdict in verdicts.items():
            contenders[index].verdict, contenders[index].confirmed_by = verdict, register

    # -- parts

    def read_items(self, items: Sequence[ItemKey]) -> list[list[ReadReply]]:
        """What each endpoint has of each item."""
        return self.endpoints.ask(lambda acceptor, batch: acceptor.read(batch), items, self._reads)

    def _note(self, contender: Contender, replies: Sequence[object]) -> None:
        contender.saw(reply.now for reply in replies if isinstance(reply, Refused))
        contender.reason = reason_of(replies)


def fast_replies(inserted: Sequence[WriteReply], there: Sequence[ReadReply]) -> list[FastReply]:
    """What each endpoint that answered says in a fast round; `there` is what a read found at each."""
    replies: list[FastReply] = []
    for number, reply in enumerate(inserted):
        match reply:
            case Done():
                replies.append(Done())
            case Unchanged():
                found = there[number]
                if isinstance(found, Stored):
                    replies.append(found)
    return replies


def _amid_register() -> None:
    fault_point("task.amid_register")


def reason_of(replies: Sequence[object]) -> str:
    """Why these replies do not settle anything."""
    reasons = [reply.reason for reply in replies if isinstance(reply, NoReply)]
    return reasons[0] if reasons else "others try to register the same ids"
