"""The servers that the contract is tried on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from photon.dynoxide import DynoxideMissing, dynoxide_command
from photon.registry.client import dynamodb_client
from photon.registry.local_server import local_server
from photon.testing.store_servers import store_servers

TIMEOUT = timedelta(seconds=20)


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a DynamoDB Local on disk."""
    with local_server(tmp_path_factory.mktemp("dynamodb")) as url:
        yield dynamodb_client(url, "local", TIMEOUT, 40)


@pytest.fixture(scope="module")
def dynoxide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """Clients of three dynoxide on disk; skipped where there is none."""
    try:
        dynoxide_command()
    except DynoxideMissing as missing:
        pytest.skip(str(missing))
    with store_servers("dynoxide", tmp_path_factory.mktemp("dynoxide"), 3) as servers:
        yield [server.client(TIMEOUT, 40) for server in servers]
