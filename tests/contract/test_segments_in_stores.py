"""Index segments in a local folder and on S3 alike; this machine's copies of those on S3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from photon.event_store.compaction import SegmentCompaction, compact
from photon.event_store.logs import open_segments
from photon.event_store.segments import (
    Places,
    SegmentDamaged,
    SegmentInfo,
    check_segment,
    file_name,
    open_segment,
    write_segment,
)
from photon.pipeline.location import Location, S3Folder
from photon.storage import local_copies
from photon.storage.store import store_of

pytestmark = pytest.mark.usefixtures("copies")


def made(folder: Location, name: str, hashes: list[int], file: int = 1) -> SegmentInfo:
    count = len(hashes)
    places = Places(
        np.array(hashes, np.uint64),
        np.arange(count),
        np.arange(count, dtype=np.uint64),
        np.arange(count) * 10,
        np.full(count, file, np.uint32),
        np.full(count, 9, np.uint32),
    )
    write_segment(folder, name, [places], count)
    return SegmentInfo(name, {file: count})


def replace(folder: Location, name: str, change: Callable[[bytes], bytes]) -> None:
    whole = store_of(folder).read(file_name(name))
    store_of(folder).put(file_name(name), lambda sink: sink.write(change(whole)))


def has_copies(copies: Path) -> bool:
    return any(path.is_file() for path in copies.glob("photon-copies-*/*/*"))


def test_segments_are_found_in_and_merged(folder: Location) -> None:
    infos = made(folder, "a", [1, 5, 9]), made(folder, "b", [3, 5], file=2)
    merged = compact(folder, SegmentCompaction(infos, {1: 3, 2: 2}), "c").segment
    assert merged is not None
    check_segment(folder, merged)
    rows, _ = open_segment(folder, "c").find(np.array([3, 5], np.uint64))
    assert open_segment(folder, "c").places.take(rows).files.tolist() in ([2, 1, 2], [2, 2, 1])


def test_a_segment_that_is_gone_cut_short_or_no_segment_is_damaged(folder: Location) -> None:
    assert store_of(folder).size_bytes(file_name("a")) is None
    with pytest.raises(SegmentDamaged):
        open_segment(folder, "a")
    info = made(folder, "a", [1, 5, 9])
    for change in (lambda whole: whole[:-8], lambda whole: whole[8:], lambda whole: b""):
        replace(folder, "a", change)
        local_copies.forget(folder, file_name("a"))
        for _ in range(2):
            with pytest.raises(SegmentDamaged):
                open_segment(folder, "a")
        with pytest.raises(SegmentDamaged):
            check_segment(folder, info)


@pytest.mark.server
def test_a_copy_is_fetched_once_and_a_damaged_copy_again(on_s3: S3Folder) -> None:
    made(on_s3, "a", [1, 5, 9])
    local_copies.forget(on_s3, file_name("a"))
    assert open_segment(on_s3, "a").events == 3
    store, copy = store_of(on_s3), local_copies.path_of(on_s3, file_name("a"))
    whole = copy.read_bytes()
    store.remove(file_name("a"))
    assert open_segment(on_s3, "a").events == 3  # needs no fetch any more
    store.put(file_name("a"), lambda sink: sink.write(whole))
    copy.write_bytes(whole[:-8])
    assert open_segment(on_s3, "a").events == 3


@pytest.mark.server
def test_bytes_that_were_altered_are_noticed_when_they_are_fetched(on_s3: S3Folder) -> None:
    made(on_s3, "a", [1, 5, 9])
    local_copies.forget(on_s3, file_name("a"))
    replace(on_s3, "a", lambda whole: whole[:-1] + b"x")
    for _ in range(2):
        with pytest.raises(SegmentDamaged, match=f"{on_s3}/a.segment is damaged: .* lengths_bytes"):
            open_segment(on_s3, "a")


@pytest.mark.server
def test_copies_of_segments_that_a_merge_replaced_go(on_s3: S3Folder, copies: Path) -> None:
    made(on_s3, "a", [1])
    assert [segment.events for segment in open_segments(on_s3, ["a"])] == [1]
    assert has_copies(copies)
    assert open_segments(on_s3, []) == []
    assert not has_copies(copies)


@pytest.mark.server
def test_copies_that_were_not_used_for_longest_make_room(
    on_s3: S3Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copies, "MOST_BYTES", 600)
    names = [f"{number:02}" for number in range(2 * local_copies.LOOKED_AT_EVERY)]
    for name in names:
        made(on_s3, name, [1, 2, 3])
    left = [name for name in names if local_copies.has_copy(on_s3, file_name(name))]
    assert names[-1] in left
    assert names[0] not in left
    assert open_segment(on_s3, names[0]).events == 3
