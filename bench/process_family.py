"""A process and all below it, and what they use of the machine."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def family_of(pid: int) -> list[psutil.Process]:
    """The processes below it, and it itself as the last; none if it is gone."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        return [*parent.children(recursive=True), parent]
    return []


def cpu_seconds_of(processes: Iterable[psutil.Process]) -> float:
    """What these processes, and those that ended below them, have used so far."""
    used = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            used += sum(process.cpu_times()[:4])
    return used
