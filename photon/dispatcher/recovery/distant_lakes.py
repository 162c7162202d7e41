"""Asks the lakes of other datacenters, which may hang. What is asked does not belong here."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import TypeVar, cast

from photon.process.machine import Machine
from photon.storage.delta import LakeUnavailable

T = TypeVar("T")
# The joins here wait so long for the lake of another datacenter, once: a store that is well answers within a
# second, and a shift that gives no sign of life for 10 s is replaced.
LAKE_TIMEOUT = timedelta(seconds=10)


class DistantLakes:
    """Waits for an answer for so long at most: the joins of this datacenter wait as long."""

    def __init__(self, timeout: timedelta = LAKE_TIMEOUT, machine: Machine | None = None) -> None:
        self._timeout_seconds = timeout.total_seconds()
        self._machine = machine or Machine()
        self._unanswered: dict[str, Future[object]] = {}
        self._polled: dict[str, Future[object]] = {}

    def ask(self, datacenter: str, question: Callable[[], T]) -> T:
        """Return or raise as `question` does. LakeUnavailable if that takes too long.

        Then it goes on aside, and nobody asks that lake again before it has ended.
        """
        last = self._unanswered.get(datacenter)
        if last is not None and not last.done():
            raise LakeUnavailable(f"the lake of datacenter {datacenter} still does not answer")
        answer = self._machine.ask(f"lake of {datacenter}", question)
        try:
            return answer.result(self._timeout_seconds)
        except TimeoutError:
            if answer.done():  # the question itself raised it
                raise
            self._unanswered[datacenter] = answer  # type: ignore[assignment]  # whatever it answers is dropped
            raise LakeUnavailable(
                f"the lake of datacenter {datacenter} does not answer within {self._timeout_seconds:.0f} s"
            ) from None

    def poll(self, datacenter: str, question: Callable[[], T]) -> T | None:
        """Return or raise as `question` of the call that began it has done; None until then."""
        if datacenter not in self._polled:
            self._polled[datacenter] = self._machine.ask(f"lake of {datacenter}", question)
        answer = self._polled[datacenter]
        if not answer.done():
            return None
        del self._polled[datacenter]
        return cast(T, answer.result())
