"""Positions that are decided at once, in memory: for stories of what ledgers mean, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from photon.ledger.entry import Claimant, Claims, Epoch, Hashes, LedgerId, Mask
from photon.ledger.fold import ClaimsAt, Unclosed
from photon.ledger.form import checksum
from photon.ledger.positions import Change, Chosen, Offer, Tail
from photon.ledger.register import Generation, Members, Register
from photon.ledger.rolling import open_ledger
from photon.ledger.view import View

EAST, WEST = Epoch("east", 1), Epoch("west", 1)


class PositionsInMemory:
    """One store that answers at once and forgets what it is told to; also its own attempt."""

    def __init__(self, ledgers: int = 1) -> None:
        self.register = Register(
            "stories", "settings", Members(1, ("a",)), generations=(Generation(ledgers),)
        )
        self.values: dict[LedgerId, list[bytes]] = {}

    def attempt(self) -> PositionsInMemory:
        return self

    def offer(self, offers: Mapping[LedgerId, Offer]) -> dict[LedgerId, Chosen]:
        chosen = {}
        for ledger, offer in offers.items():
            if ledger.generation not in self.register.live_generations:
                chosen[ledger] = Chosen(offer.value)  # where all was deleted, anything can be inserted
                continue
            values = self.values.setdefault(ledger, [])
            assert offer.position <= len(values), f"L1: a gap before {offer.position} of {ledger}"
            if offer.position == len(values):
                values.append(offer.value)
            chosen[ledger] = Chosen(values[offer.position])
        return chosen

    def read(self, first: Mapping[LedgerId, int]) -> dict[LedgerId, Tail]:
        return {one: Tail(self.values.get(one, [])[position:], "nothing") for one, position in first.items()}

    def lacking(self, last: Mapping[LedgerId, tuple[int, bytes]]) -> set[LedgerId]:
        return {
            ledger
            for ledger, (position, expected) in last.items()
            if checksum_at(self.values.get(ledger, []), position) != expected
        }

    def confirm(self) -> Register:
        return self.register

    def change(self, change: Change) -> Register:
        self.register = change(self.register)
        return self.register

    def forget(self, ledgers: Sequence[LedgerId]) -> None:
        for ledger in ledgers:
            self.values.pop(ledger, None)

    def view(self, writer: str) -> View:
        """A new view, with the first generation open."""
        view = View(self.register, writer)
        for ledger in self.register.ledgers(0):
            open_ledger(view, self, ledger)
        return view


def checksum_at(values: Sequence[bytes], position: int) -> bytes:
    return checksum(values[position]) if position < len(values) else b""


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
