"""Index primary events: from parsed events to a segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.hashing import Hashes, digests_of, hash_ids
from photon.event_store.segments import (
    Places,
    Reused,
    SegmentInfo,
    concat,
    events_of,
    reused_in,
    write_segment,
)
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS

Ints = npt.NDArray[np.int64]

FIRST_YEAR_US = 365 * 24 * 3600 * MICROSECONDS  # 1970


@dataclass(frozen=True)
class Indexed:
    """The primary events of one task are in a segment, which no lookup sees before it is listed."""

    segment: SegmentInfo | None = None  # None: there were no events
    max_time_us: Mapping[int, int] = field(
        default_factory=dict
    )  # file number -> latest time; only files with an event
    # Sorted, each once, of the ids: wakes foreign events that wait for them.
    new_hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))

    @property
    def events(self) -> int:
        return self.segment.events if self.segment is not None else 0

    @property
    def reused(self) -> Reused:
        return self.segment.reused if self.segment is not None else Reused()


@dataclass(frozen=True, slots=True)
class PlausibleTimes:
    """Between which times an event must lie to say how far its log is read (protocol C6)."""

    first_us: int
    last_us: int

    @staticmethod
    def at(now_us: int, clock_tolerance_us: int) -> PlausibleTimes:
        """A time of 1970 comes of a clock that was not set, one far ahead of a clock that is wrong."""
        return PlausibleTimes(FIRST_YEAR_US, now_us + clock_tolerance_us)

    def among(self, times_us: Ints) -> npt.NDArray[np.bool_]:
        """Which of these times lie between them."""
        return (self.first_us <= times_us) & (times_us <= self.last_us)

    def latest(self, files: npt.NDArray[Any], times_us: Ints) -> dict[int, int]:
        """The latest of the events of each file that lie between these times, by file number."""
        is_among = self.among(times_us)
        by_file = pa.table([files[is_among], times_us[is_among]], ["file", "time_us"]).group_by("file")
        numbers, latest_us = by_file.aggregate([("time_us", "max")]).columns
        return dict(zip(numbers.to_pylist(), latest_us.to_pylist(), strict=True))


EVER = PlausibleTimes(-(2**63), 2**63 - 1)


def index_events(
    parts: Iterable[pa.Table], folder: Location, name: str, plausible: PlausibleTimes = EVER
) -> Indexed:
    """Write a segment of events (`photon.logs.parse.PRIMARY_EVENTS`), also where there are none. OSError.

    Of each part only 40 bytes an event are kept, so pass a generator. Times that are not `plausible` are in
    the segment, and do not count as the latest of their file.
    """
    places = concat([_places(events) for events in parts]).sorted()
    write_segment(folder, name, [places], len(places))
    if not len(places):
        return Indexed()
    is_new = np.concatenate(([True], places.hashes[1:] != places.hashes[:-1]))
    return Indexed(
        SegmentInfo(name, events_of(places), reused_in(places)),
        plausible.latest(places.files, places.times_us),
        places.hashes[is_new],
    )


def _places(events: pa.Table) -> Places:
    return Places(
        hash_ids(events["_id"]),
        events["_time_us"].to_numpy(),
        digests_of(events["_raw"]),
        events["_offset"].to_numpy(),
        events["_file"].to_numpy().astype(np.uint32),
        pc.binary_length(events["_raw"]).to_numpy().astype(np.uint32),
    )
