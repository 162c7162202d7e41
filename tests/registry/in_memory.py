"""Ledgers in memory with a view for each writer, small claims and tables: all that a story needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from photon.registry.entry import Claimant, Claims, Epoch, Hashes, LedgerId, Mask
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.positions import Offer
from photon.registry.view import View
from tests.support.memory_ledgers import MemoryLedgers, checksum_at, memory_registry

__all__ = ["EAST", "WEST", "PositionsInMemory", "checksum_at", "claims_of", "hashes_of", "with_rows"]

EAST, WEST = Epoch("east", 1), Epoch("west", 1)


class PositionsInMemory(MemoryLedgers):
    """Ledgers in memory that complain of gaps."""

    def __init__(self, ledgers: int = 1) -> None:
        super().__init__("stories", "settings", ledgers)

    def view(self, writer: str) -> View:
        """A new view, with the first generation open."""
        return memory_registry(self, writer).view

    def _insert(self, ledger: LedgerId, offer: Offer) -> bytes:
        if ledger.generation in self.register.live_generations:
            before = len(self.values.get(ledger, []))
            assert offer.position <= before, f"L1: a gap before {offer.position} of {ledger}"
        return super()._insert(ledger, offer)


def hashes_of(*ids: int) -> Hashes:
    """Hashes that are spread evenly: id 0 to 15 are in the ledgers of their sixteenth of the range."""
    return np.array([((one % 16) << 60 | one, one) for one in ids], np.uint64).reshape(-1, 2)


def claims_of(claimant: Claimant, *ids: int, time_us: int = 100) -> Claims:
    """Claims for these ids, all of events of one time."""
    length = len(ids)
    return Claims(
        claimant,
        hashes_of(*ids),
        np.full(length, time_us, np.int64),
        np.zeros(length, np.uint32),
        np.arange(length, dtype=np.int64) * 300,
    )


def with_rows(*ids: int) -> Callable[[ClaimsAt, Unclosed], Mask]:
    """A table that has rows of these ids: which of those that are held have none."""
    rows = {tuple(one) for one in hashes_of(*ids).tolist()}

    def rowless(at: ClaimsAt, one: Unclosed) -> Mask:
        return np.array([tuple(each) not in rows for each in one.hashes.tolist()], bool)

    return rowless
