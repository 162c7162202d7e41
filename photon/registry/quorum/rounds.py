"""One attempt at each round of protocol B for many ids at once: fast, classic, reading, clearing.

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
    ReadReply,
    Replace,
    Stored,
    Unchanged,
    WriteReply,
)
from photon.registry.consensus.decisions import (
    FastReply,
    NeedsBallot,
    TooFewReplies,
    Verdict,
    Votes,
    ballot,
    decide_fast,
    decide_lookup,
    fast_quorum,
    majority,
    next_counter,
    reason_of,
    recover,
    tokens_in,
    value_to_clear,
    verdict_of,
    votes_of,
)
from photon.registry.consensus.layout import (
    Cleared,
    Held,
    ItemKey,
    Value,
    datacenter_of,
    decode_value,
    encode_value,
    fast_value,
    is_cleared,
    stored_time,
)
from photon.registry.consensus.register import Register
from photon.registry.endpoints.endpoints import ActiveEndpoints, Endpoints
from photon.registry.interface import Claim, Holder, Lost
from photon.registry.quorum.register_store import RegisterStore

Propose = Callable[[str | None, str], Value]
T = TypeVar("T")

THROTTLED_SECONDS = 0.5  # then the other endpoints decide by a ballot, if they can

_MEMBERS_MOVED = "the registry's endpoints have changed"


@dataclass
class Contender:
    """One claim on its way through the rounds."""

    claim: Claim
    item: ItemKey
    needs_ballot: bool = False
    counter: int = 1  # of the next ballot: above all that were seen
    verdict: Verdict | None = None
    confirmed_by: Register | None = None  # read after the replies on which the verdict rests (B11)
    reason: str = "no endpoint was asked"  # why there is no verdict yet

    def outbid(self, stored: Iterable[Stored]) -> None:
        """Take a higher ballot than these the next time."""
        self.counter = max(self.counter, next_counter(stored))

    def note(self, votes: Votes) -> None:
        """Take note of votes that may not be enough."""
        self.outbid(votes.refused)
        self.reason = votes.reason


@dataclass
class Reading(Generic[T]):
    """A read of many distinct items: decided items stay decided, only the others are asked for again."""

    items: Sequence[ItemKey]
    decide: Callable[[Sequence[Stored], int], T | TooFewReplies]  # from the replies for an item, and N
    found: dict[ItemKey, T] = field(default_factory=dict)
    asked: ActiveEndpoints | None = None
    reason: str = "no endpoint was asked"


def holders_of(items: Sequence[ItemKey]) -> Reading[Holder | None]:
    """Who holds each id; None: nobody."""
    return Reading(items, decide_lookup)


def tokens_of(items: Sequence[ItemKey]) -> Reading[frozenset[str]]:
    """The tokens for each id at all endpoints that answer."""
    return Reading(items, tokens_in)


@dataclass
class _Copies:
    """A token to be cleared: the values that hold it, and the slots known to have its owner's name."""

    contender: Contender
    held: tuple[str, ...]
    cleared_at: set[int]

    def are_known_to_few(self, n: int) -> bool:
        """Whether there is anything to clear, and fewer than a majority are known to have it cleared."""
        return bool(self.held or self.cleared_at) and len(self.cleared_at) < majority(n)


class Rounds:
    """Single attempts over the endpoints. A contender that gets too few answers keeps a reason only."""

    def __init__(self, endpoints: Endpoints, register: RegisterStore) -> None:
        self.endpoints = endpoints
        self._register = register
        self._proposer = endpoints.new_proposer()
        self.known: Register | None = None  # as it was last read; the proposer reads it before any round

    # -- fast round

    def fast(self, contenders: Sequence[Contender]) -> None:
        """Insert all tokens: a verdict where one is decided, `needs_ballot` elsewhere."""
        began_with = self.endpoints.active
        inserts = [Insert(c.item, fast_value(c.claim.token), stored_time(c.claim)) for c in contenders]
        inserted = self._insert(inserts)
        there = self._read_where_exists(contenders, inserted)
        verdicts: dict[int, Verdict] = {}
        too_few = False
        for index, contender in enumerate(contenders):
            replies = fast_replies(inserted[index], there.get(index, ()))
            match decide_fast(contender.claim.token, replies, self.endpoints.n):
                case NeedsBallot():
                    contender.needs_ballot = True
                    contender.outbid(reply for reply in replies if isinstance(reply, Stored))
                case TooFewReplies():
                    contender.reason = reason_of((*inserted[index], *there.get(index, ())))
                    too_few = True
                case verdict:
                    verdicts[index] = verdict
        if too_few and not verdicts:
            self._read_register()  # the members may have moved: afterwards we know whom to ask
        self._confirm(contenders, verdicts, began_with)

    def _insert(self, inserts: Sequence[Insert]) -> list[list[WriteReply]]:
        """Insert at all endpoints, again where one throttles: that had no effect there (protocol B14).

        A ballot in its place costs an endpoint that is short of capacity two writes more.
        """
        replies = self.endpoints.insert(inserts, _during_register)
        deadline = self.endpoints.deadline(THROTTLED_SECONDS)
        while (throttled := throttled_inserts(replies, self.endpoints.n)) and deadline.pause():
            again = self.endpoints.insert(inserts, asked=throttled)
            for slot, indices in throttled.items():
                for index in indices:
                    replies[index][slot] = again[index][slot]
        return replies

    def _read_where_exists(
        self, contenders: Sequence[Contender], inserted: Sequence[Sequence[WriteReply]]
    ) -> Mapping[int, Sequence[ReadReply]]:
        """By index: what each endpoint has of the ids that some endpoint has already (protocol B2)."""
        indices = [i for i, replies in enumerate(inserted) if any(isinstance(r, Unchanged) for r in replies)]
        return dict(zip(indices, self.endpoints.read([contenders[i].item for i in indices]), strict=True))

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
        answers = self.endpoints.accept(accepts, _during_register)
        for (index, value), replies in zip(proposed.items(), answers, strict=True):
            contender, votes = contenders[index], votes_of(replies)
            contender.note(votes)
            if votes.accepted >= majority(self.endpoints.n):
                verdicts[index] = verdict_of(value, contender.claim.token)
        self._confirm(contenders, verdicts, began_with)

    def _prepare(self, contenders: Sequence[Contender], ballots: Sequence[str]) -> list[list[PrepareReply]]:
        return self.endpoints.prepare(
            [Prepare(c.item, b, stored_time(c.claim)) for c, b in zip(contenders, ballots, strict=True)]
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
            reading.found.clear()
            reading.asked = active
        left = [item for item in reading.items if item not in reading.found]
        for item, replies in zip(left, self.endpoints.read(left), strict=True):
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

    # -- clearing (protocol B6)

    def clear(self, contenders: Sequence[Contender]) -> tuple[set[ItemKey], list[Contender]]:
        """Replace tokens by their owner's name: what changed, and which have to be asked again."""
        began_with = self.endpoints.active
        changed, answered = self._replace_copies(self._find_copies(contenders))
        known = self._make_known(answered)
        if self.check(contenders, began_with) is None:
            return changed, list(contenders)
        return changed, [contender for contender in contenders if contender.item not in known]

    def _find_copies(self, contenders: Sequence[Contender]) -> list[_Copies]:
        """The copies of each token, where enough endpoints answer.

        Read first: a token may have been released, or is stored with what was released before it.
        """
        found: list[_Copies] = []
        answers = self.endpoints.read([contender.item for contender in contenders])
        for contender, replies in zip(contenders, answers, strict=True):
            contender.outbid(reply for reply in replies if isinstance(reply, Stored))
            if self._is_to_be_repeated(replies):
                contender.reason = reason_of(replies)
            else:
                found.append(_copies_of(contender, replies))
        return found

    def _replace_copies(self, found: Sequence[_Copies]) -> tuple[set[ItemKey], list[_Copies]]:
        """Replace each copy where it is: the items that changed, and where enough endpoints answered."""
        # Endpoints may have it with different histories, and a request names an item once (B7).
        waves: dict[int, list[tuple[_Copies, str]]] = {}
        for copies in found:
            for number, value in enumerate(copies.held):
                waves.setdefault(number, []).append((copies, value))
        changed: set[ItemKey] = set()
        unanswered: set[ItemKey] = set()
        for wave in waves.values():
            answers = self.endpoints.replace(
                [Replace(c.contender.item, old, _cleared(c.contender.claim.token)) for c, old in wave]
            )
            for (copies, _), replies in zip(wave, answers, strict=True):
                done = {slot for slot, reply in enumerate(replies) if isinstance(reply, Done)}
                copies.cleared_at |= done
                if done:
                    changed.add(copies.contender.item)
                if self._is_to_be_repeated(replies):
                    copies.contender.reason = reason_of(replies)
                    unanswered.add(copies.contender.item)
        return changed, [copies for copies in found if copies.contender.item not in unanswered]

    def _make_known(self, answered: Sequence[_Copies]) -> set[ItemKey]:
        """Have each owner's name at a majority, or chosen by a classic round: the items where it is so.

        Else nobody would see it while the few endpoints that have it are away, and the token would win
        again (B6).
        """
        few = [copies.contender for copies in answered if copies.are_known_to_few(self.endpoints.n)]
        if few:
            self.classic(few, value_to_clear, to_the_end=True)
        unknown = {contender.item for contender in few if contender.verdict is None}
        return {copies.contender.item for copies in answered} - unknown

    def _is_to_be_repeated(self, replies: Sequence[object]) -> bool:
        """Whether to clear again. A minority that is down keeps its tokens, which does no harm (B6)."""
        silent = [reply for reply in replies if isinstance(reply, NoReply)]
        too_few = len(replies) - len(silent) < majority(self.endpoints.n)
        return too_few or any(reply.kind in ("unclear", "throttled") for reply in silent)

    # -- the register: only what a later check confirms counts

    def _read_register(self) -> Register | NoReply:
        register = self._register.read_once()
        if isinstance(register, Register):
            self.known = register
        return register

    def _is_of(self, register: Register, began_with: ActiveEndpoints) -> bool:
        """Whether only the members that the register names were asked since then (B11)."""
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


def throttled_inserts(inserted: Sequence[Sequence[WriteReply]], n: int) -> dict[int, list[int]]:
    """By slot: the inserts that it throttled, where no other token is in the way and more are needed."""
    throttled: dict[int, list[int]] = {}
    for index, replies in enumerate(inserted):
        done = sum(isinstance(reply, Done) for reply in replies)
        if done < fast_quorum(n) and not any(isinstance(reply, Unchanged) for reply in replies):
            for slot, reply in enumerate(replies):
                if isinstance(reply, NoReply) and reply.kind == "throttled":
                    throttled.setdefault(slot, []).append(index)
    return throttled


def fast_replies(inserted: Sequence[WriteReply], there: Sequence[ReadReply]) -> list[FastReply]:
    """What each endpoint that answered says in a fast round; `there` is what a read found at each."""
    found = [there[slot] if isinstance(reply, Unchanged) else reply for slot, reply in enumerate(inserted)]
    return [reply for reply in found if isinstance(reply, Done | Stored)]


def _copies_of(contender: Contender, replies: Sequence[ReadReply]) -> _Copies:
    """The copies of a token; none of one that was released: another may hold the id by now."""
    token = contender.claim.token
    texts = {slot: r.value for slot, r in enumerate(replies) if isinstance(r, Stored) and r.value is not None}
    values = {text: decode_value(text) for text in texts.values()}
    if any(not isinstance(value, Cleared) and token in value.released for value in values.values()):
        return _Copies(contender, (), set())
    held = (text for text, value in values.items() if isinstance(value, Held) and value.token == token)
    return _Copies(contender, tuple(sorted(held)), {slot for slot, text in texts.items() if is_cleared(text)})


def _cleared(token: str) -> str:
    return encode_value(Cleared(datacenter_of(token)))


def _during_register() -> None:
    fault_point("task.during_register")
