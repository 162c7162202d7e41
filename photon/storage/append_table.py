"""A small Delta table of one datacenter for rows that Photon finds again, such as its reports."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew
from photon.process.readable import counted
from photon.storage.delta import (
    HOOKS,
    LOG_FOLDER,
    check_writable,
    create_table,
    is_table,
    lake_errors,
    log_entry,
    open_table,
)
from photon.storage.leaving_rows import Rule, let_rows_leave
from photon.storage.output_files import read_parquet, write_parquet
from photon.storage.store import store_of
from photon.storage.table_features import ANY_COLUMNS, expected, kept_hours

FORMAT_PROPERTY, FORMAT = "photon.format", 1
ReportTable = Literal[
    "verification_reports",
    "verified_files",
    "mended_letters",
    "availability_minutes",
    "log_copies",
    "log_copies_compared",
    "removed_rows",
    "points",
]
REPORT_TABLES: tuple[ReportTable, ...] = get_args(ReportTable)
# Every such table has it, and the log its bounds. The property says that other columns have none: delta-rs
# would take these for null, and leave out every file when rows are filtered by such a column.
_AT, _BOUNDED_PROPERTY = "at", "delta.dataSkippingStatsColumns"
# Each look opens the table anew, and on S3 each entry since the last checkpoint is a request.
_CHECKPOINT = {"delta.checkpointInterval": "10"}
# Some 24 commits a day, each a file, and a reader opens all: 0.6 s for 1,000 files.
LEAST_FILES, FILE_BYTES = 50, 16 * 2**20
KEEP_HOURS = 7 * 24  # readers may have opened a version so long ago

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AppendTable:
    """The table `name` in each datacenter's lake, made at the first append. Several processes may append."""

    name: ReportTable
    columns: pa.Schema

    def folder(self, pipeline: Pipeline, datacenter: str) -> Location:
        return pipeline.datacenters[datacenter].lake / self.name

    def append(
        self, pipeline: Pipeline, datacenter: str, rows: Sequence[dict[str, Any]], synced: bool = False
    ) -> None:
        """Add rows, all or none of them; `synced`: they outlast a power cut (protocol A18).

        LakeUnavailable, FormatTooNew.
        """
        folder = self.folder(pipeline, datacenter)
        with lake_errors(f"add rows to {folder}, which must be writable"):
            description = f"{self.name} of pipeline {pipeline.name}, datacenter {datacenter}"
            if not is_table(folder):
                create_append_table(folder, self.columns, description)
            append_rows(self._open(folder), folder, pa.Table.from_pylist(rows, self.columns))
            if synced:
                self._sync(folder)

    def _sync(self, folder: Location) -> None:
        """Put the latest commits and their files on disk: the last may follow one of a killed process."""
        store = store_of(folder)
        if store.is_durable:
            return
        last = self._open(folder).version()
        for version in range(max(0, last - 1), last + 1):
            entry = log_entry(version)
            for line in store.read(entry).splitlines():
                if (added := json.loads(line).get("add")) is not None:
                    store.sync(unquote(added["path"]))
            store.sync(entry)
        store.sync(LOG_FOLDER, "")
        store_of(folder.parent).sync()

    @contextmanager
    def reading(self, pipeline: Pipeline, datacenter: str) -> Iterator[ds.Dataset | None]:
        """The rows now; None if nothing was ever added. LakeUnavailable, FormatTooNew."""
        folder = self.folder(pipeline, datacenter)
        with lake_errors(f"read {folder}"):
            yield self._open(folder).to_pyarrow_dataset() if is_table(folder) else None

    def latest(self, pipeline: Pipeline, datacenter: str) -> pa.Table:
        """The rows of the latest time, as of now. LakeUnavailable, FormatTooNew.

        Files are chosen by their bounds in Delta's log: of a year of small files one is opened. A dataset of
        1,000 files takes 0.6 s to make, this some 15 ms.
        """
        folder = self.folder(pipeline, datacenter)
        with lake_errors(f"read {folder}"):
            if not is_table(folder):
                return self.columns.empty_table()
            files = pa.table(self._open(folder).get_add_actions(flatten=True))
            if not files.num_rows:
                return self.columns.empty_table()
            bounds = files[f"max.{_AT}"]
            # Rounded down they may be equal for several files.
            paths = files["path"].filter(pc.equal(bounds, pc.max(bounds)))
            rows = read_parquet(folder, paths.to_pylist(), self.columns)
        return rows.filter(pc.equal(rows[_AT], pc.max(rows[_AT])))

    def between(
        self,
        pipeline: Pipeline,
        datacenter: str,
        from_us: int,
        to_us: int,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The rows of `from_us <= at < to_us`, earliest first. LakeUnavailable, FormatTooNew.

        Opens the files that may have some, by their bounds in Delta's log. `columns`: of the rows, with `at`.
        """
        folder = self.folder(pipeline, datacenter)
        names = self.columns.names if columns is None else columns
        wanted = pa.schema([self.columns.field(name) for name in names])
        with lake_errors(f"read {folder}"):
            if not is_table(folder):
                return wanted.empty_table()
            files = pa.table(self._open(folder).get_add_actions(flatten=True))
            if not files.num_rows:
                return wanted.empty_table()
            first, end = (pa.scalar(at_us, pa.timestamp("us", "UTC")) for at_us in (from_us, to_us))
            # Rounded down to milliseconds.
            ends_after = pc.greater_equal(files[f"max.{_AT}"], pa.scalar(from_us - 1_000, first.type))
            begins_before = pc.less(files[f"min.{_AT}"], end)
            paths = files["path"].filter(pc.and_(ends_after, begins_before))
            rows = read_parquet(folder, paths.to_pylist(), wanted)
        is_in_range = pc.and_(pc.greater_equal(rows[_AT], first), pc.less(rows[_AT], end))
        return rows.filter(is_in_range).sort_by(_AT)

    def _open(self, folder: Location) -> DeltaTable:
        table = open_table(folder)
        written = int(table.metadata().configuration.get(FORMAT_PROPERTY, FORMAT))
        if written > FORMAT:
            raise FormatTooNew(folder, written, FORMAT)
        return table


def create_append_table(folder: Location, columns: pa.Schema, description: str) -> None:
    """Make the table in `folder`, unless there is one."""
    properties = {FORMAT_PROPERTY: str(FORMAT), _BOUNDED_PROPERTY: _AT, **_CHECKPOINT}
    create_table(folder, columns, description, properties)


def append_rows(table: DeltaTable, folder: Location, rows: pa.Table) -> None:
    """Add rows to a table, all or none of them. UnsupportedTable, OSError, DeltaError.

    Not by `write_deltalake`, which panics where the folder's path has a bracket, ^ or |.
    """
    check_writable(table, folder, expected(rows.schema))
    if _BOUNDED_PROPERTY not in table.metadata().configuration:
        table.alter.set_table_properties({_BOUNDED_PROPERTY: _AT})
    added = _added(folder, rows)
    table.create_write_transaction([added], "append", table.schema(), post_commithook_properties=HOOKS)


def _added(folder: Location, rows: pa.Table) -> AddAction:
    """Write rows to a new file; the entry that adds it, with the bounds of their times. OSError."""
    name = f"{uuid.uuid4().hex}.parquet"
    size_bytes = write_parquet(folder, name, rows)
    bounds = {bound: {_AT: at.isoformat()} for bound, at in pc.min_max(rows[_AT]).as_py().items()}
    stats = {
        "numRecords": rows.num_rows,
        "minValues": bounds["min"],
        "maxValues": bounds["max"],
        "nullCount": {_AT: 0},
    }
    return AddAction(name, size_bytes, {}, int(time.time() * 1000), True, json.dumps(stats))


def compact_report_table(folder: Location, rule: Rule | None = None) -> tuple[int, int, int] | None:
    """Make one file of many small ones; files before and after, and removed a week later. None: no table.

    Before that, rows leave that do not stay by the `rule`; without one all stay. delta-rs makes the file: no
    row is read back by its batch here. LakeUnavailable.
    """
    with lake_errors(f"compact {folder}"):
        if not is_table(folder):
            return None
        table = open_table(folder)
        check_writable(table, folder, ANY_COLUMNS)
        before, small = _files_and_small_ones(table)
        after = before
        if small >= LEAST_FILES:
            if rule is not None and (left := let_rows_leave(table, folder, rule, _added)):
                log.info("%s left %s: nobody asks for them any more", counted(left, "row"), folder)
                table = open_table(folder)
            with suppress(CommitFailedError):  # another compaction has just done it
                table.optimize.compact(target_size=FILE_BYTES)
                table.create_checkpoint()
                after = pa.table(table.get_add_actions()).num_rows
        removed = table.vacuum(kept_hours(table, "deletedFile", KEEP_HOURS), dry_run=False)
    return before, after, len(removed)


def would_compact_report_table(folder: Location) -> tuple[int, int, int] | None:
    """Files before and after, and those removed, if `compact_report_table` ran now. LakeUnavailable."""
    with lake_errors(f"look at {folder}"):
        if not is_table(folder):
            return None
        table = open_table(folder)
        check_writable(table, folder, ANY_COLUMNS)
        before, small = _files_and_small_ones(table)
        after = before - small + 1 if small >= LEAST_FILES else before
        hours = kept_hours(table, "deletedFile", KEEP_HOURS)
        return before, after, len(table.vacuum(hours, dry_run=True))


def _files_and_small_ones(table: DeltaTable) -> tuple[int, int]:
    sizes = pa.table(table.get_add_actions())["size_bytes"]
    return len(sizes), pc.sum(pc.less(sizes, FILE_BYTES // 2)).as_py() or 0
