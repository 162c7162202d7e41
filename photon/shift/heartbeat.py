"""Signs of life of a process that runs a datacenter, for as long as its work goes on.

A thread gives them; it falls silent when the main loop makes no progress, so that a process that hangs
looks as dead as it is.
"""

from __future__ import annotations

import contextlib
import logging
import threading

from photon.clock import MICROSECONDS, Clock
from photon.shift.lease import DatacenterLock

log = logging.getLogger(__name__)

BEATS_IN_A_LEASE = 4  # two may be late on a busy machine, and the lease still holds


class Heartbeat:
    """Beats from construction to `stop`."""

    def __init__(
        self, lock: DatacenterLock, lease_seconds: float, stuck_seconds: float, clock: Clock
    ) -> None:
        self._lock = lock
        self._clock = clock
        self._stuck_us = round(stuck_seconds * MICROSECONDS)
        self._progress_us = clock.now_us()
        self._stopped = threading.Event()
        self._pause_seconds = lease_seconds / BEATS_IN_A_LEASE
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def progress(self) -> None:
        """The main loop is still at work."""
        self._progress_us = self._clock.now_us()

    def stop(self) -> None:
        """No more signs of life."""
        self._stopped.set()
        self._thread.join()

    def _beat(self) -> None:
        silent = False
        while True:
            now_us = self._clock.now_us()
            stuck = now_us - self._progress_us > self._stuck_us
            if not stuck:
                with contextlib.suppress(OSError):  # a file system that can't be written: it may come back
                    self._lock.beat(now_us)
            elif not silent:
                log.error(
                    "no progress for %.0f s (shift.stuck): no more signs of life, a successor may take over",
                    (now_us - self._progress_us) / MICROSECONDS,
                )
            silent = stuck
            if self._stopped.wait(self._pause_seconds):
                return
