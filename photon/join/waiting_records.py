"""Store the records of a task that wait, or were given up, in waiting segments.

A waiting record keeps its own bytes, because its log may be gone by the time its primary comes. A record that
still waits after another look moves to a new segment, so an old one soon holds none, and goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.hashing import hash_ids
from photon.join.messages import JoinTask, TaskContext
from photon.join.records import Records
from photon.pipeline.event_time import primary_time_us
from photon.pipeline.sections import PrimaryLog
from photon.state.outcomes import JoinVerdict, Verdicts
from photon.state.waiting import segments
from photon.state.waiting.reasons import CODE_OF, HELD, ORDERED, PRIMARY, UNJOINABLE, Codes, due_us, held_us
from photon.state.waiting.segments import RECORD_COLUMNS, WaitingSegment, write_segment
from photon.storage.tokens import new_id

_REASON_OF = {
    JoinVerdict.WAITS_FOR_PRIMARY: PRIMARY,
    JoinVerdict.WAITS_FOR_HOME: CODE_OF["home"],
    JoinVerdict.WAITS_FOR_CLOCK: CODE_OF["clock"],
    JoinVerdict.HELD_HERE: CODE_OF["contested"],
    JoinVerdict.HELD_ELSEWHERE: HELD,
}
_NOT_AGAIN = -1


def store_waiting(
    records: Records, verdicts: Verdicts, task: JoinTask, context: TaskContext, now_us: int
) -> tuple[WaitingSegment, ...]:
    """Store the records that wait, and those that are given up in a segment of their own. OSError."""
    reasons = _reasons(records, verdicts, context)
    rows = np.flatnonzero(reasons != _NOT_AGAIN)
    if not len(rows):
        return ()
    waiting = _with_due_times(records.table.take(pa.array(rows)), reasons[rows], task, context, now_us)
    is_given_up = pa.array(reasons[rows] == UNJOINABLE)
    parts = [waiting.filter(pc.invert(is_given_up)), waiting.filter(is_given_up)]
    folder = context.work / segments.FOLDER
    # Named anew in each run: an earlier one's task may still be writing.
    name = f"{context.plan.plan_id}-{task.number}"
    return tuple(write_segment(folder, f"{name}-{new_id()}", part) for part in parts if len(part))


def _with_due_times(
    table: pa.Table, reasons: Codes, task: JoinTask, context: TaskContext, now_us: int
) -> pa.Table:
    """The records as `RECORD_COLUMNS`, due from now on."""
    # Being left to its home is no attempt: the EventStore was not asked.
    attempts = table["attempts"].to_numpy() + (reasons == PRIMARY)
    rng = np.random.default_rng(crc32(f"{context.plan.plan_id}-{task.number}".encode()))
    due = due_us(reasons, attempts, context.pipeline, now_us, rng)
    is_held = np.isin(reasons, (HELD, ORDERED))
    ages_us = now_us - table["first_seen_us"].to_numpy()[is_held]
    due[is_held] = now_us + held_us(ages_us, context.pipeline.recovery)
    columns = {
        "attempts": attempts,
        "recorded": pc.or_(table["recorded"], pa.array(reasons == UNJOINABLE)),
        "reason": reasons,
        "due_us": due,
    }
    return as_waiting(table, columns, context.pipeline.primary)


def as_waiting(table: pa.Table, columns: Mapping[str, object], log: PrimaryLog) -> pa.Table:
    """Records with these columns beside those that were read, as `RECORD_COLUMNS`."""
    of_keys = {
        "primary_time_us": _expected_us(table, log),
        "key_hash": hash_ids(pc.fill_null(table["_key"], "")),
    }
    as_read = {name: table[name] for name in RECORD_COLUMNS.names if name not in (*columns, *of_keys)}
    every = {**as_read, **columns, **of_keys}
    return pa.table(every).select(RECORD_COLUMNS.names).cast(RECORD_COLUMNS)


def _expected_us(table: pa.Table, log: PrimaryLog) -> pa.ChunkedArray | list[int]:
    """When the primary of each record is expected: the record's own time, unless ids carry theirs."""
    if log.id_codec is None:
        return table["_time_us"]
    ids, times_us = table["_key"].to_pylist(), table["_time_us"].to_pylist()
    return [primary_time_us(each or "", at_us, log) for each, at_us in zip(ids, times_us, strict=True)]


def _reasons(records: Records, verdicts: Verdicts, context: TaskContext) -> Codes:
    """Why each record comes again."""
    reason_of = np.full(len(JoinVerdict), _NOT_AGAIN, np.int8)
    for verdict, code in _REASON_OF.items():
        reason_of[verdict] = code
    if context.final:  # unjoinable records are kept where a later run may re-open them
        reason_of[JoinVerdict.UNJOINABLE] = UNJOINABLE
    reasons: npt.NDArray[np.int8] = reason_of[verdicts.of]
    for row in records.rows_of(context.already_recorded).values():
        if verdicts.of[row] == JoinVerdict.UNJOINABLE:
            reasons[row] = UNJOINABLE
    orphans = {one.occurrence: one for one in verdicts.to_free}
    for row in records.rows_of(orphans).values():
        reasons[row] = ORDERED  # until a table tells whether they have a row (E8)
    return reasons
