"""Filling an incarnation of the ledgers anew, from the rows of all tables (L10, protocol B19).

the register: `with_refill_begun`   -> no epoch begins, nothing that is appended counts; a new incarnation
who refills: fences all epochs      -> no batch is committed any more (E1)
the new ledgers: `begin_ledgers`    -> whatever knows these epochs is void there
                 `put_back`         -> each row's claim, as a join
the register: `with_refill_ended`   -> the new ledgers are the registry; epochs may begin again

Each run fills an incarnation of its own. So one that was killed, or that sleeps while another one runs,
writes where nobody reads: its checks fail, and so does its switch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from photon.registry.appending import Make, append, open_ledger
from photon.registry.entry import FOR_EVER, Claims, Close, Entry, Epoch, LedgerId, NumberedRelease
from photon.registry.errors import RegistryUnavailable
from photon.registry.fold import LedgerState
from photon.registry.form import cut
from photon.registry.positions import Appending, Attempt, Positions
from photon.registry.register import Generation, Register
from photon.registry.view import View


def with_refill_begun(register: Register, least: int = 0) -> Register:
    """The register while a refill goes on; `filling` is this run's, whatever another one has begun.

    It is above `least`, which is about the time of day: a copy of the registry may know nothing of refills
    since it was made, and a view of one of these, on whichever machine, must not take this one for it.
    """
    filling = max(register.incarnation, register.filling, least) + 1
    return replace(register, is_refilling=True, filling=filling)


def with_refill_ended(
    register: Register, incarnation: int, epochs: Mapping[str, int], tables: Mapping[str, str]
) -> Register:
    """The register that goes by the ledgers of this incarnation. RegistryUnavailable if another run began.

    `epochs`: by datacenter the number above all that were ever handed out; `tables`: those that were read.
    """
    if register.incarnation == incarnation:
        return register  # an earlier call did it, and the answer got lost
    names = sorted({*register.epochs, *epochs})
    highest = {name: max(register.epochs.get(name, 0), epochs.get(name, 0)) for name in names}
    return replace(
        as_filled(register, incarnation),
        is_refilling=False,
        filling=0,
        epochs=highest,
        tables={**register.tables, **tables},
    )


def as_filled(register: Register, incarnation: int) -> Register:
    """The register as who fills this incarnation goes by it: one generation, like the newest one.

    RegistryUnavailable if another run fills another one by now.
    """
    if register.filling != incarnation:
        raise RegistryUnavailable(
            f"another refill of the registry of {register.pipeline} has begun since: let that one end"
        )
    newest = register.generations[-1]
    first = Generation(newest.ledgers, newest.homes, register.boundary_us)
    return replace(register, incarnation=incarnation, generations=(first,), is_refilling=False)


@dataclass(frozen=True, slots=True)
class FilledLedgers:
    """The ledgers of an incarnation that is being filled: `Appending`. Signs of life are the registry's."""

    positions: Positions
    incarnation: int

    def attempt(self) -> Attempt:
        """Begin an attempt."""
        return self.positions.attempt_at(self.incarnation, lambda now: as_filled(now, self.incarnation))

    def beat(self, epoch: Epoch, number: int) -> None:
        """See `Appending`."""
        self.positions.beat(epoch, number)

    def beats(self, epochs: Sequence[Epoch]) -> Mapping[Epoch, int]:
        """See `Appending`."""
        return self.positions.beats(epochs)


def begin_ledgers(
    view: View, positions: Appending, epochs: Mapping[str, int], release: NumberedRelease | None = None
) -> None:
    """Open the ledgers, and call these epochs over, with all before them; the last release goes on.

    RegistryUnavailable.
    """
    closes = tuple(Close(Epoch(name, number), FOR_EVER) for name, number in sorted(epochs.items()))
    ledgers = view.register.ledgers(0)
    for ledger in ledgers:
        open_ledger(view, positions, ledger)

    def first(state: LedgerState) -> Entry:
        return Entry(closes=closes, release=None if state.ledger.number else release)

    append(view, positions, dict.fromkeys(ledgers, first))


def put_back(view: View, positions: Appending, rows: Iterable[Claims]) -> None:
    """Append the claims of rows, plan by plan, as joins; those whose id is held already are left out."""
    pieces: dict[LedgerId, deque[Claims]] = {}
    for claims in rows:
        for ledger, indices in view.current(claims.hashes).ledgers():
            pieces.setdefault(ledger, deque()).extend(cut(claims.take(indices)))
    while pieces:
        append(view, positions, {ledger: _joins(view, some[0]) for ledger, some in pieces.items()})
        for some in pieces.values():
            some.popleft()
        pieces = {ledger: some for ledger, some in pieces.items() if some}


def _joins(view: View, claims: Claims) -> Make:
    def make(state: LedgerState) -> Entry | None:
        free = view.still_free(state, claims)
        return Entry(claims=free, are_joins=True) if len(free) else None

    return make
