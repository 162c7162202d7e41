"""The asset `daily_joins`, on Spark: chosen days are verified, filled in, or made again."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, ExecuteInProcessResult
from dagster._core.definitions.automation_tick_evaluation_context import (
    build_run_requests_with_backfill_policies,
)
from dagster._core.definitions.events import AssetKeyPartitionKey
from deltalake import DeltaTable

from photon.assets.daily_joins import JOB
from photon.dispatcher.shift.run import prepare, run_shift
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries
from photon.storage.tables import OutputTable
from photon.upkeep.backfill.days import day_of
from photon.verification.days import utc_day
from photon.verification.report import TERMS
from tests.orchestration.location import Location

DAILY = AssetKey(["clicks", "daily_joins"])
YESTERDAY = day_of(SystemClock().now_us()) - timedelta(days=1)
EVE = YESTERDAY - timedelta(days=1)
# The process of these tests is not to be slowed down for good.
SETTINGS = ""

on_spark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


def requests(location: Location, instance: DagsterInstance, *keys: str) -> list[Any]:
    """The runs that Dagster's daemon makes of a backfill of these partitions."""
    return list(
        build_run_requests_with_backfill_policies(
            asset_partitions=[AssetKeyPartitionKey(DAILY, key) for key in keys],
            asset_graph=location.defs.get_repository_def().asset_graph,
            dynamic_partitions_store=instance,
        )
    )


def test_a_backfill_of_days_that_follow_one_another_is_a_run_a_datacenter(tmp_path: Path) -> None:
    days = [EVE - timedelta(days=1), EVE, YESTERDAY]
    keys = [f"{name}|{day}" for name in ("east", "west") for day in days]
    with DagsterInstance.ephemeral() as instance:
        runs = requests(Location(tmp_path), instance, *keys)
    ends = [[run.tags[f"dagster/asset_partition_range_{end}"] for end in ("start", "end")] for run in runs]
    assert sorted(ends) == [[keys[0], keys[2]], [keys[3], keys[5]]]


class Days:
    """Two datacenters whose events are of two days, joined; and runs of `daily_joins`."""

    def __init__(self, folder: Path) -> None:
        start_us = utc_day(YESTERDAY).start_us - 1_000_000
        self.location = Location(folder, more=SETTINGS, start_us=start_us)
        prepare(self.location.pipeline)
        self.join()
        self.instance = DagsterInstance.ephemeral()

    def join(self) -> None:
        names = self.location.served.datacenters
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda name: run_shift(self.location.pipeline, name, "complete"), names))

    def backfill(self, *days: date, **config: Any) -> ExecuteInProcessResult:
        """Launch a backfill of these days of east, as a person does in the UI."""
        (request,) = requests(self.location, self.instance, *(f"east|{day}" for day in days))
        job = self.location.defs.resolve_job_def(self.location.served.job_name(JOB))
        return job.execute_in_process(
            instance=self.instance,
            tags=request.tags,
            run_config={"ops": {"clicks__daily_joins": {"config": config}}} if config else None,
            raise_on_error=False,
        )

    def table(self) -> DeltaTable:
        return OutputTable(self.location.pipeline.datacenters["east"].lake, "joined_events").load()

    def rows(self, day: date) -> list[dict[str, Any]]:
        found = self.table().to_pyarrow_table().to_pylist()
        mine = [row for row in found if row["_event_time"].date() == day]
        return sorted(mine, key=lambda row: str(row["_event_id"]))


def told(result: ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """The metadata of each partition that was materialized."""
    found = [event.materialization for event in result.get_asset_materialization_events()]
    return {str(one.partition): {n: v.value for n, v in one.metadata.items()} for one in found}


def failure(result: ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_events if event.is_step_failure]
    return str(event.step_failure_data.user_failure_data)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory, shared_spark: None) -> Iterator[Days]:
    made = Days(tmp_path_factory.mktemp("days"))
    yield made
    close_registries()


class TestOnSpark:
    pytestmark = on_spark

    def test_days_that_are_whole_are_materialized_with_what_they_have(self, days: Days) -> None:
        result = days.backfill(EVE, YESTERDAY)
        assert result.success
        found = told(result)
        assert {key: one["rows"] for key, one in found.items()} == {
            f"east|{day}": len(days.rows(day)) for day in (EVE, YESTERDAY)
        }
        assert all(len(days.rows(day)) > 0 for day in (EVE, YESTERDAY))
        assert {one["missing"] for one in found.values()} == {0}
        unjoinable = days.location.traffic.expected_outcomes().unjoinable
        assert sum(one["unjoinable"] for one in found.values()) == unjoinable

    def test_a_day_that_lacks_a_row_is_not_whole_until_its_dispatcher_has_joined_it(self, days: Days) -> None:
        before = {day: days.rows(day) for day in (EVE, YESTERDAY)}
        days.table().delete(f"_event_id = '{before[EVE][0]['_event_id']}'")
        looked = days.backfill(EVE, dry_run=True)
        assert looked.success
        assert told(looked) == {}
        (event,) = looked.get_asset_observation_events()
        assert event.asset_observation_data.asset_observation.metadata["missing"].value == "1"
        lacking = days.backfill(EVE, YESTERDAY)
        assert not lacking.success
        assert set(told(lacking)) == {f"east|{YESTERDAY}"}, "a day that lacks a row counts as whole"
        assert "nobody runs datacenter east" in failure(lacking)
        days.join()
        day = told(days.backfill(EVE))[f"east|{EVE}"]
        assert (day["missing"], day["joined"], day["rows"]) == (0, len(before[EVE]), len(before[EVE]))
        classes = (name for name in TERMS if name != "foreign")
        assert day["foreign"] == sum(day[name] for name in classes) > 0
        after = days.rows(EVE)
        assert [row["_event_id"] for row in after] == [row["_event_id"] for row in before[EVE]]

    def test_a_rebuild_is_looked_at_before_it_is_carried_out(self, days: Days) -> None:
        before = days.rows(YESTERDAY)
        altered = before[0]["_event_id"]
        days.table().update({"primary_text": "'forged'"}, predicate=f"_event_id = '{altered}'")
        version = days.table().version()
        broken = days.backfill(YESTERDAY)
        assert told(broken) == {}, "a day with an altered row counts as verified"
        assert "photon backfill /" in failure(broken)
        looked = days.backfill(YESTERDAY, do="rebuild", dry_run=True)
        assert looked.success
        assert (told(looked), days.table().version()) == ({}, version)
        (event,) = looked.get_asset_observation_events()
        assert event.asset_observation_data.asset_observation.metadata["replaced"].value == "1"
        found = told(days.backfill(YESTERDAY, do="rebuild"))[f"east|{YESTERDAY}"]
        assert (found["replaced"], found["same"], found["commits"]) == (1, len(before) - 1, 1)
        assert days.rows(YESTERDAY) == before
