"""Logs that are landed: the silence of a file says nothing, the marker of its folder does.

Protocol K7, K10.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from photon.landing.marker import Landed, Marker, read_marker, read_or_why
from photon.landing.objects.marker import ObjectsMarker
from photon.landing.objects.marker import read_marker as read_objects_marker
from photon.logs.files import LogFile, Side, TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, SystemClock, microseconds
from photon.process.operating_system import boot_id

BELIEVED_US = 10 * MICROSECONDS  # so long what a marker says of a partition's end is believed
OBJECTS_BELIEVED_US = 600 * MICROSECONDS  # the same of objects: to list a bucket may take minutes
NO_FILE = TrackedFile(LogFile(0, "foreign", "", 0, False, b"", 0, 0, b""), 0, b"", False, 0, 0, None)
HOLDING = replace(NO_FILE, size_bytes=1)  # unread bytes without a time hold a log where it is

_M = TypeVar("_M", Marker, ObjectsMarker)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by both clocks."""

    now_us: int
    elapsed_us: int  # by the clock that nobody sets, which begins with `boot`
    boot: str


@dataclass
class LandedLogs:
    """The markers of a datacenter's landed folders, each read before its files are listed."""

    logs: Path
    folders: dict[str, Side]  # below the logs folder
    idle_after_us: int
    clock: Clock = field(default_factory=SystemClock)
    boot: str = field(default_factory=boot_id)
    objects: dict[str, str] = field(default_factory=dict)  # the sources of those folders that have objects
    _markers: dict[str, Marker | None] = field(default_factory=dict, init=False)
    # Each marker as it was before the files were listed, and as it was afterwards.
    _of_objects: dict[str, tuple[ObjectsMarker | None, ObjectsMarker | None]] = field(
        default_factory=dict, init=False
    )
    _problems: dict[str, str] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, pipeline: Pipeline, datacenter: str) -> LandedLogs:
        """The landed folders of a datacenter, if it has any."""
        place, folders = pipeline.datacenters[datacenter], dict[str, Side]()
        for one in place.land:
            is_primary = pipeline.primary.files.startswith(f"{one.into}/")
            folders[one.into] = "primary" if is_primary else "foreign"
        logs = place.logs if isinstance(place.logs, Path) else Path()
        objects = {one.into: one.objects for one in place.land if one.objects is not None}
        return cls(logs, folders, microseconds(pipeline.tailing.idle_after), objects=objects)

    def read(self) -> None:
        """Read each marker anew, before the files are listed."""
        for into in self.folders:
            if into in self.objects:
                self._of_objects[into] = self._read(read_objects_marker, into), None
            else:
                self._markers[into] = self._read(read_marker, into)

    def read_again(self) -> None:
        """Read the markers of objects once more, now that the files are listed."""
        for into in self.objects:
            before, _ = self._of_objects[into]
            self._of_objects[into] = before, self._read(read_objects_marker, into)

    def _read(self, read_one: Callable[[Path], _M | None], into: str) -> _M | None:
        """A marker. One that can't be read says nothing: its log stays where it is."""
        marker, problem = read_or_why(read_one, self.logs / into)
        if problem and problem != self._problems.get(into):
            log.warning("a landed log's marker can't be read: %s", problem)
        self._problems[into] = problem
        return marker

    def awaited(self, side: Side, files: list[TrackedFile], now_us: int) -> list[TrackedFile]:
        """The files of a log as far as more is awaited in them, with what stands for what is in no file."""
        moment = Moment(now_us, self.clock.elapsed_us(), self.boot)
        for into in (into for into, of_side in self.folders.items() if of_side == side):
            inside = [one for one in files if one.file.path.startswith(f"{into}/")]
            others = [one for one in files if not one.file.path.startswith(f"{into}/")]
            if into in self.objects:
                before, after = self._of_objects.get(into, (None, None))
                landed = awaited_of_objects(
                    before, after, self.objects[into], inside, moment, self.idle_after_us
                )
            else:
                landed = awaited_of_landed(self._markers.get(into), into, inside, moment, self.idle_after_us)
            files = [*others, *landed]
        return files


def awaited_of_landed(
    marker: Marker | None, into: str, files: Collection[TrackedFile], moment: Moment, idle_after_us: int
) -> Iterator[TrackedFile]:
    """The files of one landed folder, as far as more is awaited in them.

    A partition that has been quiet for long is read up to the moment as of which it was at its end. Each
    other one is read up to the latest time in its file, and holds the log if it has no file with a time.
    """
    known = {tracked.file.path: tracked for tracked in files}
    current = set[str]()
    if marker is None:
        yield HOLDING
        return
    for landed in marker.partitions.values():
        path = None if landed.file is None else f"{into}/{landed.file}"
        tracked = None if path is None else known.get(path)
        current |= {path} if path is not None else set()
        if is_quiet(marker, landed, moment, idle_after_us) and _is_read(landed, tracked):
            assert landed.at_end is not None, "a quiet partition is at its end"
            own_us = None if tracked is None else tracked.max_time_us
            latest_us = max(landed.at_end.as_of_us, own_us or landed.at_end.as_of_us)
            yield replace(NO_FILE, grown_us=moment.now_us, max_time_us=latest_us)
        elif tracked is None or tracked.max_time_us is None:
            yield HOLDING
        else:
            yield replace(tracked, grown_us=moment.now_us)
    yield from (tracked for path, tracked in known.items() if path not in current)


def is_quiet(marker: Marker, landed: Landed, moment: Moment, idle_after_us: int) -> bool:
    """Whether a partition is known to be at its end now, and to have been for long."""
    at_end = landed.at_end
    if at_end is None or marker.boot != moment.boot or at_end.as_of_us > moment.now_us:
        return False
    is_fresh = 0 <= moment.elapsed_us - at_end.as_of_elapsed_us <= BELIEVED_US
    return is_fresh and at_end.quiet_us >= idle_after_us


def _is_read(landed: Landed, tracked: TrackedFile | None) -> bool:
    """Whether all that the marker says of a file is read."""
    if landed.file is None:
        return True
    return tracked is not None and not tracked.unread_bytes and tracked.offset_bytes >= landed.file_bytes


def awaited_of_objects(
    before: ObjectsMarker | None,
    after: ObjectsMarker | None,
    objects: str,
    files: Collection[TrackedFile],
    moment: Moment,
    idle_after_us: int,
) -> Iterator[TrackedFile]:
    """The files of a landed folder, as far as more is awaited in them.

    `before`, `after`: the marker, read before the files were listed and afterwards. While an object waits,
    the log stays where it is. Where none has come for long, it is read up to when objects were listed; else
    up to the latest time in files that were landed last.
    """
    if after is None or not _is_all_landed(before, after, objects, moment):
        yield HOLDING
        return
    assert after.at_end is not None, "what is landed whole is at its end"
    times_us = [one.max_time_us for one in files if one.max_time_us is not None]
    if after.at_end.quiet_us < idle_after_us or any(one.unread_bytes for one in files if one.state == "open"):
        yield from files
        if times_us:  # a silence of the files alone says nothing
            yield replace(NO_FILE, grown_us=moment.now_us, max_time_us=max(times_us))
        else:
            yield HOLDING
        return
    as_of_us = after.at_end.as_of_us
    yield replace(NO_FILE, grown_us=moment.now_us, max_time_us=max([as_of_us, *times_us]))


def _is_all_landed(before: ObjectsMarker | None, after: ObjectsMarker, objects: str, moment: Moment) -> bool:
    """Whether all objects that were listed have files, and those were there when the files were listed."""
    end = after.at_end
    if before is None or end is None or before.look != after.look:
        return False
    if before.waiting or after.waiting or after.failed_count or after.objects != objects:
        return False
    is_fresh = 0 <= moment.elapsed_us - end.as_of_elapsed_us <= OBJECTS_BELIEVED_US
    return after.boot == moment.boot and end.as_of_us <= moment.now_us and is_fresh
