"""Repair one endpoint of a registry: a store that lost its data, was restored, or is new."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from photon.clock import Clock
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress, table_name
from photon.registry.interface import RegistryMismatch, RegistryUnavailable
from photon.registry.open import open_registry
from photon.registry.operations.directory import Directory, EndpointSilent, new_incarnation
from photon.registry.operations.init import find_registry, what_it_says
from photon.registry.operations.membership import Silent
from photon.registry.operations.refill import SUPERSEDED, RepairSuperseded, refill

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair that has ended: `copied` ids, and `mended` ones at which endpoints still differed after it."""

    endpoint: str
    table: str
    members_version: int
    copied: int
    mended: int


def repair_endpoint(pipeline: Pipeline, url: str, clock: Clock) -> Repair:
    """Fill a new table at the endpoint with this URL from a majority of the others; commits go on meanwhile.

    First the endpoint is taken out of use, whether or not it answers: so that a store restored from a copy
    need not be started before. Can be run again after a failure: it begins anew. RegistryMismatch if this
    endpoint can't be repaired, RegistryUnavailable if it, or a majority of the others, does not answer,
    RepairSuperseded, and what `find_registry` raises.
    """
    address = find_registry(pipeline)
    slot = _slot_of(address, url)
    directory = Directory(address.endpoints[slot], clock)
    incarnation = new_incarnation()
    table = table_name(pipeline.name, incarnation)

    registry = open_registry(address)
    old: list[str] = []

    def make_store() -> None:
        named = directory.table_of(pipeline.name)
        old.extend(_tables_there(directory, pipeline.name, address.tables[slot]))
        # After these were read: a later repair then keeps the name that it gave, and its table.
        if registry.register.read().members.incarnations[slot] != incarnation:
            raise RepairSuperseded(SUPERSEDED)
        _refuse_other_stores(pipeline, address, slot, directory, named)
        if not directory.replace_table_of(pipeline.name, named, table):
            raise RepairSuperseded(SUPERSEDED)

    filled = refill(registry, slot, incarnation, make_store, clock)
    for one in old:  # those of repairs that died among them
        _remove_if_possible(directory, one)
    return Repair(url, table, filled.members.version, filled.copied, filled.mended)


def _tables_there(directory: Directory, pipeline: str, known: str) -> list[str]:
    """All tables of a pipeline at an endpoint; without the right to list them, the one that is known."""
    try:
        return directory.tables_of(pipeline)
    except EndpointSilent:
        return [known]


def _remove_if_possible(directory: Directory, table: str) -> None:
    """The repair has ended: a table that is protected, or an endpoint that fell since, is only told of."""
    try:
        directory.remove(table)
    except RegistryUnavailable as error:
        log.warning(
            "the table %s at %s is not needed any more, and could not be removed (%s); remove it by hand",
            table,
            directory.endpoint,
            error,
        )


def _refuse_other_stores(
    pipeline: Pipeline, address: RegistryAddress, slot: int, directory: Directory, named: str | None
) -> None:
    """RegistryMismatch if the endpoint has data that is not that of this slot: another one still needs it."""
    endpoint = address.endpoints[slot]
    others = {table for other, table in enumerate(address.tables) if other != slot}
    if any(directory.has(table) for table in sorted(others)):
        raise RegistryMismatch(
            f"{endpoint} is the store of another endpoint of this registry; name one of its own and repair it"
        )
    if named is None or not directory.has(named):
        return
    said = what_it_says(pipeline.name, endpoint)
    if isinstance(said, Silent):
        raise RegistryUnavailable(f"{endpoint} does not answer ({said.reason})")
    if said.register is not None:
        known = {table_name(pipeline.name, name) for name in said.register.members.incarnations}
        if not known & others:
            raise RegistryMismatch(
                f"{endpoint} has the data of another registry of {pipeline.name} (table {named});"
                " name a store of its own, or remove that table if nobody needs it, then repair it"
            )


def _slot_of(address: RegistryAddress, url: str) -> int:
    urls = [str(endpoint).rstrip("/") for endpoint in address.endpoints]
    if url.rstrip("/") not in urls:
        raise RegistryMismatch(f"{url} is no endpoint of {address.pipeline}; there are: {', '.join(urls)}")
    if len(urls) == 1:
        raise RegistryMismatch(
            f"{url} is the only endpoint of {address.pipeline}: there is nothing to repair it from."
            " Put its data back, or begin anew (docs/operations.md)"
        )
    return urls.index(url.rstrip("/"))
