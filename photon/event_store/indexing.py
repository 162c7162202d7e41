"""Index primary events: from parsed events to a segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.hashing import Hashes, hash_ids
from photon.event_store.segments import Places, SegmentInfo, events_of, write_segment


@dataclass(frozen=True)
class Indexed:
    """The primary events of one task are in a segment, which no lookup sees before it is listed."""

    segment: SegmentInfo | None = None  # None: there were no events
    max_time_us: Mapping[int, int] = field(default_factory=dict)  # by file number, of files with an event
    # Sorted, each once, of the ids: wakes foreign events that wait for them.
    new_hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))

    @property
    def events(self) -> int:
        return self.segment.events if self.segment is not None else 0


def index_events(events: pa.Table, folder: Path, name: str) -> Indexed:
    """Write a segment of events (`photon.logs.parse.PRIMARY_EVENTS`), also where there are none. OSError."""
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
    latest = events.group_by("_file").aggregate([("_time_us", "max")])
    is_new = np.concatenate(([True], places.hashes[1:] != places.hashes[:-1]))
    return Indexed(
        SegmentInfo(name, events_of(places)),
        dict(zip(latest["_file"].to_pylist(), latest["_time_us_max"].to_pylist(), strict=True)),
        places.hashes[is_new],
    )
