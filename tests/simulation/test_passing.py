"""Batches of silent datacenters are passed over, and their processes go on where they were (protocol A25)."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.dispatcher.committing import why_put_back
from photon.dispatcher.recovery.passing import Step, step_for
from photon.process.faults import RECOVERY_FAULT_POINTS, TAKE_FAULT_POINTS
from photon.state.points import POINTS
from photon.storage.tables import FENCE_VERSION, NOT_BEGUN, LastCommit, fence_epoch
from tests.simulation import passing_stories as stories
from tests.simulation.hold_stories import HOME
from tests.simulation.put_back_stories import Copied
from tests.simulation.world import World
from tests.support.crashes import at


@pytest.fixture
def world(tmp_path: Path) -> Copied:
    return stories.two_that_have_joined(tmp_path)


@pytest.mark.parametrize(
    "point",
    ["claim.after", "side_tables.after_dead_letters", "side_tables.after_too_old", "commit.before_main"],
)
def test_a_silent_datacenter_goes_on_where_it_was(world: Copied, point: str) -> None:
    stories.a_silent_datacenter_goes_on_where_it_was(world, point=point)


@pytest.mark.parametrize("survivor", RECOVERY_FAULT_POINTS)
def test_whoever_dies_while_a_batch_is_passed_over_it_is_done_once(world: Copied, survivor: str) -> None:
    stories.a_silent_datacenter_goes_on_where_it_was(world, survivor, point="commit.before_main")


@pytest.mark.parametrize("back", [*TAKE_FAULT_POINTS, "plan.before_store", "commit.after_main"])
def test_a_process_that_dies_while_it_takes_a_batch_takes_it_again(world: Copied, back: str) -> None:
    stories.a_silent_datacenter_goes_on_where_it_was(world, back=back, point="commit.before_main")


@pytest.mark.parametrize("survivor", RECOVERY_FAULT_POINTS)
def test_a_process_takes_what_a_dead_survivor_began(world: Copied, survivor: str) -> None:
    world.everywhere("c2")
    stories.dies(world, "commit.before_main")
    assert world.join_with_a_crash(survivor, "east")
    world.join("west")
    world.join("east")
    stories.must_have_gone_on(world, 1, "c2")


@pytest.mark.parametrize("survivor", ["", "recover.after_passed", "recover.after_close"])
def test_a_side_row_that_comes_late_is_there_once_or_not_at_all(world: Copied, survivor: str) -> None:
    stories.side_rows_come_late(world, survivor)


def test_each_return_to_the_same_work_keeps_its_attempts(world: Copied) -> None:
    stories.each_return_dies_of_the_same_work(world)


def test_a_claim_that_is_void_for_its_batch_was_closed_ends_nobody(world: Copied) -> None:
    stories.a_void_claim_ends_nobody(world)


def test_rows_that_came_right_before_keep_their_batch(world: Copied) -> None:
    stories.rows_come_right_before_the_batch_is_passed_over(world)


def test_a_lake_of_before_a_batch_was_passed_over_begins_a_new_epoch(world: Copied) -> None:
    stories.a_lake_put_back(world)


def test_joined_rows_of_before_a_batch_was_passed_over_begin_a_new_epoch(world: Copied) -> None:
    stories.a_part_of_a_lake_put_back(world)


def test_an_epoch_whose_table_lacks_more_than_the_open_batch_is_ended(world: Copied) -> None:
    stories.a_survivor_meets_a_lake_put_back(world)


def test_a_copy_of_the_state_from_before_its_last_batches_begins_a_new_epoch(world: Copied) -> None:
    put_back = world.copy_state("west")
    world.everywhere("c2")
    stories.dies(world)
    world.join("east")
    world.everywhere("c3")
    world.join("west")
    put_back()
    for name in ("west", "east"):
        world.join(name)
    assert world.read_state("west").epoch == "2"
    world.must_be_sound(["c1", "c2", "c3"])


def test_a_state_without_a_plan_takes_the_batch_that_was_passed_over(world: Copied) -> None:
    put_back = world.copy_state("west")
    world.everywhere("c2")
    stories.dies(world)
    world.join("east")
    put_back()
    world.join("west")
    stories.must_have_gone_on(world, 1, "c2")


def test_a_process_whose_epoch_was_fenced_goes_on_in_a_new_one(world: Copied) -> None:
    world.everywhere("c2")
    lake = world.pipeline.datacenters["west"].lake
    with at("commit.before_main", lambda: fence_epoch(lake, "west", "1")):
        world.join("west")
    assert world.read_state("west").epoch == "2"
    world.must_be_sound(["c1", "c2"])


def test_the_history_tells_of_a_batch_that_was_passed_over(world: Copied) -> None:
    stories.a_silent_datacenter_goes_on_where_it_was(world)
    with POINTS.reading(world.pipeline, "west") as rows:
        assert rows is not None
        marks = rows.to_table(columns=["mark", "says"]).to_pylist()
    (says,) = [row["says"] for row in marks if row["mark"] == "passed over"]
    assert "batch 2 was passed over while this process was silent" in says


def test_an_epoch_whose_batches_were_all_passed_over_has_not_run(tmp_path: Path) -> None:
    """Broken variant: the next start passes its backlog over."""
    world = World(tmp_path, ("east", "west"), f"{HOME}\nnew_epoch_reads_from: now")
    world.everywhere("c1")
    world.clicks(("w1", "q1"), datacenter="west")
    assert world.join_with_a_crash("claim.after", "west")
    world.join("east")
    for path in world.state("west").iterdir():
        path.unlink() if path.is_file() else None
    world.join("west")
    assert world.joined_ids() == ["c1", "w1"]


@pytest.mark.parametrize(
    ("table", "closed", "step"),
    [
        (LastCommit(4), 4, "pass"),
        (LastCommit(5), 4, "raise"),
        (LastCommit(6), 4, "close"),
        (LastCommit(3), 3, "end"),
        (LastCommit(4), 5, "end"),
        (LastCommit(5), 6, "end"),
        (NOT_BEGUN, 0, "end"),
    ],
)
def test_a_table_that_lacks_only_the_open_batch_gets_it(table: LastCommit, closed: int, step: Step) -> None:
    assert step_for(5, closed, table, is_fenced=False) == step
    assert step_for(5, closed, table, is_fenced=True) == "end"


@pytest.mark.parametrize(
    ("table", "closed", "side"),
    [
        (LastCommit(6, passed=2), 0, 0),
        (LastCommit(7, passed=2), 8, 0),
        (LastCommit(7, passed=2), 7, 9),
        (LastCommit(7, passed=2), 7, FENCE_VERSION),
        (LastCommit(7, passed=1), 7, 7),
        (LastCommit(7, passed=3), 7, 7),
        (LastCommit(8, passed=1), 7, 7),
        (LastCommit(8, passed=4), 7, 7),
        (NOT_BEGUN, 0, 0),
    ],
)
def test_a_table_that_was_put_back_shows_it(table: LastCommit, closed: int, side: int) -> None:
    assert why_put_back("1", LastCommit(7, passed=2), table, closed, side)


@pytest.mark.parametrize(
    ("table", "closed", "side"),
    [
        (LastCommit(7, passed=2), 7, 8),
        (LastCommit(8, passed=2), 8, 9),
        (LastCommit(8, passed=3), 8, 9),
        (LastCommit(9, passed=3), 9, 10),
    ],
)
def test_a_table_that_goes_on_from_the_state_was_not_put_back(
    table: LastCommit, closed: int, side: int
) -> None:
    assert not why_put_back("1", LastCommit(7, passed=2), table, closed, side)
