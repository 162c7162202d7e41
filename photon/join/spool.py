"""The records that wait: their raw bytes, in immutable files on the datacenter's own disk.

A waiting record keeps its own bytes, because its log may be gone by the time its primary comes. The
dispatcher keeps only (file, row) of each record, so no record passes through it. A record that still waits
after another look moves to a new file, so an old file soon holds none, and goes.
"""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from photon.event_store.hashing import hash_ids
from photon.join.messages import RetryRef, TaskContext, WaitingRecords
from photon.join.outcomes import Final, HeldByEarlierPlan, Verdict, Verdicts, Waits
from photon.join.records import Records
from photon.pipeline.event_key import primary_time_us

SPOOL_COLUMNS = pa.schema(
    [
        ("_file", pa.int32()),
        ("_offset", pa.int64()),
        ("_raw", pa.binary()),
        ("_id", pa.string()),
        ("_key", pa.string()),
        ("_time_us", pa.int64()),
        ("attempts", pa.int32()),
        ("first_seen_us", pa.int64()),
        ("recorded", pa.bool_()),  # the table of unjoined events has it already
    ]
)


class SpoolUnavailable(Exception):
    """The state folder can't be written or read now; the message names file and reason."""


def store_waiting(records: Records, verdicts: Verdicts, context: TaskContext) -> WaitingRecords | None:
    """Store the records that come again; None if all are decided. SpoolUnavailable."""
    reasons: dict[int, str] = {}
    for index, verdict in verdicts.of.items():
        reason = _why_it_waits(records, index, verdict, context)
        if reason is not None:
            reasons[index] = reason
    if not reasons:
        return None
    occurrences = [records.occurrences[index] for index in reasons]
    keys = [records.keys[index] or "" for index in reasons]
    times_us = [records.times_us[index] for index in reasons]
    spooled = pa.table(
        {
            "_file": [occurrence.file_number for occurrence in occurrences],
            "_offset": [occurrence.offset_bytes for occurrence in occurrences],
            "_raw": [records.raws[index] for index in reasons],
            "_id": [records.ids[index] for index in reasons],
            "_key": [records.keys[index] for index in reasons],
            "_time_us": times_us,
            # Being left to its home is no attempt: the EventStore was not asked.
            "attempts": [records.attempts[index] + (why == "primary") for index, why in reasons.items()],
            "first_seen_us": [records.first_seen_us[index] for index in reasons],
            "recorded": [why == "unjoinable" for why in reasons.values()],
        },
        schema=SPOOL_COLUMNS,
    )
    log = context.pipeline.primary
    rows = {
        "file": spooled["_file"],
        "offset": spooled["_offset"],
        "event_id": spooled["_id"],
        "key_hash": pa.array(hash_ids(keys).view(np.int64)),
        "primary_time_us": [primary_time_us(*each, log) for each in zip(keys, times_us, strict=True)],
        "attempts": spooled["attempts"],
        "first_seen_us": spooled["first_seen_us"],
        "reason": list(reasons.values()),
        "spool_row": range(len(reasons)),
    }
    return WaitingRecords(write_spool(context.folders.state, context.plan.batch, spooled), pa.table(rows))


def _why_it_waits(records: Records, index: int, verdict: Verdict, context: TaskContext) -> str | None:
    match verdict:
        case Waits(reason):
            return reason
        case HeldByEarlierPlan():
            return "contested"
        case Final("unjoinable"):  # kept where a later run may re-open it
            reopens = context.final or records.occurrences[index] in context.already_recorded
            return "unjoinable" if reopens else None
        case _:
            return None


def write_spool(state: Path, batch: int, records: pa.Table) -> str:
    """Store records durably; the file's name. The row numbers are the positions in `records`."""
    folder = state / "spool"
    name = f"batch-{batch}-{uuid.uuid4().hex}.parquet"
    target = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as sink:
            pq.write_table(records, sink, compression="zstd")
            sink.flush()
            os.fsync(sink.fileno())
        _sync_folder(folder)  # else the file's name may be lost with the power, though its bytes are not
        return name
    except OSError as error:
        target.unlink(missing_ok=True)
        raise SpoolUnavailable(f"cannot write {target}: {error}") from error


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def read_spool(state: Path, retries: Sequence[RetryRef]) -> pa.Table:
    """The records of `retries`, with the column `final` beside their own; the order is by file."""
    retries_by_file: dict[str, list[RetryRef]] = defaultdict(list)
    for retry in retries:
        retries_by_file[retry.spool_file].append(retry)
    parts = [SPOOL_COLUMNS.empty_table().append_column("final", pa.array([], pa.bool_()))]
    for name, wanted in retries_by_file.items():
        target = state / "spool" / name
        try:
            whole = pq.read_table(target)
        except OSError as error:
            raise SpoolUnavailable(f"cannot read waiting records from {target}: {error}") from error
        part = whole.take(pa.array([retry.spool_row for retry in wanted], pa.int64()))
        parts.append(part.append_column("final", pa.array([retry.final for retry in wanted])))
    return pa.concat_tables(parts)


def drop_unreferenced(state: Path, referenced: Collection[str]) -> None:
    """Remove spool files that nobody refers to any more."""
    folder = state / "spool"
    for entry in os.scandir(folder) if folder.is_dir() else ():
        if entry.name not in referenced:
            Path(entry.path).unlink(missing_ok=True)
