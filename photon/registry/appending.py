"""Appending: at the first position that is not decided, an entry that was made for that very place (L1).

An entry is made of its ledger's state. If another entry is chosen at the position, that one is folded, and
the next is made anew. Ledgers are appended to in parallel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from photon.registry.entry import Entry, LedgerId
from photon.registry.errors import RegistryUnavailable
from photon.registry.fold import LedgerState
from photon.registry.form import encode
from photon.registry.positions import Chosen, Offer, Positions, Undecided
from photon.registry.view import View, catch_up, confirm

Make = Callable[[LedgerState], Entry | None]  # None: nothing is left to say in this ledger
LOST_IN_A_ROW = 4  # positions: drivers that are alike far away lose so many once in sixteen times
SILENT_ROUNDS = 3  # offers in a row that no store decided: then the outcome is left open


@dataclass(frozen=True, slots=True)
class Appended:
    """The entry is the value of this position."""

    position: int


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The ledger takes no entry: it is sealed, dropped, or not open yet (L6)."""


@dataclass(frozen=True, slots=True)
class Needless:
    """By what was read meanwhile there is nothing left to say."""


Outcome = Appended | NotTaken | Needless


def append(
    view: View, positions: Positions, makes: Mapping[LedgerId, Make], ask: Callable[[], None] = lambda: None
) -> dict[LedgerId, Outcome]:
    """Append one entry to each of these ledgers; all of them are in the view afterwards.

    `ask`: called where somebody else was faster again and again. RegistryUnavailable: entries may be chosen
    or not. What is read next says which.
    """
    outcomes: dict[LedgerId, Outcome] = {}
    offers: dict[LedgerId, Offer] = {}
    silent = 0
    losses: Counter[LedgerId] = Counter()  # positions at which somebody else was faster, in a row
    while True:
        for ledger in sorted(makes.keys() - outcomes.keys()):
            made = _offer(view.states.get(ledger), makes[ledger], offers.pop(ledger, None), view.writer)
            if isinstance(made, Offer):
                offers[ledger] = made
            else:
                outcomes[ledger] = made
        if not offers:
            return outcomes
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
                outcomes[ledger] = Appended(offers.pop(ledger).position)
                continue
            losses[ledger] += 1  # one entry is known by now, and the place behind it may be free
            behind |= {ledger} if losses[ledger] > 1 else set()
        if any(losses[ledger] % LOST_IN_A_ROW == 0 for ledger in behind):
            ask()
        if behind:
            catch_up(view, positions, behind)  # much may be decided: else each position costs an offer
        silent = 0 if decided else silent + 1
        if silent == SILENT_ROUNDS:
            raise RegistryUnavailable(_why(replies))


def _offer(
    state: LedgerState | None, make: Make, before: Offer | None, writer: str
) -> Offer | NotTaken | Needless:
    """What is offered next: the same bytes again, as long as the position is the same (L2)."""
    if before is not None and state is not None and state.next_position == before.position:
        return before
    if state is None or not state.takes_entries:
        return NotTaken()
    entry = make(state)
    if entry is None:
        return Needless()
    return Offer(state.next_position, encode(replace(entry, writer=writer, predecessor=state.checksum)))


def _why(replies: Mapping[LedgerId, Chosen | Undecided]) -> str:
    reasons = [one.reason for one in replies.values() if isinstance(one, Undecided)]
    return reasons[0] if reasons else "the members of the registry change all the time"
