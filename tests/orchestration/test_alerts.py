"""A user's function is told of failed checks, runs and ticks, and of stale assets, and when they are over."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    DagsterInstance,
    DagsterRunStatus,
    build_sensor_context,
)
from dagster._core.definitions.freshness import FreshnessState, FreshnessStateChange
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    ScheduleInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster_shared.error import SerializableErrorInfo

from photon.assets.health import health_key
from photon.assets.pipeline_files import evaluation, problems_now
from photon.assets.run_history import PRUNING_JOB
from photon.health.alerts import Alert, HookNotFound
from photon.orchestration.alerts import alerts_sensor
from photon.orchestration.code_location import build_defs
from photon.orchestration.telling import AlertNotTaken, Calls
from photon.process.clock import Clock
from photon.resources.environment import LocationSettings, location_settings
from tests.orchestration.location import Location
from tests.support.manual_clock import ManualClock

HOOK = """
import json
from pathlib import Path

def tell(alert):
    broken = Path(__file__).parent / "broken"  # the check that can't be told
    if broken.exists() and alert.subject.endswith(broken.read_text()):
        raise ConnectionError("the pager does not answer")
    with (Path(__file__).parent / "told").open("a") as file:
        file.write(json.dumps(alert.as_dict()) + "\\n")
"""


def location_with_hook(folder: Path, instance: DagsterInstance, hook: str = "") -> Location:
    """A location whose pipeline names a function of a module of its own."""
    name = f"hook_{abs(hash(str(folder)))}"  # a process imports a module of one name once
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(HOOK)
    return Location(folder, more=f"alerts: {{hook: '{hook or f'{name}:tell'}'}}\n", instance=instance)


@pytest.fixture
def location(tmp_path: Path, instance: DagsterInstance) -> Location:
    return location_with_hook(tmp_path / "pipeline", instance)


def tick(
    location: Location,
    cursor: str | None = None,
    settings: LocationSettings | None = None,
    clock: Clock | None = None,
) -> SensorExecutionData:
    """A tick in the location as it was loaded first, or with other `settings`."""
    defs = build_defs(settings) if settings else location.defs
    context = build_sensor_context(location.instance, cursor, definitions=defs)
    return alerts_sensor(str(location.file), settings or location.settings, clock).evaluate_tick(context)


def told(location: Location) -> list[dict[str, Any]]:
    """All that the function was told, in its order."""
    file = location.folder / "told"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def titles(location: Location) -> list[str]:
    return [one["title"] for one in told(location)]


def evaluate(
    location: Location,
    passed: bool,
    severity: str = "ERROR",
    says: str = "says",
    check: str = "east__works",
) -> None:
    location.instance.report_runless_asset_event(
        AssetCheckEvaluation(
            asset_key=health_key(location.served),
            check_name=check,
            passed=passed,
            severity=AssetCheckSeverity[severity],
            description=says,
            metadata={},
        )
    )


def test_a_check_that_fails_is_told_once_and_when_it_passes_again(location: Location) -> None:
    cursor = tick(location).cursor
    for passed in (True, False, False, True, True):
        evaluate(location, passed, says="nobody has run it")
        cursor = tick(location, cursor).cursor
    assert titles(location) == [
        "[ERROR] clicks: health east__works",
        "[OK AGAIN] clicks: health east__works",
    ]
    assert told(location)[0]["text"] == "nobody has run it"


def test_what_goes_on_is_told_again_and_says_so(location: Location) -> None:
    evaluate(location, passed=False)
    cursor = None
    for _ in range(3):
        cursor = tick(location, cursor, clock=location.clock).cursor
        location.clock.advance(1_800)
    assert titles(location) == [
        "[ERROR] clicks: health east__works",
        "[STILL ERROR] clicks: health east__works",
    ]


def spoil(location: Location) -> None:
    location.file.write_text(location.file.read_text() + "flavour: sweet\n")


def evaluate_files(instance: DagsterInstance, at_load: LocationSettings) -> None:
    """Evaluate pipeline files as their sensor does."""
    for name, problem in problems_now(at_load).items():
        instance.report_runless_asset_event(evaluation(name, problem))


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_pipeline_file_that_is_spoilt_is_told_to_the_function_that_it_named(
    location: Location, monkeypatch: pytest.MonkeyPatch, is_reloaded: bool
) -> None:
    monkeypatch.setenv("PHOTON_PIPELINES", str(location.file))
    right = location.file.read_text()
    cursor = tick(location).cursor
    spoil(location)
    settings = location_settings() if is_reloaded else None
    evaluate_files(location.instance, settings or location.settings)
    cursor = tick(location, cursor, settings).cursor
    (alert,) = told(location)
    assert alert["title"] == "[ERROR] clicks: pipeline is_served"
    assert "flavour: unknown key" in alert["text"]
    location.file.write_text(right)
    evaluate_files(location.instance, location.settings)
    tick(location, cursor)
    assert [one["level"] for one in told(location)] == ["error", "ok"]


def failed_ticks(
    instance: DagsterInstance,
    name: str,
    count: int,
    kind: InstigatorType = InstigatorType.SENSOR,
    every_seconds: float = 30.0,
) -> None:
    """Ticks as a daemon stores them, which fail for a reason of the user's."""
    here = InProcessCodeLocationOrigin(LoadableTargetOrigin(), location_name="here")
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(here, "__repository__"), name)
    data_of = ScheduleInstigatorData("41 * * * *") if kind is InstigatorType.SCHEDULE else None
    state = InstigatorState(origin, kind, InstigatorStatus.DECLARED_IN_CODE, data_of)
    instance.add_instigator_state(state)
    cause = SerializableErrorInfo("ConnectionError: no route to the lake\n", [], "ConnectionError")
    error = SerializableErrorInfo("Error occurred during the evaluation", [], "SensorError", cause)
    for number in range(count):
        data = TickData(
            state.instigator_origin_id,
            name,
            kind,
            TickStatus.FAILURE,
            1.8e9 + every_seconds * number,
            error=error,
            selector_id=state.selector_id,
        )
        instance.create_tick(data)


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("clicks__watcher", InstigatorType.SENSOR, 2),
        ("pipeline_files", InstigatorType.SENSOR, 2),
        ("clicks__verification__schedule", InstigatorType.SCHEDULE, 1),
        (f"{PRUNING_JOB}_schedule", InstigatorType.SCHEDULE, 1),
    ],
)
def test_a_sensor_or_schedule_whose_ticks_fail_is_told_with_the_cause(
    location: Location, name: str, kind: InstigatorType, count: int
) -> None:
    failed_ticks(location.instance, name, count, kind)
    tick(location)
    (alert,) = told(location)
    assert (alert["kind"], alert["subject"], alert["level"]) == ("tick", name, "error")
    assert alert["text"].endswith("ConnectionError: no route to the lake")


def test_ticks_of_a_sensor_that_fail_for_some_seconds_are_no_news(location: Location) -> None:
    failed_ticks(location.instance, "clicks__watcher", 3, every_seconds=10.0)
    tick(location)
    assert told(location) == []


def test_ticks_that_fail_for_a_spoilt_file_are_told_as_the_file_alone(location: Location) -> None:
    cursor = tick(location).cursor
    spoil(location)
    failed_ticks(location.instance, "clicks__watcher", 2)
    tick(location, cursor)
    assert told(location) == []


def test_a_run_that_fails_is_told_once_with_its_id(location: Location) -> None:
    before = location.run()
    location.instance.report_run_failed(location.instance.get_run_by_id(before), "long ago")  # type: ignore[arg-type]
    cursor = tick(location).cursor
    failed = location.run()
    location.instance.report_run_failed(location.instance.get_run_by_id(failed), "its process is gone")  # type: ignore[arg-type]
    for _ in range(2):
        cursor = tick(location, cursor).cursor
    assert [(one["kind"], one["run"]) for one in told(location)] == [("run", failed)]


def test_a_run_that_dagster_marked_as_failed_first_is_told_with_the_reason_that_came_later(
    location: Location,
) -> None:
    cursor = tick(location).cursor
    failed = location.run()
    run = location.instance.get_run_by_id(failed)
    assert run is not None
    location.instance.report_run_failed(run)
    fail(location, failed)
    tick(location, cursor)
    assert told(location)[0]["text"].endswith("has failed: its process is gone")


def fail(location: Location, run_id: str, why: str = "its process is gone") -> None:
    run = location.instance.get_run_by_id(run_id)
    assert run is not None
    location.instance.report_run_failed(run, why)


def test_a_failed_run_is_told_with_its_reason_and_is_over_when_a_later_one_succeeds(
    location: Location,
) -> None:
    cursor = tick(location).cursor
    fail(location, location.run())
    cursor = tick(location, cursor).cursor
    location.run("west", DagsterRunStatus.SUCCESS)
    cursor = tick(location, cursor).cursor  # another datacenter's
    good = location.run(status=DagsterRunStatus.SUCCESS)
    for _ in range(2):
        cursor = tick(location, cursor).cursor
    subject = "clicks__shift east"
    assert [(one["subject"], one["level"]) for one in told(location)] == [(subject, "error"), (subject, "ok")]
    assert "its process is gone" in told(location)[0]["text"]
    assert told(location)[1]["run"] == good


def test_a_run_by_hand_is_told_by_the_assets_that_were_chosen_with_its_steps_own_words(
    location: Location,
) -> None:
    cursor = tick(location).cursor
    key = location.served.asset_key("registry_state")
    right = location.file.read_text()
    location.file.write_text("spoilt: [")
    job = location.defs.resolve_implicit_global_asset_job_def()
    job.execute_in_process(instance=location.instance, asset_selection=[key], raise_on_error=False)
    location.file.write_text(right)
    tick(location, cursor)
    (seen,) = told(location)
    assert seen["subject"] == "registry_state by hand"
    assert "pipeline.yaml" in seen["text"]
    assert "expected" in seen["text"]


def test_a_stale_asset_is_told_and_when_it_is_fresh_again(location: Location) -> None:
    cursor, before = None, FreshnessState.UNKNOWN
    for state in (FreshnessState.PASS, FreshnessState.FAIL, FreshnessState.PASS):
        change = FreshnessStateChange(
            key=location.served.asset_key("joined_events"),
            previous_state=before,
            new_state=state,
            state_change_timestamp=1.8e9,
        )
        location.instance._report_runless_asset_event(change)
        cursor, before = tick(location, cursor).cursor, state
    assert titles(location) == ["[ERROR] clicks: joined_events", "[OK AGAIN] clicks: joined_events"]


def test_what_a_function_failed_to_tell_is_told_at_the_next_tick(location: Location) -> None:
    cursor = tick(location).cursor
    evaluate(location, passed=False)
    (location.folder / "broken").touch()
    cursor = tick(location, cursor).cursor
    with pytest.raises(AlertNotTaken, match="ConnectionError: the pager does not answer"):
        tick(location, cursor)
    (location.folder / "broken").unlink()
    tick(location, cursor)
    assert titles(location) == ["[ERROR] clicks: health east__works"]


def test_an_alert_for_which_the_function_raises_keeps_no_other_from_being_told_once(
    location: Location,
) -> None:
    cursor = tick(location).cursor
    checks = ["east__clock", "east__dead_letters", "east__lag", "east__works"]
    for check in checks:
        evaluate(location, passed=False, check=check)
    (location.folder / "broken").write_text("dead_letters")
    found = tick(location, cursor)
    assert "raised for '[ERROR] clicks: health east__dead_letters'" in (found.skip_message or "")
    for _ in range(2):
        with pytest.raises(AlertNotTaken, match="ConnectionError: the pager does not answer"):
            tick(location, found.cursor)
    assert sorted(one["subject"] for one in told(location)) == [
        "health east__clock",
        "health east__lag",
        "health east__works",
    ]


class SlowHook:
    def __init__(self) -> None:
        self.called: list[str] = []
        self.may_return = threading.Event()

    def __call__(self, alert: Alert) -> None:
        self.called.append(alert.title)
        self.may_return.wait()


@pytest.fixture
def slow_hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowHook]:
    """A function that returns once the test lets it."""
    hook = SlowHook()
    module = ModuleType("slow_hook")
    module.tell = hook  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "slow_hook", module)
    yield hook
    hook.may_return.set()


def test_a_function_that_hangs_is_not_called_again_and_was_told_if_it_returns_after_all(
    tmp_path: Path, instance: DagsterInstance, slow_hook: SlowHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location(tmp_path, more="alerts: {hook: 'slow_hook:tell'}\n", instance=instance)
    sensor = alerts_sensor(str(location.file), location.settings)

    def tick(cursor: str | None) -> SensorExecutionData:
        return sensor.evaluate_tick(build_sensor_context(instance, cursor, definitions=location.defs))

    for check in ("east__lag", "east__works"):
        evaluate(location, passed=False, check=check)
    with monkeypatch.context() as impatient:  # a sensor has no other way in
        impatient.setattr("photon.orchestration.alerts.CALL_SECONDS", 0.05)
        first = tick(None)
        assert "alerts.hook has not returned" in (first.skip_message or "")
        with pytest.raises(AlertNotTaken, match=r"has not returned .* is not called until it has"):
            tick(first.cursor)
    assert len(slow_hook.called) == 1
    slow_hook.may_return.set()
    (hanging,) = (one for one in threading.enumerate() if one.name == "alerts.hook")
    hanging.join()
    tick(first.cursor)
    assert sorted(slow_hook.called) == [
        "[ERROR] clicks: health east__lag",
        "[ERROR] clicks: health east__works",
    ]


def test_a_file_that_takes_the_name_of_another_takes_nothing_of_what_was_told(location: Location) -> None:
    evaluate(location, passed=False)
    first = tick(location).cursor or ""
    of_another = first.replace(str(location.file), str(location.file.with_name("other.yaml")))
    tick(location, of_another)
    assert titles(location) == ["[ERROR] clicks: health east__works"] * 2


def test_a_slow_function_leaves_the_rest_to_the_next_tick() -> None:
    clock = ManualClock()
    alerts = [Alert("clicks", "run", f"job {number}", "error", "has failed", 0) for number in range(9)]
    found = Calls(clock).tell(lambda alert: clock.advance(8), alerts, timeout_seconds=20)
    assert list(found.done) == alerts[:3]


def test_without_a_function_nobody_is_told_and_the_tick_says_so(
    tmp_path: Path, instance: DagsterInstance
) -> None:
    done = tick(Location(tmp_path, instance=instance))
    assert "names no alerts.hook" in (done.skip_message or "")


@pytest.mark.parametrize("hook", ["no_such_module:tell", "json:no_such_function"])
def test_a_function_that_is_not_there_is_named(tmp_path: Path, instance: DagsterInstance, hook: str) -> None:
    with pytest.raises(HookNotFound, match=r"^alerts\.hook: "):
        tick(location_with_hook(tmp_path, instance, hook))
