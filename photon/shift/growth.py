"""Whether a datacenter has something to do, seen from its log files and its state.

Cheap enough for a sensor that looks every few seconds at thousands of files: opens no log file.
"""

from __future__ import annotations

from dataclasses import dataclass

from photon.clock import MICROSECONDS
from photon.dispatcher.state import StateUnavailable
from photon.dispatcher.state_view import StateView, open_view
from photon.errors import FormatTooNew
from photon.logs.discovery import FoundFile, Scan, scan, signature_of
from photon.logs.files import Side, TrackedFile
from photon.pipeline.file import Pipeline


@dataclass(frozen=True)
class LogSize:
    """One log as it lies there; of compressed files, the compressed bytes."""

    files: int
    bytes: int
    unread_bytes: int  # committed offsets against sizes


@dataclass(frozen=True)
class Growth:
    """What a look at a datacenter found."""

    primary: LogSize
    foreign: LogSize
    signature: str  # of all log files: where it is the same, nothing has changed
    due: int  # waiting records that are due now, and work to be taken up again
    waiting: int
    watermark_us: int | None
    lag_seconds: float | None  # now minus the watermark
    problems: tuple[str, ...]

    @property
    def files(self) -> int:
        """Log files of both kinds."""
        return self.primary.files + self.foreign.files


def growth_of(pipeline: Pipeline, datacenter: str, now_us: int) -> Growth:
    """Look at a datacenter. What can't be read is a problem that is named, not an error."""
    place = pipeline.datacenters[datacenter]
    problems: list[str] = []
    try:
        with open_view(place.state) as state:
            view = StateView.of(state, now_us)
    except (FormatTooNew, StateUnavailable) as error:
        view = StateView()
        problems.append(str(error))
    primary, foreign = scan(place.logs, pipeline.primary.files), scan(place.logs, pipeline.foreign.files)
    problems += [f"{problem.path}: {problem.reason}" for problem in primary.problems + foreign.problems]
    lag_us = None if view.watermark_us is None else now_us - view.watermark_us
    return Growth(
        primary=_size(primary, view, "primary"),
        foreign=_size(foreign, view, "foreign"),
        signature=signature_of((primary, foreign)),
        due=view.due + view.requeued + view.has_open_plan,
        waiting=view.counts.of("pending"),
        watermark_us=view.watermark_us,
        lag_seconds=None if lag_us is None else lag_us / MICROSECONDS,
        problems=tuple(dict.fromkeys(problems)),
    )


def _size(found: Scan, view: StateView, side: Side) -> LogSize:
    known = [tracked for tracked in view.files.values() if tracked.file.side == side]
    by_inode = {tracked.file.inode: tracked for tracked in known if tracked.state == "open"}
    return LogSize(
        files=len(found.files),
        bytes=sum(file.size_bytes for file in found.files),
        unread_bytes=sum(_unread_bytes(file, by_inode.get(file.inode)) for file in found.files),
    )


def _unread_bytes(found: FoundFile, tracked: TrackedFile | None) -> int:
    if tracked is None:
        return found.size_bytes
    if found.compressed or tracked.file.compressed:
        return 0 if tracked.offset_bytes >= tracked.size_bytes else found.size_bytes
    return max(0, found.size_bytes - tracked.offset_bytes)
