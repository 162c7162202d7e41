"""Objects that are landed, each source by a lander of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from photon.landing.marker import has_begun
from photon.landing.objects.lander import ObjectsLander
from photon.landing.objects.marker import read_marker
from photon.landing.objects.source import ObjectSource, source_of
from photon.landing.service import RETRY_SECONDS, CheckLock, Landing
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.process.errors import UserError
from photon.process.operating_system import boot_id

LOOK_EVERY_SECONDS, LOOK_HERE_EVERY_SECONDS = 10.0, 1.0  # a listing of a bucket costs money
MOST_RETRY_SECONDS = 30.0  # between looks that land nothing, as where an archive fills the disk


class ObjectsRefused(UserError):
    """A source whose objects can't be listed or read."""


@dataclass(frozen=True)
class ObjectsToLand:
    """A source, the folder for its files, and their ending. See `photon.landing.service.ToLand`."""

    name: str
    folder: Path
    ending: str
    connect: Callable[[], ObjectSource]

    def land(self, landing: Landing, check_lock: CheckLock) -> None:
        """Look again and again, as often as the listings' cost allows. ObjectsRefused with `complete`."""
        opened = self._open(landing)
        if opened is None:
            return
        connected, opened_lander = opened
        every = LOOK_EVERY_SECONDS if connected.place is None else LOOK_HERE_EVERY_SECONDS
        retry_seconds = RETRY_SECONDS
        with closing(opened_lander) as lander:
            while not landing.is_stopped():
                check_lock()
                landed = lander.landed
                is_done = lander.look(landing.is_stopped)
                if landing.complete and lander.refusal:
                    raise ObjectsRefused(f"objects {self.name}: {lander.refusal}")
                if landing.complete and is_done:
                    break
                is_stuck = not is_done and lander.landed == landed
                retry_seconds = min(2 * retry_seconds, MOST_RETRY_SECONDS) if is_stuck else RETRY_SECONDS
                landing.pause(max(every if is_done else retry_seconds, lander.rest_us / MICROSECONDS))
            landing.not_landed += lander.not_landed

    def _open(self, landing: Landing) -> tuple[ObjectSource, ObjectsLander] | None:
        """Reach the source and its list, as soon as both are there; None: it is stopped. ObjectsRefused."""
        landing.waits.pop(self.folder, None)
        while not landing.is_stopped():
            try:
                source = self.connect()
                has_begun(self.folder)
                return source, ObjectsLander(source, self.folder, self.ending, landing.clock, boot_id())
            except OSError as error:
                if landing.complete:
                    raise ObjectsRefused(f"objects {self.name}: {error}") from None
                landing.tell_waiting(self, "objects", str(error))
            landing.stopped.wait(RETRY_SECONDS)
        return None

    def is_landed_by_another(self, landing: Landing) -> bool:
        """By the marker, which says as of which listing nothing was left."""
        marker = read_marker(self.folder)
        if marker is None or marker.at_end is None or marker.at_end.as_of_us < landing.began_us:
            return False
        landing.not_landed += [one.sentence() for one in marker.failed]
        return True


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
