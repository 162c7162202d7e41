"""Who runs a datacenter: the lock in its state folder, the lease written in it, and the line before it.

One process at a time holds the lock; the kernel lets go of it when the process dies, however it dies. The
file says who that is, and its time of modification is the last sign of life, so that a process that lives
and does nothing can be told from one that works. A second process may wait in line, to go on where the
first leaves off. What a process that lost the lock must not do is guarded by the table's version, not by
this (protocol A3); who is replaced and when is decided by those who look at `lease_status_of`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from photon.clock import MICROSECONDS
from photon.errors import UserError

LOCK_FILE = "lock"
LINE_FILE = "line"
# Somebody who only asks who holds it (`lease_status_of`) has it for a moment: long enough for that to pass.
LOCK_TRIES = 10
LOCK_PAUSE_SECONDS = 0.05


class AlreadyRunning(UserError):
    """Another process runs this datacenter, or waits in line for it."""


class LineLeft(Exception):
    """A stop was asked for while this process waited in line."""


@dataclass(frozen=True)
class Lease:
    """What the process that runs a datacenter says of itself. Times are microseconds since 1970 UTC."""

    process: int
    host: str
    run: str  # of Dagster; empty: a command
    began_us: int
    ends_us: int | None = None  # when a successor may take over; None: never
    released_us: int | None = None  # when it was let go in order
    idle_seen: str | None = None  # it left because there was nothing to do: the log files as it saw them

    @classmethod
    def of_this_process(cls, run: str, began_us: int, length_us: int | None) -> Lease:
        """A lease for the process that calls."""
        ends_us = None if length_us is None else began_us + length_us
        return cls(os.getpid(), socket.gethostname(), run, began_us, ends_us)

    @property
    def is_here(self) -> bool:
        """Whether its process is one of this machine."""
        return self.host == socket.gethostname()


@dataclass(frozen=True)
class LeaseStatus:
    """Who runs a datacenter, as its state folder says."""

    lease: Lease | None = None  # of the process that has the lock, or had it last
    held: bool = False  # a living process has it
    beat_us: int = 0  # its last sign of life
    in_line: int | None = None  # the process that waits to go on

    def is_live(self, now_us: int, lease_seconds: float) -> bool:
        """Whether somebody has the lock and gives signs of life."""
        return self.held and now_us - self.beat_us <= lease_seconds * MICROSECONDS


class DatacenterLock:
    """Held from construction to `release`, or to the end of the process."""

    def __init__(self, state: Path, datacenter: str, lease: Lease) -> None:
        """AlreadyRunning, with the other's process id, if somebody holds it; OSError for a useless folder."""
        state.mkdir(parents=True, exist_ok=True)
        self.path = state / LOCK_FILE
        self.lease = lease
        file = _open(self.path)
        if not _take(file):
            file.close()
            raise AlreadyRunning(
                f"datacenter {datacenter} is already run by {_holder(state)} (lock {self.path}); "
                "stop that one first"
            )
        self._file = file
        self._line = state / LINE_FILE
        self._write()

    @classmethod
    def wait_in_line(
        cls, state: Path, datacenter: str, lease: Callable[[], Lease], should_stop: Callable[[], bool]
    ) -> DatacenterLock:
        """The lock, as soon as its holder lets go or dies.

        AlreadyRunning if another process waits already; LineLeft if a stop is asked for meanwhile.
        """
        state.mkdir(parents=True, exist_ok=True)
        with _open(state / LINE_FILE) as line:
            if not _take(line):
                raise AlreadyRunning(
                    f"datacenter {datacenter} is run by {_holder(state)}, and process "
                    f"{_content(line) or 'unknown'} waits in line to go on; stop one of them first"
                )
            _overwrite(line, str(os.getpid()))
            try:
                while not should_stop():
                    with contextlib.suppress(AlreadyRunning):
                        return cls(state, datacenter, lease())
                    time.sleep(LOCK_PAUSE_SECONDS)
            finally:
                _overwrite(line, "")
        raise LineLeft(f"a stop was asked for while waiting for datacenter {datacenter}")

    def beat(self, now_us: int) -> None:
        """Give a sign of life. It takes no room, so a full disk is no silence."""
        os.utime(self._file.fileno(), ns=(now_us * 1_000, now_us * 1_000))

    def is_awaited(self) -> bool:
        """Whether a process waits in line to go on."""
        return _is_held(self._line)

    def release(self, now_us: int, idle_seen: str | None = None) -> None:
        """Let go, and say that it was in order."""
        self.lease = replace(self.lease, released_us=now_us, idle_seen=idle_seen)
        with contextlib.suppress(OSError):  # a full disk: then it looks like a crash, and is taken up again
            self._write()
        self._file.close()

    def _write(self) -> None:
        _overwrite(self._file, json.dumps(asdict(self.lease)))


def lease_status_of(state: Path) -> LeaseStatus:
    """Who runs the datacenter of this state folder.

    The lease is read before and after the lock is asked for: if another process takes over in between, its
    lease must not be told as that of a process that is gone.
    """
    try:
        with (state / LOCK_FILE).open("r") as file:
            before = _content(file)
            while True:
                held = _is_held(state / LOCK_FILE)
                beat_us = os.fstat(file.fileno()).st_mtime_ns // 1_000
                content = _content(file)
                if content == before:
                    return LeaseStatus(_lease(content), held, beat_us, _in_line(state))
                before = content
    except FileNotFoundError:
        return LeaseStatus()


def holder_of(state: Path) -> int | None:
    """The process that runs the datacenter now; None if nobody does."""
    standing = lease_status_of(state)
    return standing.lease.process if standing.held and standing.lease else None


def _holder(state: Path) -> str:
    lease = lease_status_of(state).lease
    if lease is None:
        return "a process that it does not name"
    return f"process {lease.process}" + (f" (run {lease.run} of Dagster)" if lease.run else "")


def _in_line(state: Path) -> int | None:
    try:
        with (state / LINE_FILE).open("r") as line:
            return int(_content(line) or 0) or None if _is_held(state / LINE_FILE) else None
    except (FileNotFoundError, ValueError):
        return None


def _open(path: Path) -> IO[str]:
    """For writing at any place: what is opened to append to is written at its end only."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")


def _take(file: IO[str]) -> bool:
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_SECONDS)
    return False


def _is_held(path: Path) -> bool:
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip()


def _overwrite(file: IO[str], text: str) -> None:
    """Longer first, cut after: who reads meanwhile finds a whole beginning, never an empty file."""
    data = text.encode()
    os.pwrite(file.fileno(), data, 0)
    os.ftruncate(file.fileno(), len(data))


def _lease(text: str) -> Lease | None:
    try:
        return Lease(**json.JSONDecoder().raw_decode(text)[0])
    except (ValueError, TypeError):
        return None
