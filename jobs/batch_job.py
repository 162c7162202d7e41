"""The join job: one batch as one Spark job, in one warm session.

Tasks run in Python workers, which read, join and write records (`photon.join.tasks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.session import build_session, stop_session
from photon.join.messages import BatchTasks, TaskOutcome, WorkerDied
from photon.join.tasks import run_task


class SparkRunner:
    """A `BatchRunner` on Spark."""

    workers = 2

    def __init__(self, session: SparkSession | str) -> None:
        """On a session that its owner stops, or on one of its own, of this name."""
        self._owns_session = isinstance(session, str)
        self._session = build_session(session) if isinstance(session, str) else session

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
        except (Py4JJavaError, PySparkException) as error:
            raise WorkerDied(f"Spark could not finish the batch: {_first_line(error)}") from error

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
        if self._owns_session:
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
