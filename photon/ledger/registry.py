"""The IdRegistry as one process has it: positions of its ledgers, and a view of them (paper, section 3.2).

A join's process owns its view and keeps it on disk; readers (verification, traces, status) open that one as it
is and read on from there. One thread uses an `IdRegistry`; beats alone may be asked for by another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from photon.ledger import closing
from photon.ledger.closing import Rowless
from photon.ledger.entry import Claimant, Claims, Epoch, Hashes, Times
from photon.ledger.lookups import ViewSnapshot
from photon.ledger.positions import Change, Positions
from photon.ledger.register import Register
from photon.ledger.view import Holders, View
from photon.ledger.view_store import ViewStore


@dataclass(frozen=True, slots=True)
class Closing:
    """What an epoch has committed and not closed yet: its batches up to `through` (L4)."""

    epoch: Epoch
    through: int
    rowless: Rowless


class IdRegistry:
    """Claims, closes and lookups of one process. All of it may raise RegistryUnavailable and RegistryMismatch."""

    def __init__(self, positions: Positions, view: View, store: ViewStore | None = None) -> None:
        """`store`: where the view is kept; None: a reader, or a test."""
        self.positions = positions
        self.view = view
        self._store = store

    @property
    def register(self) -> Register:
        """The register as it was last read, with all that the view goes by."""
        return self.view.register

    def read_register(self) -> Register:
        """The register as a majority has it now; the view goes by it."""
        raise NotImplementedError

    def change(self, change: Change) -> Register:
        """Replace the register by `change(register)`; the view goes by it."""
        self.view.note(self.positions.change(change))
        return self.register

    def catch_up(self) -> None:
        """Read all ledgers to their ends, and have undecided ones settled by a no-op (L10)."""
        raise NotImplementedError

    def holders(self, hashes: Hashes, times_us: Times | None = None) -> Holders:
        """Who holds each id, as far as the view was read."""
        return self.view.holders(hashes, times_us)

    def claim(self, claims: Claims, closes: Closing | None = None) -> Holders:
        """Append claims, and in the same entries what is to be closed, until each id has a holder or is too old.

        EpochOver.
        """
        raise NotImplementedError

    def close(self, closes: Closing) -> None:
        """Close what was committed, wherever the view shows something unclosed of it; else ask nobody."""
        closing.close_batches(self.view, self.positions, closes.epoch, closes.through, closes.rowless)

    def free(self, hashes: Hashes, are_freed: Callable[[Claimant], bool]) -> None:
        """Free these joins, where one of these claimants holds them (L11).

        For the owner, or for who ended the epoch: a named snapshot of the table has no row of them.
        """
        raise NotImplementedError

    def snapshot(self) -> ViewSnapshot:
        """The view for the tasks of a batch. Its runs stay until another snapshot is taken and `save` ran."""
        raise NotImplementedError

    # -- signs of life (no consensus: the greatest number that any store has)

    def beat(self, epoch: Epoch, number: int) -> None:
        """Say that the epoch is at work: store a number that is greater than before."""
        raise NotImplementedError

    def beats(self, epochs: Iterable[Epoch]) -> Mapping[Epoch, int]:
        """The last number of each epoch, 0 where there is none."""
        raise NotImplementedError

    def save(self) -> None:
        """Store the view, if much of it is not stored yet."""
        raise NotImplementedError

    def close_view(self) -> None:
        """Store the view, and use it no more."""
        raise NotImplementedError
