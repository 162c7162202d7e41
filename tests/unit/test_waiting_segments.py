"""Waiting segments: what is written reads back, damage is noticed, and keys and due times are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from photon.pipeline.file import load_pipeline
from photon.process.errors import FormatTooNew
from photon.state.waiting import merging, segments, states
from photon.state.waiting.merging import SegmentSize, merge, next_merge
from photon.state.waiting.reasons import CODE_OF, NEVER_US, PRIMARY, REASONS, UNJOINABLE, due_us
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import (
    INDEX,
    RECORD_COLUMNS,
    RECORDS,
    WaitingDamaged,
    WaitingIndex,
    read_all_records,
    read_retries,
    write_index,
    write_segment,
)
from photon.state.waiting.states import PAGE_ROWS, WaitingState


def some_records(count: int, **columns: Any) -> pa.Table:
    """Records that are due in the order of their offsets, each with a key of its own."""
    numbers = np.arange(count)
    values = {
        "_file": np.ones(count, np.int32),
        "_offset": numbers,
        "_raw": pa.array([b"raw %d" % n for n in numbers], pa.binary()),
        "_id": [f"c{n}" for n in numbers],
        "_key": [f"q{n}" for n in numbers],
        "key_hash": numbers.astype(np.uint64) * 10,
        "due_us": numbers * 100,
        "recorded": np.zeros(count, bool),
        **columns,
    }
    arrays = [
        pa.array(values.get(field.name, np.zeros(count, np.int64))).cast(field.type)
        for field in RECORD_COLUMNS
    ]
    return pa.table(arrays, schema=RECORD_COLUMNS)


def references(name: str, *rows: int) -> Retries:
    return Retries.of(name, rows, [1] * len(rows), rows, [False] * len(rows))


def test_records_read_back_in_the_order_in_which_they_are_due(tmp_path: Path) -> None:
    records = some_records(5)
    info = write_segment(tmp_path, "a", records.take(pa.array([3, 0, 4, 1, 2])))
    assert read_all_records(tmp_path, "a") == records
    assert (info.records, info.raw_bytes, info.next_due_us, info.is_given_up) == (5, 25, 0, False)
    index = WaitingIndex(tmp_path, "a")
    index.check()
    assert index.due_us.tolist() == [0, 100, 200, 300, 400]
    assert index.hashes_by_row.tolist() == [0, 10, 20, 30, 40]


def test_a_record_that_is_not_where_the_plan_says_is_damage(tmp_path: Path) -> None:
    write_segment(tmp_path, "a", some_records(5))
    for rows in ([2], [5]):
        wrong = Retries.of("a", rows, [1], [3], [False])
        with pytest.raises(WaitingDamaged, match="a"):
            read_retries(tmp_path, [references("a", 1), wrong])


def test_all_damaged_segments_are_told_at_once(tmp_path: Path) -> None:
    write_segment(tmp_path, "a", some_records(5))
    with pytest.raises(WaitingDamaged) as damage:
        read_retries(tmp_path, [references("b", 0), references("a", 0), references("c", 0)])
    assert damage.value.segments == ("b", "c")


@pytest.mark.parametrize("at", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("suffix", [INDEX, RECORDS])
def test_flipped_bits_are_noticed(tmp_path: Path, suffix: str, at: float) -> None:
    write_segment(tmp_path, "a", some_records(500))
    path = tmp_path / f"a{suffix}"
    data = bytearray(path.read_bytes())
    place = int(len(data) * at)
    data[place : place + 16] = bytes(255 - byte for byte in data[place : place + 16])
    path.write_bytes(data)
    look = {
        INDEX: lambda: WaitingIndex(tmp_path, "a").check(),
        RECORDS: lambda: read_all_records(tmp_path, "a"),
    }
    with pytest.raises(WaitingDamaged):
        look[suffix]()


def test_a_file_of_another_segment_is_damage(tmp_path: Path) -> None:
    for name in "ab":
        write_segment(tmp_path, name, some_records(5))
    for suffix in (INDEX, RECORDS):
        (tmp_path / f"a{suffix}").rename(tmp_path / f"b{suffix}")
    with pytest.raises(WaitingDamaged):
        WaitingIndex(tmp_path, "b")
    with pytest.raises(WaitingDamaged):
        read_all_records(tmp_path, "b")


def test_segments_of_a_newer_photon_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "FORMAT_VERSION", segments.FORMAT_VERSION + 1)
    write_segment(tmp_path, "a", some_records(5))
    monkeypatch.undo()
    with pytest.raises(FormatTooNew):
        WaitingIndex(tmp_path, "a")
    with pytest.raises(FormatTooNew):
        read_all_records(tmp_path, "a")


def test_an_index_that_is_made_again_is_the_one_that_was(tmp_path: Path) -> None:
    write_segment(tmp_path, "a", some_records(500))
    path = tmp_path / f"a{INDEX}"
    before = path.read_bytes()
    write_index(tmp_path, "a", read_all_records(tmp_path, "a"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("others", [0, 2_000])
def test_all_records_of_a_key_are_found_whether_few_keys_are_asked_or_many(
    tmp_path: Path, others: int
) -> None:
    write_segment(
        tmp_path, "a", some_records(9, key_hash=np.array([5, 3, 5, 1, 5, 3, 9, 2**63, 2**64 - 1], np.uint64))
    )
    index = WaitingIndex(tmp_path, "a")
    more = np.arange(100, 100 + others, dtype=np.uint64)
    for keys, rows in [([5], [0, 2, 4]), ([2, 3, 4], [1, 5]), ([0, 2**64 - 1], [8]), ([], []), ([4], [])]:
        asked = np.sort(np.concatenate([np.array(keys, np.uint64), more]))
        assert index.rows_of_keys(asked).tolist() == rows


# -- reasons


def test_each_reason_has_its_delay_and_what_was_given_up_is_never_due(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    log = "{{files: {}, format: jsonl, id: i, time: t, time_unit: s{}}}".format
    path.write_text(
        f"name: n\ndatacenters: {{east: {{logs: logs}}}}\nprimary: {log('p', '')}\n"
        f"foreign: {log('f', ', key: k')}\n"
        "home: {takeover_delay: 3s}\n"
    )
    codes = np.arange(len(REASONS), dtype=np.int8)
    due = due_us(codes, np.ones(len(codes), np.int64), load_pipeline(path), 10**9, np.random.default_rng(1))
    waits = dict(zip((reason.name for reason in REASONS), (due - 10**9).tolist(), strict=True))
    assert 187_500 <= waits.pop("primary") <= 312_500
    assert waits.pop("unjoinable") == NEVER_US - 10**9
    constant = {name: waits[name] for name in ("home", "clock", "contested")}
    assert constant == {"home": 3_000_000, "clock": 60_000_000, "contested": 250_000}


# -- states


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, PAGE_ROWS])
def test_states_of_a_page_read_back(count: int) -> None:
    page = np.random.default_rng(count).integers(0, len(WaitingState), count).astype(np.uint8)
    assert (states.unpack(states.pack(page), count) == page).all()


def test_a_tally_counts_by_reason_and_state_and_reads_back() -> None:
    reasons = np.array([PRIMARY, PRIMARY, UNJOINABLE, UNJOINABLE, CODE_OF["home"]], np.int8)
    tally = states.tally_of(
        reasons,
        np.array(
            [
                WaitingState.OPEN,
                WaitingState.GONE,
                WaitingState.OPEN,
                WaitingState.WOKEN,
                WaitingState.REQUEUED,
            ]
        ),
    )
    assert (states.live(tally), states.given_up(tally), states.pending(tally)) == (4, 1, 3)
    assert (states.tally_from_stored(states.tally_to_stored(tally)) == tally).all()


def test_the_first_rows_in_a_state_are_found_over_pages() -> None:
    page = np.full(3 * PAGE_ROWS, WaitingState.GONE, np.uint8)
    page[[5, PAGE_ROWS, 2 * PAGE_ROWS + 7]] = WaitingState.OPEN
    found = [
        states.first_rows(page, WaitingState.OPEN, start, len(page), most).tolist()
        for start, most in [(0, 2), (6, 9)]
    ]
    assert found == [[5, PAGE_ROWS], [PAGE_ROWS, 2 * PAGE_ROWS + 7]]


# -- merging


def test_a_merged_segment_has_the_rows_that_were_left_each_at_its_due_time(tmp_path: Path) -> None:
    write_segment(tmp_path, "a", some_records(4))
    write_segment(tmp_path, "b", some_records(4, _file=np.full(4, 2), due_us=np.arange(4) * 100 + 50))
    merged = merge(tmp_path, [("a", np.array([1, 3])), ("b", np.array([0, 2, 3]))], "c")
    places = list(
        zip(
            *(read_all_records(tmp_path, "c")[name].to_pylist() for name in ("_file", "_offset")), strict=True
        )
    )
    assert places == [(2, 0), (1, 1), (2, 2), (1, 3), (2, 3)]
    assert [places[row] for row in merged.row_of] == [(1, 1), (1, 3), (2, 0), (2, 2), (2, 3)]


def size(name: str, live: int, gone: int = 0, given_up: bool = False, each_bytes: int = 100) -> SegmentSize:
    return SegmentSize(name, live + gone, live, (live + gone) * each_bytes, given_up)


def test_the_smallest_tier_that_is_full_is_merged() -> None:
    small = [size(f"s{n}", 10) for n in range(8)]
    large = [size(f"l{n}", 5_000) for n in range(8)]
    assert next_merge([*large, *small[:7]]) == tuple(f"l{n}" for n in range(8))
    assert next_merge([*large, *small]) == tuple(f"s{n}" for n in range(8))
    assert next_merge(small[:7]) == ()


def test_what_was_given_up_is_not_merged_with_what_waits() -> None:
    assert next_merge([size(f"s{n}", 10, given_up=n % 2 == 0) for n in range(14)]) == ()


def test_a_big_segment_most_of_which_is_gone_is_written_anew() -> None:
    assert next_merge([size("a", 2_000, gone=3_000), size("b", 4_000, gone=1_000)]) == ("a",)


def test_a_merged_segment_is_not_larger_than_memory_bears() -> None:
    big = [size(f"b{n}", 50_000, each_bytes=500 * (n + 1)) for n in range(8)]
    chosen = next_merge(big)
    assert 1 < len(chosen) < 8
    assert sum(each.live_bytes for each in big if each.name in chosen) <= merging.MOST_MERGED_BYTES


@pytest.mark.parametrize("rounds", [200])
def test_however_many_batches_leave_records_behind_there_are_some_tens_of_segments(rounds: int) -> None:
    now: dict[str, SegmentSize] = {}
    most = 0
    for number in range(rounds):
        now[f"{number}"] = size(f"{number}", 1_000)
        while chosen := next_merge(list(now.values())):
            merged = [now.pop(name) for name in chosen]
            now[f"m{number}"] = size(f"m{number}", sum(each.live for each in merged))
        most = max(most, len(now))
    assert most <= 3 * merging.SEGMENTS_A_TIER
