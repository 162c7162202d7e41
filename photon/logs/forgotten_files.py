"""Log files that the state forgets: gone for days, read, and named by nothing (protocol D13).

Rows and letters in lakes name their numbers for ever. Numbers are given without a gap, so one below the
highest that nobody knows was forgotten: whoever meets it treats it as a file that is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from photon.logs.files import Side, TrackedFile
from photon.logs.source import HASH_BYTES
from photon.logs.tailing.rotation import names_of
from photon.process.clock import MICROSECONDS

# A disk that is mounted again within this time brings back files that are known. Later ones are new files.
FORGET_FILES_AFTER_DAYS = 2


@dataclass(frozen=True)
class SeenFolders:
    """The folders that a look has passed, relative to the logs folder, and those above files of the log."""

    passed: Collection[str]
    above_files: Collection[str]

    @classmethod
    def of(cls, passed: Collection[str], files: Iterable[TrackedFile]) -> SeenFolders:
        """`files`: those of the log that are there."""
        folders = {one.file.path.rpartition("/")[0] for one in files}
        return cls(passed, {above for folder in folders for above in _with_parents(folder)})

    def show(self, path: str) -> bool:
        """Whether a file of this path would have been found. An empty folder may be a disk's without it."""
        nearest = (each for each in _with_parents(path.rpartition("/")[0]) if each in self.passed)
        return next(nearest, None) in self.above_files


def _with_parents(folder: str) -> list[str]:
    """A folder, those above it, and the logs folder."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:end]) for end in range(len(parts), -1, -1)]


def forgettable(
    files: Mapping[int, TrackedFile],
    gone_since_us: Mapping[int, int],
    now_us: int,
    folders: Mapping[Side, SeenFolders],
    known_losses: Container[int],
) -> list[TrackedFile]:
    """The files that may be forgotten unless something names them. The last one of each log never is.

    `gone_since_us`: when each was first known to be gone. `known_losses`: files of which a person knows that
    their ends are unknown.
    """
    last = {max(of, default=0) for of in _numbers_by_side(files).values()}
    before_us = now_us - FORGET_FILES_AFTER_DAYS * 86_400 * MICROSECONDS
    return [
        one
        for number, one in files.items()
        if one.state != "open"
        and number not in last
        and not one.unread_bytes
        and (not one.end_unknown or number in known_losses)
        and gone_since_us.get(number, now_us) <= before_us
        and folders[one.file.side].show(one.file.path)
    ]


def _numbers_by_side(files: Mapping[int, TrackedFile]) -> Mapping[Side, list[int]]:
    numbers: dict[Side, list[int]] = defaultdict(list)
    for number, one in files.items():
        numbers[one.file.side].append(number)
    return numbers


def with_strangers_of(
    forgotten: Iterable[TrackedFile], left: Mapping[int, TrackedFile]
) -> dict[int, TrackedFile]:
    """The files `left` that take over which files are strangers to a log, from files that it had before.

    A stranger to a log of which no file is left is one to nobody.
    """
    heirs: dict[tuple[Side, str], int] = {}
    noted = [one for one in forgotten if one.strangers]
    for number, one in sorted(left.items()) if noted else ():
        heirs |= {(one.file.side, name): number for name in names_of(one) if name}
    changed: dict[int, TrackedFile] = {}
    for one in noted:
        found = [heirs[one.file.side, name] for name in names_of(one) if (one.file.side, name) in heirs]
        for number in found[:1]:
            heir = changed.get(number, left[number])
            marks = {*_marks(heir.strangers), *_marks(one.strangers)}
            changed[number] = replace(heir, strangers=b"".join(sorted(marks)))
    return changed


def _marks(strangers: bytes) -> list[bytes]:
    return [strangers[at : at + HASH_BYTES] for at in range(0, len(strangers), HASH_BYTES)]


def has_forgotten(files: Collection[int]) -> bool:
    """Whether any file below the highest number is not known."""
    return len(files) < max(files, default=0)


def are_forgotten(numbers: npt.NDArray[np.int64], files: Collection[int]) -> npt.NDArray[np.bool_]:
    """Whether the file of each number was forgotten."""
    is_below = (numbers > 0) & (numbers < max(files, default=0))
    result: npt.NDArray[np.bool_] = is_below & ~np.isin(numbers, list(files))
    return result
