"""A user's function is told of failed checks, failed runs and stale assets, and when they are over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetCheckEvaluation, AssetCheckSeverity, DagsterInstance, build_sensor_context
from dagster._core.definitions.freshness import FreshnessState, FreshnessStateChange
from dagster._core.definitions.sensor_definition import SensorExecutionData

from assets.health import health_key
from orchestration.alerts import alerts_sensor
from photon.health.alerts import HookNotFound
from tests.orchestration.location import Location

HOOK = """
import json
from pathlib import Path

def tell(alert):
    if (Path(__file__).parent / "broken").exists():
        raise ConnectionError("the pager does not answer")
    with (Path(__file__).parent / "told").open("a") as file:
        file.write(json.dumps(alert.as_dict()) + "\\n")
"""


def location_with_hook(folder: Path, hook: str = "") -> Location:
    """A location whose pipeline names a function of a module of its own."""
    name = f"hook_{abs(hash(str(folder)))}"  # a process imports a module of one name once
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(HOOK)
    return Location(folder, more=f"alerts: {{hook: '{hook or f'{name}:tell'}'}}\n")


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return location_with_hook(tmp_path / "pipeline")


def tick(location: Location, instance: DagsterInstance, cursor: str | None = None) -> SensorExecutionData:
    context = build_sensor_context(instance, cursor, definitions=location.defs)
    return alerts_sensor(location.served).evaluate_tick(context)


def told(location: Location) -> list[dict[str, Any]]:
    """All that the function was told, in its order."""
    file = location.folder / "told"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def titles(location: Location) -> list[str]:
    return [one["title"] for one in told(location)]


def evaluate(
    location: Location, instance: DagsterInstance, passed: bool, severity: str = "ERROR", says: str = "says"
) -> None:
    instance.report_runless_asset_event(
        AssetCheckEvaluation(
            asset_key=health_key(location.served),
            check_name="east__works",
            passed=passed,
            severity=AssetCheckSeverity[severity],
            description=says,
            metadata={},
        )
    )


def test_a_check_that_fails_is_told_once_and_when_it_passes_again(
    location: Location, instance: DagsterInstance
) -> None:
    cursor = tick(location, instance).cursor
    for passed in (True, False, False, True, True):
        evaluate(location, instance, passed, says="nobody has run it")
        cursor = tick(location, instance, cursor).cursor
    assert titles(location) == [
        "[ERROR] clicks: health east__works",
        "[OK AGAIN] clicks: health east__works",
    ]
    assert told(location)[0]["text"] == "nobody has run it"


def test_a_warning_that_becomes_an_error_is_told(location: Location, instance: DagsterInstance) -> None:
    cursor = None
    for severity in ("WARN", "ERROR"):
        evaluate(location, instance, False, severity)
        cursor = tick(location, instance, cursor).cursor
    assert [one["level"] for one in told(location)] == ["warn", "error"]


def test_a_run_that_fails_is_told_once_with_its_id(location: Location, instance: DagsterInstance) -> None:
    before = location.run(instance)
    instance.report_run_failed(instance.get_run_by_id(before), "long ago")  # type: ignore[arg-type]
    cursor = tick(location, instance).cursor
    failed = location.run(instance)
    instance.report_run_failed(instance.get_run_by_id(failed), "its process is gone")  # type: ignore[arg-type]
    for _ in range(2):
        cursor = tick(location, instance, cursor).cursor
    assert [(one["kind"], one["run"]) for one in told(location)] == [("run", failed)]


def test_a_stale_asset_is_told_and_when_it_is_fresh_again(
    location: Location, instance: DagsterInstance
) -> None:
    cursor, before = None, FreshnessState.UNKNOWN
    for state in (FreshnessState.PASS, FreshnessState.FAIL, FreshnessState.PASS):
        change = FreshnessStateChange(
            key=location.served.asset_key("joined_events"),
            previous_state=before,
            new_state=state,
            state_change_timestamp=1.8e9,
        )
        instance._report_runless_asset_event(change)
        cursor, before = tick(location, instance, cursor).cursor, state
    assert titles(location) == ["[ERROR] clicks: joined_events", "[OK AGAIN] clicks: joined_events"]


def test_what_a_function_failed_to_tell_is_told_at_the_next_tick(
    location: Location, instance: DagsterInstance
) -> None:
    cursor = tick(location, instance).cursor
    evaluate(location, instance, passed=False)
    (location.folder / "broken").touch()
    with pytest.raises(ConnectionError, match="the pager does not answer"):
        tick(location, instance, cursor)
    (location.folder / "broken").unlink()
    tick(location, instance, cursor)
    assert titles(location) == ["[ERROR] clicks: health east__works"]


def test_without_a_function_nobody_is_told_and_the_tick_says_so(
    tmp_path: Path, instance: DagsterInstance
) -> None:
    done = tick(Location(tmp_path), instance)
    assert "names no alerts.hook" in (done.skip_message or "")


@pytest.mark.parametrize("hook", ["no_such_module:tell", "json:no_such_function"])
def test_a_function_that_is_not_there_is_named(tmp_path: Path, instance: DagsterInstance, hook: str) -> None:
    with pytest.raises(HookNotFound, match=r"^alerts\.hook: "):
        tick(location_with_hook(tmp_path, hook), instance)
