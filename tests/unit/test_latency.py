"""Latency of a live join: the arithmetic, the reader of tables, and a whole measurement of a stand-in."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from bench.live_measurement import MeasurementFailed, clicks_written, measure_live
from examples.demo.latency import SeenRow, TableReader, TimeSpan, percentile, summarize
from tests.support.manual_clock import ManualClock

ALWAYS = TimeSpan(0, 10**15)


def seen(click: str, written_us: int = 0, readable_us: int = 0, datacenter: str = "east") -> SeenRow:
    return SeenRow(click, (datacenter, "epoch", 1, "1:0"), written_us, readable_us)


def rows(*clicks: str, datacenter: str = "east", batch: int = 1, primary_logged_at: str = "7") -> pa.Table:
    """A table as the engine writes it, as far as the reader looks."""
    return pa.table(
        {
            "_datacenter": pa.array([datacenter] * len(clicks), pa.string()),
            "_epoch": ["epoch"] * len(clicks),
            "_batch": pa.array([batch] * len(clicks), pa.int64()),
            "_occurrence": [f"1:{index}" for index in range(len(clicks))],
            "click_id": list(clicks),
            "logged_at": ["5"] * len(clicks),
            "primary_logged_at": [primary_logged_at] * len(clicks),
        }
    )


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.9, 90), (0.99, 99), (1, 100), (0.001, 1)])
def test_a_percentile_is_the_nearest_rank(share: float, value: int) -> None:
    assert percentile(range(1, 101), share) == value


def test_latency_counts_from_the_clicks_written_in_the_window_only() -> None:
    written = {"early": 99, "first": 100, "last": 199, "late": 200}
    found = summarize(
        [seen(click, at, at + 2_000_000) for click, at in written.items()], written, TimeSpan(100, 200)
    )
    assert (found.clicks, found.rows, found.p50_seconds) == (2, 2, 2.0)


def test_a_click_without_a_row_is_missing() -> None:
    found = summarize([seen("a")], {"a": 0, "b": 0}, ALWAYS)
    assert (found.rows, found.missing) == (1, 1)


def test_a_row_seen_again_after_a_compaction_counts_when_it_was_seen_first() -> None:
    found = summarize([seen("a", 0, 9_000_000), seen("a", 0, 1_000_000)], {"a": 0}, ALWAYS)
    assert (found.most_seconds, found.joined_twice) == (1.0, 0)


def test_two_different_rows_of_a_click_are_joined_twice() -> None:
    assert summarize([seen("a"), seen("a", datacenter="west")], {"a": 0}, ALWAYS).joined_twice == 1


def test_each_row_is_read_once_at_the_time_of_the_poll_that_found_it(tmp_path: Path) -> None:
    clock = ManualClock(1_000)
    reader = TableReader([tmp_path], clock)
    write_deltalake(tmp_path, rows("a", "b"))
    first = reader.poll()
    clock.advance(1)
    write_deltalake(tmp_path, rows("c", batch=2), mode="append")
    second = reader.poll()
    assert [(row.click_id, row.readable_us) for row in first] == [("a", 1_000), ("b", 1_000)]
    assert [(row.click_id, row.readable_us) for row in second] == [("c", 1_001_000)]
    assert reader.poll() == []


@pytest.mark.parametrize(("primary_logged_at", "written_us"), [("3", 5), ("7", 7)])
def test_a_row_is_written_when_the_later_of_its_lines_is(
    primary_logged_at: str, written_us: int, tmp_path: Path
) -> None:
    write_deltalake(tmp_path, rows("a", primary_logged_at=primary_logged_at))
    assert [row.written_us for row in TableReader([tmp_path]).poll()] == [written_us]


def test_a_compaction_is_not_a_second_row(tmp_path: Path) -> None:
    reader = TableReader([tmp_path])
    write_deltalake(tmp_path, rows("a"))
    write_deltalake(tmp_path, rows("b", batch=2), mode="append")
    found = reader.poll()
    DeltaTable(tmp_path).optimize.compact()
    assert summarize([*found, *reader.poll()], {"a": 0, "b": 0}, ALWAYS).joined_twice == 0


def test_a_click_is_written_when_its_first_good_line_is(tmp_path: Path) -> None:
    (tmp_path / "clicks-0.jsonl").write_text('{"click_id": "a", "logged_at": 9}\n{"click_id": "a", "logg\n')
    (tmp_path / "clicks-1.jsonl").write_text('{"click_id": "a", "logged_at": 4}\n{"logged_at": 1}\n')
    assert clicks_written(tmp_path) == {"a": 4}


def test_a_join_that_ends_by_itself_fails_the_measurement_with_its_last_words(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('no registry here')")
    with pytest.raises(MeasurementFailed, match=r"status 1; .*\nno registry here"):
        measure_live(tmp_path / "live", 1, 10, 10, command=command)
