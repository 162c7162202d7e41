"""From files, segments and counts to rows of the state database, and back."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from typing import Any

from photon.event_store.segments import Reused, SegmentInfo
from photon.logs.files import LogFile, TrackedFile
from photon.logs.unread_files import UnreadFile

_FILE_FIELDS = [*(f"file.{f.name}" for f in fields(LogFile)), *(f.name for f in fields(TrackedFile)[1:])]
file_values = attrgetter(*_FILE_FIELDS)  # from a TrackedFile


class DamagedColumn(sqlite3.DatabaseError):
    """A column holds what was never stored there; SQLite itself sees nothing wrong with it."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


@contextmanager
def reading_column(column: str) -> Iterator[None]:
    """Raise what goes wrong while a stored value is taken apart as DamagedColumn."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise DamagedColumn(f"{column} holds what was never stored there: {error!r}") from error


def put_sizes(db: sqlite3.Connection, grown: Iterable[TrackedFile]) -> None:
    """Store how big files are, and how they ended then."""
    sizes = [(f.size_bytes, f.grown_us, f.seen_hash, f.modified_ns, f.file.number) for f in grown]
    columns = "size_bytes = ?, grown_us = ?, seen_hash = ?, modified_ns = ?"
    db.executemany(f"UPDATE files SET {columns} WHERE number = ?", sizes)


def add_counts(db: sqlite3.Connection, increments: Mapping[str, int]) -> None:
    """Add to the counts by name; and note of a count that falls how many have left it by now."""
    if fallen := {name: -count for name, count in increments.items() if count < 0}:
        left = left_in(db)
        put(
            db, "meta", [("left", json.dumps({**left, **{n: left.get(n, 0) + c for n, c in fallen.items()}}))]
        )
    db.executemany(
        "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = n + excluded.n",
        increments.items(),
    )


def left_in(db: sqlite3.Connection) -> dict[str, int]:
    """How many records have left each class again, as those that were mended have."""
    row = db.execute("SELECT value FROM meta WHERE key = 'left'").fetchone()
    with reading_column("meta, left,"):
        return {str(name): int(count) for name, count in json.loads(row[0]).items()} if row else {}


def put(db: sqlite3.Connection, table: str, rows: Iterable[Sequence[object]]) -> None:
    """Insert rows of all columns, or replace those with the same key."""
    rows = list(rows)
    if rows:
        db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks(rows[0])})", rows)


def marks(values: Sequence[object]) -> str:
    """As many question marks."""
    return ",".join("?" * len(values))


def segment_values(segment: SegmentInfo) -> tuple[str, str, str]:
    """The row of a segment of the primary index."""
    reused = [segment.reused.count, segment.reused.examples]
    return segment.name, json.dumps(segment.events_of, separators=(",", ":")), json.dumps(reused)


def segment_info(name: str, events_of: str, reused: str) -> SegmentInfo:
    """A segment of the primary index, by its row."""
    count, examples = json.loads(reused)
    counts = {int(number): events for number, events in json.loads(events_of).items()}
    return SegmentInfo(name, counts, Reused(count, tuple(map(tuple, examples))))


_STORED_OF_UNREAD = [f.name for f in fields(UnreadFile) if f.compare]


def unread_values(unread: UnreadFile) -> tuple[object, ...]:
    """The row of a file that is not read: its path in the bytes of the disk."""
    values = {name: getattr(unread, name) for name in _STORED_OF_UNREAD}
    return tuple({**values, "path": os.fsencode(unread.path)}.values())


def unread_file(row: Sequence[Any]) -> UnreadFile:
    """The inverse of `unread_values`."""
    values = dict(zip(_STORED_OF_UNREAD, row, strict=True))
    return UnreadFile(**{**values, "path": os.fsdecode(values["path"])})


_OF_LOG_FILE = len(fields(LogFile))  # asked once: a sensor reads thousands of rows at each tick


def tracked_file(row: Sequence[Any]) -> TrackedFile:
    """The inverse of `file_values`."""
    number, side, path, inode, compressed, *head = row[:_OF_LOG_FILE]
    offset, tail_hash, inside_oversized, *rest = row[_OF_LOG_FILE:]
    file = LogFile(number, side, path, inode, bool(compressed), *head)
    return TrackedFile(file, offset, tail_hash, bool(inside_oversized), *rest)
