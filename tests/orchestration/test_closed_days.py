"""A day of a datacenter is verified and filled in once, when its rows are complete up to its end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetMaterialization,
    AssetSelection,
    DagsterRun,
    DagsterRunStatus,
    Definitions,
    build_sensor_context,
    define_asset_job,
)
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from photon.assets.closed_days import DATACENTER_TAG, closed_days, days_check, pause_seconds, ranges
from photon.assets.daily_joins import ASSET, JOB, partition_key
from photon.orchestration.closed_days import closed_days_sensor
from photon.pipeline.sections import Backfill
from photon.state.completeness.arrivals import Arrivals
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import publish
from photon.storage.store import store_of
from photon.upkeep.backfill.days import day_of
from photon.verification.days import DAY_US, utc_day
from tests.orchestration.location import Location

FRIDAY, TODAY = date(2026, 3, 6), date(2026, 3, 10)
SETTINGS = Backfill(first_look_days=3)
NOON_US = DAY_US // 2
A_DAY = timedelta(days=1)


def noon(day: date) -> int:
    return utc_day(day).start_us + NOON_US


def ends(days: Sequence[date]) -> tuple[date, date] | None:
    return (days[0], days[-1]) if days else None


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        pytest.param(SETTINGS, FRIDAY - 3 * A_DAY, id="three days"),
        pytest.param(Backfill(), FRIDAY - 7 * A_DAY, id="a week unless the file says otherwise"),
        pytest.param(Backfill(first_day=FRIDAY - A_DAY), FRIDAY - A_DAY, id="no hidden one"),
        pytest.param(Backfill(first_look_days=0), None, id="none where the file says so"),
    ],
)
def test_a_sensor_that_looks_for_the_first_time_begins_with_the_last_days_that_are_closed(
    settings: Backfill, first: date | None
) -> None:
    found = closed_days(noon(FRIDAY), None, TODAY, settings)
    assert ends(found.days) == (first and (first, FRIDAY - A_DAY))
    assert closed_days(noon(FRIDAY), found.since, TODAY, settings).days == found.days


def test_a_sensor_before_anything_was_read_takes_its_first_look_later() -> None:
    assert closed_days(None, None, TODAY, SETTINGS).since is None


@pytest.mark.parametrize(
    ("up_to_us", "requested"),
    [
        pytest.param(noon(FRIDAY), None, id="in the middle of the day"),
        pytest.param(utc_day(FRIDAY).end_us - 1, None, id="just before its end"),
        pytest.param(utc_day(FRIDAY).end_us, (FRIDAY, FRIDAY), id="at its end"),
        pytest.param(noon(FRIDAY + 3 * A_DAY), (FRIDAY, FRIDAY + 2 * A_DAY), id="days later"),
        pytest.param(noon(date(2100, 1, 1)), (FRIDAY, TODAY - A_DAY), id="a wild time"),
        pytest.param(None, None, id="nothing was read yet"),
    ],
)
def test_days_are_closed_when_rows_are_complete_up_to_their_ends(
    up_to_us: int | None, requested: tuple[date, date] | None
) -> None:
    found = closed_days(up_to_us, FRIDAY - A_DAY, TODAY, SETTINGS)
    assert ends(found.days) == requested


def test_no_day_is_requested_that_dagster_does_not_show() -> None:
    settings = Backfill(first_day=FRIDAY - 2 * A_DAY)
    found = closed_days(noon(FRIDAY), FRIDAY - 5 * A_DAY, TODAY, settings)
    assert ends(found.days) == (FRIDAY - 2 * A_DAY, FRIDAY - A_DAY)


def test_days_that_follow_one_another_are_a_range() -> None:
    days = [FRIDAY, FRIDAY + A_DAY, FRIDAY + 3 * A_DAY]
    assert list(ranges(days)) == [(FRIDAY, FRIDAY + A_DAY), (FRIDAY + 3 * A_DAY, FRIDAY + 3 * A_DAY)]


def test_the_pause_doubles_up_to_an_hour() -> None:
    assert [pause_seconds(failures) for failures in range(7)] == [0, 300, 600, 1_200, 2_400, 3_600, 3_600]


# -- its ticks


def say_complete(location: Location, up_to_us: int) -> None:
    """Publish completeness as shifts of datacenter east do: more is read, and an event waits."""
    said = Completeness("e", 1, 0, up_to_us + DAY_US, up_to_us, None, 0.999, waiting=1, came=1, came_late=0)
    lake = location.served.pipeline.datacenters["east"].lake
    store_of(lake).make()
    publish(lake, said, Arrivals())


def tick(location: Location, cursor: str | None) -> SensorExecutionData:
    context = build_sensor_context(location.instance, cursor, definitions=location.defs)
    return closed_days_sensor(location.served, "east", location.clock).evaluate_tick(context)


def days_of(tick: SensorExecutionData) -> list[tuple[str, str]]:
    """The first and the last partition of each run that a tick requests."""
    tags = [request.tags for request in tick.run_requests or ()]
    return [(one[ASSET_PARTITION_RANGE_START_TAG], one[ASSET_PARTITION_RANGE_END_TAG]) for one in tags]


def make_days(location: Location, first: date, last: date) -> None:
    """Store what a run that fills in these days of east leaves."""
    for number in range((last - first).days + 1):
        partition = partition_key("east", first + number * A_DAY)
        made = AssetMaterialization(location.served.asset_key(ASSET), partition=partition)
        location.instance.report_runless_asset_event(made)


def run_of(location: Location, status: DagsterRunStatus = DagsterRunStatus.STARTED) -> DagsterRun:
    """A run for days of east, as the sensor asks for it."""
    job = location.defs.resolve_job_def(location.served.job_name(JOB))
    return location.instance.create_run_for_job(job, status=status, tags={DATACENTER_TAG: "east"})


def verdict(tick: SensorExecutionData) -> tuple[bool, AssetCheckSeverity, str]:
    """The check's evaluation that a tick stores."""
    (seen,) = tick.asset_events
    assert isinstance(seen, AssetCheckEvaluation)
    return seen.passed, seen.severity, str(seen.description)


def test_a_closed_day_is_asked_for_until_it_is_made(location: Location) -> None:
    yesterday = day_of(location.clock.now_us()) - A_DAY
    say_complete(location, noon(yesterday))
    seen = tick(location, None)
    first = yesterday - 7 * A_DAY
    assert days_of(seen) == [(f"east|{first}", f"east|{yesterday - A_DAY}")]
    make_days(location, first, yesterday - A_DAY)
    assert days_of(tick(location, seen.cursor)) == []
    say_complete(location, utc_day(yesterday).end_us)
    found = tick(location, seen.cursor)
    assert days_of(found) == [(f"east|{yesterday}", f"east|{yesterday}")]
    make_days(location, yesterday, yesterday)
    assert days_of(tick(location, found.cursor)) == []


def test_a_request_that_no_run_came_of_is_made_again(location: Location) -> None:
    yesterday = day_of(location.clock.now_us()) - A_DAY
    say_complete(location, utc_day(yesterday).end_us)
    cursor = str(yesterday - 3 * A_DAY)
    assert days_of(tick(location, cursor)) == days_of(tick(location, tick(location, cursor).cursor))
    assert days_of(tick(location, cursor)) == [(f"east|{yesterday - 2 * A_DAY}", f"east|{yesterday}")]


def test_a_hole_between_days_that_are_made_is_a_run_of_its_own(location: Location) -> None:
    yesterday = day_of(location.clock.now_us()) - A_DAY
    say_complete(location, utc_day(yesterday).end_us)
    make_days(location, yesterday - A_DAY, yesterday - A_DAY)
    hole = yesterday - 2 * A_DAY
    asked = days_of(tick(location, str(hole - A_DAY)))
    assert asked == [(f"east|{hole}", f"east|{hole}"), (f"east|{yesterday}", f"east|{yesterday}")]


@pytest.mark.parametrize("canceled", [False, True], ids=["failed", "canceled"])
def test_a_day_whose_run_ended_without_it_is_told_and_asked_for_again_later(
    location: Location, canceled: bool
) -> None:
    yesterday = day_of(location.clock.now_us()) - A_DAY
    say_complete(location, utc_day(yesterday).end_us)
    cursor, run = str(yesterday - A_DAY), run_of(location)
    end = location.instance.report_run_canceled if canceled else location.instance.report_run_failed
    end(run)
    seen = tick(location, cursor)
    assert days_of(seen) == []
    passed, severity, says = verdict(seen)
    assert (passed, severity) == (False, AssetCheckSeverity.WARN)
    assert str(yesterday) in says
    assert run.run_id in says
    location.clock.advance(900)  # the run ended by Dagster's clock, which goes on
    assert days_of(tick(location, cursor)) == [(f"east|{yesterday}", f"east|{yesterday}")]
    location.instance.report_run_failed(run_of(location))
    assert verdict(tick(location, cursor))[:2] == (False, AssetCheckSeverity.ERROR)
    make_days(location, yesterday, yesterday)
    assert tick(location, cursor).asset_events == []  # Dagster shows nothing that this takes back


def test_the_check_by_hand_goes_by_the_same_look_and_ends_when_the_day_is_made(location: Location) -> None:
    yesterday = day_of(location.clock.now_us()) - A_DAY
    say_complete(location, utc_day(yesterday).end_us)
    location.instance.report_run_failed(run_of(location))

    def evaluated() -> bool:
        definition = days_check(location.served, "east")
        job = define_asset_job("checks", AssetSelection.all_asset_checks())
        defs = Definitions(asset_checks=[definition], jobs=[job])
        found = defs.resolve_job_def("checks").execute_in_process(instance=location.instance)
        return found.get_asset_check_evaluations()[0].passed

    assert not evaluated()
    make_days(location, yesterday - 6 * A_DAY, yesterday)
    assert evaluated()


def test_a_day_waits_while_another_run_of_its_datacenter_is_in_progress(location: Location) -> None:
    yesterday = day_of(location.clock.now_us()) - A_DAY
    say_complete(location, utc_day(yesterday).end_us)
    run = run_of(location)
    found = tick(location, str(yesterday - A_DAY))
    assert not found.run_requests
    assert run.run_id in str(found.skip_message)
    location.instance.report_run_canceled(run)
    location.clock.advance(301)
    assert tick(location, str(yesterday - A_DAY)).run_requests


def test_a_day_waits_for_shifts_to_say_how_complete_it_is(location: Location) -> None:
    assert "no shift has said" in str(tick(location, None).skip_message)
