"""Ledgers in memory with a view for each writer, small claims and tables: all that a story needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from photon.registry.entry import Claimant, Claims, Epoch, Hashes, LedgerId, Mask
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.positions import Offer
from photon.registry.view import Holders, View
from tests.support.claims import claims_for
from tests.support.memory_ledgers import MemoryLedgers, memory_registry

EAST, WEST = Epoch("east", 1), Epoch("west", 1)
LEFT, RIGHT = 1, 12  # ids: of two ledgers one has the left one, the other the right one


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
    return claims_for(claimant, hashes_of(*ids), time_us)


def with_rows(*ids: int) -> Callable[[ClaimsAt, Unclosed], Mask]:
    """Stand for a table with rows of these ids: say of held ids which have no row."""
    rows = {tuple(one) for one in hashes_of(*ids).tolist()}

    def rowless(at: ClaimsAt, one: Unclosed) -> Mask:
        return np.array([tuple(each) not in rows for each in one.hashes.tolist()], bool)

    return rowless


def held_by(holders: Holders, claimant: Claimant) -> list[bool]:
    """Say of each id that was asked for whether this claimant holds it."""
    own: list[bool] = holders.are_of(claimant).tolist()
    return own


def held_and_joined(view: View, *ids: int) -> list[tuple[bool, bool]]:
    """Tell of each id whether somebody holds it, and whether that is a join."""
    found = view.holders(hashes_of(*ids))
    return list(zip(found.are_held.tolist(), found.are_joins.tolist(), strict=True))


def before_the_next(store: MemoryLedgers, call: str, happens: Callable[[], object]) -> None:
    """Have something happen just before the next call of this name, once."""

    def once(name: str) -> None:
        if name == call:
            store.on_call = lambda name: None
            happens()

    store.on_call = once
