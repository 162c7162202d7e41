"""Who runs a datacenter: the lock in its state folder, the lease written in it, and its heartbeat.

One process at a time holds the lock; the kernel frees it when the process dies, however it dies. The file
names the process, and its time of modification is the last heartbeat: so a process that hangs can be told
from one that works. A successor may wait for the lock, and a command waits for a process that is about to
end. The lock does not make the join exactly-once: the table's version stops a process that lost it (protocol
A3).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from photon.dispatcher.retrying import Callbacks, StoppedWaiting
from photon.pipeline.sections import Limits
from photon.process.clock import MICROSECONDS, Clock
from photon.process.errors import UserError
from photon.process.operating_system import PRIVATE_FILE, private_folder
from photon.state.starting import LOCK_FILE

log = logging.getLogger(__name__)

SUCCESSOR_FILE = "line"
# `lease_status_of` holds the lock for a moment: try for longer than that.
LOCK_TRIES = 10
LOCK_PAUSE_SECONDS = 0.05
# A command waits so long for a process that is about to end, and so long to see whether another one is.
ENDING_SECONDS, LIVE_SECONDS = 60.0, 2.0
# A shift without a sign of life for this long is ended and replaced: a busy machine may keep one waiting for
# some seconds.
LEASE_SECONDS = 10.0
# A run has this long to load the code, open its session and wait for the lock: it takes 15 s, or 60 s on a
# busy machine.
START_SECONDS = 120.0
STAGES_OF_A_BATCH = 2  # index and join; a task of each may take `limits.task_timeout`
WAIT_PAUSE_SECONDS = 0.5
MOST_REASON_CHARACTERS = 1_000  # the lease stays within one block, and can be written on a full disk
MOST_CAUSE_CHARACTERS = 300  # of a try that failed
# One record that kills its worker fails two tries in a row: then the other half of its batch goes through.
FAILING_TRIES = 3
NO_EXECUTOR = "Spark has no executor"  # begins what a process on a cluster waits for then
HEARTBEATS_IN_A_LEASE = 4  # two may be late on a busy machine, and the lease still holds


def stuck_seconds(limits: Limits) -> float:
    """For how long a batch may make no progress: then its process gives no more signs of life."""
    return STAGES_OF_A_BATCH * limits.task_timeout.total_seconds()


class AlreadyRunning(UserError):
    """Another process runs this datacenter, or waits to take it over."""


@dataclass(frozen=True)
class Lease:
    """The process that runs a datacenter, in its own words. Times are microseconds since 1970 UTC."""

    process: int
    host: str
    run: str  # Dagster's run; empty: a command
    began_us: int
    ends_us: int | None = None  # when a successor may take over; None: never
    released_us: int | None = None  # when it was released in order
    idle_seen: str | None = None  # the signature of the log files, if it left because nothing was to do
    parent: int | None = None  # the process with which it ends, of a command for all datacenters
    is_ending: bool = False  # the process has noticed that it is to end
    waits_for: str = ""  # the cause, in words; empty: nothing
    waits_since_us: int = 0
    refused: str = ""  # why it ended without joining: the registry is not the one that the lakes belong to
    ended_by: str = ""  # the error that ended it, which the next one may meet too
    failed_tries: int = 0  # tries of batches that failed since one went through
    fails_since_us: int = 0  # when the first of them failed
    fails_because: str = ""  # the error of the last one, its first line

    @classmethod
    def of_this_process(
        cls, run: str, began_us: int, length_us: int | None, parent: int | None = None
    ) -> Lease:
        ends_us = None if length_us is None else began_us + length_us
        return cls(os.getpid(), socket.gethostname(), run, began_us, ends_us, parent=parent)

    @property
    def is_here(self) -> bool:
        return self.host == socket.gethostname()

    @property
    def lacks_executors(self) -> bool:
        """Whether it waits for executors of a Spark cluster."""
        return self.waits_for.startswith(NO_EXECUTOR)

    @property
    def ends_soon(self) -> bool:
        """Whether it ends after its batch: it has noticed that it is to, or its parent is gone."""
        return self.is_ending or (self.is_here and self.parent not in (None, _parent_of(self.process)))


@dataclass(frozen=True)
class LeaseStatus:
    """Who runs a datacenter, as its state folder says."""

    lease: Lease | None = None  # the process that has the lock, or had it last
    is_locked: bool = False  # a living process has the lock
    beat_us: int = 0  # when its last heartbeat was
    successor: int | None = None  # the process that waits to take over

    @property
    def refused(self) -> str:
        """Why the last process has joined nothing, if nobody runs it since."""
        return self.lease.refused if self.lease is not None and not self.is_locked else ""

    @property
    def ended_by(self) -> str:
        """The error that ended the last process, if nobody runs the datacenter since."""
        return self.lease.ended_by if self.lease is not None and not self.is_locked else ""

    @property
    def failing(self) -> Lease | None:
        """The lease, with the error, if its process lives and so many tries in a row failed; else None."""
        is_failing = self.lease is not None and self.lease.failed_tries >= FAILING_TRIES
        return self.lease if is_failing and self.is_locked else None

    @property
    def was_killed(self) -> bool:
        """Whether the last process died without releasing the lock, and nobody runs the datacenter since."""
        return self.lease is not None and self.lease.released_us is None and not self.is_locked

    def is_live(self, now_us: int, lease_seconds: float) -> bool:
        # A beat of the future is of before the clock was set back; a live process has given another since.
        return self.is_locked and abs(now_us - self.beat_us) <= lease_seconds * MICROSECONDS


class DatacenterLock:
    """Held from construction to `release`, or to the end of the process."""

    def __init__(self, state: Path, datacenter: str, lease: Lease) -> None:
        """AlreadyRunning, with the other's process id, if it is locked; OSError for a useless folder."""
        private_folder(state)
        self.path = state / LOCK_FILE
        self.lease = lease
        file = _open(self.path)
        if not _try_lock(file):
            file.close()
            raise AlreadyRunning(
                f"datacenter {datacenter} is already run by {_holder(state)} (lock {self.path}); "
                "stop that one first"
            )
        self._file = file
        self.before = LeaseStatus(_lease(_content(file)), beat_us=_beat_us(file))  # who had the lock
        self._write()

    @classmethod
    def take_over(
        cls, state: Path, datacenter: str, lease: Callable[[], Lease], should_stop: Callable[[], bool]
    ) -> DatacenterLock:
        """The lock, as soon as its holder releases it or dies.

        AlreadyRunning if another process waits already; StoppedWaiting if a stop is requested before.
        """
        private_folder(state)
        with _open(state / SUCCESSOR_FILE) as file:
            if not _try_lock(file):
                raise AlreadyRunning(
                    f"datacenter {datacenter} is run by {_holder(state)}, and process "
                    f"{_content(file) or 'unknown'} waits in line to go on; stop one of them first"
                )
            _overwrite(file, str(os.getpid()))
            try:
                while not should_stop():
                    with contextlib.suppress(AlreadyRunning):
                        return cls(state, datacenter, lease())
                    time.sleep(LOCK_PAUSE_SECONDS)
            finally:
                _overwrite(file, "")
        raise StoppedWaiting(f"a stop was requested while waiting for datacenter {datacenter}")

    @classmethod
    def wait_for(
        cls, state: Path, datacenter: str, lease: Callable[[], Lease], callbacks: Callbacks, clock: Clock
    ) -> DatacenterLock:
        """The lock; if its holder is about to end, as soon as it has.

        AlreadyRunning if it is not, or takes too long; StoppedWaiting if a stop is requested before.
        """
        began_us, is_said = clock.elapsed_us(), False
        while True:
            try:
                return cls(state, datacenter, lease())
            except AlreadyRunning:
                holder = lease_status_of(state).lease
                ends_soon = holder is not None and holder.ends_soon
                patience_seconds = ENDING_SECONDS if ends_soon else LIVE_SECONDS
                if clock.elapsed_us() - began_us >= patience_seconds * MICROSECONDS:
                    raise
            if ends_soon and not is_said:
                callbacks.on_wait(f"{_holder(state)} ends after its batch")
                is_said = True
            if callbacks.should_stop():
                raise StoppedWaiting(f"a stop was requested while waiting for datacenter {datacenter}")
            clock.sleep(WAIT_PAUSE_SECONDS)

    def announce_end(self) -> None:
        """Write into the lease that this process is to end, for one that would wait for it."""
        self._tell(is_ending=True)

    def tell_wait(self, reason: str, now_us: int) -> None:
        """Write into the lease what this process waits for; nothing any more if it is empty."""
        self._tell(waits_for=reason[:MOST_REASON_CHARACTERS], waits_since_us=now_us)

    def tell_failure(self, reason: str, now_us: int) -> None:
        """Write into the lease that another try of a batch failed, and why."""
        first_line, before = (reason.splitlines() or [""])[0], self.lease
        self._tell(
            failed_tries=before.failed_tries + 1,
            fails_since_us=before.fails_since_us or now_us,
            fails_because=first_line[:MOST_CAUSE_CHARACTERS],
        )

    def tell_progress(self) -> None:
        """Write into the lease that no try has failed since a batch went through, unless it says so."""
        if self.lease.failed_tries:
            self._tell(failed_tries=0, fails_since_us=0, fails_because="")

    def tell_end(self, refused: str = "", ended_by: str = "") -> None:
        """Write into the lease why this process joins no more, until the next one begins."""
        self._tell(refused=refused[:MOST_REASON_CHARACTERS], ended_by=ended_by[:MOST_REASON_CHARACTERS])

    def _tell(self, **changes: Any) -> None:
        self.lease = replace(self.lease, **changes)
        with contextlib.suppress(OSError):  # a full disk: others then know what was told before
            self._write()

    def beat(self, now_us: int) -> None:
        """Give a heartbeat. It takes no room, so that it works on a full disk."""
        os.utime(self._file.fileno(), ns=(now_us * 1_000, now_us * 1_000))

    def has_successor(self) -> bool:
        return _is_locked(self.path.with_name(SUCCESSOR_FILE))

    def release(self, now_us: int, idle_seen: str | None = None) -> None:
        """Release the lock, and write into the lease that this was in order."""
        # On a full disk it looks like a crash, and a successor comes.
        self._tell(released_us=now_us, idle_seen=idle_seen)
        self._file.close()

    def _write(self) -> None:
        _overwrite(self._file, json.dumps(asdict(self.lease)))


class Heartbeat:
    """A thread that beats from construction to `stop`, while the main loop reports progress.

    It falls silent when the main loop hangs, so that a successor may take over.
    """

    def __init__(
        self, lock: DatacenterLock, lease_seconds: float, stuck_seconds: float, clock: Clock
    ) -> None:
        self._lock = lock
        self._clock = clock
        self._stuck_us = round(stuck_seconds * MICROSECONDS)
        self._progress_us = clock.elapsed_us()
        self._stopped = threading.Event()
        self._pause_seconds = lease_seconds / HEARTBEATS_IN_A_LEASE
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def progress(self) -> None:
        self._progress_us = self._clock.elapsed_us()

    @property
    def is_stuck(self) -> bool:
        """Whether the main loop has reported no progress for so long that it hangs."""
        return self._clock.elapsed_us() - self._progress_us > self._stuck_us

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _beat(self) -> None:
        silent = False
        while True:
            stuck = self.is_stuck
            if not stuck:
                with contextlib.suppress(OSError):  # a file system that can't be written: it may come back
                    self._lock.beat(self._clock.now_us())
            elif not silent:
                log.error(
                    "no progress for %.0f s (shift.stuck): no more signs of life, a successor may take over",
                    (self._clock.elapsed_us() - self._progress_us) / MICROSECONDS,
                )
            silent = stuck
            if self._stopped.wait(self._pause_seconds):
                return


def lease_status_of(state: Path) -> LeaseStatus:
    """Who runs the datacenter of this state folder.

    Reads the lease before and after it tries the lock. A process that takes over in between must not be
    reported as gone.
    """
    path = state / LOCK_FILE
    try:
        with path.open("r") as file:
            before = None
            while (content := _content(file)) != before:
                before = content
                is_locked = _is_locked(path)
                beat_us = _beat_us(file)
            return LeaseStatus(_lease(content), is_locked, beat_us, _successor(state))
    except FileNotFoundError:
        return LeaseStatus()


def holder_of(state: Path) -> int | None:
    """The process that runs the datacenter now; None if nobody does."""
    status = lease_status_of(state)
    return status.lease.process if status.is_locked and status.lease else None


def _holder(state: Path) -> str:
    lease = lease_status_of(state).lease
    if lease is None:
        return "a process that it does not name"
    return f"process {lease.process}" + (f" (run {lease.run} of Dagster)" if lease.run else "")


def _parent_of(process: int) -> int | None:
    import psutil  # who only asks after a lease does without it

    try:
        return int(psutil.Process(process).ppid())
    except psutil.NoSuchProcess:  # the kernel frees its lock in a moment
        return None


def _successor(state: Path) -> int | None:
    path = state / SUCCESSOR_FILE
    try:
        with path.open("r") as file:
            return int(_content(file) or 0) or None if _is_locked(path) else None
    except (FileNotFoundError, ValueError):
        return None


def _open(path: Path) -> IO[str]:
    """Open to write anywhere: append mode would write at the end only."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE), "r+")


def _try_lock(file: IO[str]) -> bool:
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_SECONDS)
    return False


def _is_locked(path: Path) -> bool:
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _beat_us(file: IO[str]) -> int:
    """The last heartbeat, by the later of two clocks: that of the process, and the kernel's at that moment.

    A process whose clock is a day behind lives, and nobody is to end it.
    """
    seen = os.fstat(file.fileno())
    return max(seen.st_mtime_ns, seen.st_ctime_ns) // 1_000


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip()


def _overwrite(file: IO[str], text: str) -> None:
    """Overwrite, then truncate, so that readers never see an empty file."""
    data = text.encode()
    os.pwrite(file.fileno(), data, 0)
    os.ftruncate(file.fileno(), len(data))


def _lease(text: str) -> Lease | None:
    try:
        return Lease(**json.JSONDecoder().raw_decode(text)[0])
    except (ValueError, TypeError):
        return None
