"""Questions on threads of their own: who asks goes on in time whatever hangs, a server, a disk or a mount.

A thread that hangs is left alone: it ends with the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from photon.errors import UserError

T = TypeVar("T")

LOOK_SECONDS = 0.02
# A process that reads or computes uses more of its time than this; one that waits for an answer does not.
STANDSTILL_SHARE = 0.05


class NotInTime(UserError):
    """Somebody did not answer in time; the message names who, and what to do."""


class Question(Generic[T]):
    """A question that is asked from now on."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._answers: list[T] = []
        self._error: BaseException | None = None
        self._has_ended = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="question").start()

    def _run(self) -> None:
        try:
            self._answers.append(self._ask())
        except BaseException as error:
            self._error = error
        finally:
            self._has_ended.set()

    def answer(self, seconds: float, while_working: bool = False) -> T:
        """The answer, or what it raised; NotInTime if none comes within so many seconds.

        `while_working`: they are counted anew while this process is at work, as on many files.
        """
        began, began_cpu = time.monotonic(), time.process_time()
        while not self._has_ended.wait(LOOK_SECONDS):
            took, used = time.monotonic() - began, time.process_time() - began_cpu
            if took < seconds:
                continue
            if not while_working or used < STANDSTILL_SHARE * took:
                raise NotInTime(f"no answer within {seconds:g} s")
            began, began_cpu = time.monotonic(), time.process_time()
        if self._error is not None:
            raise self._error
        return self._answers[0]
