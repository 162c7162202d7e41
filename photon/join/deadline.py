"""The deadline of a task: an adapter that never returns must not keep its batch for ever (protocol A17)."""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

# Code that holds the interpreter hears no signal: so long after the deadline the process ends.
GRACE_SECONDS = 30.0


class TaskTimedOut(BaseException):
    """The task's time is up. A `BaseException`, so that no `except Exception` of an adapter goes on."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise TaskTimedOut in what takes longer; end the process if that changes nothing.

    Only in a process's main thread, where Spark's workers run their tasks: no other one hears signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def time_is_up(_signal: int, frame: FrameType | None) -> None:
        where = f", at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""
        raise TaskTimedOut(f"a task took longer than {seconds:g} s (limits.task_timeout){where}")

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, time_is_up)
    left_of_another, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left_of_another:  # whoever set a timer before goes on with what is left of it
            left = left_of_another - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))
