"""Readings on threads, with a bounded time for who waits, and a bounded number of threads that hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from photon.process.clock import MICROSECONDS, Clock
from photon.process.in_time import LOOK_SECONDS, NotInTime, Question

T = TypeVar("T")
# A reading that takes long is repeated less often, so that all of them use at most such a share of a core.
SHARE_OF_A_CORE = 0.05


class Busy(NotInTime):
    """Others are asking; the message says what to do."""


class InTurn:
    """Reads one thing after another. A reading that hangs keeps one thread, however often somebody asks."""

    def __init__(self, what: str) -> None:
        self._what, self._question = what, Question[Any](lambda: None)

    async def answer(self, read: Callable[[], T], seconds: float, wait_seconds: float | None = None) -> T:
        """Return what `read` returns, or raise what it raises; NotInTime after `seconds`.

        Busy if readings before it take longer than `wait_seconds`.
        """
        wait_seconds = seconds if wait_seconds is None else wait_seconds
        if not await _has_ended(lambda: self._question, wait_seconds):
            raise Busy(f"{self._what}: an earlier question is not answered yet, after {wait_seconds:g} s")
        self._question = asked = Question(read)
        if not await _has_ended(lambda: asked, seconds):
            raise NotInTime(f"{self._what}: no answer within {seconds:g} s")
        return asked.answer(0)


class Shared(Generic[T]):
    """One reading for all who ask within some seconds.

    `stands_seconds`: an answer stands for so long where the next one takes its time, as on a busy machine.
    """

    def __init__(
        self,
        what: str,
        read: Callable[[], T],
        every_seconds: float,
        clock: Clock,
        stands_seconds: float = 0.0,
    ) -> None:
        self._what, self._read, self._every_seconds, self._clock = what, read, every_seconds, clock
        self._stands_us = round(stands_seconds * MICROSECONDS)
        self._question: Question[T] | None = None
        self._known: tuple[int, T] | None = None  # the last answer, and when its reading began
        self._due_us = 0

    async def answer(self, seconds: float) -> T:
        """The newest answer, or what the reading raised; NotInTime if none has come within `seconds`."""
        if self._question is None or (self._question.has_ended and self._clock.elapsed_us() >= self._due_us):
            self._due_us = self._clock.elapsed_us() + round(self._every_seconds * MICROSECONDS)
            self._question = Question(self._timed)
        asked = self._question
        if await _has_ended(lambda: asked, seconds):
            return asked.answer(0)
        if self._known is not None and self._clock.elapsed_us() - self._known[0] < self._stands_us:
            return self._known[1]
        raise NotInTime(f"{self._what}: no answer within {seconds:g} s")

    def _timed(self) -> T:
        began_us, used = self._clock.elapsed_us(), time.thread_time()
        try:
            found = self._read()
            self._known = began_us, found
            return found
        finally:
            # Not the time that it took: on a busy machine people would be told late of what befalls it.
            used = time.thread_time() - used
            self._due_us = max(self._due_us, began_us + round(MICROSECONDS * used / SHARE_OF_A_CORE))


async def _has_ended(question: Callable[[], Question[T]], seconds: float) -> bool:
    """Wait until the question of that moment has ended; whether it has within so many seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not question().has_ended:
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True
