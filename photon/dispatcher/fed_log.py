"""A primary log that is fed: its watermark is the completeness of the pipeline before (protocol G6)."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from photon.feed.marker import Marker, read_marker
from photon.feed.step import FeedStopped
from photon.logs.files import TrackedFile
from photon.pipeline.location import Location, S3Folder
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew

S3_PAUSE_US = 10 * MICROSECONDS  # between two reads of a marker there: each is a request that costs money

log = logging.getLogger(__name__)


@dataclass
class FedLog:
    """The marker of a fed folder: read before its files are listed, and believed once they are found."""

    folder: Location
    marker: Marker | None = None  # files that it names are known, those that were there
    _read: tuple[int, Marker] | None = field(default=None, init=False)  # when, and what: to be listed yet
    _read_us: int = field(default=0, init=False)
    _problem: str = field(default="", init=False)

    def read(self, now_us: int) -> None:
        """Read the marker, unless one awaits its listing. One that can't be read changes nothing."""
        pause_us = S3_PAUSE_US if isinstance(self.folder, S3Folder) else 0
        is_awaited = self._read is not None and self._read[0] <= now_us
        if is_awaited or 0 <= now_us - self._read_us < pause_us:
            return
        self._read_us, problem = now_us, ""
        try:
            found = read_marker(self.folder)
            self._read = None if found is None else (now_us, found)
        except (FeedStopped, FormatTooNew, OSError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            log.warning("the primary log is fed, and its marker can't be read: %s", problem)
        self._problem = problem

    def listed(self, at_us: int) -> None:
        """Take note that all files are known that were in the folder at a time."""
        if self._read is not None and self._read[0] <= at_us:
            self.marker, self._read = self._read[1], None


def fed_watermark_us(
    marker: Marker | None,
    files: Collection[TrackedFile],
    now_us: int,
    previous_us: int | None,
    clock_tolerance_us: int,
) -> int | None:
    """The event time up to which the pipeline before calls its rows complete, once these are read.

    It never goes back. While a file that the marker names has unread bytes, or the last one is not known, it
    stays; so does it for a time further ahead of the clock than is tolerated (C6).
    """
    said_us = None if marker is None else marker.release.complete_up_to_us
    if marker is None or said_us is None or said_us > now_us + clock_tolerance_us:
        return previous_us
    named = {PurePosixPath(one.file.path).name: one for one in files}
    if marker.last_file is not None:
        if marker.last_file not in named:
            return previous_us
        if any(one.unread_bytes for name, one in named.items() if name <= marker.last_file):
            return previous_us
    return said_us if previous_us is None else max(said_us, previous_us)
