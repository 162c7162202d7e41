"""Log files that were cut short in their place: what was digested of them is not all there any more."""

from __future__ import annotations

from collections.abc import Mapping

from photon.logs.files import TrackedFile
from photon.logs.folders import LogFolder, log_folder
from photon.logs.source import UNREADABLE, has_head
from photon.pipeline.location import Location


def cut_short(files: Mapping[int, TrackedFile], logs: Location) -> frozenset[int]:
    """The files that are replaced by the same log, which begins as they did; by number.

    What is left of such a file is read again under another number. A log that was truncated because a
    rotation has copied it elsewhere begins otherwise: what was read of it counts on.
    """
    in_place = {tracked.file.path: tracked for tracked in files.values() if tracked.state == "open"}
    return frozenset(
        number
        for number, tracked in files.items()
        if tracked.state == "replaced"
        and tracked.file.path in in_place
        and _begins_alike(tracked, in_place[tracked.file.path], log_folder(logs))
    )


def _begins_alike(before: TrackedFile, now: TrackedFile, logs: LogFolder) -> bool:
    """Whether a log begins as the file before it in its place; also if too little is left of it to tell."""
    file = before.file
    if now.size_bytes < file.header_bytes + file.head_bytes:
        return True
    try:
        with logs.open_at(now.file.path, now.file) as source:
            return has_head(source, file)
    except UNREADABLE:
        return False
