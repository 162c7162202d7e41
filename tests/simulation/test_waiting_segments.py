"""Waiting segments in the life of a datacenter: retried, woken, merged and removed, with crashes between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from photon.pipeline.location import Location
from photon.state.dispatcher_state import DispatcherState
from photon.state.waiting import listed_segment, segments
from tests.simulation import waiting_stories as stories
from tests.simulation.test_random_losses import problem_of
from tests.simulation.world import World, assert_counts
from tests.support.shares import seeds

Story = Callable[[World], None]
STORIES: list[Story] = [
    stories.what_is_decided_during_a_merge_does_not_come_back,
    stories.a_record_is_in_one_segment_at_a_time,
    stories.a_primary_wakes_in_the_transaction_that_completes_its_batch,
]


@pytest.mark.parametrize("story", STORIES)
def test_a_waiting_record_is_in_one_place_and_wakes_in_time(world: World, story: Story) -> None:
    story(world)


@pytest.mark.parametrize("point", ["waiting.after_merge", "waiting.after_replace", "task.after_waiting"])
def test_a_crash_during_a_merge_changes_nothing(world: World, point: str) -> None:
    stories.leave_segments(world)
    with stories.merging_two_by_two():
        world.clicks(*((f"none{n}", "never") for n in range(3)))
        assert world.join_with_a_crash(point)
        world.queries(*(f"q{number}" for number in range(5)))
        counts = world.join().counts
    assert world.joined_ids() == [f"a{number}" for number in range(5)]
    assert_counts(counts, joined=5, pending=8)


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_whatever_is_lost_while_segments_are_merged_what_is_registered_has_its_row(
    tmp_path: Path, seed: int
) -> None:
    with stories.merging_two_by_two():
        assert problem_of(tmp_path, seed) is None


@pytest.mark.parametrize("failing", range(3))
def test_waiting_records_that_can_not_be_read_for_a_moment_end_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """The store may fail as S3 does: at the latest when somebody looks into a segment."""
    opened, tries = listed_segment.WaitingIndex, count()

    def away_once(folder: Location, name: str) -> segments.WaitingIndex:
        if next(tries) == failing:
            raise OSError(f"cannot read waiting records from {folder / name}: the store is away")
        return opened(folder, name)

    monkeypatch.setattr(listed_segment, "WaitingIndex", away_once)
    world.queries("q0")
    world.clicks(("a0", "q0"), ("a1", "q1"), ("a2", "q2"))
    world.join()
    for number in (1, 2):
        world.queries(f"q{number}")
        world.forget()
        world.join()
    assert next(tries) > failing
    assert world.joined_ids() == ["a0", "a1", "a2"]


def test_a_merge_leaves_alone_what_a_requeued_plan_refers_to(world: World) -> None:
    stories.leave_segments(world)
    world.queries("q0")
    assert world.join_with_a_crash("commit.after_main")
    with stories.merging_two_by_two():
        counts = world.join().counts
    assert_counts(counts, joined=1, pending=9)


def test_files_without_a_segment_go_at_the_next_start(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    folder = world.state() / segments.FOLDER
    (folder / "of-a-run-that-ended.records").touch()
    world.queries("q1")
    world.join()
    assert world.joined_ids() == ["c1"]
    world.join()
    assert list(folder.iterdir()) == []


def test_a_segment_that_a_view_has_listed_can_be_read_after_it_went(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    with closing(world.read_state()) as view:
        assert view.waiting.count() == 1
        world.queries("q1")
        world.join()
        assert [record.event_id for record in view.waiting.of_event("c1")] == ["c1"]


def test_many_records_over_many_segments_are_counted_alike_by_a_new_process(world: World) -> None:
    with stories.merging_two_by_two():
        stories.leave_segments(world, 9)
        world.queries("q3", "later4")
        world.join(mode="complete")
    with closing(DispatcherState(world.state())) as state:
        assert not state.waiting.recount()
        assert state.counts().adds_up
        assert_counts(state.counts(), joined=2, unjoinable=16, pending=0)
    world.queries(*(f"q{n}" for n in range(9)), *(f"later{n}" for n in range(9)))
    counts = world.join().counts
    assert_counts(counts, joined=18, unjoinable=0, pending=0)
