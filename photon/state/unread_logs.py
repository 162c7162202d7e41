"""Which files of a datacenter's logs are not read, and of which of them a person has said so.

What people acknowledge lies beside the state, which its dispatcher alone writes, and belongs to no epoch: a
new one meets the same files. One that has changed since is another file, and holds back again (protocol D11).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from photon.logs.files import Side
from photon.logs.tailing.tail import LogTail
from photon.logs.unread_files import Identity, UnreadFile, follow
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Log
from photon.state.view import StateView
from photon.storage.sync import in_place_of

ACKNOWLEDGED_FILES = "acknowledged_files.json"


def acknowledged_files(folder: Path) -> frozenset[Identity]:
    """None where it can't be read: then somebody is asked for once more."""
    try:
        status = (folder / ACKNOWLEDGED_FILES).stat()
    except OSError:
        return frozenset()
    return _acknowledged(folder, (status.st_ino, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=8)  # each look asks, and there may be thousands
def _acknowledged(folder: Path, version: tuple[int, int, int]) -> frozenset[Identity]:
    try:
        stored = json.loads((folder / ACKNOWLEDGED_FILES).read_text())
        return frozenset(
            (str(side), str(path), int(inode), int(size_bytes), int(changed_ns))
            for side, path, inode, size_bytes, changed_ns in stored
        )
    except (OSError, ValueError, TypeError):
        return frozenset()


def acknowledge_files(folder: Path, named: Iterable[UnreadFile], entries: Iterable[UnreadFile]) -> None:
    """Add those that were named; those that have no entry any more go. OSError."""
    there = {one.identity for one in entries}
    known = (acknowledged_files(folder) & there) | {one.identity for one in named}
    with in_place_of(folder / ACKNOWLEDGED_FILES) as unfinished:
        unfinished.write_text(json.dumps(sorted(known)))


def unread_now(pipeline: Pipeline, datacenter: str, view: StateView, now_us: int) -> tuple[UnreadFile, ...]:
    """The files that hold back what they may change: the dispatcher's, after a look of one's own.

    A dispatcher that has stopped says nothing of what came since.
    """
    place, known = (
        pipeline.datacenters[datacenter],
        acknowledged_files(pipeline.datacenters[datacenter].state),
    )
    logs: tuple[tuple[Side, Log], ...] = (("primary", pipeline.primary), ("foreign", pipeline.foreign))
    found: list[UnreadFile] = []
    for side, log in logs:
        before = [one for one in view.unread if one.side == side]
        tail = LogTail(place.logs, side, log, pipeline.limits, pipeline.tailing, unread=before)
        files = {number: one for number, one in view.files.items() if one.file.side == side}
        seen_files = tail.observe(files, max(view.files, default=0) + 1, now_us).seen_files
        found += before if seen_files is None else follow(before, seen_files, now_us)[0]
    return tuple(one for one in found if one.holds(known))
