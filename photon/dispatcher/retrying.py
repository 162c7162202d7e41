"""How a caller follows and ends a run, and how a run waits for what is unavailable."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from photon.logs.source import LogsUnavailable
from photon.process.clock import MICROSECONDS, Clock
from photon.process.quantiles import Sample
from photon.registry.errors import RegistryUnavailable
from photon.registry.view_store import ViewUnavailable
from photon.storage.delta import LakeUnavailable

T = TypeVar("T")


class StoppedWaiting(Exception):
    """A stop was requested while a run waited to begin: for its datacenter, the registry or the lake."""


@dataclass(frozen=True)
class BatchReport:
    """A completed batch, for those who follow a run."""

    batch: int
    counts: Counter[str]
    seconds: float
    # Seconds from the later of both events' own times until their row was readable.
    latencies_seconds: Sample = field(default_factory=Sample)


@dataclass(frozen=True)
class Callbacks:
    """How a caller follows and ends a run."""

    should_stop: Callable[[], bool] = lambda: False
    on_batch: Callable[[BatchReport], None] = lambda report: None
    on_wait: Callable[[str], None] = lambda reason: None  # something is unavailable; once for each wait
    on_resume: Callable[[str, float], None] = lambda reason, seconds: None  # the wait is over
    on_cause: Callable[[str], None] = lambda reason: None  # the wait goes on, for another reason than before
    on_failure: Callable[[str], None] = lambda reason: None  # a try of a batch failed; another follows
    on_progress: Callable[[], None] = lambda: None  # a batch was carried out, or there is none left
    on_passed: Callable[[str], None] = lambda says: None  # others passed a batch over; its work comes again


class BackoffRetry:
    """Waits with backoff for what is unavailable; tells callbacks when a wait begins and when it is over.

    A wait is over when the attempt that failed succeeds, not when another does: the caller says `over` then.
    """

    FIRST_SECONDS = 0.25
    MOST_SECONDS = 10.0
    SLICE_SECONDS = 0.25  # how soon a stop is noticed

    def __init__(self, callbacks: Callbacks, clock: Clock, rng: random.Random) -> None:
        self._callbacks = callbacks
        self._clock = clock
        self._rng = rng
        self._begin()

    def _begin(self) -> None:
        self._wait_seconds = self.FIRST_SECONDS
        self._reason, self._since_us = "", 0  # why it waits, as callbacks know, and since when

    @property
    def is_waiting(self) -> bool:
        """Whether callbacks know of a wait that is not over."""
        return bool(self._reason)

    def wait(self, reason: str) -> bool:
        """Wait before the next try; False if a stop is requested."""
        if not self._reason:
            self._reason, self._since_us = reason, self._clock.elapsed_us()
            self._callbacks.on_wait(reason)
        elif reason != self._reason:
            self._reason = reason
            self._callbacks.on_cause(reason)
        left = self._wait_seconds * self._rng.uniform(0.75, 1.25)
        self._wait_seconds = min(self._wait_seconds * 2, self.MOST_SECONDS)
        while left > 0:
            if self._callbacks.should_stop():
                return False
            self._clock.sleep(min(left, self.SLICE_SECONDS))
            left -= self.SLICE_SECONDS
        return not self._callbacks.should_stop()

    def over(self) -> None:
        """Say that a wait is over, if there was one; the next wait begins anew."""
        if self._reason:
            seconds = (self._clock.elapsed_us() - self._since_us) / MICROSECONDS
            self._callbacks.on_resume(self._reason, seconds)
            self._begin()

    def until_available(self, attempt: Callable[[], T]) -> T:
        """The result of `attempt`, repeated while registry, its view, lake or logs are unavailable.

        StoppedWaiting if a stop is requested before it succeeds.
        """
        while True:
            try:
                result = attempt()
                self.over()
                return result
            except (RegistryUnavailable, ViewUnavailable, LakeUnavailable, LogsUnavailable) as error:
                if not self.wait(str(error)):
                    raise StoppedWaiting(f"a stop was requested while this was awaited: {error}") from error
