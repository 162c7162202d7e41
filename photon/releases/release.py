"""A release: a number, a cut through the tables of all datacenters, and what is said of its rows.

The order of epochs and batches is the order in which rows became final: an epoch is fenced and closed before
the next one of its datacenter begins (L4). So one place a datacenter says which of its rows count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from photon.process.clock import MICROSECONDS, in_utc
from photon.process.errors import FormatTooNew
from photon.process.readable import counted
from photon.storage.changes import Commit
from photon.storage.foreign_commits import ForeignCommits

FORMAT = 3
MOST_GAP_US = 24 * 3_600 * MICROSECONDS  # so that releases of joins once a day grow old as days go by
REFILL_GAP = 1_000  # numbers: some may have been decided in the lost registry that no lake has a copy of

# Everything that a release shows for the first time, apart from new rows.
Change = Literal[
    "rebuilt",
    "retired",
    "lake put back",
    "changed by others",
    "side rows changed by others",
    "refilled",
    "unmatched put back",
]
# Joined rows are gone, and nobody knows yet what that leaves without a row.
ROWS_LEFT: tuple[Change, ...] = ("retired", "lake put back", "changed by others", "rebuilt")


class Place(NamedTuple):
    """A batch of an epoch, with all batches and epochs of its datacenter before it."""

    epoch: int
    batch: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, batch {self.batch}"


Cut = Mapping[str, Place]  # the last rows that count, of each datacenter
NOTHING = Place(0, 0)  # before the first epoch


def covers(cut: Cut, other: Cut) -> bool:
    """Whether a cut has all rows that another one has."""
    return all(cut.get(name, NOTHING) >= place for name, place in other.items())


@dataclass(frozen=True, slots=True)
class Statement:
    """Up to which event times a datacenter called the rows of a cut complete."""

    complete_up_to_us: int | None = None
    mostly_up_to_us: int | None = None


class CleanVerification(NamedTuple):
    """A datacenter's verification that began with a release and found no event without a row.

    Or it has ordered all that it found: then only statements made after a later batch than `ordered` count,
    for these wait until all orders are taken up. `clean`: the last verification that found nothing wrong at
    all began with this release; only that ends what is open about commits of others (E11).
    """

    release: int
    ordered: Place = NOTHING
    clean: int = -1


NOT_VERIFIED = CleanVerification(-1)


@dataclass(frozen=True, slots=True)
class Part:
    """One datacenter's part of a release, made by who read its lake at that moment.

    `rows`: of `joined_events` up to `place`, counted in this `version` of the table. `rebuilt`: the number of
    the last commit of a rebuild. `side_batches`: by side table the last batch that the place's epoch
    committed; of `unmatched` its last run. `side_rows`: how many rows of each of them count. `first_us`: no
    row is of an event before it; `new_from_us`: no row that the release adds is. `unmatched_up_to_us`: by the
    last run, primaries before it that had come have joined rows, or rows in `unmatched`. That run went by
    release `unmatched_release`, and its logs were read as of `unmatched_read_us`. `unread`: so many files of
    its logs are there and not read, as it said last; a statement of before holds, and none goes further.
    `looked`: up to which
    commit of each table somebody has looked for those of others; `foreign`: those that nobody has decided on.
    """

    place: Place
    table_id: str
    rows: int
    version: int
    rebuilt: int = 0
    side_batches: Mapping[str, int] = field(default_factory=dict)
    first_us: int | None = None
    new_from_us: int | None = None
    statement: Statement | None = None
    unmatched_up_to_us: int | None = None
    unmatched_release: int = 0
    unmatched_read_us: int | None = None
    side_rows: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0
    looked: Mapping[str, Commit] = field(default_factory=dict)
    foreign: tuple[ForeignCommits, ...] = ()

    def place_in(self, table: str) -> Place:
        """The last rows of one of the datacenter's tables that count."""
        is_of_runs = table == "unmatched"  # the others have the batches of the joined rows
        return Place(self.place.epoch, self.side_batches.get(table, 0)) if is_of_runs else self.place


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a release shows first, of one datacenter, in a sentence."""

    change: Change
    datacenter: str
    says: str

    def __str__(self) -> str:
        return f"{self.change} ({self.datacenter}): {self.says}"


@dataclass(frozen=True, slots=True)
class SetBack:
    """Rows have left, so that statements of before count only up to `to_us` (None: not at all).

    `awaits`: the datacenters that have not verified since release `number`, where the rows left. A statement
    counts in full again once its datacenter has found that none of its events lacks a row, or once those that
    do were ordered to be joined.
    """

    to_us: int | None
    number: int
    awaits: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """A release. `by`: the datacenter that made it. It never changes, and its number is never used again.

    `lakes_gone`: datacenters that were retired without their lakes, and never have a part again.
    `elapsed_us`: between the first release and this one, where a gap counts as `MOST_GAP_US` at most.
    `rows_left_with`: the number of the last release with a note of `ROWS_LEFT`.
    """

    number: int
    made_us: int
    by: str
    parts: Mapping[str, Part]
    notes: tuple[Note, ...] = ()
    set_back: SetBack | None = None
    lakes_gone: tuple[str, ...] = ()
    elapsed_us: int = 0
    rows_left_with: int = 0

    @property
    def cut(self) -> Cut:
        """The rows that count, by datacenter."""
        return {name: part.place for name, part in self.parts.items()}

    @property
    def rows(self) -> int:
        """How many joined rows it has, of all datacenters."""
        return sum(part.rows for part in self.parts.values())

    @property
    def made_at(self) -> datetime:
        """When it was made, in UTC."""
        return datetime.fromtimestamp(self.made_us / MICROSECONDS, UTC)

    def sentence(self) -> str:
        """Its number, when it was made and up to when it is complete, for people."""
        up_to_us = self.complete_up_to_us
        up_to = "no event time yet" if up_to_us is None else in_utc(up_to_us, "seconds")
        return f"release {self.number}, made {in_utc(self.made_us, 'seconds')}, complete up to {up_to}"

    def unread_sentences(self) -> list[str]:
        """Say of each datacenter how many files of its logs are there and not read; nothing where none is."""
        return [
            f"{name} has not read {counted(part.unread, 'file')} of its logs: until it has, "
            "nothing that they may change is complete"
            for name, part in sorted(self.parts.items())
            if part.unread
        ]

    def foreign_sentences(self) -> list[str]:
        """Say what others had done to tables by then, and nobody had decided on (E11)."""
        return [
            f"{name}: {one.sentence}" for name, part in sorted(self.parts.items()) for one in part.foreign
        ]

    @property
    def complete_up_to_us(self) -> int | None:
        """The event time before which every record that had come is decided, its row among these; or None.

        Each datacenter has a copy of all logs, so the latest that one of them says holds for all.
        """
        return self._latest("complete_up_to_us")

    @property
    def mostly_up_to_us(self) -> int | None:
        """The event time before which the share `availability.of_events` is decided; None: nobody said."""
        return self._latest("mostly_up_to_us")

    @property
    def unmatched_up_to_us(self) -> int | None:
        """The time before which each primary that had come is matched, or in `unmatched`; or None."""
        return _latest_of(map(self.unmatched_up_to_us_of, self.parts))

    def unmatched_up_to_us_of(self, datacenter: str) -> int | None:
        """The same by one datacenter's last run; None if it went by a release of before rows left (U8)."""
        part = self.parts.get(datacenter)
        if part is None or part.unmatched_release < self.rows_left_with:
            return None
        return part.unmatched_up_to_us

    def _latest(self, name: str) -> int | None:
        said = {datacenter: part.statement for datacenter, part in self.parts.items()}
        return _latest_of(self._counted(each, getattr(one, name, None)) for each, one in said.items())

    def _counted(self, datacenter: str, time_us: int | None) -> int | None:
        if time_us is None or self.set_back is None or datacenter not in self.set_back.awaits:
            return time_us
        return None if self.set_back.to_us is None else min(time_us, self.set_back.to_us)


def _latest_of(times_us: Iterable[int | None]) -> int | None:
    return max((time_us for time_us in times_us if time_us is not None), default=None)


def encode_release(release: Release) -> bytes:
    """The release as it is stored."""
    return json.dumps({"format": FORMAT, **asdict(release)}, sort_keys=True).encode()


def decode_release(value: bytes, where: str = "a release") -> Release:
    """The inverse of `encode_release`. FormatTooNew; ValueError, KeyError or TypeError if it is none."""
    stored = json.loads(value)
    if (written := stored.pop("format")) > FORMAT:
        raise FormatTooNew(where, written, FORMAT)
    set_back = stored["set_back"]
    return Release(
        **{
            **stored,
            "parts": {name: _part(one) for name, one in stored["parts"].items()},
            "notes": tuple(Note(**one) for one in stored["notes"]),
            "set_back": None
            if set_back is None
            else SetBack(**{**set_back, "awaits": tuple(set_back["awaits"])}),
            "lakes_gone": tuple(stored["lakes_gone"]),
        }
    )


def _part(stored: Mapping[str, Any]) -> Part:
    place, statement = Place(*stored["place"]), stored["statement"]
    read = {
        "place": place,
        "statement": None if statement is None else Statement(**statement),
        "looked": {table: Commit(**one) for table, one in stored["looked"].items()},
        "foreign": tuple(ForeignCommits(**one) for one in stored["foreign"]),
    }
    return Part(**{**stored, **read})
