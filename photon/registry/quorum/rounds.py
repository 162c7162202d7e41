"""One attempt at each round of protocol B for many ids at once: fast, classic, reading.

An attempt sends requests, lets `decisions` say what the replies mean and checks the register afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard, TypeVar

import numpy as np

from photon.faults import fault_point
from photon.registry.consensus import quorums
from photon.registry.consensus.acceptor import (
    FAST_BALLOT,
    Accept,
    Done,
    Insert,
    NoReply,
    Prepare,
    PrepareReply,
    ReadReply,
    Stored,
    Unchanged,
    WriteReply,
)
from photon.registry.consensus.columns import AcceptColumn, InsertColumn, ItemColumn, Mask, insert_column
from photon.registry.consensus.decisions import (
    FastReply,
    NeedsBallot,
    TooFewReplies,
    Verdict,
    ballot,
    decide_fast,
    fast_quorum,
    majority,
    reason_of,
    recover,
    verdict_of,
    votes_of,
)
from photon.registry.consensus.layout import Value, encode_value, fast_value, stored_time
from photon.registry.consensus.quorums import all_of_them
from photon.registry.consensus.register import Register
from photon.registry.endpoints.endpoints import ActiveEndpoints, Endpoints
from photon.registry.endpoints.parts import Replies
from photon.registry.interface import ClaimColumns, Lost, Won
from photon.registry.quorum.contender import MEMBERS_MOVED, Contender, put_off
from photon.registry.quorum.reading import Reading
from photon.registry.quorum.register_store import RegisterStore

Propose = Callable[[str | None, str], Value]
T = TypeVar("T")

THROTTLED_SECONDS = 0.5  # then the other endpoints decide by a ballot, if they can


@dataclass(frozen=True, slots=True)
class FastRound:
    """What an attempt at the fast round came to."""

    won: Mask  # by index: the token is chosen, and the register confirms it
    confirmed_by: Register | None
    others: Mapping[int, Contender]  # by index: all the others, with a verdict or without


class Rounds:
    """Single attempts over the endpoints. A contender that gets too few answers keeps a reason only."""

    def __init__(self, endpoints: Endpoints, register: RegisterStore) -> None:
        self.endpoints = endpoints
        self._register = register
        self._proposer = endpoints.new_proposer()
        self.known: Register | None = None  # as it was last read; the proposer reads it before any round

    # -- fast round

    def fast(self, claims: ClaimColumns, items: ItemColumn, with_promise: bool = False) -> FastRound:
        """Insert the tokens of claims for distinct items. Who wins by that alone needs no object here.

        `with_promise`: each insert promises a ballot too, by which a majority can decide (protocol B13).
        """
        counter = 1
        inserts = insert_column(claims, items, self._promise(counter, with_promise))
        return self._fast(
            inserts, lambda index: Contender(claims[index], items[index], counter=counter + with_promise)
        )

    def fast_again(self, contenders: Sequence[Contender], with_promise: bool = False) -> None:
        """Insert these tokens: a verdict where one is decided, `needs_ballot` elsewhere."""
        counter = max(contender.counter for contender in contenders)
        own = self._promise(counter, with_promise)
        for contender in contenders:
            contender.counter = counter + with_promise
        inserts = [Insert(c.item, fast_value(c.claim.token), stored_time(c.claim), own) for c in contenders]
        attempt = self._fast(InsertColumn.of(inserts), contenders.__getitem__)
        for index in np.flatnonzero(attempt.won).tolist():
            contenders[index].verdict, contenders[index].confirmed_by = Won(), attempt.confirmed_by

    def _promise(self, counter: int, with_promise: bool) -> str:
        return ballot(counter, self._proposer) if with_promise else FAST_BALLOT

    def _fast(self, inserts: InsertColumn, contender_of: Callable[[int], Contender]) -> FastRound:
        began_with = self.endpoints.active
        inserted = self._insert(inserts)
        done = inserted.are(Done).sum(axis=1)
        won = done >= fast_quorum(self.endpoints.n)
        promised = ~won & (done >= majority(self.endpoints.n)) & (inserts.ballot != FAST_BALLOT)
        others = {index: contender_of(index) for index in np.flatnonzero(~won & ~promised).tolist()}
        verdicts = self._decide(others, inserted)

        def put_all_off(register: Register | NoReply) -> FastRound:
            others.update((i, contender_of(i)) for i in np.flatnonzero(won | promised).tolist())
            put_off([others[i] for i in (*np.flatnonzero(won | promised).tolist(), *verdicts)], register)
            return FastRound(np.zeros(len(won), bool), None, others)

        if promised.any():
            register = self._read_register()  # before anything is accepted (B11)
            if not self._is_confirmed_by(register, began_with):
                return put_all_off(register)
            accepted = self._accept_promised(inserts, promised, contender_of, others)
            won, promised = won | accepted, promised & accepted
        if not verdicts and not won.any():
            if any(not contender.needs_ballot for contender in others.values()):
                self._read_register()  # the members may have moved: afterwards we know whom to ask
            return FastRound(won, None, others)
        register = self._read_register()
        if not self._is_confirmed_by(register, began_with):
            return put_all_off(register)
        for index, verdict in verdicts.items():
            others[index].verdict, others[index].confirmed_by = verdict, register
        return FastRound(won, register, others)

    def _accept_promised(
        self,
        inserts: InsertColumn,
        promised: Mask,
        contender_of: Callable[[int], Contender],
        others: dict[int, Contender],
    ) -> Mask:
        """Go on where a majority inserted and promised: which own tokens are chosen, at that ballot.

        All of a majority promised, and had nothing but the own token: that is what a recovery goes on with
        (B4). Where it is not chosen, a contender is put among the `others`.
        """
        indices = np.flatnonzero(promised)
        accepts = AcceptColumn.of_promised(inserts if promised.all() else inserts.take(indices))
        answers = self.endpoints.accept(accepts, quorums.voted(self.endpoints.n), _during_register)
        is_accepted = answers.are(Done).sum(axis=1) >= majority(self.endpoints.n)
        for place in np.flatnonzero(~is_accepted).tolist():
            contender = others[int(indices[place])] = contender_of(int(indices[place]))
            contender.needs_ballot = True
            contender.note(votes_of(answers[place]))
        accepted = np.zeros(len(promised), bool)
        accepted[indices[is_accepted]] = True
        return accepted

    def _decide(
        self, contenders: Mapping[int, Contender], inserted: Replies[WriteReply]
    ) -> dict[int, Verdict]:
        """By index: the verdicts of those that did not win at once, as far as their ids are decided."""
        there = self._read_where_exists(contenders, inserted)
        verdicts: dict[int, Verdict] = {}
        for index, contender in contenders.items():
            replies = fast_replies(inserted[index], there.get(index, ()))
            match decide_fast(contender.claim.token, replies, self.endpoints.n):
                case NeedsBallot():
                    contender.needs_ballot = True
                    contender.outbid(reply for reply in replies if isinstance(reply, Stored))
                case TooFewReplies():
                    contender.reason = reason_of((*inserted[index], *there.get(index, ())))
                case verdict:
                    verdicts[index] = verdict
        return verdicts

    def _insert(self, inserts: Sequence[Insert]) -> Replies[WriteReply]:
        """Insert at all endpoints, again where one throttles: that had no effect there (protocol B14).

        A ballot in its place costs an endpoint that is short of capacity two writes more.
        """
        replies = self.endpoints.insert(
            inserts, quorums.answered(fast_quorum(self.endpoints.n)), _during_register
        )
        deadline = self.endpoints.deadline(THROTTLED_SECONDS)
        while (throttled := throttled_inserts(replies, self.endpoints.n)) and deadline.pause():
            replies.take_again(self.endpoints.insert(inserts, all_of_them, asked=throttled))
        return replies

    def _read_where_exists(
        self, contenders: Mapping[int, Contender], inserted: Replies[WriteReply]
    ) -> Mapping[int, Sequence[ReadReply]]:
        """By index: what each endpoint has of the ids that some endpoint has already (protocol B2)."""
        indices = [i for i in contenders if any(isinstance(reply, Unchanged) for reply in inserted[i])]
        items = [contenders[index].item for index in indices]
        return dict(zip(indices, self.endpoints.read(items, quorums.found(self.endpoints.n)), strict=True))

    # -- classic round

    def classic(self, contenders: Sequence[Contender], propose: Propose, to_the_end: bool = False) -> None:
        """Prepare and accept with a ballot above all seen: a verdict wherever a value is chosen.

        `propose(current value, token)` is the new value. A proposer that finds another one's value chosen
        ends there, instead of outbidding others with it, unless it goes `to_the_end`.
        """
        began_with = self.endpoints.active
        ballots = [ballot(c.counter, self._proposer) for c in contenders]
        for contender in contenders:
            contender.counter += 1  # a ballot is used once: an answer to it may have got lost
        recovered, verdicts = self._recover(contenders, self._prepare(contenders, ballots), to_the_end)
        answered = [contenders[i] for i in (*recovered, *verdicts)]
        if self.check(answered, began_with) is None or not answered:
            return
        proposed = {i: propose(current, contenders[i].claim.token) for i, current in recovered.items()}
        accepts = [
            Accept(contenders[i].item, ballots[i], encode_value(v), stored_time(contenders[i].claim))
            for i, v in proposed.items()
        ]
        answers = self.endpoints.accept(accepts, quorums.voted(self.endpoints.n), _during_register)
        for (index, value), replies in zip(proposed.items(), answers, strict=True):
            contender, votes = contenders[index], votes_of(replies)
            contender.note(votes)
            if votes.accepted >= majority(self.endpoints.n):
                verdicts[index] = verdict_of(value, contender.claim.token)
        self._confirm(contenders, verdicts, began_with)

    def _prepare(self, contenders: Sequence[Contender], ballots: Sequence[str]) -> Replies[PrepareReply]:
        return self.endpoints.prepare(
            [Prepare(c.item, b, stored_time(c.claim)) for c, b in zip(contenders, ballots, strict=True)],
            quorums.voted(self.endpoints.n),
        )

    def _recover(
        self, contenders: Sequence[Contender], answers: Sequence[Sequence[PrepareReply]], to_the_end: bool
    ) -> tuple[dict[int, str | None], dict[int, Verdict]]:
        """By index: the value to go on with, where a majority promised; the verdicts of those who lost."""
        recovered: dict[int, str | None] = {}
        verdicts: dict[int, Verdict] = {}
        for index, (contender, replies) in enumerate(zip(contenders, answers, strict=True)):
            votes = votes_of(replies)
            contender.note(votes)
            seen = (*votes.promised, *votes.refused)
            found = decide_fast(contender.claim.token, seen, self.endpoints.n)
            if isinstance(found, Lost) and not to_the_end:
                verdicts[index] = found
            elif len(votes.promised) >= majority(self.endpoints.n):
                recovered[index] = recover(votes.promised, self.endpoints.n)
        return recovered, verdicts

    # -- reading

    def read(self, reading: Reading[T]) -> Register | None:
        """Ask for what is not decided yet: the register that confirms all; None, with a reason, otherwise."""
        active = self.endpoints.active
        if reading.asked is not active:  # replies of other members do not go together with these (B11)
            reading.forget()
            reading.asked = active
        left = reading.left()
        answers = self.endpoints.read(
            reading.items if len(left) == len(reading.items) else reading.items.take(left),
            reading.enough(self.endpoints.n),
            slow_too=True,  # or what was won without a ballot would seem to be free
        )
        reading.take_note(left, answers, self.endpoints.n)
        register = self._read_register()
        if isinstance(register, NoReply):
            reading.reason = register.reason
        elif not self._is_confirmed_by(register, active):
            reading.reason = MEMBERS_MOVED
        elif not len(reading.left()):
            return register
        return None

    # -- the register: only what a later check confirms counts

    def _read_register(self) -> Register | NoReply:
        register = self._register.read_once()
        if isinstance(register, Register):
            self.known = register
        return register

    def _is_confirmed_by(
        self, register: Register | NoReply, began_with: ActiveEndpoints
    ) -> TypeGuard[Register]:
        """Whether only the members that the register names were asked since then (B11)."""
        return (
            isinstance(register, Register)
            and register.members == began_with.members
            and self.endpoints.active is began_with
        )

    def check(self, contenders: Sequence[Contender], began_with: ActiveEndpoints) -> Register | None:
        """The register as it is now; None if it does not answer or the members have moved (B11)."""
        register = self._read_register()
        if self._is_confirmed_by(register, began_with):
            return register
        put_off(contenders, register)
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


def throttled_inserts(inserted: Replies[WriteReply], n: int) -> dict[int, list[int]]:
    """By slot: the inserts that it throttled, where no other token is in the way and more are needed."""
    is_throttled = inserted.codes(lambda reply: isinstance(reply, NoReply) and reply.kind == "throttled")
    needs_more = inserted.are(Done).sum(axis=1) < fast_quorum(n)
    worth_while = needs_more & ~inserted.are(Unchanged).any(axis=1)
    by_slot = {
        slot: np.flatnonzero(is_throttled[:, slot].astype(bool) & worth_while).tolist() for slot in range(n)
    }
    return {slot: indices for slot, indices in by_slot.items() if indices}


def fast_replies(inserted: Sequence[WriteReply], there: Sequence[ReadReply]) -> list[FastReply]:
    """What each endpoint that answered says in a fast round; `there` is what a read found at each, if any."""
    found = [
        there[slot] if there and not isinstance(reply, Done) else reply for slot, reply in enumerate(inserted)
    ]
    return [reply for reply in found if isinstance(reply, Done | Stored)]


def _during_register() -> None:
    fault_point("task.during_register")
