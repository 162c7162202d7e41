"""Lookups find what a look at every line would find, and read only the lines that they find."""

from __future__ import annotations

import tempfile
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from photon.event_store.segments import Places, SegmentDamaged, file_name
from photon.logs import folders, scattered
from photon.logs.files import ByteRange
from tests.unit.event_store_world import SECOND_US, World, digest, found

NOW_US = 1_700_000_000 * SECOND_US
WILD_TIMES_US = (0, -1_000_000, 2_000_000_000 * SECOND_US, 4_102_444_800 * SECOND_US, 60 * SECOND_US)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_events_are_found_by_their_ids_in_the_order_of_the_keys(world: World) -> None:
    world.write(1, [("a", NOW_US), ("b", NOW_US)])
    world.write(2, [("c", NOW_US)])
    world.index()
    keys = ["c", "nowhere", "b", "c", "a"]
    assert world.look_up(*keys) == [world.truth(key) for key in keys]
    assert world.look_up("c")[0] is not None


def test_nothing_is_found_before_it_is_indexed_and_in_an_empty_index(world: World) -> None:
    assert world.look_up("a") == [None]
    world.write(1, [("a", NOW_US)])
    assert world.look_up("a") == [None]
    assert world.look_up() == []


def test_an_event_outside_the_window_is_not_found(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.index()
    windows = [(NOW_US, NOW_US), (NOW_US + 1, NOW_US + 9), (NOW_US - 9, NOW_US - 1), None]
    assert [each is not None for each in world.look_up(*"aaaa", windows=windows)] == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([[0, 30], [10, 20]], id="in two segments"),
        pytest.param([[20], [10], [30], [0]], id="in a segment each"),
        pytest.param([[30, 10, 0, 20]], id="in one segment"),
    ],
)
@pytest.mark.parametrize(
    ("expected", "window", "joins"),
    [
        (25, None, 20),
        (20, None, 20),
        (99, None, 30),
        (-1, None, 0),
        (15, (11, 99), 20),
        (15, (-9, 15), 10),
        (15, (12, 18), None),
        (19, (1, 12), 10),
    ],
)
def test_the_latest_at_or_before_the_expected_time_joins_else_the_earliest_behind_it(
    world: World,
    files: list[list[int]],
    expected: int,
    window: tuple[int, int] | None,
    joins: int | None,
) -> None:
    for number, times in enumerate(files, start=1):
        world.write(number, [("a", NOW_US + at) for at in times])
        world.index()
    windows = [window and (NOW_US + window[0], NOW_US + window[1])]
    answer = world.answer("a", windows=windows, expected_us=[NOW_US + expected])
    assert [each and each.time_us - NOW_US for each in found(answer)] == [joins]
    assert answer.unanswered.tolist() == [False]


@pytest.mark.parametrize("renamed", [1, 2])
def test_of_other_content_at_one_time_the_smallest_digest_joins_whatever_the_paths(
    world: World, renamed: int
) -> None:
    world.write(1, [("a", NOW_US)], padding="one")
    world.write(2, [("a", NOW_US)], padding="two")
    world.index()
    world.rotate(renamed, "z.log")
    first = min(world.lines, key=digest)
    assert world.look_up("a") == [first]


def test_rows_are_ambiguous_where_other_content_might_have_joined_and_no_others(world: World) -> None:
    world.write(1, [("reused", NOW_US), ("copied", NOW_US), ("gone", NOW_US), ("once", NOW_US)])
    world.write(2, [("copied", NOW_US)])
    world.write(3, [("gone", NOW_US + 5)])
    world.index()
    world.write(2, [("reused", NOW_US + 5)])
    world.index()
    world.remove(3)
    keys = ["once", "copied", "reused", "reused", "gone", "nowhere"]
    windows = [None, None, None, (NOW_US, NOW_US + 1), None, None]
    answer = world.answer(*keys, windows=windows)
    assert answer.is_ambiguous.tolist() == [False, False, True, False, True, False]


def test_an_id_of_twenty_thousand_events_costs_no_more_than_its_keys(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(1, [("-", NOW_US + at) for at in range(20_000)] + [("good", NOW_US)])
    world.write(2, [("-", NOW_US + at) for at in range(1_000)])
    world.index()
    taken: list[int] = []
    take = Places.take
    monkeypatch.setattr(Places, "take", lambda self, rows: noted(taken, take(self, rows)))
    keys = [*["-"] * 300, "good"]
    answer = world.answer(*keys, expected_us=[NOW_US + 30 * number for number in range(300)] + [NOW_US])
    assert [each.time_us - NOW_US for each in found(answer)] == [*range(0, 9_000, 30), 0]
    assert max(taken) <= len(keys)


def test_thousands_of_events_in_a_file_that_went_are_passed_over_at_once(world: World) -> None:
    world.write(1, [("-", NOW_US + 9)])
    world.write(2, [("-", NOW_US + 10 + at) for at in range(5_000)])
    world.index()
    world.remove(2)
    answer = world.answer(*["-"] * 300, expected_us=[NOW_US + 6_000] * 300)
    assert {each.file_number for each in found(answer)} == {1}
    assert answer.is_ambiguous.all()
    assert not answer.unanswered.any()


def noted(taken: list[int], places: Places) -> Places:
    taken.append(len(places))
    return places


def test_a_file_that_can_not_be_read_leaves_its_own_ids_unanswered_and_no_others(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.write(2, [("b", NOW_US)])
    world.index()
    (world.folder / "1.log").unlink()
    answer = world.answer("a", "b", "nowhere")
    assert [event and event.id for event in found(answer)] == [None, "b", None]
    assert answer.unanswered.tolist() == [True, False, False]


def test_with_the_first_copy_unreadable_the_other_is_not_taken_for_it(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.write(2, [("a", NOW_US + 1)])
    world.index()
    (world.folder / "1.log").unlink()
    answer = world.answer("a")
    assert (found(answer), answer.unanswered.tolist()) == ([None], [True])


def test_with_a_later_copy_unreadable_the_first_one_counts(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.write(2, [("a", NOW_US + 1)])
    world.index()
    (world.folder / "2.log").unlink()
    assert world.look_up("a")[0].file_number == 1


def test_a_file_that_went_is_not_looked_at_any_more(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.write(2, [("a", NOW_US + 1)])
    world.index()
    world.remove(1)
    answer = world.answer("a")
    assert (found(answer)[0].file_number, answer.unanswered.tolist()) == (2, [False])


def test_a_rotated_file_is_read_under_its_new_name(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.index()
    world.rotate(1, "1.log.1")
    assert world.look_up("a")[0].id == "a"


def test_other_bytes_in_the_place_of_a_line_leave_its_id_unanswered(world: World) -> None:
    world.write(1, [("head", NOW_US), ("a", NOW_US), ("b", NOW_US)])
    world.index()
    path = world.folder / "1.log"
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"x"'))
    answer = world.answer("a", "b")
    assert [event and event.id for event in found(answer)] == [None, "b"]
    assert answer.unanswered.tolist() == [True, False]


def test_a_line_that_is_no_text_any_more_leaves_its_own_id_unanswered_and_no_others(world: World) -> None:
    world.write(1, [("head", NOW_US), ("a", NOW_US), ("b", NOW_US)])
    world.index()
    path = world.folder / "1.log"
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"\xff"'))
    answer = world.answer("a", "b")
    assert [event and event.id for event in found(answer)] == [None, "b"]
    assert answer.unanswered.tolist() == [True, False]


@pytest.mark.parametrize("copies", [1, 3])
def test_equal_hashes_are_told_apart_by_the_id_itself(
    world: World, monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    for module in ("indexing", "logs"):
        name = f"photon.event_store.{module}.hash_ids"
        monkeypatch.setattr(name, lambda ids: np.full(len(ids), 7, np.uint64))
    for number in range(copies):
        world.write(1, [("a", NOW_US + number), ("b", NOW_US + number)])
        world.index()
    keys = ["b", "c", "a"]
    assert world.look_up(*keys) == [world.truth(key) for key in keys]
    assert not world.answer("c").unanswered.any()


def test_thousands_of_ids_of_one_hash_cost_few_lines_and_keep_nobody_else_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crafted ids: those that can't be told apart wait, and none gets another one's event."""
    crafted = [f"crafted{number}" for number in range(4_000)]

    def collide(ids):
        return np.array(
            [7 if text.startswith("crafted") else crc32(text.encode()) for text in ids.to_pylist()], np.uint64
        )

    for module in ("indexing", "logs"):
        monkeypatch.setattr(f"photon.event_store.{module}.hash_ids", collide)
    read: list[int] = []
    read_lines = scattered.read_lines

    def noting(logs, files, lines):
        read.append(len(lines.files))
        return read_lines(logs, files, lines)

    monkeypatch.setattr("photon.event_store.logs.read_lines", noting)
    world.write(1, [(text, NOW_US) for text in (*crafted, "good")])
    world.index()
    answer = world.answer(*crafted, "good")
    ids = [event and event.id for event in found(answer)]
    assert ids[-1] == "good"
    assert all(got in (None, text) for got, text in zip(ids, crafted, strict=False))
    assert all(waits for waits, got in zip(answer.unanswered.tolist(), ids, strict=True) if got is None)
    assert sum(read) <= 100


def test_an_id_that_the_line_writes_with_escapes_is_found(world: World) -> None:
    keys = ['say "é"', "b"]
    world.write(1, [("a", NOW_US), *((key, NOW_US) for key in keys)])
    world.index()
    assert world.look_up(*keys) == [world.truth(key) for key in keys]


def test_only_the_lines_that_are_found_are_read_and_neighbours_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[tuple[int, int]] = []
    read_in_place = folders._read_in_place

    def noting(folder, file, stretches):
        reads.extend(stretches)
        return read_in_place(folder, file, stretches)

    monkeypatch.setattr(folders, "_read_in_place", noting)
    world.write(1, [(str(number), NOW_US) for number in range(2_000)], padding="x" * 100)
    world.index()
    wanted = ["3", "5", "1000", "nowhere"]
    world.look_up(*wanted)
    lines = [world.truth(key) for key in wanted[:3]]
    ends = [line.offset_bytes + len(line.raw) for line in lines]
    assert reads == [(lines[0].offset_bytes, ends[1]), (lines[2].offset_bytes, ends[2])]


def test_many_lines_are_read_in_portions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattered, "MOST_BYTES_AT_ONCE", 300)
    world.write(1, [(str(number), NOW_US) for number in range(50)])
    world.index()
    keys = [str(number) for number in range(50)]
    assert world.look_up(*keys) == [world.truth(key) for key in keys]


def test_a_missing_segment_is_told_and_not_taken_for_an_empty_one(world: World) -> None:
    world.write(1, [("a", NOW_US)])
    world.index()
    (world.folder / "index" / file_name(world.segments[0].name)).unlink()
    with pytest.raises(SegmentDamaged, match="is not there"):
        world.look_up("a")


TIMES = st.integers(0, 3_000).map(lambda s: NOW_US + s * SECOND_US) | st.sampled_from(WILD_TIMES_US)
IDS = st.sampled_from("abcdefgh")
EVENTS = st.lists(st.tuples(IDS, TIMES), min_size=1, max_size=30)
WINDOWS = st.none() | TIMES.map(lambda at_us: (at_us - 600 * SECOND_US, at_us + 600 * SECOND_US))
WANTED = st.lists(st.tuples(IDS | st.just("nowhere"), WINDOWS, st.none() | TIMES), max_size=20)


class GrowingLogs(RuleBasedStateMachine):
    """Logs that grow, rotate, go, and are indexed and merged in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name))
        self.renamed = 0
        self.next_number = 1

    @rule(of=st.integers(0, 3), events=EVENTS)
    def write(self, of, events) -> None:
        numbers = sorted(self.world.files)
        if of < len(numbers):
            self.world.write(numbers[of], events)
        else:
            self.world.write(self.next_number, events)
            self.next_number += 1

    @rule(data=st.data(), goes=st.booleans())
    def rotate(self, data, goes) -> None:
        if self.world.files:
            number = data.draw(st.sampled_from(sorted(self.world.files)))
            self.renamed += 1
            self.world.remove(number) if goes else self.world.rotate(number, f"{self.renamed}.old")

    @rule()
    def index(self) -> None:
        self.world.index()

    @rule()
    def compact(self) -> None:
        self.world.compact()

    @rule(cut=st.integers(0, 10))
    def index_again_what_overlaps(self, cut) -> None:
        """Ranges of an earlier, lost attempt: whole lines, from anywhere to the end of what is indexed."""
        ranges = []
        for line in self.world.lines[:: cut + 1]:
            end = self.world.indexed_to.get(line.file_number, 0)
            if line.offset_bytes < end:
                ranges.append(ByteRange(line.file_number, line.offset_bytes, end, checksum=0, lines=0))
        self.world.index(ranges)

    @rule(wanted=WANTED)
    def look_up(self, wanted) -> None:
        keys, windows, times_us = zip(*wanted, strict=True) if wanted else ((), (), ())
        expected_us = [NOW_US if at_us is None else at_us for at_us in times_us]
        answer = self.world.answer(*keys, windows=windows, expected_us=expected_us)
        truth = map(self.world.truth, keys, windows, expected_us)
        assert found(answer) == list(truth)
        assert not answer.unanswered.any()
        contents = (
            {line.raw for line in self.world.eligible(*each)} for each in zip(keys, windows, strict=True)
        )
        for is_ambiguous, those in zip(answer.is_ambiguous.tolist(), contents, strict=True):
            assert is_ambiguous or len(those) < 2  # what is gone counts, too

    @invariant()
    def few_segments_are_there_after_merging(self) -> None:
        assert all(each.events for each in self.world.segments)

    def teardown(self) -> None:
        self.folder.cleanup()


def test_lookups_equal_a_look_at_every_line_whatever_happened_to_the_logs() -> None:
    run_state_machine_as_test(
        GrowingLogs,
        settings=settings(max_examples=40, stateful_step_count=25, deadline=None, print_blob=True),
    )
