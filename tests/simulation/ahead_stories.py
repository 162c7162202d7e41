"""Histories in which the next batch's primary logs are indexed while this one is joined."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.state.outcomes import Counts
from tests.simulation.world import World, assert_counts

SMALL_BATCHES = "limits: {batch_foreign: 256B}"  # 5 clicks
QUERIES = 40


class Recorded(LocalRunner):
    """Tells which batches it indexed ahead, and does `at_batch` before each run of tasks."""

    def __init__(self, world: World, at_batch: Callable[[int], None] = lambda batch: None) -> None:
        super().__init__(world.clock)
        self.ahead: list[int] = []
        self.indexed_with_their_batch: list[int] = []
        self._at_batch = at_batch

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        number = batch.context.plan.batch
        self._at_batch(number)
        if batch.join_tasks and batch.index_tasks:
            self.indexed_with_their_batch.append(number)
        return super().run(batch)

    def begin(self, batch: BatchTasks) -> Future[list[TaskOutcome]]:
        self.ahead.append(batch.context.plan.batch)
        return super().begin(batch)


def many_events(world: World) -> list[str]:
    """Write queries for some batches, each with a click; the ids of the clicks."""
    for number in range(QUERIES):
        world.queries(f"q{number:02}")
        world.clicks((f"c{number:02}", f"q{number:02}"))
    return [f"c{number:02}" for number in range(QUERIES)]


def all_is_joined_once(world: World, ids: list[str], counts: Counts) -> None:
    assert world.joined_ids() == ids
    assert_counts(counts, foreign=len(ids), joined=len(ids), primary=len(ids))
    assert counts.adds_up
