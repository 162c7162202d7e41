"""How far Spark is with a step of a program, as a thread beside it says: tasks done, rate and time left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from photon.process.pace import pace
from photon.process.readable import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_SECONDS = 2.0
REPORTED_PARTS = 10  # a stage is reported at each tenth: a log is to stay readable


@dataclass(frozen=True)
class RunningStages:
    """The stages that run now."""

    ids: frozenset[int]
    done: int  # tasks
    total: int

    @property
    def part(self) -> int:
        """How many tenths are done."""
        return REPORTED_PARTS * self.done // max(1, self.total)


@contextmanager
def reporting_stages(session: SparkSession, say: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Say a step, and then again and again how far Spark is with it, until the end of the block."""
    watch, ended = StageWatch(say), threading.Event()
    tracker = session.sparkContext.statusTracker()

    def look() -> None:
        while not ended.wait(LOOK_EVERY_SECONDS):
            infos = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
            known = [info for info in infos if info is not None]  # None: it has just ended
            done, total = sum(i.numCompletedTasks for i in known), sum(i.numTasks for i in known)
            watch.see(RunningStages(frozenset(i.stageId for i in known), done, total), time.monotonic())

    thread = threading.Thread(target=look, name="stages", daemon=True)
    thread.start()
    try:
        yield watch.step
    finally:
        ended.set()
        thread.join()


class StageWatch:
    """Tells of the stages of a step. Another thread may begin a new step at any time."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._step = ""
        self._seen = RunningStages(frozenset(), 0, 0)
        self._since_seconds = 0.0

    def step(self, text: str) -> None:
        """Say a new step."""
        self._step = text
        self._say(text)

    def see(self, stages: RunningStages, now_seconds: float) -> None:
        """Say how far these are, if that has changed by a tenth. Of new stages it says nothing yet."""
        before, self._seen = self._seen, stages
        if stages.ids != before.ids:
            self._since_seconds = now_seconds
        elif self._step and stages.total >= REPORTED_PARTS and stages.part != before.part:
            says = pace(stages.done, stages.total, now_seconds - self._since_seconds, _tasks)
            self._say(f"{self._step}: {says}")


def _tasks(count: int) -> str:
    return counted(count, "task")
