"""The rows of all tables, made from what was read and what the joiner decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import ROW_COLUMNS
from photon.join.messages import TaskContext
from photon.join.records import Ints, Records, occurrence_texts
from photon.logs.files import LogFile
from photon.logs.parse import DEAD_LETTER_RAW_BYTES, DEAD_LETTERS
from photon.process.clock import Clock
from photon.state.outcomes import Verdict, Verdicts
from photon.storage.columns import DEAD_LETTER_COLUMNS, LEFT_OUT_COLUMNS, UNJOINED_COLUMNS


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
    rows = verdicts.rows_with(Verdict.DEAD_LETTER)
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
    given_up = _ended_here(Verdict.UNJOINABLE, records, verdicts, context)
    is_recorded = records.of("recorded", given_up).to_numpy(zero_copy_only=False)
    return _rows_of(records, given_up[~is_recorded.astype(bool)], context)


def too_old_rows(records: Records, verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """Records of events behind gc's boundary: nobody knows any more who joined them."""
    return _rows_of(records, _ended_here(Verdict.TOO_OLD, records, verdicts, context), context)


def left_out_rows(records: Records, verdicts: Verdicts, context: TaskContext) -> pa.Table:
    """The primary ids that dropped and skipped records name, each once: why nothing is joined with them."""
    dropped, skipped = verdicts.rows_with(Verdict.FILTERED), verdicts.rows_with(Verdict.SKIPPED)
    rows = np.concatenate([dropped, skipped])
    reasons = pa.array(["filtered"] * len(dropped) + ["skipped"] * len(skipped), pa.string())
    named = pa.table([records.of("_key", rows), reasons, np.arange(len(rows))], ["key", "reason", "row"])
    first = named.filter(pc.is_valid(named["key"])).group_by(["key", "reason"]).aggregate([("row", "min")])
    columns = {"key": first["key"], "reason": first["reason"]}
    return _stamped(
        records.occurrences(rows[first["row_min"].to_numpy()]), columns, LEFT_OUT_COLUMNS, context
    )


def _ended_here(verdict: Verdict, records: Records, verdicts: Verdicts, context: TaskContext) -> Ints:
    """The records in this class, without those that an earlier run of this plan has recorded (A12)."""
    return np.setdiff1d(
        verdicts.rows_with(verdict), list(records.rows_of(context.already_recorded).values())
    ).astype(np.int64)


def _rows_of(records: Records, rows: Ints, context: TaskContext) -> pa.Table:
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
