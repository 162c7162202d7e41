"""What replies of N endpoints mean: the decisions of protocol B, pure.

Written for 1, 3 and 5 endpoints alike (Fast Paxos, Lamport 2006; CASPaxos, Rystsov 2018).
Sending requests, waiting and checking the register belong in `photon.registry.consensus.proposer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from photon.registry.consensus.layout import (
    Cleared,
    Held,
    Tombstone,
    Value,
    datacenter_of,
    decode_value,
    holder_of,
    is_cleared,
    with_released,
)
from photon.registry.interface import Holder

FAST_BALLOT = ""  # a value without `a`; sorts before every other ballot


@dataclass(frozen=True, slots=True)
class Stored:
    """What one endpoint has of one item. An absent item, or one that is only promised, has no `value`."""

    value: str | None = None
    accepted: str = FAST_BALLOT
    promised: str = FAST_BALLOT


ABSENT = Stored()


@dataclass(frozen=True, slots=True)
class Inserted:
    """The endpoint took our value in the fast round."""


FastReply = Inserted | Stored  # of one endpoint; one that did not answer has none


@dataclass(frozen=True, slots=True)
class TokenWins:
    """Our token is chosen."""


@dataclass(frozen=True, slots=True)
class OtherHolds:
    """Another value is chosen."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class TokenReleased:
    """Our token was released: it never wins."""


@dataclass(frozen=True, slots=True)
class NeedsBallot:
    """Nothing is chosen, or nothing that shows: a classic round will decide."""


@dataclass(frozen=True, slots=True)
class TooFewReplies:
    """Fewer than a majority answered: ask again."""


FastOutcome = TokenWins | OtherHolds | TokenReleased | NeedsBallot | TooFewReplies


def majority(n: int) -> int:
    """q: how many of n endpoints a classic round needs."""
    return n // 2 + 1


def fast_quorum(n: int) -> int:
    """f = 3n/4, rounded up: how many the fast round needs, so that any two with any majority meet."""
    return (3 * n + 3) // 4


def ballot(counter: int, proposer: str) -> str:
    """A ballot: sorts by its counter; `proposer` (16 hex digits, random) makes it unique (protocol B4).

    Before the counter stands how many digits it has, as a letter: `a7`, then `b10`. An id may keep two
    ballots for good, so they are short. Those of before had 16 digits, no letter, and are below all others.
    """
    digits = str(counter)
    return f"{chr(ord('a') + len(digits) - 1)}{digits}-{proposer}"


def next_counter(stored: Iterable[Stored]) -> int:
    """A counter above every ballot in these replies."""
    ballots = (b for s in stored for b in (s.promised, s.accepted) if b != FAST_BALLOT)
    return max((_counter_of(b) for b in ballots), default=0) + 1


def _counter_of(one: str) -> int:
    return int(one.partition("-")[0].lstrip(ascii_lowercase))


def chosen_value(stored: Sequence[Stored], n: int) -> str | None:
    """The value that these replies prove to be chosen, if they prove any (protocol B3).

    A cleared copy alone is proof: only what is in the output is ever cleared (B6).
    """
    values = [s for s in stored if s.value is not None]
    for s in values:
        if s.value is not None and is_cleared(s.value):
            return s.value
    for s in values:  # five at most: counting them anew for each costs less than a table of counts
        copies = sum(other.value == s.value and other.accepted == s.accepted for other in values)
        if copies >= (fast_quorum(n) if s.accepted == FAST_BALLOT else majority(n)):
            return s.value
    return None


def decide_fast(token: str, replies: Sequence[FastReply], n: int) -> FastOutcome:
    """The outcome of a fast round for `token`, from the replies of the endpoints that answered."""
    stored = [r for r in replies if isinstance(r, Stored)]
    own = sum(1 for s in stored if s.accepted == FAST_BALLOT and _holds(s, token))
    if len(replies) - len(stored) + own >= fast_quorum(n):
        return TokenWins()
    chosen = chosen_value(stored, n)
    match decode_value(chosen) if chosen is not None else None:
        case Held(other) as value if other != token:
            return OtherHolds(holder_of(value))
        case Cleared() as value:
            return OtherHolds(holder_of(value))
        case Tombstone(released) if token in released:
            return TokenReleased()
    return NeedsBallot() if len(replies) >= majority(n) else TooFewReplies()


def _holds(stored: Stored, token: str) -> bool:
    if stored.value is None:
        return False
    value = decode_value(stored.value)
    return isinstance(value, Held) and value.token == token


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

    `replies` are those of a prepare, at least a majority. Anything cleared decides: its token was chosen
    and is never released, so that no other value can be (B6). Else the highest ballot, else what a fast
    round may have chosen, counted over the real number of replies (B4).
    """
    assert len(replies) >= majority(n), f"{len(replies)} replies of {n} endpoints are no majority"
    values = [s for s in replies if s.value is not None]
    for s in values:
        if s.value is not None and is_cleared(s.value):
            return s.value
    highest = max((s.accepted for s in values), default=FAST_BALLOT)
    candidates = [s.value for s in values if s.accepted == highest and s.value is not None]
    if highest != FAST_BALLOT:
        return candidates[0]
    for value, copies in Counter(candidates).most_common(1):
        if copies >= len(replies) + fast_quorum(n) - n:
            return value
    return None


def value_to_commit(current: str | None, token: str) -> Value:
    """What a commit of `token` proposes, given the value that it must go on with."""
    if current is None:
        return Held(token)
    value = decode_value(current)
    if isinstance(value, Tombstone) and token not in value.released:
        return Held(token, value.released)
    return value


def value_to_release(current: str | None, token: str) -> Value:
    """What a release of `token` proposes: a tombstone, unless somebody else holds the id (protocol B5)."""
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


def outcome_of_commit(chosen: Value, token: str) -> TokenWins | OtherHolds | TokenReleased:
    """What it means for `token` that a classic round chose this value."""
    match chosen:
        case Held(holder) if holder == token:
            return TokenWins()
        case Held() | Cleared():
            return OtherHolds(holder_of(chosen))
        case Tombstone():
            return TokenReleased()
