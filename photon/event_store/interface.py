"""The EventStore's interface: primary events by id, with an approximate time.

No storage here: `cache` keeps recent events in memory, `log_file_map` and `logs` find the others
(paper, section 3.3: CacheEventStore and LogsEventStore).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Wanted:
    """A primary id that a foreign event names, and where in time to look for it.

    `around_us` is the id's own time where the id carries one, else the foreign event's.
    `anywhere` makes it a lookup over the whole log: the last one before an event is unjoinable.
    """

    id: str
    around_us: int | None
    anywhere: bool = False


@dataclass(frozen=True, slots=True)
class PrimaryEvent:
    """One primary record: its bytes as they stand in the log, and where."""

    id: str
    time_us: int
    file_number: int
    offset_bytes: int
    raw: bytes
    header: bytes  # of its file, for CSV and TSV; else empty


class EventStore(Protocol):
    """Where the joiner finds primary events."""

    @property
    def unanswered(self) -> set[str]:
        """Ids of which nobody can say now whether their event is there: a log file can't be read."""
        ...

    def lookup(self, wanted: Sequence[Wanted]) -> list[PrimaryEvent | None]:
        """The event of each id, in order; None where it is not (yet) in the logs read so far.

        Where the same id was logged twice, the first by (time, path, offset) counts.
        The cost does not grow with the length of the history, except for `anywhere`.
        """
        ...
