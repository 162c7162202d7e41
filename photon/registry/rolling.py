"""Generations: a ledger is opened by its genesis, behind its parents' seals; a roll makes the next (L6, L7).

Whoever needs a ledger opens it, and seals its parents first. An entry `everywhere` leaves out no ledger
that is born meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from photon.process.faults import fault_point
from photon.registry.appending import Make, append
from photon.registry.entry import Entry, Genesis, LedgerId
from photon.registry.fold import LedgerState
from photon.registry.form import encode
from photon.registry.positions import Chosen, Offer, Positions
from photon.registry.register import with_generation
from photon.registry.view import View, catch_up, confirm


def open_ledger(view: View, positions: Positions, ledger: LedgerId) -> None:
    """Have a ledger open, or its generation dropped; its parents are sealed then. RegistryUnavailable."""
    while (state := view.states.get(ledger)) is not None and not state.is_open:
        parents = view.register.parents(ledger)
        for parent in parents:
            seal(view, positions, parent)
        if any(parent not in view.states for parent in parents):
            catch_up(view, positions, [ledger])  # a parent is dropped: then somebody has opened this one
            continue
        attempt = positions.attempt()
        value = encode(Entry(view.writer, genesis=_genesis(view, ledger)))
        reply = attempt.offer({ledger: Offer(0, value)})[ledger]
        if confirm(view, attempt) and isinstance(reply, Chosen) and ledger in view.states:
            view.take(ledger, [reply.value])
            fault_point("roll.after_opened")
        else:
            catch_up(view, positions, [ledger])


def _genesis(view: View, ledger: LedgerId) -> Genesis:
    """What the parents are at their seals, and nothing that anybody knows more (L7)."""
    parents = view.register.parents(ledger)
    states = [view.states[parent] for parent in parents]
    at_birth = view.register.generations[ledger.generation].boundary_us
    void: dict[str, int] = {}
    for state in states:
        for datacenter, number in state.over.items():
            void[datacenter] = max(number, void.get(datacenter, 0))
    ledgers = view.register.generations[ledger.generation].ledgers
    return Genesis(ledgers, parents, max([at_birth, *(state.boundary_us for state in states)]), void)


def seal(view: View, positions: Positions, ledger: LedgerId) -> None:
    """Have a ledger sealed, or its generation dropped. One that is not open yet is opened first."""
    while (state := view.states.get(ledger)) is not None and not state.is_sealed:
        if not state.is_open:
            open_ledger(view, positions, ledger)
        append(view, positions, {ledger: lambda state: Entry(seals=True)})
        fault_point("roll.after_seal")


def everywhere(view: View, positions: Positions, make: Make, wants: Callable[[LedgerState], bool]) -> None:
    """Append what `make` has to say in each ledger that takes entries and `wants` it, until none does.

    A ledger whose parents are sealed, or that has none, is opened first, and then asked too.
    """
    catch_up(view, positions)
    while True:
        unsealed = [view.states[ledger] for ledger in view.unsealed()]
        closed = [one.ledger for one in unsealed if not one.is_open and _is_due(view, one.ledger)]
        if closed:
            open_ledger(view, positions, closed[0])
            continue
        asked = [one.ledger for one in unsealed if one.is_open and wants(one)]
        if not asked:
            return
        append(view, positions, dict.fromkeys(asked, lambda state: make(state) if wants(state) else None))


def _is_due(view: View, ledger: LedgerId) -> bool:
    """Whether ids are claimed here, and nowhere else: it has no parents, or one that is sealed or dropped.

    Of a dropped one somebody has opened the children, which this view has not read yet.
    """
    parents = view.register.parents(ledger)
    known = [view.states[parent] for parent in parents if parent in view.states]
    return len(known) < len(parents) or not parents or any(state.is_sealed for state in known)


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
