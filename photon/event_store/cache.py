"""CacheEventStore: recent primary events by id, in the memory of one process (paper, section 3.3).

Best effort: it may forget anything at any time, and is filled again from the logs. It does not say
which of several copies of an id counts, nor whether an id exists: that is for `logs` and the log
file map.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable

import pyarrow as pa

from photon.event_store.interface import PrimaryEvent

# An event without its id and raw bytes costs a tuple of five (96 bytes with the collector's head), two
# integers (64), and a node and a slot of an OrderedDict that may be a third full (about 200).
EVENT_OVERHEAD_BYTES = 360

_Kept = tuple[int, int, int, bytes, bytes]  # time_us, file number, offset, raw, header


class CacheEventStore:
    """Primary events by id, at most `capacity_bytes` of memory; least recently used goes first."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._events: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, events: Iterable[PrimaryEvent]) -> None:
        """Remember events; a later one of the same id takes the place of an earlier one."""
        with self._lock:
            for event in events:
                self._put(
                    event.id,
                    (event.time_us, event.file_number, event.offset_bytes, event.raw, event.header),
                )

    def put_table(self, events: pa.Table, header: bytes) -> None:
        """Remember the events of one file: columns `_file, _offset, _raw, _id, _time_us`."""
        names = ("_id", "_time_us", "_file", "_offset", "_raw")
        columns = (events.column(name).to_pylist() for name in names)
        with self._lock:
            for event_id, time_us, file_number, offset_bytes, raw in zip(*columns, strict=True):
                self._put(event_id, (time_us, file_number, offset_bytes, raw, header))

    def get(self, event_id: str) -> PrimaryEvent | None:
        """The event of `event_id`, if it is remembered; it counts as used now."""
        with self._lock:
            kept = self._events.get(event_id)
            if kept is None:
                return None
            self._events.move_to_end(event_id)
        time_us, file_number, offset_bytes, raw, header = kept
        return PrimaryEvent(event_id, time_us, file_number, offset_bytes, raw, header)

    def _put(self, event_id: str, kept: _Kept) -> None:
        before = self._events.pop(event_id, None)
        if before is not None:
            self.used_bytes -= _cost_bytes(event_id, before)
        cost_bytes = _cost_bytes(event_id, kept)
        if cost_bytes > self.capacity_bytes:
            return
        while self.used_bytes + cost_bytes > self.capacity_bytes:
            self.used_bytes -= _cost_bytes(*self._events.popitem(last=False))
        self._events[event_id] = kept
        self.used_bytes += cost_bytes


def _cost_bytes(event_id: str, kept: _Kept) -> int:
    """Memory of one event. The header is shared by all events of its file and not counted."""
    return sys.getsizeof(event_id) + sys.getsizeof(kept[3]) + EVENT_OVERHEAD_BYTES
