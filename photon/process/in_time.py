"""Questions on threads of their own: who asks goes on in time whatever hangs, a server, a disk or a mount.

A thread that hangs is left alone: it ends with the process.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from photon.process.errors import UserError
from photon.process.operating_system import RUNNABLE, come_after_others, state_of

T = TypeVar("T")

LOOK_SECONDS = 0.02
# A process that reads or computes uses more of its time than this, or stands in line for a processor. One
# that waits for an answer does not.
STANDSTILL_SHARE = 0.05
MOST_TIMES = 5
_THREADS = Path("/proc/self/task")  # where Linux lists the threads of this process


class NotInTime(UserError):
    """Somebody did not answer in time; the message names who, and what to do."""


class Question(Generic[T]):
    """A question that is asked from now on."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._answers: list[T] = []
        self._error: BaseException | None = None
        self._has_ended = threading.Event()
        self.was_told = False  # somebody had its answer or error
        self._thread = threading.Thread(target=self._run, daemon=True, name="question")
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether its answer or error is there."""
        return self._has_ended.is_set()

    def _run(self) -> None:
        try:
            self._answers.append(self._ask())
        except BaseException as error:
            self._error = error
        finally:
            self._has_ended.set()

    def answer(self, seconds: float, while_working: bool = False) -> T:
        """The answer, or what it raised; NotInTime if none comes within so many seconds.

        `while_working`: they are counted anew while this process is at work, as on many files; `MOST_TIMES`
        in all, for other threads may be at work while this question hangs.
        """
        began, began_at_work = time.monotonic(), _at_work_seconds() if while_working else 0.0
        ends = began + MOST_TIMES * seconds
        while not self._has_ended.wait(LOOK_SECONDS):
            took = time.monotonic() - began
            if took < seconds:
                continue
            at_work = _at_work_seconds() if while_working else 0.0
            is_at_work = at_work - began_at_work >= STANDSTILL_SHARE * took or self._is_runnable()
            if not (while_working and is_at_work) or time.monotonic() >= ends:
                raise NotInTime(f"no answer within {seconds:g} s")
            began, began_at_work = time.monotonic(), at_work
        self.was_told = True
        if self._error is not None:
            raise self._error
        return self._answers[0]

    def _is_runnable(self) -> bool:
        """Whether it computes or stands in line: Linux counts a wait in line only once it is over."""
        return self._thread.native_id is not None and state_of(self._thread.native_id) == RUNNABLE


class Repeated(Generic[T]):
    """A question that is asked again and again, by one thread at a time.

    An answer that comes late is that of the next one who asks: a busy machine is slow, and a disk that hangs
    never answers.
    """

    def __init__(self, stands_seconds: float) -> None:
        """`stands_seconds`: a question that was asked longer ago, and answered since, is asked anew."""
        self._stands_seconds = stands_seconds
        self._asked: tuple[float, Question[T]] | None = None
        self.last: T | None = None  # the last answer

    def answer(self, ask: Callable[[], T], seconds: float) -> T:
        """As `Question.answer`; while the last question has not ended, nobody asks another one.

        The first answer has its time while this process is at work.
        """
        is_first, now = self._asked is None, time.monotonic()
        at, asked = self._asked or (0.0, None)
        if asked is None or (asked.has_ended and (asked.was_told or now - at >= self._stands_seconds)):
            at, asked = self._asked = now, Question(ask)
        self.last = asked.answer(seconds, while_working=is_first)
        return self.last


def behind_others(work: Callable[[], T]) -> T:
    """Do `work` on a thread that yields processors to others, while this thread keeps its rank.

    Linux has a niceness for each thread; elsewhere all of the process yields from then on.
    """

    def yielding() -> T:
        come_after_others()
        return work()

    return Question(yielding).answer(math.inf)


def _at_work_seconds() -> float:
    """Seconds that this process used a processor or stood in line for one: a busy machine is no hung disk."""
    return time.process_time() + _in_line_seconds()


def _in_line_seconds() -> float:
    """Seconds that the other living threads have stood in line for a processor; 0 where nobody counts them.

    The thread that asks is left out: it looks so often that on a busy machine it always stands in line.
    """
    nanoseconds, own = 0, str(threading.get_native_id())
    threads = os.listdir(_THREADS) if _THREADS.is_dir() else []  # elsewhere than on Linux there are none
    for thread in threads:
        with suppress(OSError, IndexError):  # the thread has just ended
            if thread != own:
                nanoseconds += int((_THREADS / thread / "schedstat").read_text().split()[1])
    return nanoseconds / 1e9
