"""Linux's account of a process, and the command that ends it or has it go on.

And what the own process does: come after others in line for a processor, handle signals during a block, hold
a file alone.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | signal.Handlers

STOPPED = ("T", "t")  # stopped by a signal, or by a debugger
ON_DISK = "D"
RUNNABLE = "R"  # it computes, or stands in line for a processor
ENDED = ("Z", "X")  # its parent has not asked yet how it ended
_BEGAN_WORD = 19  # field 22 of the account, which begins with its field 3
NICENESS = 10  # upkeep and rebuilds have it, so that joins go first
PRIVATE_FILE = (
    0o600  # the mode of what its user alone may read: state, index and waiting records have what logs have
)


def state_of(process: int) -> str:
    """The letter that Linux has for the state of a process; empty if there is none, or nobody can tell."""
    return next(iter(_account_of(process)), "")


def _account_of(process: int) -> list[str]:
    """Linux's words on a process from its state on; none if there is no such process, or nobody can tell."""
    try:
        # The program's name, in brackets before the state, may have blanks and brackets itself.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@dataclass(frozen=True)
class Begun:
    """When a process of this machine began, by a clock that nobody sets: no other process has the same."""

    host: str
    boot: str  # each start of a machine has an id
    process: int
    ticks: int  # since the machine started

    @classmethod
    def of(cls, process: int) -> Begun | None:
        """Its beginning; None if it has ended, or nobody can tell."""
        words = _account_of(process)
        if not words or words[0] in ENDED:
            return None
        return cls(socket.gethostname(), boot_id(), process, int(words[_BEGAN_WORD]))

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended for sure, by a look on its own machine."""
        return self.host == socket.gethostname() and Begun.of(self.process) != self


def boot_id() -> str:
    """An id of this start of the machine, other at each start; empty where nobody says it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def ticks_now() -> int:
    """Ticks since the machine started, as `Begun` has them; 0 where nobody counts them."""
    try:
        return int(float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK"))
    except OSError:
        return 0


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
