"""Opening what an address names: the one place that knows which kinds of endpoints there are."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from photon.process.clock import Clock, SystemClock
from photon.registry.address import EndpointAddress, LedgersAddress, table_name, tables_of
from photon.registry.register import Members
from photon.registry.stores.asking import Stores
from photon.registry.stores.channel import CONCURRENT_REQUESTS, Threads
from photon.registry.stores.deadline import MACHINE_CHANCE, request_timeout
from photon.registry.stores.endpoint import StoreEndpoint, UpkeepStore
from photon.registry.stores.positions import StorePositions

ADMIN_TIMEOUT = timedelta(seconds=10)  # for upkeep: tables are made more slowly than items


def endpoint_at(
    address: EndpointAddress, timeout: timedelta = ADMIN_TIMEOUT, requests_at_once: int = 1
) -> StoreEndpoint:
    """Open the endpoint at an address. Asks nobody."""
    if isinstance(address.where, Path):
        from photon.registry.stores.sqlite.endpoint import SqliteEndpoint

        return SqliteEndpoint(address, timeout)
    from photon.registry.stores.dynamo_endpoint import DynamoEndpoint  # late: boto3 takes long to load

    return DynamoEndpoint(address, timeout, requests_at_once)


def open_positions(address: LedgersAddress, clock: Clock | None = None) -> StorePositions:
    """The positions at `address`. Asks nobody: a registry that is down says so when it is used."""
    timeout = request_timeout(address.settings)
    endpoints = [endpoint_at(one, timeout, CONCURRENT_REQUESTS) for one in address.endpoints]

    def reopen(slot: int, incarnation: str) -> UpkeepStore:
        return endpoints[slot].store(table_name(address.pipeline, incarnation))

    stores = Stores(address.members, reopen, Threads(), clock or SystemClock(), MACHINE_CHANCE)
    return StorePositions(stores, address.settings)


def upkeep_stores(address: LedgersAddress, members: Members) -> list[UpkeepStore]:
    """The stores of these members, by slot, for one thread each."""
    tables = tables_of(address.pipeline, members)
    return [
        endpoint_at(endpoint).store(table) for endpoint, table in zip(address.endpoints, tables, strict=True)
    ]
