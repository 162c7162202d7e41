"""LogFileMap: which stretches of which log files may hold a primary id (paper, section 3.3).

Stored in SQLite on the datacenter's own disk, and shared by its processes.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from photon.errors import FormatTooNew
from photon.event_store.entries import (
    ENTRY_LIMITS,
    MAX_SPANS,
    Entry,
    EntryLimits,
    EventStretch,
    Span,
    fill,
    find_hashes,
    merge_spans,
    uncovered,
    window_ticks,
)
from photon.event_store.hashing import Hashes
from photon.event_store.interface import TimeWindow
from photon.event_store.memory import process_memory
from photon.logs.files import LogFile
from photon.pipeline.file import EventStoreSettings

FORMAT_VERSION = 1
BUSY_TIMEOUT_SECONDS = 30.0  # a writer waits for another task's transaction, which takes milliseconds
FILTERS_A_READ = 1_000  # entries whose hashes are fetched at once: at most some 10 MB

# A row of `spans` has the id: entry * MAX_SPANS + the span's place in the entry.
_SCHEMA = (
    "CREATE TABLE meta (map_id TEXT NOT NULL, change INTEGER NOT NULL)",
    """CREATE TABLE files (
        number INTEGER PRIMARY KEY, side TEXT NOT NULL, path TEXT NOT NULL, inode INTEGER NOT NULL,
        compressed INTEGER NOT NULL, header BLOB NOT NULL, header_bytes INTEGER NOT NULL,
        head_bytes INTEGER NOT NULL, head_hash BLOB NOT NULL)""",
    # AUTOINCREMENT: a removed entry's number, which other processes may remember, is not given again.
    """CREATE TABLE entries (
        entry INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL,
        start INTEGER NOT NULL, end INTEGER NOT NULL, read_start INTEGER NOT NULL, read_end INTEGER NOT NULL,
        spans TEXT NOT NULL, changed INTEGER NOT NULL, UNIQUE (file, start))""",
    "CREATE INDEX entries_changed ON entries (changed)",
    "CREATE TABLE hashes (entry INTEGER PRIMARY KEY, hashes BLOB NOT NULL)",
    "CREATE VIRTUAL TABLE spans USING rtree_i32 (id, first, last)",
)


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of a file in which the records of one entry are."""

    file_number: int
    start_bytes: int
    end_bytes: int


def map_path(state: Path, epoch: str) -> Path:
    """The map's file of an epoch: file numbers mean nothing beyond it."""
    return state / f"event_store-{epoch}.sqlite"


class LogFileMap:
    """The map in the file `path`, which is made if it is missing. One instance per process and thread.

    FormatTooNew if a newer Photon wrote the file; sqlite3.OperationalError if it can't be read or written.
    """

    def __init__(
        self, path: Path, settings: EventStoreSettings, entry_limits: EntryLimits = ENTRY_LIMITS
    ) -> None:
        self._limits = entry_limits
        self._connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
        try:
            self._open(path)
        except BaseException:
            self._connection.close()
            raise
        self.map_id: str = self._connection.execute("SELECT map_id FROM meta").fetchone()[0]
        self._memory = process_memory(self.map_id)
        self._memory.filters.capacity_bytes = settings.filter_memory_bytes

    def close(self) -> None:
        self._connection.close()

    def put_files(self, files: Iterable[LogFile]) -> None:
        """Remember files by their numbers; a known file takes its new path."""
        rows = [astuple(file) for file in files]
        with self._writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def files(self, numbers: Iterable[int]) -> dict[int, LogFile]:
        """The files that are known among these, by number."""
        sql = "SELECT * FROM files WHERE number IN (SELECT value FROM json_each(?))"
        rows = self._connection.execute(sql, (json.dumps(list(numbers)),))
        return {
            number: LogFile(number, side, path, inode, bool(compressed), *rest)
            for number, side, path, inode, compressed, *rest in rows
        }

    def remove_file(self, number: int) -> None:
        """Forget a file and its entries: it is gone, or was replaced."""
        with self._writing() as connection:
            entries = connection.execute("SELECT entry FROM entries WHERE file = ?", (number,)).fetchall()
            connection.executemany("DELETE FROM hashes WHERE entry = ?", entries)
            for (entry,) in entries:
                self._put_spans(entry, ())
            connection.execute("DELETE FROM entries WHERE file = ?", (number,))
            connection.execute("DELETE FROM files WHERE number = ?", (number,))

    def add(self, stretches: Iterable[EventStretch]) -> None:
        """Index events, in one durable transaction. What is covered already changes nothing."""
        with self._writing() as connection:
            connection.execute("UPDATE meta SET change = change + 1")
            for stretch in stretches:
                for start, end in self._uncovered(stretch):
                    self._add(stretch.between(start, end))

    def blocks_holding(self, hashes: Hashes, windows: Sequence[TimeWindow]) -> list[dict[Block, int]]:
        """For each hash, the blocks that may hold it within its window, and how often.

        All entries committed before the call are seen. The cost depends on how many entries the windows
        touch (all of them for None), not on how many there are.
        """
        candidates: list[dict[Block, int]] = [{} for _ in hashes]
        if not len(hashes):
            return candidates
        # One reader of a process at a time, so that filters in memory never fall behind what was seen.
        with self._memory.filters_lock, self._transaction("BEGIN"):
            self._forget_changed_filters()
            spans = self._spans_touched(windows)
            found = list(find_hashes(hashes, windows, spans, self._hashes_of(spans)))
            blocks = self._blocks({entry for entry, _, _ in found})
        for entry, index, occurrences in found:
            candidates[index][blocks[entry]] = occurrences
        return candidates

    # Opening

    def _open(self, path: Path) -> None:
        connection = self._connection
        connection.execute("PRAGMA journal_mode = WAL")
        # A range that its plan calls completed must not vanish from the map when the power fails.
        connection.execute("PRAGMA synchronous = FULL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            with self._writing():
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version == 0:  # else another process made it in between
                    for statement in _SCHEMA:
                        connection.execute(statement)
                    connection.execute("INSERT INTO meta VALUES (?, 0)", (secrets.token_hex(8),))
                    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
                    version = FORMAT_VERSION
        if version > FORMAT_VERSION:
            remedy = "use the newer Photon, or delete the file to have the logs indexed again"
            raise FormatTooNew(path, version, FORMAT_VERSION, remedy)

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        # IMMEDIATE: what is read to decide what is written must not change in between.
        return self._transaction("BEGIN IMMEDIATE")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        self._connection.execute(begin)
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    # Writing

    def _uncovered(self, stretch: EventStretch) -> list[tuple[int, int]]:
        sql = """SELECT start, end FROM entries
                 WHERE file = :file AND start < :end AND end > :start AND start >= coalesce(
                     (SELECT max(start) FROM entries WHERE file = :file AND start <= :start), 0)
                 ORDER BY start"""
        values = {"file": stretch.file_number, "start": stretch.start_bytes, "end": stretch.end_bytes}
        covered = self._connection.execute(sql, values).fetchall()
        return uncovered(covered, stretch.start_bytes, stretch.end_bytes)

    def _add(self, stretch: EventStretch) -> None:
        number, last = self._entry_before(stretch)
        for entry in fill(last, stretch, self._limits):
            extends = last is not None and entry.start_bytes == last.start_bytes
            self._put_entry(
                number if extends else None, stretch.file_number, entry, last if extends else None
            )

    def _entry_before(self, stretch: EventStretch) -> tuple[int | None, Entry | None]:
        """The entry that ends where `stretch` begins, by number."""
        sql = """SELECT entry, start, end, read_start, read_end, spans, hashes
                 FROM entries JOIN hashes USING (entry)
                 WHERE file = ? AND start < ? ORDER BY start DESC LIMIT 1"""
        row = self._connection.execute(sql, (stretch.file_number, stretch.start_bytes)).fetchone()
        if row is None or row[2] != stretch.start_bytes:
            return None, None
        number, start, end, read_start, read_end, spans_json, blob = row
        spans = tuple((first, last) for first, last in json.loads(spans_json))
        return number, Entry(start, end, read_start, read_end, spans, np.frombuffer(blob, "<u8"))

    def _put_entry(self, number: int | None, file_number: int, entry: Entry, before: Entry | None) -> None:
        row = (file_number, entry.start_bytes, entry.end_bytes, entry.read_start, entry.read_end)
        sql = """INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT change FROM meta))
                 ON CONFLICT (entry) DO UPDATE SET end = excluded.end, read_start = excluded.read_start,
                 read_end = excluded.read_end, spans = excluded.spans, changed = excluded.changed"""
        cursor = self._connection.execute(sql, (number, *row, json.dumps(entry.spans)))
        number = number or cursor.lastrowid or 0
        blob = entry.hashes.astype("<u8").tobytes()
        self._connection.execute("INSERT OR REPLACE INTO hashes VALUES (?, ?)", (number, blob))
        if before is None or before.spans != entry.spans:
            self._put_spans(number, entry.spans)

    def _put_spans(self, entry: int, spans: Sequence[Span]) -> None:
        ids = [(entry * MAX_SPANS + place,) for place in range(MAX_SPANS)]
        self._connection.executemany("DELETE FROM spans WHERE id = ?", ids)
        rows = [(id_[0], *span) for id_, span in zip(ids, spans, strict=False)]
        self._connection.executemany("INSERT INTO spans VALUES (?, ?, ?)", rows)

    # Reading

    def _forget_changed_filters(self) -> None:
        change = self._connection.execute("SELECT change FROM meta").fetchone()[0]
        if change != self._memory.seen_change:
            sql = "SELECT entry FROM entries WHERE changed > ?"
            for (entry,) in self._connection.execute(sql, (self._memory.seen_change,)):
                self._memory.filters.forget(entry)
            self._memory.seen_change = change

    def _spans_touched(self, windows: Sequence[TimeWindow]) -> dict[int, list[Span]]:
        """The spans that any of the windows touches, by entry."""
        touched: dict[int, set[Span]] = {}
        firsts, lasts = window_ticks(windows)
        sql = "SELECT id, first, last FROM spans WHERE last >= ? AND first <= ?"
        for ticks in merge_spans(zip(firsts.tolist(), lasts.tolist(), strict=True), len(windows)):
            for id_, first, last in self._connection.execute(sql, ticks):
                touched.setdefault(id_ // MAX_SPANS, set()).add((first, last))
        return {entry: sorted(spans) for entry, spans in touched.items()}

    def _hashes_of(self, entries: Iterable[int]) -> Iterator[tuple[int, Hashes]]:
        """The sorted hashes of each entry, from memory or from the disk."""
        absent = []
        for entry in entries:
            hashes = self._memory.filters.get(entry)
            if hashes is None:
                absent.append(entry)
            else:
                yield entry, hashes
        sql = "SELECT entry, hashes FROM hashes WHERE entry IN (SELECT value FROM json_each(?))"
        for at in range(0, len(absent), FILTERS_A_READ):
            chunk = json.dumps(absent[at : at + FILTERS_A_READ])
            for entry, blob in self._connection.execute(sql, (chunk,)):
                hashes = np.frombuffer(blob, "<u8")
                self._memory.filters.put(entry, hashes)
                yield entry, hashes

    def _blocks(self, entries: Iterable[int]) -> dict[int, Block]:
        sql = """SELECT entry, file, read_start, read_end FROM entries
                 WHERE entry IN (SELECT value FROM json_each(?))"""
        rows = self._connection.execute(sql, (json.dumps(list(entries)),))
        return {entry: Block(*where) for entry, *where in rows}
