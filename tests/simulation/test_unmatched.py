"""Primaries that no foreign event was joined with, in real tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.process.faults import UNMATCHED_FAULT_POINTS
from tests.simulation import unmatched_stories as stories
from tests.simulation.unmatched_stories import DAY_US, HOUR_US, UnmatchedWorld
from tests.simulation.world import NOON_US


def test_a_primary_that_no_row_names_is_written_once_it_is_old_enough(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1", "q2")
    world.clicks(("a", "q1"))
    world.go_on(DAY_US)
    assert world.look().unmatched.total() == 0
    world.go_on(DAY_US + HOUR_US)
    found = world.look()
    assert world.unmatched_ids() == ["q2"]
    assert dict(found.unmatched) == {"no foreign event": 1}
    (row,) = world.unmatched()
    assert (row["text"], row["_occurrence"], row["conflicting"]) == ("text of q2", "2:62", False)
    assert found.up_to_us == world.progress().up_to_us == (NOON_US + HOUR_US) // HOUR_US * HOUR_US


def test_a_new_epoch_writes_nothing_again(tmp_path: Path) -> None:
    stories.a_new_epoch_goes_on_where_the_old_one_was(UnmatchedWorld(tmp_path))


def test_a_new_epoch_looks_at_all(tmp_path: Path) -> None:
    stories.a_new_epoch_has_other_numbers_of_files(UnmatchedWorld(tmp_path))


def test_a_second_copy_of_an_id_gets_no_row_when_the_first_one_s_log_is_gone(tmp_path: Path) -> None:
    stories.a_second_copy_comes_when_the_first_one_s_log_is_deleted(UnmatchedWorld(tmp_path))


def test_a_primary_that_comes_late_is_written_with_the_next_run(tmp_path: Path) -> None:
    stories.a_primary_comes_late(UnmatchedWorld(tmp_path))


def test_what_is_indexed_after_it_counts_as_read_is_looked_at(tmp_path: Path) -> None:
    stories.a_range_is_indexed_after_it_counts_as_read(UnmatchedWorld(tmp_path))


def test_a_line_that_can_not_be_read_is_told_and_looked_at_again(tmp_path: Path) -> None:
    stories.a_line_can_not_be_read_for_a_while(UnmatchedWorld(tmp_path))


def test_foreign_logs_that_are_behind_are_awaited(tmp_path: Path) -> None:
    stories.a_foreign_event_is_read_late(UnmatchedWorld(tmp_path))


def test_a_lake_that_is_not_mounted_holds_the_run_back(tmp_path: Path) -> None:
    stories.a_lake_is_not_mounted(UnmatchedWorld(tmp_path, ["east", "west"]))


def test_an_owner_that_stood_still_is_fenced(tmp_path: Path) -> None:
    stories.an_owner_that_stood_still_commits_after_its_retirement(UnmatchedWorld(tmp_path, ["east", "west"]))


@pytest.mark.parametrize("point", [*UNMATCHED_FAULT_POINTS, "lake.after_commit"])
def test_a_run_that_was_killed_anywhere_is_made_up_for_by_the_next(tmp_path: Path, point: str) -> None:
    stories.a_run_is_killed_and_run_again(UnmatchedWorld(tmp_path), point)


def test_of_two_runs_at_once_one_commits(tmp_path: Path) -> None:
    stories.two_runs_meet(UnmatchedWorld(tmp_path))


def test_primaries_of_rows_that_left_are_looked_at_again(tmp_path: Path) -> None:
    stories.rows_leave_with_their_lake(UnmatchedWorld(tmp_path, ["east", "west"]))
