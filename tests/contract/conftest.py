"""The servers that the contract is tried on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from photon.dynoxide import DynoxideMissing, dynoxide_command
from photon.registry.local_server import local_server
from photon.testing.store_servers import store_servers


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
