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
    """Begin a generation of so many ledgers, and open them; return the newest generation's number.

    `homes`: see `Generation`. `after`: the newest generation when somebody decided to roll; None:
    now. If another one has begun since, none is added (L7). RegistryUnavailable.
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
    """Call events before that time too old: in the register, then in every ledger. RegistryUnavailable."""
    view.note(positions.change(lambda register: with_boundary(register, boundary_us)))

    everywhere(
        view,
        positions,
        lambda state: Entry(boundary_us=boundary_us),
        lambda state: state.boundary_us < boundary_us,
    )


@dataclass(frozen=True, slots=True)
class NotDropped:
    """Nothing can be dropped now; `because` says why, for people."""

    because: str


def droppable(view: View) -> int | NotDropped:
    """The oldest generation, if what it holds lies below the boundary of each id's newest ledger."""
    live = view.register.live_generations
    if len(live) < 2:
        return NotDropped(f"generation {live[0]} of ledgers is the newest: ids go once another one has begun")
    oldest, children = (
        [view.states[ledger] for ledger in view.register.ledgers(generation)] for generation in live[:2]
    )
    # A child needs an entry behind its genesis: while that is the last entry and a store is down, nobody can
    # prove it, and nobody can make it again without its parents.
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
    """Drop what can be dropped, oldest first: in the register, then its items (L12). Return the generations.

    RegistryUnavailable; the next call deletes items that are left then, or that came late.
    """
    # Give each ledger the second entry that `droppable` asks for.
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
