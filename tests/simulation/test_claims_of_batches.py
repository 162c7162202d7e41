"""Claims of batches, their second rounds, and the closes that follow (protocol A5, A7, A16)."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from photon.dispatcher import task_splitter
from photon.dispatcher.claiming_rounds import MOST_ROUNDS
from photon.dispatcher.retrying import Callbacks
from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.process.clock import MICROSECONDS
from photon.process.faults import arm, watched
from photon.registry.view import Holders
from tests.simulation.batch_stories import nothing_uncommitted_is_left
from tests.simulation.world import World, assert_counts
from tests.support.crashes import SimulatedCrash, at, raise_simulated_crash


class CountsRuns(LocalRunner):
    """Notes how many join tasks each run has."""

    def __init__(self, world: World, workers: int = 1) -> None:
        super().__init__(world.clock)
        self.workers = workers
        self.join_tasks: list[int] = []

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        self.join_tasks.append(len(batch.join_tasks))
        return super().run(batch)


@pytest.fixture
def two(tmp_path: Path) -> World:
    """Two datacenters, of which each joins all events at once."""
    return World(tmp_path, ["east", "west"], "home: {takeover_delay: 0s}")


@pytest.fixture
def three_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_splitter, "TASK_BYTES", 1)


# -- somebody else is faster


@pytest.mark.usefixtures("three_tasks")
@pytest.mark.parametrize("is_closed", [False, True])
def test_only_the_task_that_lost_an_event_runs_again_and_leaves_no_file_behind(
    two: World, is_closed: bool
) -> None:
    two.queries("q")
    for name in ("a", "b", "c"):
        two.clicks((f"{name}1", "q"), (f"{name}2", "q"), file=f"{name}.jsonl")
    runner = CountsRuns(two, workers=3)
    stop = Callbacks(should_stop=lambda: len(two.joined_ids()) == 5)
    with at("claim.before", lambda: two.registered_elsewhere("b1", is_closed=is_closed)):
        counts = two.join(runner=runner, callbacks=stop).counts
    assert [many for many in runner.join_tasks if many][:2] == [3, 1]
    assert two.joined_ids() == ["a1", "a2", "b2", "c1", "c2"]
    assert_counts(counts, joined=5, joined_elsewhere=int(is_closed), pending=int(not is_closed))
    nothing_uncommitted_is_left(two)


def test_what_another_held_is_joined_here_once_its_close_has_freed_it(two: World) -> None:
    two.events("c1", query="q")
    holder = two.registered_elsewhere("c1", is_closed=False)
    two.join(callbacks=Callbacks(should_stop=lambda: two.read_state().counts().of("pending") == 1))
    assert two.joined_ids() == []
    two.close(holder, "c1")
    two.clock.advance(60)
    two.join()
    assert two.joined_ids() == ["c1"]
    assert two.is_join("c1")


def test_a_plan_that_would_run_for_ever_waits_before_the_next_try(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.events("c1", query="q")
    monkeypatch.setattr(Holders, "are_won", lambda self, claims: np.zeros(len(claims), bool))
    runner = CountsRuns(world)
    said = world.join_and_mend(monkeypatch.undo, runner)
    assert [f"lost claims {MOST_ROUNDS} times" in each for each in said] == [True]
    assert len(runner.join_tasks) <= MOST_ROUNDS + 3
    assert world.joined_ids() == ["c1"]


@pytest.mark.usefixtures("three_tasks")
@pytest.mark.parametrize("point", ["claim.before:2", "claim.after:2", "commit.before_main", "close.before"])
def test_a_process_that_dies_in_the_second_round_joins_each_event_once(two: World, point: str) -> None:
    two.queries("q")
    for name in ("a", "b"):
        two.clicks((f"{name}1", "q"), (f"{name}2", "q"), file=f"{name}.jsonl")

    def take_one_and_die_later() -> None:
        two.registered_elsewhere("b1")
        arm(point, raise_simulated_crash)

    with suppress(SimulatedCrash), at("batch.after_run", take_one_and_die_later):
        two.join()
    two.forget()
    two.join(runner=CountsRuns(two))
    assert two.joined_ids() == ["a1", "a2", "b2"]
    nothing_uncommitted_is_left(two)


# -- two tasks of one batch


@pytest.mark.usefixtures("three_tasks")
@pytest.mark.parametrize("times", [2, 3])
def test_of_an_event_in_several_tasks_one_has_the_row_and_none_runs_again(world: World, times: int) -> None:
    world.queries("q")
    for number in range(times):
        world.clicks(("both", "q"), (f"c{number}", "q"), file=f"{number}.jsonl")
    runner = CountsRuns(world, workers=times)
    counts = world.join(runner=runner).counts
    assert [many for many in runner.join_tasks if many] == [times]
    assert world.joined_ids() == ["both", *(f"c{number}" for number in range(times))]
    assert_counts(counts, joined=times + 1, duplicates=times - 1, conflicting=0, not_compared=0)
    nothing_uncommitted_is_left(world)


# -- the registry is away


def test_ten_batches_without_claims_are_committed_while_the_registry_is_away(world: World) -> None:
    world.events("c1", query="q")
    world.join()
    with closing(world.read_state()) as state:
        before = state.completed
    left = list(range(10))

    def log_more(_: object) -> None:
        if left:
            world.queries(f"more{left.pop()}")

    said: list[str] = []
    world.queries("q2")
    with at("batch.before_run", world.ledgers.go_away):
        world.join(callbacks=Callbacks(on_batch=log_more, on_wait=said.append))
    with closing(world.read_state()) as state:
        assert state.completed == before + 11
    assert said == []
    world.ledgers.is_away = False
    world.clicks(("c2", "q2"))
    world.join()
    assert world.joined_ids() == ["c1", "c2"]
    with closing(world.read_state()) as state:
        assert state.epoch == "1"


@pytest.mark.parametrize("point", ["claim.before", "claim.after", "close.before"])
def test_a_registry_that_goes_anywhere_loses_no_event(world: World, point: str) -> None:
    world.events("c1", query="q")

    with at(point, world.ledgers.go_away):
        world.join(callbacks=Callbacks(on_wait=lambda _: world.ledgers.come_back()))
    world.ledgers.is_away = False
    world.join()
    assert world.joined_ids() == ["c1"]
    assert world.is_join("c1")


# -- closes


def test_a_run_that_ends_in_order_leaves_nothing_unclosed(world: World) -> None:
    world.events("c1", query="q")
    world.join(mode="stop", callbacks=Callbacks(should_stop=lambda: bool(world.rows())))
    assert world.is_join("c1")


def test_an_idle_process_closes_within_seconds(world: World) -> None:
    world.events("c1", query="q")
    joined_us: list[int] = []

    def is_closed() -> bool:
        if world.rows() and not joined_us:
            joined_us.append(world.clock.elapsed_us())
        return bool(joined_us) and world.is_join("c1")

    world.join(mode="stop", callbacks=Callbacks(should_stop=is_closed))
    assert world.clock.elapsed_us() - joined_us[0] < 5 * MICROSECONDS


def test_the_close_of_a_batch_rides_with_the_next_claims(world: World) -> None:
    world.events("c1", query="q")
    closed: list[str] = []

    def log_more(_: object) -> None:
        if len(world.joined_ids()) == 1:
            world.clicks(("c2", "q"))

    def note(point: str, _: object) -> None:
        if point == "close.before":
            closed.append("by itself")
        if point == "claim.after" and world.is_join("c1"):
            closed.append("with claims")

    with watched(note):
        world.join(callbacks=Callbacks(on_batch=log_more))
    assert closed[0] == "with claims"
    assert world.is_join("c2")


@pytest.mark.parametrize("point", ["close.before", "close.after", "complete.after_transaction"])
def test_what_a_process_left_unclosed_the_next_one_closes(world: World, point: str) -> None:
    world.events("c1", query="q")
    assert world.join_with_a_crash(point)
    world.join()
    assert world.is_join("c1")
    assert world.joined_ids() == ["c1"]


def test_what_a_copy_of_the_state_has_claimed_and_left_an_idle_process_frees_for_the_others(
    two: World,
) -> None:
    two.queries("q")
    two.queries("q", datacenter="west")
    two.clicks(("c1", "q"))
    two.join()
    put_back = two.copy_state()
    two.clicks(("c2", "q"), file="seen-by-the-copy-alone.jsonl")
    assert two.join_with_a_crash("claim.after")
    two.forget()
    put_back()
    (two.folder / "logs" / "east" / "clicks" / "seen-by-the-copy-alone.jsonl").unlink()
    two.join()  # has nothing to plan
    assert two.holder("c2") is None
    two.clicks(("c2", "q"), datacenter="west")
    two.join("west")
    assert two.joined_ids() == ["c1", "c2"]


def test_nothing_is_asked_of_the_registry_where_nothing_is_unclosed(world: World) -> None:
    world.events("c1", query="q")
    world.join()
    entries = sum(map(len, world.ledgers.values.values()))
    for _ in range(3):
        world.join()
    assert sum(map(len, world.ledgers.values.values())) == entries


def test_a_claim_without_an_answer_is_there_or_not_and_the_plan_runs_again(world: World) -> None:
    world.events("c1", query="q")
    said: list[str] = []

    def lose_answers() -> None:
        world.ledgers.lost_answers = 20  # so many in a row leave the claim without an answer

    with at("claim.before", lose_answers):
        world.join(callbacks=Callbacks(on_wait=said.append))
    assert len(said) == 1
    assert world.joined_ids() == ["c1"]
    held = world.holder("c1")
    assert held is not None
    assert held.batch == world.rows()[0]["_batch"]
