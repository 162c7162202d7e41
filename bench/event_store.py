"""How fast primary events are indexed and found again: index EVENTS, then look up ids hot, cold, and nowhere.

python bench/event_store.py [EVENTS] [FILES]
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from photon.event_store.log_file_map import LogFileMap
from photon.event_store.memory import CacheEventStore

from photon.event_store.indexing import index_ranges
from photon.event_store.interface import PrimaryLookup
from photon.event_store.logs import EventStorePlace, LogsEventStore, open_event_store
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import read_events
from photon.logs.source import hash_bytes
from photon.pipeline.file import EventStoreSettings, Limits, PrimaryLog

T = TypeVar("T")
LOOKUPS = 10_000
EVENTS_PER_SECOND = 1_000
START_US = 1_700_000_000_000_000
WINDOW_US = 600_000_000
BATCH_BYTES = 4 * 2**20
LOG = PrimaryLog(files="*.log", format="jsonl", id=("id",), time="time", time_unit="us")


def event_id(number: int) -> str:
    """The id of the event with that number; it carries its time."""
    return f"10.0.{number % 250}.1:{number % 30_000}:{time_us(number)}"


def time_us(number: int) -> int:
    """Its time: events come evenly."""
    return START_US + number * 1_000_000 // EVENTS_PER_SECOND


def lookup_of(number: int) -> PrimaryLookup:
    """Look for the event of that number around its time."""
    return PrimaryLookup.around(event_id(number), time_us(number), WINDOW_US)


def write_logs(folder: Path, events: int, files: int) -> list[LogFile]:
    """Events in turn to each of the files, some 170 bytes each."""
    logs = []
    for number in range(1, files + 1):
        path = folder / f"{number}.log"
        with path.open("w") as log:
            for each in range(number - 1, events, files):
                record = {
                    "id": event_id(each),
                    "time": time_us(each),
                    "query": "words " * 12,
                    "user": each % 9_999,
                }
                log.write(json.dumps(record) + "\n")
        head = path.open("rb").readline()
        stat = path.stat()
        logs.append(
            LogFile(number, "primary", path.name, stat.st_ino, False, b"", 0, len(head), hash_bytes(head))
        )
    return logs


def ranges(folder: Path, logs: list[LogFile]) -> Iterator[tuple[LogFile, ByteRange, bytes]]:
    """All of the files in ranges as batches have them, with their bytes."""
    for file in logs:
        data = (folder / file.path).read_bytes()
        start = 0
        while start < len(data):
            end = data.rfind(b"\n", start, start + BATCH_BYTES) + 1
            yield file, ByteRange(file.number, start, end, checksum=0, lines=0), data[start:end]
            start = end


def timed(what: str, count: int, run: Callable[[], T]) -> T:
    """Run once, and print how long it took."""
    began = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - began
    print(f"{what:52} {seconds:8.3f} s {count / seconds:12,.0f}/s", flush=True)
    return result


def main() -> None:
    """Measure all of it in a folder of its own."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    files = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = write_logs(folder, events, files)
        place = EventStorePlace(folder / "map.sqlite", folder, LOG, Limits(), EventStoreSettings())
        measure_indexing(place, logs, events)
        measure_lookups(place, events)
        measure_growth(place, logs)


def measure_indexing(place: EventStorePlace, logs: list[LogFile], events: int) -> None:
    """Parse and index everything."""
    with open_event_store(place) as store:
        store.log_map.put_files(logs)

        def parsed() -> list[tuple[LogFile, ByteRange, pa.Table]]:
            cut = ranges(place.logs_folder, logs)
            return [(f, r, read_events(data, f, r, LOG, place.limits).events) for f, r, data in cut]

        each = timed(f"read and parse {events:,} events", events, parsed)
        timed("index them, in one transaction a range", events, partial(index_each, each, store))
        cache, megabyte = store.cache.events, 2**20
        print(f"  cache: {len(cache):,} events in {cache.used_bytes // megabyte} MiB")
    print(f"  map: {place.map_path.stat().st_size / events:.1f} bytes an event")


def index_each(parsed: list[tuple[LogFile, ByteRange, pa.Table]], store: LogsEventStore) -> None:
    """Index range by range, as batches do."""
    for each in parsed:
        index_ranges([each], store.log_map, store.cache)


def measure_lookups(place: EventStorePlace, events: int) -> None:
    """Look up ids that are there, near the end and everywhere, and ids that are not."""
    random.seed(1)
    wanted = [lookup_of(each) for each in random.sample(range(events), LOOKUPS)]
    recent = [lookup_of(each) for each in range(events - LOOKUPS, events)]
    measure_found(place, "of all the history", wanted)
    measure_found(place, "of the last 10 s", recent)
    nowhere = [replace(each, id=each.id + "x") for each in wanted]
    anywhere = [replace(each, window=None) for each in nowhere]
    with open_event_store(place) as store:
        timed(f"look up {LOOKUPS:,} ids that are nowhere", LOOKUPS, partial(store.lookup, nowhere))
        timed(f"look up {LOOKUPS:,} of them anywhere", LOOKUPS, partial(store.lookup, anywhere))


def measure_found(place: EventStorePlace, which: str, ids: list[PrimaryLookup]) -> None:
    """Look up ids from the logs, then from a cache that has them all."""
    with closing(LogFileMap(place.map_path, place.settings)) as log_map:
        cold = LogsEventStore(log_map, place)
        found = timed(f"look up {len(ids):,} ids {which}, from the logs", len(ids), partial(cold.lookup, ids))
        assert None not in found
        print(f"  read {cold.bytes_read / 2**20:,.0f} MiB")
        hot = LogsEventStore(log_map, place, CacheEventStore(10**9))
        hot.cache.put(event for event in found if event is not None)
        timed(f"look up {len(ids):,} ids {which}, from the cache", len(ids), partial(hot.lookup, ids))
        timed("look up 8 of them, from the cache", 8, partial(hot.lookup, ids[:8]))
        timed("look up another 8 of them, from the logs", 8, partial(cold.lookup, ids[8:16]))


def measure_growth(place: EventStorePlace, logs: list[LogFile]) -> None:
    """2,000 files that grow by one event a batch."""
    with open_event_store(replace(place, map_path=place.logs_folder / "many.sqlite")) as store:
        for batch in range(4):
            parsed = list(small_ranges(logs[0], batch, place))
            index = partial(index_ranges, parsed, store.log_map, store.cache)
            timed(f"index batch {batch} of 2,000 files with one event each", 2_000, index)
            wanted = [
                PrimaryLookup.around(f"{number}-{batch}", START_US + batch, WINDOW_US) for number in range(8)
            ]
            timed("look up 8 of these ids, from the cache", 8, partial(store.lookup, wanted))


def small_ranges(
    template: LogFile, batch: int, place: EventStorePlace
) -> Iterator[tuple[LogFile, ByteRange, pa.Table]]:
    """One new event in each of 2,000 files."""
    for number in range(2_000):
        data = json.dumps({"id": f"{number}-{batch}", "time": START_US + batch}).ljust(99).encode() + b"\n"
        where = ByteRange(number, batch * 100, batch * 100 + 100, checksum=0, lines=1)
        file = replace(template, number=number)
        yield file, where, read_events(data, file, where, LOG, place.limits).events


if __name__ == "__main__":
    main()
