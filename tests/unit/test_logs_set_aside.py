"""Objects that can't be read are set aside, and asked for again later."""

from __future__ import annotations

import pytest

from photon.logs.source import LogsUnavailable
from photon.logs.tailing.unreadable_objects import (
    AWAITED_US,
    FIRST_PAUSE_US,
    MOST_PAUSE_US,
    UnreadableObjects,
)
from photon.process.clock import MICROSECONDS

REFUSED = LogsUnavailable("AccessDenied")


def at(aside: UnreadableObjects, now_us: int) -> UnreadableObjects:
    aside.begin_look(now_us)
    return aside


def test_an_object_is_held_for_a_while_that_doubles_up_to_a_minute() -> None:
    aside, now_us, pauses_us = UnreadableObjects(1), 0, []
    for _ in range(8):
        at(aside, now_us).put(7, "a.log", REFUSED)
        held_us = next(us for us in range(0, 10**9, MICROSECONDS) if at(aside, now_us + us).held(7) is None)
        pauses_us.append(held_us)
        now_us += held_us
    assert pauses_us[:3] == [FIRST_PAUSE_US, 2 * FIRST_PAUSE_US, 4 * FIRST_PAUSE_US]
    assert pauses_us[-1] == MOST_PAUSE_US


def test_one_more_than_may_be_set_aside_is_raised_and_those_that_are_stay() -> None:
    aside = at(UnreadableObjects(2), 0)
    for number in (1, 2, 1):
        problem = aside.put(number, f"{number}.log", REFUSED)
        assert problem.path == f"{number}.log"
    with pytest.raises(LogsUnavailable):
        aside.put(3, "3.log", REFUSED)
    assert len(aside) == 2


def test_none_is_set_aside_where_each_is_to_be_waited_for() -> None:
    with pytest.raises(LogsUnavailable):
        UnreadableObjects(0).put(1, "1.log", REFUSED)


def test_a_run_that_ends_when_it_is_idle_waits_for_an_object_a_minute_and_no_longer() -> None:
    """Broken variant: it never ends while one object is forbidden."""
    aside = at(UnreadableObjects(2), 0)
    assert not aside.is_awaited
    aside.put(1, "1.log", REFUSED)
    for now_us, is_awaited in ((0, True), (AWAITED_US - 1, True), (AWAITED_US, False)):
        at(aside, now_us).put(1, "1.log", REFUSED)
        assert aside.is_awaited == is_awaited


def test_an_object_that_was_read_or_is_not_listed_any_more_is_forgotten() -> None:
    aside = at(UnreadableObjects(3), 0)
    for number in (1, 2, 3):
        aside.put(number, f"{number}.log", REFUSED)
    aside.was_read(1)
    aside.keep({1, 2})
    assert [number for number in (1, 2, 3) if aside.held(number)] == [2]
