"""Time, injected: only here does the engine ask the machine for it.

Times of day are integer microseconds since 1970-01-01 UTC (`*_us`): they compare and store exactly. Exactly
once depends on no clock (protocol C1): clocks only pace work.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

MICROSECONDS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A time further ahead of this machine's clock than this is wrong, or waits (protocol C6, L13): NTP keeps
# clocks within a second, and one that is set by hand within a few minutes.
CLOCK_TOLERANCE_US = 5 * 60 * MICROSECONDS
NO_TIME_US = 2**63 - 1  # stands for the time of an event that has none: no boundary passes it


class Clock(Protocol):
    """The engine's use of time."""

    def now_us(self) -> int: ...

    def elapsed_us(self) -> int:
        """Microseconds since some moment. Setting the time of day does not move it: deadlines go by it."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def elapsed_us(self) -> int:
        return time.monotonic_ns() // 1_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def moment_of(text: str) -> datetime:
    """A time as people write it, of UTC unless it has a zone. ValueError."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def in_us(value: datetime) -> int:
    """A time with a zone, in microseconds since 1970 UTC."""
    return (value - _EPOCH) // timedelta(microseconds=1)


def in_utc(time_us: int, timespec: str = "microseconds") -> str:
    """A time for people: 2026-01-31 10:42:00 UTC; in microseconds, if no calendar has it."""
    return in_iso(time_us, timespec).replace("T", " ").replace("+00:00", " UTC")


def in_iso(time_us: int, timespec: str = "microseconds") -> str:
    """A time for programs: 2026-01-31T10:42:00+00:00; in microseconds, if no calendar has it."""
    try:
        return datetime.fromtimestamp(time_us / MICROSECONDS, UTC).isoformat(timespec=timespec)
    except (ValueError, OverflowError, OSError):
        return f"{time_us} us"


def microseconds(duration: timedelta) -> int:
    """A duration in whole microseconds."""
    return round(duration.total_seconds() * MICROSECONDS)
