"""Index primary events: from parsed ranges to the log file map and the cache."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.entries import Piece, to_ticks
from photon.event_store.hashing import Hashes, hash_ids
from photon.event_store.log_file_map import LogFileMap
from photon.event_store.memory import CacheEventStore
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import ParsedRange


@dataclass(frozen=True)
class Indexed:
    """What became of primary ranges."""

    events: int
    max_time_us: dict[int, int]  # by file number; files without an event are missing
    new_hashes: Hashes  # sorted, each once, of the ids: wakes foreign events that wait for them
    dead_letters: tuple[pa.Table, ...]  # one for each range that has some


def index_ranges(
    ranges: Iterable[tuple[LogFile, ByteRange, ParsedRange]], log_map: LogFileMap, cache: CacheEventStore
) -> Indexed:
    """Put the events of `ranges` into the map, in one transaction, and into the cache.

    Repeatable: a range that is in the map already changes nothing there. One range at a time is taken
    from `ranges` and kept no longer, so pass a generator. sqlite3.OperationalError if the map is read-only.
    """
    byte_ranges: list[ByteRange] = []
    columns: list[pa.Table] = []
    dead_letters: list[pa.Table] = []
    for file, byte_range, parsed in ranges:
        byte_ranges.append(byte_range)
        # Without the events' bytes, which only the cache keeps.
        lengths = pc.binary_length(parsed.events["_raw"]).cast(pa.int64())
        kept = parsed.events.select(["_file", "_offset", "_time_us", "_id"])
        columns.append(kept.append_column("_length", lengths))
        if parsed.dead_letters.num_rows:
            dead_letters.append(parsed.dead_letters)
        cache.put_table(parsed.events, file.header)
    if not columns:
        return Indexed(0, {}, np.empty(0, np.uint64), ())
    events = pa.concat_tables(columns)
    pieces = index_pieces(events, byte_ranges, [table.num_rows for table in columns])
    log_map.add(pieces)
    latest = events.group_by("_file").aggregate([("_time_us", "max")])
    return Indexed(
        events=events.num_rows,
        max_time_us=dict(zip(latest["_file"].to_pylist(), latest["_time_us_max"].to_pylist(), strict=True)),
        new_hashes=np.unique(np.concatenate([piece.hashes for piece in pieces])),
        dead_letters=tuple(dead_letters),
    )


def index_pieces(events: pa.Table, byte_ranges: list[ByteRange], rows: list[int]) -> list[Piece]:
    """The pieces of all ranges: `events` holds their events one after the other, `rows` how many of each.

    All at once, for with 2,000 files there are as many ranges with an event or two each.
    """
    offsets = events["_offset"].to_numpy()
    line_ends = offsets + events["_length"].to_numpy()
    ticks = to_ticks(events["_time_us"].to_numpy())
    hashes = hash_ids(events["_id"].combine_chunks())
    pieces, first = [], 0
    for where, count in zip(byte_ranges, rows, strict=True):
        part = slice(first, first + count)
        columns = (offsets[part], line_ends[part], ticks[part], hashes[part])
        pieces.append(Piece(where.file_number, where.start_bytes, where.end_bytes, *columns))
        first += count
    return pieces
