"""Dagster is told of each hour up to whose end a release is complete, once, and again where rows had left."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from dagster import DagsterInstance, SkipReason, build_sensor_context

from photon.assets.releases import HOUR
from photon.orchestration.complete_hours import MOST_HOURS, complete_hours, complete_hours_sensor
from photon.pipeline.sections import Backfill
from photon.process.clock import MICROSECONDS
from photon.resources.environment import location_settings
from tests.releases.lakes import new_lakes
from tests.support.manual_clock import ManualClock

TEN = datetime(2026, 3, 6, 10, tzinfo=UTC)
SETTINGS = Backfill(first_look_days=1)


def us(moment: datetime) -> int:
    return int(moment.timestamp()) * MICROSECONDS


NOW_US = us(TEN + timedelta(days=3))


@pytest.mark.parametrize(
    ("up_to", "told"),
    [
        pytest.param(TEN - timedelta(seconds=1), 0, id="just before its end"),
        pytest.param(TEN, 1, id="at its end"),
        pytest.param(TEN + 2 * HOUR, 3, id="hours later"),
        pytest.param(datetime(2100, 1, 1, tzinfo=UTC), 73, id="a wild time"),
    ],
)
def test_an_hour_is_told_when_a_release_is_complete_up_to_its_end(up_to: datetime, told: int) -> None:
    found = complete_hours(us(up_to), TEN - HOUR, NOW_US, SETTINGS)
    assert found.hours == tuple(TEN + (number - 1) * HOUR for number in range(told))
    assert complete_hours(us(up_to), found.through, NOW_US, SETTINGS).hours == ()


def test_hours_are_told_again_after_rows_had_left() -> None:
    back = complete_hours(us(TEN - 3 * HOUR), TEN, NOW_US, SETTINGS)
    assert back.hours == ()
    assert complete_hours(us(TEN), back.through, NOW_US, SETTINGS).hours == tuple(
        TEN - number * HOUR for number in (3, 2, 1)
    )


def test_a_first_look_begins_with_the_last_day_and_a_tick_tells_so_many_hours() -> None:
    assert complete_hours(None, None, NOW_US, SETTINGS).hours == ()
    assert len(complete_hours(us(TEN), None, NOW_US, SETTINGS).hours) == 24
    assert len(complete_hours(us(TEN), None, NOW_US, Backfill(first_day=TEN.date())).hours) == 10
    year = complete_hours(us(TEN), TEN - timedelta(days=60), NOW_US, Backfill(first_day=date(2025, 1, 1)))
    assert len(year.hours) == MOST_HOURS
    assert year.through == TEN - timedelta(days=60) + MOST_HOURS * HOUR


def test_before_the_first_release_the_sensor_says_what_makes_one(
    tmp_path: Path, instance: DagsterInstance
) -> None:
    lakes = new_lakes(tmp_path / "lakes", tmp_path)
    (served,) = location_settings({"PHOTON_PIPELINES": str(tmp_path / "pipeline.yaml")}).served
    sensor = complete_hours_sensor(served, ManualClock(NOW_US))
    found = sensor(build_sensor_context(instance=instance))
    assert isinstance(found, SkipReason)
    assert "photon join" in str(found.skip_message)
    lakes.append("east")
    lakes.release()
    assert "release 1" in str(sensor(build_sensor_context(instance=instance)).skip_reason)  # type: ignore[union-attr]
