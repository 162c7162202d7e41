"""Segments: what is written is found, what is damaged is told, and merging keeps what is alive."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.event_store import compaction
from photon.event_store.compaction import (
    SEGMENTS_A_TIER,
    SMALLEST_TIER_EVENTS,
    compact,
    next_compaction,
    tier_of,
)
from photon.event_store.segments import (
    FORMAT_VERSION,
    Places,
    Segment,
    SegmentDamaged,
    SegmentInfo,
    concat,
    events_of,
    file_name,
    write_segment,
)
from photon.process.errors import FormatTooNew

HASHES = st.lists(st.integers(0, 20) | st.integers(2**64 - 5, 2**64 - 1), max_size=60)


def places(hashes: list[int], file: int = 1) -> Places:
    """One event for each hash, each at another place of `file`."""
    count = len(hashes)
    return Places(
        np.array(hashes, np.uint64),
        np.arange(count, dtype=np.int64),
        np.arange(count, dtype=np.uint64),
        np.arange(count, dtype=np.int64) * 100 + file * 10_000,
        np.full(count, file, np.uint32),
        np.full(count, 99, np.uint32),
    ).sorted()


def write(folder: Path, name: str, each: Places) -> SegmentInfo:
    """A segment of these events."""
    write_segment(folder, name, [each], len(each))
    return SegmentInfo(name, events_of(each))


def read(folder: Path, name: str) -> Places:
    """The events of a segment."""
    segment = Segment(folder / file_name(name))
    segment.check()
    return segment.places


def rows_of(each: Places) -> list[tuple[int, int, int]]:
    """Hash, file and offset of each event, sorted."""
    return sorted(zip(each.hashes.tolist(), each.files.tolist(), each.offsets_bytes.tolist(), strict=True))


@given(held=HASHES, wanted=HASHES)
def test_a_search_finds_every_event_with_one_of_the_hashes(tmp_path_factory, held, wanted) -> None:
    folder = tmp_path_factory.mktemp("index")
    write(folder, "s", places(held))
    segment, ordered = Segment(folder / file_name("s")), np.array(sorted(set(wanted)), np.uint64)
    rows, which = segment.find(ordered)
    assert (segment.places.hashes[rows] == ordered[which]).all()
    assert rows_of(segment.places.take(rows)) == [row for row in rows_of(places(held)) if row[0] in wanted]


def test_readers_see_a_segment_only_when_it_is_whole(tmp_path: Path) -> None:
    write(tmp_path, "s", places([1]))

    def dies_half_way():
        yield places([2])
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_segment(tmp_path, "s", dies_half_way(), 2)
    assert read(tmp_path, "s").hashes.tolist() == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["s.segment"]


@pytest.mark.parametrize("column", range(6))
def test_one_altered_byte_of_any_column_is_found_by_the_check(tmp_path: Path, column: int) -> None:
    write(tmp_path, "s", places(list(range(10))))
    path = tmp_path / file_name("s")
    data = bytearray(path.read_bytes())
    start = len(data) - 10 * 40
    data[start + 10 * [0, 8, 16, 24, 32, 36][column]] ^= 1
    path.write_bytes(data)
    with pytest.raises(SegmentDamaged, match="checksum"):
        Segment(path).check()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "s", places([1]))
    path = tmp_path / file_name("s")
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 8, FORMAT_VERSION + 1)
    path.write_bytes(data)
    with pytest.raises(FormatTooNew):
        Segment(path)


@given(parts=st.lists(HASHES, min_size=1, max_size=4), dead=st.sets(st.integers(0, 3)))
def test_a_merge_has_the_live_events_of_all_its_sources_by_hash(tmp_path_factory, parts, dead) -> None:
    folder = tmp_path_factory.mktemp("index")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compaction, "MERGED_AT_ONCE_EVENTS", 7)
        each = [places(hashes, file=number) for number, hashes in enumerate(parts)]
        infos = tuple(write(folder, f"s{number}", one) for number, one in enumerate(each))
        live = {number for number in range(len(parts)) if number not in dead}
        merged = compact(
            folder, compaction.SegmentCompaction(infos, compaction.live_events(infos, live)), "merged"
        ).segment
    expected = rows_of(concat([one for number, one in enumerate(each) if number in live]))
    if merged is None:
        assert expected == []
    else:
        result = read(folder, "merged")
        assert rows_of(result) == expected
        assert result.hashes.tolist() == sorted(result.hashes.tolist())
        assert merged.events_of == events_of(result)


def test_a_tier_is_merged_when_it_is_full_and_not_before() -> None:
    small = [SegmentInfo(str(number), {1: 10}) for number in range(SEGMENTS_A_TIER)]
    assert next_compaction(small[:-1], {1}) is None
    full = next_compaction(small, {1})
    assert full is not None
    assert (set(full.sources), full.events_of) == (set(small), {1: 10 * SEGMENTS_A_TIER})


def test_segments_of_other_sizes_are_left_alone() -> None:
    sizes = [SMALLEST_TIER_EVENTS * SEGMENTS_A_TIER**tier for tier in range(4)]
    large = [SegmentInfo(f"{size}-{number}", {1: size}) for size in sizes for number in range(3)]
    small = [SegmentInfo(f"small-{number}", {1: 10}) for number in range(SEGMENTS_A_TIER)]
    full = next_compaction([*large, *small], {1})
    assert full is not None
    assert set(full.sources) == set(small)


def test_a_segment_of_which_half_is_dead_is_written_again_and_one_that_is_all_dead_goes() -> None:
    assert next_compaction([SegmentInfo("s", {1: 6, 2: 4})], {1}) is None
    half = next_compaction([SegmentInfo("s", {1: 5, 2: 5})], {1})
    assert half is not None
    assert half.events_of == {1: 5}
    gone = next_compaction([SegmentInfo("s", {1: 5, 2: 5})], {3})
    assert gone is not None
    assert gone.events_of == {}


def test_fifty_million_events_in_batches_are_in_at_most_thirty_five_segments_written_seven_times() -> None:
    segments: list[SegmentInfo] = []
    written = most = total = 0
    while total < 50_000_000:
        batch = 5_000 + 130_000 * (total % 7 == 0)
        segments.append(SegmentInfo(str(total), {1: batch}))
        total += batch
        while (merge := next_compaction(segments, {1})) is not None:
            segments = [each for each in segments if each not in merge.sources]
            segments.append(SegmentInfo(f"merged {total} {len(segments)}", merge.events_of))
            written += sum(merge.events_of.values())
        most = max(most, len(segments))
    assert most <= 35
    assert written <= 7 * total


@given(st.integers(0, 10**12))
def test_a_tier_holds_segments_within_a_factor(events: int) -> None:
    tier = tier_of(events)
    low = 0 if tier == 0 else SMALLEST_TIER_EVENTS * SEGMENTS_A_TIER ** (tier - 1)
    assert low <= events < SMALLEST_TIER_EVENTS * SEGMENTS_A_TIER**tier
