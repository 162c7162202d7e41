"""A datacenter's folder of logs, on this machine or on S3: one small interface for all that reads logs.

Files of this machine grow, are renamed and replaced, and are known by what they hold. Objects are
immutable: `photon.logs.on_s3.objects` has them.
"""

from __future__ import annotations

import itertools
import os
import sys
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Protocol

from photon.logs.announcements import Announcements
from photon.logs.discovery import FoundFile, Scan, is_text, scan, stat_file
from photon.logs.files import LogFile, Stretches, TrackedFile
from photon.logs.source import READING, Source, StoredBytes, open_bytes, open_source
from photon.logs.tailing.rotation import stem_of
from photon.pipeline.location import Location

MOST_SEARCHED = 10_000  # files below the logs folder, some 20 ms, for those that are not in their folders


class Watch(Protocol):
    """The files of one log, looked at again and again."""

    def scan(self, whole: bool = False, told: Sequence[str] | None = None) -> Scan:
        """List the files that are there now, and never raise for what the store says.

        `whole`: nothing may be left for later.

        `told`: paths that somebody told of since the last scan; None: nobody tells.
        """


class LogFolder(Protocol):
    """Log files by their paths below one location. What opens or reads a file raises OSError."""

    @property
    def is_immutable(self) -> bool:
        """Whether files never change: a last line is whole, and `inode` alone tells a file from others."""

    def watch(self, pattern: str, links_lead_out: bool = False) -> Watch:
        """Follow the files that a glob of the pipeline file matches; of a folder also beyond it, if told."""

    def listening(self) -> AbstractContextManager[Announcements]:
        """Gather announcements of new files until the end."""

    def why_not_there(self) -> str | None:
        """Why nothing can be read in it; None if it can be listed."""

    def find(self, paths: Collection[str]) -> Mapping[str, FoundFile]:
        """Files as they are now, by path; without those that can't be looked at."""

    def open(self, found: FoundFile) -> AbstractContextManager[Source]:
        """A file as a scan saw it. FileNotFoundError if another one has taken its place since."""

    def open_stored(self, found: FoundFile) -> AbstractContextManager[StoredBytes]:
        """The same, as it is stored: a compressed one compressed."""

    def open_at(self, path: str, file: LogFile) -> AbstractContextManager[Source]:
        """Open a path where a known file may be; `has_head` tells whether it is that file."""

    def candidates(self, file: LogFile) -> Iterator[str]:
        """The paths where a file may be, the one where it was seen last ahead."""

    def elsewhere(self, sought: Sequence[TrackedFile]) -> Iterable[Collection[str]]:
        """The paths where files may be that are not in their folders any more, for each in turn."""

    def beside(self, path: str) -> Mapping[str, int]:
        """The files in the folder of a path, with their inodes."""

    def target_of(self, found: FoundFile) -> str:
        """Where the bytes of a file lie, from the logs folder, behind all links; empty for an object."""

    def at_hand(self, found: Sequence[FoundFile]) -> Iterable[FoundFile]:
        """The same files, each at a moment when its beginning can be read without another wait."""

    def read_in_place(self, wanted: Sequence[tuple[LogFile, Stretches]]) -> Iterable[list[bytes] | None]:
        """Stretches of many files where they were seen last; None for one that has to be looked for.

        Whoever reads so compares the ids of the lines. Raises LogsUnavailable.
        """


class LocalLogs:
    """A folder of this machine."""

    is_immutable = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def watch(self, pattern: str, links_lead_out: bool = False) -> Watch:
        return LocalWatch(self._folder, pattern, links_lead_out)

    def listening(self) -> AbstractContextManager[Announcements]:
        return nullcontext(Announcements())

    def why_not_there(self) -> str | None:
        return None if self._folder.is_dir() else "not a folder that can be read"

    def find(self, paths: Collection[str]) -> Mapping[str, FoundFile]:
        return {path: found for path in paths if (found := stat_file(self._folder, path)) is not None}

    def open(self, found: FoundFile) -> AbstractContextManager[Source]:
        return open_source(self._folder / found.path, found.compressed, found.inode)

    def open_stored(self, found: FoundFile) -> AbstractContextManager[StoredBytes]:
        return open_bytes(self._folder / found.path, found.inode)

    def open_at(self, path: str, file: LogFile) -> AbstractContextManager[Source]:
        return open_source(self._folder / path, path.endswith(".gz"))

    def candidates(self, file: LogFile) -> Iterator[str]:
        """There, else rotated within the folder (protocol D6), else moved within the logs folder.

        First by its inode, then by names that a rotation may have given it, its own with `.gz` before others.
        """
        yield file.path
        folder = file.path.rpartition("/")[0]
        yield from (path for path in self._listed_in(folder).moved(file) if path != file.path)
        yield from (path for path in self._listed_below().moved(file) if path.rpartition("/")[0] != folder)

    def _listed_in(self, folder: str) -> _Listed:
        """All that is in a folder, links too."""
        try:
            with os.scandir(self._folder / folder) as entries:
                return _Listed({f"{folder}/{one.name}".lstrip("/"): one.inode() for one in entries})
        except OSError:
            return _Listed({})

    def _listed_below(self) -> _Listed:
        return _Listed(self._below())

    def elsewhere(self, sought: Sequence[TrackedFile]) -> Iterator[list[str]]:
        """Beside where each was, now and as a log, then anywhere below the logs folder.

        Each folder is listed once: thousands of files may go at a time.
        """
        beside: dict[str, _Listed] = {}
        below = _Listed(self._below()) if sought else None
        for tracked in sought:
            near: list[str] = []
            for path in filter(None, (tracked.target, tracked.file.path)):
                folder, _, name = path.rpartition("/")
                if folder not in beside:
                    beside[folder] = _Listed(self.beside(path))
                near += beside[folder].rotations_of(name)
            yield [*near, *below.moved(tracked.file)] if below is not None else near

    def beside(self, path: str) -> dict[str, int]:
        folder, slash, _ = path.rpartition("/")
        try:
            with os.scandir(self._folder / folder) as entries:
                return {
                    folder + slash + entry.name: entry.inode()
                    for entry in entries
                    if is_text(entry.name) and entry.is_file(follow_symlinks=False)
                }
        except OSError:
            return {}

    def target_of(self, found: FoundFile) -> str:
        root = os.path.realpath(self._folder)
        real = os.path.relpath(os.path.realpath(self._folder / found.path), root)
        return real if is_text(real) else ""

    def _below(self) -> dict[str, int]:
        """The files below the logs folder with their inodes, those of upper folders first."""
        above = len(os.path.join(self._folder, ""))
        entries = itertools.islice(_entries_below(self._folder), MOST_SEARCHED)
        return {entry.path[above:]: entry.inode() for entry in entries}

    def at_hand(self, found: Sequence[FoundFile]) -> Iterable[FoundFile]:
        return found

    def read_in_place(self, wanted: Sequence[tuple[LogFile, Stretches]]) -> Iterator[list[bytes] | None]:
        folder = str(self._folder)
        return (_read_in_place(folder, file, stretches) for file, stretches in wanted)


class UnchangedLogs(LocalLogs):
    """The same, where each folder is listed once: for files that went long ago, thousands of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._beside: dict[str, _Listed] = {}

    def _listed_in(self, folder: str) -> _Listed:
        if folder not in self._beside:
            self._beside[folder] = super()._listed_in(folder)
        return self._beside[folder]

    @cached_property
    def _all(self) -> _Listed:
        return super()._listed_below()

    def _listed_below(self) -> _Listed:
        return self._all


class _Listed:
    """Files of one listing, found by their inodes and by how their names begin."""

    def __init__(self, inodes: Mapping[str, int]) -> None:
        """`inodes`: by path."""
        self._by_inode: dict[int, list[str]] = defaultdict(list)
        for path, inode in inodes.items():
            self._by_inode[inode].append(path)
        self._by_name = sorted((path.rpartition("/")[2], path) for path in inodes)

    def rotations_of(self, name: str) -> list[str]:
        """The paths of files that rotations may have called so."""
        stem = stem_of(name)
        first = bisect_left(self._by_name, (stem, ""))
        end = bisect_left(self._by_name, (stem + chr(sys.maxunicode), ""))
        return sorted(path for _, path in self._by_name[first:end])

    def moved(self, file: LogFile) -> list[str]:
        """Paths to which a file may have moved: those of its inode, then its own with `.gz`, then others."""
        same, packed = sorted(self._by_inode.get(file.inode, ())), file.path + ".gz"
        alike = sorted(self.rotations_of(file.path.rpartition("/")[2]), key=lambda path: path != packed)
        return [*same, *(path for path in alike if path not in same)]


def _entries_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The files below a folder, those of upper folders first. Follows no links, and passes over what it may
    not list.
    """
    folders = deque([os.fspath(folder)])
    while folders:
        try:
            with os.scandir(folders.popleft()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False) and is_text(entry.path):
                        yield entry
        except OSError:
            continue


class LocalWatch:
    """The files of this machine that a pattern matches."""

    def __init__(self, folder: Path, pattern: str, links_lead_out: bool = False) -> None:
        self._folder, self._pattern, self._links_lead_out = folder, pattern, links_lead_out
        self._seen = Scan()

    def scan(self, whole: bool = False, told: Sequence[str] | None = None) -> Scan:
        self._seen = scan(self._folder, self._pattern, self._seen, self._links_lead_out)
        return self._seen


def _read_in_place(folder: str, file: LogFile, stretches: Stretches) -> list[bytes] | None:
    """The bytes of a plain file that is where it was seen last, by its inode; None if it is not.

    Takes a third of the time of `read_stretches` (12 us of 40), which counts with thousands of files. Another
    file with a used inode does no harm: ids are compared.
    """
    if file.compressed:
        return None
    try:
        descriptor = os.open(f"{folder}/{file.path}", READING)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_ino != file.inode:
            return None
        data = [os.pread(descriptor, end - start, start) for start, end in stretches]
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data if list(map(len, data)) == [end - start for start, end in stretches] else None


@lru_cache(maxsize=64)
def watch_of(location: Location, pattern: str, links_lead_out: bool = False) -> Watch:
    """The watch of this process for whoever looks now and then: a bucket is not listed anew each time."""
    return log_folder(location).watch(pattern, links_lead_out)


def log_folder(location: Location, is_listed_once: bool = False) -> LogFolder:
    """The logs below a location. `is_listed_once`: no file that is asked for is renamed meanwhile."""
    if isinstance(location, Path):
        return UnchangedLogs(location) if is_listed_once else LocalLogs(location)
    from photon.logs.on_s3.objects import ObjectLogs  # only who uses S3 waits for its libraries

    return ObjectLogs(location)
