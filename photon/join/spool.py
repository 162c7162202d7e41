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
from photon.join.records import Record
from photon.pipeline.event_key import primary_time_us
from photon.storage.sync import sync, write_synced

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


def store_waiting(verdicts: Verdicts, context: TaskContext) -> WaitingRecords | None:
    """Store the records that come again; None if all are decided. OSError."""
    reasons = {
        record: reason
        for record, verdict in verdicts.of.items()
        if (reason := _why_it_waits(record, verdict, context)) is not None
    }
    if not reasons:
        return None
    log, keys = context.pipeline.primary, [record.key or "" for record in reasons]
    spooled = pa.table(
        {
            "_file": [record.occurrence.file_number for record in reasons],
            "_offset": [record.occurrence.offset_bytes for record in reasons],
            "_raw": [record.raw for record in reasons],
            "_id": [record.id for record in reasons],
            "_key": keys,
            "_time_us": [record.time_us for record in reasons],
            # Being left to its home is no attempt: the EventStore was not asked.
            "attempts": [record.attempts + (why == "primary") for record, why in reasons.items()],
            "first_seen_us": [record.first_seen_us for record in reasons],
            "recorded": [record.recorded or why == "unjoinable" for record, why in reasons.items()],
        },
        schema=SPOOL_COLUMNS,
    )
    rows = {
        "file": spooled["_file"],
        "offset": spooled["_offset"],
        "event_id": spooled["_id"],
        "key_hash": pa.array(hash_ids(keys).view(np.int64)),
        "primary_time_us": [
            primary_time_us(key, record.time_us, log) for key, record in zip(keys, reasons, strict=True)
        ],
        "attempts": spooled["attempts"],
        "first_seen_us": spooled["first_seen_us"],
        "reason": list(reasons.values()),
        "spool_row": range(len(reasons)),
    }
    return WaitingRecords(write_spool(context.folders.state, context.plan.batch, spooled), pa.table(rows))


def _why_it_waits(record: Record, verdict: Verdict, context: TaskContext) -> str | None:
    match verdict:
        case Waits(reason):
            return reason
        case HeldByEarlierPlan():
            return "contested"
        case Final("unjoinable"):  # kept where a later run may re-open it
            reopens = context.final or record.occurrence in context.already_recorded
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
        write_synced(target, lambda sink: pq.write_table(records, sink, compression="zstd"))
        sync(folder)
        return name
    except OSError as error:
        raise OSError(f"cannot write {target}: {error}") from error


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
            raise OSError(f"cannot read waiting records from {target}: {error}") from error
        part = whole.take(pa.array([retry.spool_row for retry in wanted], pa.int64()))
        parts.append(part.append_column("final", pa.array([retry.final for retry in wanted])))
    return pa.concat_tables(parts)


def drop_unreferenced(state: Path, referenced: Collection[str]) -> None:
    """Remove spool files that nobody refers to any more."""
    folder = state / "spool"
    for entry in os.scandir(folder) if folder.is_dir() else ():
        if entry.name not in referenced:
            Path(entry.path).unlink(missing_ok=True)
