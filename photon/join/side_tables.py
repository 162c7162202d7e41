"""The rows of the side tables: dead letters, events without a primary, and those that are too old.

Rows only, made from what the reading of lines and the joiner decided. Writing them is `photon.join.tasks`,
committing them the dispatcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from photon.join.messages import TaskContext
from photon.join.outcomes import OutcomeClass
from photon.join.records import Records
from photon.join.verdicts import DeadLetter, Final, Verdicts
from photon.logs.files import LogFile
from photon.logs.parse import DEAD_LETTER_RAW_BYTES, DEAD_LETTERS
from photon.storage.tables import DEAD_LETTER_COLUMNS, UNJOINED_COLUMNS
from photon.tokens import Occurrence


def not_yet_recorded(letters: pa.Table, context: TaskContext) -> pa.Table:
    """Those that an earlier run of this work has not recorded yet (protocol A12)."""
    recorded = pa.array([str(occurrence) for occurrence in context.already_recorded], pa.string())
    return letters.filter(pc.invert(pc.is_in(letters["_occurrence"], value_set=recorded)))


def _stamp(context: TaskContext, occurrences: Iterable[Occurrence]) -> dict[str, pa.Array]:
    texts = [str(occurrence) for occurrence in occurrences]
    plan = context.plan
    return {
        "_datacenter": pa.array([plan.datacenter] * len(texts), pa.string()),
        "_epoch": pa.array([plan.epoch] * len(texts), pa.string()),
        "_batch": pa.array([plan.batch] * len(texts), pa.int64()),
        "_occurrence": pa.array(texts, pa.string()),
    }


def dead_letters_from_lines(lines: pa.Table, file: LogFile, context: TaskContext) -> pa.Table:
    """Dead letters of lines that are no records (`photon.logs.parse.DEAD_LETTERS`)."""
    assert lines.schema.names == DEAD_LETTERS.names, lines.schema
    count = lines.num_rows
    columns = _stamp(context, (Occurrence(file.number, offset) for offset in lines["_offset"].to_pylist()))
    columns |= {
        "side": pa.array([file.side] * count, pa.string()),
        "path": pa.array([file.path] * count, pa.string()),
        "length_bytes": lines["_length"].combine_chunks(),
        "reason": lines["reason"].combine_chunks(),
        "raw": lines["_raw"].combine_chunks(),
        "event_id": pa.nulls(count, pa.string()),
    }
    return pa.table(columns).cast(DEAD_LETTER_COLUMNS)


def dead_letters_from_records(
    records: Records, verdicts: Verdicts, files: dict[int, LogFile], context: TaskContext
) -> pa.Table:
    """Dead letters of records that the joiner could not join."""
    dead = [
        (index, verdict.reason) for index, verdict in verdicts.of.items() if isinstance(verdict, DeadLetter)
    ]
    raws = [records.raws[index] for index, _ in dead]
    columns = _stamp(context, (records.occurrences[index] for index, _ in dead))
    columns |= {
        "side": pa.array(["foreign"] * len(dead), pa.string()),
        "path": pa.array(
            [files[records.occurrences[index].file_number].path for index, _ in dead], pa.string()
        ),
        "length_bytes": pa.array([len(raw) for raw in raws], pa.int64()),
        "reason": pa.array([reason for _, reason in dead], pa.string()),
        "raw": pa.array([raw[:DEAD_LETTER_RAW_BYTES] for raw in raws], pa.binary()),
        "event_id": pa.array([records.ids[index] for index, _ in dead], pa.string()),
    }
    return pa.table(columns).cast(DEAD_LETTER_COLUMNS)


def unjoined_rows(
    records: Records, verdicts: Verdicts, headers: Mapping[int, bytes], context: TaskContext
) -> pa.Table:
    """Records without a primary, given up here, but for those that `unjoined` has from earlier plans."""
    given_up = _ended_here("unjoinable", records, verdicts, context)
    return _rows_of([i for i in given_up if not records.recorded[i]], records, headers, context)


def too_old_rows(
    records: Records, verdicts: Verdicts, headers: Mapping[int, bytes], context: TaskContext
) -> pa.Table:
    """Records of events that collection has passed, of which nobody knows any more who joined them."""
    return _rows_of(_ended_here("too_old", records, verdicts, context), records, headers, context)


def _ended_here(
    outcome: OutcomeClass, records: Records, verdicts: Verdicts, context: TaskContext
) -> list[int]:
    """The records that ended so, but for those of which an earlier run of this work has said it (A12)."""
    ended = (index for index, verdict in verdicts.of.items() if verdict == Final(outcome))
    return [index for index in ended if records.occurrences[index] not in context.already_recorded]


def _rows_of(
    lost: Sequence[int], records: Records, headers: Mapping[int, bytes], context: TaskContext
) -> pa.Table:
    occurrences = [records.occurrences[index] for index in lost]
    columns = _stamp(context, occurrences)
    columns |= {
        "event_id": pa.array([records.ids[index] for index in lost], pa.string()),
        "key": pa.array([records.keys[index] for index in lost], pa.string()),
        "event_time": pc.cast(
            pa.array([records.times_us[i] for i in lost], pa.int64()),
            UNJOINED_COLUMNS.field("event_time").type,
        ),
        "header": pa.array([headers[occurrence.file_number] for occurrence in occurrences], pa.binary()),
        "raw": pa.array([records.raws[index] for index in lost], pa.binary()),
    }
    return pa.table(columns).cast(UNJOINED_COLUMNS)
