"""Two registries as one might write them, each wrong in a way that the contract must catch."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from photon.ledger.stores.copies import Done, NoReply
from photon.ledger.stores.decisions import ballot
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Accept, Insert, Stored, Unchanged
from photon.registry.consensus.layout import Held, decode_value, fast_value, holder_of, item_key
from photon.registry.interface import (
    Claim,
    CommitOutcome,
    Free,
    Holder,
    Joined,
    LookupOutcome,
    Lost,
    Released,
    ReleaseOutcome,
    Won,
)
from photon.testing.faulty_store import FaultyStore


class _Broken:
    def __init__(self, acceptor: FaultyStore) -> None:
        self.acceptor = acceptor

    def holder(self, key: EventKey) -> Holder | None:
        (stored,) = self.acceptor.read([item_key(key, ())])
        if not isinstance(stored, Stored) or stored.value is None:
            return None
        value = decode_value(stored.value)
        return holder_of(value) if isinstance(value, Held) else None

    def lookup(self, keys: Sequence[EventKey]) -> list[LookupOutcome]:
        holders = [self.holder(key) for key in keys]
        return [Free() if holder is None else Joined(holder) for holder in holders]

    def release(self, claims: Sequence[Claim]) -> list[ReleaseOutcome]:
        return [Released() for _ in claims]

    def clear(self, claims: Sequence[Claim]) -> int:
        return 0


class ReadsThenWrites(_Broken):
    """Looks the ids up and then writes those that were free, without a condition.

    The first calls of all threads meet between the two, so that it goes wrong in every order of threads.
    """

    def __init__(self, acceptor: FaultyStore, all_have_read: threading.Barrier) -> None:
        super().__init__(acceptor)
        self._all_have_read = all_have_read
        self._met = threading.local()

    def commit(self, claims: Sequence[Claim]) -> list[CommitOutcome]:
        holders = [self.holder(claim.key) for claim in claims]
        if not hasattr(self._met, "yes"):
            self._met.yes = True
            self._all_have_read.wait(60)
        outcomes: list[CommitOutcome] = []
        for claim, holder in zip(claims, holders, strict=True):
            if holder is None or holder.token == claim.token:
                write = Accept(item_key(claim.key, ()), ballot(1, "0" * 16), fast_value(claim.token))
                self.acceptor.accept([write])
                outcomes.append(Won())
            else:
                outcomes.append(Lost(holder))
        return outcomes


class TakesLostAnswersForLosses(_Broken):
    """Inserts, again after a time-out, and calls every duplicate a loss: as the SDK's own retries would."""

    def commit(self, claims: Sequence[Claim]) -> list[CommitOutcome]:
        return [self._commit(claim) for claim in claims]

    def _commit(self, claim: Claim) -> CommitOutcome:
        insert = Insert(item_key(claim.key, ()), fast_value(claim.token))
        while True:
            match self.acceptor.insert([insert])[0]:
                case Done():
                    return Won()
                case Unchanged():
                    holder = self.holder(claim.key)
                    assert holder is not None
                    return Lost(holder)
                case NoReply():
                    continue
