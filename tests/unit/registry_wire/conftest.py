"""What holds for all tests of the wire: no settings of this machine, and a server with its client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from photon.registry.dynamodb.wire import WireClient
from tests.unit.registry_wire.servers import Endpoint, client_of


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("AWS_") or name == "REQUESTS_CA_BUNDLE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.stop()


@pytest.fixture
def client(endpoint: Endpoint) -> Iterator[WireClient]:
    made = client_of(endpoint.url)
    yield made
    made.close()
