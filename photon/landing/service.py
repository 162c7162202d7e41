"""The service that lands sources, each on a thread of its own into a folder that one process has (K2).

A source, one of `topics` or of `objects.to_land`, says how it is landed while this process has its folder,
and whether another process that has it is done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from photon.landing.marker import ASIDE, put_waiting
from photon.landing.partition_file import LandedAlready
from photon.landing.topic import TopicRefused
from photon.process.clock import Clock, SystemClock
from photon.process.errors import UserError
from photon.process.mounts import file_system_of, is_of_network, mounts_here
from photon.process.operating_system import HeldByAnother, held_alone

RETRY_SECONDS = 1.0  # between two attempts to begin
LOCK = "lock"

log = logging.getLogger(__name__)

CheckLock = Callable[[], None]  # LockReplaced


class LockReplaced(UserError):
    """Somebody has removed or replaced the lock of a landed folder."""


class ToLand(Protocol):
    """A source that is landed into a folder."""

    @property
    def name(self) -> str:
        """The name of the topic, or of the objects, as the pipeline file has it."""
        ...

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        ...

    def land(self, landing: Landing, check_lock: CheckLock) -> None:
        """Land until `landing` is over. UserError, OSError; LockReplaced, by asking `check_lock` often."""
        ...

    def is_landed_by_another(self, landing: Landing) -> bool:
        """Whether another process has landed all that was there when `landing` began. UserError, OSError."""
        ...


@dataclass
class Landing:
    """Lands sources until it is stopped; with `complete` until all that is there now is landed.

    `is_patient`: it waits for a folder into which another process lands, and then goes on there.
    """

    sources: Sequence[ToLand]
    complete: bool = False
    stop_requested: Callable[[], bool] = lambda: False
    is_patient: bool = False
    clock: Clock = field(default_factory=SystemClock)
    stopped: threading.Event = field(default_factory=threading.Event)
    not_landed: list[str] = field(default_factory=list)  # what somebody has to acknowledge first
    held: dict[str, str] = field(default_factory=dict)  # sources that wait for another process, and for which
    waits: dict[Path, str] = field(default_factory=dict)  # folders, and why landing into them can't begin
    began_us: int = field(init=False)

    def __post_init__(self) -> None:
        self.began_us = self.clock.now_us()

    def run(self) -> list[str]:
        """Land; what is not landed until somebody acknowledges it.

        An error of one source ends all: UserError, OSError.
        """
        with ThreadPoolExecutor(max(1, len(self.sources)), "land") as threads:
            for future in [threads.submit(self._land, source) for source in self.sources]:
                future.result()
        return self.not_landed

    def is_stopped(self) -> bool:
        """Whether it is to end, however far it is."""
        return self.stopped.is_set() or self.stop_requested()

    def pause(self, seconds: float) -> None:
        """Wait, but end within a second of being stopped, as a signal does without a word."""
        while seconds > 0 and not self.is_stopped():
            self.stopped.wait(min(seconds, RETRY_SECONDS))
            seconds -= RETRY_SECONDS

    def tell_waiting(self, source: ToLand, kind: str, why: str) -> None:
        """Say why a source can't be begun: to status each time, to the log once."""
        if self.waits.get(source.folder) != why:
            log.warning("%s %s: %s; it is tried again", kind, source.name, why)
        self.waits[source.folder] = why
        put_waiting(source.folder, why, self.clock.now_us())

    def _land(self, source: ToLand) -> None:
        try:
            refuse_network(source.folder)
            while not self._land_or_wait(source):
                self.stopped.wait(RETRY_SECONDS)
        except BaseException:
            self.stopped.set()
            raise

    def _land_or_wait(self, source: ToLand) -> bool:
        """Land until it is over; False if another process lands there."""
        try:
            with _locked(source.folder) as check_lock:
                self.held.pop(source.name, None)
                source.land(self, check_lock)
        except HeldByAnother as error:
            if self.complete:
                return source.is_landed_by_another(self) or self.is_stopped()
            says = f"{source.folder}: process {error.process or 'another'} lands into it already: end it"
            if not self.is_patient:
                raise LandedAlready(f"{says}, or name another folder (into:)") from None
            self.held[source.name] = says
            return self.is_stopped()
        return True


@contextmanager
def _locked(folder: Path) -> Iterator[CheckLock]:
    """Have a folder's lock, and something that tells whether it still is the folder's. HeldByAnother."""
    lock = folder / ASIDE / LOCK
    with held_alone(lock):
        inode = lock.stat().st_ino

        def check() -> None:
            if not lock.exists() or lock.stat().st_ino != inode:
                raise LockReplaced(f"{lock} was removed or replaced while it was held: start landing again")

        yield check


def refuse_network(folder: Path) -> None:
    """Over a network file system neither locks nor appending hold. TopicRefused."""
    kind = file_system_of(folder.resolve(), mounts_here())
    if is_of_network(kind):
        raise TopicRefused(
            f"{folder} is on a network file system ({kind}): expected a disk of this machine, "
            "where one process can append alone"
        )
