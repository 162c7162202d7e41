"""The servers that the contract is tried on, and the registries over them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.store_servers import is_available, store_servers
from photon.ledger.servers.local_server import local_server
from photon.ledger.servers.local_supervisor import ServerKind
from tests.contract.registry_backends import BACKENDS, backend_fixture

# Registries of ids without a time, and of ids that carry theirs.
backend = backend_fixture(BACKENDS, timed=False)
timed = backend_fixture(BACKENDS, timed=True)


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a DynamoDB Local on disk."""
    with local_server(tmp_path_factory.mktemp("dynamodb"), "dynamodb-local") as url:
        yield url


def _servers(kind: ServerKind, count: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    if not is_available(kind):
        pytest.skip(f"there is no {kind} on this machine")
    with store_servers(kind, tmp_path_factory.mktemp(kind), count) as servers:
        yield [server.url for server in servers]


@pytest.fixture(scope="module")
def dynoxide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The URLs of three dynoxide on disk, as set-up fetches it."""
    yield from _servers("dynoxide", 3, tmp_path_factory)


@pytest.fixture(scope="module")
def dynoxide_crate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The URL of a dynoxide on disk, as `make dynoxide` builds it."""
    yield from _servers("dynoxide-crate", 1, tmp_path_factory)
