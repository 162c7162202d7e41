"""The executors of a driver on a Spark cluster: whether there are any, and else whose fault that is.

Spark itself waits for executors without a word. A standalone master that was started again does not know the
drivers of before: it ends their executors, and gives them none.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from photon.dispatcher.shift.lease import NO_EXECUTOR
from photon.join.messages import NoExecutor
from photon.process.in_time import NotInTime, Question
from photon.storage.store_errors import TRIED_AGAIN

COUNT_SECONDS = 1.0
LOST_SECONDS = 5.0  # without an executor; one that died alone has a successor by then
COMING_SECONDS = 15.0  # without one since a session began: they take some 5 s to start, on a busy machine 10
CONNECT_SECONDS = 2.0
ASK_SECONDS = 5.0  # for a master's answer
BUILD_SECONDS = 10.0  # then a session that is being built is a wait, too
NO_WORKER = (
    "has no worker with enough memory, or others have all of its cores (spark.settings {spark.cores.max: "
    "NUMBER} of each leaves some to the others): start a worker; where one has cores, an executor starts"
)
DYNAMIC = "spark.dynamicAllocation.enabled"
_STANDALONE = "spark://"
_ANY_NUMBER = 2**31 - 1  # of executors, as a driver may have if it names none
# A session raises one of these once its JVM is gone; AttributeError: it was stopped, and has no context.
GONE = (Py4JError, OSError, AttributeError)
_building: list[Question[SparkSession]] = []  # a process has one session at most


class Executors:
    """The executors of one session, counted each second. While there are none, its jobs are canceled."""

    def __init__(self, session: SparkSession, coming_seconds: float) -> None:
        self._session, self._context = session, session.sparkContext._jsc.sc()
        self._none_since: float | None = time.monotonic() + coming_seconds - LOST_SECONDS
        self._has_ended = False
        threading.Thread(target=self._count, name="executors", daemon=True).start()

    @classmethod
    def of(cls, session: SparkSession, are_missed: bool) -> Executors | None:
        """Those of a new session; None: Spark itself decides whether any are needed now.

        `are_missed`: there are none until one has come; else they have some seconds to come.
        """
        conf = session.sparkContext.getConf()
        is_dynamic = conf.get(DYNAMIC, "false") == "true"
        least = conf.get("spark.dynamicAllocation.minExecutors", "0")
        return None if is_dynamic and least == "0" else cls(session, 0.0 if are_missed else COMING_SECONDS)

    @property
    def are_there(self) -> bool:
        """Whether there was one at the last look."""
        return self._none_since is None

    @property
    def are_gone(self) -> bool:
        """Whether there are none, and for longer than a moment."""
        since = self._none_since
        return since is not None and time.monotonic() - since >= LOST_SECONDS

    def _count(self) -> None:
        process = getattr(self._session.sparkContext._gateway, "proc", None)
        while not self._has_ended and (process is None or process.poll() is None):
            with suppress(*GONE):  # a busy gateway answers the next time
                if self._context.isStopped():  # by the cluster
                    self._has_ended, self._none_since = True, 0.0
                elif self._context.getExecutorMemoryStatus().size() > 1:  # beside the driver itself
                    self._none_since = None
                elif self._none_since is None:
                    self._none_since = time.monotonic()
                if self.are_gone:
                    self._context.cancelAllJobs()
            time.sleep(COUNT_SECONDS)
        self._has_ended = True

    def refuse(self) -> None:
        """NoExecutor, unless the master does not know this session any more: then another one is needed."""
        master = str(self._session.sparkContext.master)
        refuse_absent(master)
        if not self._has_ended and self._is_known(master):
            raise lacking(master)

    def _is_known(self, master: str) -> bool:
        """Ask a standalone master for as many executors as it likes, which it is to give anyway.

        Of several masters the next one knows all drivers; dynamic allocation asks for a number of its own.
        """
        context = self._session.sparkContext
        is_dynamic = context.getConf().get(DYNAMIC, "false") == "true"
        if not master.startswith(_STANDALONE) or "," in master or is_dynamic:
            return True
        immutable = context._jvm.scala.collection.immutable  # type: ignore[union-attr]
        nowhere = getattr(getattr(immutable, "Map$"), "MODULE$").empty()
        asked = Question(lambda: bool(self._context.requestTotalExecutors(_ANY_NUMBER, 0, nowhere)))
        try:
            return asked.answer(ASK_SECONDS)
        except NotInTime as error:
            raise lacking(master, f"gives {error}: look at its machine, or start it again") from error
        except GONE:  # its connection went with the master of before
            return False


def has_none(session: SparkSession) -> bool:
    """Whether a session on a cluster has no executor now, or was ended by the cluster."""
    try:
        context = session.sparkContext._jsc.sc()
        return bool(context.isStopped()) or context.getExecutorMemoryStatus().size() <= 1
    except GONE:
        return False


def lacking(master: str, why: str = NO_WORKER) -> NoExecutor:
    """The error of a driver whose master gives it no executor."""
    return NoExecutor(f"{NO_EXECUTOR}: its master {master} {why}; {TRIED_AGAIN}")


def refuse_absent(master: str) -> None:
    """NoExecutor if a standalone master does not answer: Spark would try for a minute, and give up."""
    if not master.startswith(_STANDALONE):
        return
    errors = []
    for place in master.removeprefix(_STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
            return
        except (OSError, ValueError) as error:
            errors.append(str(error))
    raise lacking(master, f"does not answer ({errors[0]}): start it, and its workers")


def built_in_time(master: str, build: Callable[[], SparkSession]) -> SparkSession:
    """The session of `build`. NoExecutor while its master is away, or it takes long: then call again."""
    if not _building:
        refuse_absent(master)
        _building.append(Question(build))
    try:
        session = _building[0].answer(BUILD_SECONDS)
    except NotInTime as error:
        why = f"{error}: the machine is busy, or the master hangs"
        raise NoExecutor(f"Spark has no session of its master {master} yet: {why}; {TRIED_AGAIN}") from error
    except BaseException:
        _building.clear()
        raise
    _building.clear()
    return session
