"""How fast primary events are indexed and found again: index EVENTS in FILES, then look ids up.

python bench/event_store.py [EVENTS] [FILES] [LINE_BYTES]
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from photon.event_store.compaction import compact, next_compaction
from photon.event_store.indexing import index_events
from photon.event_store.interface import IndexSnapshot, Primaries
from photon.event_store.log_files import write_log_files
from photon.event_store.logs import LogsEventStore
from photon.event_store.segments import SegmentInfo
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import read_events
from photon.logs.source import hash_bytes
from photon.pipeline.sections import Limits, PrimaryLog
from photon.tokens import new_id

T = TypeVar("T")
EVENTS_PER_SECOND = 1_000
START_US = 1_700_000_000_000_000
SEGMENT_EVENTS = 130_000  # what a full batch of lines of 500 bytes holds
LOG = PrimaryLog(files="*.log", format="jsonl", id=("id",), time="time", time_unit="us")


def event_id(number: int) -> str:
    """The id of the event with that number."""
    return f"10.0.{number % 250}.1:{number % 30_000}:{number}"


def write_logs(folder: Path, events: int, files: int, line_bytes: int) -> list[LogFile]:
    """Events in turn to each of the files."""
    logs = []
    for number in range(1, files + 1):
        path = folder / f"{number}.log"
        with path.open("w") as log:
            log.writelines(_line(each, line_bytes) for each in range(number - 1, events, files))
        head = path.open("rb").readline()
        inode = path.stat().st_ino
        logs.append(LogFile(number, "primary", path.name, inode, False, b"", 0, len(head), hash_bytes(head)))
    return logs


def _line(number: int, line_bytes: int) -> str:
    time_us = START_US + number * 1_000_000 // EVENTS_PER_SECOND
    start = f'{{"id": "{event_id(number)}", "time": {time_us}, "text": "'
    return start + "words " * ((line_bytes - len(start)) // 6) + '"}\n'


def timed(what: str, count: int, run: Callable[[], T]) -> T:
    """Run once, and print how long it took."""
    began, cpu_began = time.perf_counter(), time.process_time()
    result = run()
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    print(f"{what:46} {seconds:8.3f} s, {cpu_seconds / count * 1e6:8.2f} us of a core for each", flush=True)
    return result


def parsed(folder: Path, logs: list[LogFile]) -> Iterator[pa.Table]:
    """All events, in tables as large as a segment."""
    tables: list[pa.Table] = []
    for file in logs:
        data = (folder / file.path).read_bytes()
        start = 0
        while start < len(data):
            end = data.rfind(b"\n", start, start + 32 * 2**20) + 1
            where = ByteRange(file.number, start, end, checksum=0, lines=0)
            tables.append(read_events(data[start:end], file, where, LOG, Limits()).events)
            start = end
            if sum(table.num_rows for table in tables) >= SEGMENT_EVENTS:
                yield pa.concat_tables(tables)
                tables = []
    if tables:
        yield pa.concat_tables(tables)


def index(folder: Path, logs: list[LogFile]) -> list[SegmentInfo]:
    """Index everything, and merge as a dispatcher does."""
    segments: list[SegmentInfo] = []
    seconds = dict.fromkeys(("parse", "index", "merge"), 0.0)
    began = time.process_time()
    for table in parsed(folder, logs):
        seconds["parse"] += time.process_time() - began
        began = time.process_time()
        indexed = index_events([table], folder / "index", new_id())
        segments += [indexed.segment] if indexed.segment else []
        seconds["index"] += time.process_time() - began
        began = time.process_time()
        while (merge := next_compaction(segments, range(len(logs) + 1))) is not None:
            merged = compact(folder / "index", merge, new_id())
            segments = [each for each in segments if each not in merge.sources]
            segments += [merged] if merged else []
        seconds["merge"] += time.process_time() - began
        began = time.process_time()
    events = sum(each.events for each in segments)
    for what, took in seconds.items():
        print(f"{what:46} {took / events * 1e6:8.2f} us of a core an event")
    print(f"{len(segments)} segments")
    return segments


def look_up(store: LogsEventStore, ids: list[str]) -> Primaries:
    """One lookup."""
    return store.lookup(pa.array(ids))


def main() -> None:
    """Measure all of it in a folder of its own."""
    values = [int(value) for value in sys.argv[1:]]
    events, files, line_bytes = [*values, *(1_000_000, 10, 500)[len(values) :]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = write_logs(folder, events, files, line_bytes)
        segments = index(folder, logs)
        write_log_files(folder / "index", "files", logs)
        names = tuple(each.name for each in segments)
        store = LogsEventStore(folder, LOG, IndexSnapshot(folder / "index", names, "files"))
        chance = random.Random(1)
        for count in (50_000, 1_000, 250):
            ids = [event_id(number) for number in chance.sample(range(events), min(count, events))]
            for which in ("first time", "again"):
                found = timed(f"look up {count:,} ids, {which}", count, partial(look_up, store, ids))
                assert found.events["_id"].take(pa.array(found.rows)).to_pylist() == ids
            nowhere = [each + "x" for each in ids]
            found = timed(f"look up {count:,} ids that are nowhere", count, partial(look_up, store, nowhere))
            assert not found.events.num_rows
        recent = [event_id(number) for number in range(max(0, events - 1_000), events)]
        timed("look up the last 1,000 ids", len(recent), partial(look_up, store, recent))
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,} MiB of memory")


if __name__ == "__main__":
    main()
