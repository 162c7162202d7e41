"""Claiming: a batch's ids are appended to the ledgers that they meet, until somebody holds each."""

from __future__ import annotations

import numpy as np

from photon.ledger.appending import append
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


def claim(view: View, positions: Positions, claims: Claims) -> Holders:
    """Append claims until each id has a holder or is too old; who holds them then, all confirmed (L8).

    EpochOver, and RegistryUnavailable: claims may be there or not, and the plan stays open (A5).
    """
    left = claims.take(np.argsort(claims.hashes[:, 0], kind="stable"))  # what is in order is found sooner
    while True:
        for ledger in _meets(view, left):
            open_ledger(view, positions, ledger)
        _append_once(view, positions, left)
        holders = view.holders(left.hashes, left.times_us)
        left = left.take(~holders.are_held & ~holders.are_too_old)
        if not len(left):
            return view.holders(claims.hashes, claims.times_us)


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
    ledgers = view.register.ledgers(generation)
    return [ledger for ledger in ledgers if view.states[ledger].covers(hashes).any()]


def _append_once(view: View, positions: Positions, claims: Claims) -> None:
    """Append one entry with as many of the claims as it takes to each ledger that they meet."""
    epoch, batch, _ = claims.claimant

    def make(state: LedgerState) -> Entry | None:
        if state.is_void(epoch, batch):
            raise EpochOver(epoch)
        own = claims.take(state.covers(claims.hashes) & (claims.times_us >= state.boundary_us))
        free = own.take(~still_held(view.holds.find(own.hashes), state, view.states.get))
        return Entry(claims=next(cut(free))) if len(free) else None

    of_ledgers = [ledger for ledger, _ in view.current(claims.hashes).ledgers()]
    append(view, positions, dict.fromkeys(of_ledgers, make))
    if any(view.states[one].is_void(epoch, batch) for one in of_ledgers if one in view.states):
        raise EpochOver(epoch)
