"""The service that lands the objects of datacenters, each source on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from photon.landing.marker import ASIDE
from photon.landing.objects.lander import ObjectsLander
from photon.landing.objects.marker import read_marker
from photon.landing.objects.source import ObjectSource, source_of
from photon.landing.partition_file import LandedAlready
from photon.landing.service import LOCK, RETRY_SECONDS, LockReplaced, refuse_network
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock
from photon.process.errors import UserError
from photon.process.operating_system import HeldByAnother, boot_id, held_alone

LOOK_EVERY_SECONDS, LOOK_HERE_EVERY_SECONDS = 10.0, 1.0  # a listing of a bucket costs money
PAUSE_OF_LISTING = 9  # so many times the time of a look: listings take a tenth of it at most

log = logging.getLogger(__name__)


class ObjectsRefused(UserError):
    """A source whose objects can't be listed or read."""


@dataclass(frozen=True)
class ObjectsToLand:
    """A source, the folder for its files, and their ending."""

    name: str
    folder: Path
    ending: str
    connect: Callable[[], ObjectSource]


def ending_of(pipeline: Pipeline, into: str) -> str:
    """How the files of a landed folder end: as the log's pattern does, which the pipeline file checks."""
    log_of = pipeline.primary if pipeline.primary.files.startswith(f"{into}/") else pipeline.foreign
    return log_of.files.rpartition(".")[2]


def objects_of(pipeline: Pipeline, names: Sequence[str]) -> list[ObjectsToLand]:
    """The sources of objects that these datacenters land."""
    found, beside = list[ObjectsToLand](), pipeline.file.parent
    for place in (pipeline.datacenters[name] for name in names):
        for one in place.land:
            if one.objects is not None and isinstance(place.logs, Path):
                connect = partial(source_of, one.objects, place.storage, beside)
                ending = ending_of(pipeline, one.into)
                found.append(ObjectsToLand(one.objects, place.logs / one.into, ending, connect))
    return found


@dataclass
class ObjectsLanding:
    """Lands objects until it is stopped, as `photon.landing.service.Landing` does topics."""

    sources: Sequence[ObjectsToLand]
    clock: Clock
    complete: bool = False
    is_patient: bool = False
    stop_requested: Callable[[], bool] = lambda: False
    stopped: threading.Event = field(default_factory=threading.Event)
    not_landed: list[str] = field(default_factory=list)  # objects that somebody has to acknowledge first
    held: dict[str, str] = field(default_factory=dict)  # sources that wait for another process, and for which

    def run(self) -> None:
        """Land. What ends one source ends all: UserError, OSError."""
        with ThreadPoolExecutor(len(self.sources), "land") as threads:
            for future in [threads.submit(self._land, source) for source in self.sources]:
                future.result()

    def _is_stopped(self) -> bool:
        return self.stopped.is_set() or self.stop_requested()

    def _land(self, source: ObjectsToLand) -> None:
        began_us = self.clock.now_us()
        try:
            refuse_network(source.folder)
            while not self._land_or_wait(source, began_us):
                self.stopped.wait(RETRY_SECONDS)
        except BaseException:
            self.stopped.set()
            raise

    def _land_or_wait(self, source: ObjectsToLand, began_us: int) -> bool:
        """Land until it is over; False if another process lands there."""
        lock = source.folder / ASIDE / LOCK
        try:
            with held_alone(lock):
                self.held.pop(source.name, None)
                self._land_alone(source, lock, lock.stat().st_ino)
        except HeldByAnother as error:
            if self.complete:
                return self._is_landed_by_another(source.folder, began_us)
            says = f"{source.folder}: process {error.process or 'another'} lands into it already: end it"
            if not self.is_patient:
                raise LandedAlready(f"{says}, or name another folder (into:)") from None
            self.held[source.name] = says
            return self._is_stopped()
        return True

    def _land_alone(self, source: ObjectsToLand, lock: Path, inode: int) -> None:
        opened = self._open(source)
        if opened is None:
            return
        connected, opened_lander = opened
        every = LOOK_EVERY_SECONDS if connected.place is None else LOOK_HERE_EVERY_SECONDS
        with closing(opened_lander) as lander:
            while not self._is_stopped():
                if not lock.exists() or lock.stat().st_ino != inode:
                    raise LockReplaced(
                        f"{lock} was removed or replaced while it was held: start landing again"
                    )
                began_us = self.clock.elapsed_us()
                is_done = lander.look(self._is_stopped)
                if self.complete and lander.refusal:
                    raise ObjectsRefused(f"objects {source.name}: {lander.refusal}")
                if self.complete and is_done:
                    break
                took_us = self.clock.elapsed_us() - began_us
                rest_us = (PAUSE_OF_LISTING + 1) * lander.listing_us - took_us
                self.stopped.wait(max(every if is_done else RETRY_SECONDS, rest_us / MICROSECONDS))
            self.not_landed += lander.not_landed

    def _open(self, source: ObjectsToLand) -> tuple[ObjectSource, ObjectsLander] | None:
        """Reach a source and its list, as soon as both are there; None: it is stopped. ObjectsRefused."""
        told = ""
        while not self._is_stopped():
            try:
                connected = source.connect()
                ending = source.ending
                return connected, ObjectsLander(connected, source.folder, ending, self.clock, boot_id())
            except OSError as error:
                if self.complete:
                    raise ObjectsRefused(f"objects {source.name}: {error}") from None
                if told != str(error):
                    log.warning("objects %s: %s; it is tried again", source.name, error)
                told = str(error)
            self.stopped.wait(RETRY_SECONDS)
        return None

    def _is_landed_by_another(self, folder: Path, began_us: int) -> bool:
        """Whether the process that lands the objects has landed what was there at the beginning."""
        marker = read_marker(folder)
        if marker is None or marker.at_end is None or marker.at_end.as_of_us < began_us:
            return self._is_stopped()
        self.not_landed += [one.sentence() for one in marker.failed]
        return True
