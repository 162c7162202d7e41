"""The EventStore's interface: primary events by id, with an approximate time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

TimeWindow = tuple[int, int] | None  # first and last microsecond, both included; None: all the time


@dataclass(frozen=True, slots=True)
class PrimaryEvent:
    """One primary record: its bytes in the log, and where they are."""

    id: str
    time_us: int
    file_number: int
    offset_bytes: int
    raw: bytes
    header: bytes  # of its file, for CSV and TSV; else empty


@dataclass(frozen=True, slots=True)
class PrimaryLookup:
    """A primary id that a foreign event names, and the times between which its event must be.

    The window is exact to the microsecond, so that every datacenter finds the same event.
    """

    id: str
    window: TimeWindow = None  # None: the last lookup, before an event is unjoinable

    @staticmethod
    def around(event_id: str, time_us: int, window_us: int) -> PrimaryLookup:
        return PrimaryLookup(event_id, (time_us - window_us, time_us + window_us))

    def accepts(self, event: PrimaryEvent) -> bool:
        return self.window is None or self.window[0] <= event.time_us <= self.window[1]


class EventStore(Protocol):
    """Where the joiner finds primary events."""

    @property
    def unanswered(self) -> set[str]:
        """Ids that may be in a log file that can't be read now: nobody can say whether they are there."""
        ...

    def lookup(self, lookups: Sequence[PrimaryLookup]) -> list[PrimaryEvent | None]:
        """The event of each id, in order; None where it is not (yet) in the logs read so far.

        Where the same id was logged twice, the first by (time, path, offset) counts.
        The cost does not grow with the length of the history, except without a window.
        """
        ...
