"""One partition while it is landed: its file, how far it is read, and whether it is at its end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from photon.landing.beginning import Begin
from photon.landing.lines import Line, line_of
from photon.landing.marker import AtEnd, Landed, LastLine
from photon.landing.partition_file import FileName, FileReplaced, PartitionFile, end_last_line, files_of
from photon.landing.topic import Message, Offsets

Taken = Literal["messages", "odd", "tombstones"]  # as the marker counts them

FILE_BYTES = 2**28  # a longer file is ended and a new one begun, so that what joins have read can be deleted
# 300 files took 0.2 to 1.2 s one after the other, and 0.05 s by 16: the file system makes one commit of them.
FEW_FILES, SYNCS_AT_ONCE = 8, 16

log = logging.getLogger(__name__)


class OtherContent(Exception):
    """The broker has another message where the last line is from."""


@dataclass
class Partition:
    """One partition, as its lander knows it. Only the lander's thread uses it."""

    number: int
    folder: Path
    topic_id: str
    next_offset: int  # all before it is looked through
    read_offset: int  # behind the last message
    leader_epoch: int | None = None
    file: PartitionFile | None = None
    last: LastLine | None = None
    overlap: LastLine | None = None  # the first message is to be this line
    marked_bytes: int = 0  # of the file, where lines are compared behind the overlap
    stopped_by: str | None = None
    is_unreadable: bool = False  # the topic gives nothing of it until it is read from somewhere again
    diverges_at: int | None = None
    end: Offsets | None = None
    at_end: AtEnd | None = None
    reached_us: int | None = None
    asked_next: int = 0  # `next_offset` when the broker was asked last
    sure_next: int = 0  # the same of the last answer that knew the topic
    _quiet_since_us: int | None = None  # by the clock that nobody sets

    @classmethod
    def begin(
        cls, number: int, folder: Path, topic_id: str, where: Begin, first_offset: int, landed: Landed | None
    ) -> Partition:
        """Go on as decided. `first_offset`: of the broker's first message. LandedAlready, OSError."""
        offset = first_offset if where.offset is None else where.offset
        partition = cls(number, folder, topic_id, offset, offset, where.leader_epoch, overlap=where.overlap)
        if where.overlap is not None and landed is not None:
            partition.next_offset, partition.read_offset = landed.next_offset, landed.read_offset
            partition.leader_epoch, partition.marked_bytes = landed.leader_epoch, landed.file_bytes
            partition.last, partition.reached_us = landed.last, landed.reached_us
        elif landed is not None and where.offset == landed.read_offset:
            partition.next_offset, partition.reached_us = landed.next_offset, landed.reached_us
        partition.sure_next = partition.asked_next = partition.next_offset
        for other in files_of(folder, number):
            if where.file != other:
                end_last_line(folder / str(other))
        if where.file is not None:
            partition.file = PartitionFile(folder, where.file, where.compare_from_bytes)
        return partition

    @property
    def reads_from(self) -> tuple[int, int | None]:
        """Where to read from: an offset, and the epoch of the last message, where it is known."""
        return (self.read_offset if self.overlap is None else self.overlap.offset), self.leader_epoch

    # -- messages

    def take(self, message: Message) -> Taken | None:
        """Add the message's line; None: it was landed before, or the partition stands still.

        OtherContent, LandedAlready, OSError.
        """
        if self.stopped_by is not None or self.is_unreadable:
            return None
        if self.overlap is not None and self._is_overlap(message):
            return None
        if message.offset < self.next_offset:
            return None
        taken = "tombstones" if message.value is None else self._add(line_of(message.value), message.offset)
        self.next_offset = self.read_offset = message.offset + 1
        self.leader_epoch = message.leader_epoch
        self._quiet_since_us = self.at_end = None
        return taken

    def _is_overlap(self, message: Message) -> bool:
        """Whether the message is the last line again; a later one says that the broker has it no more."""
        overlap, self.overlap = self.overlap, None
        assert self.file is not None, "a last line is in a file"
        assert overlap is not None, "somebody has asked"
        if message.offset == overlap.offset:
            line = b"" if message.value is None else line_of(message.value).text
            if not self.file.has_next(line):
                raise OtherContent
        self.file.compare_from(self.marked_bytes)
        # Behind the last line there were no lines: what has one now is of another leader.
        is_again = message.offset == overlap.offset
        self.next_offset = min(self.next_offset, message.offset + is_again)
        return is_again

    def _add(self, line: Line, offset: int) -> Taken:
        if self.file is None:
            number = max((name.number for name in files_of(self.folder, self.number)), default=0) + 1
            self.file = PartitionFile(self.folder, FileName(self.number, number, offset, self.topic_id))
        self.last = LastLine(offset, self.file.add(line.text))
        return "odd" if line.is_odd else "messages"

    def read_up_to(self, offset: int) -> None:
        """Take note that no message is before an offset: the marks of transactions may be."""
        if self.stopped_by is None and not self.is_unreadable and self.overlap is None:
            self.next_offset = max(self.next_offset, offset)

    def unreadable(self, diverges_at: int | None) -> None:
        """Take note that nothing more is given."""
        self.is_unreadable, self.diverges_at, self.at_end = True, diverges_at, None

    def read_again(self) -> None:
        """Read on without the last line, which the broker does not have any more."""
        self.is_unreadable = False
        if self.overlap is not None and self.file is not None:
            self.file.compare_from(self.marked_bytes)
        self.overlap = None

    # -- answers

    def answered(self, as_of_us: int, as_of_elapsed_us: int, offsets: Offsets) -> None:
        """Take in which offsets the partition had, asked after these times (protocol K6)."""
        self.end, self.sure_next = offsets, self.asked_next
        is_read = self.stopped_by is None and not self.is_unreadable and self.overlap is None
        if not (is_read and self.asked_next <= offsets.end <= self.next_offset):
            self.at_end = self._quiet_since_us = None
            return
        if self._quiet_since_us is None:
            self._quiet_since_us = as_of_elapsed_us
        quiet_us = max(0, as_of_elapsed_us - self._quiet_since_us)
        self.at_end, self.reached_us = AtEnd(as_of_us, as_of_elapsed_us, quiet_us), as_of_us

    def is_quiet_no_more(self) -> None:
        """Begin its silence anew: a clock was set."""
        self._quiet_since_us = self.at_end = None

    # -- losses

    def stop(self, loss: str) -> None:
        """Land nothing more until the loss is acknowledged; lines that wait are still written."""
        self.stopped_by, self.at_end = loss, None

    def go_on(self, topic_id: str, offset: int) -> None:
        """Go on at another place, in a file of its own. OSError."""
        if self.file is not None:
            self.file.close()
            end_last_line(self.folder / str(self.file.name))
        self.file, self.last, self.overlap = None, None, None
        self.stopped_by, self.at_end, self.reached_us, self.leader_epoch = None, None, None, None
        self.topic_id, self.is_unreadable, self.diverges_at = topic_id, False, None
        self.next_offset = self.read_offset = self.sure_next = self.asked_next = offset

    # -- the file

    def write(self) -> None:
        """Write the lines that wait. OSError."""
        if self.file is not None:
            self.file.write()

    def sync(self) -> None:
        """Put what is written on disk. FileReplaced, OSError."""
        if self.file is not None:
            self.file.sync()

    def end_long_file(self) -> None:
        """Have the next line begin a new file, once a marker says where this one ends (protocol K1)."""
        if self.file is not None and self.file.size_bytes >= FILE_BYTES and not self.file.is_comparing:
            self.file.close()
            self.file = self.last = None

    def close(self) -> None:
        """Let go of the file; lines that wait are lost to this process."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def landed(self) -> Landed:
        """The marker's entry for this partition, once all is synced."""
        is_behind = self.overlap is not None  # nothing was read: what was marked before holds
        return Landed(
            topic_id=self.topic_id,
            next_offset=self.next_offset,
            read_offset=self.read_offset,
            leader_epoch=self.leader_epoch,
            file=None if self.file is None else str(self.file.name),
            file_bytes=0 if self.file is None else self.marked_bytes if is_behind else self.file.landed_bytes,
            last=self.last,
            end_offset=None if self.end is None else self.end.end,
            stable_end_offset=None if self.end is None else self.end.stable_end,
            at_end=self.at_end,
            reached_us=self.reached_us,
            stopped_by=self.stopped_by,
        )


def sync_all(partitions: Sequence[Partition]) -> list[Partition]:
    """Put what is written on disk, of many at once; those whose file somebody has replaced. OSError."""
    if len(partitions) <= FEW_FILES:
        return [one for one in partitions if not _is_synced(one)]
    with ThreadPoolExecutor(SYNCS_AT_ONCE, "sync") as threads:
        synced = list(threads.map(_is_synced, partitions))
    return [one for one, is_synced in zip(partitions, synced, strict=True) if not is_synced]


def _is_synced(partition: Partition) -> bool:
    try:
        partition.sync()
    except FileReplaced as error:
        log.warning("somebody removed or replaced %s", error)
        return False
    return True
