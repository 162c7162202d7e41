"""The rows of all tables, made from what was read and what the joiner decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import ROW_COLUMNS
from photon.join.messages import TaskContext
from photon.join.outcomes import DeadLetter, Final, OutcomeClass, Verdicts
from photon.join.records import Pair, Record
from photon.logs.files import LogFile
from photon.logs.parse import DEAD_LETTER_RAW_BYTES, DEAD_LETTERS
from photon.storage.columns import DEAD_LETTER_COLUMNS, UNJOINED_COLUMNS
from photon.tokens import Occurrence


def joined_rows(pairs: Sequence[Pair], adapted: pa.Table, now_us: int, context: TaskContext) -> pa.Table:
    """Joined rows: Photon's own columns, then the adapter's."""
    leaders, primaries = [pair.event.leader for pair in pairs], [pair.primary for pair in pairs]
    own = {
        "_joined_at": [now_us] * len(pairs),
        "_event_id": [pair.event.key.id for pair in pairs],
        "_primary_occurrence": [str(Occurrence(each.file_number, each.offset_bytes)) for each in primaries],
        "_event_time": [leader.time_us for leader in leaders],
    }
    rows = _stamped([leader.occurrence for leader in leaders], own, ROW_COLUMNS, context)
    for name, column in zip(adapted.column_names, adapted.columns, strict=True):
        rows = rows.append_column(name, column)
    return rows


def dead_letters_from_lines(lines: pa.Table, file: LogFile, context: TaskContext) -> pa.Table:
    """Dead letters of lines that are no records (`photon.logs.parse.DEAD_LETTERS`)."""
    assert lines.schema.names == DEAD_LETTERS.names, lines.schema
    count = lines.num_rows
    columns = {
        "side": [file.side] * count,
        "path": [file.path] * count,
        "length_bytes": lines["_length"],
        "reason": lines["reason"],
        "raw": lines["_raw"],
        "event_id": [None] * count,
    }
    occurrences = [Occurrence(file.number, offset) for offset in lines["_offset"].to_pylist()]
    return _stamped(occurrences, columns, DEAD_LETTER_COLUMNS, context)


def dead_letters_from_records(verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """Dead letters of records that the joiner could not join."""
    reasons = {record: v.reason for record, v in verdicts.of.items() if isinstance(v, DeadLetter)}
    columns = {
        "side": ["foreign"] * len(reasons),
        "path": [record.file.path for record in reasons],
        "length_bytes": [len(record.raw) for record in reasons],
        "reason": list(reasons.values()),
        "raw": [record.raw[:DEAD_LETTER_RAW_BYTES] for record in reasons],
        "event_id": [record.id for record in reasons],
    }
    return _stamped([record.occurrence for record in reasons], columns, DEAD_LETTER_COLUMNS, context)


def not_yet_recorded(letters: pa.Table, context: TaskContext) -> pa.Table:
    """The dead letters that no earlier run of this plan has recorded (protocol A12)."""
    recorded = pa.array([str(occurrence) for occurrence in context.already_recorded], pa.string())
    return letters.filter(pc.invert(pc.is_in(letters["_occurrence"], value_set=recorded)))


def unjoined_rows(verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """Records that this run gave up, without those that earlier plans wrote to `unjoined`."""
    given_up = _ended_here("unjoinable", verdicts, context)
    return _rows_of([record for record in given_up if not record.recorded], context)


def too_old_rows(verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """Records of events behind gc's boundary: nobody knows any more who joined them."""
    return _rows_of(_ended_here("too_old", verdicts, context), context)


def _ended_here(outcome: OutcomeClass, verdicts: Verdicts, context: TaskContext) -> list[Record]:
    """The records in this class, without those that an earlier run of this plan has recorded (A12)."""
    ended = (record for record, verdict in verdicts.of.items() if verdict == Final(outcome))
    return [record for record in ended if record.occurrence not in context.already_recorded]


def _rows_of(records: Sequence[Record], context: TaskContext) -> pa.Table:
    columns = {
        "event_id": [record.id for record in records],
        "key": [record.key for record in records],
        "event_time": [record.time_us for record in records],
        "header": [record.header for record in records],
        "raw": [record.raw for record in records],
    }
    return _stamped([record.occurrence for record in records], columns, UNJOINED_COLUMNS, context)


def _stamped(
    occurrences: Sequence[Occurrence], columns: Mapping[str, Any], schema: pa.Schema, context: TaskContext
) -> pa.Table:
    """Put the columns that name the record and the batch of each row before `columns`."""
    plan, count = context.plan, len(occurrences)
    stamp = {
        "_datacenter": [plan.datacenter] * count,
        "_epoch": [plan.epoch] * count,
        "_batch": [plan.batch] * count,
        "_plan": [plan.plan_id] * count,
        "_occurrence": [str(occurrence) for occurrence in occurrences],
    }
    return pa.table({**stamp, **columns}, schema=schema)
