"""A shift as the asset `joined_events`, in this process, on Spark and a registry of its own."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetKey,
    AssetRecordsFilter,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    ExecuteInProcessResult,
)
from pyspark import SparkContext
from pyspark.sql import SparkSession

from photon.dispatcher.shift.growth import growth_of
from photon.dispatcher.shift.lease import lease_status_of
from photon.jobs.session import stop_session
from photon.registry.opening import close_registries
from photon.state.database import StateUnavailable
from photon.state.view import view_state
from tests.orchestration.location import Location

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # A deprecated call of ours shows only when it is made.
    pytest.mark.filterwarnings("error::DeprecationWarning"),
]

SETTINGS = """
shift: {idle: 2s}
retry: {unjoinable_after: 2s, allowed_lateness: 1s}
tailing: {idle_after: 1s}
home: {takeover_delay: 0s}
"""
JOINED = AssetKey(["clicks", "joined_events"])
PATIENCE_SECONDS = 120


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    yield Location(tmp_path, more=SETTINGS)
    close_registries()


def shift(location: Location, instance: DagsterInstance) -> ExecuteInProcessResult:
    job = location.defs.resolve_job_def(location.job)
    return job.execute_in_process(instance=instance, partition_key="east", raise_on_error=False)


def reports(instance: DagsterInstance) -> list[dict[str, Any]]:
    """The metadata of all materializations, the latest first."""
    found = instance.fetch_materializations(AssetRecordsFilter(JOINED, asset_partitions=["east"]), limit=100)
    metadata = [record.asset_materialization for record in found.records]
    return [{name: value.value for name, value in each.metadata.items()} for each in metadata if each]


def stacks_in(instance: DagsterInstance, run_id: str) -> list[str]:
    """Return the stacks that the run's own end shows beside its message."""
    ends = [entry.dagster_event for entry in instance.all_logs(run_id, of_type=DagsterEventType.RUN_CANCELED)]
    return [str(end.job_canceled_data.error) for end in ends if end and end.job_canceled_data.error]


def failures_in(instance: DagsterInstance, run_id: str) -> list[str]:
    """Return the descriptions with which the run's steps failed."""
    steps = [
        entry.dagster_event for entry in instance.all_logs(run_id, of_type=DagsterEventType.STEP_FAILURE)
    ]
    data = [step.step_failure_data.user_failure_data for step in steps if step]
    return [str(each.description) for each in data if each]


def joined(state: Path) -> int:
    """Return the number of a datacenter's rows by its state; 0 before there is a state."""
    try:
        return view_state(state, 0).counts.of("joined")
    except (StateUnavailable, sqlite3.OperationalError):
        return 0


def test_a_shift_joins_what_there_is_reports_it_and_leaves_when_idle(
    location: Location, instance: DagsterInstance
) -> None:
    result = shift(location, instance)
    assert result.success
    expected = location.traffic.expected_outcomes()
    last = reports(instance)[0]
    assert (last["east_joined"], last["east_pending"]) == (expected.joined_total, 0)
    assert f"|foreign|{expected.foreign:,}|" in last["equation"]
    assert last["dagster/row_count"] == last["east_rows"] == expected.joined_total
    assert (last["east_backlog_bytes"], last["ended"]) == (0, "idle")
    assert any("east_latency_p50_seconds" in report for report in reports(instance))
    now_us = location.clock.now_us()
    lease = lease_status_of(location.state()).lease
    assert lease is not None
    assert lease.run == result.run_id
    assert lease.idle_seen == growth_of(location.pipeline, "east", now_us).signature
    assert SparkContext._gateway is None, "the run has ended its JVM"


@pytest.mark.usefixtures("shared_spark")
@pytest.mark.parametrize(
    ("by_dagster", "number", "ends_as"),
    [
        (True, signal.SIGINT, DagsterRunStatus.CANCELED),  # the button in the UI
        (False, signal.SIGTERM, DagsterRunStatus.SUCCESS),  # the machine goes down
    ],
)
def test_a_run_that_is_told_to_end_drains_first(
    tmp_path: Path,
    instance: DagsterInstance,
    by_dagster: bool,
    number: signal.Signals,
    ends_as: DagsterRunStatus,
) -> None:
    location = Location(tmp_path, more=SETTINGS.replace("idle: 2s", "idle: 10m"))
    state = location.state()

    def tell() -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not joined(state) and time.monotonic() < deadline:
            time.sleep(0.1)  # the shift runs by the machine's clock
        (run,) = instance.get_runs()
        if by_dagster:
            instance.report_run_canceling(run)
        os.kill(os.getpid(), number)

    teller = threading.Thread(target=tell)
    teller.start()
    result = shift(location, instance)
    teller.join()
    close_registries()
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status is ends_as
    assert stacks_in(instance, run.run_id) == []
    if by_dagster:
        assert any("ended its batch, reported and left" in said for said in failures_in(instance, run.run_id))
    status = lease_status_of(state)
    assert status.lease is not None
    assert status.lease.released_us is not None
    assert reports(instance)[0]["ended"] == "asked"
    assert joined(state) == location.traffic.expected_outcomes().joined_total


def test_a_signal_while_the_session_stops_does_not_fail_a_shift_that_has_joined_all(
    location: Location, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(session: SparkSession) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        stop_session(session)

    monkeypatch.setattr("photon.resources.spark.stop_session", stop)
    assert shift(location, instance).success


def test_what_a_user_can_mend_fails_the_run_with_its_message_alone(
    location: Location, instance: DagsterInstance
) -> None:
    location.file.write_text(location.file.read_text() + "flavour: sweet\n")  # spoilt after loading
    result = shift(location, instance)
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    data = failure.step_failure_data
    assert data.user_failure_data is not None
    assert "flavour: unknown key" in (data.user_failure_data.description or "")
    assert data.error is not None
    assert data.error.cause is None
