"""What the dispatcher's state stores: its tables, and the rows of them as frozen values.

No database here: reading and writing them is `state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from photon.dispatcher.plan import PlanContent
from photon.join.messages import RetryRef
from photon.logs.files import LogFile, Side, TrackedFile
from photon.tokens import Occurrence

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    number INTEGER PRIMARY KEY, side TEXT NOT NULL, path TEXT NOT NULL, inode INTEGER NOT NULL,
    compressed INTEGER NOT NULL, header BLOB NOT NULL, header_bytes INTEGER NOT NULL,
    head_bytes INTEGER NOT NULL, head_hash BLOB NOT NULL, offset_bytes INTEGER NOT NULL,
    tail_hash BLOB NOT NULL, inside_oversized INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
    grown_us INTEGER NOT NULL, max_time_us INTEGER, state TEXT NOT NULL);
CREATE TABLE plan (
    batch INTEGER PRIMARY KEY, plan_id TEXT NOT NULL, content TEXT NOT NULL,
    advances TEXT NOT NULL, requeue_id INTEGER);
CREATE TABLE waiting (
    file_number INTEGER NOT NULL, offset_bytes INTEGER NOT NULL, event_id TEXT NOT NULL,
    key_hash INTEGER NOT NULL, primary_time_us INTEGER NOT NULL, attempts INTEGER NOT NULL,
    first_seen_us INTEGER NOT NULL, due_us INTEGER NOT NULL, reason TEXT NOT NULL,
    spool_file TEXT NOT NULL, spool_row INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'open',  -- open | held (in requeued work) | unjoinable
    PRIMARY KEY (file_number, offset_bytes)) WITHOUT ROWID;
CREATE INDEX waiting_due ON waiting (status, due_us);
CREATE INDEX waiting_spool ON waiting (spool_file);
CREATE INDEX waiting_key ON waiting (key_hash);
CREATE INDEX waiting_id ON waiting (event_id);
CREATE TABLE requeued (id INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE inherited (token TEXT PRIMARY KEY) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A waiting record as the dispatcher keeps it; the record itself is in the spool."""

    occurrence: Occurrence
    event_id: str
    key_hash: int
    primary_time_us: int
    attempts: int
    first_seen_us: int
    due_us: int
    reason: str
    spool_file: str
    spool_row: int
    status: str = "open"

    def ref(self, final: bool) -> RetryRef:
        """How a plan refers to it."""
        return RetryRef(self.occurrence, self.spool_file, self.spool_row, final)


@dataclass(frozen=True)
class Completion:
    """Everything that changes when a batch is completed, in one transaction (design, section 4.4)."""

    batch: int
    counts: Mapping[str, int]  # increments, by name: foreign, primary, ..., and outcome classes
    gone: Iterable[Occurrence] = ()  # records that wait no more
    waiting: Iterable[WaitingRow] = ()  # records that wait from now on, or longer
    requeue: Sequence[PlanContent] = ()  # work to be taken up again
    max_time_us: Mapping[int, int] | None = None  # by file number
    watermark_us: int | None = None
    inherited: Iterable[str] = ()


def waiting_values(row: WaitingRow) -> tuple[object, ...]:
    """The columns of `waiting`."""
    return (
        row.occurrence.file_number,
        row.occurrence.offset_bytes,
        row.event_id,
        row.key_hash,
        row.primary_time_us,
        row.attempts,
        row.first_seen_us,
        row.due_us,
        row.reason,
        row.spool_file,
        row.spool_row,
        row.status,
    )


def waiting_row(row: Sequence[object]) -> WaitingRow:
    """The inverse of `waiting_values`."""
    number, offset, *rest = row
    return WaitingRow(Occurrence(number, offset), *rest)  # type: ignore[arg-type]


def file_values(tracked: TrackedFile) -> tuple[object, ...]:
    """The columns of `files`."""
    file = tracked.file
    return (
        file.number,
        file.side,
        file.path,
        file.inode,
        file.compressed,
        file.header,
        file.header_bytes,
        file.head_bytes,
        file.head_hash,
        tracked.offset_bytes,
        tracked.tail_hash,
        tracked.inside_oversized,
        tracked.size_bytes,
        tracked.grown_us,
        tracked.max_time_us,
        tracked.state,
    )


def tracked_file(row: Sequence[object]) -> TrackedFile:
    """The inverse of `file_values`."""
    number, side, path, inode, compressed, header, header_bytes, head_bytes, head_hash, *rest = row
    kind: Side = "primary" if side == "primary" else "foreign"
    file = LogFile(number, kind, path, inode, bool(compressed), header, header_bytes, head_bytes, head_hash)  # type: ignore[arg-type]
    offset, tail, inside, size, grown, max_time, state = rest
    return TrackedFile(file, offset, tail, bool(inside), size, grown, max_time, state)  # type: ignore[arg-type]
