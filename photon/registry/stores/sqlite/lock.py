"""`write.lock`: whoever holds it may open the local registry's file. Those who wait can name its holder."""

from __future__ import annotations

import fcntl
import os
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from photon.process.operating_system import is_stopped

LOCK, NEXT = "write.lock", "next.lock"
# A commit takes some milliseconds, so others look soon again; who waits for long costs little.
FIRST_POLL_SECONDS, POLL_SECONDS = 0.001, 0.01
COMMAND_LENGTH = 80  # of a holder's command line, in a message
FORK_SECONDS = 1.0

# Threads of one process take turns without polling.
_turns: dict[Path, threading.Lock] = {}


class Missed(Exception):
    """There was no turn in time; the message names who holds the lock, and what to do about it."""


@contextmanager
def alone_in(folder: Path, until_seconds: float) -> Iterator[None]:
    """Hold the folder's lock, got by this time of the monotonic clock. Missed, OSError.

    Who is next in line has `next.lock` meanwhile: so who frees the lock and wants it again comes behind him.
    """
    turn = _turns.setdefault(folder, threading.Lock())
    if not turn.acquire(timeout=max(0.0, until_seconds - time.monotonic())):
        raise Missed(_said(folder))
    try:
        following = _locked(folder, NEXT, until_seconds)
        try:
            descriptor = _locked(folder, LOCK, until_seconds)
        finally:
            _free(following)
        try:
            yield
        finally:
            _free(descriptor)
    finally:
        turn.release()


def _locked(folder: Path, name: str, until_seconds: float) -> int:
    """A descriptor that has the lock which is at the path now: whoever puts a folder back replaces it."""
    path, poll_seconds = folder / name, FIRST_POLL_SECONDS
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            own, of_folder = os.fstat(descriptor), os.stat(folder)
            if os.geteuid() == 0 and own.st_uid != of_folder.st_uid:  # root has looked after it
                os.fchown(descriptor, of_folder.st_uid, of_folder.st_gid)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(own, os.stat(path)):
                    return descriptor
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() >= until_seconds:
            raise Missed(_said(folder))
        time.sleep(poll_seconds)
        poll_seconds = min(2 * poll_seconds, POLL_SECONDS)


def _free(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)  # also where a fork has the descriptor too
    os.close(descriptor)


# -- who holds it


def _said(folder: Path) -> str:
    holder = holder_in(folder) or "nobody of this container holds it: look for a process of another one"
    return f"{folder / LOCK}: {holder}"


def holder_in(folder: Path) -> str:
    """Name who holds the lock of a folder now; empty if nobody does, or nobody can tell."""
    try:
        inode = os.stat(folder / LOCK).st_ino
        return "; ".join(map(named, holders_of(inode, Path("/proc/locks").read_text())))
    except OSError:
        return ""


def holders_of(inode: int, locks: str) -> list[int]:
    """The processes that hold a lock on a file, by Linux's list of locks; pure.

    It has none of other containers. Lines with an arrow are of those who wait.
    """
    found = []
    for line in locks.splitlines():
        words = line.split()
        if len(words) >= 6 and words[1] != "->" and words[5].rpartition(":")[2] == str(inode):
            found.append(int(words[4]))
    return found


def named(process: int) -> str:
    """Name a process that holds the lock, and what has it go on."""
    if process == os.getpid():
        return "this process holds it itself: it is busy, or waits for its disk"
    says = f"process {process}{_command_of(process)} holds it"
    if is_stopped(process):
        return f"{says}, and is stopped: kill -CONT {process} has it go on"
    return f"{says}: it is busy, or waits for its disk"


def _command_of(process: int) -> str:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return ""
    command = shlex.join(word.decode(errors="replace") for word in words)
    return f" ({command[:COMMAND_LENGTH]})" if command else ""


# -- forks: a child that inherited a transaction would believe that it holds SQLite's locks

_own = threading.local()  # two threads may fork at once, and each frees what it has paused


def _before_fork() -> None:
    # One that takes longer waits for its disk, and a process that is to be started must not wait with it.
    ends_seconds = time.monotonic() + FORK_SECONDS
    _own.paused = [
        turn
        for turn in list(_turns.values())
        if turn.acquire(timeout=max(0.0, ends_seconds - time.monotonic()))
    ]


def _in_parent() -> None:
    for turn in _own.paused:
        turn.release()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_turns.clear)
