"""The strip of a day: what a datacenter was doing where it has points, and where it has none."""

from __future__ import annotations

from photon.page.strips import Point, State, StripMark, strip, waits
from photon.process.clock import MICROSECONDS

HOUR = 3_600


def ran(
    from_seconds: float,
    until_seconds: float,
    activity: str = "live",
    unread: int = 0,
    waits_for: str = "",
) -> Point:
    return Point(us(from_seconds), us(until_seconds), activity, unread, waits_for)


def waited(from_seconds: float, until_seconds: float, waits_for: str) -> Point:
    return ran(from_seconds, until_seconds, "waiting", waits_for=waits_for)


def told_waits(*points: Point) -> list[tuple[float, float, str]]:
    """Each wait in seconds, with its cause."""
    found = waits(points)
    return [(one.from_us / MICROSECONDS, one.until_us / MICROSECONDS, one.waits_for) for one in found]


def us(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


def told(
    *points: Point, marks: tuple[tuple[float, str], ...] = (), now: State = "live", until: float = HOUR
) -> list[tuple[float, float, str]]:
    """The strip of an hour, in seconds."""
    happened = [StripMark(us(at), kind) for at, kind in marks]
    found = strip(points, happened, now, 0, us(until))
    return [(one.from_us / MICROSECONDS, one.until_us / MICROSECONDS, one.state) for one in found]


def test_points_in_a_row_are_one_span_as_long_as_they_say_the_same() -> None:
    points = (ran(0, 60), ran(60, 120), ran(120, 180, "behind"), ran(180, HOUR))
    assert told(*points) == [(0, 120, "live"), (120, 180, "behind"), (180, HOUR, "live")]


def test_before_the_first_point_nobody_knows() -> None:
    assert told(ran(600, HOUR)) == [(0, 600, "unknown"), (600, HOUR, "live")]
    assert told() == [(0, HOUR, "unknown")]


def test_of_a_day_without_points_only_what_lasts_is_known() -> None:
    assert told(now="at rest") == [(0, HOUR, "at rest")]
    assert told(now="on hold") == [(0, HOUR, "on hold")]
    assert told(now="on hold", marks=((60, "hold"),)) == [(0, 60, "unknown"), (60, HOUR, "on hold")]


def test_a_shift_that_follows_at_once_leaves_no_gap() -> None:
    assert told(ran(0, 600), ran(612, HOUR)) == [(0, HOUR, "live")]


def test_a_shift_that_had_nothing_to_do_any_more_is_at_rest() -> None:
    assert told(ran(0, 600), ran(1_200, HOUR))[1] == (600, 1_200, "at rest")


def test_a_shift_that_left_unread_lines_is_dead_until_the_next_one() -> None:
    assert told(ran(0, 600, unread=7), ran(1_200, HOUR))[1] == (600, 1_200, "dead")


def test_a_killed_shift_is_dead_whatever_it_had_read() -> None:
    assert told(ran(0, 600), ran(700, HOUR), marks=((603, "killed"),)) == [
        (0, 600, "live"),
        (600, 603, "at rest"),
        (603, 700, "dead"),
        (700, HOUR, "live"),
    ]


def test_a_killed_shift_that_is_replaced_at_once_is_seen_too() -> None:
    assert (600, 610, "dead") in told(ran(0, 600), ran(610, HOUR), marks=((599, "killed"),))


def test_a_kill_tells_nothing_of_a_later_gap() -> None:
    points = (ran(0, 600), ran(610, 700), ran(1_000, HOUR))
    assert (700, 1_000, "at rest") in told(*points, marks=((600, "killed"),))


def test_a_hold_lasts_until_it_is_resumed() -> None:
    found = told(ran(0, 600), ran(1_300, HOUR), marks=((601, "hold"), (1_200, "resume")))
    assert (601, 1_200, "on hold") in found
    assert (1_200, 1_300, "at rest") in found


def test_a_hold_of_before_the_day_lasts() -> None:
    assert told(ran(-60, 0), marks=((-1, "hold"),), now="on hold") == [(0, HOUR, "on hold")]


def test_a_hold_is_seen_while_no_shift_has_run_since() -> None:
    assert told(ran(0, 600), marks=((605, "hold"),), now="on hold") == [
        (0, 600, "live"),
        (600, 605, "at rest"),
        (605, HOUR, "on hold"),
    ]


def test_a_hold_without_a_mark_begins_with_the_last_point() -> None:
    """A lake that was away took no mark."""
    assert told(ran(0, 600), now="on hold") == [(0, 600, "live"), (600, HOUR, "on hold")]


def test_since_the_last_point_counts_what_was_just_seen() -> None:
    assert told(ran(0, 600), now="dead") == [(0, 600, "live"), (600, HOUR, "dead")]
    assert told(ran(0, HOUR - 8), now="live") == [(0, HOUR, "live")]


def test_a_wait_goes_on_over_points_that_come_late() -> None:
    points = (waited(60, 70, "try 1"), waited(75, 85, "try 2"), waited(500, 510, "try 3"))
    assert told_waits(*points) == [(60, 85, "try 1"), (500, 510, "try 3")]
    assert told_waits() == []


def test_a_batch_that_joined_lies_between_two_waits() -> None:
    points = (waited(0, 49, "the lake is away"), ran(49, 63), waited(63, 107, "the lake is away"))
    assert told_waits(*points) == [(0, 49, "the lake is away"), (63, 107, "the lake is away")]


def test_each_cause_is_a_wait_of_its_own() -> None:
    points = (
        waited(0, 10, "the lake is away"),
        waited(10, 20, "the disk is full"),
        waited(20, 30, "the disk is full"),
    )
    assert told_waits(*points) == [(0, 10, "the lake is away"), (10, 30, "the disk is full")]
