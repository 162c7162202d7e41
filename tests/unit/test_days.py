"""Windows of event time: days, hours, and whether a watermark has passed them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from photon.process.errors import WrongUsage
from photon.verification.days import (
    DAY_US,
    HOUR_US,
    Window,
    days_between,
    is_closed,
    utc_day,
    watermark_of,
    window_of,
)
from tests.simulation.world import NOON_US, World

DAY = utc_day(date(2026, 1, 31))
TWO_HOURS = Window(DAY.start_us + 10 * HOUR_US, DAY.start_us + 12 * HOUR_US)


def test_a_day_begins_with_its_midnight_and_ends_before_the_next() -> None:
    assert DAY.start_us in DAY
    assert DAY.end_us - 1 in DAY
    assert DAY.end_us not in DAY
    assert DAY.end_us - DAY.start_us == DAY_US
    assert utc_day(date(1970, 1, 1)) == Window(0, DAY_US)


def test_a_window_names_every_day_that_has_an_hour_in_it() -> None:
    assert list(DAY.days()) == [date(2026, 1, 31)]
    assert list(days_between(date(1969, 12, 31), date(1970, 1, 1)).days()) == [
        date(1969, 12, 31),
        date(1970, 1, 1),
    ]
    assert list(Window(DAY.end_us - HOUR_US, DAY.end_us + HOUR_US).days()) == [
        date(2026, 1, 31),
        date(2026, 2, 1),
    ]


@pytest.mark.parametrize(
    ("watermark_us", "closed"), [(None, False), (DAY.end_us - 1, False), (DAY.end_us, True)]
)
def test_a_day_is_closed_when_the_watermark_has_passed_it(watermark_us: int | None, closed: bool) -> None:
    assert is_closed(DAY, watermark_us) is closed


@pytest.mark.parametrize(
    ("day", "first", "last", "window"),
    [
        (None, None, None, None),
        ("2026-01-31", None, None, DAY),
        (None, "2026-01-30", "2026-01-31", days_between(date(2026, 1, 30), date(2026, 1, 31))),
        (None, "2026-01-31T10:00", "2026-01-31T12:00", TWO_HOURS),
        (None, "2026-01-31T10:00+10:00", "2026-01-31", DAY),
    ],
)
def test_a_day_given_as_the_end_belongs_to_the_window_and_an_hour_does_not(
    day: str | None, first: str | None, last: str | None, window: Window | None
) -> None:
    assert window_of(day, first, last) == window


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("2026-01-31", "2026-01-30", None), "--day stands alone"),
        ((None, "2026-01-30", None), "--to is missing"),
        ((None, None, "2026-01-30"), "--from is missing"),
        (("yesterday", None, None), "'yesterday': expected a UTC day"),
        (("2026-W01-1", None, None), "'2026-W01-1': expected a UTC day"),
        (("20260105", None, None), "'20260105': expected a UTC day"),
        (("2026-01-05T10", None, None), "'2026-01-05T10': expected a UTC day"),
        ((None, "2026-01-31T10:30", "2026-01-31"), "a whole hour"),
        ((None, "2026-02-01", "2026-01-31"), "no time lies between"),
        ((None, "2026-01-31T10:00", "2026-01-31T10:00"), "no time lies between"),
    ],
)
def test_what_is_no_window_is_refused(asked: tuple[str | None, str | None, str | None], says: str) -> None:
    with pytest.raises(WrongUsage, match=says):
        window_of(*asked)


def test_a_datacenter_that_has_read_nothing_has_no_watermark(tmp_path: Path) -> None:
    assert watermark_of(World(tmp_path).pipeline, "east") is None


def test_the_watermark_is_the_time_of_the_last_primary_event_that_was_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.queries("q1", at_us=NOON_US)
    world.queries("q2", at_us=NOON_US + 7)
    world.join()
    assert watermark_of(world.pipeline, "east") == NOON_US + 7
