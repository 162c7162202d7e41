"""One attempt at each round of protocol B for many ids at once: fast, classic, reading, clear.

An attempt sends requests, lets `photon.registry.decisions` say what the replies mean and checks the
register afterwards. Deadlines, pauses and repetition belong in `photon.registry.proposer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from photon.faults import fault_point
from photon.registry.acceptor import (
    Accept,
    Done,
    Exists,
    Insert,
    InsertReply,
    NoReply,
    Prepare,
    PrepareReply,
    Promised,
    ReadReply,
    Refused,
    Replace,
)
from photon.registry.decisions import (
    FastReply,
    Inserted,
    NeedsBallot,
    OtherHolds,
    Stored,
    TokenReleased,
    TokenWins,
    TooFewReplies,
    ballot,
    decide_fast,
    decide_lookup,
    majority,
    next_counter,
    outcome_of_commit,
    recover,
    tokens_in,
    value_to_clear,
)
from photon.registry.endpoints import Endpoints, Seats
from photon.registry.interface import Claim, Holder
from photon.registry.layout import (
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
from photon.registry.register import Register
from photon.registry.register_store import RegisterStore

Verdict = TokenWins | OtherHolds | TokenReleased
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
class _Copies:
    """A token to be cleared: the values that hold it, and the slots known to have its owner's name."""

    contender: Contender
    held: tuple[str, ...]
    cleared_at: set[int]

    def are_known_to_few(self, n: int) -> bool:
        """Whether there is anything to clear, and fewer than a majority are known to have it cleared."""
        return bool(self.held or self.cleared_at) and len(self.cleared_at) < majority(n)


@dataclass
class Reading(Generic[T]):
    """A look at many distinct items on its way. What is known stays known: asked again is what is open."""

    items: Sequence[ItemKey]
    decide: Callable[[Sequence[Stored], int], T | TooFewReplies]  # from the replies for an item, and N
    found: dict[ItemKey, T] = field(default_factory=dict)
    asked: Seats | None = None
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
        self._endpoints = endpoints
        self._register = register
        self._proposer = endpoints.new_proposer()
        self._inserts = min(acceptor.inserts_per_request for acceptor in endpoints.acceptors)
        self._writes = min(acceptor.writes_per_request for acceptor in endpoints.acceptors)
        self._reads = min(acceptor.reads_per_request for acceptor in endpoints.acceptors)
        self.known: Register | None = None  # as it was last read; the proposer reads it before any round

    # -- fast round

    def fast(self, contenders: Sequence[Contender]) -> None:
        """Insert all tokens: a verdict for what is decided, `needs_ballot` for the others."""
        began_with = self._endpoints.seats
        inserts = [Insert(c.item, fast_value(c.claim.token), stored_time(c.claim)) for c in contenders]
        inserted = self._endpoints.ask(
            lambda acceptor, batch: acceptor.insert(batch), inserts, self._inserts, after_each=_amid_register
        )
        there = self._read_where_exists(contenders, inserted)
        verdicts: dict[int, Verdict] = {}
        too_few = False
        for index, contender in enumerate(contenders):
            replies = fast_replies(inserted[index], there.get(index, ()))
            match decide_fast(contender.claim.token, replies, self._endpoints.n):
                case NeedsBallot():
                    contender.needs_ballot = True
                    contender.saw(reply for reply in replies if isinstance(reply, Stored))
                case TooFewReplies():
                    contender.reason = _reason((*inserted[index], *there.get(index, ())))
                    too_few = True
                case verdict:
                    verdicts[index] = verdict
        if too_few and not verdicts:
            self._read_register()  # the members may have moved: whom to ask next is known afterwards
        self._confirm(contenders, verdicts, began_with)

    def _read_where_exists(
        self, contenders: Sequence[Contender], inserted: Sequence[Sequence[InsertReply]]
    ) -> Mapping[int, Sequence[ReadReply]]:
        """By index: what each endpoint has of the ids that some endpoint has already (protocol B2)."""
        indices = [i for i, replies in enumerate(inserted) if any(isinstance(r, Exists) for r in replies)]
        return dict(zip(indices, self._read([contenders[i].item for i in indices]), strict=True))

    # -- classic round

    def classic(
        self, contenders: Sequence[Contender], propose: Propose, judge: Judge, to_the_end: bool = False
    ) -> None:
        """Prepare and accept with a ballot above all seen: a verdict for what was chosen.

        `propose(current value, token)` is the new value, `judge(chosen value, token)` the verdict. Proposers
        who find another one's value chosen end there, instead of outbidding each other with it, unless
        they go `to_the_end`.
        """
        began_with = self._endpoints.seats
        ballots = [ballot(c.counter, self._proposer) for c in contenders]
        for contender in contenders:
            contender.counter += 1  # a ballot is used once: an answer to it may have got lost
        recovered, verdicts = self._recover(contenders, self._prepare(contenders, ballots), to_the_end)
        answered = [contenders[i] for i in (*recovered, *verdicts)]
        if self._check(answered, began_with) is None or not answered:
            return
        chosen = {i: propose(current, contenders[i].claim.token) for i, current in recovered.items()}
        accepts = [
            Accept(contenders[i].item, ballots[i], encode_value(v), stored_time(contenders[i].claim))
            for i, v in chosen.items()
        ]
        answers = self._endpoints.ask(
            lambda acceptor, batch: acceptor.accept(batch), accepts, self._writes, after_each=_amid_register
        )
        for (index, value), replies in zip(chosen.items(), answers, strict=True):
            contender = contenders[index]
            self._note(contender, replies)
            if sum(isinstance(reply, Done) for reply in replies) >= majority(self._endpoints.n):
                verdicts[index] = judge(value, contender.claim.token)
        self._confirm(contenders, verdicts, began_with)

    def _prepare(self, contenders: Sequence[Contender], ballots: Sequence[str]) -> list[list[PrepareReply]]:
        prepares = [
            Prepare(c.item, b, stored_time(c.claim)) for c, b in zip(contenders, ballots, strict=True)
        ]
        return self._endpoints.ask(lambda acceptor, batch: acceptor.prepare(batch), prepares, self._writes)

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
            found = decide_fast(contender.claim.token, [*promised, *refused], self._endpoints.n)
            if isinstance(found, OtherHolds) and not to_the_end:
                verdicts[index] = found
            elif len(promised) >= majority(self._endpoints.n):
                recovered[index] = recover(promised, self._endpoints.n)
        return recovered, verdicts

    # -- reading

    def read(self, reading: Reading[T]) -> Register | None:
        """Ask for what is still open: the register that confirms all; None, with a reason, if not all is."""
        seats = self._endpoints.seats
        if reading.asked is not seats:  # replies of other members do not go together with these (B11)
            reading.found.clear()
            reading.asked = seats
        left = [item for item in reading.items if item not in reading.found]
        for item, replies in zip(left, self._read(left), strict=True):
            decided = reading.decide([r for r in replies if isinstance(r, Stored)], self._endpoints.n)
            if isinstance(decided, TooFewReplies):
                reading.reason = _reason(replies)
            else:
                reading.found[item] = decided
        register = self._read_register()
        if isinstance(register, NoReply):
            reading.reason = register.reason
        elif not self._is_of(register, seats):
            reading.reason = _MEMBERS_MOVED
        elif len(reading.found) == len(reading.items):
            return register
        return None

    # -- clear

    def clear(self, contenders: Sequence[Contender]) -> tuple[int, list[Contender]]:
        """Replace tokens by their owner's name: how many changed, and which have to be asked again."""
        began_with = self._endpoints.seats
        changed, answered = self._replace_copies(self._find_copies(contenders))
        known = self._make_known(answered)
        if self._check(contenders, began_with) is None:
            return changed, list(contenders)
        return changed, [contender for contender in contenders if contender.item not in known]

    def _find_copies(self, contenders: Sequence[Contender]) -> list[_Copies]:
        """The copies of each token, as far as enough endpoints answer for it.

        Read first: a token may have been released, or is stored with what was released before it.
        """
        found: list[_Copies] = []
        for contender, replies in zip(contenders, self._read([c.item for c in contenders]), strict=True):
            contender.saw(reply for reply in replies if isinstance(reply, Stored))
            if self._is_to_be_repeated(replies):
                contender.reason = _reason(replies)
            else:
                found.append(_copies_of(contender, replies))
        return found

    def _replace_copies(self, found: Sequence[_Copies]) -> tuple[int, list[_Copies]]:
        """Replace each copy where it is: how many ids changed, and for which enough endpoints answered."""
        # Endpoints may have it with different histories, and a request names an item once (B7).
        waves: dict[int, list[tuple[_Copies, str]]] = {}
        for copies in found:
            for number, value in enumerate(copies.held):
                waves.setdefault(number, []).append((copies, value))
        changed: set[ItemKey] = set()
        unanswered: set[ItemKey] = set()
        for wave in waves.values():
            replaces = [Replace(c.contender.item, old, _cleared(c.contender.claim.token)) for c, old in wave]
            answers = self._endpoints.ask(lambda a, batch: a.replace(batch), replaces, self._writes)
            for (copies, _), replies in zip(wave, answers, strict=True):
                done = {slot for slot, reply in enumerate(replies) if isinstance(reply, Done)}
                copies.cleared_at |= done
                if done:
                    changed.add(copies.contender.item)
                if self._is_to_be_repeated(replies):
                    copies.contender.reason = _reason(replies)
                    unanswered.add(copies.contender.item)
        return len(changed), [copies for copies in found if copies.contender.item not in unanswered]

    def _make_known(self, answered: Sequence[_Copies]) -> set[ItemKey]:
        """Have each owner's name at a majority, or chosen by a classic round; the items where it is so.

        Or it would not be seen while the few that have it are away, and the token would win again (B6).
        """
        few = [copies.contender for copies in answered if copies.are_known_to_few(self._endpoints.n)]
        if few:
            self.classic(few, value_to_clear, outcome_of_commit, to_the_end=True)
        unknown = {contender.item for contender in few if contender.verdict is None}
        return {copies.contender.item for copies in answered} - unknown

    def _is_to_be_repeated(self, replies: Sequence[object]) -> bool:
        """Whether to clear again. A minority that is down keeps its tokens, which does no harm (B6)."""
        silent = [reply for reply in replies if isinstance(reply, NoReply)]
        too_few = len(replies) - len(silent) < majority(self._endpoints.n)
        return too_few or any(reply.kind in ("unclear", "not_sent") for reply in silent)

    # -- the register: nothing counts that a check, begun afterwards, does not confirm

    def _read_register(self) -> Register | NoReply:
        register = self._register.read_once()
        if isinstance(register, Register):
            self.known = register
        return register

    def _is_of(self, register: Register, began_with: Seats) -> bool:
        """Whether all that was asked since then was asked of the members that the register names (B11)."""
        return register.members == began_with.members and self._endpoints.seats is began_with

    def _check(self, contenders: Sequence[Contender], began_with: Seats) -> Register | None:
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
        self, contenders: Sequence[Contender], verdicts: Mapping[int, Verdict], began_with: Seats
    ) -> None:
        if not verdicts:
            return
        register = self._check([contenders[index] for index in verdicts], began_with)
        if register is None:
            return
        for index, verdict in verdicts.items():
            contenders[index].verdict, contenders[index].confirmed_by = verdict, register

    # -- parts

    def _read(self, items: Sequence[ItemKey]) -> list[list[ReadReply]]:
        return self._endpoints.ask(lambda acceptor, batch: acceptor.read(batch), items, self._reads)

    def _note(self, contender: Contender, replies: Sequence[object]) -> None:
        contender.saw(reply.now for reply in replies if isinstance(reply, Refused))
        contender.reason = _reason(replies)


def fast_replies(inserted: Sequence[InsertReply], there: Sequence[ReadReply]) -> list[FastReply]:
    """What each endpoint that answered says in a fast round; `there` is what a read found at each."""
    replies: list[FastReply] = []
    for number, reply in enumerate(inserted):
        match reply:
            case Done():
                replies.append(Inserted())
            case Exists():
                found = there[number]
                if isinstance(found, Stored):
                    replies.append(found)
    return replies


def _amid_register() -> None:
    fault_point("task.amid_register")


def _copies_of(contender: Contender, replies: Sequence[ReadReply]) -> _Copies:
    """What a majority says. Of a token that was released nothing: another one may hold the id by now."""
    token = contender.claim.token
    texts = {slot: r.value for slot, r in enumerate(replies) if isinstance(r, Stored) and r.value is not None}
    values = {text: decode_value(text) for text in texts.values()}
    if any(not isinstance(value, Cleared) and token in value.released for value in values.values()):
        return _Copies(contender, (), set())
    held = (text for text, value in values.items() if isinstance(value, Held) and value.token == token)
    return _Copies(contender, tuple(sorted(held)), {slot for slot, text in texts.items() if is_cleared(text)})


def _cleared(token: str) -> str:
    return encode_value(Cleared(datacenter_of(token)))


def _reason(replies: Sequence[object]) -> str:
    reasons = [reply.reason for reply in replies if isinstance(reply, NoReply)]
    return reasons[0] if reasons else "others try to register the same ids"
