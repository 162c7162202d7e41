"""Find a log file again that rotation has moved, where neither its name nor its inode tell (protocol D6).

`access.log` becomes `access.log.1`, `access.log.2.gz` or `access.log-20261122.gz`, in any number of steps
while nobody looks. What it holds, it keeps: the beginning, and what was read last.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from photon.logs.files import TrackedFile
from photon.logs.source import HEAD_BYTES, TAIL_BYTES, Source, hash_bytes

TELLING_BYTES = 512  # a beginning of this length is no other file's; a first record may be
SHORT_BYTES = 2 * HEAD_BYTES  # so much is compared as a whole
_BEFORE_DIGIT = re.compile(r"[.-](?=\d)")
# A log's name goes on so, with its ending: access.log.1, access.log-2026-11-22, access-20261122.log.
_NUMBER = re.compile(r"[.-]\d[\d.-]*(?P<end>[.][^./\d][^./]*)?")
_FIRST_PART = re.compile(r"\.?[^.]*")


def stem_of(name: str) -> str:
    """The beginning that names of a log file and of all its rotations share: `access` of `access.log.1`."""
    found = _FIRST_PART.match(name)
    return found.group() if found else ""


def may_be_rotated(name: str, later: str) -> bool:
    """Whether a file of this name may be called `later` after rotations, in the same folder."""
    return later.startswith(stem_of(name))


def rotated_from(path: str) -> list[str]:
    """Earlier names of a log that a rotation has called so: without its number or date, and .gz.

    Narrower than `may_be_rotated`: nothing but its name says that a file is to be read.
    """
    name = path.removesuffix(".gz")
    found = ((at.start(), _NUMBER.fullmatch(name, at.start())) for at in _BEFORE_DIGIT.finditer(name))
    return [name[:start] + (number["end"] or "") for start, number in found if number is not None and start]


def names_of(tracked: TrackedFile) -> list[str]:
    """The names that a file has, and may have had as a log."""
    path = tracked.file.path
    return [path, *rotated_from(path), tracked.target]


class Rotations:
    """Which paths rotations of some files may have."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._stems: dict[str, set[str]] = defaultdict(set)  # stems by folder
        for path in paths:
            folder, _, name = path.rpartition("/")
            self._stems[folder].add(stem_of(name))

    def among(self, paths: Iterable[str]) -> Iterator[str]:
        """Those of these paths that may be rotations."""
        for path in paths:
            folder, _, name = path.rpartition("/")
            stems = self._stems.get(folder)
            if stems and any(name[:end] in stems for end in range(len(name) + 1)):
                yield path


class Beginnings:
    """Known files by how they begin: a file is compared with thousands of them at once."""

    def __init__(self, files: Iterable[TrackedFile], in_any_folder: bool = False) -> None:
        """`in_any_folder`: their names alone say what may be a rotation of them."""
        self._may_be = _may_be_called if in_any_folder else _may_be
        self._files: dict[tuple[int, int], dict[bytes, list[TrackedFile]]] = {}  # keyed by length, then hash
        self._by_path: dict[str, TrackedFile] = {}
        for tracked in files:
            self._by_path[tracked.file.path] = tracked
            length = tracked.file.header_bytes, tracked.file.head_bytes
            self._files.setdefault(length, {}).setdefault(tracked.file.head_hash, []).append(tracked)

    def like(self, source: Source, *paths: str) -> list[TrackedFile]:
        """The files that begin as this one and may have been rotated to these paths, the youngest first."""
        data = source.read(0, max(map(sum, self._files), default=0))
        found = [
            tracked
            for (header_bytes, head_bytes), by_hash in self._files.items()
            if len(data) >= header_bytes + head_bytes
            for tracked in by_hash.get(hash_bytes(data[header_bytes : header_bytes + head_bytes]), ())
            if any(self._may_be(tracked, path) for path in paths)
        ]
        return sorted(found, key=lambda tracked: -tracked.file.number)

    def beside(self, path: str) -> list[TrackedFile]:
        """The files whose rotation may have this path, however it begins."""
        return [tracked for tracked in self._by_path.values() if self._may_be(tracked, path)]

    def named_before(self, path: str) -> list[TrackedFile]:
        """The files whose path with something behind it is this one, as `access.log` and `access.log.1`."""
        names = (path[:end] for end in range(len(path)))
        return [self._by_path[name] for name in names if name in self._by_path]


def is_beginning_of(copy: Source, copy_bytes: int, whole: Source) -> bool:
    """Whether a file of `copy_bytes` holds what another one begins with.

    Of a long one, which is known to begin as the other does, only the end is compared. So two files that
    begin alike are told apart by the first line of their own.
    """
    start = 0 if copy_bytes <= SHORT_BYTES else copy_bytes - TAIL_BYTES
    return copy.read(start, copy_bytes - start) == whole.read(start, copy_bytes - start)


def _may_be(tracked: TrackedFile, path: str) -> bool:
    """Whether a rotation may have put a file there: beside where it is, or where it was as a log."""
    return _is_beside(tracked.file.path, path) or _is_beside(tracked.target, path)


def _may_be_called(tracked: TrackedFile, path: str) -> bool:
    """Whether a rotation may have given a file that name, in any folder."""
    name = os.path.basename(path)
    return any(may_be_rotated(os.path.basename(each), name) for each in (tracked.file.path, tracked.target))


def _is_beside(path: str, other: str) -> bool:
    folder, name = os.path.split(path)
    other_folder, other_name = os.path.split(other)
    return folder == other_folder and may_be_rotated(name, other_name)
