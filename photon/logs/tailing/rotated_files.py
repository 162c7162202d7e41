"""Find rotated logs among the files of a look, and copies of logs, which are not to be read beside them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

from photon.logs.discovery import FoundFile, Matches, Scan, strip_gz
from photon.logs.files import TrackedFile
from photon.logs.source import HEAD_BYTES
from photon.logs.tailing.contents import Contents
from photon.logs.tailing.observation import Look
from photon.logs.tailing.rotation import (
    SHORT_BYTES,
    TELLING_BYTES,
    Beginnings,
    Rotations,
    rotated_from,
    stem_of,
)

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
                has_problem = candidate.path in {problem.path for problem in look.problems}
                if not has_problem or candidate.path in look.unfinished:
                    look.awaited.add(file.file.number)
            elif _may_be_it(look, contents, candidate, file) and contents.same_content(look, candidate, file):
                rotated[file.file.number] = candidate
                break
    return rotated


def _may_be_it(look: Look, contents: Contents, candidate: FoundFile, file: TrackedFile) -> bool:
    """Whether a file may be a log of which little was seen, and does not merely begin alike.

    It was not there before the log, and holds no other file of which more was seen.
    """
    if candidate.path in look.matched or file.size_bytes >= SHORT_BYTES:
        return True
    longer = Beginnings(other for other in look.files.values() if other.size_bytes > file.size_bytes)
    alike = contents.like(look, candidate, longer)
    is_another = any(contents.same_content(look, candidate, other) for other in alike)
    return not is_another and not contents.is_stranger(look, candidate)


def find_moved(
    look: Look, contents: Contents, rotated: Mapping[int, FoundFile], inodes: Collection[int]
) -> dict[int, FoundFile]:
    """Those of the `rotated` files that still lie elsewhere by their inodes, and others merely begin alike.

    Only files of which little was seen. `inodes`: of the files that the scan shows.
    """
    files = ((look.files[number], candidate.inode) for number, candidate in rotated.items())
    short = [
        tracked
        for tracked, inode in files
        if tracked.size_bytes < SHORT_BYTES
        and tracked.file.inode != inode
        and tracked.file.inode not in inodes
    ]
    moved: dict[int, FoundFile] = {}
    for tracked, paths in zip(short, contents.folder.elsewhere(short), strict=True):
        for found in contents.folder.find(paths).values():
            if found.inode == tracked.file.inode and _is_it(look, contents, found, tracked):
                moved[tracked.file.number] = found
                break
    return moved


def _rotations(
    look: Look, contents: Contents, found: Scan, sought: Iterable[TrackedFile], fresh: Iterable[FoundFile]
) -> list[FoundFile]:
    """New names of the files that are sought, as far as there are candidates, in the order of the paths.

    Those that are not compressed come first: they tell whether a log was renamed or copied.
    """
    followed = {look.files[number].file.path for number in look.present}
    rotations = Rotations(path for file in sought for path in (file.file.path, file.target))
    others = contents.folder.find(list(rotations.among(found.others)))
    candidates = {file.path: file for file in [*others.values(), *look.withheld, *fresh]}
    in_order = sorted(candidates.values(), key=lambda file: (file.compressed, file.path))
    return [file for file in in_order if file.path not in followed]


def find_back(
    look: Look, contents: Contents, missing: Iterable[int], fresh: Iterable[FoundFile]
) -> dict[FoundFile, int]:
    """New files that were given up as gone before: a rotation may hide a file from two looks in a row.

    What `files` does not match may come from any folder: files of the same log were moved there before.
    """
    gone = [look.files[number] for number in sorted(missing) if look.files[number].state != "open"]
    if not gone or not fresh:
        return {}
    near, anywhere = Beginnings(gone[-MOST_GONE:]), Beginnings(gone[-MOST_GONE:], in_any_folder=True)
    back: dict[FoundFile, int] = {}
    for candidate in fresh:
        for file in contents.like(look, candidate, near if candidate.path in look.matched else anywhere):
            is_taken = file.file.number in back.values()
            is_told = file.offset_bytes > 0 or file.file.head_bytes >= TELLING_BYTES
            if is_told and not is_taken and contents.same_content(look, candidate, file):
                back[candidate] = file.file.number
                break
    return back


def find_continued(look: Look, contents: Contents, fresh: Iterable[FoundFile]) -> dict[FoundFile, int]:
    """New files that hold a whole rotation and more: a copy of it was put into the place of its log.

    Nobody writes the rotation any more: from now on it is the copy of the two. Of a short one nobody can
    tell whether the log merely begins alike: both are read.
    """
    long = [file for n in look.present if (file := look.files[n]).size_bytes >= SHORT_BYTES]
    continued: dict[FoundFile, int] = {}
    among = [Beginnings(long), *_rotations_anywhere(look, long)] if long else []
    for candidate in sorted(fresh if long else (), key=lambda file: -look.sizes[file.path]):
        alike = [file for each in among for file in contents.like(look, candidate, each)]
        wholes = [file for file in alike if _goes_on(look, contents, candidate, file)]
        left = [file for file in wholes if file.file.number not in continued.values()]
        if left and not copies_among(look, contents, [candidate]) and candidate not in look.withheld:
            continued[candidate] = max(left, key=lambda file: file.size_bytes).file.number
    return continued


def _goes_on(look: Look, contents: Contents, candidate: FoundFile, file: TrackedFile) -> bool:
    """Whether it holds all of a rotation, or of the other form of itself, and more."""
    was_called = {strip_gz(file.file.path), *rotated_from(file.file.path)}
    is_rotation = not file.in_use or strip_gz(candidate.path) in was_called
    is_longer = look.sizes[candidate.path] > file.size_bytes
    return is_rotation and is_longer and contents.same_content(look, candidate, file)


def find_elsewhere(
    look: Look, contents: Contents, missing: Iterable[int], found: Collection[int], inodes: Collection[int]
) -> dict[int, FoundFile]:
    """Files that are neither in their folders nor `found`: beside what a link led to, or in other folders.

    `inodes`: of the files that the scan shows, which are none of them.
    """
    left = [look.files[n] for n in missing if n not in found and n not in look.awaited]
    sought = [tracked for tracked in left if tracked.state == "open"]
    followed = {look.files[number].file.path for number in look.present} if sought else set()
    elsewhere: dict[int, FoundFile] = {}
    for tracked, paths in zip(sought, contents.folder.elsewhere(sought), strict=True):
        there = contents.folder.find([path for path in dict.fromkeys(paths) if path not in followed])
        for candidate in sorted(there.values(), key=lambda file: file.compressed):  # as in `_rotations`
            if candidate.inode not in inodes and _is_it(look, contents, candidate, tracked):
                elsewhere[tracked.file.number] = candidate
                followed.add(candidate.path)
                break
    return elsewhere


def damaged_in_place(
    look: Look, contents: Contents, missing: Iterable[int], fresh: Iterable[FoundFile]
) -> dict[int, FoundFile]:
    """Files whose beginnings were overwritten where they are: what was read of them is behind that still.

    Only where nothing else says that they are others: their ends, and what was read of them last, are theirs.
    """
    by_path = {file.path: file for file in fresh}
    damaged = {}
    for number in missing:
        found = by_path.get(look.files[number].file.path)
        is_open = look.files[number].state == "open"
        if found is not None and is_open and contents.is_damaged(look, found, look.files[number]):
            damaged[number] = found
    return damaged


def _is_it(look: Look, contents: Contents, candidate: FoundFile, tracked: TrackedFile) -> bool:
    has_read = tracked.offset_bytes > tracked.file.header_bytes
    if not (has_read or tracked.seen_hash or tracked.file.head_bytes >= TELLING_BYTES):
        return False
    if not (contents.is_whole(look, candidate) and _may_be_it(look, contents, candidate, tracked)):
        return False
    return contents.same_content(look, candidate, tracked)


def longer_copies(look: Look, matches: Matches) -> list[FoundFile]:
    """Those that hold more than the file whose other form they are, so that they are to be read."""
    copies = matches.copies.items()
    return [file for file, number in copies if look.sizes[file.path] > look.files[number].size_bytes]


def copies_among(look: Look, contents: Contents, fresh: Collection[FoundFile]) -> dict[FoundFile, int]:
    """New files that hold nothing but the beginning of a file that is there: copies, perhaps half done.

    Read as files of their own, all their records would be read twice. When the original is truncated, a
    copy takes its place.
    """
    copies: dict[FoundFile, int] = {}
    if not fresh:
        return copies
    present = [look.files[number] for number in look.present]
    known, rotations = Beginnings(present), _rotations_anywhere(look, present)
    # A file that `files` does not match lies where a log once was: its original may lie anywhere by now.
    is_all_matched = all(file.path in look.matched for file in fresh)
    anywhere = [known] if is_all_matched else [Beginnings(present, in_any_folder=True)]
    for file in fresh:
        short = known.named_before(file.path) if look.sizes[file.path] <= SHORT_BYTES else []
        among = [known, *rotations] if file.path in look.matched else anywhere
        alike = [whole for each in among for whole in contents.like(look, file, each)]
        for whole in [*alike, *short]:
            if contents.is_beginning_of(look, file, whole):
                copies[file] = whole.file.number
    return copies


def _rotations_anywhere(look: Look, present: Iterable[TrackedFile]) -> list[Beginnings]:
    """Rotations that may have been copied to where their log is now: a link to it may lead elsewhere."""
    rotations = [file for file in present if file.file.path not in look.matched]
    return [Beginnings(rotations, in_any_folder=True)] if rotations else []


def copies_among_new(
    look: Look, contents: Contents, new: Collection[FoundFile]
) -> dict[FoundFile, FoundFile]:
    """New files that hold nothing but the beginning of another new one, whose rotations they may be.

    A copy may have been put back beside a rotation that nobody saw either, or where its log is now.
    """
    beside: dict[tuple[str, str], list[FoundFile]] = {}
    for file in () if contents.folder.is_immutable else new:
        folder, _, name = file.path.rpartition("/")
        near = folder if file.path in look.matched else ""  # rotations of one log lie anywhere
        beside.setdefault((near, stem_of(name)), []).append(file)
    copies: dict[FoundFile, FoundFile] = {}
    for files in beside.values():
        if len(files) > 1:
            longest_first = sorted(files, key=lambda file: (-look.sizes[file.path], file.modified_ns))
            _note_copies(look, contents, longest_first, copies)
    return copies


def _note_copies(
    look: Look, contents: Contents, longest_first: Sequence[FoundFile], copies: dict[FoundFile, FoundFile]
) -> None:
    heads: list[bytes] = []  # heads of those that are no copies, in order
    wholes: list[FoundFile] = []  # in the same order
    for file in longest_first:
        head = contents.beginning(file, min(HEAD_BYTES, look.sizes[file.path]))
        if not head:
            continue
        at = end = bisect_left(heads, head)
        while end < len(heads) and heads[end].startswith(head):
            end += 1
        whole = next((one for one in wholes[at:end] if contents.is_prefix(look, file, one)), None)
        if whole is None:
            heads.insert(at, head)
            wholes.insert(at, file)
        else:
            copies[file] = whole
