"""A backfill gives way: it waits while live joins are behind, and while another backfill runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from photon.dispatcher.shift.growth import LIVE_BYTES, growth_of
from photon.dispatcher.shift.lease import lease_status_of
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock, SystemClock
from photon.process.operating_system import PRIVATE_FILE

FOLDER, LINE = "backfill", "line"  # in a datacenter's state folder
PAUSE_SECONDS = 1.0
# A backfill waits while joins are further behind: half the lag of which `health.lag` warns.
PAUSE_LAG_SECONDS = 30.0

Progress = Callable[[str], None]


def yield_to_joins(
    pipeline: Pipeline, datacenter: str, progress: Progress, clock: Clock | None = None
) -> None:
    """Wait while joins run in the datacenter and are behind, as `is_behind` says."""
    clock = clock or SystemClock()
    while lease_status_of(pipeline.datacenters[datacenter].state).is_locked:
        growth = growth_of(pipeline, datacenter, clock.now_us())
        unread_bytes = growth.primary.unread_bytes + growth.foreign.unread_bytes
        if not is_behind(growth.lag_seconds, unread_bytes):
            return
        progress(f"waits: joins are {growth.lag_seconds:,.0f} s behind")
        clock.sleep(PAUSE_SECONDS)


def is_behind(lag_seconds: float | None, unread_bytes: int) -> bool:
    """Whether a backfill has to wait. Lag alone is no reason: in silent logs it grows with nothing unread."""
    return unread_bytes > LIVE_BYTES and lag_seconds is not None and lag_seconds > PAUSE_LAG_SECONDS


@contextmanager
def in_line(state: Path, progress: Progress, clock: Clock | None = None) -> Iterator[None]:
    """Wait until no other backfill of this datacenter runs, then keep others waiting. OSError.

    The kernel frees the lock when its process ends. Of several that wait, any may be the next.
    """
    clock, folder = clock or SystemClock(), state / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(folder / LINE, os.O_RDWR | os.O_CREAT, PRIVATE_FILE), "r+") as file:
        is_first = True
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if is_first:
                    progress("waits for another backfill of this datacenter")
                is_first = False
                clock.sleep(PAUSE_SECONDS)
        yield
