"""Runs the first batches of a shift without Spark, until its session is warm.

A session takes 12 s of a core until it has run its first job, and three times as long on a busy machine.
Meanwhile no process would join the events of a datacenter whose shift was killed.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager

from photon.jobs.batch_job import SparkRunner
from photon.jobs.session import TASK_TRIES, usable_cores
from photon.join.messages import BatchTasks, TaskOutcome, WorkerDied
from photon.join.task_process import TaskProcess

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
# The session begins once the rows of the first batch are there, or after so long: catch-up may take hours.
FIRST_BATCH_SECONDS = 10.0
# A session fills a core while it begins. Four at once on two cores kept the successor of a killed shift from
# its first row for 30 s and more.
CORES_PER_SESSION = 2
TURN_SECONDS = 60.0  # the longest wait for a turn: then a session begins beside the others


class WarmingRunner:
    """A `BatchRunner` that runs tasks in a process of its own until Spark is warm, and then on Spark."""

    def __init__(self, open_spark: Callable[[], SparkRunner]) -> None:
        """`open_spark` builds a session. The caller ends the session after `close`."""
        self._open_spark = open_spark
        self._thread = ThreadPoolExecutor(1, "warming")
        self._beginning = threading.Lock()
        self._timer = threading.Timer(FIRST_BATCH_SECONDS, self.warm_up)
        self._timer.daemon = True
        self._is_closed = threading.Event()
        self._spark: Future[SparkRunner] | None = None
        self._process: TaskProcess | None = None

    def get_ready(self, is_busy: Callable[[], bool]) -> None:
        """Get ready to run a first batch: warm Spark up while `is_busy`, else begin a process for tasks.

        A successor warms up while its predecessor works. If that one dies, a process joins at once.
        """
        while is_busy():
            self.warm_up()
            if self.is_warm:
                return
            time.sleep(POLL_SECONDS)
        self._process = TaskProcess()
        self._timer.start()

    def warm_up(self) -> None:
        """Begin, once, to build a session beside and to do what its first batch would wait for."""
        with self._beginning:
            if self._spark is None:
                self._spark = self._thread.submit(self._warm_spark)

    def _warm_spark(self) -> SparkRunner:
        with session_turn(self._is_closed, max(1, usable_cores() // CORES_PER_SESSION)):
            if self._is_closed.is_set():
                raise CancelledError
            runner = self._open_spark()
            runner.warm_up()
            return runner

    @property
    def is_warm(self) -> bool:
        """Whether Spark runs the next batch, or failed to begin: then that batch raises the error."""
        return self._spark is not None and self._spark.done()

    @property
    def workers(self) -> int:
        """How many tasks run at once."""
        spark = self._spark_if_warm()
        return TaskProcess.workers if spark is None else spark.workers

    def look(self) -> None:
        """Have Spark, if it is warm, see to its session and executors. NoExecutor."""
        if (spark := self._spark_if_warm()) is not None:
            spark.look()

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        """Run a batch, on Spark if that is warm. Raises the error of a session that failed to begin."""
        spark = self._spark_if_warm()
        if spark is not None:
            self._end_process()
            return spark.run(batch)
        # Spark tries again too: one death, as by a lack of memory, condemns no record.
        for _ in range(TASK_TRIES - 1):
            try:
                return self._living_process().run(batch)
            except WorkerDied as error:
                log.warning("%s; another one tries its batch again", error)
        return self._living_process().run(batch)

    def begin(self, batch: BatchTasks) -> Future[list[TaskOutcome]]:
        """Begin tasks beside those of `run`; none before Spark is warm: they would delay `run`."""
        spark = self._spark_if_warm()
        if spark is not None:
            return spark.begin(batch)
        nothing: Future[list[TaskOutcome]] = Future()
        nothing.set_result([])
        return nothing

    def close(self) -> None:
        """End the process, and wait until no session is being built."""
        self._timer.cancel()
        self._is_closed.set()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._end_process()

    def _spark_if_warm(self) -> SparkRunner | None:
        return self._spark.result() if self._spark is not None and self._spark.done() else None

    def _living_process(self) -> TaskProcess:
        if self._process is None or not self._process.lives:
            self._process = TaskProcess()
        return self._process

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


@contextmanager
def session_turn(is_closed: threading.Event, places: int, seconds: float = TURN_SECONDS) -> Iterator[None]:
    """Hold one of this user's `places` on this machine; go on without after `seconds`, or once `is_closed`.

    A place is a Unix socket without a file, which ends with its process. Only Linux has these: elsewhere
    no session waits.
    """
    until = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX) as place:
        while not any(_takes(place, number) for number in range(places)):
            if time.monotonic() > until or is_closed.wait(POLL_SECONDS):
                break
        yield


def _takes(place: socket.socket, number: int) -> bool:
    """Take a place if it is free; True also where a system has no such places."""
    try:
        place.bind(f"\0photon-begins-spark-{os.getuid()}-{number}")
    except OSError as error:
        return error.errno != errno.EADDRINUSE
    return True
