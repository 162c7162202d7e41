"""The one server that the contract is tried on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from photon.registry.dynamodb import dynamodb_client
from photon.registry.local_server import local_server


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a DynamoDB Local on disk."""
    with local_server(tmp_path_factory.mktemp("dynamodb")) as url:
        yield dynamodb_client(url, "local", timedelta(seconds=20), 40)
