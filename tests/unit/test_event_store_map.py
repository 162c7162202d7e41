"""LogFileMap: durable, shared by processes, repeatable."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from photon.errors import FormatTooNew
from photon.event_store.entries import EventStretch
from photon.event_store.log_file_map import Block, LogFileMap
from photon.logs.files import LogFile
from photon.pipeline.file import EventStoreSettings
from tests.unit.event_store_world import covered_to, small_entries

SPAWN = multiprocessing.get_context("spawn")  # fork would share SQLite connections


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "map.sqlite"


@pytest.fixture
def log_map(path: Path) -> Iterator[LogFileMap]:
    with closing(LogFileMap(path, EventStoreSettings(), small_entries())) as opened:
        yield opened


def stretch(file_number: int, start: int, lines: int, tick: int = 0) -> EventStretch:
    """Lines of 10 bytes; the hash of each is its offset."""
    offsets = np.arange(start, start + 10 * lines, 10, dtype=np.int64)
    ticks = np.full(lines, tick, np.int64)
    return EventStretch(
        file_number, start, start + 10 * lines, offsets, offsets + 9, ticks, offsets.astype(np.uint64)
    )


def log_file(number: int, path: str = "a.log") -> LogFile:
    return LogFile(number, "primary", path, 2**40, False, b"id,time", 8, 5, b"\x00hash")


def occurrences(log_map: LogFileMap, hashes: list[int]) -> list[int]:
    found = log_map.blocks_holding(np.array(hashes, np.uint64), [None] * len(hashes))
    return [sum(blocks.values()) for blocks in found]


def test_a_file_comes_back_as_it_was_put_and_takes_its_new_path(log_map: LogFileMap) -> None:
    log_map.put_files([log_file(1), log_file(2, "b.log")])
    log_map.put_files([log_file(1, "a.log.1")])
    assert log_map.files([1, 2, 3]) == {1: log_file(1, "a.log.1"), 2: log_file(2, "b.log")}


def test_a_range_indexed_again_changes_nothing(log_map: LogFileMap) -> None:
    log_map.add([stretch(1, 0, 10)])
    log_map.add([stretch(1, 0, 10)])
    assert occurrences(log_map, [0, 50, 90, 100]) == [1, 1, 1, 0]


def test_a_range_that_overlaps_adds_only_what_is_new(log_map: LogFileMap, path: Path) -> None:
    log_map.add([stretch(1, 20, 3), stretch(1, 80, 2)])
    log_map.add([stretch(1, 0, 12)])
    assert occurrences(log_map, list(range(0, 130, 10))) == [1] * 12 + [0]
    assert covered_to(path) == {1: 120}


def test_a_file_that_grows_by_a_line_a_batch_keeps_one_entry_until_that_is_full(log_map: LogFileMap) -> None:
    for start in range(0, 1_000, 10):
        log_map.add([stretch(1, start, 1)])
    found = log_map.blocks_holding(np.array([0, 990], np.uint64), [None, None])
    assert [list(blocks) for blocks in found] == [[Block(1, 0, 509)], [Block(1, 510, 999)]]


def test_only_entries_within_the_window_are_candidates(log_map: LogFileMap) -> None:
    log_map.add([stretch(1, 0, 1, tick=0), stretch(2, 0, 1, tick=100)])
    at_tick_100 = (100 * 4_000_000, 100 * 4_000_000)
    ((block,),) = log_map.blocks_holding(np.array([0], np.uint64), [at_tick_100])
    assert block.file_number == 2


def test_a_map_that_a_newer_photon_wrote_is_refused_and_left_alone(path: Path) -> None:
    LogFileMap(path, EventStoreSettings(), small_entries()).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(FormatTooNew, match=r"map\.sqlite.*format 99.*delete the file"):
        LogFileMap(path, EventStoreSettings(), small_entries())


def test_a_map_is_the_same_after_it_was_closed(path: Path) -> None:
    with closing(LogFileMap(path, EventStoreSettings(), small_entries())) as first:
        first.add([stretch(1, 0, 10)])
    with closing(LogFileMap(path, EventStoreSettings(), small_entries())) as second:
        assert second.map_id == first.map_id
        assert occurrences(second, [0, 90]) == [1, 1]


def test_a_file_that_is_removed_leaves_nothing_behind(log_map: LogFileMap, path: Path) -> None:
    log_map.put_files([log_file(1)])
    log_map.add([stretch(1, 0, 200)])
    log_map.remove_file(1)
    connection = sqlite3.connect(path)
    counts = [
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("files", "entries", "hashes", "spans")
    ]
    connection.close()
    assert counts == [0, 0, 0, 0]


def test_a_failure_in_a_batch_leaves_nothing_of_it(log_map: LogFileMap, path: Path) -> None:
    def stretches() -> Iterator[EventStretch]:
        yield stretch(1, 0, 10)
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        log_map.add(stretches())
    assert covered_to(path) == {}
    log_map.add([stretch(1, 0, 10)])
    assert covered_to(path) == {1: 100}


def _add_ranges(path: Path, starts: list[int]) -> None:
    with closing(LogFileMap(path, EventStoreSettings(), small_entries())) as log_map:
        for start in starts:
            log_map.add([stretch(1, start, 3), stretch(2, start, 3)])


def test_processes_that_index_the_same_ranges_at_once_count_each_line_once(path: Path) -> None:
    starts = list(range(0, 1_500, 30))
    orders = [starts, starts[::-1], starts[::2] + starts[1::2]]
    workers = [SPAWN.Process(target=_add_ranges, args=(path, order)) for order in orders]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with closing(LogFileMap(path, EventStoreSettings(), small_entries())) as log_map:
        assert occurrences(log_map, list(range(0, 1_500, 10))) == [2] * 150
        assert covered_to(path) == {1: 1_500, 2: 1_500}


def _die_in_a_batch(path: Path) -> None:
    def stretches() -> Iterator[EventStretch]:
        yield stretch(1, 0, 10)
        os.kill(os.getpid(), signal.SIGKILL)

    LogFileMap(path, EventStoreSettings(), small_entries()).add(stretches())


def test_a_process_that_dies_in_a_batch_leaves_a_map_that_takes_it_again(path: Path) -> None:
    worker = SPAWN.Process(target=_die_in_a_batch, args=(path,))
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    with closing(LogFileMap(path, EventStoreSettings(), small_entries())) as log_map:
        assert covered_to(path) == {}
        log_map.add([stretch(1, 0, 10)])
        assert occurrences(log_map, [0, 90]) == [1, 1]


def test_filters_in_memory_keep_to_their_bound(path: Path) -> None:
    with closing(LogFileMap(path, EventStoreSettings(filter_memory_bytes=5_000), small_entries())) as log_map:
        log_map.add([stretch(1, 0, 1_000)])
        assert occurrences(log_map, [0, 9_990]) == [1, 1]
        assert 0 < log_map._memory.filters.used_bytes <= 5_000
        assert occurrences(log_map, [0, 9_990]) == [1, 1]
