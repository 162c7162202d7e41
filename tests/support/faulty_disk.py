"""A disk that fails, as Photon meets it in this process: full, broken, stalled, or without power.

It sees what Photon writes by itself, and commits to tables. SQLite syncs its own files, so a power cut
leaves these as they are, and a full disk is met by the files beside them.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from photon.process.clock import Clock, SystemClock
from photon.process.faults import DISK_FAULT_POINTS, LAKE_FAULT_POINTS, watched

DiskPoint = Literal[
    "disk.before_write",
    "disk.before_sync",
    "disk.after_sync",
    "lake.after_load",
    "lake.before_commit",
    "lake.after_commit",
]
FULL, BROKEN = errno.ENOSPC, errno.EIO
_SYNCED_BY_SQLITE = (".sqlite", ".db")


@dataclass
class _Fault:
    """A fault: from which passing of its point on, and how often."""

    point: str
    error: int
    passings_before: int
    times: int | None  # None: until the disk is mended


@dataclass
class FaultyDisk:
    """The disk below a folder. Faults are met within `in_use`."""

    folder: Path
    clock: Clock = field(default_factory=SystemClock)
    stall_seconds: float = 0.0  # pass on the clock before each write and each sync
    failed: int = 0  # the number of failures so far
    _fault: _Fault | None = None
    _sizes: dict[int, int] = field(default_factory=dict)  # bytes of a file that are on disk, by inode
    _names: dict[Path, set[str]] = field(default_factory=dict)  # names that are on disk, by folder

    def __post_init__(self) -> None:
        self.sync_all()

    @contextmanager
    def in_use(self) -> Iterator[FaultyDisk]:
        """Have Photon meet this disk in this process."""
        with watched(self._passed):
            yield self

    def fail(
        self,
        point: DiskPoint = "disk.before_write",
        error: int = FULL,
        nth: int = 1,
        times: int | None = None,
    ) -> None:
        """Fail at the `nth` passing of a point from now on, `times` times or until `mend`.

        After `lake.after_commit` the commit took place, and nobody is told.
        """
        if point not in (*DISK_FAULT_POINTS, *LAKE_FAULT_POINTS):
            raise ValueError(f"a disk does not fail at {point!r}; it does at one of {DiskPoint}")
        self._fault = _Fault(point, error, nth - 1, times)

    def mend(self) -> None:
        """Work again."""
        self._fault, self.stall_seconds = None, 0.0

    # -- power cuts

    def sync_all(self, below: Path | None = None) -> None:
        """Take all that is there for being on disk."""
        for folder, folders, files in os.walk(below or self.folder):
            self._names[Path(folder)] = {*folders, *files}
            for name in files:
                self._note(Path(folder) / name)

    def cut_power(self, below: Path | None = None, chance: random.Random | None = None) -> list[Path]:
        """Take away unsynced bytes; return the files that lost some. Processes with open files must be dead.

        An unsynced name goes. Bytes behind the last sync of a file go too; with `chance` some of them may
        stay, as in a torn write.
        """
        met: list[Path] = []
        for folder, folders, files in os.walk(below or self.folder):
            place = Path(folder)
            kept = self._names.get(place, set())
            for name in [each for each in folders if each not in kept]:
                shutil.rmtree(place / name)
                folders.remove(name)
                met.append(place / name)
            met += [place / name for name in files if self._lose(place / name, name in kept, chance)]
        return met

    def _lose(self, path: Path, is_kept: bool, chance: random.Random | None) -> bool:
        if any(ending in path.name for ending in _SYNCED_BY_SQLITE):
            return False
        if not is_kept:
            path.unlink()
            return True
        status = path.stat()
        synced = self._sizes.get(status.st_ino, 0)
        if synced >= status.st_size:
            return False
        os.truncate(path, synced if chance is None else chance.randint(synced, status.st_size))
        return True

    def _note(self, path: Path) -> None:
        status = path.stat()
        self._sizes[status.st_ino] = status.st_size

    # -- what Photon passes

    def _passed(self, point: str, path: object) -> None:
        if not isinstance(path, Path) or not path.is_relative_to(self.folder):
            return
        if self.stall_seconds and point in ("disk.before_write", "disk.before_sync"):
            self.clock.sleep(self.stall_seconds)
        self._fail_if_due(point, path)
        if point == "disk.after_sync":
            if path.is_dir():
                self._names[path] = set(os.listdir(path))
            else:
                self._note(path)

    def _fail_if_due(self, point: str, path: Path) -> None:
        fault = self._fault
        if fault is None or fault.point != point:
            return
        if fault.passings_before:
            fault.passings_before -= 1
            return
        if fault.times is not None:
            fault.times -= 1
            if fault.times == 0:
                self._fault = None
        self.failed += 1
        raise OSError(fault.error, os.strerror(fault.error), str(path))
