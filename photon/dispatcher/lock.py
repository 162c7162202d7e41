"""One dispatcher a datacenter: the lock in its state folder.

The kernel lets go of it when the process dies, however it dies. What keeps a process that lost it
from doing harm is the table's version, not this lock (protocol A3).
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO

LOCK_FILE = "lock"
# Somebody who only asks who holds it (`holder_of`) has it for a moment: long enough for that to pass.
LOCK_TRIES = 10
LOCK_PAUSE_SECONDS = 0.05


class AlreadyRunning(Exception):
    """Another process runs this datacenter."""


class DatacenterLock:
    """Held from construction to `release`, or to the end of the process."""

    def __init__(self, state: Path, datacenter: str) -> None:
        """AlreadyRunning, with the other's process id, if somebody holds it; OSError for a useless folder."""
        state.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = (state / LOCK_FILE).open("a+")
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(LOCK_PAUSE_SECONDS)
        else:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise AlreadyRunning(
                f"datacenter {datacenter} is already run by process {holder} (lock {state / LOCK_FILE}); "
                "stop that one first"
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Let go."""
        self._file.close()


def holder_of(state: Path) -> int | None:
    """The process that runs the datacenter now; None if nobody does."""
    try:
        with (state / LOCK_FILE).open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0) or None
    except (FileNotFoundError, ValueError):
        return None
    return None
