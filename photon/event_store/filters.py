"""Filters: the sorted hashes of entries, kept in memory, and the search in them.

Pure search, and a bounded memory of arrays for one process. Where the arrays come from is `log_file_map`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from photon.event_store.entries import LARGEST_TICK, LEAST_TICK, Span, to_ticks
from photon.event_store.hashing import Hashes

TimeWindow = tuple[int, int] | None  # first and last microsecond, both included; None: all the time

FILTER_OVERHEAD_BYTES = 400  # the array's object, its blob's, and a node and slot of the OrderedDict
_INT64 = np.iinfo(np.int64)


class Filters:
    """Filters of one map by entry, at most `capacity_bytes`; the least recently used goes first.

    `lock` is held by whoever uses it. `seen_change` is the map's change up to which it is current.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.lock = threading.Lock()
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.seen_change = 0
        self._arrays: OrderedDict[int, Hashes] = OrderedDict()

    def get(self, entry: int) -> Hashes | None:
        """The filter of `entry`, if it is remembered."""
        if entry not in self._arrays:
            return None
        self._arrays.move_to_end(entry)
        return self._arrays[entry]

    def put(self, entry: int, hashes: Hashes) -> Hashes:
        """Remember a filter that is not remembered; returns it."""
        self._arrays[entry] = hashes
        self.used_bytes += _cost_bytes(hashes)
        while self.used_bytes > self.capacity_bytes:
            self.used_bytes -= _cost_bytes(self._arrays.popitem(last=False)[1])
        return hashes

    def forget(self, entries: Iterable[int]) -> None:
        """Forget filters that are not current any more."""
        for entry in entries:
            hashes = self._arrays.pop(entry, None)
            if hashes is not None:
                self.used_bytes -= _cost_bytes(hashes)


def _cost_bytes(hashes: Hashes) -> int:
    return hashes.nbytes + FILTER_OVERHEAD_BYTES


# Of the map used last: tasks of one process serve one datacenter, and a new epoch's map replaces the old one.
_process_filters: tuple[str, Filters] | None = None
_process_lock = threading.Lock()


def process_filters(map_id: str, capacity_bytes: int) -> Filters:
    """The filters of this process for the map `map_id`; those of another map are dropped."""
    global _process_filters
    with _process_lock:
        if _process_filters is None or _process_filters[0] != map_id:
            _process_filters = (map_id, Filters(capacity_bytes))
        _process_filters[1].capacity_bytes = capacity_bytes
        return _process_filters[1]


def window_ticks(windows: Sequence[TimeWindow]) -> tuple[np.ndarray, np.ndarray]:
    """First and last tick of each window."""
    firsts = [LEAST_TICK if window is None else max(window[0], int(_INT64.min)) for window in windows]
    lasts = [LARGEST_TICK if window is None else min(window[1], int(_INT64.max)) for window in windows]
    everywhere = np.array([window is None for window in windows], bool)
    first_ticks = to_ticks(np.array(firsts, np.int64))
    last_ticks = to_ticks(np.array(lasts, np.int64))
    first_ticks[everywhere], last_ticks[everywhere] = LEAST_TICK, LARGEST_TICK
    return first_ticks, last_ticks


def merged_windows(windows: Sequence[TimeWindow]) -> list[Span]:
    """The windows in ticks, those that overlap made one."""
    firsts, lasts = window_ticks(windows)
    merged: list[Span] = []
    for first, last in sorted(set(zip(firsts.tolist(), lasts.tolist(), strict=True))):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def find_hashes(
    hashes: Hashes,
    windows: Sequence[TimeWindow],
    spans: Mapping[int, Sequence[Span]],
    filters: Iterable[tuple[int, Hashes]],
) -> Iterator[tuple[int, int, int]]:
    """Where each hash is in filters of entries that its window touches: (entry, hash's index, how often).

    `spans` are those of the entries that `filters` goes through.
    """
    order = np.argsort(hashes)  # sorted needles walk a filter in order, kind to the processor's cache
    needles = hashes[order]
    firsts, lasts = (ticks[order] for ticks in window_ticks(windows))
    for entry, held in filters:
        touched = np.zeros(len(needles), bool)
        for first, last in spans[entry]:
            touched |= (firsts <= last) & (lasts >= first)
        rows = np.flatnonzero(touched)
        if not len(rows) or not len(held):
            continue
        places = np.searchsorted(held, needles[rows])
        hits = held[np.minimum(places, len(held) - 1)] == needles[rows]
        for row, place in zip(rows[hits].tolist(), places[hits].tolist(), strict=True):
            after = int(np.searchsorted(held, needles[row], side="right"))
            yield entry, int(order[row]), after - place
