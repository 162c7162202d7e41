"""The servers that the contract is tried on, and the registries over them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.store_servers import store_servers
from photon.registry.dynamodb.local_server import local_server
from photon.toolchain.dynoxide import DynoxideMissing, dynoxide_command
from tests.contract.registry_backends import Backend, make_backend

BACKENDS = [
    "memory",
    "memory-3",
    "memory-5",
    "memory-3-one-down",
    "memory-5-two-down",
    # Each store and each way to write once; the other two combinations are in `make test-long`.
    pytest.param("dynamodb-local", marks=pytest.mark.server),
    pytest.param("dynamodb-local-batches", marks=[pytest.mark.server, pytest.mark.long]),
    pytest.param("dynoxide", marks=[pytest.mark.server, pytest.mark.long]),
    pytest.param("dynoxide-batches", marks=pytest.mark.server),
    pytest.param("dynoxide-3", marks=pytest.mark.server),
]


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a DynamoDB Local on disk."""
    with local_server(tmp_path_factory.mktemp("dynamodb")) as url:
        yield url


@pytest.fixture(scope="module")
def dynoxide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The URLs of three dynoxide on disk; skipped where there is none."""
    try:
        dynoxide_command()
    except DynoxideMissing as missing:
        pytest.skip(str(missing))
    with store_servers("dynoxide", tmp_path_factory.mktemp("dynoxide"), 3) as servers:
        yield [server.url for server in servers]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made = make_backend(request.param, request, timed=False)
    yield made
    made.close()


@pytest.fixture(params=BACKENDS)
def timed(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A registry of ids that carry their time."""
    made = make_backend(request.param, request, timed=True)
    yield made
    made.close()
