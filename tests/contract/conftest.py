"""The servers that the registry's contract is tried on."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from infra.servers.stores import StoreServer, fastest_kind, store_servers
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Registry
from photon.registry.opening import close_registries
from tests.registry.store_backends import pipeline_over

SETTINGS = Registry(total_timeout=timedelta(seconds=30))


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[StoreServer]]:
    with store_servers(fastest_kind(), tmp_path_factory.mktemp("stores"), 3) as servers:
        yield servers


@pytest.fixture
def servers(machines: list[StoreServer]) -> Iterator[list[StoreServer]]:
    """Three servers that run."""
    for server in machines:
        server.start()
    yield machines
    close_registries()


@pytest.fixture
def new_pipeline(servers: list[StoreServer], tmp_path: Path) -> Callable[[], Pipeline]:
    """Pipelines of two datacenters over the three servers, each with a registry of its own to be made."""

    def make() -> Pipeline:
        urls = [server.url for server in servers]
        made = pipeline_over(urls, SETTINGS, f"events-{uuid.uuid4().hex[:8]}")
        places = {
            name: place.model_copy(update={"state": tmp_path / name, "lake": tmp_path / f"lake-{name}"})
            for name, place in made.datacenters.items()
        }
        return made.model_copy(update={"datacenters": places})

    return make
