"""Opening a registry from its address: one client a process, shared by its threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from photon.clock import Clock, SystemClock
from photon.registry.address import EndpointAddress, RegistryAddress, table_name
from photon.registry.dynamodb.acceptor import DynamoAcceptor, wire_client
from photon.registry.dynamodb.local_server import LocalServer
from photon.registry.dynamodb.wire import WireClient
from photon.registry.quorum.proposer import QuorumRegistry
from photon.registry.quorum.register_store import RegisterStore

# By process: a fork must not use its parent's connections and threads.
_registries: dict[tuple[int, RegistryAddress], QuorumRegistry] = {}
_servers: dict[tuple[int, Path], LocalServer] = {}
_lock = threading.Lock()


def open_registry(address: RegistryAddress, clock: Clock | None = None) -> QuorumRegistry:
    """The registry at `address`; the same object for the same address within one process.

    Asks nobody: a registry that is down says so when it is used (RegistryUnavailable, `Unknown`).
    """
    with _lock:
        key = (os.getpid(), address)
        if key not in _registries:
            _registries[key] = QuorumRegistry(
                [_acceptor(address, slot, table) for slot, table in enumerate(address.tables)],
                address.settings,
                clock or SystemClock(),
                members=address.members,
                # A repaired endpoint has a table of another incarnation, which the members name.
                reopen=lambda slot, name: _acceptor(address, slot, table_name(address.pipeline, name)),
            )
        return _registries[key]


def _acceptor(address: RegistryAddress, slot: int, table: str) -> DynamoAcceptor:
    endpoint, settings = address.endpoints[slot], address.settings
    connect = connection(endpoint, settings.request_timeout, settings.concurrent_requests)
    return DynamoAcceptor(table, connect, endpoint.transactions)


def open_register(address: RegistryAddress) -> RegisterStore:
    """The small register (epochs, horizon, boundary) of the registry at `address`."""
    return open_registry(address).register


def close_registries() -> None:
    """Close all that this process has opened; a local server that nobody else uses stops."""
    with _lock:
        for registry in _registries.values():
            registry.close()
        for server in _servers.values():
            server.leave()
        _registries.clear()
        _servers.clear()


def connection(endpoint: EndpointAddress, timeout: timedelta, connections: int) -> Callable[[], WireClient]:
    """How to get a client of an endpoint; a local one is started first."""

    def connect() -> WireClient:
        return wire_client(_url_of(endpoint), endpoint.region, timeout, connections)

    return connect


def _url_of(endpoint: EndpointAddress) -> str:
    """Where an endpoint listens: a local one is started first, if need be."""
    if endpoint.url is not None:
        return endpoint.url
    assert endpoint.folder is not None, f"an endpoint has a URL or a folder: {endpoint!r}"
    server = _servers.setdefault((os.getpid(), endpoint.folder), LocalServer(endpoint.folder))
    return server.ensure()
