"""Opening a registry from its address: one client a process, shared by its threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from pathlib import Path

from photon.clock import Clock, SystemClock
from photon.ledger.address import EndpointAddress, table_name
from photon.registry.address import RegistryAddress
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.credentials import access
from photon.registry.dynamodb.keep_alive import in_background
from photon.registry.dynamodb.local_server import LocalServer, default_kind
from photon.registry.dynamodb.wire import WireClient
from photon.registry.quorum.proposer import QuorumRegistry

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
                [_acceptor(address, slot, name) for slot, name in enumerate(address.members.incarnations)],
                address.settings,
                clock or SystemClock(),
                members=address.members,
                # A repaired endpoint has a table of another incarnation, which the members name.
                reopen=partial(_acceptor, address),
            )
        return _registries[key]


def _acceptor(address: RegistryAddress, slot: int, incarnation: str) -> DynamoAcceptor:
    endpoint, settings = address.endpoints[slot], address.settings
    connect = connection(endpoint, settings.request_timeout, settings.concurrent_requests)
    return DynamoAcceptor(table_name(address.pipeline, incarnation), connect, endpoint.transactions)


def start_servers(endpoints: Iterable[EndpointAddress]) -> None:
    """Begin to start the local ones, on threads: whoever asks them soon waits less, and is told of errors."""
    for endpoint in endpoints:
        if isinstance(endpoint.where, Path):
            in_background(_server(endpoint, endpoint.where).ensure)


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
    # Of the endpoint, not of a client: after a connection failed nobody looks for credentials again.
    granted = access(endpoint.region, endpoint.profile, endpoint.role)

    def connect() -> WireClient:
        url = endpoint.where
        if isinstance(url, Path):
            url = _server(endpoint, url).ensure()
        return WireClient(url, granted, timeout.total_seconds(), connections)

    return connect


def _server(endpoint: EndpointAddress, folder: Path) -> LocalServer:
    server = LocalServer(folder, endpoint.local_server or default_kind())
    return _servers.setdefault((os.getpid(), folder), server)
