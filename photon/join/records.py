"""The foreign records of one join task as columns, and the rows of tables that are made of them.

The number of its row names a record everywhere in this room, the place in `photon.join.events` an event.
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

from photon.adapters import ROW_COLUMNS
from photon.join.adapting import RawRecords
from photon.join.messages import TaskContext
from photon.logs.files import LogFile
from photon.logs.parse import DEAD_LETTER_RAW_BYTES, DEAD_LETTERS, FOREIGN_EVENTS
from photon.pipeline.event_time import event_times_us
from photon.pipeline.sections import ForeignLog
from photon.process.clock import Clock
from photon.state.outcomes import JoinVerdict, Verdicts
from photon.state.waiting.reasons import ORDERED
from photon.storage.columns import DEAD_LETTER_COLUMNS, LEFT_OUT_COLUMNS, UNJOINED_COLUMNS
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


# -- the rows of all tables, made from what was read and what the joiner decided


def joined_rows(
    records: Records,
    leaders: Ints,
    primaries: pa.Table,
    adapted: pa.Table,
    clock: Clock,
    context: TaskContext,
) -> pa.Table:
    """Joined rows of foreign records and their primaries (PRIMARY_EVENTS): Photon's own columns first."""
    own = {
        "_joined_at": pa.repeat(pa.scalar(clock.now_us()), len(leaders)),
        "_event_id": records.of("_id", leaders),
        "_primary_occurrence": occurrence_texts(
            primaries["_file"].to_numpy(), primaries["_offset"].to_numpy()
        ),
        "_event_time": records.times_us[leaders],
        "_primary_id": primaries["_id"],
        "_primary_time": primaries["_time_us"],
    }
    rows = _stamped(records.occurrences(leaders), own, ROW_COLUMNS, context)
    for name, column in zip(adapted.column_names, adapted.columns, strict=True):
        rows = rows.append_column(name, column)
    return rows


def dead_letters_from_lines(lines: pa.Table, files: Mapping[int, LogFile], context: TaskContext) -> pa.Table:
    """Dead letters of lines that are no records (`photon.logs.parse.DEAD_LETTERS`), of these files."""
    assert lines.schema.names == DEAD_LETTERS.names, lines.schema
    of = [files[number] for number in lines["_file"].to_pylist()]
    columns = {
        "side": [file.side for file in of],
        "path": [file.path for file in of],
        "length_bytes": lines["_length"],
        "reason": lines["reason"],
        "raw": lines["_raw"],
        "event_id": [None] * len(of),
        "key": [None] * len(of),
    }
    occurrences = occurrence_texts(lines["_file"].to_numpy(), lines["_offset"].to_numpy())
    return _stamped(occurrences, columns, DEAD_LETTER_COLUMNS, context)


def dead_letters_from_records(records: Records, verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """Dead letters of records that the joiner could not join."""
    rows = verdicts.rows_with(JoinVerdict.DEAD_LETTER)
    raws = records.of("_raw", rows)
    columns = {
        "side": ["foreign"] * len(rows),
        "path": [records.files[number].path for number in records.file_numbers[rows].tolist()],
        "length_bytes": pc.binary_length(raws).cast(pa.int64()),
        "reason": [verdicts.notes[row] for row in rows.tolist()],
        "raw": pc.binary_slice(raws, 0, DEAD_LETTER_RAW_BYTES),
        "event_id": records.of("_id", rows),
        "key": records.of("_key", rows),
    }
    return _stamped(records.occurrences(rows), columns, DEAD_LETTER_COLUMNS, context)


def not_yet_recorded(letters: pa.Table, context: TaskContext) -> pa.Table:
    """The dead letters that no earlier run of this plan has recorded (protocol A12)."""
    recorded = pa.array([str(occurrence) for occurrence in context.already_recorded], pa.string())
    return letters.filter(pc.invert(pc.is_in(letters["_occurrence"], value_set=recorded)))


def unjoined_rows(records: Records, verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """Records that this run gave up, without those that earlier plans wrote to `unjoined`."""
    given_up = _ended_here(JoinVerdict.UNJOINABLE, records, verdicts, context)
    is_recorded = records.of("recorded", given_up).to_numpy(zero_copy_only=False)
    return _as_unjoined(records, given_up[~is_recorded.astype(bool)], context)


def too_old_rows(records: Records, verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """Records of events behind gc's boundary: nobody knows any more who joined them."""
    return _as_unjoined(records, _ended_here(JoinVerdict.TOO_OLD, records, verdicts, context), context)


def left_out_rows(records: Records, verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """The primary ids that dropped and skipped records name, each once: why nothing is joined with them."""
    dropped, skipped = verdicts.rows_with(JoinVerdict.FILTERED), verdicts.rows_with(JoinVerdict.SKIPPED)
    rows = np.concatenate([dropped, skipped])
    reasons = pa.array(["filtered"] * len(dropped) + ["skipped"] * len(skipped), pa.string())
    named = pa.table([records.of("_key", rows), reasons, np.arange(len(rows))], ["key", "reason", "row"])
    first = named.filter(pc.is_valid(named["key"])).group_by(["key", "reason"]).aggregate([("row", "min")])
    columns = {"key": first["key"], "reason": first["reason"]}
    return _stamped(
        records.occurrences(rows[first["row_min"].to_numpy()]), columns, LEFT_OUT_COLUMNS, context
    )


def lost_events(records: Records, verdicts: Verdicts) -> tuple[tuple[Occurrence, str], ...]:
    """Records whose bytes are gone, and their events."""
    rows = verdicts.rows_with(JoinVerdict.LOST)
    ids = records.of("_id", rows).to_pylist()
    return tuple(zip(map(records.occurrence, rows.tolist()), ids, strict=True))


def _ended_here(verdict: JoinVerdict, records: Records, verdicts: Verdicts, context: TaskContext) -> Ints:
    """The records in this class, without those that an earlier run of this plan has recorded (A12)."""
    return np.setdiff1d(
        verdicts.rows_with(verdict), list(records.rows_of(context.already_recorded).values())
    ).astype(np.int64)


def _as_unjoined(records: Records, rows: Ints, context: TaskContext) -> pa.Table:
    columns = {
        "event_id": records.of("_id", rows),
        "key": records.of("_key", rows),
        "event_time": records.times_us[rows],
        "header": [records.files[number].header for number in records.file_numbers[rows].tolist()],
        "raw": records.of("_raw", rows),
    }
    return _stamped(records.occurrences(rows), columns, UNJOINED_COLUMNS, context)


def _stamped(
    occurrences: pa.Array, columns: Mapping[str, Any], schema: pa.Schema, context: TaskContext
) -> pa.Table:
    """Put the columns that name the record and the batch of each row before `columns`."""
    plan, count = context.plan, len(occurrences)
    stamp = {
        "_datacenter": pa.repeat(plan.datacenter, count),
        "_epoch": pa.repeat(plan.epoch, count),
        "_batch": pa.repeat(plan.batch, count),
        "_plan": pa.repeat(plan.plan_id, count),
        "_occurrence": occurrences,
    }
    together = {**stamp, **columns}
    arrays = [_as_type(together[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _as_type(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(kind)
    return pa.array(values, kind)
