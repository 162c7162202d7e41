"""Opening positions from their address: boto3 clients, and local servers, which this process holds.

boto3 is imported when the first client is made: commands that ask no store need not wait for it.
"""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from photon.process.clock import Clock, SystemClock
from photon.registry.address import LOCAL_REGION, EndpointAddress, LedgersAddress, table_name, tables_of
from photon.registry.register import Members
from photon.registry.servers.local_server import LocalServer, kind_of
from photon.registry.stores.asking import Stores
from photon.registry.stores.channel import CONCURRENT_REQUESTS, Threads
from photon.registry.stores.deadline import MACHINE_CHANCE, request_timeout
from photon.registry.stores.dynamo import DynamoStore
from photon.registry.stores.positions import StorePositions

ADMIN_TIMEOUT = timedelta(seconds=10)  # for upkeep: tables are made more slowly than items
_LOCAL_KEY = "photon"  # local servers want a key and take any
_STS_SECONDS = 5
# A session reads the API's description, which takes 0.1 s; it makes clients for one thread at a time.
_sessions = threading.Lock()
_SESSION = "photon"  # how CloudTrail names who assumed a role


# Each process has its own: a fork must not use its parent's servers.
_servers: dict[tuple[int, Path], LocalServer] = {}
_opening = threading.Lock()


def open_positions(address: LedgersAddress, clock: Clock | None = None) -> StorePositions:
    """The positions at `address`. Asks nobody: a registry that is down says so when it is used."""
    connections = [
        Connection(endpoint, request_timeout(address.settings), CONCURRENT_REQUESTS)
        for endpoint in address.endpoints
    ]

    def reopen(slot: int, incarnation: str) -> DynamoStore:
        return DynamoStore(table_name(address.pipeline, incarnation), connections[slot])

    stores = Stores(address.members, reopen, Threads(), clock or SystemClock(), MACHINE_CHANCE)
    return StorePositions(stores, address.settings)


def upkeep_stores(address: LedgersAddress, members: Members) -> list[DynamoStore]:
    """The stores of these members, by slot, for one thread each."""
    tables = tables_of(address.pipeline, members)
    return [
        DynamoStore(table, Connection(endpoint, ADMIN_TIMEOUT, 1))
        for endpoint, table in zip(address.endpoints, tables, strict=True)
    ]


def server_of(endpoint: EndpointAddress) -> LocalServer | None:
    """The local server of an endpoint, one for all of this process; None for the URL of another one."""
    if not isinstance(endpoint.where, Path):
        return None
    with _opening:
        key = (os.getpid(), endpoint.where)
        if key not in _servers:
            _servers[key] = LocalServer(endpoint.where, kind_of(endpoint.where))
        return _servers[key]


def leave_servers(see_them_stop: bool = False) -> None:
    """Hold no local server any longer: one that nobody else uses stops, soon or before this returns."""
    with _opening:
        for server in _servers.values():
            server.leave()
            if see_them_stop:
                server.see_it_stop()
        _servers.clear()


class Connection:
    """How to get a client of one endpoint; a local one is started first. One thread calls it at a time."""

    def __init__(self, endpoint: EndpointAddress, timeout: timedelta, connections: int) -> None:
        self._endpoint = endpoint
        self._timeout_seconds = timeout.total_seconds()
        self._connections = connections
        self._server = server_of(endpoint)
        self._client: Any = None
        self._url = ""

    def __call__(self) -> Any:
        """A client; the same one while the URL is the same. RegistryUnavailable if a local server fails."""
        url = str(self._endpoint.where) if self._server is None else self._server.ensure()
        if self._client is None or url != self._url:
            self._client, self._url = self._make(url), url
        return self._client

    def _make(self, url: str) -> Any:
        from botocore.config import Config

        endpoint = self._endpoint
        config = Config(
            retries={"total_max_attempts": 1},  # whether to ask again is for the rounds to say (B2)
            connect_timeout=self._timeout_seconds,
            read_timeout=self._timeout_seconds,
            max_pool_connections=self._connections,
            tcp_keepalive=True,
        )
        is_open = endpoint.region == LOCAL_REGION and endpoint.profile is None and endpoint.role is None
        keys = {"aws_access_key_id": _LOCAL_KEY, "aws_secret_access_key": _LOCAL_KEY} if is_open else {}
        with _sessions:
            return _session(endpoint.profile, endpoint.role, endpoint.region).client(
                "dynamodb", endpoint_url=url, region_name=endpoint.region, config=config, **keys
            )


@lru_cache
def _session(profile: str | None, role: str | None, region: str) -> Any:
    """A session with the credentials of boto3's chain or of a profile, or of a role assumed with them."""
    import boto3
    import botocore.session
    from botocore.config import Config
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    core = botocore.session.Session(profile=profile)
    if role is not None:
        source = core.get_credentials()
        sts = Config(connect_timeout=_STS_SECONDS, read_timeout=_STS_SECONDS)
        fetcher = AssumeRoleCredentialFetcher(
            partial(core.create_client, region_name=region, config=sts),
            source,
            role,
            extra_args={"RoleSessionName": _SESSION},
        )
        core = botocore.session.Session(profile=profile)
        core._credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    return boto3.session.Session(botocore_session=core)
