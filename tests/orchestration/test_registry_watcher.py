"""An endpoint of the registry that goes is told, and when it is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import AssetCheckEvaluation, DagsterInstance, build_sensor_context
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster_shared.record import replace

from infra.servers.stores import StoreServer, fastest_kind, store_servers
from photon.orchestration.registry_watcher import registry_sensor
from photon.orchestration.watcher import watcher_sensor
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries, find_registry, init_registry, positions_at
from tests.orchestration.location import Location
from tests.support.stopped_processes import stopped

pytestmark = [pytest.mark.server]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[StoreServer]]:
    with store_servers(fastest_kind(), tmp_path / "endpoints", 3) as started:
        yield started


@pytest.fixture
def location(tmp_path: Path, servers: list[StoreServer], instance: DagsterInstance) -> Iterator[Location]:
    urls = ", ".join(f"{{url: {server.url}}}" for server in servers)
    more = f"registry: {{endpoints: [{urls}]}}\n"
    yield Location(tmp_path / "pipeline", more=more, instance=instance)
    close_registries()


def tick(location: Location, cursor: str | None = None) -> SensorExecutionData:
    """A tick, whose evaluations are stored as Dagster's daemon does it."""
    context = build_sensor_context(location.instance, cursor, definitions=location.defs)
    done = registry_sensor(location.served, location.clock).evaluate_tick(context)
    for event in done.asset_events:
        location.instance.report_runless_asset_event(event)
    return done


def told(tick: SensorExecutionData) -> dict[str, bool]:
    """Return the checks that a tick has evaluated, and whether each passes."""
    events = [event for event in tick.asset_events if isinstance(event, AssetCheckEvaluation)]
    return {one.check_name: one.passed for one in events}


def test_endpoints_that_go_and_come_back_are_told_once_each_time(
    location: Location, servers: list[StoreServer]
) -> None:
    init_registry(location.pipeline, SystemClock())
    first, second, _ = servers
    said, cursor = [], None
    for change in (None, first.kill, None, None, second.kill, second.start, first.start):
        if change is not None:
            change()
        done = tick(location, cursor)
        said.append(told(done).get("endpoints_up"))
        cursor = done.cursor
        location.clock.advance(15)
    assert said == [True, None, None, False, False, None, True], "a second one that goes changes the words"


def test_endpoints_that_hang_are_told_at_the_looks_that_follow_for_half_a_minute(
    location: Location, servers: list[StoreServer]
) -> None:
    init_registry(location.pipeline, SystemClock())
    first, second, _ = servers
    said, cursor = [], None
    with stopped(first.pid), stopped(second.pid):
        for _ in range(2):
            done = tick(location, cursor)
            said.append(told(done).get("endpoints_up"))
            cursor = done.cursor
            location.clock.advance(30)
    assert said == [None, False]
    assert "too few endpoints of the registry answer" in (done.skip_message or "")


def test_what_only_a_report_can_tell_has_no_tick_before_the_first_one(location: Location) -> None:
    init_registry(location.pipeline, SystemClock())
    assert told(tick(location)) == {"endpoints_up": True}


def test_a_check_that_a_report_has_found_failed_is_green_again_once_the_sensor_sees_it_well(
    location: Location,
) -> None:
    init_registry(location.pipeline, SystemClock())
    for event in tick(location).asset_events:
        if isinstance(event, AssetCheckEvaluation) and event.check_name == "endpoints_up":
            location.instance.report_runless_asset_event(replace(event, passed=False))
    assert told(tick(location)) == {"endpoints_up": True}


def test_a_registry_that_was_never_made_is_no_alarm(location: Location) -> None:
    done = tick(location)
    assert not told(done)
    assert "registry" in (done.skip_message or "")


def test_a_local_registry_needs_no_watcher(tmp_path: Path) -> None:
    sensors = [one.name for one in Location(tmp_path).defs.get_repository_def().sensor_defs]
    assert "clicks__watcher" in sensors
    assert "clicks__registry_watcher" not in sensors


def test_a_look_leaves_alone_what_another_sensor_of_the_process_asks_the_registry_by(
    location: Location,
) -> None:
    """Dagster runs the sensors of a location on threads of one process, those of other pipelines too."""
    init_registry(location.pipeline, SystemClock())
    positions = positions_at(find_registry(location.pipeline))
    register = positions.attempt().confirm()
    tick(location)
    watcher_sensor(location.served, location.clock).evaluate_tick(
        build_sensor_context(location.instance, definitions=location.defs)
    )
    assert positions.attempt().confirm() == register
