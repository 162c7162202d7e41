"""Merge waiting segments, so that there are some tens of them, and leave out the records that are gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.location import Location
from photon.state.waiting.segments import WaitingSegment, read_all_records, write_segment
from photon.state.waiting.states import Rows

SEGMENTS_A_TIER = 8
SMALLEST_TIER_RECORDS = 4096
MOST_MERGED_BYTES = 2**27  # raw records of a merged segment are all in memory while it is made
MOST_MERGED_RECORDS = 2**21


@dataclass(frozen=True)
class SegmentSize:
    """How much of a segment is still of use."""

    name: str
    records: int
    live: int  # records that wait or were given up
    raw_bytes: int
    is_given_up: bool  # all of its records were

    @property
    def live_bytes(self) -> int:
        return self.raw_bytes * self.live // self.records


@dataclass(frozen=True)
class Merged:
    """A segment that is to take the place of others."""

    info: WaitingSegment
    sources: tuple[tuple[str, Rows], ...]  # with the rows that were taken of each
    row_of: Rows  # in the new segment, of each of those rows, source after source


def next_merge(sizes: Sequence[SegmentSize]) -> tuple[str, ...]:
    """The segments to merge now: the smallest full tier, else a big segment that is mostly gone."""
    tiers: dict[tuple[int, bool], list[SegmentSize]] = defaultdict(list)
    for size in sizes:
        tiers[tier_of(size.live), size.is_given_up].append(size)
    for _, members in sorted(tiers.items()):
        chosen = _within_bounds(members)
        if len(members) >= SEGMENTS_A_TIER and len(chosen) > 1:
            return chosen
    for size in sizes:
        if size.records >= SMALLEST_TIER_RECORDS and 2 * size.live <= size.records:
            return (size.name,)
    return ()


def tier_of(records: int) -> int:
    """The tier of a segment with so many live records: its bound is `SEGMENTS_A_TIER` times the last one."""
    tier, bound = 0, SMALLEST_TIER_RECORDS
    while records >= bound:
        tier, bound = tier + 1, bound * SEGMENTS_A_TIER
    return tier


def _within_bounds(members: Sequence[SegmentSize]) -> tuple[str, ...]:
    """The smallest segments of a tier, as many as one merged segment may hold."""
    chosen: list[str] = []
    records = data_bytes = 0
    for size in sorted(members, key=lambda size: size.live):
        records, data_bytes = records + size.live, data_bytes + size.live_bytes
        if chosen and (records > MOST_MERGED_RECORDS or data_bytes > MOST_MERGED_BYTES):
            break
        chosen.append(size.name)
    return tuple(chosen)


def merge(folder: Location, sources: Sequence[tuple[str, Rows]], name: str) -> Merged:
    """Write these rows of segments to a new segment; the sources stay. WaitingDamaged, OSError."""
    parts = [read_all_records(folder, source).take(pa.array(rows)) for source, rows in sources]
    records = pa.concat_tables(parts)
    del parts
    order = pc.sort_indices(records, [("due_us", "ascending")])
    info = write_segment(folder, name, records.take(order))
    row_of = np.empty(records.num_rows, np.int64)
    row_of[order.to_numpy()] = np.arange(records.num_rows)
    return Merged(info, tuple(sources), row_of)
