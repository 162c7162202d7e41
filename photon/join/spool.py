"""The records that wait: their raw bytes, in immutable files on the datacenter's own disk.

A waiting record keeps its own bytes, because its log may be gone by the time its primary comes.
Tasks write and read these files; the dispatcher keeps only (file, row) of each record, so no
record passes through it. A record that is looked at again and still waits moves to a new file,
so that an old file is soon referred to by nobody and goes.
"""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from photon.join.messages import RetryRef

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


def write_spool(state: Path, batch: int, records: pa.Table) -> str:
    """Store records durably; the file's name. The row numbers are the positions in `records`."""
    folder = state / "spool"
    name = f"batch-{batch}-{uuid.uuid4().hex}.parquet"
    target = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as sink:
            pq.write_table(records.cast(SPOOL_COLUMNS), sink, compression="zstd")
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
    rows: dict[str, list[RetryRef]] = defaultdict(list)
    for retry in retries:
        rows[retry.spool_file].append(retry)
    parts = []
    for name, wanted in rows.items():
        target = state / "spool" / name
        try:
            whole = pq.read_table(target)
        except OSError as error:
            raise SpoolUnavailable(f"cannot read waiting records from {target}: {error}") from error
        part = whole.take(pa.array([retry.spool_row for retry in wanted], pa.int64()))
        parts.append(part.append_column("final", pa.array([retry.final for retry in wanted])))
    if not parts:
        return SPOOL_COLUMNS.empty_table().append_column("final", pa.array([], pa.bool_()))
    return pa.concat_tables(parts)


def drop_unreferenced(state: Path, referenced: Collection[str]) -> int:
    """Remove spool files that nobody refers to any more; how many went."""
    folder = state / "spool"
    if not folder.is_dir():
        return 0
    gone = [entry for entry in os.scandir(folder) if entry.name not in referenced]
    for entry in gone:
        Path(entry.path).unlink(missing_ok=True)
    return len(gone)
