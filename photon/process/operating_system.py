"""Linux's account of a process, and the command that ends it or has it go on.

And what the own process does: come after others in line for a processor, handle signals during a block, hold
a file alone.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | signal.Handlers

STOPPED = ("T", "t")  # stopped by a signal, or by a debugger
ON_DISK = "D"
NICENESS = 10  # upkeep and rebuilds have it, so that joins go first
PRIVATE_FILE = (
    0o600  # the mode of what its user alone may read: state, index and waiting records have what logs have
)


def state_of(process: int) -> str:
    """The letter that Linux has for the state of a process; empty if there is none, or nobody can tell."""
    try:
        # The program's name, in brackets before the letter, may have blanks and brackets itself.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def is_stopped(process: int) -> bool:
    """Whether somebody stopped the process, so that it goes on only if somebody continues it."""
    return state_of(process) in STOPPED


def what_ends(process: int) -> str:
    """How to end a process of this machine, or to have it go on."""
    state = state_of(process)
    if state in STOPPED:
        return f"process {process} is stopped: kill -CONT {process} has it go on, kill -9 {process} ends it"
    if state == ON_DISK:
        return f"process {process} waits for a disk: kill -9 {process} ends it once that answers"
    return f"kill -9 {process} ends process {process}"


def come_after_others() -> None:
    """Have this process, and all that it starts from now on, yield processors to others.

    On Linux that is this thread, with the threads and processes that it starts.
    """
    os.nice(max(0, NICENESS - os.nice(0)))


@contextmanager
def handled_by(handler: Handler, *signals: signal.Signals) -> Iterator[None]:
    """Have `handler` handle these signals during the block, and the former handlers after it."""
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


class HeldByAnother(Exception):
    """Another process holds the file. `process`: its number; empty: it did not say."""

    def __init__(self, process: str) -> None:
        super().__init__(process)
        self.process = process


def private_folder(folder: Path) -> Path:
    """Make a folder that its user alone may look into; one that is there stays as it is. OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def private_file(path: Path) -> None:
    """Make an empty file that its user alone may read; one that is there stays as it is. OSError.

    SQLite gives its write-ahead log the mode of its database.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, PRIVATE_FILE))


@contextmanager
def held_alone(path: Path) -> Iterator[None]:
    """Hold a file, which then names this process; the kernel frees it at its end. HeldByAnother, OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeldByAnother(file.read().strip()) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
