"""The EventStore's interface: primary events by id, with an approximate time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PrimaryLookup:
    """A primary id that a foreign event names, and where in time to look for it.

    `around_us` is the id's own time where the id carries one, else the foreign event's. `anywhere` looks
    through the whole log: the last lookup before an event is unjoinable.
    """

    id: str
    around_us: int | None
    anywhere: bool = False


@dataclass(frozen=True, slots=True)
class PrimaryEvent:
    """One primary record: its bytes in the log, and where they are."""

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
        """Ids that may be in a log file that can't be read now: nobody can say whether they are there."""
        ...

    def lookup(self, lookups: Sequence[PrimaryLookup]) -> list[PrimaryEvent | None]:
        """The event of each id, in order; None where it is not (yet) in the logs read so far.

        Where the same id was logged twice, the first by (time, path, offset) counts.
        The cost does not grow with the length of the history, except for `anywhere`.
        """
        ...
