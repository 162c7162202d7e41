"""Claiming: a batch's ids are appended to the ledgers that they meet, until somebody holds each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from photon.registry.appending import append
from photon.registry.closing import Closing, close_batches, is_left, next_close, riding
from photon.registry.entry import Claims, Entry, Epoch, Hashes, LedgerId
from photon.registry.fold import LedgerState
from photon.registry.form import cut
from photon.registry.positions import Positions
from photon.registry.rolling import open_ledger
from photon.registry.view import Holders, View, newest_states


class EpochOver(Exception):
    """The epoch was closed for ever, or the batch was: another process has it. This one ends (L3)."""

    def __init__(self, epoch: Epoch) -> None:
        super().__init__(f"epoch {epoch} is over: another process has ended it")


def claim(
    view: View,
    positions: Positions,
    claims: Claims,
    closes: Closing | None = None,
    ask: Callable[[], None] = lambda: None,
) -> Holders:
    """Append claims until each id has a holder or is too old; who holds them then, all confirmed (L8).

    What `closes` names is closed in all ledgers then: in the entries of the claims, where there are any.
    What is won, and lies below the register's boundary by then, is too old all the same (C1). `ask`: see
    `append`. EpochOver, and RegistryUnavailable: claims may be there or not, and the plan stays open (A5).
    """
    ordered = claims.take(np.argsort(claims.hashes[:, 0], kind="stable"))  # in order they are found sooner
    left = ordered
    while len(left):
        for ledger in _meets(view, left):
            open_ledger(view, positions, ledger)
        _append_all(view, positions, left, closes, ask)
        found = view.find(ordered.hashes, ordered.times_us)
        left = ordered.take(~found.are_held & ~found.are_too_old)
    if closes is not None:
        close_batches(view, positions, closes)  # in ledgers that were sealed and are not open again
    holders = view.holders(claims.hashes, claims.times_us)
    is_late = holders.are_of(claims.claimant) & (claims.times_us < view.register.boundary_us)
    holders.are_too_old[is_late] = True
    return holders


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


def _append_all(
    view: View, positions: Positions, claims: Claims, closes: Closing | None, ask: Callable[[], None]
) -> None:
    """Append all of these claims, piece by piece, to the ledgers that have them now, in parallel."""
    pieces = {ledger: cut(claims.take(rows)) for ledger, rows in view.current(claims.hashes).ledgers()}
    while long := _to_close(view, closes, is_long=True):
        append(view, positions, dict.fromkeys(long, partial(next_close, closes=closes)))
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

        append(view, positions, dict.fromkeys(met, make), ask)
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
