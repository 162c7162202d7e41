"""Publish how far this epoch is, so that the others know what is joined for good (protocol A16).

Aside: no batch waits for it. At most once a second while batches are completed, now and then while one is
open, and never while there is nothing to do. A process that hangs gives no signs of life, though its threads
live: what it holds would never be released.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from photon.clock import MICROSECONDS, Clock
from photon.ledger.errors import RegistryUnavailable
from photon.registry.consensus.marks import Mark
from photon.registry.quorum.mark_store import MarkStore

log = logging.getLogger(__name__)

LEAST_US = MICROSECONDS  # between two writes
BEATS_IN_SILENCE = 6  # of an open batch: some may be late or lost before others take it for dead


def wait_us(
    published: Mark, batch: int, is_open: bool, since_us: int | None, now_us: int, beat_us: int
) -> int | None:
    """How long to wait before the next write, 0 or less: now; None while there is nothing to publish.

    `batch`: the last one that is completed; `since_us`: when the last write was, None before the first.
    """
    if batch > published.batch:
        due_us = LEAST_US
    elif is_open:
        due_us = beat_us
    else:
        return None
    return 0 if since_us is None else due_us - (now_us - since_us)


class Announcer:
    """Publishes the mark of one epoch. `begun` and `completed` never wait, once it runs in a thread.

    While `is_stuck`, an open batch counts for nothing.
    """

    def __init__(
        self,
        marks: MarkStore,
        epoch: str,
        silent_after: timedelta,
        clock: Clock,
        is_stuck: Callable[[], bool] = lambda: False,
    ) -> None:
        self._marks = marks
        self._epoch = epoch
        self._clock = clock
        self._is_stuck = is_stuck
        self._beat_us = round(silent_after.total_seconds() * MICROSECONDS) // BEATS_IN_SILENCE
        self._batch, self._is_open = 0, False
        self._published: Mark | None = None  # None: what is stored is not known yet
        self._is_attested = True  # whether the stores tell of each other that they have it
        self._since_us: int | None = None
        self._failed = False
        self._wake, self._ends = threading.Event(), False
        self._thread: threading.Thread | None = None

    @contextmanager
    def working(self, completed: int, is_open: bool, in_thread: bool) -> Iterator[None]:
        """Publish while this process works: before it opens a session, which may take longer than a silence.

        Whoever ends in order publishes the rest. `is_open`: an earlier process has left a batch open.
        """
        if in_thread:
            self.start()
        self.completed(completed)
        if is_open:
            self.begun()
        try:
            yield
            self.finish()
        finally:
            self.close()

    def start(self) -> None:
        """Publish from a thread of its own from now on."""
        self._thread = threading.Thread(target=self._run, name=f"marks of {self._epoch}", daemon=True)
        self._thread.start()

    def begun(self) -> None:
        """A batch is open from now on."""
        self._is_open = True
        self._go_on()

    def completed(self, batch: int) -> None:
        """The table has batches up to this one, and their tokens without rows are released (A7)."""
        self._batch, self._is_open = batch, False
        self._go_on()

    def finish(self) -> None:
        """Publish what is left, and end; a registry that did not answer is left to the next start."""
        self.close()
        if self._failed:
            return
        self._is_open = False
        while not self._failed and self._left_us() is not None:
            self._since_us = None
            self._publish_if_due()

    def close(self) -> None:
        """End: nobody is to take a process that ended for one at work."""
        self._ends = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _go_on(self) -> None:
        if self._thread is None:
            self._publish_if_due()
        else:
            self._wake.set()

    def _run(self) -> None:
        while not self._ends:
            left_us = self._publish_if_due()
            self._wake.wait(None if left_us is None else max(left_us, 0) / MICROSECONDS)
            self._wake.clear()

    def _publish_if_due(self) -> int | None:
        """Write if it is time to; how long to wait then, None if only for news."""
        left_us = self._left_us()
        if left_us is None or left_us > 0:
            return left_us
        try:
            self._publish()
            self._failed = False
        except RegistryUnavailable as error:
            if not self._failed:
                log.info(
                    "how far epoch %s is could not be published, it is tried again: %s", self._epoch, error
                )
            self._failed = True
        self._since_us = self._clock.elapsed_us()
        return LEAST_US if self._failed else self._left_us()

    def _publish(self) -> None:
        if self._wait_us() is None:
            self._marks.attest(self._epoch)
            self._is_attested = True
            return
        if self._published is None:
            self._published = self._marks.read([self._epoch])[self._epoch]
            left_us = self._wait_us()
            if left_us is None or left_us > 0:
                return
        mark = Mark(max(self._batch, self._published.batch), self._published.beats + 1)
        self._marks.publish(self._epoch, mark)
        self._published, self._is_attested = mark, False

    def _left_us(self) -> int | None:
        """How long to wait for the next write of any kind."""
        left_us = self._wait_us()
        if left_us is not None or self._is_attested:
            return left_us
        return 0 if self._since_us is None else self._since_us + LEAST_US - self._clock.elapsed_us()

    def _wait_us(self) -> int | None:
        published = self._published or Mark()
        now_us, is_open = self._clock.elapsed_us(), self._is_open and not self._is_stuck()
        return wait_us(published, self._batch, is_open, self._since_us, now_us, self._beat_us)
