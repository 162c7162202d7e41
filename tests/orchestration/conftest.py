"""An instance of Dagster as `orchestration/dagster.yaml` makes it; tests without storage make their own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance

from photon.registry.opening import close_registries
from tests.orchestration.location import Location

SETTINGS = Path(__file__).parents[2] / "orchestration" / "dagster.yaml"


@pytest.fixture(scope="session")
def new_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DAGSTER_HOME whose databases are made: that takes longer than most tests, which copy them."""
    home = tmp_path_factory.mktemp("home")
    shutil.copy(SETTINGS, home / "dagster.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        DagsterInstance.from_config(str(home)).dispose()
    return home


@pytest.fixture
def home(new_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    shutil.copytree(new_home, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def location(tmp_path: Path, instance: DagsterInstance) -> Iterator[Location]:
    """A pipeline of two datacenters, as a Dagster of its own serves it."""
    yield Location(tmp_path, instance=instance)
    close_registries()


@pytest.fixture
def instance(home: Path) -> Iterator[DagsterInstance]:
    with DagsterInstance.from_config(str(home)) as opened:
        yield opened
