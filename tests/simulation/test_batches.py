"""The rules of a batch (protocol A), a test each, on the product's own code in one process."""

from __future__ import annotations

import random
from contextlib import closing
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from photon.dispatcher.completion import Superseded
from photon.dispatcher.recovery.rows_of_plans import RowsOfPlans
from photon.dispatcher.retrying import Callbacks
from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.process.clock import MICROSECONDS
from photon.process.faults import FAULT_POINTS
from photon.registry.closing import Closing
from photon.registry.entry import Claimant, Claims, Epoch
from photon.registry.epochs import end_epochs
from photon.registry.id_registry import IdRegistry
from photon.registry.lookups import claimant_of
from photon.registry.view import Holders
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import CommitConflict, OutputTable, app_id
from tests.simulation.runners import LosesTheRegistry, PoisonedRunner
from tests.simulation.world import NOON_US, World, assert_counts
from tests.support.crashes import at, failing
from tests.support.shares import a_share

MIXED = [("c1", "q1"), ("c2", "q2"), ("c1", "q1"), ("none", None), ("orphan", "never")]


def mixed(world: World) -> None:
    """Two clicks that join, one of them twice; one without a key, an orphan, and a broken line."""
    world.queries("q1", "q2", "q3")
    world.clicks(*MIXED)
    world.log("east", "clicks", "{broken\n")


def test_each_record_ends_in_one_class_and_the_classes_add_up(world: World) -> None:
    mixed(world)
    counts = world.join(mode="complete").counts
    assert_counts(counts, foreign=6, joined=2, duplicates=1, skipped=1, unjoinable=1, dead_letters=1)
    assert world.joined_ids() == ["c1", "c2"]


def test_a_row_has_photons_columns_then_the_foreign_then_the_primary_ones(world: World) -> None:
    world.events("c1")
    world.join()
    (row,) = world.rows()
    own = ["_datacenter", "_epoch", "_batch", "_plan", "_occurrence", "_joined_at", "_event_id"]
    assert list(row)[: len(own)] == own
    assert (row["click"], row["query"]) == ("c1", "q1")
    assert (row["primary_text"], row["primary_query"]) == ("text of q1", "q1")


# -- crashes (A2, A6, A7, A12)


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_a_crash_at_any_fault_point_changes_nothing_in_the_result(world: World, point: str) -> None:
    mixed(world)
    crashed = world.join_with_a_crash(point, mode="complete")
    assert crashed, f"the join never passed {point}"
    counts = world.join(mode="complete").counts
    assert world.joined_ids() == ["c1", "c2"]
    assert_counts(counts, foreign=6, joined=2, duplicates=1, skipped=1, unjoinable=1, dead_letters=1)
    assert [row["event_id"] for row in world.rows("unjoined")] == ["orphan"]
    assert len(world.rows("dead_letters")) == 1


@pytest.mark.parametrize("passing", a_share([1, 2], 0, of=2))
@pytest.mark.parametrize("point", a_share([one for one in FAULT_POINTS if not one.startswith("task.")], 1))
def test_a_crash_records_dead_letters_once_whatever_the_batch_it_comes_in(
    world: World, point: str, passing: int
) -> None:
    mixed(world)
    world.join_with_a_crash(f"{point}:{passing}", mode="until_idle")
    counts = world.join().counts
    assert len(world.rows("dead_letters")) == 1
    assert_counts(counts, foreign=6, dead_letters=1, pending=1)


def test_an_event_that_was_given_up_and_claimed_by_a_lost_plan_is_unjoined_once(
    world: World,
) -> None:
    world.clicks(("c1", "q1"))
    world.join(mode="complete")
    world.claim(next_plan(world), "c1")
    assert world.join(mode="complete").counts.of("unjoinable") == 1
    assert world.holder("c1") is None
    assert len(world.rows("unjoined")) == 1


def next_plan(world: World) -> Claimant:
    """A plan that a copy of the state may make: of the batch that comes next."""
    with closing(world.read_state()) as state:
        return Claimant(Epoch("east", int(state.epoch or 0)), state.completed + 1, "lost")


@pytest.mark.parametrize("first", ["claim.after", "commit.before_main", "commit.after_main"])
@pytest.mark.parametrize(
    "second", a_share(["claim.before", "commit.after_main", "complete.before_transaction"], 1)
)
def test_a_crash_in_the_recovery_from_a_crash_changes_nothing_either(
    world: World, first: str, second: str
) -> None:
    mixed(world)
    assert world.join_with_a_crash(first, mode="complete")
    world.join_with_a_crash(second, mode="complete")
    counts = world.join(mode="complete").counts
    assert world.joined_ids() == ["c1", "c2"]
    assert counts.of("joined") == 2


def test_a_rerun_of_a_plan_holds_what_it_has_claimed(world: World) -> None:
    world.events("c1")
    assert world.join_with_a_crash("claim.after")
    held = world.holder("c1")
    assert held is not None
    world.join()
    assert world.holder("c1") == held
    assert world.joined_ids() == ["c1"]


@pytest.mark.parametrize("point", ["claim.after", "commit.before_main", "commit.after_main"])
def test_every_claim_is_made_by_its_own_plan_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    mixed(world)
    presented: list[tuple[Claimant, Claimant | None]] = []
    claim = IdRegistry.claim

    def note(registry: IdRegistry, claims: Claims, closes: Closing | None = None) -> Holders:
        plan = world.read_state().open_plan()
        presented.append((claims.claimant, claimant_of(plan.key) if plan else None))
        return claim(registry, claims, closes)

    monkeypatch.setattr(IdRegistry, "claim", note)
    assert world.join_with_a_crash(point, mode="complete")
    copy = world.copy_state()
    world.clicks(("c3", "q3"))
    world.join(mode="complete")
    copy()
    world.forget()
    world.clicks(("c4", "q3"))
    world.join(mode="complete")
    assert len({plan.epoch for plan, _ in presented}) == 2
    assert [claimant for claimant, plan in presented if claimant != plan] == []
    assert world.joined_ids() == ["c1", "c2", "c3", "c4"]


def test_a_rerun_that_finds_neither_the_primary_nor_its_stored_row_frees_the_id(world: World) -> None:
    world.events("c1")
    assert world.join_with_a_crash("claim.after")
    (world.folder / "logs" / "east" / "queries" / "a.jsonl").unlink()
    (stored,) = (world.folder / "lake" / "east" / "joined_events").glob("_event_date=*/*.parquet")
    stored.unlink()
    assert world.join().counts.of("pending") == 1
    assert world.holder("c1") is None
    world.queries("q1", file="again.jsonl", at_us=NOON_US + 1)  # the same bytes would be the file that went
    world.join()
    assert world.joined_ids() == ["c1"]


def test_a_primary_log_that_vanishes_and_comes_back_is_found_in_again(world: World) -> None:
    world.queries("q1")
    world.join()
    path = world.folder / "logs" / "east" / "queries" / "a.jsonl"
    text = path.read_text()
    path.unlink()
    world.forget()
    world.clicks(("c1", "q1"))
    for _ in range(3):
        world.clock.advance(60)
        assert world.join().counts.of("pending") == 1
    path.write_text(text)
    world.join()
    assert world.joined_ids() == ["c1"]


# -- the commit is the decision (A3, A4, A6)


@pytest.mark.parametrize("point", ["commit.before_main", "commit.after_main"])
def test_after_a_commit_that_did_not_return_the_table_says_what_was_joined(world: World, point: str) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"), ("c2", "q2"))
    with at(point, failing(LakeUnavailable("the answer got lost"))):
        counts = world.join().counts
    assert {row["_batch"] for row in world.rows()} == {1}
    assert world.joined_ids() == ["c1", "c2"]
    assert_counts(counts, foreign=2, joined=2, duplicates=0)


def test_a_process_whose_epoch_is_over_ends_and_the_next_epoch_joins_the_event(world: World) -> None:
    world.queries("q1")
    world.join()
    with closing(world.read_state()) as state:
        epoch = state.epoch
    world.clicks(("c1", "q1"))
    table = world.table()
    rows = RowsOfPlans(table)
    end = partial(end_epochs, world.reader(), "east", int(epoch or 0), lambda _: None, lambda _: rows)
    with at("claim.before", end), pytest.raises(Superseded, match=f"epoch east:{epoch} is over"):
        world.join()
    assert world.joined_ids() == []
    assert world.join().counts.of("joined") == 1
    assert world.joined_ids() == ["c1"]


def test_of_two_commits_on_one_snapshot_the_second_fails_even_if_both_are_empty(tmp_path: Path) -> None:
    table = OutputTable(tmp_path, "joined_events")
    table.create("searches", "east")
    stale = table.load()
    table.commit([], "app", 1, 0)
    slow = OutputTable(tmp_path, "joined_events")
    slow.load = lambda: stale  # type: ignore[method-assign]
    with pytest.raises(CommitConflict):
        slow.commit([], "app", 1, 0)
    assert table.version_of("app") == 1


def test_batches_without_rows_are_committed_too(world: World) -> None:
    world.clicks(("orphan", "never"))
    world.join()
    table = world.table()
    state = world.read_state()
    assert table.version_of(app_id("east", state.epoch or "")) == state.completed >= 1


# -- unknown outcomes (A5)


def test_nothing_is_committed_while_the_registry_is_down_and_all_of_it_once_it_is_back(world: World) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"), ("c2", "q2"))
    said: list[str] = []
    resumed: list[tuple[str, float]] = []

    def mend_later(reason: str) -> None:
        said.append(reason)
        assert world.joined_ids() == []
        world.ledgers.come_back()

    with at("claim.before", world.ledgers.go_away):
        world.join(callbacks=Callbacks(on_wait=mend_later, on_resume=lambda *how: resumed.append(how)))
    assert len(said) == 1
    assert "registry" in said[0]
    assert [reason for reason, seconds in resumed if seconds > 0] == said
    assert world.joined_ids() == ["c1", "c2"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", ["lost_request", "lost_answer"])
def test_lost_requests_and_answers_lose_no_event_and_join_none_twice(
    world: World, fault: str, seed: int
) -> None:
    ids = [f"c{number}" for number in range(60)]
    world.events(*ids, query="q")
    chance = random.Random(seed)

    def fail_often(call: str) -> None:
        fails = chance.random() < 0.3
        world.ledgers.is_away = fails and fault == "lost_request"
        world.ledgers.lost_answers = int(fails and fault == "lost_answer")

    world.ledgers.on_call = fail_often
    counts = world.join().counts
    assert world.joined_ids() == sorted(ids)
    assert counts.of("joined") == 60


def test_a_stop_while_the_registry_is_down_leaves_the_plan_open_for_the_next_start(world: World) -> None:
    world.events("c1")
    said: list[str] = []
    callbacks = Callbacks(should_stop=lambda: bool(said), on_wait=said.append)
    world.join(callbacks=callbacks, runner=LosesTheRegistry(world))
    assert world.read_state().open_plan() is not None
    assert world.joined_ids() == []
    world.ledgers.is_away = False
    world.join()
    assert world.joined_ids() == ["c1"]


# -- held by an earlier plan (A8)


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_id_held_by_another_plan_without_a_row_is_freed_and_joined(world: World, is_closed: bool) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    world.join()
    lost = next_plan(world)
    world.claim(lost, "c2")
    if is_closed:  # c2's row went later
        world.clicks(("c3", "q2"))
        with mock.patch.object(
            RowsOfPlans, "__call__", lambda self, at, one: np.zeros(len(one.hashes), bool)
        ):
            world.join()
        assert world.is_join("c2")
    world.clicks(("c2", "q2"))
    counts = world.join().counts
    assert [one for one in world.joined_ids() if one != "c3"] == ["c1", "c2"]
    assert counts.of("joined") == len(world.joined_ids())


# -- what can't end (A11)


def test_an_event_on_which_workers_die_is_a_dead_letter_and_the_rest_goes_on(world: World) -> None:
    world.events(*(f"c{n}" for n in range(9)), "poison", *(f"d{n}" for n in range(6)))
    runner = PoisonedRunner(world)
    counts = world.join(mode="complete", runner=runner).counts
    assert runner.deaths > 1
    assert len(world.joined_ids()) == 15
    assert "poison" not in world.joined_ids()
    (letter,) = world.rows("dead_letters")
    assert letter["event_id"] == "poison"
    assert "the worker was killed" in letter["reason"]
    assert_counts(counts, foreign=16, joined=15, dead_letters=1)


# -- two datacenters


def test_events_are_left_to_their_home_for_a_while_and_then_taken_up(tmp_path: Path) -> None:
    world = World(tmp_path, ["east", "west"], "home: {takeover_delay: 5s}")
    ids = [f"c{number}" for number in range(50)]
    world.everywhere(*ids)
    began_us = world.clock.now_us()
    east = world.join("east").counts
    assert world.clock.now_us() - began_us >= 5 * MICROSECONDS
    assert east.of("joined") == 50
    west = world.join("west").counts
    assert west.of("joined_elsewhere") == 50
    assert world.joined_ids() == sorted(ids)


# -- what may come back


def test_a_lake_that_is_gone_is_waited_for_and_the_join_resumes_when_it_is_back(world: World) -> None:
    world.events("c1")
    world.join()
    lake = world.pipeline.datacenters["east"].lake
    away = lake.with_name("away")
    world.clicks(("c2", "q1"))

    class LosesTheLake(LocalRunner):
        def run(self, batch: BatchTasks) -> list[TaskOutcome]:
            for place in goes:
                place.rename(away)
            return super().run(batch)

    goes = iter([lake])  # once
    said = world.join_and_mend(lambda: away.rename(lake), LosesTheLake(world.clock))
    assert len(said) == 1
    assert "joined_events" in said[0]
    assert world.joined_ids() == ["c1", "c2"]


def test_a_batch_of_csv_logs_in_which_nothing_finds_its_primary_ends(tmp_path: Path) -> None:
    world = World(tmp_path, format_="csv")
    world.queries("q1")
    world.clicks(("orphan", "never"))
    assert world.join().counts.of("pending") == 1
    world.clicks(("c1", "q1"))
    assert world.join().counts.of("joined") == 1
