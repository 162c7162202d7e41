"""LogsEventStore: find primary events by the log file map, in the cache or in the logs."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.entries import ENTRY_LIMITS, EntryLimits
from photon.event_store.hashing import hash_ids
from photon.event_store.interface import PrimaryEvent, PrimaryLookup
from photon.event_store.log_file_map import Block, LogFileMap
from photon.event_store.memory import CacheEventStore, process_memory
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import read_events
from photon.logs.ranges import RangeGone, read_at
from photon.pipeline.file import EventStoreSettings, Limits, PrimaryLog

# A file that vanished, was replaced, is forbidden or is a broken archive raises one of these.
UNREADABLE = (RangeGone, OSError, EOFError, zlib.error)

# Searching 256 KiB for an id takes some 50 us, parsing them some 20 ms: with more ids parsing costs less.
MOST_IDS_SEARCHED = 200


@dataclass(frozen=True)
class EventStorePlace:
    """Where the primary events of one datacenter are, and how to read them. Picklable."""

    map_path: Path
    logs_folder: Path
    log: PrimaryLog
    limits: Limits
    settings: EventStoreSettings
    workers: int = 1  # task processes that share the cache's memory
    entry_limits: EntryLimits = ENTRY_LIMITS


def is_only_candidate(
    lookup: PrimaryLookup, candidates: Mapping[Block, int], event: PrimaryEvent | None
) -> bool:
    """Whether a remembered event is the only one that it can be: one candidate, and this is it."""
    if event is None or list(candidates.values()) != [1]:
        return False
    (block,) = candidates
    inside = block.start_bytes <= event.offset_bytes < block.end_bytes
    return inside and event.file_number == block.file_number and lookup.accepts(event)


def first_event(
    lookup: PrimaryLookup, events: Iterable[PrimaryEvent], files: Mapping[int, LogFile]
) -> PrimaryEvent | None:
    """Of several copies the first by (time, path, offset) counts."""
    return min(
        filter(lookup.accepts, events),
        key=lambda e: (e.time_us, files[e.file_number].path, e.offset_bytes, e.file_number),
        default=None,
    )


def lines_showing(data: bytes, ids: Iterable[str]) -> list[tuple[int, int]]:
    """The lines of `data` that show the text of any of `ids`: (start, end without newline), in order."""
    lines: set[tuple[int, int]] = set()
    for needle in filter(None, (each.encode() for each in ids)):
        at = data.find(needle)
        while at >= 0:
            newline = data.find(b"\n", at)
            end = len(data) if newline < 0 else newline
            lines.add((data.rfind(b"\n", 0, at) + 1, end))
            at = data.find(needle, end + 1)
    return sorted(lines)


class LogsEventStore:
    """The EventStore of a datacenter. The map says where an event may be; the cache or the logs have it.

    `bytes_read` counts what was read of the logs. `unanswered` has the ids of lookups that found nothing
    because a log file can't be read now: with one copy unread, nobody knows which copy is the first.
    """

    def __init__(
        self, log_map: LogFileMap, place: EventStorePlace, cache: CacheEventStore | None = None
    ) -> None:
        self.log_map = log_map
        self.cache = CacheEventStore(0) if cache is None else cache
        self.bytes_read = 0
        self.unanswered: set[str] = set()
        self._place = place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the map. The cache stays with the process."""
        self.log_map.close()

    def lookup(self, lookups: Sequence[PrimaryLookup]) -> list[PrimaryEvent | None]:
        distinct = list(dict.fromkeys(lookups))
        hashes = hash_ids([each.id for each in distinct])
        candidates = self.log_map.blocks_holding(hashes, [each.window for each in distinct])
        found: dict[PrimaryLookup, PrimaryEvent] = {}
        to_read: dict[PrimaryLookup, Mapping[Block, int]] = {}
        for each, blocks in zip(distinct, candidates, strict=True):
            event = self.cache.get(each.id) if blocks else None
            if event is not None and is_only_candidate(each, blocks, event):
                found[each] = event
            elif blocks:
                to_read[each] = blocks
        found |= self._from_logs(to_read)
        self.cache.put(found.values())
        return [found.get(each) for each in lookups]

    def _from_logs(
        self, to_read: Mapping[PrimaryLookup, Mapping[Block, int]]
    ) -> dict[PrimaryLookup, PrimaryEvent]:
        ids_by_block: dict[Block, dict[str, int]] = defaultdict(dict)
        for each, blocks in to_read.items():
            for block, occurrences in blocks.items():
                ids_by_block[block][each.id] = occurrences
        files = self.log_map.files({block.file_number for block in ids_by_block})
        events: dict[str, list[PrimaryEvent]] = defaultdict(list)
        unread: set[Block] = set()
        for block in sorted(ids_by_block, key=lambda b: (b.file_number, b.start_bytes)):
            try:
                for event in self._scan(files.get(block.file_number), block, ids_by_block[block]):
                    events[event.id].append(event)
            except UNREADABLE:
                unread.add(block)
        found: dict[PrimaryLookup, PrimaryEvent] = {}
        for each, blocks in to_read.items():
            if not unread.isdisjoint(blocks):
                self.unanswered.add(each.id)
            elif (first := first_event(each, events[each.id], files)) is not None:
                found[each] = first
        return found

    def _scan(self, file: LogFile | None, block: Block, occurrences: Mapping[str, int]) -> list[PrimaryEvent]:
        """The events of ids in one block. Raises one of `UNREADABLE` if it can't be read.

        First parse only lines that show an id's text. If that finds fewer events than the map
        counted (ids may be written with escapes, or made of columns), parse the whole block.
        """
        if file is None:
            raise FileNotFoundError(f"log file number {block.file_number} is not in the log file map")
        data = read_at(self._place.logs_folder, file, block.start_bytes, block.end_bytes)
        self.bytes_read += len(data)
        if len(occurrences) <= MOST_IDS_SEARCHED:
            likely = self._parse(data, lines_showing(data, occurrences), file, block, occurrences)
            if Counter(event.id for event in likely) == Counter(occurrences):
                return likely
        return self._parse(data, [(0, len(data))], file, block, occurrences)

    def _parse(
        self, data: bytes, stretches: list[tuple[int, int]], file: LogFile, block: Block, ids: Iterable[str]
    ) -> list[PrimaryEvent]:
        """The events of `ids` in stretches (start, end) of whole lines of a block's bytes."""
        lines = b"\n".join(data[start:end] for start, end in stretches)
        # The checksum is that of a plan's range, which what the map points to does not have.
        where = ByteRange(file.number, 0, len(lines), checksum=0, lines=0)
        events = read_events(lines, file, where, self._place.log, self._place.limits).events
        rows = events.filter(pc.is_in(events.column("_id"), value_set=pa.array(list(ids), pa.string())))
        joined_at = list(accumulate((end - start + 1 for start, end in stretches), initial=0))
        found = []
        for row in rows.to_pylist():
            place = bisect_right(joined_at, row["_offset"]) - 1
            offset_bytes = block.start_bytes + stretches[place][0] + row["_offset"] - joined_at[place]
            where_and_what = (file.number, offset_bytes, row["_raw"], file.header)
            found.append(PrimaryEvent(row["_id"], row["_time_us"], *where_and_what))
        return found


def open_event_store(place: EventStorePlace) -> LogsEventStore:
    """The event store at `place`; the map is made if it is missing. One per process and thread; close it.

    Its cache lives as long as the process. FormatTooNew, sqlite3.OperationalError as `LogFileMap`.
    """
    log_map = LogFileMap(place.map_path, place.settings, place.entry_limits)
    cache = process_memory(log_map.map_id).cache
    cache.events.capacity_bytes = place.settings.cache_memory_bytes // place.workers
    return LogsEventStore(log_map, place, cache)
