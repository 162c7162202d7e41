"""Tell which log files joins need no more. Waiting records keep their files, whatever clocks say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from photon.event_store.interface import index_folder
from photon.event_store.segments import SegmentDamaged, open_segment
from photon.logs.files import TrackedFile
from photon.logs.unread_files import UnreadFile
from photon.state.completeness.estimate import Completeness
from photon.state.database import StateReader
from photon.state.plan import PlanContent


@dataclass(frozen=True)
class LookedForUnmatched:
    """How far primaries were looked at that nothing may have joined: by a release, and by the last run.

    `positions`: how far that run has read the owner's files; None: they are another datacenter's, and all
    that had come to the owner by `read_us` is read.
    """

    up_to_us: int | None = None
    positions: Mapping[int, int] | None = None
    read_us: int | None = None

    def has_seen(self, tracked: TrackedFile, grown_us: int, idle_us: int) -> bool:
        """Whether each primary of a file, up to its latest event, is matched or has a row (U8).

        Once a file has not grown for `idle_us` its copy at the owner is as long.
        """
        if tracked.file.side != "primary" or tracked.max_time_us is None:
            return True
        if self.up_to_us is None or _latest_us(tracked.max_time_us, grown_us) >= self.up_to_us:
            return False
        if self.positions is None:
            return self.read_us is not None and grown_us + idle_us <= self.read_us
        return self.positions.get(tracked.file.number, 0) >= tracked.offset_bytes


def files_of(contents: Iterable[PlanContent]) -> set[int]:
    """The numbers of the files that plans are still to read."""
    return {part.file_number for content in contents for part in (*content.primary, *content.foreign)}


def deletable(
    files: Iterable[TrackedFile],
    needed: Collection[int],
    said: Completeness | None,
    now_us: int,
    idle_us: int,
    looked: LookedForUnmatched | None = None,
    unread: Collection[UnreadFile] = (),
) -> Sequence[TrackedFile]:
    """The files that are read to their ends, have not grown for `idle_us`, and whose time is complete.

    Not those that are `needed`, by number: of an open or requeued plan, with a waiting record or the primary
    of one. That is known, whatever the clocks say. `said`: of this epoch; without it nothing is. `looked`:
    None: nobody looks for unmatched primaries. While files of either log are `unread`, none is: what is in
    them may need any other.
    """
    if unread:
        return []
    return [
        tracked
        for tracked in files
        if tracked.state == "open"
        and tracked.file.number not in needed
        and not tracked.unread_bytes
        and now_us - (grown_us := _last_grown_us(tracked, now_us)) >= idle_us
        and said is not None
        and _is_complete(tracked, said, grown_us)
        and (looked is None or looked.has_seen(tracked, grown_us, idle_us))
    ]


def _last_grown_us(tracked: TrackedFile, now_us: int) -> int:
    """When the file grew: as it was seen, or as its store says if that is later. One clock may be wrong.

    What the store says of a time that is yet to come says nothing.
    """
    modified_us = tracked.modified_ns // 1_000
    return max(tracked.grown_us, modified_us) if modified_us <= now_us else tracked.grown_us


def _latest_us(max_time_us: int, grown_us: int) -> int:
    """The latest event of a file: no line is written before it, so a wild time keeps no file for ever."""
    return min(max_time_us, grown_us)


def _is_complete(tracked: TrackedFile, said: Completeness, grown_us: int) -> bool:
    """Whether rows are complete up to the latest event of a file; one without any holds nobody back."""
    if tracked.max_time_us is None:
        return True
    if said.complete_up_to_us is None:
        return False
    latest_us = _latest_us(tracked.max_time_us, grown_us)
    nothing_waits = said.complete_up_to_us == said.read_up_to_us and not said.waiting
    return latest_us < said.complete_up_to_us or (nothing_waits and latest_us == said.read_up_to_us)


def needed_by_waiting(state: StateReader, files: Iterable[TrackedFile]) -> set[int]:
    """The numbers of the files that hold a waiting record or, by the index, the primary of one.

    Where the index can't be asked here, it may be any primary file: it has to be made again from the logs, is
    merged just now, or lies on S3, from where a look would fetch all of it. WaitingDamaged, OSError.
    """
    in_foreign = set(state.waiting.by_file())
    primary = {each.file.number for each in files if each.file.side == "primary"}
    if state.index_lost:
        return in_foreign | primary
    if not in_foreign:
        return in_foreign
    try:
        return in_foreign | _with_primaries(state)
    except (SegmentDamaged, FileNotFoundError):
        return in_foreign | primary


def _with_primaries(state: StateReader) -> set[int]:
    """The primary files with an event that a waiting record may belong to. SegmentDamaged, OSError."""
    folder, found = index_folder(state.work), set[int]()
    if not isinstance(folder, Path):
        raise SegmentDamaged(f"{folder} is not on this machine")
    hashes = np.unique(state.waiting.key_hashes())
    for info in state.segments():
        segment = open_segment(folder, info.name)
        rows, _ = segment.find(hashes)
        found.update(np.unique(segment.places.files[rows]).tolist())
    return found
