"""Where a lander goes on in each partition: decided from the marker and the files (protocol K4). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from photon.landing.marker import Landed, LastLine
from photon.landing.partition_file import FileName


@dataclass(frozen=True, slots=True)
class FilesThere:
    """The files of a partition, in the order in which they were begun, and the size of the marked one."""

    names: Sequence[FileName]
    marked_bytes: int | None  # None: the marker names none, or it is not there


@dataclass(frozen=True, slots=True)
class Begin:
    """Where one partition goes on. `offset` None: at the first message that the broker has."""

    offset: int | None
    leader_epoch: int | None = None
    file: FileName | None = None  # None: a new one, once there is a line
    compare_from_bytes: int = 0  # lines may lie in the file from there on
    overlap: LastLine | None = None  # the first message is to be this line
    is_removed: bool = False  # the marked file is not there: all of it is landed again, if the broker has it


def begin_of(landed: Landed | None, there: FilesThere, topic_id: str, is_first_start: bool) -> Begin:
    """Where a partition of this topic goes on. `landed`: what the marker says of it.

    `is_first_start`: no marker is there; else a partition that it lacks is new, and begins at 0.
    """
    own = [name for name in there.names if name.topic_id == topic_id]
    if landed is None:
        if own:  # the marker is lost: all of the newest file is compared
            return Begin(own[-1].first_offset, None, own[-1])
        return Begin(None if is_first_start else 0)
    if landed.file is None:
        later = [name for name in own if name.first_offset >= landed.read_offset]
        if later:  # begun since the marker was put
            return Begin(later[0].first_offset, None, later[0])
        return Begin(landed.read_offset, landed.leader_epoch)
    marked = FileName.of(landed.file)
    if there.marked_bytes is None:
        return Begin(marked.first_offset, is_removed=True)
    if there.marked_bytes < landed.file_bytes or landed.last is None:  # cut, or an older copy was put back
        return Begin(marked.first_offset, None, marked, is_removed=True)
    last = landed.last
    return Begin(last.offset, None, marked, last.at_bytes, last)
