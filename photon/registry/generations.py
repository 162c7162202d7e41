"""Generations of ledgers: a roll begins the next; the boundary rises; the oldest goes (C2, L5, L7, L12)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from photon.process.clock import in_utc
from photon.process.faults import fault_point
from photon.registry.appending import everywhere, open_ledger
from photon.registry.entry import Entry, told_boundary
from photon.registry.positions import Positions
from photon.registry.register import with_boundary, with_dropped, with_generation
from photon.registry.view import View, catch_up, newest_states

# Generations dropped last whose items are deleted once more: a collector may have died before, and inserts
# that were on their way may have come since. Where nothing is left it costs a query a ledger.
SWEPT_AGAIN = 3


def roll(
    view: View, positions: Positions, ledgers: int, homes: tuple[str, ...] = (), after: int | None = None
) -> int:
    """Begin a generation of so many ledgers, and open them; the number of the newest generation afterwards.

    `after`: the newest one when it was decided to roll; None: now. If there is another one by then, it stays
    the newest (L7). RegistryUnavailable.
    """
    catch_up(view, positions)
    newest = len(view.register.generations) - 1 if after is None else after
    for ledger in view.register.ledgers(newest):
        open_ledger(view, positions, ledger)
    view.note(positions.change(lambda register: with_generation(register, newest, ledgers, homes)))
    fault_point("roll.after_register")
    newest = len(view.register.generations) - 1
    for ledger in view.register.ledgers(newest):
        open_ledger(view, positions, ledger)
    return newest


def raise_boundary(view: View, positions: Positions, boundary_us: int) -> None:
    """Call events of before that time too old: in the register, then in every ledger. RegistryUnavailable."""
    view.note(positions.change(lambda register: with_boundary(register, boundary_us)))

    everywhere(
        view,
        positions,
        lambda state: Entry(boundary_us=boundary_us),
        lambda state: state.boundary_us < boundary_us,
    )


@dataclass(frozen=True, slots=True)
class NotDropped:
    """Nothing can be dropped now, because of this."""

    because: str


def droppable(view: View) -> int | NotDropped:
    """The oldest generation, if what it holds lies below the boundary of each id's newest ledger."""
    live = view.register.live_generations
    if len(live) < 2:
        return NotDropped(f"generation {live[0]} of ledgers is the newest: ids go once another one has begun")
    oldest, children = (
        [view.states[ledger] for ledger in view.register.ledgers(generation)] for generation in live[:2]
    )
    # Two entries: with a store down nobody can prove a genesis that is the last one, nor make it again.
    if not all(state.is_sealed for state in oldest) or not all(one.next_position > 1 for one in children):
        return NotDropped(f"generation {live[1]} of ledgers is only half begun")
    latest_us = max(state.latest_us for state in oldest)
    boundary_us = min(state.boundary_us for state in newest_states(view))
    if latest_us < boundary_us:
        return live[0]
    if (boundary_told_us := told_boundary(boundary_us)) is None:
        return NotDropped("there is no boundary yet: ids go once they lie below it")
    return NotDropped(
        f"generation {live[0]} of ledgers has ids of events up to {in_utc(latest_us)}, and goes as a whole: "
        f"the boundary is {in_utc(boundary_told_us)}"
    )


def drop(view: View, positions: Positions) -> list[int]:
    """Drop what can be dropped, oldest first: in the register, then its items (L12). The generations dropped.

    RegistryUnavailable; items that are left then go at the next call, and so do those that came late.
    """
    everywhere(view, positions, lambda state: Entry(), lambda state: state.next_position == 1)
    dropped = []
    while isinstance(generation := droppable(view), int):
        view.note(positions.change(partial(with_dropped, generation=generation)))
        dropped.append(generation)
        fault_point("gc.after_drop")
    gone = [number for number, one in enumerate(view.register.generations) if one.is_dropped]
    for generation in gone[-max(len(dropped), SWEPT_AGAIN) :]:
        positions.forget(view.register.ledgers(generation))
    return dropped
