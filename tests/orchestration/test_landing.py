"""Landing under Dagster: its sensor on a real instance, its shift in this process on a simulated topic."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetKey,
    AssetRecordsFilter,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    ExecuteInProcessResult,
    build_sensor_context,
)

from photon.assets.pipeline_files import problems
from photon.dispatcher.refusals import OnHold
from photon.dispatcher.retrying import Callbacks
from photon.dispatcher.shift.ending import ShiftLimits
from photon.dispatcher.shift.landing import run_landing
from photon.dispatcher.shift.lease import LEASE_SECONDS, lease_status_of
from photon.landing.marker import ASIDE, Loss, Marker, put_marker
from photon.landing.service import LOCK
from photon.landing.topics import TopicToLand
from photon.orchestration.sensors import LANDING, REASON_TAG
from photon.orchestration.watcher import watcher_sensor
from photon.process.operating_system import held_alone
from photon.registry.errors import RetiredDatacenter
from photon.resources.environment import location_settings
from tests.e2e.process_marks import soon
from tests.landing.objects_world import parquet
from tests.landing.simulated_topic import SimulatedBroker, SimulatedTopic
from tests.orchestration.location import Location, launched

LAND = 'land: [{kafka: {servers: "k:9092", topic: clicks}, into: clicks}]'
LANDED = AssetKey(["clicks", "landing"])


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def location(tmp_path: Path, instance: DagsterInstance) -> Location:
    """A pipeline whose datacenter `east` lands its clicks."""
    return Location(tmp_path, instance=instance, land=LAND)


@pytest.fixture
def broker(location: Location, monkeypatch: pytest.MonkeyPatch) -> SimulatedBroker:
    """The broker of the topic, with a message in it."""
    broker = SimulatedBroker()
    broker.send(0, b'{"click_id": "c0"}')
    topic = TopicToLand(
        "clicks", folder(location), lambda: SimulatedTopic(broker, lambda _: time.sleep(0.01))
    )
    monkeypatch.setattr("photon.landing.sources.topics_of", lambda *_: [topic])
    return broker


def folder(location: Location) -> Path:
    logs = location.pipeline.datacenters["east"].logs
    assert isinstance(logs, Path)
    return logs / "clicks"


def lines(location: Location) -> list[bytes]:
    return [line for file in folder(location).glob("0/*.jsonl") for line in file.read_bytes().splitlines()]


def land(location: Location) -> ExecuteInProcessResult:
    job = location.defs.resolve_job_def(location.served.job_name(LANDING.job))
    return job.execute_in_process(instance=location.instance, partition_key="east", raise_on_error=False)


def landing_beside(location: Location, what: Any) -> ExecuteInProcessResult:
    """Run a shift of landing; beside it do something, and then tell the process to end."""

    def act() -> None:
        try:
            what()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    actor = threading.Thread(target=act)
    actor.start()
    result = land(location)
    actor.join()
    return result


def said_in(instance: DagsterInstance, run_id: str) -> str:
    return "\n".join(entry.user_message or entry.message for entry in instance.all_logs(run_id))


def last_report(instance: DagsterInstance) -> dict[str, Any]:
    (record,) = instance.fetch_materializations(AssetRecordsFilter(LANDED), limit=1).records
    assert record.asset_materialization is not None
    return {name: value.value for name, value in record.asset_materialization.metadata.items()}


def test_only_a_datacenter_with_topics_has_a_sensor_that_lands_them(location: Location) -> None:
    sensors = [one.name for one in location.defs.get_repository_def().sensor_defs]
    assert [name for name in sensors if name.endswith("__landing")] == ["clicks__east__landing"]


def test_topics_get_a_run_though_no_log_grows_and_only_one(location: Location) -> None:
    tick = location.tick(kind=LANDING)
    assert launched(tick) == ["east"]
    assert tick.run_requests is not None
    assert tick.run_requests[0].tags[REASON_TAG] == "this datacenter was never run"
    location.run(kind=LANDING)
    assert launched(location.tick(kind=LANDING)) == []


def test_a_run_that_joins_is_none_that_lands(location: Location) -> None:
    location.run()
    assert launched(location.tick(kind=LANDING)) == ["east"]
    location.run(kind=LANDING)
    assert launched(location.tick()) == []


def test_a_killed_landing_is_marked_failed_and_replaced_in_one_tick(location: Location) -> None:
    run_id = location.run(kind=LANDING)
    with location.holder(run_id, kind=LANDING) as process:
        assert launched(location.tick(kind=LANDING)) == []
        process.kill()
        process.wait()
        assert launched(location.tick(kind=LANDING)) == ["east"]
    run = location.instance.get_run_by_id(run_id)
    assert run is not None
    assert run.status is DagsterRunStatus.FAILURE
    assert f"the process {process.pid} of this shift is gone" in said_in(location.instance, run_id)


def test_a_hung_landing_is_killed_and_replaced_at_the_second_look(location: Location) -> None:
    run_id = location.run(kind=LANDING)
    with location.holder(run_id, kind=LANDING) as process:
        os.kill(process.pid, signal.SIGSTOP)
        location.clock.advance(LEASE_SECONDS + 60)
        first = location.tick(kind=LANDING)
        assert (launched(first), process.poll()) == ([], None)
        assert launched(location.tick(cursor=first.cursor, kind=LANDING)) == ["east"]
        assert process.wait() == -signal.SIGKILL


def test_topics_that_left_the_file_are_landed_no_more_and_its_check_says_so(
    location: Location,
) -> None:
    location.file.write_text(location.file.read_text().replace(f", {LAND}", ""))
    tick = location.tick(kind=LANDING)
    assert launched(tick) == []
    assert "reload the code location" in str(tick.skip_message)
    now = location_settings({"PHOTON_PIPELINES": str(location.file)})
    assert "other datacenters with land" in problems(location.settings, now)[str(location.file)]


@pytest.mark.parametrize(
    ("decided", "lands"), [(OnHold("on hold"), ["east"]), (RetiredDatacenter("east is retired"), [])]
)
def test_a_datacenter_on_hold_is_landed_for_retention_goes_on_and_a_retired_one_is_not(
    location: Location, monkeypatch: pytest.MonkeyPatch, decided: Exception, lands: list[str]
) -> None:
    def decide(*_: object) -> None:
        raise decided

    monkeypatch.setattr("photon.orchestration.sensors.asked_in_time", lambda *_, **__: "a register")
    monkeypatch.setattr("photon.orchestration.sensors.check_datacenters", decide)
    assert launched(location.tick(kind=LANDING)) == lands


def test_a_partition_that_stands_is_red_in_dagster_with_the_command_that_has_it_go_on(
    location: Location,
) -> None:
    loss = Loss("l1", 0, "retention", 5, 9, location.clock.now_us())
    put_marker(folder(location), Marker("clicks", "boot", location.clock.now_us(), losses=(loss,)))
    context = build_sensor_context(location.instance, definitions=location.defs)
    events = watcher_sensor(location.served, location.clock).evaluate_tick(context).asset_events
    checks = {one.check_name: one for one in events if isinstance(one, AssetCheckEvaluation)}
    red = checks["east__logs"]
    assert (red.passed, red.severity) == (False, AssetCheckSeverity.ERROR)
    assert "messages from offset 5 to 9" in str(red.description)
    remedy = str(red.metadata["what_to_do"].value)
    assert f"photon acknowledge {location.pipeline.typed} east" in remedy
    assert "the job clicks__acknowledgement" in remedy


def test_a_shift_lands_what_there_is_reports_it_and_ends_when_it_is_told_to(
    location: Location, broker: SimulatedBroker
) -> None:
    result = landing_beside(location, lambda: soon(lambda: len(lines(location)) == 1))
    assert result.success
    assert lines(location) == [b'{"click_id": "c0"}']
    last = last_report(location.instance)
    assert (last["east_clicks_lag"], last["ended"]) == (0, "asked")
    lease = lease_status_of(LANDING.lease_in(location.pipeline, "east")).lease
    assert lease is not None
    assert lease.released_us is not None


def test_objects_are_landed_as_topics_are(tmp_path: Path, instance: DagsterInstance) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "a.parquet").write_bytes(parquet(0, 1))
    land = 'land: [{objects: "store/*.parquet", into: clicks}]'
    location = Location(tmp_path, instance=instance, land=land)
    asset = location.defs.get_repository_def().asset_graph.get(LANDED)
    assert asset.kinds == {"json", "objects"}

    def landed() -> bool:
        return any(b'"c1"' in file.read_bytes() for file in folder(location).rglob("*.jsonl"))

    assert landing_beside(location, lambda: soon(landed)).success
    assert landed()
    assert "1 object landed" in last_report(instance)["says"]


def test_a_canceled_run_ends_as_canceled_and_has_landed_all_that_it_took(
    location: Location, broker: SimulatedBroker
) -> None:
    def cancel() -> None:
        assert soon(lambda: len(lines(location)) == 1)
        (run,) = location.instance.get_runs()
        location.instance.report_run_canceling(run)

    result = landing_beside(location, cancel)
    run = location.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status is DagsterRunStatus.CANCELED
    assert lines(location) == [b'{"click_id": "c0"}']


def test_a_shift_waits_for_a_process_that_lands_already_and_says_which(
    location: Location, broker: SimulatedBroker
) -> None:
    lease_in = LANDING.lease_in(location.pipeline, "east")

    def waits_for() -> str:
        lease = lease_status_of(lease_in).lease
        return lease.waits_for if lease is not None else ""

    def by_hand() -> None:
        assert soon(lambda: bool(waits_for()))
        assert f"process {os.getpid()} lands into it already" in waits_for()
        held.__exit__(None, None, None)
        assert soon(lambda: len(lines(location)) == 1)
        assert soon(lambda: not waits_for())

    held = held_alone(folder(location) / ASIDE / LOCK)
    held.__enter__()
    result = landing_beside(location, by_hand)
    assert result.success
    assert f"waits: {folder(location)}: process {os.getpid()}" in said_in(location.instance, result.run_id)


def test_a_successor_takes_over_and_the_shift_before_it_says_so(
    location: Location, broker: SimulatedBroker
) -> None:
    is_over, ended = threading.Event(), list[str]()
    limits = ShiftLimits("the first", takes_turns=True)
    first = threading.Thread(
        target=lambda: ended.append(run_landing(location.pipeline, "east", limits, Callbacks(is_over.is_set)))
    )
    first.start()
    assert soon(lambda: len(lines(location)) == 1)

    def relieved() -> None:
        first.join()
        broker.send(0, b'{"click_id": "c1"}')
        assert soon(lambda: len(lines(location)) == 2)

    assert landing_beside(location, relieved).success
    is_over.set()
    assert ended == ["relieved"]


def test_a_topic_that_can_not_be_landed_fails_the_run_with_its_message_and_tells_the_lease(
    location: Location, broker: SimulatedBroker
) -> None:
    broker.is_compacted = True
    result = land(location)
    assert not result.success
    steps = location.instance.all_logs(result.run_id, of_type=DagsterEventType.STEP_FAILURE)
    assert "is compacted" in str(steps[0].dagster_event and steps[0].dagster_event.event_specific_data)
    assert "is compacted" in lease_status_of(LANDING.lease_in(location.pipeline, "east")).ended_by
