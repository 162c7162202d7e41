"""The rows of all tables, made from what was read and what the joiner decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from photon.join.messages import TaskContext
from photon.join.outcomes import DeadLetter, Final, OutcomeClass, Verdicts
from photon.join.records import Pair, Records
from photon.logs.files import LogFile
from photon.logs.parse import DEAD_LETTER_RAW_BYTES, DEAD_LETTERS
from photon.storage.columns import DEAD_LETTER_COLUMNS, ROW_COLUMNS, UNJOINED_COLUMNS
from photon.tokens import Occurrence


def joined_rows(
    pairs: Sequence[Pair], adapted: pa.Table, records: Records, now_us: int, context: TaskContext
) -> pa.Table:
    """Joined rows: Photon's own columns, then the adapter's."""
    leaders = [pair.event.leader for pair in pairs]
    own = _stamp([records.occurrences[index] for index in leaders], context) | {
        "_joined_at": [now_us] * len(pairs),
        "_event_id": [pair.event.key.id for pair in pairs],
        "_primary_occurrence": [
            str(Occurrence(pair.primary.file_number, pair.primary.offset_bytes)) for pair in pairs
        ],
        "_event_time": [records.times_us[index] for index in leaders],
    }
    return pa.table(_columns(pa.table(own, schema=ROW_COLUMNS)) | _columns(adapted))


def dead_letters_from_lines(lines: pa.Table, file: LogFile, context: TaskContext) -> pa.Table:
    """Dead letters of lines that are no records (`photon.logs.parse.DEAD_LETTERS`)."""
    assert lines.schema.names == DEAD_LETTERS.names, lines.schema
    count = lines.num_rows
    columns = _stamp([Occurrence(file.number, offset) for offset in lines["_offset"].to_pylist()], context)
    columns |= {
        "side": [file.side] * count,
        "path": [file.path] * count,
        "length_bytes": lines["_length"],
        "reason": lines["reason"],
        "raw": lines["_raw"],
        "event_id": [None] * count,
    }
    return pa.table(columns, schema=DEAD_LETTER_COLUMNS)


def dead_letters_from_records(
    records: Records, verdicts: Verdicts, files: Mapping[int, LogFile], context: TaskContext
) -> pa.Table:
    """Dead letters of records that the joiner could not join."""
    reasons = {index: v.reason for index, v in verdicts.of.items() if isinstance(v, DeadLetter)}
    occurrences = [records.occurrences[index] for index in reasons]
    columns = _stamp(occurrences, context) | {
        "side": ["foreign"] * len(reasons),
        "path": [files[occurrence.file_number].path for occurrence in occurrences],
        "length_bytes": [len(records.raws[index]) for index in reasons],
        "reason": list(reasons.values()),
        "raw": [records.raws[index][:DEAD_LETTER_RAW_BYTES] for index in reasons],
        "event_id": [records.ids[index] for index in reasons],
    }
    return pa.table(columns, schema=DEAD_LETTER_COLUMNS)


def not_yet_recorded(letters: pa.Table, context: TaskContext) -> pa.Table:
    """The dead letters that no earlier run of this work has recorded (protocol A12)."""
    recorded = pa.array([str(occurrence) for occurrence in context.already_recorded], pa.string())
    return letters.filter(pc.invert(pc.is_in(letters["_occurrence"], value_set=recorded)))


def unjoined_rows(records: Records, verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """Records without a primary, given up here, without those that earlier plans wrote to `unjoined`."""
    given_up = _ended_here("unjoinable", records, verdicts, context)
    return _rows_of([index for index in given_up if not records.recorded[index]], records, context)


def too_old_rows(records: Records, verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """Records of events that gc has passed: nobody knows any more who joined them."""
    return _rows_of(_ended_here("too_old", records, verdicts, context), records, context)


def _ended_here(
    outcome: OutcomeClass, records: Records, verdicts: Verdicts, context: TaskContext
) -> list[int]:
    """The records that ended so, without those that an earlier run of this work has recorded (A12)."""
    ended = (index for index, verdict in verdicts.of.items() if verdict == Final(outcome))
    return [index for index in ended if records.occurrences[index] not in context.already_recorded]


def _rows_of(indices: Sequence[int], records: Records, context: TaskContext) -> pa.Table:
    columns = _stamp([records.occurrences[index] for index in indices], context) | {
        "event_id": [records.ids[index] for index in indices],
        "key": [records.keys[index] for index in indices],
        "event_time": [records.times_us[index] for index in indices],
        "header": [records.headers[index] for index in indices],
        "raw": [records.raws[index] for index in indices],
    }
    return pa.table(columns, schema=UNJOINED_COLUMNS)


def _stamp(occurrences: Sequence[Occurrence], context: TaskContext) -> dict[str, Any]:
    """The columns that say which record a row is of, and which batch wrote it."""
    plan, count = context.plan, len(occurrences)
    return {
        "_datacenter": [plan.datacenter] * count,
        "_epoch": [plan.epoch] * count,
        "_batch": [plan.batch] * count,
        "_occurrence": [str(occurrence) for occurrence in occurrences],
    }


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))
