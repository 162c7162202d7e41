"""A datacenter's primary logs that grow and rotate, indexed by the real parts, and the truth about them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from photon.event_store.compaction import compact, next_compaction
from photon.event_store.hashing import digests_of, hash_ids
from photon.event_store.indexing import Indexed, index_events
from photon.event_store.interface import EARLIEST_US, LATEST_US, Around, IndexSnapshot, Primaries
from photon.event_store.log_files import write_log_files
from photon.event_store.logs import LogsEventStore
from photon.event_store.segments import SegmentInfo
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import PRIMARY_EVENTS, read_events
from photon.logs.ranges import read_at
from photon.logs.source import hash_bytes
from photon.pipeline.sections import Limits, PrimaryLog
from photon.storage.tokens import new_id

LOG = PrimaryLog(files="*.log", format="jsonl", id="id", time="time", time_unit="us")
SECOND_US = 1_000_000

Window = tuple[int, int] | None  # the first and the last microsecond


@dataclass(frozen=True)
class Logged:
    """One line of a primary log, as the test wrote it."""

    file_number: int
    offset_bytes: int
    id: str
    time_us: int
    raw: bytes


class World:
    """Primary logs below `folder`, their index, and every line that was written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[int, LogFile] = {}
        self.lines: list[Logged] = []
        self.indexed_to: dict[int, int] = {}
        self.segments: list[SegmentInfo] = []

    def write(self, number: int, events: Sequence[tuple[str, int]], padding: str = "") -> None:
        """Append (id, time_us) lines to file `number`, which is made at its first line."""
        path = self.folder / (self.files[number].path if number in self.files else f"{number}.log")
        with path.open("ab") as file:
            for event_id, time_us in events:
                raw = json.dumps({"id": event_id, "time": time_us, "padding": padding}).encode()
                self.lines.append(Logged(number, file.tell(), event_id, time_us, raw))
                file.write(raw + b"\n")
        if number not in self.files:
            head = path.read_bytes().split(b"\n")[0] + b"\n"
            inode = path.stat().st_ino
            self.files[number] = LogFile(
                number, "primary", path.name, inode, False, b"", 0, len(head), hash_bytes(head)
            )

    def rotate(self, number: int, to: str) -> None:
        """Rename a file, as log rotation does."""
        (self.folder / self.files[number].path).rename(self.folder / to)
        self.files[number] = replace(self.files[number], path=to)

    def remove(self, number: int) -> None:
        """Forget a file that went, as the dispatcher does when it notices."""
        del self.files[number]
        self.lines = [line for line in self.lines if line.file_number != number]

    def unindexed(self) -> list[ByteRange]:
        """Return the bytes that are not indexed yet, one range a file."""
        ranges = []
        for number, file in self.files.items():
            start, end = self.indexed_to.get(number, 0), (self.folder / file.path).stat().st_size
            if start < end:
                ranges.append(ByteRange(number, start, end, checksum=0, lines=0))
        return ranges

    def index(self, ranges: Sequence[ByteRange] | None = None) -> Indexed:
        """Index `ranges`, or all that is new, as one segment."""
        ranges = self.unindexed() if ranges is None else ranges
        for each in ranges:
            self.indexed_to[each.file_number] = max(each.end_bytes, self.indexed_to.get(each.file_number, 0))
        indexed = index_events([self.parsed(ranges)], self.folder / "index", new_id())
        self.segments += [indexed.segment] if indexed.segment else []
        return indexed

    def parsed(self, ranges: Sequence[ByteRange]) -> pa.Table:
        """The events of these ranges."""
        parts = [PRIMARY_EVENTS.empty_table()]
        for each in ranges:
            file = self.files[each.file_number]
            data = read_at(self.folder, file, each.start_bytes, each.end_bytes)
            parts.append(read_events(data, file, each, LOG, Limits()).events)
        return pa.concat_tables(parts)

    def compact(self) -> None:
        """Merge as long as there is something to merge."""
        while (compaction := next_compaction(self.segments, self.files)) is not None:
            merged = compact(self.folder / "index", compaction, new_id()).segment
            self.segments = [each for each in self.segments if each not in compaction.sources]
            self.segments += [merged] if merged else []

    def store(self) -> LogsEventStore:
        """The event store, with the files and segments of now."""
        name = new_id()
        write_log_files(self.folder / "index", name, self.files.values())
        names = tuple(each.name for each in self.segments)
        return LogsEventStore(self.folder, LOG, IndexSnapshot(self.folder / "index", names, name))

    def look_up(self, *keys: str, windows: Sequence[Window] | None = None) -> list[Logged | None]:
        """Return the record that the store has for each key."""
        return found(self.answer(*keys, windows=windows))

    def answer(
        self,
        *keys: str,
        windows: Sequence[Window] | None = None,
        expected_us: Sequence[int] | None = None,
    ) -> Primaries:
        """Return the store's answer to a lookup; a window of None is all time."""
        bounds = [window or (EARLIEST_US, LATEST_US) for window in windows or [None] * len(keys)]
        first_us, last_us = np.array(bounds, np.int64).reshape(-1, 2).T
        expected = first_us if expected_us is None else np.array(expected_us, np.int64)
        return self.store().lookup(pa.array(keys, pa.string()), Around(expected, first_us, last_us))

    def truth(self, key: str, window: Window = None, expected_us: int | None = None) -> Logged | None:
        """Find the right answer: look at every line that was indexed."""
        lines = self.eligible(key, window)
        if expected_us is None:
            expected_us = window[0] if window else EARLIEST_US
        before = [line for line in lines if line.time_us <= expected_us]
        if before:
            latest_us = max(line.time_us for line in before)
            lines = [line for line in before if line.time_us == latest_us]
        return min(
            lines,
            key=lambda line: (line.time_us, digest(line), line.file_number, line.offset_bytes),
            default=None,
        )

    def eligible(self, key: str, window: Window = None) -> list[Logged]:
        """The indexed lines with this id in the window."""
        first_us, last_us = window or (EARLIEST_US, LATEST_US)
        return [
            line
            for line in self.lines
            if line.id == key
            and line.offset_bytes < self.indexed_to.get(line.file_number, 0)
            and first_us <= line.time_us <= last_us
        ]


def digest(line: Logged) -> int:
    """The digest of a line's content."""
    return int(digests_of(pa.array([line.raw]))[0])


def found(answer: Primaries) -> list[Logged | None]:
    """The event of each key."""
    names = ("_file", "_offset", "_id", "_time_us", "_raw")
    rows = zip(*(answer.events[name].to_pylist() for name in names), strict=True)
    events = [Logged(*row) for row in rows]
    return [events[row] if row >= 0 else None for row in answer.rows.tolist()]


def hash_id(text: str) -> int:
    """The hash of one id."""
    return int(hash_ids([text])[0])
