"""A release: a number, a cut through the tables of all datacenters, and what is said of its rows.

The order of epochs and batches is the order in which rows became final: an epoch is fenced and closed before
the next one of its datacenter begins (L4). So one place a datacenter says which of its rows count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from photon.errors import FormatTooNew
from photon.process.clock import MICROSECONDS
from photon.registry.entry import FOR_EVER

FORMAT = 1

# What a release shows for the first time, apart from new rows.
Change = Literal["rebuilt", "retired", "lake put back", "changed by others", "refilled"]


class Place(NamedTuple):
    """A batch of an epoch, with all batches before it; FOR_EVER: the epoch is over, and all of it counts."""

    epoch: int
    batch: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, " + ("whole" if self.batch == FOR_EVER else f"batch {self.batch}")


Cut = Mapping[str, Place]  # by datacenter the last rows that count
NOTHING = Place(0, FOR_EVER)  # before the first epoch


def covers(cut: Cut, other: Cut) -> bool:
    """Whether a cut has all rows that another one has."""
    return all(cut.get(name, NOTHING) >= place for name, place in other.items())


@dataclass(frozen=True, slots=True)
class Statement:
    """Up to which event times a datacenter called its rows complete, and what it had read to say so.

    `seen`: the cut that it knew. Of a record that it calls joined elsewhere the row is in there.
    """

    place: Place
    complete_up_to_us: int | None = None
    mostly_up_to_us: int | None = None
    seen: Cut = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tip:
    """The tables of a datacenter as it saw them itself when it made a release: readers find these, or more.

    `version` and `digest`: of the newest commit to `joined_events`. `side_batches`: by side table the last
    batch that the epoch committed. `rebuilt`: the number of the last commit of a rebuild. `first_date`: the
    day of its earliest row.
    """

    epoch: int
    table_id: str
    version: int
    digest: str
    side_batches: Mapping[str, int] = field(default_factory=dict)
    rebuilt: int = 0
    first_date: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One datacenter's part of a release. Without a tip it has not made a release itself yet."""

    place: Place
    tip: Tip | None = None
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a release shows first, of one datacenter, in a sentence."""

    change: Change
    datacenter: str
    says: str


@dataclass(frozen=True, slots=True)
class SetBack:
    """Rows have left at `since_us`: none from `to_us` on are called complete (None: none at all)."""

    to_us: int | None
    since_us: int
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """A release. `by`: the datacenter that made it. It never changes, and its number is never used again."""

    number: int
    made_us: int
    by: str
    parts: Mapping[str, Part]
    notes: tuple[Note, ...] = ()
    set_back: SetBack | None = None

    @property
    def cut(self) -> Cut:
        """The rows that count, by datacenter."""
        return {name: part.place for name, part in self.parts.items()}

    @property
    def made_at(self) -> datetime:
        """When it was made, in UTC."""
        return datetime.fromtimestamp(self.made_us / MICROSECONDS, UTC)

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

    def _latest(self, name: str) -> int | None:
        said = [getattr(part.statement, name) for part in self.parts.values() if part.statement is not None]
        latest_us = max((time_us for time_us in said if time_us is not None), default=None)
        if self.set_back is None or latest_us is None:
            return latest_us
        return None if self.set_back.to_us is None else min(latest_us, self.set_back.to_us)


def encode_release(release: Release) -> bytes:
    """The release as it is stored, in the registry and beside tables."""
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
            "set_back": None if set_back is None else SetBack(**set_back),
        }
    )


def _part(stored: Mapping[str, Any]) -> Part:
    tip, said = stored["tip"], stored["statement"]
    return Part(Place(*stored["place"]), None if tip is None else Tip(**tip), _statement(said))


def _statement(stored: Mapping[str, Any] | None) -> Statement | None:
    if stored is None:
        return None
    seen = {name: Place(*place) for name, place in stored["seen"].items()}
    return Statement(**{**stored, "place": Place(*stored["place"]), "seen": seen})
