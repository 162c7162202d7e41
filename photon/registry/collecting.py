"""Collecting: the boundary rises in the register, then in every ledger; generations go (C2, L5, L12)."""

from __future__ import annotations

from functools import partial

from photon.process.faults import fault_point
from photon.registry.entry import Entry
from photon.registry.positions import Positions
from photon.registry.register import with_boundary, with_dropped
from photon.registry.rolling import everywhere
from photon.registry.view import View, newest_states

# Generations dropped last whose items are deleted once more: a collector may have died before, and inserts
# that were on their way may have come since. Where nothing is left it costs a query a ledger.
SWEPT_AGAIN = 3


def raise_boundary(view: View, positions: Positions, boundary_us: int) -> None:
    """Call events of before that time too old: in the register, then in every ledger. RegistryUnavailable."""
    view.note(positions.change(lambda register: with_boundary(register, boundary_us)))

    everywhere(
        view,
        positions,
        lambda state: Entry(boundary_us=boundary_us),
        lambda state: state.boundary_us < boundary_us,
    )


def droppable(view: View) -> int | None:
    """The oldest generation, if what it holds lies below the boundary of each id's newest ledger; or None."""
    live = view.register.live_generations
    if len(live) < 2:
        return None
    oldest, children = (
        [view.states[ledger] for ledger in view.register.ledgers(generation)] for generation in live[:2]
    )
    # Two entries: with a store down nobody can prove a genesis that is the last one, nor make it again.
    if not all(state.is_sealed for state in oldest) or not all(one.next_position > 1 for one in children):
        return None
    latest_us = max(state.latest_us for state in oldest)
    return live[0] if all(latest_us < state.boundary_us for state in newest_states(view)) else None


def drop(view: View, positions: Positions) -> list[int]:
    """Drop what can be dropped, oldest first: in the register, then its items (L12). The generations dropped.

    RegistryUnavailable; items that are left then go at the next call, and so do those that came late.
    """
    everywhere(view, positions, lambda state: Entry(), lambda state: state.next_position == 1)
    dropped = []
    while (generation := droppable(view)) is not None:
        view.note(positions.change(partial(with_dropped, generation=generation)))
        dropped.append(generation)
        fault_point("gc.after_drop")
    gone = [number for number, one in enumerate(view.register.generations) if one.is_dropped]
    for generation in gone[-max(len(dropped), SWEPT_AGAIN) :]:
        positions.forget(view.register.ledgers(generation))
    return dropped
