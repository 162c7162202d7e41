"""Epochs: numbered by the register, ended by whoever has fenced them, begun after all before are over (L4, E1).

`Fence` makes sure that the table of an epoch's datacenter takes no more commits of it; `rowless` goes by a
snapshot of the table that was read after the fence.
"""

from __future__ import annotations

from collections.abc import Callable

from photon.ledger.closing import Rowless
from photon.ledger.entry import Epoch
from photon.ledger.registry import IdRegistry

Fence = Callable[[Epoch], None]
RowlessOf = Callable[[Epoch], Rowless]


def begin_epoch(registry: IdRegistry, datacenter: str, known: int, table_id: str) -> Epoch:
    """Hand out the next epoch of a datacenter, above the register's and all `known` ones; note its table.

    Its process ends all epochs before it, and commits batch 0 of it, before it claims anything.
    RetiredDatacenter, RegistryUnavailable.
    """
    raise NotImplementedError


def end_epochs(
    registry: IdRegistry,
    datacenter: str,
    through: int,
    fence: Fence,
    rowless_of: RowlessOf,
    is_given_up: bool = False,
) -> None:
    """End a datacenter's epochs up to this number: fence each that is not over, then close each everywhere.

    A process that dies here is followed by another, which does all of it again. RegistryUnavailable, and what
    `fence` and `rowless_of` raise.
    """
    raise NotImplementedError


def unfinished(registry: IdRegistry) -> list[Epoch]:
    """Epochs that are over and hold something that nobody has closed: whoever ended them died over it."""
    raise NotImplementedError


def is_live(registry: IdRegistry, epoch: Epoch) -> bool:
    """Whether the epoch is its datacenter's newest one in the register, and no ledger calls it over."""
    raise NotImplementedError
