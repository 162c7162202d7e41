"""The foreign records of one join task as columns, and the events whose occurrences they are.

The number of its row names a record everywhere in this room, the place in `Events` an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.join.adapting import RawRecords
from photon.logs.files import LogFile
from photon.logs.parse import FOREIGN_EVENTS
from photon.pipeline.event_time import event_times_us
from photon.pipeline.sections import ForeignLog
from photon.registry.entry import Hashes
from photon.registry.hashing import hashes_of
from photon.state.waiting.reasons import ORDERED
from photon.storage.tokens import Occurrence

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

RECORD_COLUMNS = pa.schema(
    [
        *FOREIGN_EVENTS,
        ("attempts", pa.int32()),
        ("first_seen_us", pa.int64()),
        ("final", pa.bool_()),  # this is the last lookup
        ("recorded", pa.bool_()),  # the table of unjoined events has it already
        ("is_retry", pa.bool_()),
        ("is_ordered", pa.bool_()),  # recovery has asked for it (protocol E4)
    ]
)


@dataclass(frozen=True)
class Records:
    """The records of a task, in a table of `RECORD_COLUMNS`."""

    table: pa.Table
    files: Mapping[int, LogFile]
    log: ForeignLog

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def file_numbers(self) -> npt.NDArray[np.int32]:
        return self._column("_file")

    @cached_property
    def offsets_bytes(self) -> Ints:
        return self._column("_offset")

    @cached_property
    def times_us(self) -> Ints:
        return self._column("_time_us")

    @cached_property
    def path_ranks(self) -> Ints:
        """The place of the path of each record's file among the paths, in the order of their texts."""
        numbers, file_of = np.unique(self.file_numbers, return_inverse=True)
        paths = [self.files[number].path for number in numbers.tolist()]
        rank_of = {path: rank for rank, path in enumerate(sorted(set(paths)))}
        return np.array([rank_of[path] for path in paths], np.int64)[file_of]

    @cached_property
    def is_retry(self) -> Mask:
        return self._column("is_retry")

    @cached_property
    def is_gone(self) -> Mask:
        """Whether the bytes of each record are, from its waiting segment and from its log (protocol A19)."""
        is_gone: Mask = pc.is_null(self.table["_raw"]).to_numpy()
        return is_gone

    @cached_property
    def is_final(self) -> Mask:
        return self._column("final")

    @cached_property
    def is_ordered(self) -> Mask:
        return self._column("is_ordered")

    @cached_property
    def was_left(self) -> Mask:
        """The records that have waited, and neither for their primary nor by order: for others to act."""
        was_left: Mask = self.is_retry & ~self.is_ordered & (self._column("attempts") == 0)
        return was_left

    def _column(self, name: str) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self.table[name].to_numpy()
        return found

    def of(self, name: str, rows: Ints) -> pa.Array:
        """One column of some records; a record whose bytes are gone has none of them."""
        column = _flat(self.table[name].take(pa.array(rows)))
        return pc.fill_null(column, b"") if name == "_raw" else column

    def occurrence(self, row: int) -> Occurrence:
        return Occurrence(int(self.file_numbers[row]), int(self.offsets_bytes[row]))

    def occurrences(self, rows: Ints) -> pa.Array:
        """The occurrences of some records, as text."""
        return occurrence_texts(self.file_numbers[rows], self.offsets_bytes[rows])

    def event_times_us(self, rows: Ints) -> Ints:
        """When the event of each of these records was: its id says so, or the record (protocol C4)."""
        return event_times_us(self.of("_id", rows), self.times_us[rows], self.log)

    def raws(self, rows: Ints) -> RawRecords:
        """Some records as their files hold them."""
        return raw_records(self.of("_raw", rows), self.file_numbers[rows], self.files)

    def rows_of(self, occurrences: Mapping[Occurrence, object]) -> dict[Occurrence, int]:
        """The rows of the records with these occurrences, as far as they are here."""
        if not occurrences:
            return {}
        numbers = np.isin(self.file_numbers, [each.file_number for each in occurrences])
        rows = np.flatnonzero(
            numbers & np.isin(self.offsets_bytes, [each.offset_bytes for each in occurrences])
        )
        places = {self.occurrence(row): row for row in rows.tolist()}
        return {occurrence: row for occurrence, row in places.items() if occurrence in occurrences}


def fresh_records(events: pa.Table, now_us: int, final: bool) -> pa.Table:
    """Events that were read for the first time (`FOREIGN_EVENTS`), as `RECORD_COLUMNS`."""
    values = {"attempts": 0, "first_seen_us": now_us, "final": final}
    values |= {"recorded": False, "is_retry": False, "is_ordered": False}
    for name, value in values.items():
        events = events.append_column(name, pa.repeat(pa.scalar(value, _type_of(name)), events.num_rows))
    return events.select(RECORD_COLUMNS.names).cast(RECORD_COLUMNS)


def waiting_records(waited: pa.Table, final: bool) -> pa.Table:
    """Records that waited (`photon.state.waiting`), as `RECORD_COLUMNS`."""
    if final:
        at = waited.schema.get_field_index("final")
        waited = waited.set_column(at, "final", pa.repeat(pa.scalar(True), waited.num_rows))
    retries = waited.append_column("is_retry", pa.repeat(pa.scalar(True), waited.num_rows))
    retries = retries.append_column("is_ordered", pc.equal(waited["reason"], ORDERED))
    return retries.select(RECORD_COLUMNS.names).cast(RECORD_COLUMNS)


def _type_of(name: str) -> pa.DataType:
    return RECORD_COLUMNS.field(name).type


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def occurrence_texts(file_numbers: npt.NDArray[np.integer], offsets_bytes: Ints) -> pa.Array:
    """`str(Occurrence(...))` of each."""
    parts = (pa.array(column).cast(pa.string()) for column in (file_numbers, offsets_bytes))
    return pc.binary_join_element_wise(*parts, ":")


def raw_records(
    raws: pa.Array, file_numbers: npt.NDArray[np.integer], files: Mapping[int, LogFile]
) -> RawRecords:
    """Records as their files hold them, with the header of each one's file."""
    numbers, file_of = np.unique(file_numbers, return_inverse=True)
    return RawRecords(raws, [files[number].header for number in numbers.tolist()], file_of)


class Events:
    """The events among some records. One record leads each: it is the one that is to join (protocol A9).

    At first that is the first by (time, path, offset). Each datacenter numbers files in its own way, but
    their paths, times and offsets are alike in all.
    """

    def __init__(self, records: Records, rows: Ints) -> None:
        """The events of the records `rows`."""
        ids = records.of("_id", rows).dictionary_encode()
        codes: Ints = ids.indices.to_numpy().astype(np.int64)
        numbers, offsets_bytes = records.file_numbers[rows], records.offsets_bytes[rows]
        times_us, ranks = records.times_us[rows], records.path_ranks[rows]
        order = np.lexsort((numbers, offsets_bytes, ranks, times_us, codes))
        ordered = codes[order]
        is_first = np.diff(ordered, prepend=-1) != 0
        starts = np.flatnonzero(is_first)
        self.records = records
        self.rows = rows[order]  # all records, event by event
        self.event_of_row = np.cumsum(is_first) - 1  # beside `rows`
        self.leaders = self.rows[starts]
        self._starts = np.append(starts, len(rows))
        retries = np.add.reduceat(records.is_retry[self.rows], starts) if len(rows) else starts
        self.is_fresh: Mask = retries == 0  # none of its records has waited

    def __len__(self) -> int:
        return len(self.leaders)

    @cached_property
    def place_of(self) -> Ints:
        """The place of each record in `rows`; -1 for a record that is not there."""
        places = np.full(len(self.records), -1, np.int64)
        places[self.rows] = np.arange(len(self.rows))
        return places

    def of(self, rows: Ints) -> Ints:
        """The event of each of these records."""
        return self.event_of_row[self.place_of[rows]]

    def first_of_each(self, rows: Ints) -> Ints:
        """Indices of `rows`, in their order: of several records of an event the one that comes first."""
        if np.array_equal(rows, self.leaders[self.of(rows)]):  # as it nearly always is
            return np.arange(len(rows))
        in_order = np.argsort(self.place_of[rows])
        _, first = np.unique(self.of(rows[in_order]), return_index=True)
        return np.sort(in_order[first])

    def members(self, event: int) -> Ints:
        """The records of one event, the first ahead."""
        return self.rows[self._starts[event] : self._starts[event + 1]]

    @cached_property
    def hashes(self) -> Hashes:
        """The hash of each event's id, by which ledgers know it."""
        return hashes_of(self.records.of("_id", self.leaders))

    def lead(self, rows: Ints) -> None:
        """Have each event that has some of these records be led by the first of them."""
        first = rows[self.first_of_each(rows)]
        self.leaders[self.of(first)] = first

    def is_ordered(self, event: int) -> bool:
        """Whether recovery has asked for one of its records."""
        return bool(self.records.is_ordered[self.members(event)].any())

    def member_at(self, event: int, place: Occurrence) -> int | None:
        """The record of an event at this place."""
        members = self.members(event).tolist()
        return next((row for row in members if self.records.occurrence(row) == place), None)
