"""Pruning on an instance of orchestration/dagster.yaml: what goes and stays; a crash loses nothing."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from dagster import (
    AssetKey,
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    MaterializeResult,
    StaticPartitionsDefinition,
    asset,
    materialize,
)
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from photon.assets import run_history
from photon.assets.run_history import DAY_US, SKIPPED_TICKS_KEPT_HOURS, prune_history, pruning_job
from photon.process.clock import MICROSECONDS, SystemClock
from tests.orchestration.dated_days import INSTIGATORS, add_tick, begin
from tests.support.manual_clock import ManualClock

KEEP_DAYS = 3.0
LATER_US = SystemClock().now_us() + 4 * DAY_US  # then everything that runs here ended long ago
JOINED = AssetKey("joined")


@asset(key=JOINED, partitions_def=StaticPartitionsDefinition(["east", "west"]))
def joined() -> MaterializeResult[None]:
    print("something for the logs")
    return MaterializeResult(metadata={"rows": 1})


def run_once(instance: DagsterInstance, partition: str = "east") -> str:
    return materialize([joined], instance=instance, partition_key=partition).run_id


def prune(instance: DagsterInstance, now_us: int = LATER_US) -> int:
    return prune_history(instance, now_us, KEEP_DAYS, print)


def runs(instance: DagsterInstance) -> set[str]:
    return {run.run_id for run in instance.get_runs()}


def test_a_run_goes_with_its_events_and_its_logs(instance: DagsterInstance, home: Path) -> None:
    old, newest = run_once(instance), run_once(instance)
    assert list((home / "storage" / old).rglob("*.out"))
    assert prune(instance) == 1
    assert runs(instance) == {newest}
    assert instance.all_logs(old) == []
    assert not (home / "storage" / old).exists()


def test_a_dry_run_says_which_runs_would_go_and_leaves_them(instance: DagsterInstance) -> None:
    old, newest = run_once(instance), run_once(instance)
    later_us, said = SystemClock().now_us() + run_history.DAY_US, []
    assert prune_history(instance, later_us, 0.5, said.append, dry_run=True) == 1
    assert old in said[0]
    assert runs(instance) == {old, newest}


def test_the_last_materialization_of_each_partition_stays_to_be_seen(instance: DagsterInstance) -> None:
    for partition in ("east", "west", "east", "west"):
        run_once(instance, partition)
    assert prune(instance) == 3
    records = instance.fetch_materializations(JOINED, limit=10).records
    assert {record.partition_key for record in records} == {"east", "west"}


def test_a_run_of_many_days_goes_and_they_stay_made(instance: DagsterInstance) -> None:
    """It has the only events that say that they were done."""
    for first in ("east", "west", "east"):
        tags = {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: "west"}
        materialize([joined], instance=instance, tags=tags)
    assert prune(instance) == 2
    assert instance.get_materialized_partitions(JOINED) == {"east", "west"}
    assert len(runs(instance)) == 1


def test_runs_that_ended_lately_or_are_in_progress_stay(instance: DagsterInstance) -> None:
    run_once(instance)
    shift = Definitions([joined]).resolve_implicit_global_asset_job_def()
    instance.create_run_for_job(shift, run_id=str(uuid.uuid4()), status=DagsterRunStatus.STARTED)
    assert prune(instance, SystemClock().now_us()) == 0
    prune(instance)
    statuses = [run.status for run in instance.get_runs()]
    assert sorted(statuses, key=str) == [DagsterRunStatus.STARTED, DagsterRunStatus.SUCCESS]


@pytest.mark.parametrize(("limit", "ran", "deleted"), [(1, 2, [1, 0]), (2, 4, [2, 1, 0])])
def test_one_call_deletes_no_more_than_its_limit_and_the_next_ones_leave_the_newest(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, limit: int, ran: int, deleted: list[int]
) -> None:
    monkeypatch.setattr(run_history, "MOST_RUNS_LOOKED_AT", limit)
    newest = [run_once(instance) for _ in range(ran)][-1]
    assert [prune(instance) for _ in deleted] == deleted
    assert runs(instance) == {newest}


def test_a_crash_while_a_run_is_deleted_leaves_it_for_the_next_call(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = run_once(instance), run_once(instance)

    def crash(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(instance.run_storage, "delete_run", crash)
        with pytest.raises(OSError, match="killed"):
            prune(instance)
    assert old in runs(instance)
    prune(instance)
    assert old not in runs(instance)


def test_the_room_of_pruned_runs_is_used_again(instance: DagsterInstance, home: Path) -> None:
    def used_bytes() -> int:
        return sum(path.stat().st_size for path in home.rglob("*.db"))

    for _ in range(6):
        run_once(instance)
    before = used_bytes()
    prune(instance)
    for _ in range(5):
        run_once(instance)
    assert used_bytes() <= before


def test_ticks_that_started_nothing_go_after_some_hours_and_others_stay(instance: DagsterInstance) -> None:
    begin(instance)
    origin = INSTIGATORS[InstigatorType.SENSOR]
    now_us = SystemClock().now_us()
    too_old_us = now_us - (SKIPPED_TICKS_KEPT_HOURS * 3_600 + 60) * MICROSECONDS
    for at_us in (too_old_us, now_us):
        for status in (TickStatus.SKIPPED, TickStatus.SUCCESS):
            add_tick(instance, InstigatorType.SENSOR, status, at_us / MICROSECONDS)
    prune(instance, now_us)
    ticks = instance.get_ticks(origin.get_id(), origin.get_selector().get_id())
    assert len(ticks) == 3
    assert [t.timestamp for t in ticks if t.status is TickStatus.SKIPPED] == [now_us / MICROSECONDS]


def test_the_job_prunes_as_the_settings_say(instance: DagsterInstance) -> None:
    old, newest = run_once(instance), run_once(instance)
    result = pruning_job(KEEP_DAYS, ManualClock(LATER_US)).execute_in_process(instance=instance)
    assert result.success
    assert runs(instance) == {newest, result.run_id}
    assert old not in runs(instance)
