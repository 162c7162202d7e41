"""Logs that are rotated, truncated or deleted under a datacenter's joins (protocol D5, D6)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from photon.logs.tailing import tail
from photon.logs.tailing.rotation import Beginnings
from photon.pipeline.values import Format
from photon.state import dispatcher_state as state
from tests.simulation import rotation_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_a_log_that_is_rotated_in_all_ways_in_turn_is_joined_once(tmp_path: Path, format_: Format) -> None:
    stories.no_event_is_lost_or_joined_twice(World(tmp_path, format_=format_), stories.WAYS)


def test_what_went_while_nobody_looked_is_counted_and_named_until_it_is_back(world: World) -> None:
    stories.what_went_while_nobody_looked_is_counted(world)


def test_a_copy_beside_its_log_is_not_read(world: World) -> None:
    stories.a_copy_beside_its_log_is_not_read(world)


def test_a_log_that_is_rotated_while_spark_starts_is_joined(world: World) -> None:
    stories.what_is_rotated_while_spark_starts_is_joined(world)


@pytest.mark.parametrize("leave", [stories.to_another_folder, stories.to_nowhere])
def test_a_log_that_leaves_its_folder_while_nothing_runs_is_told(world: World, leave: stories.Leave) -> None:
    stories.what_nobody_can_know_is_told_until_it_is_acknowledged(world, leave)


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
    world.queries("q")
    world.clicks(*((f"c{number}", "q") for number in range(60)))
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
    caught_by_story(story, because="events were lost or joined twice")


def test_sizes_that_are_not_stored_leave_lost_bytes_uncounted(world: World, monkeypatch: Patch) -> None:  # D5
    monkeypatch.setattr(state, "put_sizes", lambda db, grown: None)
    story = partial(stories.what_went_while_nobody_looked_is_counted, world)
    caught_by_story(story, because="what went is not counted")
