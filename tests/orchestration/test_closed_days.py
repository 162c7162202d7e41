"""A day of a datacenter is verified and filled in once, when its rows are complete up to its end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

import pytest
from dagster import DagsterInstance, DagsterRunStatus, build_sensor_context
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from assets.daily_joins import JOB
from orchestration import closed_days as module
from orchestration.closed_days import DATACENTER_TAG, closed_days, closed_days_sensor
from photon.pipeline.sections import Backfill
from photon.state.completeness.arrivals import Arrivals
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import publish
from photon.storage.store import store_of
from photon.verification.days import DAY_US, utc_day
from tests.orchestration.location import Location

FRIDAY, TODAY = date(2026, 3, 6), date(2026, 3, 10)
SETTINGS = Backfill(first_look_days=3)
NOON_US = DAY_US // 2
A_DAY = timedelta(days=1)


def noon(day: date) -> int:
    return utc_day(day).start_us + NOON_US


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
    assert (found.first, found.through) == (first, FRIDAY - A_DAY)
    assert closed_days(noon(FRIDAY), found.through, TODAY, settings).first is None


def test_a_sensor_before_anything_was_read_takes_its_first_look_later() -> None:
    assert closed_days(None, None, TODAY, SETTINGS).through is None


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
def test_days_are_requested_when_rows_are_complete_up_to_their_ends(
    up_to_us: int | None, requested: tuple[date, date] | None
) -> None:
    found = closed_days(up_to_us, FRIDAY - A_DAY, TODAY, SETTINGS)
    assert (found.first, found.last) == (requested or (None, None))
    assert found.through == (requested[1] if requested else FRIDAY - A_DAY)


def test_no_day_is_requested_that_dagster_does_not_show() -> None:
    settings = Backfill(first_day=FRIDAY - 2 * A_DAY)
    found = closed_days(noon(FRIDAY), FRIDAY - 5 * A_DAY, TODAY, settings)
    assert (found.first, found.last) == (FRIDAY - 2 * A_DAY, FRIDAY - A_DAY)


# -- its ticks


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as made:
        yield made


def say_complete(location: Location, up_to_us: int) -> None:
    """Publish completeness as shifts of datacenter east do: more is read, and an event waits."""
    said = Completeness("e", 1, 0, up_to_us + DAY_US, up_to_us, None, 0.999, waiting=1, came=1, came_late=0)
    lake = location.served.pipeline.datacenters["east"].lake
    store_of(lake).make()
    publish(lake, said, Arrivals())


def tick(location: Location, cursor: str | None) -> SensorExecutionData:
    context = build_sensor_context(location.instance, cursor, definitions=location.defs)
    return closed_days_sensor(location.served, "east", location.clock).evaluate_tick(context)


def days_of(tick: SensorExecutionData) -> tuple[str, str] | None:
    """The first and the last partition of the run that a tick requests, if it does."""
    if not tick.run_requests:
        return None
    (request,) = tick.run_requests
    return request.tags[ASSET_PARTITION_RANGE_START_TAG], request.tags[ASSET_PARTITION_RANGE_END_TAG]


def test_a_closed_day_is_requested_once_for_its_datacenter(location: Location) -> None:
    yesterday = module.day_of(location.clock.now_us()) - A_DAY
    say_complete(location, noon(yesterday))
    seen = tick(location, None)
    assert days_of(seen) == (f"east|{yesterday - 7 * A_DAY}", f"east|{yesterday - A_DAY}")
    cursor = seen.cursor
    assert cursor == str(yesterday - A_DAY)
    say_complete(location, utc_day(yesterday).end_us)
    found = tick(location, cursor)
    assert days_of(found) == (f"east|{yesterday}", f"east|{yesterday}")
    assert days_of(tick(location, found.cursor)) is None


def test_days_that_were_closed_at_once_are_one_run(location: Location) -> None:
    yesterday = module.day_of(location.clock.now_us()) - A_DAY
    say_complete(location, utc_day(yesterday).end_us)
    found = tick(location, str(yesterday - 3 * A_DAY))
    assert days_of(found) == (f"east|{yesterday - 2 * A_DAY}", f"east|{yesterday}")


def test_a_day_waits_while_another_run_of_its_datacenter_is_in_progress(location: Location) -> None:
    yesterday = module.day_of(location.clock.now_us()) - A_DAY
    say_complete(location, utc_day(yesterday).end_us)
    run = location.instance.create_run_for_job(
        location.defs.resolve_job_def(location.served.job_name(JOB)),
        status=DagsterRunStatus.STARTED,
        tags={DATACENTER_TAG: "east"},
    )
    found = tick(location, str(yesterday - A_DAY))
    assert not found.run_requests
    assert run.run_id in str(found.skip_message)
    location.instance.report_run_failed(run)
    assert tick(location, str(yesterday - A_DAY)).run_requests


def test_a_day_waits_for_shifts_to_say_how_complete_it_is(location: Location) -> None:
    assert "no shift has said" in str(tick(location, None).skip_message)
