"""The estimate: how far logs are read, what waits, and how many records came by event time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from photon.logs.files import LogFile, TrackedFile
from photon.process.clock import MICROSECONDS
from photon.state.completeness.arrivals import MINUTE_US, Arrivals
from photon.state.completeness.estimate import complete_up_to_us, mostly_up_to_us, read_up_to_us

NOON_US = 1_767_607_200_000_000
NOON = NOON_US // MINUTE_US
SECOND, IDLE_US = MICROSECONDS, 300 * MICROSECONDS
NOTHING = np.empty(0, np.int64)


def log(max_time_us: int | None, unread_bytes: int = 0, idle_us: int = 0) -> TrackedFile:
    file = LogFile(1, "foreign", "a.csv", 1, False, b"", 0, 0, b"")
    return TrackedFile(file, 100, b"", False, 100 + unread_bytes, NOON_US - idle_us, max_time_us)


def read(*files: TrackedFile, previous_us: int | None = None) -> int | None:
    return read_up_to_us(files, NOON_US, IDLE_US, previous_us)


def test_logs_are_read_up_to_the_least_time_of_the_files_that_grow() -> None:
    assert read(log(NOON_US - 9 * SECOND), log(NOON_US - 3 * SECOND)) == NOON_US - 9 * SECOND


def test_a_file_that_is_read_and_idle_holds_back_nothing() -> None:
    old = log(NOON_US - 3_600 * SECOND, idle_us=IDLE_US)
    assert read(old, log(NOON_US)) == NOON_US


def test_an_idle_file_with_unread_bytes_holds_back() -> None:
    old = log(NOON_US - 3_600 * SECOND, unread_bytes=1, idle_us=IDLE_US)
    assert read(old, log(NOON_US)) == NOON_US - 3_600 * SECOND


def test_where_nothing_grows_and_all_is_read_the_latest_time_counts() -> None:
    assert read(log(NOON_US - 9, idle_us=IDLE_US), log(NOON_US - 3, idle_us=IDLE_US)) == NOON_US - 3


def test_a_growing_file_of_which_nothing_is_read_leaves_it_as_it_was() -> None:
    assert read(log(None, unread_bytes=5), log(NOON_US), previous_us=7) == 7
    assert read(log(None, unread_bytes=5)) is None


def test_a_file_that_went_away_says_nothing() -> None:
    assert read(replace(log(5), state="gone"), log(NOON_US)) == NOON_US


def test_how_far_logs_are_read_never_goes_back() -> None:
    assert read(log(NOON_US - 9), previous_us=NOON_US - 3) == NOON_US - 3


@pytest.mark.parametrize(
    ("read_us", "waiting_us", "complete_us"), [(None, [1], None), (9, [], 9), (9, [4, 7], 4), (9, [11], 9)]
)
def test_rows_are_complete_up_to_the_earliest_record_that_waits(
    read_us: int | None, waiting_us: list[int], complete_us: int | None
) -> None:
    assert complete_up_to_us(read_us, np.array(waiting_us, np.int64)) == complete_us


def test_a_few_old_records_that_wait_hold_back_one_time_and_not_the_other() -> None:
    arrivals = Arrivals({NOON - 60: 1_000, NOON - 30: 1_500})
    waiting_us = np.array([NOON_US - 3_600 * SECOND, NOON_US - 30 * SECOND])
    assert complete_up_to_us(NOON_US, waiting_us) == NOON_US - 3_600 * SECOND
    assert mostly_up_to_us(NOON_US, waiting_us, arrivals, 0.999) == NOON_US
    assert mostly_up_to_us(NOON_US, waiting_us, arrivals, 0.9995) == NOON_US - 30 * SECOND
    assert mostly_up_to_us(NOON_US, waiting_us, arrivals, 1.0) == NOON_US - 3_600 * SECOND


def test_what_waits_beyond_the_point_that_is_read_does_not_count() -> None:
    waiting_us = np.array([NOON_US + SECOND])
    assert mostly_up_to_us(NOON_US, waiting_us, Arrivals(), 1.0) == NOON_US


def test_the_share_is_kept_in_any_history() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = np.random.default_rng(seed)
    for _ in range(300):
        times_us = NOON_US + chance.integers(0, 30 * MINUTE_US, chance.integers(1, 2_000))
        is_waiting = chance.random(len(times_us)) < chance.choice([0.0, 0.001, 0.01, 0.2])
        read_us, waiting_us = int(times_us.max()), np.sort(times_us[is_waiting])
        arrivals = Arrivals(Counter((times_us // MINUTE_US).tolist()))
        of_events = float(chance.choice([0.9, 0.99, 0.999]))
        mostly_us = mostly_up_to_us(read_us, waiting_us, arrivals, of_events)
        strictly_us = complete_up_to_us(read_us, waiting_us)
        assert mostly_us is not None
        assert strictly_us is not None
        assert strictly_us <= mostly_us <= read_us
        assert np.sum(waiting_us < strictly_us) == 0
        assert np.sum(waiting_us < mostly_us) <= (1 - of_events) * np.sum(times_us < mostly_us)


def test_records_that_come_behind_what_is_read_are_late() -> None:
    arrivals = Arrivals().plus({NOON: 5}, None, 60).plus({NOON - 2: 3, NOON: 1}, NOON * MINUTE_US, 60)
    assert arrivals == Arrivals({NOON - 2: 3, NOON: 6}, {NOON - 2: 3})


def test_a_minute_that_is_not_over_has_no_late_records() -> None:
    assert Arrivals().plus({NOON: 5}, NOON_US + 59 * SECOND, 60).late == {}


def test_only_the_latest_minutes_are_kept() -> None:
    arrivals = Arrivals().plus({NOON - 60: 1, NOON - 59: 2}, NOON_US, 60).plus({NOON: 4}, NOON_US, 60)
    assert arrivals == Arrivals({NOON - 59: 2, NOON: 4}, {NOON - 59: 2})


def test_nothing_waits_where_nothing_came() -> None:
    assert mostly_up_to_us(None, NOTHING, Arrivals(), 0.999) is None
    assert mostly_up_to_us(NOON_US, NOTHING, Arrivals(), 0.999) == NOON_US
