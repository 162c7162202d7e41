"""A datacenter's sensor on a real instance, real state folders and real processes that have the lock."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from dagster import AssetKey, AssetObservation, DagsterInstance, DagsterRunStatus, build_sensor_context

from infra.servers.stores import fastest_kind, store_servers
from photon.dispatcher.shift.growth import growth_of
from photon.dispatcher.shift.lease import LEASE_SECONDS, START_SECONDS, DatacenterLock, Lease
from photon.orchestration.sensors import REASON_TAG, TICK_SECONDS, logs_sensor
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries, init_registry, positions_at
from tests.orchestration.location import Location, launched

PATIENCE_SECONDS = 240


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """A registry's one endpoint, as a pipeline file names it."""
    with store_servers(fastest_kind(), tmp_path / "endpoints", 1) as (server,):
        yield f"registry:\n  endpoints: [{{url: {server.url}}}]\n"


def status(location: Location, run_id: str) -> DagsterRunStatus:
    run = location.instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def last_message(location: Location, run_id: str) -> str:
    return location.instance.all_logs(run_id)[-1].message


def test_a_datacenter_with_logs_and_nobody_to_join_them_gets_a_run_that_says_why(location: Location) -> None:
    tick = location.tick()
    assert launched(tick) == ["east"]
    assert tick.run_requests is not None
    assert tick.run_requests[0].tags[REASON_TAG] == "this datacenter was never run"


def test_a_run_of_another_datacenter_is_not_in_the_way(location: Location) -> None:
    location.run("west")
    assert launched(location.tick()) == ["east"]


def test_runs_that_are_over_are_read_only_where_one_would_be_launched(location: Location) -> None:
    def statuses_read() -> set[DagsterRunStatus]:
        read = location.instance.get_run_records
        with mock.patch.object(location.instance, "get_run_records", side_effect=read) as asked:
            location.tick()
        return {one for call in asked.call_args_list for one in call.args[0].statuses}

    assert DagsterRunStatus.FAILURE in statuses_read()
    location.run()
    assert DagsterRunStatus.FAILURE not in statuses_read()


def test_shifts_that_fail_at_once_are_not_followed_at_once(location: Location) -> None:
    for _ in range(9):
        location.instance.report_run_failed(location.instance.get_run_by_id(location.run()), "no")  # type: ignore[arg-type]
    tick = location.tick()
    assert launched(tick) == []
    assert "the last 9 shifts failed at once" in str(tick.skip_message)


def test_a_run_that_was_launched_from_the_asset_graph_counts(location: Location) -> None:
    asset_job = location.defs.resolve_implicit_global_asset_job_def()
    key = AssetKey(["clicks", "joined_events"])
    location.instance.create_run_for_job(
        asset_job.get_subset(asset_selection={key}),
        asset_selection=frozenset({key}),
        status=DagsterRunStatus.STARTED,
        tags={"dagster/partition": "east"},
    )
    assert launched(location.tick()) == []


def test_a_killed_shift_is_marked_failed_and_replaced_in_one_tick(location: Location) -> None:
    run_id = location.run()
    with location.holder(run_id) as process:
        process.kill()
        process.wait()
        assert launched(location.tick()) == ["east"]
    assert status(location, run_id) is DagsterRunStatus.FAILURE
    assert f"the process {process.pid} of this shift is gone" in last_message(location, run_id)


def test_a_hung_shift_is_killed_marked_failed_and_replaced_at_the_second_look(location: Location) -> None:
    run_id = location.run()
    with location.holder(run_id) as process:
        os.kill(process.pid, signal.SIGSTOP)
        location.clock.advance(LEASE_SECONDS + 60)
        first = location.tick()
        assert (launched(first), process.poll()) == ([], None)
        assert launched(location.tick(cursor=first.cursor)) == ["east"]
        assert process.wait(timeout=PATIENCE_SECONDS) == -signal.SIGKILL
    assert status(location, run_id) is DagsterRunStatus.FAILURE
    assert "no sign of life" in last_message(location, run_id)


def test_a_shift_that_gives_a_sign_of_life_between_two_looks_is_left_alone(location: Location) -> None:
    run_id = location.run()
    with location.holder(run_id) as process:
        location.clock.advance(3600)  # a suspended machine goes on
        first = location.tick()
        location.clock.advance(TICK_SECONDS)
        now_us = location.clock.now_us()
        os.utime(location.state() / "lock", ns=(now_us * 1_000, now_us * 1_000))
        location.tick(cursor=first.cursor)
        assert process.poll() is None
    assert status(location, run_id) is DagsterRunStatus.STARTED


def test_a_cursor_of_another_format_is_forgotten(location: Location) -> None:
    tick = location.tick(cursor='{"signature": "of an earlier Photon", "format": 99}')
    assert launched(tick) == ["east"]


def test_a_hung_process_of_no_run_of_ours_is_left_alone(location: Location) -> None:
    with location.holder("a run of another Dagster") as process:
        location.clock.advance(3600)
        tick = location.tick()
        assert (launched(tick), process.poll()) == ([], None)
        assert tick.skip_message is not None
        assert f"process {process.pid}" in tick.skip_message


def test_a_process_that_got_the_number_of_a_dead_one_is_not_killed(location: Location) -> None:
    run_id = location.run()
    with location.holder(run_id) as process:
        lock = location.state() / "lock"
        begun = json.loads(lock.read_text())
        lock.write_text(json.dumps({**begun, "began_us": begun["began_us"] - 86_400_000_000}))
        location.clock.advance(3600)
        first = location.tick()
        location.tick(cursor=first.cursor)
        assert process.poll() is None
    assert status(location, run_id) is DagsterRunStatus.STARTED


def test_a_run_that_was_to_be_canceled_and_is_gone_is_marked_canceled(location: Location) -> None:
    run_id = location.run(status=DagsterRunStatus.CANCELING)
    location.clock.advance(START_SECONDS + 60)
    location.tick()
    assert status(location, run_id) is DagsterRunStatus.CANCELED


def test_a_datacenter_that_was_left_idle_rests_until_its_logs_grow(location: Location) -> None:
    now_us = location.clock.now_us()
    lock = DatacenterLock(location.state(), "east", Lease.of_this_process("", now_us, None))
    lock.release(now_us, growth_of(location.pipeline, "east", now_us).signature)
    assert launched(location.tick()) == []
    location.clock.advance(1)
    log = next((location.folder / "logs" / "east" / "queries").rglob("*.jsonl"))
    log.write_text(log.read_text() + "{}\n")
    assert launched(location.tick()) == ["east"]


def observed(location: Location, cursor: str | None = None) -> tuple[dict[str, set[str]], str | None]:
    """The datacenters that a tick says something of, by log, and its cursor."""
    context = build_sensor_context(location.instance, cursor, definitions=location.defs)
    tick = logs_sensor(location.served, location.clock).evaluate_tick(context)
    events = [event for event in tick.asset_events if isinstance(event, AssetObservation)]
    whose = {
        event.asset_key.path[-1]: {label.partition("_")[0] for label in event.metadata} for event in events
    }
    return whose, tick.cursor


def test_an_observation_of_a_log_is_of_all_datacenters_and_made_when_one_has_changed(
    location: Location,
) -> None:
    both = {"primary_log": {"east", "west"}, "foreign_log": {"east", "west"}}
    found, cursor = observed(location)
    assert found == both
    assert observed(location, cursor) == ({}, cursor)
    log = next((location.folder / "logs" / "west" / "clicks").rglob("*.jsonl"))
    log.write_text(log.read_text() + "{}\n")
    assert observed(location, cursor)[0] == both


@pytest.mark.server
def test_a_datacenter_that_is_on_hold_or_retired_gets_no_run_and_the_reason_why(
    tmp_path: Path, instance: DagsterInstance, endpoint: str
) -> None:
    location = Location(tmp_path, more=endpoint, instance=instance)
    positions = positions_at(init_registry(location.pipeline, SystemClock()))
    try:
        positions.change(lambda now: replace(now, on_hold=("east",)))
        tick = location.tick()
        assert launched(tick) == []
        assert tick.skip_message is not None
        assert f"photon resume {location.file} east" in tick.skip_message
        assert launched(location.tick("west")) == ["west"]
        positions.change(lambda now: replace(now, on_hold=()))
        assert launched(location.tick()) == ["east"]
        positions.change(lambda now: replace(now, given_up=("east",)))
        skipped = location.tick()
        assert launched(skipped) == []
        assert skipped.skip_message is not None
        assert "is retired" in skipped.skip_message
    finally:
        close_registries()


def test_a_registry_that_does_not_answer_keeps_no_shift_from_being_launched(
    tmp_path: Path, instance: DagsterInstance
) -> None:
    nowhere = "registry:\n  deadline: 200ms\n  endpoints: [{url: http://127.0.0.1:9}]\n"
    assert launched(Location(tmp_path, more=nowhere, instance=instance).tick()) == ["east"]
    close_registries()
