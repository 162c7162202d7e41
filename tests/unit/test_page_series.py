"""Points of different lengths on one grid: rates, worst delays, last gauges, and gaps."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from photon.page.points import united
from photon.page.series import MOST_STEPS, Grid, newest, series
from photon.process.clock import MICROSECONDS
from photon.state.points import POINTS

NOON_US = 1_700_000_000_000_000 // (60 * MICROSECONDS) * 60 * MICROSECONDS
HOUR = 3_600


def points(*rows: tuple[float, float, dict[str, Any]]) -> pa.Table:
    """Points that end so many seconds after noon and are so long, with some of their columns."""
    told = [
        {"activity": "live", "at": NOON_US + round(at * MICROSECONDS), "seconds": seconds, **more}
        for at, seconds, more in rows
    ]
    return pa.Table.from_pylist(told, POINTS.columns)


def grid(from_seconds: float, to_seconds: float) -> Grid:
    return Grid.over(NOON_US + round(from_seconds * MICROSECONDS), NOON_US + round(to_seconds * MICROSECONDS))


@pytest.mark.parametrize("days", [0.001, 1 / 24, 1, 7, 30, 100, 399])
def test_a_grid_covers_its_range_in_so_many_steps(days: float) -> None:
    found = grid(-days * 24 * HOUR - 3.3, 7.7)
    assert found.steps <= MOST_STEPS
    assert found.from_us <= NOON_US - days * 24 * HOUR * MICROSECONDS
    assert found.to_us == found.at_us[-1] >= NOON_US + 7.7 * MICROSECONDS
    assert len(found.at_us) == found.steps


def test_two_ranges_of_one_length_share_their_steps() -> None:
    """Broken variant: a grid from the range's own beginning, so that no two looks would meet."""
    assert set(grid(0, 600).at_us) & set(grid(13.3, 613.3).at_us)


def test_a_rate_is_that_of_the_time_that_points_cover() -> None:
    found = series(points((10, 10, {"joined": 50}), (15, 5, {"joined": 50})), grid(0, 40))
    assert found["joined_per_second"] == [5, 10, None, None]


def test_a_point_that_lies_in_two_steps_counts_in_both_by_its_share() -> None:
    found = series(points((15, 10, {"joined": 100})), grid(0, 20))
    assert found["joined_per_second"] == [10, 10]


def test_a_minute_fills_the_steps_of_ten_seconds() -> None:
    found = series(points((60, 60, {"joined": 600, "unread_bytes": 7})), grid(0, 60))
    assert found["joined_per_second"] == [10] * 6
    assert found["unread_bytes"] == [7] * 6


def test_points_that_come_a_little_late_leave_no_gap() -> None:
    """Broken variant: each point in the step of its end alone; every now and then a step has none."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    rows, at = [], 0.0
    while at < HOUR - 20:
        length = 10 + rng.uniform(0, 0.8)
        at += length
        rows.append((at, length, {"joined": round(10 * length)}))
    found = series(points(*rows), grid(0, at))["joined_per_second"]
    assert None not in found
    assert all(9 < rate < 11 for rate in found)


def test_of_delays_the_worst_counts_and_of_gauges_the_last() -> None:
    rows = [
        (5, 5, {"p99_seconds": 9.0, "lag_seconds": 1.0, "pending": 5, "activity": "waiting"}),
        (10, 5, {"p99_seconds": 2.0, "lag_seconds": 3.0, "pending": 2, "activity": "behind"}),
    ]
    found = series(points(*rows), grid(0, 10))
    assert (found["p99_seconds"], found["lag_seconds"]) == ([9], [3])
    assert (found["pending"], found["activity"]) == ([2], ["behind"])


def test_what_nobody_measured_is_null_and_no_zero() -> None:
    found = series(points((10, 10, {"joined": 0})), grid(0, 20))
    assert found["joined_per_second"] == [0, None]
    assert found["p50_seconds"] == [None, None]
    assert found["registry_seconds_each"] == [None, None]


def test_complete_up_to_is_told_as_how_far_behind_it_is() -> None:
    found = series(points((10, 10, {"complete_up_to": NOON_US + 3 * MICROSECONDS})), grid(0, 10))
    assert found["complete_lag_seconds"] == [7]


def test_a_round_trip_is_the_time_of_all_by_their_number() -> None:
    found = series(points((10, 10, {"registry_requests": 20, "registry_seconds": 0.5})), grid(0, 10))
    assert (found["registry_requests_per_second"], found["registry_seconds_each"]) == ([2], [0.025])


def test_the_newest_point_tells_of_now_while_it_is_fresh() -> None:
    rows = points((10, 10, {"joined": 1}), (20, 10, {"joined": 50, "p50_seconds": 0.25}))
    fresh = newest(rows, NOON_US + 40 * MICROSECONDS, 30)
    assert (fresh["joined_per_second"], fresh["p50_seconds"]) == (5, 0.25)
    stale = newest(rows, NOON_US + 51 * MICROSECONDS, 30)
    assert fresh.keys() == stale.keys()
    assert set(stale.values()) == {None}


def test_before_the_first_point_nothing_is_known_of_now() -> None:
    assert set(newest(points(), NOON_US, 30).values()) == {None}


def test_fine_points_count_where_there_are_some_and_else_those_of_the_lake() -> None:
    lake = points(*((at, 60, {}) for at in (60, 120, 180, 240)))
    recent = points((130, 10, {}), (140, 10, {}), (190, 10, {}))
    assert [at_us / MICROSECONDS for at_us in ends(united(lake, recent, True))] == [
        60,
        120,
        130,
        140,
        190,
        240,
    ]
    assert ends(united(lake, recent, False)) == ends(lake)
    assert ends(united(points(*((at, 60, {}) for at in (60, 120))), recent, False))[-3:] == ends(recent)


def ends(table: pa.Table) -> list[int]:
    return [at_us - NOON_US for at_us in table["at"].cast(pa.int64()).to_pylist()]
