"""Find logs that were rotated, or copied and written anew, while nobody looked (protocol D6).

Times do not tell: copies keep them, and clocks are set back. A file that lay beside a log when it was first
seen is known by its fingerprint, compressed or not. A log of which less than 2 KiB were seen is never taken
for one of these. A missed file is given up before its other rotations are looked for, so that a join that
ends by itself knows of them.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Set
from contextlib import suppress

from photon.logs.discovery import FoundFile, Scan
from photon.logs.files import TrackedFile
from photon.logs.source import UNREADABLE
from photon.logs.tailing.contents import Contents
from photon.logs.tailing.observation import Look
from photon.logs.tailing.open_files import OpenFiles
from photon.logs.tailing.rotation import SHORT_BYTES, Beginnings, names_of, rotated_from, stem_of

MOST_STRANGERS = 10_000  # beside one log: of so many files the fingerprints are kept, 160 KB


class UnseenRotations:
    """Looks for them again only when there are other files than before.

    Where a log has changed hands is seen by one look alone, so it is kept until that can be decided.
    """

    def __init__(self) -> None:
        self._logs: set[str] = set()  # names of logs that other files may have had, until that is decided
        self._kept: dict[str, int] = {}  # the files among which these are
        self._others: Mapping[str, int] = {}  # among which there is none
        self._begun: list[FoundFile] = []  # those without a record yet

    def find(
        self, look: Look, contents: Contents, found: Scan, held: OpenFiles | None, missing: Iterable[int]
    ) -> list[FoundFile]:
        """The new ones. While a file is `missing` any of them may be that file."""
        others = self._kept | others_beside(look, contents, found, held)
        grown = contents.folder.find([file.path for file in self._begun])
        is_as_before = others == self._others and list(grown.values()) == self._begun
        if not look.final and any(look.files[number].state == "open" for number in missing):
            self._kept = others
            self._logs |= _names_for_others(look)
            return []
        logs, self._logs, self._kept = self._logs, set(), {}
        if is_as_before:
            return []
        withheld = len(look.withheld)
        unseen = unseen_rotations(look, contents, others, logs | _names_for_others(look))
        copies = copies_of_rewritten(look, contents, others)
        look.cut_off.update(copy.path for copy in copies)
        self._begun = unseen = [*unseen, *(copy for copy in copies if copy not in unseen)]
        self._others = others if len(look.withheld) == withheld else {}
        return unseen

    def forget(self, copies: Container[FoundFile], known: Container[str]) -> None:
        """Those that are copies, or whose paths are known as log files, have begun."""
        self._begun = [file for file in self._begun if not (file in copies or file.path in known)]


def others_beside(look: Look, contents: Contents, found: Scan, held: OpenFiles | None) -> dict[str, int]:
    """The files, with their inodes, among which rotations that nobody saw may be."""
    near: dict[str, str] = {}  # a file each of other folders
    for number, tracked in look.files.items():
        is_here = number in look.present
        before = look.before.get(number, tracked)
        is_it = before.file.inode == tracked.file.inode and before.size_bytes >= SHORT_BYTES
        if is_here and tracked.file.path in look.matched and is_it:
            continue  # the file was not rotated
        for path in (tracked.file.path if is_here else "", tracked.target):
            is_copy = held is not None and held.is_kept(path)  # nobody rotates these
            if path and path not in look.shown and not is_copy:
                near[path.rpartition("/")[0]] = path
    others = dict(found.others)
    for path in near.values():
        others |= contents.folder.beside(path)
    return others


def strangers_beside(look: Look, contents: Contents, log: FoundFile) -> bytes:
    """The fingerprints of files that might be rotations of a log, and lie beside it when it is seen first."""
    places = {log.path, contents.folder.target_of(log)} - {""}
    is_known = not places.isdisjoint(look.called)
    look.called.update(places, rotated_from(log.path))
    if log.path not in look.matched or is_known:
        return b""
    likely = sorted({path for place in places for path in _may_be_of(look, contents, place)} - places)
    there = contents.folder.find(likely[:MOST_STRANGERS]).values()
    noted = set[bytes]()
    for each in there:
        with suppress(*UNREADABLE):
            is_whole = not each.compressed and contents.is_whole(look, each)
            if not (is_whole and contents.is_prefix(look, each, log)):  # else it is a copy of the log
                noted.add(contents.fingerprint_of(each))
    return b"".join(sorted(noted))


def _may_be_of(look: Look, contents: Contents, place: str) -> list[str]:
    """The files beside a log that are called as its rotations are and that the pattern does not match."""
    folder, slash, name = place.rpartition("/")
    if folder not in look.others_in:  # listed once: a folder may hold thousands of logs
        look.others_in[folder] = sorted(contents.folder.beside(place).keys() - look.matched)
    others, stem = look.others_in[folder], folder + slash + stem_of(name)
    return others[bisect_left(others, stem) : bisect_left(others, stem + chr(sys.maxunicode))]


def unseen_rotations(
    look: Look, contents: Contents, others: Mapping[str, int], logs: Set[str]
) -> list[FoundFile]:
    """Logs that were begun and rotated while nobody looked, so that `files` never matched their names.

    `logs`: names that other files may have had since the look before.
    What came after a log was followed was that log for some time, whatever its time says. What was there
    before stays a stranger.
    """
    if not logs:
        return []
    inodes = {file.file.inode for file in look.files.values() if file.state == "open"}
    known = Beginnings(look.files[number] for number in look.present)
    unseen = []
    for path, inode in others.items():
        is_named_so = not logs.isdisjoint(rotated_from(path))
        may_be_new = is_named_so and inode not in inodes and path not in look.matched
        candidate = contents.folder.find([path]).get(path) if may_be_new else None
        if candidate is None or contents.is_stranger(look, candidate):
            continue
        if not contents.is_whole(look, candidate):
            continue
        alike = contents.like(look, candidate, known)
        is_copy = any(contents.is_beginning_of(look, candidate, one) for one in alike)
        if not is_copy and candidate not in look.withheld:
            unseen.append(candidate)
    return sorted(unseen, key=lambda file: file.modified_ns)


def copies_of_rewritten(look: Look, contents: Contents, others: Mapping[str, int]) -> list[FoundFile]:
    """Copies of logs that were written anew in their places and begin as they did before.

    Both hold what was seen of the log, which is little; only the copy holds what came next.
    """
    here = [look.files[n] for n in look.present if n in look.before]
    present = {path: log for log in here for path in (log.file.path, log.target)}
    known_inodes = {file.file.inode for file in look.files.values() if file.state == "open"}
    found: list[FoundFile] = []
    for path, inode in others.items():
        logs = [present[log] for log in rotated_from(path) if log in present]
        if not logs or path in look.matched or inode in known_inodes:
            continue
        candidate = contents.folder.find([path]).get(path)
        if candidate is None:
            continue
        for log in logs:
            before = look.before[log.file.number]
            is_in_place = before.file.path == log.file.path and not contents.is_stranger(look, candidate)
            if is_in_place and _is_cut_off(look, contents, candidate, before, log):
                found.append(candidate)
                break
    return found


def _is_cut_off(
    look: Look, contents: Contents, copy: FoundFile, before: TrackedFile, now: TrackedFile
) -> bool:
    """Whether a file goes on otherwise than the log does, from what was seen of that."""
    if not contents.is_whole(look, copy) or not contents.same_content(look, copy, before):
        return False
    return not contents.is_beginning_of(look, copy, now) and copy not in look.withheld


def _names_for_others(look: Look) -> set[str]:
    """The names of logs that other files may have had since the look before."""
    return {log for tracked in look.files.values() for log in _was_called(look, tracked)}


def _was_called(look: Look, tracked: TrackedFile) -> list[str]:
    """The names that a file has had as a log, or may have had, and another one may have had since then."""
    path = tracked.file.path
    before = look.before.get(tracked.file.number, tracked)
    was_there = before.state == "open" and (before.file.path, before.file.inode) == (path, tracked.file.inode)
    if tracked.file.number in look.present and path in look.matched and was_there:
        return []
    return names_of(tracked)
