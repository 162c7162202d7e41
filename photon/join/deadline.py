"""The deadline of a task: an adapter that never returns must not keep its batch for ever (protocol A17)."""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

# Code that holds the interpreter hears no signal: so long after the deadline the process ends.
GRACE_SECONDS = 30.0
# An exception that is raised within a finaliser is dropped by the interpreter: so the alarm comes again.
REPEAT_SECONDS = 1.0


class TaskTimedOut(BaseException):
    """The task's time is up. A `BaseException`, so that no `except Exception` of an adapter goes on."""


class CallTooSlow(Exception):
    """One call of an adapter took too long: its records are at fault, and no others."""


class _CallIsUp(BaseException):
    """Like TaskTimedOut, for one call."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise TaskTimedOut in what takes longer; end the process if that changes nothing.

    Only in a process's main thread, where Spark's workers run their tasks: no other one hears signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=sys.__stderr__ or 2)
    try:
        what = f"a task took longer than {seconds:g} s (limits.task_timeout)"
        with _alarm(seconds, lambda where: TaskTimedOut(f"{what}{where}")):
            yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def call_deadline(seconds: float) -> Iterator[None]:
    """Raise CallTooSlow if a call takes longer, within the deadline of its task."""
    is_main = threading.current_thread() is threading.main_thread()
    left_seconds = signal.getitimer(signal.ITIMER_REAL)[0]
    if not is_main or 0 < left_seconds <= seconds:  # the task's own time is up before
        yield
        return
    try:
        with _alarm(seconds, lambda where: _CallIsUp(f"it took longer than {seconds:g} s{where}")):
            yield
    except _CallIsUp as error:
        raise CallTooSlow(str(error)) from None


@contextmanager
def _alarm(seconds: float, error: Callable[[str], BaseException]) -> Iterator[None]:
    def time_is_up(_signal: int, frame: FrameType | None) -> None:
        raise error(f", at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "")

    began = time.monotonic()
    left_of_another, its_interval = signal.getitimer(signal.ITIMER_REAL)
    handler = signal.signal(signal.SIGALRM, time_is_up)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_SECONDS)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # the alarm may have gone off on the way out
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left_of_another:  # the timer that was set before goes on with its rest
            left = left_of_another - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001), its_interval)
