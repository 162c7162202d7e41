"""Find rotated logs among the files of a look, and copies of logs, which are not to be read beside them."""

from __future__ import annotations

from collections.abc import Iterable

from photon.logs.discovery import FoundFile, Matches, Scan
from photon.logs.files import TrackedFile
from photon.logs.look import Contents, Look
from photon.logs.rotation import SHORT_BYTES, Beginnings, Rotations, rotated_from

TELLING_BYTES = 512  # a beginning of this length is no other file's; a first record may be
MOST_GONE = 1_000  # files that went, the latest ones, with which new files are compared


def find_rotated(look: Look, contents: Contents, found: Scan, matches: Matches) -> dict[int, FoundFile]:
    """Files that are not where they were, by content: among new files and those that nobody follows."""
    sought = [look.files[n] for n in matches.missing if look.files[n].state == "open"]
    if not sought:
        return {}
    beginnings, rotated = Beginnings(sought), dict[int, FoundFile]()
    for candidate in _rotations(look, contents, found, sought, matches.fresh):
        for file in contents.like(look, candidate, beginnings):
            if file.file.number in rotated:
                continue
            if candidate in look.withheld or not contents.is_whole(look, candidate):
                if candidate.path not in {problem.path for problem in look.problems}:
                    look.awaited.add(file.file.number)
            elif contents.same_content(look, candidate, file):
                rotated[file.file.number] = candidate
                break
    return rotated


def _rotations(
    look: Look, contents: Contents, found: Scan, sought: Iterable[TrackedFile], fresh: Iterable[FoundFile]
) -> list[FoundFile]:
    """What the files that are sought may be called now, in the order of the paths."""
    followed = {look.files[number].file.path for number in look.present}
    rotations = Rotations(file.file.path for file in sought)
    others = contents.folder.find(list(rotations.among(found.others)))
    candidates = {file.path: file for file in [*others.values(), *look.withheld, *fresh]}
    return [candidates[path] for path in sorted(candidates) if path not in followed]


def find_back(
    look: Look, contents: Contents, missing: Iterable[int], fresh: Iterable[FoundFile]
) -> dict[FoundFile, int]:
    """New files that were given up as gone before: a rotation may hide a file from two looks in a row."""
    gone = [look.files[number] for number in sorted(missing) if look.files[number].state != "open"]
    if not gone or not fresh:
        return {}
    beginnings, back = Beginnings(gone[-MOST_GONE:]), dict[FoundFile, int]()
    for candidate in fresh:
        for file in contents.like(look, candidate, beginnings):
            is_taken = file.file.number in back.values()
            is_told = file.offset_bytes > 0 or file.file.head_bytes >= TELLING_BYTES
            if is_told and not is_taken and contents.same_content(look, candidate, file):
                back[candidate] = file.file.number
                break
    return back


def unseen_rotations(
    look: Look, contents: Contents, found: Scan, followed: Iterable[FoundFile]
) -> list[FoundFile]:
    """Logs that were begun and rotated while nobody looked, so that `files` never matched their names.

    `followed`: all known files that are there. A rotation of a log that is younger than one that is followed
    was begun later; an older one was there before the log was followed.
    """
    since_ns: dict[str, int] = {}
    for file in followed:
        for log in rotated_from(file.path) if file.path in found.others else ():
            since_ns[log] = min(file.modified_ns, since_ns.get(log, file.modified_ns))
    if not since_ns:
        return []
    inodes = {file.file.inode for file in look.files.values() if file.state == "open"}
    known = Beginnings(look.files[number] for number in look.present)
    unseen = []
    for path, inode in found.others.items():
        first_ns = [since_ns[log] for log in rotated_from(path) if log in since_ns]
        may_be_new = bool(first_ns) and inode not in inodes
        candidate = contents.folder.find([path]).get(path) if may_be_new else None
        if candidate is None or candidate.modified_ns < first_ns[0] or not contents.is_whole(look, candidate):
            continue
        alike = contents.like(look, candidate, known)
        if not any(contents.same_content(look, candidate, one) for one in alike):
            unseen.append(candidate)
    return sorted(unseen, key=lambda file: file.modified_ns)


def copies_among(look: Look, contents: Contents, fresh: Iterable[FoundFile]) -> dict[FoundFile, int]:
    """New files that hold nothing but the beginning of a file that is there: copies, perhaps half done.

    Read as files of their own, all their records would be read twice. When the original is truncated, a
    copy takes its place.
    """
    copies: dict[FoundFile, int] = {}
    if not fresh:
        return copies
    known = Beginnings(look.files[n] for n in look.present if not look.files[n].file.compressed)
    for file in fresh:
        short = known.named_before(file.path) if look.sizes[file.path] <= SHORT_BYTES else []
        for whole in [*contents.like(look, file, known), *short]:
            if contents.is_beginning_of(look, file, whole):
                copies[file] = whole.file.number
    return copies
