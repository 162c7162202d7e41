"""The foreign records of one join unit, and the events whose occurrences they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from photon.event_store.interface import PrimaryEvent
from photon.pipeline.event_key import EventKey, event_key
from photon.pipeline.file import ForeignLog
from photon.tokens import Occurrence, Token


@dataclass(frozen=True)
class Records:
    """Foreign records, column by column; row i of each list is record i."""

    occurrences: list[Occurrence]
    headers: list[bytes]  # of their files
    raws: list[bytes]
    ids: list[str]
    events: list[EventKey]  # the identity of each record's event (protocol C4)
    keys: list[str | None]
    times_us: list[int]
    attempts: list[int]
    first_seen_us: list[int]
    final: list[bool]
    is_retry: list[bool]
    recorded: list[bool]  # the table of unjoined events has it already


def records_of(
    fresh: pa.Table,
    waiting: pa.Table,
    headers: Mapping[int, bytes],
    log: ForeignLog,
    now_us: int,
    final: bool,
) -> Records:
    """Records read for the first time, then those that waited (`photon.join.spool`)."""
    fresh_count, waiting_count = fresh.num_rows, waiting.num_rows

    def column(name: str) -> list[Any]:
        return [*fresh[name].to_pylist(), *waiting[name].to_pylist()]

    files, offsets, ids, times_us = (column(name) for name in ("_file", "_offset", "_id", "_time_us"))
    return Records(
        occurrences=[Occurrence(number, offset) for number, offset in zip(files, offsets, strict=True)],
        headers=[headers[number] for number in files],
        raws=column("_raw"),
        ids=ids,
        events=[event_key(id_, time_us, log) for id_, time_us in zip(ids, times_us, strict=True)],
        keys=column("_key"),
        times_us=times_us,
        attempts=[0] * fresh_count + waiting["attempts"].to_pylist(),
        first_seen_us=[now_us] * fresh_count + waiting["first_seen_us"].to_pylist(),
        final=[final] * fresh_count + [final or due for due in waiting["final"].to_pylist()],
        is_retry=[False] * fresh_count + [True] * waiting_count,
        recorded=[False] * fresh_count + waiting["recorded"].to_pylist(),
    )


@dataclass
class Event:
    """One event of the unit: the records of it, the smallest occurrence first."""

    key: EventKey
    records: list[int]
    held_by_plan: str | None = None  # a token of this very plan, from an earlier run (protocol A7)

    @property
    def leader(self) -> int:
        """The record that represents the event (protocol A9)."""
        return self.records[0]

    def take_token(self, token: str | None, records: Records) -> None:
        """An earlier run of this plan registered the event. If its record is among ours, that one leads."""
        assert token is not None
        occurrence = Token.parse(token).occurrence
        for index in self.records:
            if records.occurrences[index] == occurrence:
                self.held_by_plan = token
                self.records = [index, *(other for other in self.records if other != index)]
                return


@dataclass(frozen=True)
class Pair:
    """An event and the primary event that it belongs to."""

    event: Event
    primary: PrimaryEvent


def events_among(records: Records, indices: Iterable[int]) -> list[Event]:
    """The events of some records. An event's time is that of its smallest occurrence (protocol A9)."""
    groups: dict[EventKey, list[int]] = defaultdict(list)
    for index in indices:
        groups[records.events[index]].append(index)
    for group in groups.values():
        group.sort(key=lambda index: records.occurrences[index])
    return [Event(records.events[group[0]], group) for group in groups.values()]
