"""Entries of the log file map: how a file is cut into them, which times they cover, and the search in them.

Times are in *ticks* of 4 s here, clamped to 32 bits (the years 1697 to 2242), as the map's R*Tree holds
them. That only decides which entries are looked at; the exact time is read from the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from photon.event_store.hashing import Hashes
from photon.event_store.interface import TimeWindow

TICK_US = 4_000_000
LEAST_TICK, LARGEST_TICK = -(2**31), 2**31 - 1
# A wild time (1970, 2100) must not stretch an entry over all the time between: gaps above a minute split it.
SPAN_GAP_TICKS = 15
MAX_SPANS = 8
# An entry shorter than a disk page is not closed for its time span: a slow file would have an entry a line.
LEAST_ENTRY_BYTES = 4096

Ints = npt.NDArray[np.int64]
Span = tuple[int, int]  # first and last tick, both included


@dataclass(frozen=True)
class EventStretch:
    """The events of one stretch of a primary file, in the order of the file.

    `line_ends` are where each record's bytes end, without its newline.
    """

    file_number: int
    start_bytes: int
    end_bytes: int
    offsets: Ints
    line_ends: Ints
    ticks: Ints
    hashes: Hashes

    def between(self, start_bytes: int, end_bytes: int) -> EventStretch:
        first, last = np.searchsorted(self.offsets, [start_bytes, end_bytes])
        rows = slice(int(first), int(last))
        return EventStretch(
            self.file_number,
            start_bytes,
            end_bytes,
            self.offsets[rows],
            self.line_ends[rows],
            self.ticks[rows],
            self.hashes[rows],
        )


@dataclass(frozen=True)
class Entry:
    """An indexed stretch [start, end) of a file, and the ids in it.

    A lookup reads from `read_start` to `read_end`, the bytes of its records (equal where it has none).
    `hashes` are sorted, one for each record.
    """

    start_bytes: int
    end_bytes: int
    read_start: int
    read_end: int
    spans: tuple[Span, ...]
    hashes: Hashes


@dataclass(frozen=True, slots=True)
class EntryLimits:
    """When an entry is full. Smaller ones read less for a lookup in the logs, and make a larger map."""

    entry_bytes: int = 256 * 2**10
    span_ticks: int = 60_000_000 // TICK_US


ENTRY_LIMITS = EntryLimits()


def to_ticks(times_us: Ints) -> Ints:
    """Microseconds since 1970 as ticks."""
    return np.clip(np.floor_divide(times_us, TICK_US), LEAST_TICK, LARGEST_TICK)


def uncovered(covered: Sequence[tuple[int, int]], start_bytes: int, end_bytes: int) -> list[tuple[int, int]]:
    """The parts of [start, end) that none of the stretches `covered` (ordered, disjoint) covers."""
    gaps, cursor = [], start_bytes
    for first, last in covered:
        if first > cursor:
            gaps.append((cursor, min(first, end_bytes)))
        cursor = max(cursor, last)
    if cursor < end_bytes:
        gaps.append((cursor, end_bytes))
    return [(first, last) for first, last in gaps if first < last]


def merge_spans(spans: Iterable[Span], most: int = MAX_SPANS) -> tuple[Span, ...]:
    """At most `most` spans that cover all of `spans`; the smallest gaps are closed first."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first - merged[-1][1] <= SPAN_GAP_TICKS:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    while len(merged) > most:
        at = min(range(1, len(merged)), key=lambda i: merged[i][0] - merged[i - 1][1])
        merged[at - 1 : at + 1] = [(merged[at - 1][0], merged[at][1])]
    return tuple(merged)


def spans_of(ticks: Ints) -> tuple[Span, ...]:
    """The spans that cover `ticks`."""
    if not len(ticks):
        return ()
    earliest, latest = int(ticks.min()), int(ticks.max())
    if latest - earliest <= SPAN_GAP_TICKS:
        return ((earliest, latest),)
    ordered = np.unique(ticks)
    breaks = np.flatnonzero(np.diff(ordered) > SPAN_GAP_TICKS)
    firsts = ordered[np.concatenate(([0], breaks + 1))].tolist()
    lasts = ordered[np.concatenate((breaks, [len(ordered) - 1]))].tolist()
    return merge_spans(zip(firsts, lasts, strict=True))


def fill(last: Entry | None, stretch: EventStretch, limits: EntryLimits) -> list[Entry]:
    """The entries that hold `stretch`, which begins where `last` ends (None: nothing before it is indexed).

    The first one is `last` extended, if it had room.
    """
    entries: list[Entry] = []
    current, at = last, 0
    while at < len(stretch.offsets):
        take = _fitting(current, stretch, at, limits)
        if take:
            current = _extended(current, stretch, at, at + take)
            at += take
        else:  # full
            entries.append(current)  # type: ignore[arg-type]  # an empty entry takes at least one record
            current = None
    if current is None:  # without records, an entry says that the file is indexed so far
        start = stretch.start_bytes
        current = Entry(start, start, start, start, (), np.empty(0, np.uint64))
    entries.append(replace(current, end_bytes=stretch.end_bytes))
    if last is not None and entries[0] is last:
        del entries[0]
    return entries


def _fitting(current: Entry | None, stretch: EventStretch, at: int, limits: EntryLimits) -> int:
    """How many records from `at` on have room in `current`; an empty entry has room for one of any size."""
    empty = current is None or not len(current.hashes)
    read_start = int(stretch.offsets[at]) if empty else current.read_start  # type: ignore[union-attr]
    ends = stretch.line_ends[at:]
    by_bytes = int(np.searchsorted(ends, read_start + limits.entry_bytes, side="right"))
    ticks = stretch.ticks[at : at + by_bytes]
    if not empty and len(ticks):
        spans = current.spans  # type: ignore[union-attr]
        ticks = np.concatenate(([spans[0][0], spans[-1][1]], ticks))
    widths = np.maximum.accumulate(ticks) - np.minimum.accumulate(ticks)
    widths = widths[len(widths) - by_bytes :]
    too_wide = (widths > limits.span_ticks) & (ends[:by_bytes] - read_start > LEAST_ENTRY_BYTES)
    fitting = int(np.argmax(too_wide)) if too_wide.any() else by_bytes
    return max(fitting, 1) if empty else fitting


def _extended(current: Entry | None, stretch: EventStretch, first: int, last: int) -> Entry:
    """`current` with the records `first` to `last` of `stretch`; it covers all up to the next record."""
    start = int(stretch.offsets[first]) if first else stretch.start_bytes
    end = int(stretch.offsets[last]) if last < len(stretch.offsets) else stretch.end_bytes
    read_start, read_end = int(stretch.offsets[first]), int(stretch.line_ends[last - 1])
    spans = spans_of(stretch.ticks[first:last])
    if current is None:
        return Entry(start, end, read_start, read_end, spans, np.sort(stretch.hashes[first:last]))
    if len(current.hashes):
        read_start = current.read_start
    hashes = np.sort(np.concatenate((current.hashes, stretch.hashes[first:last])))
    return Entry(
        current.start_bytes, end, read_start, read_end, merge_spans((*current.spans, *spans)), hashes
    )


def window_ticks(windows: Sequence[TimeWindow]) -> tuple[Ints, Ints]:
    """First and last tick of each window."""
    all_time = np.iinfo(np.int64)
    bounds = [
        (max(all_time.min, window[0]), min(window[1], all_time.max))
        if window
        else (all_time.min, all_time.max)
        for window in windows
    ]
    ticks = to_ticks(np.array(bounds, np.int64).reshape(-1, 2))
    return ticks[:, 0], ticks[:, 1]


def find_hashes(
    hashes: Hashes,
    windows: Sequence[TimeWindow],
    spans: Mapping[int, Sequence[Span]],
    filters: Iterable[tuple[int, Hashes]],
) -> Iterator[tuple[int, int, int]]:
    """Where each hash is in filters of entries that its window touches: (entry, hash's index, how often)."""
    order = np.argsort(hashes)  # sorted hashes walk a filter in order, which saves cache misses
    sorted_hashes = hashes[order]
    firsts, lasts = (ticks[order] for ticks in window_ticks(windows))
    for entry, held in filters:
        touched = np.zeros(len(sorted_hashes), bool)
        for first, last in spans[entry]:
            touched |= (firsts <= last) & (lasts >= first)
        rows = np.flatnonzero(touched)
        if not len(rows) or not len(held):
            continue
        places = np.searchsorted(held, sorted_hashes[rows])
        hits = held[np.minimum(places, len(held) - 1)] == sorted_hashes[rows]
        for row, place in zip(rows[hits].tolist(), places[hits].tolist(), strict=True):
            after = int(np.searchsorted(held, sorted_hashes[row], side="right"))
            yield entry, int(order[row]), after - place
