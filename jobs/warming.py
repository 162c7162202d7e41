"""Runs the first batches of a shift without Spark, until its session is warm.

A session takes 12 s of a core until it has run its first job, and three times as long on a busy machine.
For so long nobody would join the events of a datacenter whose shift was killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from jobs.batch_job import SparkRunner
from photon.join.messages import BatchRunner, BatchTasks, TaskOutcome
from photon.join.task_process import TaskProcess

POLL_SECONDS = 0.1


class WarmingRunner:
    """A `BatchRunner`: a process of its own, then Spark, which warms up from the second batch on."""

    def __init__(self, open_spark: Callable[[], SparkRunner]) -> None:
        """`open_spark` builds a session; whoever gives it ends it, once this is closed."""
        self._open_spark = open_spark
        self._spark: Future[SparkRunner] | None = None
        self._thread = ThreadPoolExecutor(1, "warming")
        self._process: TaskProcess | None = None
        self._batches = 0

    def get_ready(self, is_busy: Callable[[], bool]) -> None:
        """Be ready for a first batch: warm while `is_busy`, else at once.

        A successor warms up while its predecessor works; if that dies meanwhile, nobody joins.
        """
        while is_busy():
            self.warm_up()
            if self.is_warm:
                return
            time.sleep(POLL_SECONDS)
        self._process = TaskProcess()

    def warm_up(self) -> None:
        """Begin to build a session, and to run what its first batch would wait for."""
        if self._spark is None:
            self._spark = self._thread.submit(self._warm_spark)

    def _warm_spark(self) -> SparkRunner:
        runner = self._open_spark()
        runner.warm_up()
        return runner

    @property
    def is_warm(self) -> bool:
        """Whether the next batch goes to Spark, or meets what ails it."""
        return self._spark is not None and self._spark.done()

    @property
    def workers(self) -> int:
        """How many tasks run at once."""
        is_on_spark = self._spark is not None and self._spark.done() and self._spark.exception() is None
        return self._spark.result().workers if is_on_spark and self._spark else TaskProcess.workers

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        """Run a batch; what ails the session is raised here, and the next batch begins another one."""
        self._batches += 1
        if self._batches > 1:  # the first one's rows are there
            self.warm_up()
        return self._runner().run(batch)

    def begin(self, batch: BatchTasks) -> Future[list[TaskOutcome]]:
        """Run a batch beside."""
        return self._runner().begin(batch)

    def close(self) -> None:
        """End the process, and wait until nobody builds a session any more."""
        self._thread.shutdown(wait=True)
        self._end_process()

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _runner(self) -> BatchRunner:
        if self.is_warm and self._spark is not None:
            spark = self._spark
            if spark.exception() is not None:
                self._spark = None
            else:
                self._end_process()
            return spark.result()
        if self._process is None or not self._process.lives:
            self._process = TaskProcess()
        return self._process
