"""What an index task reports of primary ranges."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from photon.event_store.indexing import index_ranges
from tests.unit.event_store_world import World, hash_id


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def test_events_latest_times_and_hashes_are_reported_over_all_ranges(world: World) -> None:
    world.write(1, [("a", 30), ("b", 10)])
    world.write(2, [("a", 20)])
    indexed = world.index()
    assert indexed.events == 3
    assert indexed.max_time_us == {1: 30, 2: 20}
    assert indexed.new_hashes.tolist() == sorted([hash_id("a"), hash_id("b")])


def test_a_re_run_reports_the_same_as_the_first_run(world: World) -> None:
    """The first report may have been lost with its process; pending events wait for these hashes."""
    world.write(1, [("a", 30)])
    ranges = world.unindexed()
    first, second = world.index(ranges), world.index(ranges)
    assert (first.events, first.max_time_us) == (second.events, second.max_time_us)
    assert first.new_hashes.tolist() == second.new_hashes.tolist() != []


def test_a_range_without_events_has_no_latest_time(world: World) -> None:
    world.write(1, [("a", 30)])
    world.index()
    with (world.place.logs_folder / "1.log").open("ab") as file:
        file.write(b"not json\n")
    indexed = world.index()
    assert (indexed.events, indexed.max_time_us, len(indexed.new_hashes)) == (0, {}, 0)
    assert world.covered_to() == {1: (world.place.logs_folder / "1.log").stat().st_size}


def test_no_ranges_make_an_empty_report(world: World) -> None:
    indexed = index_ranges([], world.log_map, world.cache)
    assert (indexed.events, len(indexed.new_hashes)) == (0, 0)


def test_the_report_travels_between_processes(world: World) -> None:
    world.write(1, [("a", 30)])
    assert pickle.loads(pickle.dumps(world.index())).events == 1
