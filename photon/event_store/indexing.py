"""Index primary events: from parsed ranges to the log file map and the cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.entries import EventStretch, to_ticks
from photon.event_store.hashing import Hashes, hash_ids
from photon.event_store.log_file_map import LogFileMap
from photon.event_store.memory import CacheEventStore
from photon.logs.files import ByteRange, LogFile


@dataclass(frozen=True)
class Indexed:
    """What became of primary ranges."""

    events: int = 0
    max_time_us: Mapping[int, int] = field(default_factory=dict)  # by file number, of files with an event
    # Sorted, each once, of the ids: wakes foreign events that wait for them.
    new_hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))


def index_ranges(
    ranges: Iterable[tuple[LogFile, ByteRange, pa.Table]], log_map: LogFileMap, cache: CacheEventStore
) -> Indexed:
    """Put the events of `ranges` into the map, in one transaction, and into the cache.

    Events are `photon.logs.parse.PRIMARY_EVENTS`. Repeatable: a range that is in the map already changes
    nothing there. One range at a time is taken from `ranges` and kept no longer, so pass a generator.
    sqlite3.OperationalError if the map is read-only.
    """
    byte_ranges: list[ByteRange] = []
    columns: list[pa.Table] = []
    for file, byte_range, events in ranges:
        byte_ranges.append(byte_range)
        # Without the events' bytes, which only the cache keeps.
        lengths = pc.binary_length(events["_raw"]).cast(pa.int64())
        kept = events.select(["_file", "_offset", "_time_us", "_id"])
        columns.append(kept.append_column("_length", lengths))
        cache.put_table(events, file.header)
    if not columns:
        return Indexed()
    # All at once, for with 2,000 files there are as many ranges with an event or two each.
    events = pa.concat_tables(columns)
    offsets, ticks = events["_offset"].to_numpy(), to_ticks(events["_time_us"].to_numpy())
    line_ends = offsets + events["_length"].to_numpy()
    hashes = hash_ids(events["_id"].combine_chunks())
    bounds = pairwise(accumulate((table.num_rows for table in columns), initial=0))
    log_map.add(
        EventStretch(
            each.file_number,
            each.start_bytes,
            each.end_bytes,
            offsets[a:b],
            line_ends[a:b],
            ticks[a:b],
            hashes[a:b],
        )
        for each, (a, b) in zip(byte_ranges, bounds, strict=True)
    )
    latest = events.group_by("_file").aggregate([("_time_us", "max")])
    return Indexed(
        events=events.num_rows,
        max_time_us=dict(zip(latest["_file"].to_pylist(), latest["_time_us_max"].to_pylist(), strict=True)),
        new_hashes=np.unique(hashes),
    )
