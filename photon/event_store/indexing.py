"""Indexing of primary events: from parsed ranges to the log file map and the cache.

What a task does with a primary range between reading and reporting. Parsing belongs to `photon.logs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.cache import CacheEventStore
from photon.event_store.entries import Piece, to_ticks
from photon.event_store.hashing import Hashes, hash_ids
from photon.event_store.log_file_map import LogFileMap
from photon.logs.files import ByteRange, LogFile


class Parsed(Protocol):
    """What `photon.logs.parse.read_events` returns of a primary range."""

    @property
    def events(self) -> pa.Table:
        """Columns `_file, _offset, _raw, _id, _time_us`, in the order of the file."""
        ...

    @property
    def dead_letters(self) -> pa.Table:
        """Lines that are no events."""
        ...


@dataclass(frozen=True)
class Indexed:
    """What became of primary ranges."""

    events: int
    max_time_us: dict[int, int]  # by file number; files without an event are missing
    new_hashes: Hashes  # sorted, each once, of the ids: wakes foreign events that wait for them
    dead_letters: tuple[pa.Table, ...]  # one for each range that has some


def index_ranges(
    ranges: Iterable[tuple[LogFile, ByteRange, Parsed]], log_map: LogFileMap, cache: CacheEventStore
) -> Indexed:
    """Put the events of `ranges` into the map, in one transaction, and into the cache.

    Repeatable: a range that is in the map already changes nothing there. One range at a time is taken
    from `ranges` and kept no longer, so pass a generator. sqlite3.OperationalError if the map is read-only.
    """
    pieces: list[Piece] = []
    dead_letters: list[pa.Table] = []
    max_time_us: dict[int, int] = {}
    for file, byte_range, parsed in ranges:
        piece, latest_us = piece_of(parsed.events, byte_range)
        pieces.append(piece)
        if latest_us is not None:
            max_time_us[file.number] = max(latest_us, max_time_us.get(file.number, latest_us))
        if parsed.dead_letters.num_rows:
            dead_letters.append(parsed.dead_letters)
        cache.put_table(parsed.events, file.header)
    log_map.add(pieces)
    hashes = [piece.hashes for piece in pieces]
    return Indexed(
        events=sum(len(part) for part in hashes),
        max_time_us=max_time_us,
        new_hashes=np.unique(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64),
        dead_letters=tuple(dead_letters),
    )


def piece_of(events: pa.Table, byte_range: ByteRange) -> tuple[Piece, int | None]:
    """What the map keeps of the events of a range, and the latest time among them."""
    offsets = events.column("_offset").to_numpy().astype(np.int64)
    lengths = pc.binary_length(events.column("_raw")).to_numpy().astype(np.int64)
    times_us = events.column("_time_us").to_numpy().astype(np.int64)
    piece = Piece(
        byte_range.file_number,
        byte_range.start_bytes,
        byte_range.end_bytes,
        offsets,
        offsets + lengths,
        to_ticks(times_us),
        hash_ids(events.column("_id")),
    )
    return piece, int(times_us.max()) if len(times_us) else None
