"""Repairing an endpoint of a pipeline's registry: a store that lost its data, was restored, or is a new one.

Checks what may be repaired and with which store; how a store is filled is `photon.registry.refill`.
"""

from __future__ import annotations

from dataclasses import dataclass

from photon.clock import Clock
from photon.pipeline import Pipeline
from photon.registry.address import RegistryAddress, table_name
from photon.registry.directory import Directory, new_incarnation
from photon.registry.init import find_registry
from photon.registry.interface import RegistryMismatch
from photon.registry.open import open_registry
from photon.registry.refill import refill


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

    Can be run again after a failure: it begins anew. RegistryMismatch if this endpoint can't be repaired,
    RegistryUnavailable if it, or a majority of the others, does not answer, and what `find_registry` raises.
    """
    address = find_registry(pipeline)
    slot = _slot_of(address, url)
    directory = Directory(address.endpoints[slot], clock)
    others = {table for other, table in enumerate(address.tables) if other != slot}
    if any(directory.has(table) for table in sorted(others)):
        raise RegistryMismatch(f"{url} is the store of another endpoint of this registry; give it its own")
    before = {address.tables[slot], directory.table_of(pipeline.name)} - others
    incarnation = new_incarnation()
    table = table_name(pipeline.name, incarnation)
    filled = refill(
        open_registry(address),
        slot,
        incarnation,
        lambda: directory.replace_table_of(pipeline.name, table),
        clock,
    )
    for old in before - {None, table}:
        assert old is not None
        directory.remove(old)
    return Repair(url, table, filled.members.version, filled.copied, filled.mended)


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
