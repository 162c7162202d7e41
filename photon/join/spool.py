"""The records that wait: their raw bytes, in immutable files on the datacenter's own disk.

A waiting record keeps its own bytes, because its log may be gone by the time its primary comes. The
dispatcher keeps only (file, row) of each record, so no record passes through it. A record that still waits
after another look moves to a new file, so an old file soon holds none, and goes.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from photon.event_store.hashing import hash_ids
from photon.join.messages import RetryRef, TaskContext, WaitingRecords
from photon.join.outcomes import Verdict, Verdicts
from photon.join.records import Records
from photon.pipeline.event_key import primary_time_us
from photon.storage.sync import sync, write_synced

SPOOL_COLUMNS = pa.schema(
    [
        ("_file", pa.int32()),
        ("_offset", pa.int64()),
        ("_raw", pa.binary()),  # null: its bytes are gone (protocol A19)
        ("_id", pa.string()),
        ("_key", pa.string()),
        ("_time_us", pa.int64()),
        ("attempts", pa.int32()),
        ("first_seen_us", pa.int64()),
        ("recorded", pa.bool_()),  # the table of unjoined events has it already
    ]
)


class SpoolDamaged(Exception):
    """Spool files that are gone, or not what was written."""

    def __init__(self, files: Sequence[str]) -> None:
        super().__init__(", ".join(files))
        self.files = tuple(files)


def store_waiting(records: Records, verdicts: Verdicts, context: TaskContext) -> WaitingRecords | None:
    """Store the records that come again; None if all are decided. OSError."""
    why = _why_they_wait(records, verdicts, context)
    rows = np.flatnonzero(why)
    if not len(rows):
        return None
    reasons = [_REASONS[code] for code in why[rows].tolist()]
    spooled = records.table.take(pa.array(rows)).select(SPOOL_COLUMNS.names)
    # Being left to its home is no attempt: the EventStore was not asked.
    asked = why[rows] == _REASONS.index("primary")
    attempts = pc.add(spooled["attempts"], pa.array(asked.astype(np.int32)))
    recorded = pc.or_(spooled["recorded"], pa.array(why[rows] == _REASONS.index("unjoinable")))
    spooled = spooled.set_column(SPOOL_COLUMNS.get_field_index("attempts"), "attempts", attempts)
    spooled = spooled.set_column(SPOOL_COLUMNS.get_field_index("recorded"), "recorded", recorded)
    columns = {
        "file": spooled["_file"],
        "offset": spooled["_offset"],
        "event_id": spooled["_id"],
        "key_hash": pa.array(hash_ids(pc.fill_null(spooled["_key"], "")).view(np.int64)),
        "primary_time_us": _expected_us(spooled, context),
        "attempts": attempts,
        "first_seen_us": spooled["first_seen_us"],
        "reason": reasons,
        "spool_row": range(len(rows)),
    }
    spooled = spooled.cast(SPOOL_COLUMNS)
    return WaitingRecords(write_spool(context.folders.state, context.plan.batch, spooled), pa.table(columns))


def _expected_us(spooled: pa.Table, context: TaskContext) -> pa.ChunkedArray | list[int]:
    """When the primary of each record is expected: the record's own time, unless ids carry theirs."""
    log = context.pipeline.primary
    if log.id_codec is None:
        return spooled["_time_us"]
    ids, times_us = spooled["_key"].to_pylist(), spooled["_time_us"].to_pylist()
    return [primary_time_us(each or "", at_us, log) for each, at_us in zip(ids, times_us, strict=True)]


# Why a record comes again, by code; 0: it does not.
_REASONS = ("", "primary", "home", "horizon", "contested", "unjoinable")


def _why_they_wait(records: Records, verdicts: Verdicts, context: TaskContext) -> npt.NDArray[np.int8]:
    code_of = np.zeros(len(Verdict), np.int8)
    code_of[Verdict.WAITS_FOR_PRIMARY] = _REASONS.index("primary")
    code_of[Verdict.WAITS_FOR_HOME] = _REASONS.index("home")
    code_of[Verdict.WAITS_FOR_HORIZON] = _REASONS.index("horizon")
    code_of[Verdict.HELD_BY_EARLIER_PLAN] = _REASONS.index("contested")
    if context.final:  # what is unjoinable is kept where a later run may re-open it
        code_of[Verdict.UNJOINABLE] = _REASONS.index("unjoinable")
    why: npt.NDArray[np.int8] = code_of[verdicts.of]
    for row in records.rows_of(context.already_recorded).values():
        if verdicts.of[row] == Verdict.UNJOINABLE:
            why[row] = _REASONS.index("unjoinable")
    return why


def write_spool(state: Path, batch: int, records: pa.Table) -> str:
    """Store records durably; the file's name. The row numbers are the positions in `records`. OSError."""
    name = f"batch-{batch}-{uuid.uuid4().hex}.parquet"
    _write(state / "spool" / name, records)
    return name


def replace_spool(state: Path, name: str, records: pa.Table) -> None:
    """Put these records into the place of a file that is damaged, or gone. OSError."""
    unfinished = state / "spool" / f"unfinished-{uuid.uuid4().hex}.parquet"
    _write(unfinished, records)
    unfinished.replace(unfinished.with_name(name))
    sync(unfinished.parent)


def _write(target: Path, records: pa.Table) -> None:
    def write(sink: BinaryIO) -> None:
        pq.write_table(records, sink, compression="zstd", write_page_checksum=True)

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_synced(target, write)
        sync(target.parent)
    except OSError as error:
        raise OSError(f"cannot write {target}: {error}") from error


def read_spool(state: Path, retries: Sequence[RetryRef]) -> pa.Table:
    """The records of `retries`, with the column `final` beside their own; the order is by file.

    SpoolDamaged; OSError where nobody knows whether a file is.
    """
    retries_by_file: dict[str, list[RetryRef]] = defaultdict(list)
    for retry in retries:
        retries_by_file[retry.spool_file].append(retry)
    parts = [SPOOL_COLUMNS.empty_table().append_column("final", pa.array([], pa.bool_()))]
    damaged: list[str] = []
    for name, wanted in retries_by_file.items():
        part = _read(state / "spool" / name, wanted)
        if part is None:
            damaged.append(name)
        else:
            parts.append(part.append_column("final", pa.array([retry.final for retry in wanted])))
    if damaged:
        raise SpoolDamaged(damaged)
    return pa.concat_tables(parts)


def _read(target: Path, wanted: Sequence[RetryRef]) -> pa.Table | None:
    """The records that `wanted` refers to; None if the file is gone, or is not what was written."""
    try:
        whole = pq.read_table(target, page_checksum_verification=True)
        part = whole.take(pa.array([retry.spool_row for retry in wanted], pa.int64()))
    except OSError as error:
        # Parquet's own findings have no number. A disk that can't read these bytes has lost them (EIO).
        if error.errno in (None, errno.ENOENT, errno.EIO):
            return None
        raise OSError(f"cannot read waiting records from {target}: {error}") from error
    except (pa.ArrowException, IndexError):
        return None
    if part.schema != SPOOL_COLUMNS:
        return None
    places = zip(part["_file"].to_pylist(), part["_offset"].to_pylist(), strict=True)
    is_sound = all(
        (retry.occurrence.file_number, retry.occurrence.offset_bytes) == place
        for retry, place in zip(wanted, places, strict=True)
    )
    return part if is_sound else None


def drop_unreferenced(state: Path, referenced: Collection[str]) -> None:
    """Remove spool files that nobody refers to any more."""
    folder = state / "spool"
    for entry in os.scandir(folder) if folder.is_dir() else ():
        if entry.name not in referenced:
            Path(entry.path).unlink(missing_ok=True)
