"""Rows of a join, read from tables of Delta or Flink: when they were readable, and whether they are right."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable

EVENT_ID = "click_id"
POLL_SECONDS = 0.1
# Flink's files once they are committed: until then their names begin with a dot. Delta's end with ".parquet".
PARQUET_FILES = "part-*[0-9]"


@dataclass(frozen=True)
class Found:
    """Rows of all tables together, beside the truth."""

    rows: int
    lost: int  # events without a row
    doubled: int  # rows beyond the first of their event
    wrong: int  # rows of no event, or with a value that is not theirs

    @property
    def is_right(self) -> bool:
        """Whether there is exactly one row for each event, and each is right."""
        return not (self.lost or self.doubled or self.wrong)


def compare(rows: pa.Table, expected: pa.Table) -> Found:
    """Compare rows, in any order, with those expected: each of the expected columns of each row."""
    if rows.num_rows == 0:
        return Found(rows=0, lost=expected.num_rows, doubled=0, wrong=0)
    ids = rows[EVENT_ID].cast(pa.string())
    truth = expected.take(
        pc.index_in(ids, value_set=expected[EVENT_ID])
    )  # nulls where there is no such event
    is_right = [
        pc.equal(rows[name].cast(truth[name].type), truth[name])
        if name in rows.column_names
        else pa.repeat(False, rows.num_rows)
        for name in expected.column_names
    ]
    right = pc.fill_null(reduce(pc.and_, is_right), False)
    lost = pc.invert(pc.is_in(expected[EVENT_ID], value_set=ids.unique()))
    return Found(
        rows=rows.num_rows,
        lost=_count(lost),
        doubled=rows.num_rows - len(ids.unique()),
        wrong=rows.num_rows - _count(right),
    )


def read_rows(tables: Sequence[Path], columns: Sequence[str]) -> pa.Table:
    """These columns of all tables, as far as a table has them."""
    found = []
    for table in tables:
        if (table / "_delta_log").is_dir():
            rows = DeltaTable(table).to_pyarrow_dataset()
        elif files := [str(file) for file in table.glob(PARQUET_FILES)]:
            rows = ds.dataset(files, format="parquet")
        else:
            continue
        found.append(rows.to_table([name for name in columns if name in rows.schema.names]))
    return pa.concat_tables(found, promote_options="permissive") if found else pa.table({})


@dataclass
class CommitWatch:
    """Follows the commits of tables: how many rows they added, and when the last one was there.

    It reads each commit once, and nothing else: it must not take much of the cores that are measured.
    """

    tables: Sequence[Path]
    rows: int = 0
    last_seconds: float = 0.0  # since 1970: when the last commit that added rows was in place
    _seen: set[Path] = field(default_factory=set)

    def look(self) -> None:
        """Read the commits that are new."""
        for table in self.tables:
            for commit in set((table / "_delta_log").glob("*.json")) - self._seen:
                added = sum(map(_rows_added, commit.read_text().splitlines()))
                self._add(commit, added, commit.stat().st_mtime)
            for file in set(table.glob(PARQUET_FILES)) - self._seen:
                renamed_seconds = file.stat().st_ctime  # a file's content is older than its commit
                self._add(file, pq.read_metadata(file).num_rows, renamed_seconds)

    def _add(self, seen: Path, rows: int, seconds: float) -> None:
        self._seen.add(seen)
        if rows:
            self.rows += rows
            self.last_seconds = max(self.last_seconds, seconds)

    def wait(self, done: Callable[[], bool], idle_seconds: float) -> None:
        """Look until it is done, or until no rows have come for so long."""
        rows, grown_at = self.rows, time.monotonic()
        while not done() and time.monotonic() < grown_at + idle_seconds:
            time.sleep(POLL_SECONDS)
            self.look()
            if self.rows > rows:
                rows, grown_at = self.rows, time.monotonic()


def _rows_added(line: str) -> int:
    added = json.loads(line).get("add")
    is_new = added and added["dataChange"]  # a compaction adds files with rows that were there
    return int(json.loads(added["stats"])["numRecords"]) if is_new else 0


def _count(flags: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(flags).as_py() or 0)
