"""Logs that are rotated, truncated or deleted under a datacenter's joins (protocol D5, D6)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from photon.health.status import status_of
from photon.join.messages import BatchRunner
from photon.join.tasks import LocalRunner
from photon.logs.tailing import tail
from photon.logs.tailing.rotation import Beginnings
from photon.pipeline.values import Format
from photon.state import dispatcher_state as state
from photon.state.losses import plan_acknowledgement
from tests.simulation import rotation_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World, assert_counts

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_a_log_that_is_rotated_in_all_ways_in_turn_is_joined_once(tmp_path: Path, format_: Format) -> None:
    stories.no_event_is_lost_or_joined_twice(World(tmp_path, format_=format_), stories.WAYS)


def test_what_went_while_nobody_looked_is_counted_and_named_until_it_is_back(world: World) -> None:
    stories.what_went_while_nobody_looked_is_counted(world)


def test_a_copy_beside_its_log_is_not_read(world: World) -> None:
    """A copy that `files` matches too is one with its log, and takes its place when that is truncated."""
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    world.join()
    folder = stories.log_folders(world)[1]
    copy = folder / "a.jsonl.1.jsonl"
    copy.write_bytes((folder / "a.jsonl").read_bytes())
    world.join()
    (folder / "a.jsonl").write_bytes(b"")
    world.join()
    world.clicks(("c2", "q2"))
    counts = world.join().counts
    assert_counts(counts, "bytes were read twice", joined=2, duplicates=0)


def test_a_log_that_is_rotated_while_spark_starts_is_joined(world: World) -> None:
    """Nobody has seen the logs before the very first start, and Spark takes some ten seconds."""
    stories.with_exact_globs(world)
    world.events("c1")

    def starts_slowly(*_: object) -> BatchRunner:
        for folder in stories.log_folders(world):
            stories.rename(folder)
        world.events("c2", query="q2")
        return LocalRunner(world.clock)

    world.join(runner=starts_slowly)
    assert world.joined_ids() == ["c1", "c2"], "what was there at the start is lost"


@pytest.mark.parametrize("leave", [stories.to_another_folder, stories.to_nowhere])
def test_a_log_that_leaves_its_folder_while_nothing_runs_is_told(world: World, leave: stories.Leave) -> None:
    """A log grows and leaves its folder between two joins: nobody knows how it ended."""
    stories.with_exact_globs(world)
    world.events("c1")
    world.join()
    world.clicks(("c2", "q1"))
    leave(stories.log_folders(world)[1])
    world.clicks(("c3", "q1"))
    world.join()
    assert world.joined_ids() == ["c1", "c3"]
    told = status_of(world.pipeline, "east", world.clock)
    assert told.problems, "nobody is told"
    sentence, file = told.problems
    assert "all that was seen of 1 log file truncated or gone in use was read" in sentence
    assert file.startswith("clicks/a.jsonl (an earlier file of this name): ")
    assert "all that was seen of it was read" in file
    assert told.facts.lost.may_be_lost == {1: 0}
    plan_acknowledgement(world.state(), world.clock.now_us()).apply()
    assert status_of(world.pipeline, "east", world.clock).problems == []


@pytest.mark.parametrize("at_task", [False, True], ids=["between_batches", "under_a_batch"])
@pytest.mark.parametrize("leave", [stories.to_another_folder, stories.to_nowhere])
def test_a_log_that_leaves_its_folder_while_a_join_runs_is_read_to_its_end(
    world: World, leave: stories.Leave, at_task: bool
) -> None:
    stories.what_moves_out_of_sight_under_a_join_is_joined(world, leave, at_task)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (0, "was written to in its place"),
        (30, "was written to in its place"),
        (59, "another one is in its place"),
    ],
)
def test_a_trace_says_that_a_log_was_written_to_in_its_place(world: World, line: int, says: str) -> None:
    world.events(*(f"c{number}" for number in range(60)), query="q")
    world.join()
    log = stories.log_folders(world)[1] / "a.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[line] = b"#" * (len(lines[line]) - 1) + b"\n"
    log.write_bytes(b"".join(lines))
    (problem,) = world.trace(f"c{line}").problems
    assert "clicks/a.jsonl" in problem
    assert says in problem


# -- without the rules


@pytest.mark.parametrize("leave", [stories.to_another_folder, stories.to_nowhere])
def test_a_log_that_is_not_held_open_is_lost_when_it_leaves_its_folder(
    world: World, monkeypatch: Patch, leave: stories.Leave
) -> None:  # D8
    monkeypatch.setattr("photon.dispatcher.shift.run._held_files", lambda place, state: None)
    story = partial(stories.what_moves_out_of_sight_under_a_join_is_joined, world, leave)
    caught_by_story(story, because="what left its folder is lost")


@pytest.mark.parametrize("way", [stories.compress_at_once, stories.copy_truncate])
def test_a_rotated_log_that_is_not_looked_for_by_content_is_lost(
    world: World, monkeypatch: Patch, way: stories.Way
) -> None:  # D6
    monkeypatch.setattr(Beginnings, "like", lambda self, source, *paths: [])
    monkeypatch.setattr(tail, "find_elsewhere", lambda *known: {})
    story = partial(stories.no_event_is_lost_or_joined_twice, world, [way] * 2)
    caught_by_story(story, because="bytes were read twice or counted as lost")


def test_sizes_that_are_not_stored_leave_lost_bytes_uncounted(world: World, monkeypatch: Patch) -> None:  # D5
    monkeypatch.setattr(state, "put_sizes", lambda db, grown: None)
    story = partial(stories.what_went_while_nobody_looked_is_counted, world)
    caught_by_story(story, because="what went is not counted")
