"""Index primary events: from parsed events to a segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.clock import MICROSECONDS
from photon.event_store.hashing import Hashes, hash_ids
from photon.event_store.segments import Places, SegmentInfo, events_of, write_segment

FIRST_YEAR_US = 365 * 24 * 3600 * MICROSECONDS  # 1970


@dataclass(frozen=True)
class Indexed:
    """The primary events of one task are in a segment, which no lookup sees before it is listed."""

    segment: SegmentInfo | None = None  # None: there were no events
    max_time_us: Mapping[int, int] = field(default_factory=dict)  # by file number
    # Sorted, each once, of the ids: wakes foreign events that wait for them.
    new_hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))

    @property
    def events(self) -> int:
        return self.segment.events if self.segment is not None else 0


@dataclass(frozen=True, slots=True)
class PlausibleTimes:
    """Between which times an event must lie to say how far its log is read (protocol C6)."""

    first_us: int
    last_us: int

    @staticmethod
    def at(now_us: int, clock_tolerance_us: int) -> PlausibleTimes:
        """A time of 1970 comes of a clock that was not set, one far ahead of a clock that is wrong."""
        return PlausibleTimes(FIRST_YEAR_US, now_us + clock_tolerance_us)

    def among(self, events: pa.Table) -> pa.Table:
        """The events that lie between these times."""
        times_us = events["_time_us"]
        is_plausible = pc.and_(
            pc.greater_equal(times_us, self.first_us), pc.less_equal(times_us, self.last_us)
        )
        return events if pc.all(is_plausible).as_py() else events.filter(is_plausible)


def index_events(
    events: pa.Table, folder: Path, name: str, plausible: PlausibleTimes | None = None
) -> Indexed:
    """Write a segment of events (`photon.logs.parse.PRIMARY_EVENTS`), also where there are none. OSError.

    Times that are not `plausible` are in the segment, and do not count as the latest of their file.
    """
    places = Places(
        hash_ids(events["_id"]),
        events["_time_us"].to_numpy(),
        events["_offset"].to_numpy(),
        events["_file"].to_numpy().astype(np.uint32),
        pc.binary_length(events["_raw"]).to_numpy().astype(np.uint32),
    ).sorted()
    write_segment(folder, name, [places], len(places))
    if not len(places):
        return Indexed()
    timed = events if plausible is None else plausible.among(events)
    latest = timed.group_by("_file").aggregate([("_time_us", "max")])
    is_new = np.concatenate(([True], places.hashes[1:] != places.hashes[:-1]))
    return Indexed(
        SegmentInfo(name, events_of(places)),
        dict(zip(latest["_file"].to_pylist(), latest["_time_us_max"].to_pylist(), strict=True)),
        places.hashes[is_new],
    )
