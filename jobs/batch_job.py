"""The join job: one batch as one Spark job, in one warm session.

Tasks run in Python workers, which read, join and write records (`photon.join.tasks`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.session import build_session, is_alive, local_master, stop_session
from photon.join.messages import BatchTasks, RunnerDied, TaskOutcome, WorkerDied
from photon.join.tasks import run_task

log = logging.getLogger(__name__)

DYING_SECONDS = 5.0  # how long a JVM that has closed its sockets may take to end


class SparkRunner:
    """A `BatchRunner` on Spark. When its session dies, it builds another one."""

    def __init__(self, build: Callable[[], SparkSession], workers: int | None = None) -> None:
        """`build` makes a session. `workers`: None for as many tasks at once as the session has cores."""
        self._build = build
        self._session = build()
        self.workers = workers or self._session.sparkContext.defaultParallelism

    @classmethod
    def for_shift(cls, name: str, workers: int | None) -> SparkRunner:
        """With a session of this name on this machine; None: all of its cores."""
        return cls(lambda: build_session(name, local_master(workers)), workers)

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        """Run one job. Of a small live batch one worker runs the index task, then the join task.

        That saves a stage, which costs more than such a batch itself (0.1 s of 0.2 s).
        """
        both = bool(batch.index_tasks and batch.join_tasks)
        tasks, context = batch.tasks, batch.context
        try:
            if both and len(tasks) > 2:
                return self._run_two_stages(batch)
            if not tasks:
                return []
            groups = [tasks] if both else [[task] for task in tasks]
            outcomes = self._session.sparkContext.parallelize(groups, len(groups)).flatMap(
                lambda group: [run_task(task, context) for task in group]
            )
            return list(outcomes.collect())
        except (Py4JError, PySparkException, OSError, EOFError) as error:
            if not self._outlived(error):
                raise RunnerDied(f"Spark's process ended under the batch: {_first_line(error)}") from error
            if isinstance(error, Py4JJavaError | PySparkException):
                raise WorkerDied(f"Spark could not finish the batch: {_first_line(error)}") from error
            raise

    def _outlived(self, error: Exception) -> bool:
        """Whether the session lives; else there is a new one, if one can be had."""
        if is_alive(self._session, DYING_SECONDS if isinstance(error, OSError | Py4JNetworkError) else 0.0):
            return True
        log.warning("Spark's process has ended (%s): starting another one", _first_line(error))
        stop_session(self._session)
        self._session = self._build()
        return False

    def _run_two_stages(self, batch: BatchTasks) -> list[TaskOutcome]:
        """Run a stage of index tasks, then, behind a shuffle, a stage of join tasks.

        The shuffle is a barrier: every primary event of the batch is indexed before the first lookup.
        """
        # Not `batch` itself, so that Spark does not pickle all tasks with the function.
        context, index, join = batch.context, list(batch.index_tasks), list(batch.join_tasks)

        def join_after_index(
            partition: int, indexed: Iterable[tuple[int, TaskOutcome]]
        ) -> Iterator[tuple[int, TaskOutcome]]:
            yield from indexed
            yield len(index) + partition, run_task(join[partition], context)

        first = self._session.sparkContext.parallelize(list(enumerate(index)), len(index))
        indexed = first.map(lambda item: (item[0], run_task(item[1], context)))
        both = indexed.partitionBy(len(join)).mapPartitionsWithIndex(join_after_index)
        return [outcome for _, outcome in sorted(both.collect(), key=lambda pair: pair[0])]

    def close(self) -> None:
        stop_session(self._session)

    def warm_up(self) -> None:
        """Run what the first batch would wait for: a first job, and a Python worker on each core."""
        self._session.sparkContext.parallelize(range(self.workers), self.workers).map(_import_tasks).collect()


def _import_tasks(number: int) -> int:
    import photon.join.tasks  # noqa: F401 (0.6 s, in a worker that stays)

    return number


def _first_line(error: Exception) -> str:
    text = str(error)
    for marker in ("Caused by: ", "Python worker exited unexpectedly"):
        if marker in text:
            return text[text.index(marker) :].splitlines()[0]
    return text.splitlines()[0] if text else type(error).__name__
