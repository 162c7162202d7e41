"""A Delta table of one datacenter as its log goes on: one handle, which reads what was committed since."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from photon.pipeline.location import Location
from photon.process.faults import fault_point
from photon.storage.columns import PARTITIONS, TABLE_COLUMNS, TableName
from photon.storage.delta import (
    LOG_FOLDER,
    LakeUnavailable,
    UnsupportedTable,
    check_readable,
    check_writable,
    columns_in_files,
    is_table,
    lake_errors,
    log_entry,
    open_table,
)
from photon.storage.log_end import LogEnd
from photon.storage.store import store_of
from photon.storage.table_features import Expected, expected

COMMITS_OF_A_BATCH = 3  # new columns, rows, a fence: processes that died may have left all of them unsynced
# A handle is opened anew sooner than entries leave the log (`compaction.keep_log`, 5 minutes at least). In a
# store each entry since the last checkpoint is two requests then: for a while it waits until these are few.
REOPENED_AFTER_SECONDS, REOPENED_AT_LAST_SECONDS = 120.0, 240.0
CHECKPOINT_COMMITS, FEW_COMMITS = 100, 20
IDLE_SECONDS = 14_400.0  # the same of one that reads nothing more, since nothing was committed
PIPELINE = "pipeline "  # the description of a table begins with it


@cache
def _expected(name: TableName) -> Expected:
    return expected(TABLE_COLUMNS[name], PARTITIONS.get(name, ()))


class FollowedTable:
    """One Delta table of one datacenter, as processes read it on and on."""

    def __init__(self, lake: Location, name: TableName) -> None:
        self.name = name
        self.folder = lake / name
        self.store = store_of(self.folder)
        self._handle: DeltaTable | None = None
        self._opened = 0.0  # the handle, by the process's clock
        self._opened_with: dict[str, str] | None = None  # the keys of then among them
        self.end = LogEnd(self.folder)  # as of the handle
        # The last commit that is on disk; None: some process' before this one.
        self._synced: int | None = None

    def exists(self) -> bool:
        with lake_errors(f"look for the table {self.folder}"):
            return is_table(self.folder)

    def load(self) -> DeltaTable:
        """A handle on the table with every commit there is now, and no later one.

        Updating the last handle reads only what was committed since. If the last commit is not in the folder
        any more, another table lies there now, which is opened anew. So is one that was opened long ago, for
        a handle goes on reading the entries with which it began, and compaction may have removed them; and
        one whose keys are no longer those of this process.
        UnsupportedTable if somebody gave it a feature by which others read other rows (E9). LakeUnavailable.
        """
        handle, self._handle = self._handle, None
        with lake_errors(f"read the table {self.folder}"):
            if handle is not None and self._may_go_on(self._most_seconds) and self.end.is_there:
                if self._is_committed(self.end.version + 1):  # a look costs 20 us, an update 800
                    handle = self._updated(handle)
            else:
                handle = self._opened_anew()
            fault_point("lake.after_load", self.folder)
        self._handle = handle
        return handle

    @property
    def _most_seconds(self) -> float:
        """How old a handle may be to which something was committed."""
        is_cheap = self.end.version % CHECKPOINT_COMMITS < FEW_COMMITS
        return REOPENED_AFTER_SECONDS if is_cheap else REOPENED_AT_LAST_SECONDS

    def _may_go_on(self, most_seconds: float) -> bool:
        """Whether a handle is young enough, and was opened with the keys of now."""
        is_young = time.monotonic() - self._opened < most_seconds
        return is_young and self.store.delta_options == self._opened_with

    def _opened_anew(self) -> DeltaTable:
        self._opened, self._opened_with = time.monotonic(), self.store.delta_options
        handle = open_table(self.folder)
        self.end.begin(handle)
        return handle

    def _updated(self, handle: DeltaTable) -> DeltaTable:
        try:
            handle.update_incremental()
        except DeltaError:  # such as a feature that delta-rs does not know: the other way says so
            return self._opened_anew()
        check_readable(handle, self.folder)
        self.end.follow()
        return handle

    def load_if_there(self) -> DeltaTable | None:
        """As `load`; None without a table. Where nothing was committed, a store is asked once."""
        with lake_errors(f"look for the table {self.folder}"):
            if self._handle is not None and self._may_go_on(IDLE_SECONDS) and self.end.is_last:
                return self._handle
        return self.load() if self.exists() else None

    def writable(self) -> DeltaTable:
        """As `load`, of a table whose features Photon's commits keep (E9). LakeUnavailable."""
        handle = self.load()
        check_writable(handle, self.folder, _expected(self.name))
        return handle

    def why_not_written(self, handle: DeltaTable) -> str:
        """Why nothing is committed to the table as it was loaded, and what to type; empty: nothing is why."""
        try:
            check_writable(handle, self.folder, _expected(self.name))
        except UnsupportedTable as error:
            return str(error)
        return ""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise what goes wrong while the table is read as LakeUnavailable; the next look opens it anew."""
        try:
            with lake_errors(f"read {self.folder}"):
                yield
        except LakeUnavailable:
            self._handle = None
            raise

    def _is_committed(self, version: int) -> bool:
        return self.store.size_bytes(log_entry(version)) is not None

    def pipeline(self) -> str | None:
        """The pipeline that the table was made for; None if there is no table, or it does not say."""
        said = (self.load().metadata().description or "") if self.exists() else ""
        return said.removeprefix(PIPELINE).split(",")[0] if said.startswith(PIPELINE) else None

    def table_id(self) -> str:
        return str(self.load().metadata().id)

    def schema(self) -> pa.Schema:
        """The columns of the table's files when it was loaded last. Nobody else adds columns."""
        return columns_in_files(self._handle or self.load())

    def version_of(self, app: str) -> int:
        """The last batch that `app` committed; 0 before the first. LakeUnavailable."""
        return self.version_in(self.load(), app)

    def version_in(self, handle: DeltaTable, app: str) -> int:
        """The last batch that `app` had committed when a handle was loaded. LakeUnavailable."""
        with self.reading():
            return self.end.version_of(app, handle) or 0

    def knows(self, app: str) -> bool:
        """Whether `app` has ever committed, or was fenced. LakeUnavailable."""
        return self._is_known(self.load(), app)

    def _is_known(self, handle: DeltaTable, app: str) -> bool:
        with self.reading():
            return self.end.version_of(app, handle) is not None

    def sync(self) -> None:
        """Put the latest commits and the names of their files on disk (protocol A18). LakeUnavailable."""
        if self.store.is_durable:
            return
        version = self.load().version()
        first = version + 1 - COMMITS_OF_A_BATCH if self._synced is None else self._synced + 1
        with lake_errors(f"sync the table {self.folder}"):
            entries = (log_entry(number) for number in range(max(first, 0), version + 1))
            # One that compaction has removed since is in a checkpoint on disk.
            there = [entry for entry in entries if self.store.size_bytes(entry) is not None]
            self.store.sync(*there, LOG_FOLDER, "")
        self._synced = version
