"""The file of a partition: lines are appended to it, and nothing in it ever changes (protocol K1 to K3).

A process that died may have written more than its marker says. The next one compares what lies behind the
marked place with the messages that follow, and appends only what lacks.
"""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path

from photon.process.errors import UserError
from photon.process.faults import fault_point
from photon.storage.sync import make_folder, sync

_NAME = re.compile(r"(\d{6})_(\d{20})_([0-9a-f]+)\.jsonl")
_APPENDING = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class LandedAlready(UserError):
    """Another process lands into the same folder."""


class FileReplaced(Exception):
    """Somebody removed, replaced or cut the file that is written."""


@dataclass(frozen=True, slots=True)
class FileName:
    """The name of a landed file: its place in the row, its first offset, its topic."""

    partition: int
    number: int
    first_offset: int
    topic_id: str

    def __str__(self) -> str:
        return f"{self.partition}/{self.number:06d}_{self.first_offset:020d}_{self.topic_id}.jsonl"

    @classmethod
    def of(cls, name: str) -> FileName:
        """Read a name below the landed folder. ValueError: landing gave it to none."""
        partition, _, file = name.partition("/")
        found = _NAME.fullmatch(file)
        if found is None:
            raise ValueError(f"{name} is not the name of a landed file")
        return cls(int(partition), int(found[1]), int(found[2]), found[3])


def files_of(folder: Path, partition: int) -> list[FileName]:
    """The files of a partition, in the order in which they were begun. OSError."""
    try:
        names = os.listdir(folder / str(partition))
    except FileNotFoundError:
        return []
    found = [FileName.of(f"{partition}/{name}") for name in names if _NAME.fullmatch(name)]
    return sorted(found, key=lambda name: name.number)


def end_last_line(path: Path) -> None:
    """End the last line of a file that is written no more, so that its reader does not wait. OSError."""
    with path.open("r+b") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        if size_bytes and os.pread(file.fileno(), 1, size_bytes - 1) != b"\n":
            file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())


class PartitionFile:
    """An open file, which this process alone writes. Lines wait in memory until `write`.

    They are on disk after `sync`.
    """

    def __init__(self, folder: Path, name: FileName, compare_from_bytes: int | None = None) -> None:
        """Open it, or begin it. `compare_from_bytes`: lines may be there from this place on.

        LandedAlready, OSError.
        """
        self.name = name
        self._path = folder / str(name)
        make_folder(self._path.parent)
        self._descriptor = os.open(self._path, _APPENDING, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise LandedAlready(f"{self._path}: another process writes to it: end that one") from None
        self._is_named = (
            False  # on disk; an earlier process may have died before it synced that, or its lines
        )
        self._is_dirty = True
        self._waiting = bytearray()
        self.size_bytes = os.fstat(self._descriptor).st_size
        self._compared_bytes: int | None = None
        if compare_from_bytes is not None and compare_from_bytes < self.size_bytes:
            self._compared_bytes = compare_from_bytes

    def prepare(self) -> None:
        """Have what is compared come from the disk: a sync that failed left it in memory alone. OSError."""
        if self.is_comparing:
            self.sync()
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    @property
    def is_comparing(self) -> bool:
        """Whether bytes are there that no message has been found for yet."""
        return self._compared_bytes is not None

    @property
    def has_waiting(self) -> bool:
        """Whether lines are not written yet."""
        return bool(self._waiting)

    @property
    def landed_bytes(self) -> int:
        """The length that the lines so far make, once they are written."""
        at = self._compared_bytes
        return self.size_bytes + len(self._waiting) if at is None else at

    def has_next(self, line: bytes) -> bool:
        """Whether the next line that lies there is this one. OSError."""
        at = self._compared_bytes
        return at is not None and os.pread(self._descriptor, len(line), at) == line

    def compare_from(self, at_bytes: int) -> None:
        """Compare from another place on."""
        self._compared_bytes = at_bytes if at_bytes < self.size_bytes else None

    def add(self, line: bytes) -> int:
        """Take the next line; where it begins. One that lies there already is not written again. OSError."""
        at_bytes = self.landed_bytes
        if self._compared_bytes is not None:
            found = os.pread(self._descriptor, len(line), self._compared_bytes)
            if found == line:
                self.compare_from(at_bytes + len(line))
                return at_bytes
            self._compared_bytes = None
            if line.startswith(found):  # a process died amid the line, or the disk was full
                self._waiting += line[len(found) :]
                return at_bytes
            ends = os.pread(self._descriptor, 1, self.size_bytes - 1) == b"\n"
            self._waiting += b"" if ends else b"\n"
            at_bytes = self.landed_bytes
        self._waiting += line
        return at_bytes

    def write(self) -> None:
        """Write what waits. OSError: some of it may be written, and the next call goes on behind that."""
        while self._waiting:
            fault_point("disk.before_write", self._path)
            written = os.write(self._descriptor, self._waiting)
            del self._waiting[:written]
            self.size_bytes += written
            self._is_dirty = True

    def sync(self) -> None:
        """Put what is written on disk, with the file's name. FileReplaced, OSError."""
        if self._is_dirty:
            fault_point("disk.before_sync", self._path)
            os.fsync(self._descriptor)
            fault_point("disk.after_sync", self._path)
        if not self._is_named:  # nor is the folder, if a process died where it made that
            sync(self._path.parent)
            sync(self._path.parent.parent)
        self._is_named, self._is_dirty = True, False
        self._expect_itself()

    def _expect_itself(self) -> None:
        """Raise FileReplaced unless the name leads to this file, with all that was written to it."""
        try:
            there = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            raise FileReplaced(str(self._path)) from None
        own = os.fstat(self._descriptor)
        if (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino) or own.st_size < self.size_bytes:
            raise FileReplaced(str(self._path))

    def close(self) -> None:
        """Close it; what waits is lost to this process."""
        os.close(self._descriptor)
