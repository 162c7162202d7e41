"""Availability, decided: which minutes are over, which are good, and what is left of the error budget."""

from __future__ import annotations

import numpy as np
import pytest

from photon.pipeline.sections import Availability
from photon.process.clock import MICROSECONDS
from photon.verification.availability.budget import (
    BUDGET_DAYS,
    HOUR_US,
    MINUTE_US,
    NEVER_US,
    Budget,
    Minute,
    MinuteCounts,
    Moments,
    budget_of,
    measured,
    minutes_to_judge,
    sentence,
    together,
)

SECOND = MICROSECONDS
BEGIN_US = 1_767_607_200 * SECOND // MINUTE_US * MINUTE_US
SETTINGS = Availability()
BUDGET_MINUTES = BUDGET_DAYS * 24 * 60


def times(*seconds: float) -> np.ndarray:
    return np.array([BEGIN_US + round(second * SECOND) for second in seconds], np.int64)


def good(at: int = 0) -> Minute:
    return Minute(BEGIN_US + at * MINUTE_US, 1_000, 999)


def bad(at: int = 0) -> Minute:
    return Minute(BEGIN_US + at * MINUTE_US, 1_000, 998)


def by_time(*minutes: Minute) -> dict[int, Minute]:
    return {minute.at_us: minute for minute in minutes}


def budget(*minutes: Minute) -> Budget:
    found = budget_of(by_time(*minutes), SETTINGS)
    assert found is not None
    return found


# -- one event


def test_an_event_is_joinable_from_the_latest_of_all_that_it_waited_for() -> None:
    found = measured(times(10, 10, 10), [times(5, 20, 5), times(0, 0, 30)])
    assert found.joinable_us.tolist() == times(10, 20, 30).tolist()
    assert found.by_arrival.tolist() == [False, True, True]
    assert (found.readable_us == NEVER_US).all()


def test_a_row_is_readable_when_its_batch_is_and_else_at_the_time_that_it_has() -> None:
    found = measured(times(10, 10), [], times(11, 11), np.array([*times(14), 0]))
    assert found.readable_us.tolist() == times(14, 11).tolist()
    assert found.by_commit.tolist() == [True, False]


# -- minutes


def counted(joinable: np.ndarray, readable: np.ndarray, within_us: int = 5 * SECOND) -> list[Minute]:
    nobody = np.zeros(len(joinable), bool)
    counts = MinuteCounts(BEGIN_US, BEGIN_US + 3 * MINUTE_US, within_us)
    for row in range(len(joinable)):  # rows come in parts
        counts.add(Moments(*(each[row : row + 1] for each in (joinable, readable, nobody, nobody))))
    return counts.minutes()


def test_events_count_in_the_minute_in_which_they_became_joinable() -> None:
    first, second, third = counted(times(0, 59.999, 60, -1, 180), times(1, 61, 66, 0, 181))
    assert (first.joinable, first.readable) == (2, 2)
    assert (second.joinable, second.readable) == (1, 0)
    assert second.slowest_us == 6 * SECOND
    assert third == Minute(BEGIN_US + 2 * MINUTE_US)


def test_an_event_without_a_row_is_not_readable() -> None:
    first, *_ = counted(times(1, 2), np.array([NEVER_US, *times(3)]))
    assert (first.joinable, first.readable, first.without_row) == (2, 1, 1)
    assert first.slowest_us == SECOND


def test_a_row_that_took_exactly_so_long_is_in_time() -> None:
    assert counted(times(1), times(6))[0].readable == 1


@pytest.mark.parametrize(
    ("minute", "is_good"),
    [
        (good(), True),
        (bad(), False),
        (Minute(0, 999, 998), False),
        (Minute(0), True),
        (Minute(0, 1, 0), False),
    ],
)
def test_a_minute_is_good_if_so_large_a_share_of_its_events_was_in_time(
    minute: Minute, is_good: bool
) -> None:
    assert minute.is_good(0.999) is is_good


def test_the_union_has_the_events_of_all_datacenters() -> None:
    east, west = Minute(BEGIN_US, 10, 9, 1, 2, 3, 7), Minute(BEGIN_US, 5, 5, 0, 1, 1, 9)
    union = together([by_time(east, good(1)), by_time(west)])
    assert union == {BEGIN_US: Minute(BEGIN_US, 15, 14, 1, 3, 4, 9), BEGIN_US + MINUTE_US: good(1)}


def judged(last: int | None, known_since: float, read_until: float, now: float) -> list[int]:
    last_us = None if last is None else BEGIN_US + last * MINUTE_US
    moments = (int(times(each)[0]) for each in (known_since, read_until, now))
    return [(at_us - BEGIN_US) // MINUTE_US for at_us in minutes_to_judge(last_us, *moments, 5 * SECOND)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((None, 1, 600, 600), [1, 2, 3, 4, 5, 6, 7, 8]),  # minute 0 began before the timeline
        ((6, 1, 600, 600), [7, 8]),
        ((6, 1, 600, 605), [7, 8, 9]),
        ((6, 1, 480, 605), [7]),  # later minutes are not read yet
        ((6, 1, 479, 605), []),
        ((9, 1, 480, 605), []),
        ((None, 1, 0, 605), []),
    ],
)
def test_a_minute_is_judged_once_when_it_is_read_and_its_last_event_had_its_time(
    arguments: tuple[int | None, float, float, float], expected: list[int]
) -> None:
    assert judged(*arguments) == expected


# -- the budget


def test_bad_minutes_are_taken_from_what_28_days_allow() -> None:
    found = budget(good(), bad(1), Minute(BEGIN_US + 2 * MINUTE_US))
    assert (found.allowed, found.bad, found.left, found.judged) == (403, 1, 402, 3)
    assert (found.events, found.late_events, found.last_bad_us) == (2_000, 3, BEGIN_US + MINUTE_US)


def test_a_bad_minute_is_forgotten_after_28_days() -> None:
    assert budget(bad(0), good(BUDGET_MINUTES - 1)).bad == 1
    assert budget(bad(0), good(BUDGET_MINUTES)).bad == 0


def test_without_a_minute_there_is_no_budget() -> None:
    assert budget_of({}, SETTINGS) is None


def burning(bad_minutes: list[int], last: int) -> list[int]:
    """Return the hours over which the budget burns too fast."""
    return [hours for hours, _ in budget(good(last), *map(bad, bad_minutes)).burning]


@pytest.mark.parametrize(
    ("bad_minutes", "hours"),
    [
        (range(8), []),  # 2 % of 403 minutes are 8.06
        (range(9), [1]),
        (range(0, 340, 17), []),  # 20 in six hours
        (range(0, 340, 16), [6]),
        (range(0, 4_000, 100), []),  # 40 in three days
        (range(0, 4_100, 100), [72]),
    ],
)
def test_it_burns_too_fast_when_a_part_of_the_budget_goes_in_too_few_hours(
    bad_minutes: range, hours: list[int]
) -> None:
    last = max(59, bad_minutes[-1])
    # Bad minutes lie in the hours before the last minute, where the first rule sees them or not.
    found = burning([last - at for at in bad_minutes], last)
    assert found == hours


def test_the_sentence_says_what_is_left_and_what_is_wrong() -> None:
    bad_minutes = [bad(at) for at in range(500)]
    says = sentence("east", budget(*bad_minutes), SETTINGS)
    assert "500 bad minutes in 28 days, of 403 allowed" in says
    assert "99.9 % of events readable within 5 s, in 99 % of minutes" in says
    assert "USED UP, by 97 minutes more" in says
    assert "BURNS TOO FAST: 15 % of it went in the last 1 h" in says
    assert "BURNS" not in sentence("east", budget(good()), SETTINGS)


def test_without_allowed_minutes_a_single_bad_one_uses_the_budget_up() -> None:
    found = budget_of(by_time(bad()), Availability(of_minutes=1.0))
    assert found is not None
    assert (found.allowed, found.left) == (0, -1)
    assert found.burning[0][0] * HOUR_US == HOUR_US
