"""Find logs that were rotated, or copied and written anew, while nobody looked: nobody knows their names."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from photon.logs.discovery import FoundFile, Scan
from photon.logs.files import TrackedFile
from photon.logs.tailing.contents import Contents
from photon.logs.tailing.observation import Look
from photon.logs.tailing.open_files import OpenFiles
from photon.logs.tailing.rotation import SHORT_BYTES, Beginnings, rotated_from


class UnseenRotations:
    """Looks for them again only when there are other files than before. Keeps only caches."""

    def __init__(self) -> None:
        self._others: Mapping[str, int] = {}  # among which there is none
        self._begun: list[FoundFile] = []  # those without a record yet

    def find(
        self, look: Look, contents: Contents, found: Scan, held: OpenFiles | None, missing: Iterable[int]
    ) -> list[FoundFile]:
        """The new ones. While a file is `missing` any of them may be that file."""
        others = others_beside(look, contents, found, held)
        grown = contents.folder.find([file.path for file in self._begun])
        is_as_before = others == self._others and list(grown.values()) == self._begun
        if is_as_before or any(look.files[number].state == "open" for number in missing):
            return []
        withheld = len(look.withheld)
        unseen = unseen_rotations(look, contents, others)
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
        seen_bytes = look.before.get(number, tracked).size_bytes
        if is_here and tracked.file.path in look.matched and seen_bytes >= SHORT_BYTES:
            continue  # the file was not rotated
        for path in (tracked.file.path if is_here else "", tracked.target):
            is_copy = held is not None and held.is_kept(path)  # nobody rotates these
            if path and path not in look.shown and not is_copy:
                near[path.rpartition("/")[0]] = path
    others = dict(found.others)
    for path in near.values():
        others |= contents.folder.beside(path)
    return others


def unseen_rotations(look: Look, contents: Contents, others: Mapping[str, int]) -> list[FoundFile]:
    """Logs that were begun and rotated while nobody looked, so that `files` never matched their names.

    What was written to after a log was followed was that log for some time. What was there before stays a
    stranger.
    """
    since_ns: dict[str, int] = {}
    for tracked in look.files.values():
        seen_ns = look.before.get(tracked.file.number, tracked).modified_ns
        for log in _was_called(look, tracked) if seen_ns else ():
            since_ns[log] = min(seen_ns, since_ns.get(log, seen_ns))
    if not since_ns:
        return []
    inodes = {file.file.inode for file in look.files.values() if file.state == "open"}
    known = Beginnings(look.files[number] for number in look.present)
    unseen = []
    for path, inode in others.items():
        first_ns = [since_ns[log] for log in rotated_from(path) if log in since_ns]
        may_be_new = bool(first_ns) and inode not in inodes and path not in look.matched
        candidate = contents.folder.find([path]).get(path) if may_be_new else None
        if candidate is None or candidate.modified_ns < min(first_ns):
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

    Both hold what was seen of the log, which is little; only the copy holds what came next. A file that
    nobody wrote to since then stays a stranger.
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
            may_be_it = 0 < before.modified_ns <= candidate.modified_ns and before.file.path == log.file.path
            if may_be_it and _is_cut_off(look, contents, candidate, before, log):
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


def _was_called(look: Look, tracked: TrackedFile) -> list[str]:
    """The names that a file has had as a log, or may have had, and another one may have had since then."""
    path = tracked.file.path
    before = look.before.get(tracked.file.number, tracked)
    was_there = before.state == "open" and before.file.path == path
    if tracked.file.number in look.present and path in look.matched and was_there:
        return []
    return [path, *rotated_from(path), tracked.target]
