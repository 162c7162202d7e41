"""The join job: one batch as one Spark job, in one warm session.

Tasks run in Python workers, which read, join and write records (`photon.join.tasks`).
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from photon.jobs.cluster import is_cluster
from photon.jobs.executors import GONE, Executors, lacking
from photon.jobs.session import is_alive, session_for_joins, stop_session, usable_cores, was_given_up
from photon.join.messages import (
    BatchTasks,
    NoExecutor,
    NoWorkerStarts,
    RunnerDied,
    TaskOutcome,
    WorkerDied,
)
from photon.join.tasks import run_task
from photon.pipeline.file import Pipeline

log = logging.getLogger(__name__)

# A first line that says nothing itself, and a line that ends an error of Python.
_LEADS_UP = re.compile(r"(Exception|Error): *$|\(most recent call last\):$")
_PYTHON_ERROR = re.compile(r" *[\w.]+(Error|Exception|Exit|Interrupt): .")
WARM_SECONDS = 20.0  # executors have so long to come, while others join
DYING_SECONDS = 5.0  # how long a JVM that has closed its sockets may take to end


class SparkRunner:
    """A `BatchRunner` on Spark. When its session dies, or its cluster forgets it, it builds another one."""

    def __init__(self, build: Callable[[], SparkSession], workers: int | None = None) -> None:
        """`build` makes a session. `workers`: tasks of a job at once, None for one on each core of it."""
        self._build = build
        self._session: SparkSession | None = None
        self._executors: Executors | None = None  # of a session on a cluster
        self._is_waiting = False  # for executors
        self._mending = threading.Lock()
        self._beside = ThreadPoolExecutor(1, "ahead")
        self._workers = workers
        with suppress(NoExecutor):  # `look` tells
            self._live()

    @classmethod
    def for_shift(cls, pipeline: Pipeline, datacenter: str) -> Self:
        """Open a session where the pipeline says, and run a datacenter on it: an engine of `run_shift`."""
        name = f"photon {pipeline.name} {datacenter}"
        return cls(lambda: session_for_joins(pipeline, name), pipeline.limits.workers)

    @property
    def workers(self) -> int:
        """How many tasks run at once. A cluster grows and shrinks."""
        if self._workers is not None:
            return self._workers
        session = self._session
        if session is not None and not _is_on_cluster(session):
            return usable_cores()
        with suppress(*GONE):  # the next run tells what ails it
            return int(session.sparkContext.defaultParallelism) if session is not None else 1
        return 1

    def look(self) -> None:
        """See to it that there is a session with executors. NoExecutor."""
        self._live()

    def _live(self) -> SparkSession:
        """The session; another one where there is none, or its cluster does not know it. NoExecutor."""
        with self._mending:
            try:
                session = self._with_executors()
            except NoExecutor:
                self._is_waiting = True
                raise
            self._is_waiting = False
            return session

    def _with_executors(self) -> SparkSession:
        if self._executors is not None and self._executors.are_gone:
            self._executors.refuse()
            log.warning("Spark's master does not know this driver any more: it begins a new session")
            self._stop()
        if self._session is None:
            self._session = self._build()
            is_on_cluster = _is_on_cluster(self._session)
            # A join that was told to wait goes on once there is one, not once one may come.
            self._executors = Executors.of(self._session, self._is_waiting) if is_on_cluster else None
            if self._executors is not None and self._executors.are_gone:
                raise lacking(str(self._session.sparkContext.master))
        return self._session

    def _stop(self) -> None:
        session, self._session, self._executors = self._session, None, None
        if session is not None:
            stop_session(session)

    def begin(self, batch: BatchTasks) -> Future[list[TaskOutcome]]:
        """Run another job beside that of `run`, in the same session."""
        return self._beside.submit(self.run, batch)

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        """Run one job. Of a small live batch one worker runs the index task, then the join task.

        That saves a stage, which costs more than such a batch itself (0.1 s of 0.2 s).
        """
        session = self._live()
        executors = self._executors
        if _is_on_cluster(session):
            batch = batch.elsewhere()
        both = bool(batch.index_tasks and batch.join_tasks)
        tasks, context = batch.tasks, batch.context
        try:
            if both and len(tasks) > 2:
                return _run_two_stages(session, batch)
            if not tasks:
                return []
            groups = [tasks] if both else [[task] for task in tasks]
            outcomes = session.sparkContext.parallelize(groups, len(groups)).flatMap(
                lambda group: [run_task(task, context) for task in group]
            )
            return list(outcomes.collect())
        except (*GONE, PySparkException, EOFError) as error:
            if executors is not None and (executors.are_gone or was_given_up(session)):
                raise lacking(str(session.sparkContext.master)) from error
            if not self._outlived(session, error):
                raise RunnerDied(f"Spark's process ended under the batch: {_cause(error)}") from error
            if isinstance(error, Py4JJavaError | PySparkException):
                _try_a_worker(session)
                raise WorkerDied(f"Spark could not finish the batch: {_cause(error)}") from error
            raise

    def _outlived(self, session: SparkSession, error: Exception) -> bool:
        """Whether the session lives; else there is a new one, if one can be had."""
        # An answer of the JVM itself shows that it lives. One that dies also leaves errors that do not say
        # so, such as "PythonRDD does not exist in the JVM".
        is_answer = isinstance(error, Py4JJavaError | PySparkException)
        dying_seconds = 0.0 if is_answer else DYING_SECONDS
        with self._mending:
            if session is not self._session:  # the other job has noticed it
                return False
            if is_alive(session, dying_seconds):
                return True
            log.warning("Spark's process has ended (%s): starting another one", _cause(error))
            self._stop()
        with suppress(NoExecutor):  # the next run tells
            self._live()
        return False

    def close(self) -> None:
        self._stop()
        self._beside.shutdown(wait=False, cancel_futures=True)

    def warm_up(self) -> None:
        """Run what the first batch would wait for: a first job, and a Python worker on each core.

        Executors have their time: the shift before goes on meanwhile. Then the first batch tells.
        """
        ends = time.monotonic() + WARM_SECONDS
        while True:
            try:
                context = self._live().sparkContext
                slots = context.defaultParallelism
                context.parallelize(range(slots), slots).map(_import_tasks).collect()
                return
            except NoExecutor as error:
                if time.monotonic() > ends:
                    log.warning("nothing is warmed up: %s", error)
                    return
                time.sleep(1)
            except (*GONE, PySparkException):
                if self._executors is None or not self._executors.are_gone:
                    raise


def _is_on_cluster(session: SparkSession) -> bool:
    return is_cluster(str(session.sparkContext.master))


def _run_two_stages(session: SparkSession, batch: BatchTasks) -> list[TaskOutcome]:
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

    first = session.sparkContext.parallelize(list(enumerate(index)), len(index))
    indexed = first.map(lambda item: (item[0], run_task(item[1], context)))
    both = indexed.partitionBy(len(join)).mapPartitionsWithIndex(join_after_index)
    return [outcome for _, outcome in sorted(both.collect(), key=lambda pair: pair[0])]


def _try_a_worker(session: SparkSession) -> None:
    """Run a task that no record of a log can break. NoWorkerStarts if that fails, too."""
    try:
        session.sparkContext.parallelize([0], 1).map(_import_tasks).collect()
    except (*GONE, PySparkException, EOFError) as error:
        raise NoWorkerStarts(f"no Python worker of Spark can start: {_cause(error)}") from error


def _import_tasks(number: int) -> int:
    import photon.join.tasks  # noqa: F401 (0.6 s, in a worker that stays)

    return number


def _cause(error: Exception) -> str:
    """The line of an error that says most.

    What Java says of a Python worker may only lead up to what the worker has said itself.
    """
    text = str(error)
    for marker in ("Python worker exited unexpectedly", "Caused by: "):
        if marker in text:
            text = text[text.index(marker) :]
            break
    first, *others = text.splitlines() or [type(error).__name__]
    if not _LEADS_UP.search(first):
        return first
    errors = (line.strip() for line in others if _PYTHON_ERROR.match(line))
    return next(errors, "") or next((line.strip() for line in others if line.strip()), first)
