"""Parquet files that tasks write below a table's folder, for a later commit. Nobody sees them until then."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from photon.adapters import DATE_COLUMN
from photon.pipeline.location import Location
from photon.storage.columns import TableName, by_date
from photon.storage.delta import MAKE_WRITABLE, LakeUnavailable, lake_errors
from photon.storage.store import store_of

_STATS_COLUMNS = ("_epoch", "_batch")  # rows are read back by these


@dataclass(frozen=True)
class OutputFile:
    """A Parquet file that a task has written below a table's folder, not yet committed."""

    table: str
    path: str  # relative to the table's folder
    size_bytes: int
    rows: int
    schema: pa.Schema
    date: str | None = None  # UTC day of all its events; None: unknown, or not told apart


def stats_columns(table: str) -> tuple[str, ...]:
    """The columns whose bounds the log of a table has for each file."""
    # Joined rows are also looked for by when their primary was.
    return (*_STATS_COLUMNS, "_primary_time") if table == "joined_events" else _STATS_COLUMNS


def partition_values(date: date | str | None, partitions: Collection[str]) -> dict[str, str | None]:
    """Partition values that the log gives a file whose events are of one date."""
    return {DATE_COLUMN: None if date is None else str(date)} if DATE_COLUMN in partitions else {}


def day_folder(date: date | str | None) -> str:
    """The folder of a day's files within that of their table, as Hive, Spark, polars and DuckDB name it.

    Some readers take a row's day from there, and not from Delta's log.
    """
    return f"{DATE_COLUMN}={date or '__HIVE_DEFAULT_PARTITION__'}/"


def write_rows_by_date(lake: Location, name: TableName, batch: int, rows: pa.Table) -> list[OutputFile]:
    """Write rows to a file for each date of their events, as `write_rows`. LakeUnavailable."""
    return [
        replace(write_rows(lake, name, batch, part, day_folder(date)), date=date)
        for date, part in by_date(rows)
    ]


def write_rows(lake: Location, name: TableName, batch: int, rows: pa.Table, within: str = "") -> OutputFile:
    """Write rows to a file below the table's folder, and sync it, for a later commit. LakeUnavailable.

    A file that is never committed is invisible; vacuum removes it.
    """
    path = f"{within}batch-{batch}-{uuid.uuid4().hex}.parquet"
    with lake_errors(f"write {lake / name / path}", MAKE_WRITABLE):
        size_bytes = write_parquet(lake / name, path, rows)
    return OutputFile(name, path, size_bytes, rows.num_rows, rows.schema)


def write_parquet(folder: Location, name: str, rows: pa.Table) -> int:
    """Write rows to a new file, and sync it; its size in bytes. OSError, FileExistsError."""
    return store_of(folder).create(name, lambda sink: pq.write_table(rows, sink, compression="zstd"))


def read_parquet(folder: Location, paths: Iterable[str], columns: pa.Schema) -> pa.Table:
    """These columns of some files, null where one was written before there were any. OSError.

    `pyarrow.parquet.read_table` takes twice as long for a file of a row.
    """
    store = store_of(folder)
    read = [pq.ParquetFile(store.open(path)).read(columns=columns.names) for path in paths]
    return pa.concat_tables([columns.empty_table(), *read], promote_options="default")


def add_action(
    folder: Location, file: OutputFile, partitions: Collection[str] = (), changes_rows: bool = True
) -> AddAction:
    """The entry that adds this file to the log of the table in `folder`.

    LakeUnavailable if the file is not there as it was written.
    """
    target, store = folder / file.path, store_of(folder)
    with lake_errors(f"look at {target}, which a task has written"):
        size_bytes = store.size_bytes(file.path)
        if size_bytes is None:
            raise LakeUnavailable(f"{target}, written by a task, is not there")
        if size_bytes != file.size_bytes:
            raise LakeUnavailable(f"{target} has {size_bytes} bytes; the task wrote {file.size_bytes}")
        bounds = _stats(pq.read_metadata(store.open(file.path)), file)
    now_ms = int(time.time() * 1000)
    values = partition_values(file.date, partitions)
    return AddAction(file.path, size_bytes, values, now_ms, changes_rows, bounds)


def _stats(metadata: pq.FileMetaData, file: OutputFile) -> str:
    """Bounds and nulls of the columns by which rows are found; Parquet's footer has them."""
    low: dict[str, object] = {}
    high: dict[str, object] = {}
    nulls: dict[str, int] = {}
    paths = [metadata.schema.column(n).path for n in range(len(metadata.schema))]
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    for name in stats_columns(file.table):
        if name not in paths:  # rows that were stored before there was the column
            nulls[name] = file.rows
            continue
        known = [group.column(paths.index(name)).statistics for group in groups]
        if not known or any(each is None or not each.has_null_count for each in known):
            continue
        nulls[name] = sum(each.null_count for each in known)
        bounded = [each for each in known if each.has_min_max]  # a group of nulls has no bounds
        if bounded and sum(each.num_values for each in bounded) + nulls[name] == file.rows:
            low[name] = _in_json(min(each.min for each in bounded))
            high[name] = _in_json(max(each.max for each in bounded))
    return json.dumps({"numRecords": file.rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def _in_json(bound: object) -> object:
    return bound.isoformat() if isinstance(bound, datetime) else bound
