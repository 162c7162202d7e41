"""Files that can't be read are tried again later, and never all at once."""

from __future__ import annotations

import pytest

from photon.logs.discovery import FileProblem, FoundFile
from photon.logs.tailing.retry_times import (
    FIRST_PAUSE_US,
    MOST_FAILURES,
    MOST_PAUSE_US,
    MOST_REFUSALS,
    MOST_RETRIES,
    RetryTimes,
)
from photon.process.clock import MICROSECONDS

REFUSED = FileProblem("a.log", "AccessDenied")


def file_of(number: int, changed_ns: int = 0) -> FoundFile:
    return FoundFile(f"{number}.log", number, 1, 0, False, changed_ns)


def at(times: RetryTimes, now_us: int) -> RetryTimes:
    times.begin_look(now_us)
    return times


def test_a_file_is_tried_after_pauses_that_double_up_to_a_minute() -> None:
    times, now_us, pauses_us = RetryTimes(), 0, []
    for _ in range(8):
        at(times, now_us).put(file_of(1), REFUSED)
        seconds = (us for us in range(0, 10**9, MICROSECONDS))
        pauses_us.append(next(us for us in seconds if at(times, now_us + us).held(file_of(1)) is None))
        now_us += pauses_us[-1]
    assert pauses_us[:3] == [FIRST_PAUSE_US, 2 * FIRST_PAUSE_US, 4 * FIRST_PAUSE_US]
    assert pauses_us[-1] == MOST_PAUSE_US


def test_a_file_that_has_changed_is_tried_at_once() -> None:
    times = at(RetryTimes(), 0)
    times.put(file_of(1), REFUSED)
    assert times.held(file_of(1)) == REFUSED
    assert times.held(file_of(1, changed_ns=1)) is None


def test_of_ten_thousand_files_a_look_tries_a_few_and_all_have_their_turn() -> None:
    """Broken variant: those with the first names are tried again and again."""
    times, files, tried = at(RetryTimes(), 0), [file_of(number) for number in range(10_000)], set()
    for file in files:
        times.put(file, REFUSED)
    looks = -(-len(files) // MOST_RETRIES)
    for look in range(1, looks + 1):
        at(times, look * MICROSECONDS)
        due = [file for file in files if times.held(file) is None]
        assert len(due) <= MOST_RETRIES
        tried |= {*due}
        for file in due:
            times.put(file, REFUSED)
    assert len(tried) == len(files)


@pytest.mark.parametrize(("may_pass", "most"), [(True, MOST_FAILURES), (False, MOST_REFUSALS)])
def test_a_look_asks_a_store_that_fails_no_more_than_so_often(may_pass: bool, most: int) -> None:
    times = at(RetryTimes(), 0)
    for number in range(most):
        assert not times.is_enough
        times.put(file_of(number), FileProblem("a.log", "no", may_pass), of_store=True)
    assert times.is_enough
    assert not at(times, 1).is_enough


def test_a_file_that_was_read_or_is_gone_is_forgotten() -> None:
    times = at(RetryTimes(), 0)
    for number in (1, 2, 3):
        times.put(file_of(number), REFUSED)
    times.was_read(file_of(1))
    times.keep([file_of(1), file_of(2)])
    assert [number for number in (1, 2, 3) if times.held(file_of(number))] == [2]
