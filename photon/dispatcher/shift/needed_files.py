"""The log files that waiting records are in, and those with their primaries, whatever clocks say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from photon.event_store.interface import index_folder
from photon.event_store.segments import SegmentDamaged, open_segment
from photon.logs.files import TrackedFile
from photon.state.database import StateReader


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
    hashes = state.waiting.key_hashes()
    for info in state.segments():
        segment = open_segment(folder, info.name)
        rows, _ = segment.find(hashes)
        found.update(np.unique(segment.places.files[rows]).tolist())
    return found
