"""Logs that are rotated, truncated or deleted under a datacenter's joins (protocol D5, D6)."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from photon.dispatcher.batch import BatchExecution
from photon.dispatcher.shift.status import status_of
from photon.logs.tailing import contents, tail, unseen_rotations
from photon.logs.tailing.rotation import Beginnings
from photon.logs.tailing.unknown_ends import Ends
from photon.pipeline.values import Format
from photon.state import dispatcher_state as state
from tests.simulation import rotation_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("way", stories.WAYS)
def test_a_log_that_is_rotated_before_each_join_is_joined_once(world: World, way: stories.Way) -> None:
    stories.no_event_is_lost_or_joined_twice(world, [way] * 3)


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_a_log_that_is_rotated_in_all_ways_in_turn_is_joined_once(tmp_path: Path, format_: Format) -> None:
    stories.no_event_is_lost_or_joined_twice(World(tmp_path, format_=format_), stories.WAYS)


@pytest.mark.parametrize("way", stories.WAYS)
def test_logs_that_come_and_are_rotated_while_no_join_runs_are_joined(world: World, way: stories.Way) -> None:
    stories.no_event_is_lost_or_joined_twice(world, [way] * 4, turns_a_join=3)


def test_what_went_while_nobody_looked_is_counted_and_named_until_it_is_back(world: World) -> None:
    stories.what_went_while_nobody_looked_is_counted(world)


def test_a_copy_beside_its_log_is_not_read(world: World) -> None:
    stories.a_copy_beside_its_log_is_not_read(world)


def test_a_name_that_is_not_utf_8_does_not_end_the_datacenter(world: World) -> None:
    world.queries("q")
    world.clicks(("c", "q"))
    folder = os.fsencode(stories.log_folders(world)[1])
    Path(os.fsdecode(folder + b"/caf\xe9.jsonl")).write_bytes(b"{}\n")
    world.join()
    assert world.joined_ids() == ["c"]
    (problem,) = status_of(world.pipeline, "east", world.clock).problems
    assert problem == "clicks/caf\\xe9.jsonl: its name is not UTF-8; rename it"


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


def test_a_batch_that_does_not_look_where_its_logs_went_loses_them(
    world: World, monkeypatch: Patch
) -> None:  # D8
    monkeypatch.setattr(BatchExecution, "_follow_moved", lambda *known: None)
    story = partial(
        stories.what_moves_out_of_sight_under_a_join_is_joined, world, stories.to_nowhere, at_task=True
    )
    caught_by_story(story, because="what left its folder is lost")


def test_a_log_that_is_not_looked_at_before_spark_starts_is_lost(world: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr("photon.dispatcher.shift.run.note_files", lambda *known: None)  # D6
    story = partial(stories.what_is_rotated_while_spark_starts_is_joined, world)
    caught_by_story(story, because="what was there at the start is lost")


@pytest.mark.parametrize("way", [stories.compress_at_once, stories.copy_truncate])
def test_a_rotated_log_that_is_not_looked_for_by_content_is_lost(
    world: World, monkeypatch: Patch, way: stories.Way
) -> None:  # D6
    monkeypatch.setattr(Beginnings, "like", lambda self, source, *paths: [])
    monkeypatch.setattr(tail, "find_elsewhere", lambda *known: {})
    story = partial(stories.no_event_is_lost_or_joined_twice, world, [way] * 2)
    caught_by_story(story, because="events were lost or joined twice")


def test_rotations_that_nobody_saw_as_logs_are_lost_if_files_alone_decides(
    world: World, monkeypatch: Patch
) -> None:  # D6
    monkeypatch.setattr(unseen_rotations, "unseen_rotations", lambda *known: [])
    ways = [stories.rename] * 4
    story = partial(stories.no_event_is_lost_or_joined_twice, world, ways, turns_a_join=3)
    caught_by_story(story, because="events were lost or joined twice")


def test_ends_that_nobody_saw_are_lost_without_a_word_if_only_what_was_seen_counts(
    world: World, monkeypatch: Patch
) -> None:  # D9
    monkeypatch.setattr(Ends, "went_in_use", lambda *known: False)
    leave = stories.to_another_folder
    story = partial(stories.what_nobody_can_know_is_told_until_it_is_acknowledged, world, leave)
    caught_by_story(story, because="nobody is told")


def test_sizes_that_are_not_stored_leave_lost_bytes_uncounted(world: World, monkeypatch: Patch) -> None:  # D5
    monkeypatch.setattr(state, "put_sizes", lambda db, grown: None)
    story = partial(stories.what_went_while_nobody_looked_is_counted, world)
    caught_by_story(story, because="what went is not counted")


def test_a_copy_that_is_read_as_a_file_of_its_own_is_read_twice(
    world: World, monkeypatch: Patch
) -> None:  # D6
    monkeypatch.setattr(contents, "is_beginning_of", lambda copy, copy_bytes, whole: False)
    story = partial(stories.a_copy_beside_its_log_is_not_read, world)
    caught_by_story(story, because="bytes were read twice")
