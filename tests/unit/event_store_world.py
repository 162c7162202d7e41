"""A datacenter's primary logs that grow and rotate, indexed by the real parts, and the truth about them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from photon.event_store.entries import EntryLimits
from photon.event_store.hashing import hash_ids
from photon.event_store.indexing import Indexed, index_ranges
from photon.event_store.interface import PrimaryEvent, PrimaryLookup
from photon.event_store.log_file_map import LogFileMap
from photon.event_store.logs import EventStorePlace, LogsEventStore
from photon.event_store.memory import CacheEventStore
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import read_events
from photon.logs.ranges import read_at
from photon.logs.source import hash_bytes
from photon.pipeline.file import EventStoreSettings, Limits, PrimaryLog

LOG = PrimaryLog(files="*.log", format="jsonl", id="id", time="time", time_unit="us")
SECOND_US = 1_000_000
WINDOW_US = 600 * SECOND_US


@dataclass(frozen=True)
class Logged:
    """One line of a primary log, as the test wrote it."""

    file_number: int
    offset_bytes: int
    id: str
    time_us: int
    raw: bytes


class World:
    """Primary logs below `folder`, their map, a cache, and every line that was indexed."""

    def __init__(self, folder: Path, entry_limits: EntryLimits | None = None):
        self.place = EventStorePlace(
            folder / "map.sqlite",
            folder,
            LOG,
            Limits(),
            EventStoreSettings(),
            entry_limits=entry_limits or small_entries(),
        )
        self.cache = CacheEventStore(10**6)
        self.files: dict[int, LogFile] = {}
        self.lines: list[Logged] = []  # all that were written
        self.indexed_to: dict[int, int] = {}
        self.log_map = LogFileMap(self.place.map_path, self.place.settings, self.place.entry_limits)

    def write(self, number: int, events: Sequence[tuple[str, int]], padding: str = "") -> None:
        """Append (id, time_us) lines to file `number`, which is made at its first line."""
        path = self.place.logs_folder / (self.files[number].path if number in self.files else f"{number}.log")
        with path.open("ab") as file:
            for event_id, time_us in events:
                raw = json.dumps({"id": event_id, "time": time_us, "padding": padding}).encode()
                self.lines.append(Logged(number, file.tell(), event_id, time_us, raw))
                file.write(raw + b"\n")
        if number not in self.files:
            head = path.read_bytes().split(b"\n")[0] + b"\n"
            inode = path.stat().st_ino
            file_ = LogFile(number, "primary", path.name, inode, False, b"", 0, len(head), hash_bytes(head))
            self.files[number] = file_

    def rotate(self, number: int, to: str) -> None:
        """Rename a file, as log rotation does, and let the map know."""
        file = self.files[number]
        folder = self.place.logs_folder
        (folder / file.path).rename(folder / to)
        self.files[number] = replace(file, path=to)
        self.log_map.put_files([self.files[number]])

    def unindexed(self) -> list[ByteRange]:
        """What is written and not indexed, one range a file."""
        ranges = []
        for number, file in self.files.items():
            start, end = self.indexed_to.get(number, 0), (self.place.logs_folder / file.path).stat().st_size
            if start < end:
                ranges.append(ByteRange(number, start, end, checksum=0, lines=0))
        return ranges

    def index(self, ranges: Sequence[ByteRange] | None = None) -> Indexed:
        """Index `ranges`, or all that is new."""
        ranges = self.unindexed() if ranges is None else ranges
        self.log_map.put_files(self.files.values())
        for each in ranges:
            self.indexed_to[each.file_number] = max(each.end_bytes, self.indexed_to.get(each.file_number, 0))
        return index_ranges(self._parsed(ranges), self.log_map, self.cache)

    def _parsed(self, ranges: Sequence[ByteRange]) -> Iterator[tuple[LogFile, ByteRange, pa.Table]]:
        for each in ranges:
            file = self.files[each.file_number]
            data = read_at(self.place.logs_folder, file, each.start_bytes, each.end_bytes)
            yield file, each, read_events(data, file, each, LOG, self.place.limits).events

    def store(self) -> LogsEventStore:
        """The event store over the map and the cache."""
        return LogsEventStore(self.log_map, self.place, self.cache)

    def cold_store(self) -> LogsEventStore:
        """The logs alone."""
        return LogsEventStore(self.log_map, self.place)

    def covered_to(self) -> dict[int, int]:
        """By file number, the offset up to which the map covers it."""
        return covered_to(self.place.map_path)

    def truth(self, lookup: PrimaryLookup) -> PrimaryEvent | None:
        """The answer by looking at every line that was indexed."""
        found = [
            line
            for line in self.lines
            if line.id == lookup.id
            and line.offset_bytes < self.indexed_to.get(line.file_number, 0)
            and (lookup.window is None or lookup.window[0] <= line.time_us <= lookup.window[1])
        ]
        if not found:
            return None
        first = min(
            found, key=lambda each: (each.time_us, self.files[each.file_number].path, each.offset_bytes)
        )
        return PrimaryEvent(first.id, first.time_us, first.file_number, first.offset_bytes, first.raw, b"")

    def close(self) -> None:
        """Close the map."""
        self.log_map.close()


def small_entries(entry_bytes: int = 512) -> EntryLimits:
    """Entries small enough that a few lines fill one."""
    return EntryLimits(entry_bytes)


def covered_to(map_path: Path) -> dict[int, int]:
    """By file number, the offset up to which its last entry in the map covers it."""
    connection = sqlite3.connect(map_path)
    try:
        return dict(connection.execute("SELECT file, max(end) FROM entries GROUP BY file"))
    finally:
        connection.close()


def hash_id(text: str) -> int:
    """The hash of one id."""
    return int(hash_ids([text])[0])
