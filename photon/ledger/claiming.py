"""Claiming: a batch's ids are appended to the ledgers that they meet, until somebody holds each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from photon.ledger.appending import append
from photon.ledger.closing import Closing, next_close, riding
from photon.ledger.entry import Claims, Entry, Epoch, Hashes, LedgerId
from photon.ledger.fold import LedgerState, still_held
from photon.ledger.form import cut
from photon.ledger.positions import Positions
from photon.ledger.rolling import open_ledger
from photon.ledger.view import Holders, View


class EpochOver(Exception):
    """The epoch was closed for ever, or the batch was: another process has it. This one ends (L3)."""

    def __init__(self, epoch: Epoch) -> None:
        super().__init__(f"epoch {epoch} is over: another process has ended it")


def claim(view: View, positions: Positions, claims: Claims, closes: Closing | None = None) -> Holders:
    """Append claims until each id has a holder or is too old; who holds them then, all confirmed (L8).

    In the ledgers that are appended to, `closes` go along: what it names and the batch does not meet stays.
    What is won, and lies below the register's boundary by then, is too old all the same (C1). EpochOver, and
    RegistryUnavailable: claims may be there or not, and the plan stays open (A5).
    """
    ordered = claims.take(np.argsort(claims.hashes[:, 0], kind="stable"))  # in order they are found sooner
    left = ordered
    while len(left):
        for ledger in _meets(view, left):
            open_ledger(view, positions, ledger)
        _append_all(view, positions, left, closes)
        holders = view.holders(ordered.hashes, ordered.times_us)
        left = ordered.take(~holders.are_held & ~holders.are_too_old)
    found = view.holders(claims.hashes, claims.times_us)
    is_late = found.are_of(claims.claimant) & (claims.times_us < view.register.boundary_us)
    found.are_too_old[is_late] = True
    return found


def _meets(view: View, claims: Claims) -> list[LedgerId]:
    """The ledgers in which these ids are claimed now: the current ones, or behind a seal the next."""
    met: set[LedgerId] = set()
    current = view.current(claims.hashes)
    met.update(_covering(view, view.register.live_generations[0], claims.hashes[current.are_nowhere]))
    for ledger, indices in current.ledgers():
        if view.states[ledger].is_sealed:
            met.update(_covering(view, ledger.generation + 1, claims.hashes[indices]))
        else:
            met.add(ledger)
    return sorted(met)


def _covering(view: View, generation: int, hashes: Hashes) -> list[LedgerId]:
    """The ledgers of a generation that have some of these ids in their range."""
    if generation >= len(view.register.generations):
        raise view.mismatch(f"generation {generation - 1} is sealed, and the register knows of no next one")
    ledgers = view.register.ledgers(generation)
    return [ledger for ledger in ledgers if view.states[ledger].covers(hashes).any()]


def _append_all(view: View, positions: Positions, claims: Claims, closes: Closing | None) -> None:
    """Append all of these claims, piece by piece, to the ledgers that have them now, in parallel."""
    pieces = {ledger: cut(claims.take(rows)) for ledger, rows in view.current(claims.hashes).ledgers()}
    if closes is not None:
        _close_what_is_long(view, positions, pieces, closes)
    while True:
        taking = [ledger for ledger in pieces if _takes(view, ledger)]
        first = {one: piece for one in taking if (piece := next(pieces[one], None)) is not None}
        if not first:
            break

        def make(state: LedgerState, first: dict[LedgerId, Claims] = first) -> Entry | None:
            piece = first[state.ledger]
            _require_live(state, piece)
            piece = piece.take(piece.times_us >= state.boundary_us)
            free = piece.take(~still_held(view.holds.find(piece.hashes), state, view.states.get))
            if not len(free):
                return None
            return Entry(claims=free, closes=() if closes is None else riding(state, closes) or ())

        append(view, positions, dict.fromkeys(first, make))
    for ledger, _ in view.current(claims.hashes).ledgers():
        _require_live(view.states[ledger], claims)


def _close_what_is_long(
    view: View, positions: Positions, ledgers: Iterable[LedgerId], closes: Closing
) -> None:
    """Close in entries of their own what has too many frees to go along with claims."""
    while long := [one for one in ledgers if _takes(view, one) and riding(view.states[one], closes) is None]:

        def make(state: LedgerState) -> Entry | None:
            return next_close(state, closes) if riding(state, closes) is None else None

        append(view, positions, dict.fromkeys(long, make))


def _takes(view: View, ledger: LedgerId) -> bool:
    return ledger in view.states and view.states[ledger].takes_entries


def _require_live(state: LedgerState, claims: Claims) -> None:
    epoch, batch, _ = claims.claimant
    if state.is_void(epoch, batch):
        raise EpochOver(epoch)
