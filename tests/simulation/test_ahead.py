"""The next batch is indexed while this one is joined (`photon.dispatcher.ahead`)."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

import pytest

from photon.dispatcher import ahead, planning
from photon.dispatcher.dispatcher import Mode
from photon.join.messages import BatchTasks, Failed, RunnerDied, TaskOutcome, WorkerDied
from photon.join.tasks import LocalRunner
from photon.process.faults import FAULT_POINTS
from tests.simulation.ahead_stories import QUERIES, SMALL_BATCHES, Recorded, all_is_joined_once, many_events
from tests.simulation.world import World
from tests.support.shares import a_share


@pytest.fixture
def catching_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(planning, "PRIMARY_BYTES_PER_FOREIGN", 2)  # 7 queries of a batch
    return World(tmp_path, more=SMALL_BATCHES)


def test_each_batch_behind_the_first_is_indexed_while_the_one_before_is_joined(catching_up: World):
    ids, runner = many_events(catching_up), Recorded(catching_up)
    all_is_joined_once(catching_up, ids, catching_up.join(runner=runner).counts)
    assert runner.indexed_with_their_batch == [1]
    assert runner.ahead == list(range(2, 2 + len(runner.ahead)))
    assert len(runner.ahead) >= 4


def test_nothing_is_indexed_ahead_of_a_live_batch(world: World):
    many_events(world)
    runner = Recorded(world)
    world.join(runner=runner)
    assert runner.ahead == []


@pytest.mark.parametrize(
    ("mode", "countdown"), [pytest.param("until_idle", 1, marks=pytest.mark.long), ("complete", 3)]
)
@pytest.mark.parametrize("point", a_share(FAULT_POINTS, 3, of=6))
def test_a_crash_while_the_next_batch_is_indexed_changes_nothing(
    catching_up: World, point: str, countdown: int, mode: Mode
):
    ids = many_events(catching_up)
    catching_up.join_with_a_crash(f"{point}:{countdown}", mode=mode)
    all_is_joined_once(catching_up, ids, catching_up.join(mode=mode).counts)


class FailsAhead(LocalRunner):
    """Fails to index ahead, and runs the tasks of plans."""

    def __init__(self, world: World, failure: Exception | TaskOutcome) -> None:
        super().__init__(world.clock)
        self.failure = failure
        self.failed = 0

    def begin(self, batch: BatchTasks) -> Future[list[TaskOutcome]]:
        self.failed += 1
        future: Future[list[TaskOutcome]] = Future()
        if isinstance(self.failure, Exception):
            future.set_exception(self.failure)
        else:
            future.set_result([self.failure for _ in batch.tasks])
        return future


@pytest.mark.parametrize("failure", [WorkerDied("killed"), RunnerDied("gone"), Failed("no memory")])
def test_what_fails_ahead_is_left_to_its_plan(catching_up: World, failure: Exception | TaskOutcome):
    ids, runner = many_events(catching_up), FailsAhead(catching_up, failure)
    all_is_joined_once(catching_up, ids, catching_up.join(runner=runner).counts)
    assert runner.failed
    assert not catching_up.rows("dead_letters")


def test_a_log_that_goes_while_it_is_indexed_ahead_is_counted_once(catching_up: World):
    """D5: bytes that are counted as lost with their file are not counted as read too."""
    many_events(catching_up)
    log = catching_up.folder / "logs" / "east" / "queries" / "a.jsonl"
    size_bytes = log.stat().st_size

    def remove(batch: int) -> None:
        if batch == 2:  # a file that is held open outlives its name, and not its bytes
            log.write_bytes(b"")

    counts = catching_up.join(mode="complete", runner=Recorded(catching_up, remove)).counts
    line_bytes = size_bytes // QUERIES
    assert counts.primary * line_bytes + counts.lost_bytes == size_bytes, "bytes are counted twice"


def test_segments_that_no_plan_takes_are_removed(catching_up: World, monkeypatch: pytest.MonkeyPatch):
    ids, runner = many_events(catching_up), Recorded(catching_up)
    monkeypatch.setattr(ahead, "follows", lambda ranges, files: False)
    all_is_joined_once(catching_up, ids, catching_up.join(runner=runner).counts)
    assert runner.ahead
    with closing(catching_up.read_state()) as state:
        listed = {each.name for each in state.segments()}
    found = {path.stem for path in (catching_up.state() / "index").glob("*.segment")}
    assert found == listed
