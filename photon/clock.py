"""Time, injected: the only place in the engine that asks the machine what time it is.

Times of day are integer microseconds since 1970-01-01 UTC (`*_us`), so that they compare
and store exactly; waiting is in seconds. Nothing that makes the join exactly-once may
depend on a clock (design, section 4): clocks here only pace work.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

MICROSECONDS = 1_000_000


class Clock(Protocol):
    """What the engine needs of time; tests pass a `ManualClock`."""

    def now_us(self) -> int:
        """The time of day, in microseconds since 1970-01-01 UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds` (a `ManualClock` moves on instead)."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when it is told to: `advance`, or a `sleep` of somebody who waits."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the clock on by `seconds`."""
        self._now_us += round(seconds * MICROSECONDS)


def in_utc(time_us: int, timespec: str = "microseconds") -> str:
    """A time as people read it, in UTC; one beyond the calendar in microseconds, as it is."""
    try:
        return datetime.fromtimestamp(time_us / MICROSECONDS, UTC).isoformat(timespec=timespec)
    except (ValueError, OverflowError, OSError):
        return f"{time_us} us"


def microseconds(duration: timedelta) -> int:
    """A duration in whole microseconds."""
    return round(duration.total_seconds() * MICROSECONDS)
