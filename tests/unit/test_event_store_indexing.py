"""An index task reports times and problems of primary events."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from photon.event_store.indexing import FIRST_YEAR_US, PlausibleTimes, index_events
from photon.event_store.segments import Segment, file_name
from tests.unit.event_store_world import World, hash_id


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_events_latest_times_and_hashes_are_reported_over_all_files(world: World) -> None:
    world.write(1, [("a", 30), ("b", 10)])
    world.write(2, [("a", 20)])
    indexed = world.index()
    assert indexed.events == 3
    assert indexed.segment is not None
    assert indexed.segment.events_of == {1: 2, 2: 1}
    assert indexed.max_time_us == {1: 30, 2: 20}
    assert indexed.new_hashes.tolist() == sorted([hash_id("a"), hash_id("b")])


def test_a_time_that_is_not_plausible_is_indexed_and_not_the_latest(world: World) -> None:
    year = FIRST_YEAR_US
    world.write(1, [("a", 53 * year), ("unset", 5), ("b", 52 * year), ("wild", 130 * year)])
    world.write(2, [("wild alone", 131 * year)])
    events, times = world.parsed(world.unindexed()), PlausibleTimes.at(53 * year, clock_tolerance_us=10)
    indexed = index_events([events], world.folder / "index", "s", times)
    assert (indexed.events, indexed.max_time_us) == (5, {1: 53 * year})
    assert len(indexed.new_hashes) == 5


def test_a_re_run_writes_the_very_same_segment(world: World) -> None:
    """The first report may have been lost with its process."""
    world.write(1, [("a", 30), ("b", 10), ("a", 5)])
    events, folder = world.parsed(world.unindexed()), world.folder / "index"
    first = index_events([events], folder, "s"), (folder / file_name("s")).read_bytes()
    second = index_events([events], folder, "s"), (folder / file_name("s")).read_bytes()
    assert first[0].segment == second[0].segment
    assert first[0].new_hashes.tolist() == second[0].new_hashes.tolist() != []
    assert first[1] == second[1]


def test_without_events_the_segment_is_there_and_empty(world: World) -> None:
    """The lookups of its batch open it before anybody knows that it is empty."""
    indexed = index_events([world.parsed([])], world.folder, "s")
    assert (indexed.segment, indexed.events, indexed.max_time_us, len(indexed.new_hashes)) == (None, 0, {}, 0)
    assert Segment(world.folder / file_name("s")).events == 0


def test_the_report_travels_between_processes(world: World) -> None:
    world.write(1, [("a", 30)])
    assert pickle.loads(pickle.dumps(world.index())).events == 1
