"""Give signs of life while a batch is open, so that nobody takes its process for dead (protocol E6).

Beside the batches: none waits for it, also one that takes longer than a silence. With nothing to do a
process holds nothing, and gives no sign. One that hangs gives none either, though its threads live: what it
holds would never be freed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from photon.process.clock import MICROSECONDS, Clock
from photon.process.machine import Machine
from photon.registry.entry import Epoch
from photon.registry.errors import RegistryUnavailable
from photon.registry.id_registry import IdRegistry

log = logging.getLogger(__name__)

AGAIN_US = MICROSECONDS  # after a beat that failed
BEATS_IN_SILENCE = 6  # some may be late or lost before others take it for dead


class Announcer:
    """Gives the beats of one epoch. `begun` and `completed` never wait, once it runs in a thread.

    While `is_stuck`, an open batch counts for nothing.
    """

    def __init__(
        self,
        registry: IdRegistry,
        epoch: Epoch,
        silent_after: timedelta,
        clock: Clock,
        is_stuck: Callable[[], bool] = lambda: False,
    ) -> None:
        self._registry = registry
        self._epoch = epoch
        self._clock = clock
        self._is_stuck = is_stuck
        self._beat_us = round(silent_after.total_seconds() * MICROSECONDS) // BEATS_IN_SILENCE
        self._is_open = False
        self._number: int | None = None  # None: the last one of an earlier process is not known yet
        self._since_us: int | None = None  # when the last beat was tried
        self._failed = False
        self._wake, self._ends = threading.Event(), False
        self._thread: threading.Thread | None = None

    @contextmanager
    def working(self, is_open: bool, machine: Machine) -> Iterator[None]:
        """Give beats while this process works: before it opens a session, which may take long.

        `is_open`: an earlier process has left a batch open.
        """
        self._thread = machine.keep_running(f"beats of {self._epoch}", self._run)
        if is_open:
            self.begun()
        try:
            yield
        finally:
            self.close()

    def begun(self) -> None:
        """A batch is open from now on."""
        self._is_open = True
        if self._thread is None:
            self._beat_if_due()
        else:
            self._wake.set()

    def completed(self) -> None:
        """No batch is open. Its close follows within moments, and holds are joins then."""
        self._is_open = False

    def close(self) -> None:
        """End: nobody is to take a process that ended for one at work."""
        self._ends = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ends:
            left_us = self._beat_if_due()
            self._wake.wait(None if left_us is None else max(left_us, 0) / MICROSECONDS)
            self._wake.clear()

    def _beat_if_due(self) -> int | None:
        """Give a beat if it is due. Return how long to wait for the next; None until a batch begins."""
        if not self._is_open:
            return None
        left_us = self._left_us()
        if left_us > 0:
            return left_us
        self._since_us = self._clock.elapsed_us()
        if not self._is_stuck():
            self._beat()
        return self._left_us()

    def _beat(self) -> None:
        try:
            if self._number is None:
                self._number = self._registry.beats([self._epoch])[self._epoch]
            self._registry.beat(self._epoch, self._number + 1)
            self._number += 1
            self._registry.turns.look(self._epoch.datacenter, self._registry.register)
            self._failed = False
        except RegistryUnavailable as error:
            if not self._failed:
                log.info("epoch %s could give no sign of life, and tries again: %s", self._epoch, error)
            self._failed = True

    def _left_us(self) -> int:
        if self._since_us is None:
            return 0
        wait_us = min(AGAIN_US, self._beat_us) if self._failed else self._beat_us
        return self._since_us + wait_us - self._clock.elapsed_us()
