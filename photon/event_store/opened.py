"""Index segments and log file maps, which never change, stay open in a process between tasks."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyarrow as pa

from photon.event_store.log_files import LogFiles
from photon.event_store.segments import Segment, SegmentDamaged, forget_copy, open_segment
from photon.pipeline.location import Location

_lock = threading.Lock()
_segments: dict[tuple[Location, str], Segment] = {}
_log_files: tuple[Location, LogFiles] | None = None


def open_segments(folder: Location, names: Sequence[str]) -> list[Segment]:
    """These segments, and no others: those that a merge replaced are closed. SegmentDamaged, OSError."""
    keys = [(folder, name) for name in names]
    with _lock:
        for key in _segments.keys() - set(keys):
            del _segments[key]
            forget_copy(*key)
        for key in keys:
            if key not in _segments:
                _segments[key] = open_segment(*key)
        return [_segments[key] for key in keys]


def open_log_files(folder: Location, name: str) -> LogFiles:
    """The log file map of this name. SegmentDamaged, OSError."""
    global _log_files
    with _lock:
        if _log_files is None or _log_files[0] != folder / name:
            try:
                _log_files = folder / name, LogFiles(folder, name)
            except (pa.ArrowInvalid, FileNotFoundError) as error:
                raise SegmentDamaged(f"the map of log files {folder / name} can't be read: {error}") from None
        return _log_files[1]
