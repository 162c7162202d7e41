"""Primaries that no foreign event was joined with, in real tables."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from photon.process.errors import WrongUsage
from photon.process.faults import UNMATCHED_FAULT_POINTS
from photon.process.operating_system import held_alone
from photon.registry.register import with_hold
from photon.state.dispatcher_state import DispatcherState
from photon.storage.tables import OutputTable
from photon.unmatched.found import HeldBack
from photon.unmatched.run import LOCK
from photon.upkeep.compact import plan_compaction
from photon.upkeep.retire import plan_retire
from tests.simulation import unmatched_stories as stories
from tests.simulation.picky_adapter import NAME
from tests.simulation.unmatched_stories import DAY_US, HOUR_US, UNMATCHED, UnmatchedWorld
from tests.simulation.world import NOON_US
from tests.support.earlier_rows import earlier_rows


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


def test_primaries_of_rows_that_others_took_are_not_written(tmp_path: Path) -> None:  # R4, E12
    world = UnmatchedWorld(tmp_path)
    world.queries("q1", "q2")
    world.clicks(("a", "q1"))
    world.go_on(DAY_US + HOUR_US)
    world.table().load().delete("_event_id = 'a'")
    world.go_on(DAY_US + 2 * HOUR_US)  # a release has what is there now
    assert "was changed by others" in world.look().held_back
    assert world.unmatched_ids() == []


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


# -- what rows say


def test_of_an_event_that_was_logged_twice_the_first_copy_counts_and_another_content_is_told(
    tmp_path: Path,
) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1", "q2", at_us=NOON_US + 7)
    world.log("east", "queries", {"query": "q1", "at": NOON_US, "text": "earlier"})
    world.queries("q2", at_us=NOON_US + 7)
    world.go_on()
    assert world.look().conflicting == 1
    told = [(row["primary_id"], row["text"], row["conflicting"]) for row in world.unmatched()]
    assert told == [("q1", "earlier", True), ("q2", "text of q2", False)]


def test_a_foreign_event_that_is_a_dead_letter_is_the_reason(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path, more=f"adapter: {NAME}:join\n{UNMATCHED}")
    world.queries("q1", "q2")
    world.log("east", "clicks", {"click": "a", "query": "q1", "at": NOON_US, "asks": "fail"})
    world.go_on()
    world.look()
    reasons = {row["primary_id"]: row["reason"] for row in world.unmatched()}
    assert reasons == {"q1": "dead letter", "q2": "no foreign event"}


def test_what_the_adapter_left_out_is_a_reason_too(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path, more=f"adapter: {NAME}:join\n{UNMATCHED}")
    world.queries("q1", "q2", "q3")
    for click, query, asks in (("a", "q1", "drop"), ("b", "q2", "skip"), ("c", "q2", "skip")):
        world.log("east", "clicks", {"click": click, "query": query, "at": NOON_US, "asks": asks})
    world.go_on()
    world.look()
    reasons = {row["primary_id"]: row["reason"] for row in world.unmatched()}
    assert reasons == {"q1": "filtered", "q2": "skipped", "q3": "no foreign event"}
    told = [(row["key"], row["reason"]) for row in world.rows("left_out")]
    assert sorted(told) == [("q1", "filtered"), ("q2", "skipped")]


def test_who_looks_for_no_unmatched_primaries_keeps_nothing_of_what_was_left_out(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path, more=f"adapter: {NAME}:join")
    world.queries("q1")
    world.log("east", "clicks", {"click": "a", "query": "q1", "at": NOON_US, "asks": "drop"})
    world.join()
    assert not OutputTable(world.pipeline.datacenters["east"].lake, "left_out").exists()


def test_a_value_that_does_not_fit_a_column_is_null_and_counted(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path, more="unmatched: {columns: [size, nobody_logs_it]}")
    world.log("east", "queries", {"query": "q1", "at": NOON_US, "size": "7"})
    world.log("east", "queries", {"query": "q2", "at": NOON_US + DAY_US, "size": "much"})
    world.log("east", "queries", {"query": "q3", "at": NOON_US + DAY_US, "size": "8"})
    world.go_on(DAY_US + 2 * HOUR_US)
    assert world.look().unfit == 0
    primary = world.pipeline.primary.model_copy(update={"columns": {"size": "int64"}})
    world.pipeline = world.pipeline.model_copy(update={"primary": primary})
    world.go_on(3 * DAY_US)
    assert world.look().unfit == 1
    assert [row["size"] for row in world.unmatched()] == ["7", None, "8"]
    assert {row["nobody_logs_it"] for row in world.unmatched()} == {None}


# -- what holds a run back, and what does not


def test_without_the_section_nothing_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="no section `unmatched`"):
        UnmatchedWorld(tmp_path, more="").look()


def test_a_dry_run_says_the_same_and_changes_nothing(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1")
    world.go_on()
    before = {path for path in world.folder.rglob("*") if "sqlite" not in path.name}
    dry = world.look(dry_run=True)
    assert world.reader().register.unmatched_owner == ""
    assert {path for path in world.folder.rglob("*") if "sqlite" not in path.name} == before
    assert dry.unmatched == world.look().unmatched
    assert world.unmatched_ids() == ["q1"]


def test_a_run_with_nothing_new_commits_nothing(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1")
    world.go_on()
    world.look()
    table = OutputTable(world.pipeline.datacenters["east"].lake, "unmatched")
    version = table.load().version()
    again = world.look()
    assert (again.runs, again.candidates) == (0, 0)
    assert world.look(anew=True).candidates > 0
    assert table.load().version() == version


def test_a_run_says_what_the_next_primaries_wait_for(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1")
    world.go_on(2 * HOUR_US)
    world.clock.advance(3 * DAY_US / 1e6)
    told = world.look().sentences(dry_run=False)[-1]
    assert told.startswith("no more for now: its ")
    assert told.endswith(", and primaries are due `unmatched.after` behind that")


def test_a_second_run_beside_one_is_told_so(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.go_on()
    with held_alone(world.state() / LOCK), pytest.raises(HeldBack, match="another run is under way"):
        world.look()


def test_an_owner_on_hold_writes_nothing(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.go_on()
    world.ledgers.change(lambda register: with_hold(register, "east", True))
    with pytest.raises(HeldBack, match="photon resume"):
        world.look()


def test_an_index_that_is_lost_is_awaited(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.go_on()
    with closing(DispatcherState(world.state())) as state:
        state.lose_index()
    with pytest.raises(HeldBack, match="the index of primary events"):
        world.look()


def test_where_the_owner_s_state_is_not_a_person_is_told_to_go_there(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.go_on()
    shutil.rmtree(world.state())
    with pytest.raises(HeldBack, match="run this where it is"):
        world.look()


def test_logs_that_were_called_complete_are_decided_to_their_ends(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1", "q2")
    world.clicks(("a", "q2"))
    world.clock.advance(3 * DAY_US / 1e6)
    world.join()
    world.look()
    assert world.unmatched_ids() == []  # nobody knows whether more comes
    world.join(mode="complete")
    world.look()
    assert world.unmatched_ids() == ["q1"]


def test_logs_that_were_called_complete_long_after_the_last_release_are_decided(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1")
    world.clicks(("a", "q1"))
    world.join()
    world.queries("q2", at_us=NOON_US + HOUR_US)
    world.join()
    world.clock.advance(3 * DAY_US / 1e6)
    world.join(mode="complete")
    world.look()
    assert world.unmatched_ids() == ["q2"]


def test_an_id_that_has_a_row_and_is_logged_again_later_gets_none(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1", "q2")
    world.clicks(("a", "q1"))
    world.go_on(2 * DAY_US)
    world.look()
    world.queries("q1", "q2", "q3", at_us=NOON_US + 2 * DAY_US + HOUR_US)
    world.go_on(5 * DAY_US)
    assert world.look().unmatched.total() == 1
    assert world.unmatched_ids() == ["q2", "q3"]


def test_days_with_rows_that_name_no_primary_are_in_nobody_s_scope(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("old", "joined")
    world.clicks(("a", "joined"))
    with earlier_rows():
        world.join()
    world.queries("new", at_us=NOON_US + DAY_US)
    world.go_on(4 * DAY_US)
    found = world.look()
    assert world.unmatched_ids() == ["new"]
    assert found.since_us is not None
    assert NOON_US < found.since_us <= NOON_US + DAY_US


def test_after_a_retirement_with_its_lake_another_datacenter_goes_on(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path, ["east", "west"])
    stories.write_by_east_alone(world)
    plan_retire(world.pipeline, world.reader(), "east").apply()
    world.queries("q2", datacenter="west", at_us=NOON_US + DAY_US)
    world.go_on(4 * DAY_US, "west")
    assert world.look().owner == "west"
    told = [(row["primary_id"], row["_datacenter"]) for row in world.unmatched()]
    assert told == [("q1", "east"), ("q2", "west")]


def test_after_a_retirement_without_its_lake_another_datacenter_writes_all_again(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path, ["east", "west"])
    stories.write_by_east_alone(world)
    shutil.rmtree(world.pipeline.datacenters["east"].lake)
    world.lose_state("east")
    plan_retire(world.pipeline, world.reader(), "east", True).apply()
    world.go_on(3 * DAY_US, "west")
    stories.verified(world, "west")
    world.go_on(4 * DAY_US, "west")
    world.look()
    assert ("q1", "west") in [(row["primary_id"], row["_datacenter"]) for row in world.unmatched()]
    world.must_be_decided("q1")


def test_a_table_that_is_gone_or_older_is_written_again(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    table = world.pipeline.datacenters["east"].lake / "unmatched"
    world.queries("q1")
    world.go_on(DAY_US + 2 * HOUR_US)
    world.look()
    put_back = world.copy(table)
    world.queries("q2", at_us=NOON_US + HOUR_US)
    world.go_on()
    world.look()
    put_back()
    world.look()
    world.must_be_decided("q1", "q2")
    shutil.rmtree(table)
    world.look()
    world.must_be_decided("q1", "q2")


def test_a_compaction_keeps_each_row_and_the_next_run_goes_on(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    names = [f"q{number}" for number in range(3)]
    for number, name in enumerate(names):
        world.queries(name, at_us=NOON_US + number * HOUR_US)
        world.go_on(DAY_US + (number + 2) * HOUR_US)
        world.look()
    before = world.unmatched()
    done = plan_compaction(world.pipeline, "east", world.clock, least_files=2).apply()
    assert done["unmatched"].files_after < done["unmatched"].files_before
    assert world.unmatched() == before
    assert world.look(anew=True).unmatched.total() == 0
    world.must_be_decided(*names)


def test_a_refilled_registry_knows_no_owner_until_the_next_run_and_no_primary_has_two_rows(
    tmp_path: Path,
) -> None:
    world = UnmatchedWorld(tmp_path, ["east", "west"])
    stories.write_by_east_alone(world)
    world.ledgers.change(lambda register: replace(register, unmatched_owner=""))
    world.lose_state("east")
    world.go_on(4 * DAY_US)
    world.look()
    assert world.reader().register.unmatched_owner == "east"
    world.must_be_decided("q1")
