"""Freeing joins: ids that were closed, and whose rows are gone, may be claimed again (L11).

Who frees owns the epoch, or has fenced it and ended it, and goes by one named snapshot of its table.
"""

from __future__ import annotations

from collections.abc import Callable

from photon.registry.entry import Claimant, Entry, Free, Hashes, Mask
from photon.registry.fold import LedgerState
from photon.registry.form import MOST_FREES
from photon.registry.positions import Positions
from photon.registry.rolling import everywhere
from photon.registry.view import Findings, View


def free_joins(
    view: View, positions: Positions, hashes: Hashes, are_freed: Callable[[Claimant], bool]
) -> None:
    """Free these ids wherever one of these claimants has them as joins. RegistryUnavailable."""

    def make(state: LedgerState) -> Entry | None:
        named = _named(view, hashes[state.covers(hashes)], are_freed)
        return Entry(frees=named) if named else None

    everywhere(view, positions, make, lambda state: make(state) is not None)


def _named(view: View, hashes: Hashes, are_freed: Callable[[Claimant], bool]) -> tuple[Free, ...]:
    """As many of the joins to be freed as go into an entry."""
    found = view.find(hashes)
    wanted = found.are_joins & _are_of(view, found, are_freed)
    wanted[wanted.nonzero()[0][MOST_FREES:]] = False
    frees = ((at, hashes[wanted & found.refs.are(*at)]) for at in found.refs.claims())
    return tuple(Free(*at, some) for at, some in frees if len(some))


def _are_of(view: View, found: Findings, are_freed: Callable[[Claimant], bool]) -> Mask:
    return found.refs.are_any(at for at in found.refs.claims() if are_freed(view.claimants[at]))
