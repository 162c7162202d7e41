"""An endpoint of the registry that goes is told, and when it is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import AssetCheckEvaluation, DagsterInstance, build_sensor_context
from dagster._core.definitions.sensor_definition import SensorExecutionData

from bench.store_servers import StoreServer, fastest_kind, store_servers
from orchestration.registry_watcher import registry_sensor
from photon.clock import SystemClock
from photon.registry.operations.init import init_registry
from tests.orchestration.location import Location

pytestmark = [pytest.mark.server]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[StoreServer]]:
    with store_servers(fastest_kind(), tmp_path / "endpoints", 3) as started:
        yield started


@pytest.fixture
def location(tmp_path: Path, servers: list[StoreServer]) -> Location:
    endpoints = ", ".join(f"{{url: {server.url}}}" for server in servers)
    return Location(
        tmp_path / "pipeline", more=f"registry: {{endpoints: [{endpoints}], request_timeout: 500ms}}\n"
    )


def tick(location: Location, instance: DagsterInstance, cursor: str | None = None) -> SensorExecutionData:
    context = build_sensor_context(instance, cursor, definitions=location.defs)
    return registry_sensor(location.served).evaluate_tick(context)


def told(tick: SensorExecutionData) -> dict[str, bool]:
    """Which checks a tick has evaluated, and whether they pass."""
    events = [event for event in tick.asset_events if isinstance(event, AssetCheckEvaluation)]
    return {one.check_name: one.passed for one in events}


def test_endpoints_that_go_and_come_back_are_told_once_each_time(
    location: Location, instance: DagsterInstance, servers: list[StoreServer]
) -> None:
    init_registry(location.pipeline, SystemClock())
    first, second, _ = servers
    cursor, said = None, []
    for change in (None, first.kill, None, second.kill, second.start, first.start):
        if change is not None:
            change()
        done = tick(location, instance, cursor)
        cursor = done.cursor
        said.append(told(done))
    assert [one.get("endpoints_up") for one in said] == [True, False, None, None, None, True]


def test_a_registry_that_was_never_made_is_no_alarm(location: Location, instance: DagsterInstance) -> None:
    done = tick(location, instance)
    assert not told(done)
    assert "registry" in (done.skip_message or "")


def test_a_local_registry_needs_no_watcher(tmp_path: Path) -> None:
    sensors = [one.name for one in Location(tmp_path).defs.get_repository_def().sensor_defs]
    assert "clicks__watcher" in sensors
    assert "clicks__registry_watcher" not in sensors
