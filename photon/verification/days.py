"""Windows of event time: whole UTC hours and days, and whether a datacenter's logs have passed them.

Reads the watermark from a state. What a window holds, and whether it is complete, is in `kept`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.process.errors import WrongUsage
from photon.state.unread_logs import unread_now
from photon.state.view import view_state

HOUR_US = 3_600 * MICROSECONDS
DAY_US = 24 * HOUR_US
_EPOCH = date(1970, 1, 1)

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """The event times from `start_us` on, and before `end_us`."""

    start_us: int
    end_us: int

    def __contains__(self, time_us: int) -> bool:
        return self.start_us <= time_us < self.end_us

    def days(self) -> Iterator[date]:
        """The UTC days that have an hour in it."""
        for number in range(self.start_us // DAY_US, -(-self.end_us // DAY_US)):
            yield _EPOCH + timedelta(days=number)


def utc_day(day: date) -> Window:
    """The window of one UTC day."""
    return days_between(day, day)


def days_between(first: date, last: date) -> Window:
    """The window of these UTC days, both included."""
    return Window((first - _EPOCH).days * DAY_US, ((last - _EPOCH).days + 1) * DAY_US)


def is_closed(window: Window, watermark_us: int | None) -> bool:
    """Whether a datacenter has read its primary logs beyond the window."""
    return watermark_us is not None and watermark_us >= window.end_us


def watermark_of(pipeline: Pipeline, datacenter: str) -> int | None:
    """The event time up to which a datacenter has read its primary logs.

    None: it has read none, or nobody knows the times in a file that is there and not read (protocol D11).
    StateUnavailable, FormatTooNew.
    """
    now_us = SystemClock().now_us()
    view = view_state(pipeline.datacenters[datacenter].state, now_us)
    if view.epoch is None:
        return None
    unread = unread_now(pipeline, datacenter, view, now_us)
    return None if any(one.side == "primary" for one in unread) else view.watermark_us


def window_of(day: str | None, first: str | None, last: str | None) -> Window | None:
    """The window that a person asks for with `--day`, or `--from` and `--to`; None: for none. WrongUsage.

    Each is a UTC day (2026-01-31) or a whole hour (2026-01-31T10:00). A day that is given as the end belongs
    to the window, an hour does not.
    """
    if day is not None and (first is not None or last is not None):
        raise WrongUsage("--day stands alone: give either it, or --from and --to")
    if day is None and first is None and last is None:
        return None
    if day is not None:
        if not _DAY.fullmatch(day):
            raise WrongUsage(f"{day!r}: expected a UTC day such as 2026-01-31 for --day")
        first = last = day
    if first is None or last is None:
        raise WrongUsage(f"--{'from' if first is None else 'to'} is missing: a window has both ends")
    window = Window(_moment(first).start_us, _moment(last, at_end=True).end_us)
    if window.start_us >= window.end_us:
        raise WrongUsage(f"no time lies between --from {first} and --to {last}")
    return window


def _moment(text: str, at_end: bool = False) -> Window:
    moment = None
    with suppress(ValueError):
        if _DAY.fullmatch(text):
            return utc_day(date.fromisoformat(text))
        if _DAY.match(text):
            moment = datetime.fromisoformat(text)
    if moment is None or (moment.minute, moment.second, moment.microsecond) != (0, 0, 0):
        raise WrongUsage(
            f"{text!r}: expected a UTC day such as 2026-01-31, or a whole hour: 2026-01-31T10:00"
        )
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    at_us = int(moment.timestamp()) * MICROSECONDS
    return Window(at_us, at_us)
