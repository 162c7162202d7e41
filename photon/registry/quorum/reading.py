"""A read of many items: what the replies so far decide, and what has to be asked again. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from photon.registry.consensus import quorums
from photon.registry.consensus.acceptor import ABSENT, ReadReply, Stored
from photon.registry.consensus.columns import Indices, ItemColumn
from photon.registry.consensus.decisions import (
    TooFewReplies,
    decide_lookup,
    decide_possible,
    majority,
    reason_of,
    tokens_in,
)
from photon.registry.consensus.quorums import Enough, all_of_them
from photon.registry.endpoints.endpoints import ActiveEndpoints
from photon.registry.endpoints.parts import Replies
from photon.registry.interface import Holder

T = TypeVar("T")


class Reading(Generic[T]):
    """A read of distinct items: decided items stay decided, only the others are asked for again.

    `decide` says what the replies for an item mean, given N; `enough`, which decide it for good.
    """

    def __init__(
        self,
        items: ItemColumn,
        decide: Callable[[Sequence[Stored], int], T | TooFewReplies],
        enough: Callable[[int], Enough],
    ) -> None:
        self.items = items
        self.enough = enough
        self.found: dict[int, T] = {}  # by index; not of items that are nowhere
        self.asked: ActiveEndpoints | None = None
        self.reason = "no endpoint was asked"
        self._decide = decide
        self._is_decided = np.zeros(len(items), bool)

    def forget(self) -> None:
        """Begin anew."""
        self.found.clear()
        self._is_decided[:] = False

    def left(self) -> Indices:
        """The indices of the items that are not decided."""
        return np.flatnonzero(~self._is_decided)

    def take_note(self, indices: Indices, answers: Replies[ReadReply], n: int) -> None:
        """Decide what these answers are enough for. Items that are nowhere need no object here."""
        codes = answers.codes(lambda reply: 1 if reply is ABSENT else 2 if isinstance(reply, Stored) else 0)
        nowhere = ((codes == 1).sum(axis=1) >= majority(n)) & ~(codes == 2).any(axis=1)
        self._is_decided[indices[nowhere]] = True
        somewhere = np.flatnonzero(~nowhere).tolist()
        several = answers if len(somewhere) < len(answers) else answers[:]
        for place, index in zip(somewhere, indices[~nowhere].tolist(), strict=True):
            replies = several[place]
            decided = self._decide([r for r in replies if isinstance(r, Stored)], n)
            if isinstance(decided, TooFewReplies):
                self.reason = reason_of(replies)
            else:
                self.found[index] = decided
        self._is_decided[list(self.found)] = True


def holders_of(items: ItemColumn) -> Reading[Holder | None]:
    """Who holds each id; None, or nothing found: nobody."""
    return Reading(items, decide_lookup, quorums.known)


def possible_holders_of(items: ItemColumn) -> Reading[Holder | None]:
    """Who holds each id, or may, by all endpoints that answer; None, or nothing found: certainly nobody."""
    return Reading(items, decide_possible, lambda n: all_of_them)


def tokens_of(items: ItemColumn) -> Reading[frozenset[str]]:
    """The tokens for each id at all endpoints that answer."""
    return Reading(items, tokens_in, lambda n: all_of_them)
