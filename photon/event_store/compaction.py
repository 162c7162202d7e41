"""Merge index segments, so that a lookup searches few of them, and drop what is left of files that went.

Sizes grow by tiers, as in an LSM tree: an event is written anew once for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from photon.event_store.segments import (
    Places,
    Reused,
    Segment,
    SegmentInfo,
    concat,
    open_segment,
    reused_in,
    write_segment,
)
from photon.pipeline.location import Location

# With six to a tier, 50 million events are in at most 35 segments and mostly in half of that; each event is
# written some six times, at 0.2 us.
SEGMENTS_A_TIER = 6
SMALLEST_TIER_EVENTS = 4096
MERGED_AT_ONCE_EVENTS = 2**20  # bounds memory: 40 MiB, and as much again while they are sorted


@dataclass(frozen=True)
class SegmentCompaction:
    """Segments to be replaced by one, without the events of files that went."""

    sources: tuple[SegmentInfo, ...]
    events_of: dict[int, int]  # events of the new segment by file; empty: there is none


def next_compaction(segments: Sequence[SegmentInfo], live_files: Collection[int]) -> SegmentCompaction | None:
    """The segments to merge now: one that is half dead, else the smallest tier that is full."""
    for segment in segments:
        live = live_events([segment], live_files)
        if 2 * sum(live.values()) <= segment.events:
            return SegmentCompaction((segment,), live)
    tiers: dict[int, list[SegmentInfo]] = defaultdict(list)
    for segment in segments:
        tiers[tier_of(segment.events)].append(segment)
    for _, members in sorted(tiers.items()):
        if len(members) >= SEGMENTS_A_TIER:
            return SegmentCompaction(tuple(members), live_events(members, live_files))
    return None


def tier_of(events: int) -> int:
    """The tier of a segment of this size: each is six times the one below it."""
    tier, bound = 0, SMALLEST_TIER_EVENTS
    while events >= bound:
        tier, bound = tier + 1, bound * SEGMENTS_A_TIER
    return tier


def live_events(segments: Sequence[SegmentInfo], live_files: Collection[int]) -> dict[int, int]:
    """How many events the segments hold of each file that is there."""
    events: dict[int, int] = defaultdict(int)
    for segment in segments:
        for number, count in segment.events_of.items():
            if number in live_files:
                events[number] += count
    return dict(events)


@dataclass
class CompactedSegment:
    """The new segment of a merge, and the reused ids that it met."""

    segment: SegmentInfo | None = None  # None: it would be empty
    met: int = 0  # reused ids among all events of the sources
    left: Reused = field(default_factory=Reused)  # among those of the new segment

    def newly_reused(self, compaction: SegmentCompaction) -> int:
        """How many reused ids no source knew of, since their events lie in several of them."""
        return max(0, self.met - sum(source.reused.count for source in compaction.sources))


def compact(folder: Location, compaction: SegmentCompaction, name: str) -> CompactedSegment:
    """Write the new segment. Its sources stay. SegmentDamaged, OSError."""
    events, compacted = sum(compaction.events_of.values()), CompactedSegment()
    if events:
        sources = [open_segment(folder, source.name) for source in compaction.sources]
        live = np.fromiter(compaction.events_of, np.uint32)
        write_segment(folder, name, _merged(sources, live, compacted), events)
        compacted.segment = SegmentInfo(name, compaction.events_of, compacted.left)
    return compacted


def _merged(sources: Sequence[Segment], live: np.ndarray, compacted: CompactedSegment) -> Iterator[Places]:
    """The live events of all sources by hash, in parts: hashes are even, so equal stretches of them are."""
    parts = -(-sum(source.events for source in sources) // MERGED_AT_ONCE_EVENTS)
    bounds = np.array([(2**64 * part) // parts for part in range(1, parts)], np.uint64)
    cuts = [[0, *np.searchsorted(s.places.hashes, bounds).tolist(), s.events] for s in sources]
    for part in range(parts):
        slices = (slice(cut[part], cut[part + 1]) for cut in cuts)
        places = concat([source.places.take(rows) for source, rows in zip(sources, slices, strict=True)])
        places = places.sorted()
        compacted.met += reused_in(places).count
        places = places.take(np.isin(places.files, live))
        compacted.left += reused_in(places)
        yield places
