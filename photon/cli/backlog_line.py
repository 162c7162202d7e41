"""The line that says how far a join with an end is: share of its logs, rate, time left, and what joined.

A thread looks at what the joining processes have committed, so one line does for each number of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from photon.dispatcher.shift.growth import LogsRead
    from photon.pipeline.file import Pipeline

LOOK_EVERY_SECONDS = 2.0  # a look lists the logs' folders, and may be on S3


@contextmanager
def telling_how_far(pipeline: Pipeline, names: Sequence[str], say: Callable[[str], None]) -> Iterator[None]:
    """Say again and again how far the logs of these datacenters are read, until the end of the block."""
    ended, who = threading.Event(), " and ".join(names)
    say(f"{who}: joins")

    def look_and_say() -> None:
        first: LogsRead | None = None
        began_seconds = time.monotonic()
        while True:
            now = look(pipeline, names)
            first = first or now
            if first is not None and now is not None:
                say(f"{who}: {now.since(first, time.monotonic() - began_seconds)}")
            if ended.wait(LOOK_EVERY_SECONDS):
                return

    thread = threading.Thread(target=look_and_say, name="how far", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LOOK_EVERY_SECONDS)  # no longer: a look may wait for S3, and what is joined is joined


def look(pipeline: Pipeline, names: Sequence[str]) -> LogsRead | None:
    """How far the logs are read now; None where that can't be told."""
    from photon.dispatcher.shift.growth import LogsRead, growth_of
    from photon.process.clock import SystemClock

    now_us = SystemClock().now_us()
    return LogsRead.of([growth_of(pipeline, name, now_us) for name in names])
