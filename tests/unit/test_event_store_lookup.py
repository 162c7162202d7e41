"""Lookups find what a look at every line would find, and read a bounded part of the logs for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from photon.event_store.interface import PrimaryEvent, PrimaryLookup
from photon.event_store.log_file_map import LogFileMap
from photon.event_store.logs import lines_showing, open_event_store
from photon.logs.files import ByteRange
from tests.unit.event_store_world import SECOND_US, WINDOW_US, World, small_entries

NOW_US = 1_700_000_000 * SECOND_US
WILD_TIMES_US = (0, -1_000_000, 2_000_000_000 * SECOND_US, 4_102_444_800 * SECOND_US, 60 * SECOND_US)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def around(event_id: str, time_us: int = NOW_US) -> PrimaryLookup:
    return PrimaryLookup.around(event_id, time_us, WINDOW_US)


def test_an_event_is_found_by_its_id_in_the_cache_and_in_the_logs(world: World) -> None:
    world.write(1, [("a", NOW_US), ("b", NOW_US)])
    world.index()
    hot = world.store()
    assert hot.lookup([around("b")]) == [world.truth(around("b"))] != [None]
    assert hot.bytes_read == 0
    cold = world.cold_store()
    assert cold.lookup([around("b")]) == [world.truth(around("b"))]
    assert cold.bytes_read > 0


def test_an_id_that_is_nowhere_costs_no_reading(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.index()
    store = world.cold_store()
    assert store.lookup([around("nowhere"), PrimaryLookup("nowhere"), around("no")]) == [None] * 3
    assert store.bytes_read == 0


def test_an_event_outside_the_window_is_found_only_by_looking_anywhere(world: World) -> None:
    far_us = NOW_US + WINDOW_US + 1
    world.write(1, [("a", NOW_US)])
    world.index()
    store = world.store()
    assert store.lookup([around("a", far_us)]) == [None]
    assert store.lookup([around("a", far_us - 1)]) != [None]
    assert store.lookup([PrimaryLookup("a")]) != [None]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([[0], [1]], id="in two files, the later one in the cache"),
        pytest.param([[1, 0]], id="in one entry, the earlier one written later"),
        pytest.param([[0, 1]], id="in one entry, the later one in the cache"),
    ],
)
def test_of_two_copies_the_earlier_counts(world: World, files: list[list[int]]) -> None:
    for number, delays_us in enumerate(files, start=1):
        world.write(number, [("a", NOW_US + delay_us) for delay_us in delays_us])
        world.index()
    assert world.cache.get("a").time_us == NOW_US + files[-1][-1]
    assert world.store().lookup([around("a")])[0].time_us == NOW_US


@pytest.mark.parametrize(("file_number", "offset_bytes"), [(2, 0), (1, 10_000)])
def test_an_event_that_the_cache_has_and_the_map_has_not_does_not_count(
    world: World, file_number: int, offset_bytes: int
) -> None:
    """Its index task died before the map was written, or its file was removed."""
    world.write(1, [("a", NOW_US)])
    world.index()
    world.cache.put([PrimaryEvent("a", NOW_US, file_number, offset_bytes, b"other", b"")])
    assert world.store().lookup([around("a")]) == [world.truth(around("a"))]


def test_of_copies_of_one_time_the_first_by_path_and_offset_counts(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.write(2, [("a", NOW_US), ("a", NOW_US)])
    world.index()
    world.rotate(1, "z.log")
    found = world.store().lookup([around("a")])[0]
    assert (found.file_number, found.offset_bytes) == (2, 0)


def test_a_copy_outside_the_window_does_not_count(world: World) -> None:
    world.write(1, [("a", NOW_US - 2 * WINDOW_US), ("a", NOW_US)])
    world.index()
    assert world.store().lookup([around("a")])[0].time_us == NOW_US


def test_a_file_that_vanished_leaves_its_own_ids_unanswered_and_no_others(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.write(2, [("b", NOW_US)])
    world.index()
    (world.place.logs_folder / "1.log").unlink()
    store = world.cold_store()
    found = store.lookup([around("a"), around("b")])
    assert [event and event.id for event in found] == [None, "b"]
    assert store.unanswered == {"a"}


def test_with_one_copy_unreadable_the_other_is_not_taken_for_the_first(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.write(2, [("a", NOW_US + 1)])
    world.index()
    (world.place.logs_folder / "1.log").unlink()
    store = world.cold_store()
    assert store.lookup([around("a")]) == [None]
    assert store.unanswered == {"a"}


def test_a_removed_file_is_not_looked_at_any_more(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.write(2, [("a", NOW_US + 1)])
    world.index()
    world.log_map.remove_file(1)
    store = world.cold_store()
    assert store.lookup([around("a")])[0].file_number == 2
    assert store.unanswered == set()


def test_a_rotated_file_is_read_under_its_new_name(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.index()
    world.rotate(1, "1.log.1")
    assert world.cold_store().lookup([around("a")])[0].id == "a"


def test_equal_hashes_are_told_apart_by_the_id_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("indexing", "logs"):
        name = f"photon.event_store.{module}.hash_ids"
        monkeypatch.setattr(name, lambda ids: np.full(len(ids), 7, np.uint64))
    world.write(1, [("a", NOW_US), ("b", NOW_US)])
    world.index()
    found = world.store().lookup([around("b"), around("c"), around("a")])
    assert [event and event.id for event in found] == ["b", None, "a"]


def test_an_id_that_the_line_writes_with_escapes_is_found(world: World) -> None:
    world.write(1, [("a", NOW_US), ('say "é"', NOW_US), ("b", NOW_US)])
    world.index()
    wanted = [around('say "é"'), around("b")]
    assert world.cold_store().lookup(wanted) == [world.truth(each) for each in wanted]


def test_only_lines_that_show_an_id_are_likely() -> None:
    data = b"one a\ntwo b\nthree a a\nfour"
    assert lines_showing(data, ["a", "three", "ur", "nowhere"]) == [(0, 5), (12, 21), (22, 26)]


def test_each_entry_is_read_once_a_lookup_however_many_ids_it_holds(tmp_path: Path) -> None:
    world = World(tmp_path, small_entries(entry_bytes=2**20))
    world.write(1, [(str(i), NOW_US) for i in range(100)])
    world.index()
    store = world.cold_store()
    store.lookup([around(str(i)) for i in range(100)])
    assert store.bytes_read == (tmp_path / "1.log").stat().st_size - 1
    world.close()


def test_what_was_read_from_the_logs_is_in_the_cache_afterwards(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.index()
    world.cache = type(world.cache)(10**6)
    store = world.store()
    store.lookup([around("a")])
    read_bytes = store.bytes_read
    store.lookup([around("a")])
    assert store.bytes_read == read_bytes > 0


def test_another_process_sees_entries_that_were_extended_since_its_last_lookup(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.index()
    with closing(LogFileMap(world.place.map_path, world.place.settings, world.place.entry_limits)) as second:
        world.write(1, [("b", NOW_US)])
        assert world.store().lookup([around("b")]) == [None]
        world.index()
        world.log_map = second
        assert world.cold_store().lookup([around("b")]) != [None]


def test_an_opened_store_keeps_its_cache_for_the_next_task_of_the_process(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.index()
    with open_event_store(world.place) as first:
        first.lookup([around("a")])
    with open_event_store(world.place) as second:
        assert second.cache is first.cache
        assert second.lookup([around("a")]) != [None]
        assert second.bytes_read == 0


def test_a_new_map_begins_with_an_empty_cache(world: World, tmp_path: Path) -> None:
    with open_event_store(world.place) as first:
        pass
    (tmp_path / "b").mkdir()
    other = World(tmp_path / "b")
    with open_event_store(other.place) as second:
        assert second.cache is not first.cache
    other.close()


@pytest.mark.parametrize("wild", [False, True])
def test_what_a_lookup_reads_does_not_grow_with_the_history(tmp_path: Path, wild: bool) -> None:
    read_bytes, filters_consulted = {}, {}
    for minutes in (20, 2_000):
        folder = tmp_path / str(minutes)
        folder.mkdir()
        world = World(folder, small_entries(entry_bytes=8_192))
        for minute in range(minutes):
            odd = [(f"odd {minute}", WILD_TIMES_US[minute % len(WILD_TIMES_US)])] if wild else []
            events = [(f"{minute}/{i}", NOW_US + minute * 60 * SECOND_US + i) for i in range(20)]
            world.write(minute % 3, events[:10] + odd + events[10:], padding="x" * 300)
            world.index() if minute % 10 == 9 else None
        store = world.cold_store()
        middle = minutes // 2
        minute_us = NOW_US + middle * 60 * SECOND_US
        wanted = [PrimaryLookup.around(f"{middle}/{i}", minute_us, 120 * SECOND_US) for i in range(20)]
        assert store.lookup(wanted) == [world.truth(each) for each in wanted]
        read_bytes[minutes] = store.bytes_read
        filters_consulted[minutes] = len(world.log_map._memory.filters)
        world.close()
    assert read_bytes[2_000] <= read_bytes[20] + 3 * 8_192
    assert filters_consulted[2_000] <= filters_consulted[20] + 6


TIMES = st.integers(0, 3_000).map(lambda s: NOW_US + s * SECOND_US) | st.sampled_from(WILD_TIMES_US)
IDS = st.sampled_from("abcdefgh")
EVENTS = st.lists(st.tuples(IDS, TIMES), min_size=1, max_size=30)
WANTED = st.lists(
    st.builds(PrimaryLookup, IDS | st.just("nowhere")) | st.builds(around, IDS | st.just("nowhere"), TIMES),
    max_size=20,
)


class GrowingLogs(RuleBasedStateMachine):
    """Logs that grow, rotate and are indexed in any order and more than once."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name), small_entries())
        self.renamed = 0

    @rule(number=st.integers(1, 4), events=EVENTS)
    def write(self, number, events) -> None:
        self.world.write(number, events)

    @rule(data=st.data())
    def rotate(self, data) -> None:
        if self.world.files:
            self.renamed += 1
            self.world.rotate(data.draw(st.sampled_from(sorted(self.world.files))), f"{self.renamed}.old")

    @rule()
    def index(self) -> None:
        self.world.index()

    @rule(cut=st.integers(0, 10))
    def index_again_what_overlaps(self, cut) -> None:
        """Ranges of an earlier, lost attempt: whole lines, from anywhere to the end of what is indexed."""
        ranges = []
        for line in self.world.lines[:: cut + 1]:
            end = self.world.indexed_to.get(line.file_number, 0)
            if line.offset_bytes < end:
                ranges.append(ByteRange(line.file_number, line.offset_bytes, end, checksum=0, lines=0))
        self.world.index(ranges)

    @rule(wanted=WANTED, hot=st.booleans())
    def look_up(self, wanted, hot) -> None:
        store = self.world.store() if hot else self.world.cold_store()
        assert store.lookup(wanted) == [self.world.truth(each) for each in wanted]

    @invariant()
    def every_line_is_counted_once(self) -> None:
        rows = self.world.log_map._connection.execute("SELECT sum(length(hashes)) / 8 FROM hashes").fetchone()
        indexed = [
            x for x in self.world.lines if x.offset_bytes < self.world.indexed_to.get(x.file_number, 0)
        ]
        assert (rows[0] or 0) == len(indexed)

    def teardown(self) -> None:
        self.world.close()
        self.folder.cleanup()


def test_lookups_equal_a_look_at_every_line_whatever_happened_to_the_logs() -> None:
    run_state_machine_as_test(
        GrowingLogs,
        settings=settings(max_examples=40, stateful_step_count=25, deadline=None, print_blob=True),
    )
