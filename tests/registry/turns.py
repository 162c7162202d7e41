"""Processes that run one at a time: blocking code on a thread each, which stops where another may go on.

The caller decides who goes on, so that all happens in one order. A process stops in `pause`, and may be
killed there.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.crashes import SimulatedCrash

HANG_SECONDS = 10.0  # real time between two stops, which take well below a millisecond


class Hangs(AssertionError):
    """A process goes on and on without asking anybody for anything."""


class Stuck(BaseException):
    """Ends a process that hangs, from outside."""


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this thread, and processes that begin meanwhile, on one core, where they take turns faster."""
    if not hasattr(os, "sched_setaffinity"):  # macOS has none
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class Process:
    """One process: `work` is called with it, and calls its `pause` wherever others may go on."""

    def __init__(self, work: Callable[[Process], None]) -> None:
        self.is_over = False
        self.error: BaseException | None = None
        self._is_killed = False
        self._left_to_miss = 0
        self._turn, self._back = _taken(), _taken()  # locks that the other side opens
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Let the process go on until it stops or ends, unless it sleeps. Raises its error, or Hangs."""
        if self._left_to_miss and not self._is_killed:
            self._left_to_miss -= 1
            return
        self._turn.release()
        if not self._back.acquire(timeout=HANG_SECONDS):
            stuck = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(stuck, ctypes.py_object(Stuck))
            self._back.acquire(timeout=HANG_SECONDS)
            raise Hangs("a process hangs: it asks nobody for anything any more")
        if self.is_over:
            self._thread.join()
        if self.error is not None:
            raise self.error

    def kill(self) -> None:
        """End the process where it stopped."""
        self._is_killed = True
        while not self.is_over:
            self.step()

    def wake(self) -> None:
        """Have the process miss no more steps."""
        self._left_to_miss = 0

    def pause(self, steps: int = 1) -> None:
        """Let others go on, and miss so many steps less one. The process itself calls this."""
        self._left_to_miss = steps - 1
        if self._is_killed:
            raise SimulatedCrash
        self._back.release()
        self._turn.acquire()
        if self._is_killed:
            raise SimulatedCrash

    def _run(self, work: Callable[[Process], None]) -> None:
        self._turn.acquire()
        try:
            if not self._is_killed:
                work(self)
        except SimulatedCrash:
            pass
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._back.release()
