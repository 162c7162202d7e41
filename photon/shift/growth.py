"""Whether a datacenter has something to do: its log files and its state, looked at without disturbing them.

Cheap enough for a sensor that looks every few seconds at thousands of files: no log file is opened. How a
running dispatcher looks at its files is `photon.logs` and `dispatcher.following`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from photon.clock import MICROSECONDS
from photon.dispatcher.state import STATE_FILE, DispatcherState, StateUnavailable
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


@dataclass(frozen=True)
class _Stored:
    """What the state knows; of a datacenter that never ran, nothing."""

    offsets: Mapping[Side, Mapping[int, TrackedFile]]  # by inode
    due: int = 0
    waiting: int = 0
    watermark_us: int | None = None
    problems: tuple[str, ...] = ()


def growth_of(pipeline: Pipeline, datacenter: str, now_us: int) -> Growth:
    """Look at a datacenter. What can't be read is a problem that is named, not an error."""
    place = pipeline.datacenters[datacenter]
    stored = _stored(pipeline, datacenter, now_us)
    primary, foreign = scan(place.logs, pipeline.primary.files), scan(place.logs, pipeline.foreign.files)
    watermark_us = stored.watermark_us
    return Growth(
        primary=_size(primary, stored.offsets.get("primary", {})),
        foreign=_size(foreign, stored.offsets.get("foreign", {})),
        signature=signature_of((primary, foreign)),
        due=stored.due,
        waiting=stored.waiting,
        watermark_us=watermark_us,
        lag_seconds=None if watermark_us is None else (now_us - watermark_us) / MICROSECONDS,
        problems=tuple(
            dict.fromkeys(
                [*stored.problems, *(f"{p.path}: {p.reason}" for p in primary.problems + foreign.problems)]
            )
        ),
    )


def _stored(pipeline: Pipeline, datacenter: str, now_us: int) -> _Stored:
    folder = pipeline.datacenters[datacenter].state
    if not (folder / STATE_FILE).exists():
        return _Stored({})
    try:
        state = DispatcherState(folder, read_only=True)
    except (FormatTooNew, StateUnavailable) as error:
        return _Stored({}, problems=(str(error),))
    try:
        if state.epoch is None:  # it is just being started
            return _Stored({})
        offsets: dict[Side, dict[int, TrackedFile]] = {"primary": {}, "foreign": {}}
        for tracked in state.files().values():
            if tracked.state == "open":
                offsets[tracked.file.side][tracked.file.inode] = tracked
        due = state.count_due(now_us) + state.count_requeued() + (state.open_plan() is not None)
        return _Stored(offsets, due, state.counts().of("pending"), state.watermark_us)
    except sqlite3.Error as error:
        return _Stored({}, problems=(f"cannot read the state {state.path}: {error}",))
    finally:
        state.close()


def _size(found: Scan, offsets: Mapping[int, TrackedFile]) -> LogSize:
    files = found.files
    unread_bytes = sum(_unread_bytes(file, offsets.get(file.inode)) for file in files)
    return LogSize(len(files), sum(file.size_bytes for file in files), unread_bytes)


def _unread_bytes(found: FoundFile, tracked: TrackedFile | None) -> int:
    if tracked is None:
        return found.size_bytes
    if found.compressed or tracked.file.compressed:
        return 0 if tracked.offset_bytes >= tracked.size_bytes else found.size_bytes
    return max(0, found.size_bytes - tracked.offset_bytes)
