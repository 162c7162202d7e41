"""When the replies so far are enough for a round to go on, so that nobody waits for the rest (protocol B13).

Pure. Each is asked about the replies of N endpoints to one request, in their order; where an endpoint has not
answered yet, there is a NoReply. A round that is told "not yet" by all of it has heard every endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from photon.registry.consensus.acceptor import Done, NoReply, Promised, Refused, Stored
from photon.registry.consensus.decisions import chosen_value, majority

Enough = Callable[[Sequence[object]], bool]


def all_of_them(replies: Sequence[object]) -> bool:
    """Never enough: every endpoint is waited for, as upkeep wants it."""
    return False


def prompt_ones(replies: Sequence[object]) -> bool:
    """Never enough either: all endpoints are waited for but those that are known to be slow."""
    return False


def answered(count: int) -> Enough:
    """So many endpoints answered, whatever they say: the fast quorum for inserts."""
    return lambda replies: count_answers(replies) >= count


def voted(n: int) -> Enough:
    """A majority promised or accepted, or so many refused that no majority can."""
    q = majority(n)

    def is_settled(replies: Sequence[object]) -> bool:
        refused = sum(isinstance(reply, Refused) for reply in replies)
        return refused > n - q or sum(isinstance(reply, Promised | Done) for reply in replies) >= q

    return is_settled


def found(n: int) -> Enough:
    """Some value is proved to be chosen."""
    return lambda replies: chosen_value([r for r in replies if isinstance(r, Stored)], n) is not None


def known(n: int) -> Enough:
    """Some value is proved to be chosen, or that none is: a majority has none."""
    q = majority(n)

    def is_known(replies: Sequence[object]) -> bool:
        stored = [reply for reply in replies if isinstance(reply, Stored)]
        if len(stored) >= q and all(reply.value is None for reply in stored):
            return True
        return chosen_value(stored, n) is not None

    return is_known


def count_answers(replies: Sequence[object]) -> int:
    """How many endpoints answered."""
    return len(replies) - sum(isinstance(reply, NoReply) for reply in replies)
