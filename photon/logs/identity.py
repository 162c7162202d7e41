"""Telling log files apart: which sighting is which known file (protocol D1, D2, D3).

Pure: whether two have the same content is asked of the caller. Finding files belongs in `discovery`,
reading them in `source`, what is remembered of them in `tail`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from photon.logs.discovery import Sighting, strip_gz
from photon.logs.files import TrackedFile

SameContent = Callable[[Sighting, TrackedFile], bool]


@dataclass(frozen=True, slots=True)
class Matches:
    """What became of known files, and what is new."""

    same: Mapping[int, Sighting]  # file number -> where it is now
    fresh: tuple[Sighting, ...]  # files never seen before
    copies: Mapping[Sighting, int]  # the other form of a file that is there as well -> its number
    lost: tuple[int, ...]  # numbers of the files that no sighting is


def match(
    tracked: Mapping[int, TrackedFile],
    sightings: Iterable[Sighting],
    same_content: SameContent,
    taken: frozenset[int] = frozenset(),
) -> Matches:
    """Match sightings to known files: first by inode, then by path, both only where the content agrees.

    `access.log` and `access.log.gz` are one path. Where both are there with the same content, one is a
    copy of the other in the making, or kept on purpose: it is nobody, else all its records would be read
    twice. `taken` are the numbers of `tracked` whose sighting is known already.
    """
    same: dict[int, Sighting] = {}

    def claim(sighting: Sighting, candidates: Iterable[int]) -> bool:
        for number in candidates:
            if number not in same and number not in taken and same_content(sighting, tracked[number]):
                same[number] = sighting
                return True
        return False

    by_inode = _index(tracked, lambda file: file.file.inode)
    by_path = _index(tracked, lambda file: strip_gz(file.file.path))
    left = [sighting for sighting in sightings if not claim(sighting, by_inode.get(sighting.inode, ()))]
    left = [sighting for sighting in left if not claim(sighting, by_path.get(strip_gz(sighting.path), ()))]

    copies: dict[Sighting, int] = {}
    for sighting in left:
        for number in by_path.get(strip_gz(sighting.path), ()):
            file = tracked[number]
            present = number in taken or number in same
            if present and file.file.compressed != sighting.compressed and same_content(sighting, file):
                copies[sighting] = number
    fresh = tuple(sighting for sighting in left if sighting not in copies)
    lost = tuple(number for number in tracked if number not in same and number not in taken)
    return Matches(same, fresh, copies, lost)


def _index(
    tracked: Mapping[int, TrackedFile], key: Callable[[TrackedFile], int | str]
) -> dict[int | str, list[int]]:
    """File numbers by a property, the latest first: a path that was used again is the younger file's."""
    index: dict[int | str, list[int]] = {}
    for number in sorted(tracked, reverse=True):
        index.setdefault(key(tracked[number]), []).append(number)
    return index
