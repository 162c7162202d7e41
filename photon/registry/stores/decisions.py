"""Decisions from the copies of n stores at one position (B3, B4). Pure; values are opaque bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from photon.registry.stores.copies import FAST_BALLOT, Copy, Done, NoReply, Promised, Refused


def majority(n: int) -> int:
    """q: how many of n stores a classic round needs."""
    return n // 2 + 1


def fast_quorum(n: int) -> int:
    """f = 3n/4, rounded up: how many the fast round needs, so that any two with any majority meet."""
    return (3 * n + 3) // 4


def ballot(counter: int, proposer: str) -> str:
    """A ballot: sorts by its counter; `proposer` (16 hex digits, random) makes it unique (protocol B4).

    A letter before the counter says how many digits it has: `a7`, then `b10`.
    """
    digits = str(counter)
    return f"{chr(ord('a') + len(digits) - 1)}{digits}-{proposer}"


def chosen(copies: Sequence[Copy], n: int) -> bytes | None:
    """The value that these copies, of distinct stores, prove to be chosen; None if they prove none.

    A copy proves that its store accepted the value once; a promise made since does not undo that.
    """
    counted = Counter((copy.value, copy.accepted) for copy in copies if copy.value is not None)
    for (value, accepted), count in counted.items():
        if count >= (fast_quorum(n) if accepted == FAST_BALLOT else majority(n)):
            return value
    return None


def recover(promised: Sequence[Copy], n: int) -> bytes | None:
    """The only value that may be chosen already, of stores that promise a ballot; None: any may be proposed.

    The highest ballot decides, else the value that inserts may have chosen: with R replies at least
    R + f - n of them have it. R is the number of replies, not of stores.
    """
    assert len(promised) >= majority(n), f"{len(promised)} promises of {n} stores are no majority"
    held = [copy for copy in promised if copy.value is not None]
    highest = max((copy.accepted for copy in held), default=FAST_BALLOT)
    values = Counter(copy.value for copy in held if copy.accepted == highest)
    if highest != FAST_BALLOT:
        (value,) = values  # one ballot has one value
        return value
    enough = len(promised) + fast_quorum(n) - n
    return next((value for value, count in values.most_common(1) if count >= enough), None)


def value_to_propose(own: bytes, promised: Sequence[Copy], n: int) -> bytes:
    """The value that a ballot proposes: what it must carry on, else another's that lies there, else `own`.

    Where it is free, another's value is as good, and older: it may be what is left of a decided one at stores
    of which one was put back to an older copy of itself. With three stores that saves it.
    """
    carried_on = recover(promised, n)
    if carried_on is not None:
        return carried_on
    others = Counter(copy.value for copy in promised if copy.value is not None and copy.value != own)
    # The same one in whatever order the stores reply.
    return max(others, key=lambda value: (others[value], value), default=own)


def counter_above(copies: Iterable[Copy]) -> int:
    """A counter above every ballot in these copies (see `ballot`)."""
    ballots = (ballot for copy in copies for ballot in (copy.promised, copy.accepted) if ballot)
    return max((int(ballot[1:].partition("-")[0]) for ballot in ballots), default=0) + 1


def is_voted(replies: Sequence[object], n: int) -> bool:
    """Whether a majority promised or accepted, or so many refused that no majority can."""
    refused = sum(isinstance(reply, Refused) for reply in replies)
    return refused > n - majority(n) or count_done(replies) >= majority(n)


def count_done(replies: Sequence[object]) -> int:
    """How many stores did what they were asked."""
    return sum(isinstance(reply, Done | Promised) for reply in replies)


def count_answers(replies: Sequence[object]) -> int:
    """How many stores answered."""
    return sum(not isinstance(reply, NoReply) for reply in replies)


def reason_of(replies: Sequence[object]) -> str:
    """Why these replies decide nothing."""
    reasons = [reply for reply in replies if isinstance(reply, NoReply)]
    told = [reply.reason for reply in reasons if reply.kind != "not_asked"]
    return next(iter([*told, *(reply.reason for reply in reasons)]), "others offer at the same position")
