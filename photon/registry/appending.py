"""Appending: at the first position that is not decided, an entry that was made for that very place (L1).

An entry is made of its ledger's state. If another entry is chosen at the position, that one is folded, and
the next is made anew. Ledgers are appended to in parallel. A genesis opens a ledger, behind its parents'
seals (L6, L7): whoever needs a ledger opens it, and seals its parents first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from photon.process.faults import fault_point
from photon.registry.entry import Entry, Genesis, LedgerId, NumberedRelease
from photon.registry.errors import RegistryUnavailable
from photon.registry.fold import LedgerState
from photon.registry.form import decode, encode
from photon.registry.positions import Appending, Chosen, Offer, Undecided
from photon.registry.turns import ask_for_turn
from photon.registry.view import View, catch_up, confirm

Make = Callable[[LedgerState], Entry | None]  # None: nothing is left to say in this ledger
LOST_IN_A_ROW = 4  # positions: drivers that are alike far away lose so many once in sixteen times
SILENT_ROUNDS = 3  # offers in a row that no store decided: then the outcome is left open


def append(view: View, positions: Appending, makes: Mapping[LedgerId, Make]) -> set[LedgerId]:
    """Append one entry to each of these ledgers; the ones that have theirs, which the view has then too.

    A ledger gets none if it is sealed, dropped or not open yet (L6), or if by what was read meanwhile nothing
    is left to say. RegistryUnavailable: entries may be chosen or not. What is read next says which.
    """
    left, appended = set(makes), set[LedgerId]()
    offers: dict[LedgerId, Offer] = {}
    silent = 0
    losses: Counter[LedgerId] = Counter()  # positions at which somebody else was faster, in a row
    while True:
        for ledger in sorted(left):
            made = _offer(view.states.get(ledger), makes[ledger], offers.pop(ledger, None), view.writer)
            if made is None:
                left.remove(ledger)
            else:
                offers[ledger] = made
        if not offers:
            return appended
        attempt = positions.attempt()
        replies = attempt.offer(offers)
        if not confirm(view, attempt, [view.states[ledger] for ledger in offers]):
            catch_up(view, positions, offers)
            replies = {}
        elif view.register.is_refilling:
            raise RegistryUnavailable(f"the ids of all rows of {view.register.pipeline} are being put back")
        decided = {ledger: one.value for ledger, one in replies.items() if isinstance(one, Chosen)}
        behind: set[LedgerId] = set()
        for ledger, value in decided.items():
            if view.states.get(ledger) is None or not view.take(ledger, [value]):
                continue  # dropped: the store may have forgotten what was there
            if value == offers[ledger].value:
                offers.pop(ledger)
                left.remove(ledger)
                appended.add(ledger)
                continue
            losses[ledger] += 1  # one entry is known by now, and the place behind it may be free
            behind |= {ledger} if losses[ledger] > 1 else set()
        outrun = [decode(offers[one].value) for one in behind if losses[one] % LOST_IN_A_ROW == 0]
        claims = [one.claims for one in outrun if one.claims is not None]
        for datacenter in sorted({one.claimant.epoch.datacenter for one in claims}):
            ask_for_turn(positions, datacenter)
        if behind:
            catch_up(view, positions, behind)  # much may be decided: else each position costs an offer
        silent = 0 if decided else silent + 1
        if silent == SILENT_ROUNDS:
            raise RegistryUnavailable(_why(replies))


def _offer(state: LedgerState | None, make: Make, before: Offer | None, writer: str) -> Offer | None:
    """The next offer: the same bytes again, as long as the position is the same (L2)."""
    if before is not None and state is not None and state.next_position == before.position:
        return before
    if state is None or not state.takes_entries:
        return None
    entry = make(state)
    if entry is None:
        return None
    return Offer(state.next_position, encode(replace(entry, writer=writer, predecessor=state.checksum)))


def _why(replies: Mapping[LedgerId, Chosen | Undecided]) -> str:
    reasons = [one.reason for one in replies.values() if isinstance(one, Undecided)]
    return reasons[0] if reasons else "the members of the registry change all the time"


# -- opening and sealing (L6, L7)


def open_ledger(view: View, positions: Appending, ledger: LedgerId) -> None:
    """Have a ledger open, or its generation dropped; its parents are sealed then. RegistryUnavailable."""
    while (state := view.states.get(ledger)) is not None and not state.is_open:
        parents = view.register.parents(ledger)
        for parent in parents:
            seal(view, positions, parent)
        if any(parent not in view.states for parent in parents):
            catch_up(view, positions, [ledger])  # a parent is dropped: then somebody has opened this one
            continue
        attempt = positions.attempt()
        value = encode(
            Entry(view.writer, genesis=_genesis(view, ledger), release=_last_release(view, ledger))
        )
        reply = attempt.offer({ledger: Offer(0, value)})[ledger]
        if confirm(view, attempt) and isinstance(reply, Chosen) and ledger in view.states:
            view.take(ledger, [reply.value])
            fault_point("roll.after_opened")
        else:
            catch_up(view, positions, [ledger])


def _genesis(view: View, ledger: LedgerId) -> Genesis:
    """All that the parents are at their seals, and nothing that anybody knows more (L7)."""
    parents = view.register.parents(ledger)
    states = [view.states[parent] for parent in parents]
    at_birth = view.register.generations[ledger.generation].boundary_us
    void: dict[str, int] = {}
    for state in states:
        for datacenter, number in state.over.items():
            void[datacenter] = max(number, void.get(datacenter, 0))
    ledgers = view.register.generations[ledger.generation].ledgers
    return Genesis(ledgers, parents, max([at_birth, *(state.boundary_us for state in states)]), void)


def _last_release(view: View, ledger: LedgerId) -> NumberedRelease | None:
    """The last release of the parents, which the first ledger of a generation begins with."""
    states = [view.states[parent] for parent in view.register.parents(ledger)]
    releases = [state.release for state in states if state.release is not None]
    return max(releases, default=None) if ledger.number == 0 else None


def seal(view: View, positions: Appending, ledger: LedgerId) -> None:
    """Have a ledger sealed, or its generation dropped. One that is not open yet is opened first."""
    while (state := view.states.get(ledger)) is not None and not state.is_sealed:
        if not state.is_open:
            open_ledger(view, positions, ledger)
        append(view, positions, {ledger: lambda state: Entry(seals=True)})
        fault_point("roll.after_seal")


def everywhere(view: View, positions: Appending, make: Make, wants: Callable[[LedgerState], bool]) -> None:
    """Append what `make` has to say in each ledger that takes entries and `wants` it, until none does.

    A ledger whose parents are sealed, or that has none, is opened first, and then asked too: none is left out
    that is born meanwhile.
    """
    catch_up(view, positions)
    while True:
        open_due(view, positions)
        asked = [one.ledger for one in view.states.values() if one.takes_entries and wants(one)]
        if not asked:
            return
        append(view, positions, dict.fromkeys(asked, lambda state: make(state) if wants(state) else None))


def open_due(view: View, positions: Appending) -> None:
    """Open each ledger whose ids can be claimed nowhere else. RegistryUnavailable, RegistryMismatch."""
    while due := [one for one in view.unsealed() if not view.states[one].is_open and _is_due(view, one)]:
        open_ledger(view, positions, due[0])
    newest = len(view.register.generations) - 1
    if any(view.states[one].is_sealed for one in view.register.ledgers(newest)):
        raise view.mismatch(f"generation {newest} is sealed, and the register knows of no next one")


def _is_due(view: View, ledger: LedgerId) -> bool:
    """Whether ids are claimed here, and nowhere else: it has no parents, or one that is sealed or dropped.

    Of a dropped one somebody has opened the children, which this view has not read yet.
    """
    parents = view.register.parents(ledger)
    known = [view.states[parent] for parent in parents if parent in view.states]
    return len(known) < len(parents) or not parents or any(state.is_sealed for state in known)
