"""Epochs: numbered by the register, ended by whoever fences them, begun after all before are over (L4, E1).

`Fence` makes sure that the table of an epoch's datacenter takes no more commits of it. A snapshot of the
table is read after that, and tells what has no row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from photon.registry.closing import Rowless, end_epoch
from photon.registry.entry import Epoch
from photon.registry.errors import OtherTable
from photon.registry.id_registry import IdRegistry
from photon.registry.register import Register, with_epoch
from photon.registry.view import unclosed_claimants

Fence = Callable[[Epoch], None]


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
    registry: IdRegistry, datacenter: str, through: int, fence: Fence, snapshot: Callable[[], Rowless]
) -> None:
    """End a datacenter's epochs up to this number: fence each that is not over, then close each everywhere.

    A process that dies here is followed by another, which does all of it again. RegistryUnavailable, and what
    `fence` and `snapshot` raise.
    """
    registry.read_on()
    for number in range(1, through + 1):
        epoch = Epoch(datacenter, number)
        # A process that closes an epoch for ever has fenced it, and all earlier ones that were not over.
        if not registry.view.is_over(epoch):
            fence(epoch)
    rows = cache(snapshot)  # read once, behind all fences, and only if something is unclosed
    _close_all(registry, datacenter, through, lambda at, one: rows()(at, one))


def give_up_epochs(registry: IdRegistry, datacenter: str, through: int) -> None:
    """End the epochs of a datacenter whose lake is gone: what is not closed is no join. RegistryUnavailable.

    Nothing can be fenced, and nothing counts that is committed there.
    """
    registry.read_on()
    _close_all(registry, datacenter, through, None)


def _close_all(registry: IdRegistry, datacenter: str, through: int, rowless: Rowless | None) -> None:
    for number in range(through, 0, -1):  # with the last one closed none of those before it claims anything
        epoch = Epoch(datacenter, number)
        if number == through or _has_unclosed(registry, epoch):
            end_epoch(registry.view, registry.positions, epoch, rowless)


def unfinished(registry: IdRegistry) -> list[Epoch]:
    """Epochs that live no longer, and hold something that nobody has closed: whoever ended them died over it.

    So is one before the newest, if who began that one died before it had ended the others.
    """
    unclosed = {claimant.epoch for claimant in unclosed_claimants(registry.view)}
    return sorted(epoch for epoch in unclosed if not is_live(registry, epoch))


def is_live(registry: IdRegistry, epoch: Epoch) -> bool:
    """Whether the epoch is its datacenter's newest one in the register, and no ledger calls it over."""
    newest = registry.register.epochs.get(epoch.datacenter, 0)
    return epoch.number == newest and not registry.view.is_over(epoch)


def claimed_through(registry: IdRegistry, epoch: Epoch) -> int:
    """The greatest batch by which the epoch holds something that no close has decided; 0: none."""
    claimants = unclosed_claimants(registry.view)
    return max((claimant.batch for claimant in claimants if claimant.epoch == epoch), default=0)


def _has_unclosed(registry: IdRegistry, epoch: Epoch) -> bool:
    return any(claimant.epoch == epoch for claimant in unclosed_claimants(registry.view))
