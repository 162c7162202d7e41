"""What replies of N endpoints mean: the decisions of protocol B, pure.

Written for 1, 3 and 5 endpoints alike (Fast Paxos, Lamport 2006; CASPaxos, Rystsov 2018).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from photon.registry.consensus.acceptor import FAST_BALLOT, Done, NoReply, Promised, Refused, Stored
from photon.registry.consensus.layout import (
    Cleared,
    Held,
    Tombstone,
    Value,
    datacenter_of,
    decode_value,
    encode_value,
    holder_of,
    is_cleared,
    with_released,
)
from photon.registry.interface import Holder, Lost, Released, Won

FastReply = Done | Stored  # of one endpoint; one that did not answer has none


@dataclass(frozen=True, slots=True)
class NeedsBallot:
    """No value is known to be chosen: a classic round will decide."""


@dataclass(frozen=True, slots=True)
class TooFewReplies:
    """Fewer than a majority answered: ask again."""


Verdict = Won | Lost | Released
FastOutcome = Verdict | NeedsBallot | TooFewReplies


def majority(n: int) -> int:
    """q: how many of n endpoints a classic round needs."""
    return n // 2 + 1


def fast_quorum(n: int) -> int:
    """f = 3n/4, rounded up: how many the fast round needs, so that any two with any majority meet."""
    return (3 * n + 3) // 4


def ballot(counter: int, proposer: str) -> str:
    """A ballot: sorts by its counter; `proposer` (16 hex digits, random) makes it unique (protocol B4).

    A letter before the counter says how many digits it has: `a7`, then `b10`. Ballots are short, for an id
    may keep two of them for good.
    """
    digits = str(counter)
    return f"{chr(ord('a') + len(digits) - 1)}{digits}-{proposer}"


def next_counter(stored: Iterable[Stored]) -> int:
    """A counter above every ballot in these replies."""
    ballots = (b for s in stored for b in (s.promised, s.accepted) if b != FAST_BALLOT)
    return max((int(b[1:].partition("-")[0]) for b in ballots), default=0) + 1


@dataclass(frozen=True, slots=True)
class Votes:
    """How the endpoints voted on the prepare or the accept of one item."""

    promised: Sequence[Stored]  # what each of those had that promised
    accepted: int
    refused: Sequence[Stored]  # what each of the others has
    reason: str  # why there are no more


def votes_of(replies: Sequence[object]) -> Votes:
    """The replies to a prepare or an accept, counted."""
    return Votes(
        [reply.before for reply in replies if isinstance(reply, Promised)],
        sum(isinstance(reply, Done) for reply in replies),
        [reply.now for reply in replies if isinstance(reply, Refused)],
        reason_of(replies),
    )


def reason_of(replies: Sequence[object]) -> str:
    """Why these replies decide nothing."""
    reasons = (reply.reason for reply in replies if isinstance(reply, NoReply))
    return next(reasons, "others try to register the same ids")


def chosen_value(stored: Sequence[Stored], n: int) -> str | None:
    """The value that these replies prove to be chosen, if they prove any (protocol B3).

    A cleared copy alone is proof: only the holder of a row in the output is ever cleared (B6).
    """
    if len(stored) >= fast_quorum(n) and _are_alike(stored):
        return stored[0].value  # nearly always, and quickly
    cleared = _cleared_copy(stored)
    if cleared is not None:
        return cleared
    for s in stored:  # five at most: counting them again for each costs less than a table
        copies = 0
        for other in stored:
            copies += other.value == s.value and other.accepted == s.accepted
        if copies >= (fast_quorum(n) if s.accepted == FAST_BALLOT else majority(n)) and s.value is not None:
            return s.value
    return None


def _are_alike(stored: Sequence[Stored]) -> bool:
    value, accepted = stored[0].value, stored[0].accepted
    return all(other.value == value and other.accepted == accepted for other in stored)


def _cleared_copy(stored: Iterable[Stored]) -> str | None:
    for s in stored:
        if s.value is not None and is_cleared(s.value):
            return s.value
    return None


def decide_fast(token: str, replies: Sequence[FastReply], n: int) -> FastOutcome:
    """The outcome of a fast round for `token`, from the replies of the endpoints that answered."""
    stored = [r for r in replies if isinstance(r, Stored)]
    fast = encode_value(Held(token))
    own = sum(s.accepted == FAST_BALLOT and s.value == fast for s in stored)
    if len(replies) - len(stored) + own >= fast_quorum(n):
        return Won()
    chosen = chosen_value(stored, n)
    match decode_value(chosen) if chosen is not None else None:
        case Held() | Cleared() as value if holder_of(value).token != token:
            return Lost(holder_of(value))
        case Tombstone(released) if token in released:
            return Released()
    return NeedsBallot() if len(replies) >= majority(n) else TooFewReplies()


def decide_lookup(stored: Sequence[Stored], n: int) -> Holder | TooFewReplies | None:
    """Who holds the id; None if nobody does, or if that is undecided (which counts as free)."""
    chosen = chosen_value(stored, n)
    match decode_value(chosen) if chosen is not None else None:
        case Held() | Cleared() as value:
            return holder_of(value)
    return None if len(stored) >= majority(n) else TooFewReplies()


def tokens_in(stored: Sequence[Stored], n: int) -> frozenset[str] | TooFewReplies:
    """The tokens that endpoints have for an id, chosen or not."""
    if len(stored) < majority(n):
        return TooFewReplies()
    values = [decode_value(s.value) for s in stored if s.value is not None]
    return frozenset(value.token for value in values if isinstance(value, Held))


def recover(replies: Sequence[Stored], n: int) -> str | None:
    """The value that a classic round must go on with: the only one that may be chosen already.

    `replies` are those of a prepare, at least a majority. A cleared copy decides: its token was chosen and
    is never released, so that no other value can be (B6). Else the highest ballot decides, else the value
    that a fast round may have chosen, counted over the real number of replies (B4).
    """
    assert len(replies) >= majority(n), f"{len(replies)} replies of {n} endpoints are no majority"
    cleared = _cleared_copy(replies)
    if cleared is not None:
        return cleared
    values = [s for s in replies if s.value is not None]
    highest = max((s.accepted for s in values), default=FAST_BALLOT)
    candidates = [s.value for s in values if s.accepted == highest]
    if highest != FAST_BALLOT:
        return candidates[0]
    for value, copies in Counter(candidates).most_common(1):
        if copies >= len(replies) + fast_quorum(n) - n:
            return value
    return None


def may_be_chosen(stored: Sequence[Stored], n: int) -> str | None:
    """The value that may be chosen already, if those that did not reply have it too; None: none is.

    A lookup can't say so: a value without a ballot is chosen by nearly all, and one of these may be silent.
    """
    value = recover(stored, n)
    if value is None or is_cleared(value):
        return value
    copies = Counter((s.value, s.accepted) for s in stored if s.value == value)
    silent = n - len(stored)
    return (
        value
        if any(
            count + silent >= (fast_quorum(n) if accepted == FAST_BALLOT else majority(n))
            for (_, accepted), count in copies.items()
        )
        else None
    )


def decide_possible(stored: Sequence[Stored], n: int) -> Holder | TooFewReplies | None:
    """Who may hold an id; None: certainly nobody does."""
    if len(stored) < majority(n):
        return TooFewReplies()
    text = may_be_chosen(stored, n)
    value = None if text is None else decode_value(text)
    return None if value is None or isinstance(value, Tombstone) else holder_of(value)


def value_to_commit(current: str | None, token: str) -> Value:
    """What a commit of `token` proposes, given the value that it must go on with."""
    if current is None:
        return Held(token)
    value = decode_value(current)
    if isinstance(value, Tombstone) and token not in value.released:
        return Held(token, value.released)
    return value


def value_to_release(current: str | None, token: str) -> Value:
    """What a release of `token` proposes: a tombstone, unless another holds the id (protocol B5)."""
    value = decode_value(current) if current is not None else Tombstone(())
    match value:
        case Held(holder, released) if holder == token:
            return Tombstone(with_released(released, token))
        case Tombstone(released):
            return Tombstone(with_released(released, token))
    return value


def value_to_clear(current: str | None, token: str) -> Value:
    """What a clearing of `token`, whose row is in the output, proposes: its owner's name (protocol B6)."""
    value = decode_value(current) if current is not None else Held(token)
    return Cleared(datacenter_of(token)) if isinstance(value, Held) and value.token == token else value


def verdict_of(chosen: Value, token: str) -> Verdict:
    """What it means for `token` that a classic round chose this value."""
    match chosen:
        case Held(holder) if holder == token:
            return Won()
        case Held() | Cleared():
            return Lost(holder_of(chosen))
        case Tombstone():
            return Released()
