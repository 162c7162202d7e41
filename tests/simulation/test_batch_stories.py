"""Rules of a batch that take a history to show: each is told step by step in `batch_stories`."""

from __future__ import annotations

from contextlib import closing
from typing import get_args

import pytest

from photon.dispatcher import task_splitter
from photon.health.status import status_of
from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.process.faults import ABANDON_FAULT_POINTS, arm, disarm
from photon.state.waiting.segments import INDEX, RECORDS
from photon.storage.own_columns import SchemaConflict
from tests.simulation import batch_stories as stories
from tests.simulation.runners import DiesOnce, Hangs, KillsTheDriver, PoisonedRunner
from tests.simulation.world import World, assert_counts
from tests.support.crashes import SimulatedCrash, at, dies_at, failing


@pytest.mark.parametrize("point", ["plan.after_store", "claim.after"])
def test_a_cloned_state_takes_no_row_of_the_other_copy_for_its_own(world: World, point: str) -> None:
    """A15: two copies of a state each plan batch N, of other files, and both call their file the same."""
    copies, clicks = stories.StateCopies(world), world.folder / "logs" / "east" / "clicks"
    world.events("c1")
    world.join()
    copies.keep("before")
    world.clicks(("of the clone", "q1"), file="b.jsonl")
    assert world.join_with_a_crash(point)
    copies.keep("clone")
    (clicks / "b.jsonl").rename(world.folder / "aside")
    copies.put_back("before")
    world.clicks(("of the other", "q1"), file="c.jsonl")
    world.join()
    (world.folder / "aside").rename(clicks / "b.jsonl")
    copies.put_back("clone")
    world.join()
    assert world.joined_ids() == ["c1", "of the clone", "of the other"], "an event has no row"


def test_a_process_whose_batch_another_plan_has_committed_ends_and_begins_a_new_epoch(world: World) -> None:
    stories.a_batch_that_another_plan_commits_ends_the_process(world)


# -- rows first (A14)


@pytest.mark.parametrize("point", ["task.after_candidates", "claim.after", "commit.before_main"])
@pytest.mark.parametrize("gone", ["clicks", "queries"])
def test_a_rerun_joins_what_was_claimed_from_stored_rows(world: World, gone: str, point: str) -> None:
    stories.what_is_claimed_is_joined_though_its_log_is_gone(world, gone, point)


def test_a_rerun_joins_a_record_that_waited_from_its_stored_row(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    world.queries("q1")
    assert world.join_with_a_crash("claim.after:1")
    (world.folder / "logs" / "east" / "queries" / "a.jsonl").unlink()
    counts = world.join().counts
    assert world.joined_ids() == ["c1"]
    assert_counts(counts, joined=1, pending=0)


def test_a_rerun_by_fewer_workers_finds_what_more_of_them_had_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_splitter, "TASK_BYTES", 1)
    world.queries("q1")
    for number in range(6):
        world.clicks((f"c{number}", "q1"), file=f"{number}.jsonl")
    three = LocalRunner(world.clock)
    three.workers = 3
    with dies_at("claim.after"):
        world.join(runner=three)
    world.forget()
    for path in (world.folder / "logs" / "east" / "clicks").iterdir():
        path.unlink()
    counts = world.join().counts
    assert world.joined_ids() == [f"c{number}" for number in range(6)]
    assert_counts(counts, foreign=6, joined=6)


def test_rows_of_events_that_others_won_meanwhile_are_not_committed(world: World) -> None:
    world.events("c1", "c2")
    assert world.join_with_a_crash("task.after_candidates")
    world.registered_elsewhere("c1")
    counts = world.join().counts
    assert world.joined_ids() == ["c2"]
    assert_counts(counts, joined=1, joined_elsewhere=1)
    stories.nothing_uncommitted_is_left(world)


def test_a_file_of_rows_that_was_cut_short_is_no_obstacle(world: World) -> None:
    world.events("c1")
    assert world.join_with_a_crash("task.after_candidates")
    (stored,) = (world.folder / "lake" / "east" / "joined_events").glob("_event_date=*/*.parquet")
    stored.write_bytes(stored.read_bytes()[:100])
    world.join()
    assert world.joined_ids() == ["c1"]
    stories.nothing_uncommitted_is_left(world)


def test_an_abandoned_plan_frees_what_it_had_claimed(world: World) -> None:
    runner = DiesOnce(world, takes="clicks/a.jsonl")
    stories.what_an_abandoned_plan_claimed_is_free_though_its_log_is_gone(world, runner)


@pytest.mark.parametrize("point", ABANDON_FAULT_POINTS)
def test_so_it_does_if_the_process_dies_meanwhile(world: World, point: str) -> None:
    world.events("poison", "c1")
    assert world.join_with_a_crash("claim.after")
    with dies_at(point):
        world.join(runner=DiesOnce(world))
    world.forget()
    world.join()
    assert world.joined_ids() == ["c1", "poison"]
    stories.nothing_uncommitted_is_left(world)


@pytest.mark.parametrize("point", ["", "complete.before_transaction"])
def test_a_process_that_sleeps_and_claims_behind_the_commit_leaves_no_id_held(
    world: World, point: str
) -> None:
    """A7: a process was stopped. It stores a row and claims it when another one has committed the batch."""
    world.events("c1")
    world.join_with_a_crash("claim.after")
    arm("commit.after_main", lambda: stories._claim_late(world))
    try:
        world.join()
    except SimulatedCrash:
        world.forget()
    finally:
        disarm()
    if point:
        world.join_with_a_crash(point)
    world.join()
    assert world.holder("late") is None, "an id is claimed and has no row"


def test_rows_count_though_their_log_went_before_they_were_read_back(
    world: World,
) -> None:
    world.events("c1", "c2")
    assert world.join_with_a_crash("commit.after_main")
    (world.folder / "logs" / "east" / "clicks" / "a.jsonl").unlink()
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "c2"]
    assert_counts(counts, foreign=2, joined=2)


# -- attempts count (A17)


@pytest.mark.parametrize("runner", [KillsTheDriver, Hangs])
def test_a_record_that_kills_the_process_or_hangs_is_a_dead_letter_and_the_rest_joins(
    world: World, runner: type[PoisonedRunner]
) -> None:
    stories.a_record_that_never_lets_its_batch_end_is_a_dead_letter(world, runner(world))


def test_a_process_that_is_killed_twice_in_a_batch_runs_it_again_whole(world: World) -> None:
    world.events("c1", "c2")
    for point in ("task.after_lookup", "commit.before_main"):
        assert world.join_with_a_crash(point)
    world.join()
    assert {row["_batch"] for row in world.rows()} == {1}
    assert world.joined_ids() == ["c1", "c2"]


# -- side tables (A12)


def test_a_dead_letter_that_only_the_second_run_finds_is_recorded(world: World) -> None:
    stories.dead_letters_that_only_the_second_run_finds_are_recorded(world)


def test_a_dead_letter_of_an_abandoned_plan_is_recorded_once(world: World) -> None:
    """A12: a batch is abandoned when its dead letters are committed, for its rows don't fit the table."""
    world.events("c1", "c2")
    world.log("east", "clicks", "{broken\n")
    with at("commit.before_main", failing(SchemaConflict("column 'x' holds string, new rows have int64"))):
        counts = world.join().counts
    assert world.joined_ids() == ["c1", "c2"]
    assert len(world.rows("dead_letters")) == 1, "a dead letter is not recorded once"
    assert_counts(counts, foreign=3, dead_letters=1)
    assert {row["_batch"] for row in world.rows()} != {1}, "the plan was abandoned"


# -- a bad waiting segment (A19)


@pytest.mark.parametrize("harm", get_args(stories.Harm))
def test_records_of_a_bad_file_are_read_from_their_log_again(world: World, harm: stories.Harm) -> None:
    stories.records_of_a_bad_segment_are_found_again(world, harm, RECORDS)


@pytest.mark.parametrize("harm", get_args(stories.Harm))
def test_a_bad_index_is_made_from_the_records(world: World, harm: stories.Harm) -> None:
    stories.records_of_a_bad_segment_are_found_again(world, harm, INDEX)


def test_a_segment_of_which_both_files_are_gone_is_counted_as_lost(world: World) -> None:
    """A19: nobody knows which events waited there; the datacenter goes on, and the classes add up."""
    world.clicks(("c1", "q1"), ("c2", "q2"))
    world.join()
    for suffix in (RECORDS, INDEX):
        stories.harm_waiting(world, "gone", suffix)
    world.queries("q1", "q2", "q3")
    world.clicks(("c3", "q3"))
    stories.join_unless_it_waits_for_ever(world)
    assert world.joined_ids() == ["c3"], "a bad waiting segment stops the datacenter"
    with closing(world.read_state()) as state:
        counts = state.counts()
    assert counts.adds_up
    assert_counts(counts, foreign=3, joined=1, pending=0, lost=2)


def test_records_that_a_plan_refers_to_are_told_as_lost_when_both_files_are_gone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Records of a plan count as lost once the plan has run; until then none was told."""
    world.clicks(("c1", "q1"))
    world.join()
    world.queries("q1")
    assert world.join_with_a_crash("plan.after_store:2")  # the second plan has c1, which q1 woke
    for suffix in (RECORDS, INDEX):
        stories.harm_waiting(world, "gone", suffix)
    assert_counts(world.join().counts, joined=0, lost=1)
    assert "0 records are lost, and 1 more that a plan refers to" in caplog.text


@pytest.mark.parametrize("point", ["", "waiting.after_lost"])
def test_so_it_is_while_an_open_plan_refers_to_some_of_its_records(world: World, point: str) -> None:
    world.clicks(("c1", "q1"), ("c2", "never"))
    world.join()
    world.queries("q1")
    assert world.join_with_a_crash("task.after_read")
    for suffix in (RECORDS, INDEX):
        stories.harm_waiting(world, "gone", suffix)
    if point:
        assert world.join_with_a_crash(point)
    stories.join_unless_it_waits_for_ever(world)
    with closing(world.read_state()) as state:
        assert state.counts().adds_up
        assert_counts(state.counts(), foreign=2, pending=0, lost=2)


def test_a_record_that_its_log_has_lost_too_is_counted_as_lost_and_named(world: World) -> None:
    """A19: the records file is gone, and of its two records one is in a log that is gone too."""
    world.clicks(("c1", "q1"))
    world.clicks(("c2", "q1"), file="b.jsonl")
    world.join()
    stories.harm_waiting(world, "gone", RECORDS)
    (world.folder / "logs" / "east" / "clicks" / "b.jsonl").unlink()
    world.queries("q1")
    stories.join_unless_it_waits_for_ever(world)
    assert world.joined_ids() == ["c1"], "a bad waiting segment stops the datacenter"
    with closing(world.read_state()) as state:
        counts = state.counts()
    assert counts.adds_up
    assert_counts(counts, foreign=2, joined=1, pending=0, lost=1)
    (problem,) = [
        one for one in status_of(world.pipeline, "east", world.clock).problems if "c2 is lost" in one
    ]
    assert "event c2 is lost: its record, at byte 0 of clicks/b.jsonl" in problem
    assert "east: it is lost: its record" in world.trace("c2").verdict


def test_another_record_in_the_place_of_a_lost_one_is_not_taken_for_it(world: World) -> None:
    world.clicks(("c0", "never"), *((f"c{n}", "q1") for n in range(1, 40)))
    world.join()
    stories.harm_waiting(world, "gone", RECORDS)
    log = world.folder / "logs" / "east" / "clicks" / "a.jsonl"
    lines = log.read_text().splitlines()
    lines[25] = lines[25].replace(
        "c25", "d25"
    )  # neither among the first nor the last bytes, by which it is known
    log.write_text("\n".join(lines) + "\n")
    world.queries("q1")
    counts = world.join().counts
    assert world.joined_ids() == sorted(f"c{n}" for n in range(1, 40) if n != 25)
    assert_counts(counts, joined=38, lost=1, pending=1)


@pytest.mark.parametrize("suffix", [RECORDS, INDEX])
def test_a_crash_while_a_bad_file_is_made_again_changes_nothing(world: World, suffix: str) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    stories.harm_waiting(world, "cut short", suffix)
    world.queries("q1")
    assert world.join_with_a_crash("waiting.before_mend")
    counts = world.join().counts
    assert world.joined_ids() == ["c1"]
    assert_counts(counts, joined=1, lost=0)


def test_nothing_is_lost_while_the_logs_folder_is_away(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    stories.harm_waiting(world, "gone", RECORDS)
    world.queries("q1")
    logs, away = world.folder / "logs" / "east", world.folder / "away"

    class LosesTheLogs(LocalRunner):
        def run(self, batch: BatchTasks) -> list[TaskOutcome]:
            if any(task.retries for task in batch.join_tasks):
                for place in goes:
                    place.rename(away)
            return super().run(batch)

    goes = iter([logs])  # once
    (said,) = world.join_and_mend(lambda: away.rename(logs), LosesTheLogs(world.clock))
    assert "the logs folder" in said
    assert_counts(world.join().counts, joined=1, lost=0)
