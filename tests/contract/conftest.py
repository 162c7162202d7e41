"""The servers that the contract is tried on, and the registries over them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.store_servers import store_servers
from photon.registry.dynamodb.local_server import local_server
from photon.toolchain.dynoxide import DynoxideMissing, dynoxide_command
from tests.contract.registry_backends import BACKENDS, backend_fixture

# Registries of ids without a time, and of ids that carry theirs.
backend = backend_fixture(BACKENDS, timed=False)
timed = backend_fixture(BACKENDS, timed=True)


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
