"""What a process remembers between tasks: recent primary events, and filters of the log file map.

Best effort: both may forget anything at any time, and are filled again from the logs and the map.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from photon.event_store.hashing import Hashes
from photon.event_store.interface import PrimaryEvent

# An event without its id and raw bytes costs a tuple of five (96 bytes with the collector's head), two
# integers (64), and a node and a slot of an OrderedDict that may be a third full (about 200).
EVENT_OVERHEAD_BYTES = 360
FILTER_OVERHEAD_BYTES = 400  # the array's object, its blob's, and a node and slot of the OrderedDict

Key = TypeVar("Key")
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """Values by key, at most `capacity_bytes` of memory; the least recently used goes first."""

    def __init__(self, capacity_bytes: int, cost_bytes: Callable[[Key, Value], int]) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._cost_bytes = cost_bytes
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """The value of `key`, if it is remembered; it counts as used now."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: Key, value: Value) -> None:
        """Remember a value in place of an earlier one, unless it is larger than the whole cache."""
        self.forget(key)
        cost_bytes = self._cost_bytes(key, value)
        if cost_bytes > self.capacity_bytes:
            return
        while self.used_bytes + cost_bytes > self.capacity_bytes:
            self.used_bytes -= self._cost_bytes(*self._values.popitem(last=False))
        self._values[key] = value
        self.used_bytes += cost_bytes

    def forget(self, key: Key) -> None:
        if key in self._values:
            self.used_bytes -= self._cost_bytes(key, self._values.pop(key))


_Kept = tuple[int, int, int, bytes, bytes]  # time_us, file number, offset, raw, header


def _event_bytes(event_id: str, kept: _Kept) -> int:
    """Memory of one event. All events of a file share its header, which is not counted."""
    return sys.getsizeof(event_id) + sys.getsizeof(kept[3]) + EVENT_OVERHEAD_BYTES


class CacheEventStore:
    """Recent primary events by id, in the memory of one process (paper, section 3.3).

    It does not say which of several copies of an id counts, nor whether an id exists.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.events: LruCache[str, _Kept] = LruCache(capacity_bytes, _event_bytes)
        self._lock = threading.Lock()

    def put(self, events: Iterable[PrimaryEvent]) -> None:
        """Remember events; a later one of the same id takes the place of an earlier one."""
        with self._lock:
            for e in events:
                self.events.put(e.id, (e.time_us, e.file_number, e.offset_bytes, e.raw, e.header))

    def put_table(self, events: pa.Table, header: bytes) -> None:
        """Remember the events of one file: columns `_file, _offset, _raw, _id, _time_us`."""
        names = ("_id", "_time_us", "_file", "_offset", "_raw")
        columns = (events.column(name).to_pylist() for name in names)
        with self._lock:
            for event_id, time_us, file_number, offset_bytes, raw in zip(*columns, strict=True):
                self.events.put(event_id, (time_us, file_number, offset_bytes, raw, header))

    def get(self, event_id: str) -> PrimaryEvent | None:
        with self._lock:
            kept = self.events.get(event_id)
        return None if kept is None else PrimaryEvent(event_id, *kept)


def _filter_bytes(entry: int, hashes: Hashes) -> int:
    return hashes.nbytes + FILTER_OVERHEAD_BYTES


@dataclass
class ProcessMemory:
    """What this process remembers of the map `map_id`."""

    map_id: str
    cache: CacheEventStore = field(default_factory=lambda: CacheEventStore(0))
    # The sorted hashes of the map's entries, current up to its change `seen_change`.
    filters: LruCache[int, Hashes] = field(default_factory=lambda: LruCache(0, _filter_bytes))
    filters_lock: threading.Lock = field(default_factory=threading.Lock)  # to be held while they are used
    seen_change: int = 0


# One map is enough: a process's tasks serve one datacenter, and a new epoch's map replaces the old one.
_process_memory: ProcessMemory | None = None
_process_lock = threading.Lock()


def process_memory(map_id: str) -> ProcessMemory:
    """The memory of one map in this process; numbers differ in every other map."""
    global _process_memory
    with _process_lock:
        if _process_memory is None or _process_memory.map_id != map_id:
            _process_memory = ProcessMemory(map_id)
        return _process_memory
