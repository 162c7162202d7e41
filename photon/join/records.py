"""The foreign records of one join task, and the events whose occurrences they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import Any

import pyarrow as pa

from photon.event_store.interface import Primaries
from photon.logs.files import LogFile
from photon.pipeline.event_key import EventKey, event_key
from photon.pipeline.file import ForeignLog
from photon.tokens import Occurrence, Token

_READ = ("_file", "_offset", "_raw", "_id", "_key", "_time_us")
_WAITED = ("attempts", "first_seen_us", "final", "recorded")


@dataclass(slots=True, eq=False)
class Record:
    """A foreign record, equal to itself alone. Nobody changes it.

    Not `frozen`: making one would take 3.5 us of CPU time instead of 0.5 (measured), 0.6 s a full batch.
    """

    occurrence: Occurrence
    file: LogFile
    raw: bytes
    id: str
    event: EventKey  # the identity of its event (protocol C4)
    key: str | None
    time_us: int
    attempts: int
    first_seen_us: int
    final: bool
    recorded: bool  # the table of unjoined events has it already
    is_retry: bool
    is_gone: bool = False  # its bytes are; `raw` is empty (protocol A19)

    @property
    def header(self) -> bytes:
        return self.file.header


def records_of(
    fresh: pa.Table,
    waiting: pa.Table,
    files: Mapping[int, LogFile],
    log: ForeignLog,
    now_us: int,
    final: bool,
) -> list[Record]:
    """Records read for the first time, then those that waited (`photon.join.spool`)."""
    never_waited = (repeat(0), repeat(now_us), repeat(final), repeat(False), repeat(False))
    first_time = zip(*_columns(fresh, _READ), *never_waited, strict=False)
    again = zip(*_columns(waiting, (*_READ, *_WAITED)), repeat(True), strict=False)
    return [
        Record(
            Occurrence(number, offset),
            files[number],
            raw or b"",
            id_,
            event_key(id_, time_us, log),
            key,
            time_us,
            attempts,
            first_seen_us,
            final or last_lookup,
            recorded,
            is_retry,
            is_gone=raw is None,
        )
        for rows in (first_time, again)
        for (
            number,
            offset,
            raw,
            id_,
            key,
            time_us,
            attempts,
            first_seen_us,
            last_lookup,
            recorded,
            is_retry,
        ) in rows
    ]


def _columns(table: pa.Table, names: Sequence[str]) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]


@dataclass
class Event:
    """One event of the task: its records, the smallest occurrence first."""

    key: EventKey
    records: list[Record]
    held_by_plan: str | None = None  # a token of this very plan, from an earlier run (protocol A7)

    @property
    def leader(self) -> Record:
        """The record that represents the event (protocol A9)."""
        return self.records[0]

    def take_token(self, token: str | None, of: Container[Occurrence] | None = None) -> None:
        """An earlier run of this plan registered the event. If its record is among ours, that one leads.

        `of`: only if it is one of these.
        """
        assert token is not None
        occurrence = Token.parse(token).occurrence
        for record in self.records:
            if record.occurrence == occurrence and (of is None or occurrence in of):
                self.held_by_plan = token
                self.lead(record)
                return

    def lead(self, leader: Record) -> None:
        """Let another one of its records represent the event."""
        self.records = [leader, *(record for record in self.records if record is not leader)]


@dataclass(frozen=True, slots=True)
class PrimaryEvent:
    """One primary record: its bytes in the log, and where they are."""

    id: str
    time_us: int
    file_number: int
    offset_bytes: int
    raw: bytes
    header: bytes  # of its file, for CSV and TSV; else empty


def primary_events(found: Primaries) -> list[PrimaryEvent | None]:
    """The primary event of each key of a lookup."""
    names = ("_id", "_time_us", "_file", "_offset", "_raw")
    rows = zip(*(found.events[name].to_pylist() for name in names), strict=True)
    events = [PrimaryEvent(i, t, n, offset, raw, found.files[n].header) for i, t, n, offset, raw in rows]
    return [events[row] if row >= 0 else None for row in found.rows.tolist()]


@dataclass(frozen=True)
class Pair:
    """An event and the primary event that it belongs to."""

    event: Event
    primary: PrimaryEvent


def events_among(records: Iterable[Record]) -> list[Event]:
    """The events of some records. An event's time is that of its smallest occurrence (protocol A9)."""
    groups: dict[EventKey, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.event].append(record)
    for group in groups.values():
        group.sort(key=attrgetter("occurrence"))
    return [Event(group[0].event, group) for group in groups.values()]
