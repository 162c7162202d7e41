"""Finding all processes that a test has started, wherever they went: by a mark in their environment."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

MARK = "PHOTON_TEST_MARK"


def marked(mark: str) -> list[psutil.Process]:
    """The living processes with this mark, but for the one that asks."""
    return [process for process in psutil.process_iter() if _has(process, mark)]


def _has(process: psutil.Process, mark: str) -> bool:
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return bool(alive and process.pid != psutil.Process().pid and process.environ().get(MARK) == mark)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def soon(true: Callable[[], bool], seconds: float = 90.0) -> bool:
    """Wait until something is true, and say whether it is: no clock of ours moves other processes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False
