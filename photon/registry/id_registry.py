"""The registry as one process has it: positions of its ledgers, and a view of them (paper, section 3.2).

A join's process owns its view and keeps it on disk; readers (verification, traces, status) open that one as
it is and read on from there. One thread uses an `IdRegistry`; beats alone may be asked for by another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from photon.registry.appending import append, open_due, open_ledger
from photon.registry.closing import Closing, close_batches, free_joins, is_left, next_close, riding
from photon.registry.entry import Claimant, Claims, Entry, Epoch, Hashes, LedgerId, Times
from photon.registry.fold import LedgerState
from photon.registry.form import cut
from photon.registry.lookups import ViewSnapshot, snapshot_of
from photon.registry.positions import Change, Positions
from photon.registry.register import Register
from photon.registry.turns import Turns
from photon.registry.view import Holders, View, catch_up, current_register, newest_states
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
        return claim(self.view, self.positions, claims, closes)

    def close(self, closes: Closing) -> None:
        """Close what was committed, wherever the view shows something unclosed of it; else ask nobody."""
        close_batches(self.view, self.positions, closes)

    def free(self, hashes: Hashes, are_freed: Callable[[Claimant], bool]) -> None:
        """Free these joins, where one of these claimants holds them (L11).

        For the owner, or for who ended the epoch: a named snapshot of the table has no row of them.
        """
        free_joins(self.view, self.positions, hashes, are_freed)

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


class EpochOver(Exception):
    """The epoch was closed for ever, or the batch was: another process has it. This one ends (L3)."""

    def __init__(self, epoch: Epoch) -> None:
        super().__init__(f"epoch {epoch} is over: another process has ended it")


# -- claiming: a batch's ids are appended to the ledgers that have them, until somebody holds each


def claim(view: View, positions: Positions, claims: Claims, closes: Closing | None = None) -> Holders:
    """Append claims until each id has a holder or is too old; who holds them then, all confirmed (L8).

    What `closes` names is closed in all ledgers then: in the entries of the claims, where there are any.
    What is won, and lies below the register's boundary by then, is too old all the same (C1).
    EpochOver, and RegistryUnavailable: claims may be there or not, and the plan stays open (A5).
    """
    ordered = claims.take(np.argsort(claims.hashes[:, 0], kind="stable"))  # in order they are found sooner
    left = ordered
    while len(left):
        open_due(view, positions)
        _append_all(view, positions, left, closes)
        found = view.find(ordered.hashes, ordered.times_us)
        left = ordered.take(~found.are_held & ~found.are_too_old)
    if closes is not None:
        close_batches(view, positions, closes)  # in ledgers that were sealed and are not open again
    holders = view.holders(claims.hashes, claims.times_us)
    is_late = holders.are_of(claims.claimant) & (claims.times_us < view.register.boundary_us)
    holders.are_too_old[is_late] = True
    return holders


def _append_all(view: View, positions: Positions, claims: Claims, closes: Closing | None) -> None:
    """Append all of these claims, piece by piece, to the ledgers that have them now, in parallel."""
    pieces = {ledger: cut(claims.take(rows)) for ledger, rows in view.current(claims.hashes).ledgers()}
    while long := _to_close(view, closes, is_long=True):
        append(view, positions, dict.fromkeys(long, partial(next_close, batches=closes)))
    while True:
        taking = [ledger for ledger in pieces if _takes(view, ledger)]
        first = {one: piece for one in taking if (piece := next(pieces[one], None)) is not None}
        met = {*first, *_to_close(view, closes)}
        if not met:
            break

        def make(state: LedgerState, first: dict[LedgerId, Claims] = first) -> Entry | None:
            closing = riding(state, closes) or ()
            if state.ledger not in first:
                return Entry(closes=closing) if closing else None
            piece = first[state.ledger]
            _require_live(state, piece)
            free = view.still_free(state, piece)
            return Entry(claims=free if len(free) else None, closes=closing) if closing or len(free) else None

        append(view, positions, dict.fromkeys(met, make))
    for ledger, _ in view.current(claims.hashes).ledgers():
        _require_live(view.states[ledger], claims)


def _to_close(view: View, closes: Closing | None, is_long: bool = False) -> list[LedgerId]:
    """The ledgers in which something is to be closed, beside claims or (`is_long`) in entries of its own."""
    if closes is None:
        return []
    taking = (state for state in newest_states(view) if state.takes_entries and is_left(state, closes))
    return [state.ledger for state in taking if (riding(state, closes) is None) == is_long]


def _takes(view: View, ledger: LedgerId) -> bool:
    return ledger in view.states and view.states[ledger].takes_entries


def _require_live(state: LedgerState, claims: Claims) -> None:
    epoch, batch, _ = claims.claimant
    if state.is_void(epoch, batch):
        raise EpochOver(epoch)
