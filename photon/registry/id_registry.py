"""The registry as one process has it: positions of its ledgers, and a view of them (paper, section 3.2).

A join's process owns its view and keeps it on disk; readers (verification, traces, status) open that one as
it is and read on from there. One thread uses an `IdRegistry`; beats alone may be asked for by another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from photon.registry import claiming, closing, freeing
from photon.registry.appending import append
from photon.registry.closing import Closing
from photon.registry.entry import Claimant, Claims, Entry, Epoch, Hashes, LedgerId, Times
from photon.registry.fold import LedgerState
from photon.registry.lookups import ViewSnapshot, snapshot_of
from photon.registry.positions import Change, Positions
from photon.registry.register import Register
from photon.registry.rolling import open_ledger
from photon.registry.turns import Turns
from photon.registry.view import Holders, View, catch_up, current_register
from photon.registry.view_store import ViewStore

# Holds without a file that a snapshot takes along to each task of a batch, in 0.35 MB; more are saved first.
MOST_INLINE = 16_000
MOST_UNSAVED = 2_000  # entries that a process would read again after a crash: some 0.2 seconds
SNAPSHOTS_IN_USE = 3  # the last ones, whose files stay: of a batch, of its second stage, of the next batch


class IdRegistry:
    """Claims, closes and lookups of one process. What asks the stores may raise RegistryUnavailable, and
    RegistryMismatch if a copy of the registry was put back.
    """

    def __init__(self, positions: Positions, view: View, store: ViewStore | None = None) -> None:
        """`store`: where the view is kept; None: a reader, or a test."""
        self.positions = positions
        self.view = view
        self.turns = Turns(positions)
        self._store = store
        self._named: deque[set[str]] = deque(maxlen=SNAPSHOTS_IN_USE)  # files, by each of the last snapshots
        self._saved = _entries(view)

    @property
    def register(self) -> Register:
        """The register as it was last read, with all that the view goes by."""
        return self.view.register

    def read_register(self) -> Register:
        """The register as a majority has it now; the view goes by it."""
        self.view.note(current_register(self.positions))
        return self.register

    def change(self, change: Change) -> Register:
        """Replace the register by `change(register)`; the view goes by it."""
        self.view.note(self.positions.change(change))
        return self.register

    def read_on(self) -> None:
        """Read all ledgers on, and write nothing: an entry that is just being decided comes later."""
        catch_up(self.view, self.positions)

    def read_anew(self) -> None:
        """Forget the view, whose files are damaged or gone, and read all ledgers from their beginning.

        The old view is read on first: only its last entries tell of a registry that was put back too (L10).
        """
        self.read_on()
        view = View(current_register(self.positions), self.view.writer)
        view.remedy = self.view.remedy
        catch_up(view, self.positions)
        self.view, self._saved = view, 0
        self._named.clear()

    def catch_up(self) -> None:
        """Read all ledgers to the ends that they had at the call, and have undecided ones settled (L10).

        By a no-op, unless somebody else is faster: a driver far away would lose to others on and on.
        """
        settled: set[LedgerId] = set()
        while undecided := catch_up(self.view, self.positions) - settled:
            settled |= undecided
            for ledger in sorted(undecided):
                open_ledger(self.view, self.positions, ledger)
            ends = {one: self.view.states[one].next_position for one in undecided & self.view.states.keys()}
            append(self.view, self.positions, {one: partial(_no_op, end) for one, end in ends.items()})

    def holders(self, hashes: Hashes, times_us: Times | None = None) -> Holders:
        """Who holds each id, as far as the view was read."""
        return self.view.holders(hashes, times_us)

    def claim(self, claims: Claims, closes: Closing | None = None) -> Holders:
        """Append claims, and with them what is to be closed, until each id has a holder or is too old.

        EpochOver.
        """
        ask = partial(self.turns.ask, claims.claimant.epoch.datacenter)
        return claiming.claim(self.view, self.positions, claims, closes, ask)

    def close(self, closes: Closing) -> None:
        """Close what was committed, wherever the view shows something unclosed of it; else ask nobody."""
        closing.close_batches(self.view, self.positions, closes)

    def free(self, hashes: Hashes, are_freed: Callable[[Claimant], bool]) -> None:
        """Free these joins, where one of these claimants holds them (L11).

        For the owner, or for who ended the epoch: a named snapshot of the table has no row of them.
        """
        freeing.free_joins(self.view, self.positions, hashes, are_freed)

    def snapshot(self, plan: Claimant | None = None) -> ViewSnapshot:
        """The view for the tasks of a plan (None: of any); its files stay until three more were taken.

        ViewUnavailable, where much is not stored yet.
        """
        if self.view.holds.in_memory > MOST_INLINE:
            self._save()
        self._named.append({file.name for file in self.view.holds.files})
        return snapshot_of(self.view, plan)

    # -- signs of life (no consensus: the greatest number that any store has)

    def beat(self, epoch: Epoch, number: int) -> None:
        """Say that the epoch is at work: store a number that is greater than before."""
        self.positions.beat(epoch, number)

    def beats(self, epochs: Iterable[Epoch]) -> Mapping[Epoch, int]:
        """The last number of each epoch, 0 where there is none."""
        return self.positions.beats(list(epochs))

    def save(self) -> None:
        """Store the view, if much of it is not stored yet; ViewUnavailable."""
        if abs(_entries(self.view) - self._saved) > MOST_UNSAVED:  # fewer, once ledgers were dropped
            self._save()

    def close_view(self) -> None:
        """Store the view, and use it no more; ViewUnavailable."""
        self._named.clear()
        self._save()
        if self._store is not None:
            self._store.close()

    def _save(self) -> None:
        if self._store is not None:
            self._store.save(self.view, in_use=set().union(*self._named))
            self._saved = _entries(self.view)


def _no_op(end: int, state: LedgerState) -> Entry | None:
    """Has the position `end` decided; nothing is left to say behind it."""
    return Entry() if state.next_position == end else None


def _entries(view: View) -> int:
    """How many were read."""
    return sum(state.next_position for state in view.states.values())
