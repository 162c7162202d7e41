"""What a process keeps open between tasks: index segments and log file maps, which never change."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from photon.event_store.log_files import SUFFIX, LogFiles
from photon.event_store.segments import Segment, SegmentDamaged, segment_path

_lock = threading.Lock()
_segments: dict[Path, Segment] = {}
_log_files: tuple[Path, LogFiles] | None = None


def open_segments(folder: Path, names: Sequence[str]) -> list[Segment]:
    """These segments, and no others: those that a merge replaced are closed. SegmentDamaged, OSError."""
    paths = [segment_path(folder, name) for name in names]
    with _lock:
        for path in _segments.keys() - set(paths):
            del _segments[path]
        for path in paths:
            if path not in _segments:
                _segments[path] = Segment(path)
        return [_segments[path] for path in paths]


def open_log_files(folder: Path, name: str) -> LogFiles:
    """The log file map of this name. SegmentDamaged, OSError."""
    global _log_files
    path = folder / (name + SUFFIX)
    with _lock:
        if _log_files is None or _log_files[0] != path:
            try:
                _log_files = path, LogFiles(path)
            except pa.ArrowInvalid as error:
                raise SegmentDamaged(f"{path} can't be read: {error}") from None
        return _log_files[1]
