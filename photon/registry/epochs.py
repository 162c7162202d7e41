"""Epochs: numbered by the register, ended by whoever fences them, begun after all before are over (L4, E1).

`Fence` makes sure that the table of an epoch's datacenter takes no more commits of it; `rowless` goes by a
snapshot of the table that was read after the fence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from photon.registry.closing import Rowless, end_epoch
from photon.registry.entry import Epoch, Mask
from photon.registry.errors import OtherTable
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.id_registry import IdRegistry
from photon.registry.register import Register, with_epoch
from photon.registry.view import newest_states

Fence = Callable[[Epoch], None]
RowlessOf = Callable[[Epoch], Rowless]


def begin_epoch(registry: IdRegistry, datacenter: str, known: int, table_id: str) -> Epoch:
    """Hand out the next epoch of a datacenter, above the register's and all `known` ones; note its table.

    Its process ends all epochs before it, and commits batch 0 of it, before it claims anything.
    OtherTable if another one was noted first; RetiredDatacenter, RegistryUnavailable.
    """
    handed_out: list[Epoch] = []

    def change(register: Register) -> Register:
        register, epoch = with_epoch(register, datacenter, known)
        if (noted := register.tables.get(datacenter, table_id)) != table_id:
            raise OtherTable(noted)
        handed_out.append(epoch)
        return replace(register, tables={**register.tables, datacenter: table_id})

    registry.change(change)
    return handed_out[-1]


def end_epochs(
    registry: IdRegistry,
    datacenter: str,
    through: int,
    fence: Fence,
    rowless_of: RowlessOf,
    is_given_up: bool = False,
) -> None:
    """End a datacenter's epochs up to this number: fence each that is not over, then close each everywhere.

    `is_given_up`: its lake is gone, so that nothing is fenced, and what is not closed is no join. A process
    that dies here is followed by another, which does all of it again. RegistryUnavailable, and what `fence`
    and `rowless_of` raise.
    """
    registry.read_on()
    for number in range(1, through + 1):
        epoch = Epoch(datacenter, number)
        # Whoever has closed one for ever has fenced it, and all before it that were not over.
        if not is_given_up and not registry.view.is_over(epoch):
            fence(epoch)
    snapshots = cache(rowless_of)  # the table is read once, and only if something is unclosed

    def rowless_by(epoch: Epoch) -> Rowless:
        def rowless(at: ClaimsAt, one: Unclosed) -> Mask:
            return snapshots(epoch)(at, one)

        return rowless

    for number in range(through, 0, -1):  # with the last one closed none of those before it claims anything
        epoch = Epoch(datacenter, number)
        if number == through or _has_unclosed(registry, epoch):
            end_epoch(registry.view, registry.positions, epoch, rowless_by(epoch), is_given_up)


def unfinished(registry: IdRegistry) -> list[Epoch]:
    """Epochs that live no longer, and hold something that nobody has closed: whoever ended them died over it.

    So is one before the newest, if who began that one died before it had ended the others.
    """
    states = newest_states(registry.view)
    unclosed = {one.claimant.epoch for state in states for one in state.unclosed.values()}
    return sorted(epoch for epoch in unclosed if not is_live(registry, epoch))


def is_live(registry: IdRegistry, epoch: Epoch) -> bool:
    """Whether the epoch is its datacenter's newest one in the register, and no ledger calls it over."""
    newest = registry.register.epochs.get(epoch.datacenter, 0)
    return epoch.number == newest and not registry.view.is_over(epoch)


def _has_unclosed(registry: IdRegistry, epoch: Epoch) -> bool:
    return any(state.unclosed_of(epoch) for state in newest_states(registry.view))
