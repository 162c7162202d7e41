"""Runners of batches with faults: what they lose, or what they die of."""

from __future__ import annotations

from photon.join.messages import BatchTasks, JoinTask, TaskOutcome, TimedOut, WorkerDied
from photon.join.tasks import LocalRunner
from photon.state.waiting import segments
from photon.state.waiting.segments import read_retries
from tests.simulation.world import World
from tests.support.crashes import SimulatedCrash


class LosesTheRegistry(LocalRunner):
    """Just before its batch is run, the registry goes down."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._ledgers = world.ledgers

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        self._ledgers.is_away = True
        return super().run(batch)


class PoisonedRunner(LocalRunner):
    """Dies whenever a task holds a line with `poison` in it and does not quarantine it."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._logs = world.folder / "logs" / "east"
        self._state = world.state()
        self.deaths = 0

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        if not batch.context.quarantine and any(map(self._is_poisoned, batch.join_tasks)):
            self.deaths += 1
            raise WorkerDied("the worker was killed")
        return super().run(batch)

    def _is_poisoned(self, task: JoinTask) -> bool:
        lines = [
            (self._logs / file.path).read_bytes()[part.start_bytes : part.end_bytes]
            for file, part in task.ranges
            if (self._logs / file.path).exists()
        ]
        lines += read_retries(self._state / segments.FOLDER, task.retries)["_raw"].to_pylist()
        return any(b"poison" in (line or b"") for line in lines)  # null: the record is lost


class DiesOnce(PoisonedRunner):
    """Dies of the first batch with the poisoned line. `takes`: a log that goes with it."""

    def __init__(self, world: World, takes: str = "") -> None:
        super().__init__(world)
        self._takes = takes

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        if self.deaths or not any(map(self._is_poisoned, batch.join_tasks)):
            return LocalRunner.run(self, batch)
        self.deaths += 1
        if self._takes:
            (self._logs / self._takes).write_text("")
        raise WorkerDied("the worker was killed")


class KillsTheDriver(PoisonedRunner):
    """The dispatcher's own process dies of a batch with the poisoned line."""

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        try:
            return super().run(batch)
        except WorkerDied:
            raise SimulatedCrash from None


class Hangs(PoisonedRunner):
    """Exceeds the deadline whenever a task holds the poisoned line."""

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        try:
            return super().run(batch)
        except WorkerDied:
            return [TimedOut("a task took longer than 300 s") for _ in batch.tasks]
