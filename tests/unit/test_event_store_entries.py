"""How a file is cut into entries, and which times an entry says that it covers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.event_store.entries import (
    LEAST_ENTRY_BYTES,
    MAX_SPANS,
    SPAN_GAP_TICKS,
    Entry,
    EntryLimits,
    EventStretch,
    fill,
    merge_spans,
    spans_of,
    to_ticks,
    uncovered,
)

LIMITS = EntryLimits(entry_bytes=1_000, span_ticks=15)


def stretch(start: int, lines: list[tuple[int, int]], end: int | None = None) -> EventStretch:
    """Lines as (bytes with newline, tick), one after the other from `start` on."""
    ends = start + np.cumsum([length for length, _ in lines], dtype=np.int64)
    offsets = np.concatenate(([start], ends[:-1])).astype(np.int64)[: len(lines)]
    ticks = np.array([tick for _, tick in lines], np.int64)
    last = int(ends[-1]) if len(lines) else start
    return EventStretch(1, start, end or last, offsets, ends - 1, ticks, offsets.astype(np.uint64))


def cover(entries: list[Entry]) -> list[tuple[int, int]]:
    return [(entry.start_bytes, entry.end_bytes) for entry in entries]


BY_TIME = EntryLimits(10**6, span_ticks=15)
PAGE = LEAST_ENTRY_BYTES


@pytest.mark.parametrize(
    ("limits", "lines", "ends"),
    [
        pytest.param(LIMITS, [(400, 0)] * 5, [800, 1600, 2000], id="full at its bytes"),
        pytest.param(LIMITS, [(500, 0), (501, 0)], [1001], id="filled to the last byte"),
        pytest.param(LIMITS, [(500, 0), (502, 0)], [500, 1002], id="one byte too many"),
        pytest.param(
            LIMITS, [(10, 0), (5000, 0), (10, 0)], [10, 5010, 5020], id="a line longer than an entry"
        ),
        pytest.param(
            BY_TIME,
            [(PAGE, 0), (100, 15), (100, 16), (100, 17)],
            [PAGE + 100, PAGE + 300],
            id="full at its time",
        ),
        pytest.param(
            BY_TIME,
            [(100, 1_000 * i) for i in range(10)],
            [1_000],
            id="below a page, its time does not close it",
        ),
    ],
)
def test_a_file_is_cut_into_entries_that_are_full(limits, lines, ends) -> None:
    entries = fill(None, stretch(0, lines), limits)
    assert cover(entries) == list(zip([0, *ends[:-1]], ends, strict=True))
    assert [(entry.read_start, entry.read_end + 1) for entry in entries] == cover(entries)


def test_the_last_entry_is_extended_while_it_has_room() -> None:
    (last,) = fill(None, stretch(0, [(400, 0)]), LIMITS)
    entries = fill(last, stretch(400, [(400, 0), (400, 0)]), LIMITS)
    assert cover(entries) == [(0, 800), (800, 1200)]
    assert entries[0].hashes.tolist() == [0, 400]


def test_a_full_last_entry_is_left_as_it_is() -> None:
    (last,) = fill(None, stretch(0, [(1000, 0)]), LIMITS)
    assert cover(fill(last, stretch(1000, [(400, 0)]), LIMITS)) == [(1000, 1400)]


def test_bytes_between_records_are_covered_but_not_read() -> None:
    """A line of a gigabyte, which is a dead letter, lies between two records."""
    before, after = stretch(0, [(100, 0)], end=10**9), stretch(10**9, [(100, 0)])
    first = fill(None, before, LIMITS)
    entries = fill(first[-1], after, LIMITS)
    assert cover(first) == [(0, 10**9)]
    assert (first[0].read_start, first[0].read_end) == (0, 99)
    assert [(e.read_start, e.read_end) for e in entries] == [(10**9, 10**9 + 99)]


def test_a_stretch_without_records_is_covered_too() -> None:
    (empty,) = fill(None, stretch(0, [], end=50), LIMITS)
    assert cover([empty]) == [(0, 50)]
    (extended,) = fill(empty, stretch(50, [(10, 3)]), LIMITS)
    assert (extended.start_bytes, extended.read_start, extended.read_end) == (0, 50, 59)
    (again,) = fill(extended, stretch(60, [], end=90), LIMITS)
    assert (again.end_bytes, again.read_end) == (90, 59)


@given(
    st.lists(st.lists(st.tuples(st.integers(2, 1_500), st.integers(-100, 100)), max_size=12), max_size=6),
    st.integers(1, 3_000),
    st.integers(1, 50),
)
def test_entries_are_disjoint_and_hold_every_record_once(batches, entry_bytes, span_ticks) -> None:
    limits, entries, at = EntryLimits(entry_bytes, span_ticks), [], 0
    hashes, longest = [], 0
    for lines in batches:
        new = stretch(at, lines, end=at + sum(length for length, _ in lines) + 7)
        last = entries[-1] if entries else None
        filled = fill(last, new, limits)
        if last is not None and filled[0].start_bytes == last.start_bytes:
            entries.pop()
        entries += filled
        at = new.end_bytes
        hashes += new.hashes.tolist()
        longest = max([longest, *(length for length, _ in lines)])
    ends = [entry.end_bytes for entry in entries]
    assert cover(entries) == list(zip([0, *ends][:-1], ends, strict=True))
    assert not entries or entries[-1].end_bytes == at
    assert [each for e in entries for each in e.hashes.tolist()] == hashes
    assert all(e.read_end - e.read_start <= max(entry_bytes, longest) for e in entries)
    assert all(e.read_start <= each < e.read_end for e in entries for each in e.hashes.tolist())


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1))
def test_spans_cover_every_time_and_are_few(ticks) -> None:
    spans = spans_of(np.array(ticks))
    assert all(any(first <= tick <= last for first, last in spans) for tick in ticks)
    assert len(spans) <= MAX_SPANS


def test_a_wild_time_does_not_stretch_the_span_of_the_others() -> None:
    assert spans_of(np.array([1000, 0, 1001, 9_999])) == ((0, 0), (1000, 1001), (9_999, 9_999))


def test_of_too_many_spans_the_nearest_are_joined() -> None:
    far = 1_000 * SPAN_GAP_TICKS
    near = [(0, 0), (SPAN_GAP_TICKS + 1, SPAN_GAP_TICKS + 1)]
    spans = merge_spans([*near, *((far * i, far * i) for i in range(1, MAX_SPANS))])
    assert spans[0] == (0, SPAN_GAP_TICKS + 1)
    assert len(spans) == MAX_SPANS


def test_times_beyond_the_ticks_are_clamped() -> None:
    wild = np.array([-(2**63), 2**63 - 1, 0, -1], np.int64)
    assert to_ticks(wild).tolist() == [-(2**31), 2**31 - 1, 0, -1]


STRETCHES = st.lists(st.integers(0, 60), max_size=10, unique=True).map(
    lambda cuts: list(zip(sorted(cuts)[::2], sorted(cuts)[1::2], strict=False))
)


@given(STRETCHES, st.integers(0, 60), st.integers(0, 60))
def test_what_is_uncovered_and_what_is_covered_make_up_the_whole(covered, start, end) -> None:
    bytes_uncovered = [b for first, last in uncovered(covered, start, end) for b in range(first, last)]
    inside = {b for first, last in covered for b in range(first, last)}
    assert bytes_uncovered == [b for b in range(start, end) if b not in inside]
