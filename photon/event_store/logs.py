"""LogsEventStore and CombinedEventStore: the map decides, the cache or the logs serve.

Which entries are to be looked at is `log_file_map`; parsing is `photon.logs`.
"""

from __future__ import annotations

import threading
import zlib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from photon.clock import microseconds
from photon.event_store.cache import CacheEventStore
from photon.event_store.entries import ENTRY_LIMITS, EntryLimits
from photon.event_store.filters import TimeWindow
from photon.event_store.hashing import hash_ids
from photon.event_store.interface import PrimaryEvent, Wanted
from photon.event_store.log_file_map import Block, Candidate, LogFileMap, map_path
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import read_events
from photon.logs.ranges import RangeGone, read_at
from photon.pipeline.file import EventStoreSettings, Limits, Pipeline, PrimaryLog

# What a file that vanished, was replaced, is forbidden or is a broken archive raises.
UNREADABLE = (RangeGone, OSError, EOFError, zlib.error)

# Searching 256 KiB for an id takes some 50 us, parsing them some 20 ms: with more ids parsing costs less.
MOST_IDS_SEARCHED = 200

Remembered = Callable[[str], PrimaryEvent | None]


@dataclass(frozen=True)
class EventStorePlace:
    """Where the primary events of one datacenter are, and how to read them. Picklable."""

    map_path: Path
    logs_folder: Path
    log: PrimaryLog
    limits: Limits
    settings: EventStoreSettings
    lookup_window_us: int
    workers: int = 1  # task processes that share the cache's memory
    entry_limits: EntryLimits = ENTRY_LIMITS

    @classmethod
    def of(cls, pipeline: Pipeline, datacenter: str, epoch: str, workers: int) -> EventStorePlace:
        """The place of one datacenter's events in an epoch."""
        folders = pipeline.datacenters[datacenter]
        return cls(
            map_path(folders.state, epoch),
            folders.logs,
            pipeline.primary,
            pipeline.limits,
            pipeline.event_store,
            microseconds(pipeline.retry.lookup_window),
            workers,
        )


@dataclass(frozen=True, slots=True)
class Sought:
    """One id with the times between which its event must be."""

    id: str
    window: TimeWindow

    def accepts(self, event: PrimaryEvent) -> bool:
        """Whether `event`, which has the id, is one that is sought."""
        return self.window is None or self.window[0] <= event.time_us <= self.window[1]


def sought(wanted: Wanted, lookup_window_us: int) -> Sought:
    """Where to look for what is wanted: exact to the microsecond, so that every datacenter finds the same."""
    if wanted.anywhere or wanted.around_us is None:
        return Sought(wanted.id, None)
    return Sought(wanted.id, (wanted.around_us - lookup_window_us, wanted.around_us + lookup_window_us))


def served_from_memory(each: Sought, candidates: Sequence[Candidate], event: PrimaryEvent | None) -> bool:
    """Whether a remembered event is the only one that it can be: one candidate, and this is it."""
    if event is None or len(candidates) != 1 or candidates[0].occurrences != 1:
        return False
    block = candidates[0].block
    inside = block.start_bytes <= event.offset_bytes < block.end_bytes
    return inside and event.file_number == block.file_number and each.accepts(event)


def first_event(
    each: Sought, events: Iterable[PrimaryEvent], files: Mapping[int, LogFile]
) -> PrimaryEvent | None:
    """Of several copies the first by (time, path, offset) counts."""
    return min(
        filter(each.accepts, events),
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
    """Primary events from the logs alone, by bounded reads of what the map points to.

    `bytes_read` counts what was read; `unreadable` the lookups that a log file that can't be read now left
    unanswered: those are None, for with one copy unread nobody knows which is the first. `unanswered`
    has their ids: they are not to be given up for it.
    """

    def __init__(self, log_map: LogFileMap, place: EventStorePlace) -> None:
        self.log_map = log_map
        self.bytes_read = 0
        self.unreadable = 0
        self.unanswered: set[str] = set()
        self._place = place

    def lookup(self, wanted: Sequence[Wanted]) -> list[PrimaryEvent | None]:
        """See `EventStore.lookup`."""
        return self.lookup_beside(wanted, lambda _: None)

    def lookup_beside(self, wanted: Sequence[Wanted], remembered: Remembered) -> list[PrimaryEvent | None]:
        """`lookup`, reading only what `remembered` does not hold."""
        all_sought = [sought(each, self._place.lookup_window_us) for each in wanted]
        distinct = list(dict.fromkeys(all_sought))
        hashes = hash_ids([each.id for each in distinct])
        candidates = self.log_map.blocks_holding(hashes, [each.window for each in distinct])
        found: dict[Sought, PrimaryEvent | None] = {}
        to_read: dict[Sought, dict[Block, int]] = {}
        for each, its_candidates in zip(distinct, candidates, strict=True):
            event = remembered(each.id) if its_candidates else None
            if served_from_memory(each, its_candidates, event):
                found[each] = event
            elif its_candidates:
                to_read[each] = {found_in.block: found_in.occurrences for found_in in its_candidates}
        found.update(self._from_logs(to_read))
        return [found.get(each) for each in all_sought]

    def _from_logs(self, to_read: Mapping[Sought, Mapping[Block, int]]) -> dict[Sought, PrimaryEvent | None]:
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
        answered = {each: unread.isdisjoint(blocks) for each, blocks in to_read.items()}
        unanswered = {each.id for each, known in answered.items() if not known}
        self.unreadable += len(unanswered)
        self.unanswered |= unanswered
        return {each: first_event(each, events[each.id], files) for each in to_read if answered[each]}

    def _scan(self, file: LogFile | None, block: Block, occurrences: Mapping[str, int]) -> list[PrimaryEvent]:
        """The events of ids in one block; one of `UNREADABLE` if it can't be read.

        First only lines that show an id's text are parsed. Where that does not bring as many events of each
        id as the map counted (ids may be written with escapes, or made of columns), all of the block is.
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


class CombinedEventStore:
    """The EventStore of the joiner: what the map says, served from the cache where it can be."""

    def __init__(self, cache: CacheEventStore, logs: LogsEventStore) -> None:
        self.cache = cache
        self.logs = logs

    @property
    def log_map(self) -> LogFileMap:
        """The map, for index tasks."""
        return self.logs.log_map

    @property
    def unreadable(self) -> int:
        """How many lookups a log file that can't be read left unanswered."""
        return self.logs.unreadable

    @property
    def unanswered(self) -> set[str]:
        """The ids of those lookups."""
        return self.logs.unanswered

    @property
    def bytes_read(self) -> int:
        """How many bytes of logs were read."""
        return self.logs.bytes_read

    def lookup(self, wanted: Sequence[Wanted]) -> list[PrimaryEvent | None]:
        """See `EventStore.lookup`."""
        found = self.logs.lookup_beside(wanted, self.cache.get)
        self.cache.put(event for event in found if event is not None)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the map; the cache stays with the process."""
        self.log_map.close()


# Of the map used last: tasks of one process serve one datacenter, and a new epoch's map replaces the old one.
_process_cache: tuple[str, CacheEventStore] | None = None
_process_lock = threading.Lock()


def process_cache(map_id: str, capacity_bytes: int) -> CacheEventStore:
    """The cache of this process for the map `map_id`: file numbers mean something else in another map."""
    global _process_cache
    with _process_lock:
        if _process_cache is None or _process_cache[0] != map_id:
            _process_cache = (map_id, CacheEventStore(capacity_bytes))
        return _process_cache[1]


def open_event_store(place: EventStorePlace) -> CombinedEventStore:
    """The event store at `place`; the map is made if it is missing. One per process and thread; close it.

    Its cache lives as long as the process. FormatTooNew, sqlite3.OperationalError as `LogFileMap`.
    """
    log_map = LogFileMap(place.map_path, place.settings, place.entry_limits)
    cache = process_cache(log_map.map_id, place.settings.cache_memory_bytes // place.workers)
    return CombinedEventStore(cache, LogsEventStore(log_map, place))
