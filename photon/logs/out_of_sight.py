"""Find known files where no folder of the pattern shows them: they were moved while they were held open, or a
look before has seen them there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from photon.logs.discovery import FoundFile, Scan, strip_gz
from photon.logs.files import TrackedFile
from photon.logs.held import HeldFiles
from photon.logs.look import Contents, Look
from photon.logs.source import problem_of


def paths_elsewhere(look: Look, contents: Contents, found: Scan, held: HeldFiles | None) -> list[str]:
    """Where known files may be under names that the pattern does not match, or where it does not look."""
    by_inode = {inode: path for path, inode in found.others.items()}
    paths: dict[str, None] = {}
    for number, file in look.files.items() if found.others else ():
        compressed = strip_gz(file.file.path) + ".gz"
        path = by_inode.get(file.file.inode, compressed if compressed in found.others else None)
        if path is not None and number not in look.present:
            paths[path] = None
    if not contents.folder.is_immutable:
        paths |= dict.fromkeys(paths_out_of_sight(look, contents, found, held))
    return list(paths)


def paths_out_of_sight(look: Look, contents: Contents, found: Scan, held: HeldFiles | None) -> list[str]:
    """Where files may be that the scan does not show."""
    shown = {file.path for file in found.files} | found.others.keys()
    paths: dict[str, None] = {}
    for number, tracked in look.files.items():
        if number in look.present or tracked.state != "open":
            continue
        if held is not None and held.is_kept(tracked.file.path):
            _renew_copy(look, tracked, held)
        path = (held.path_of(tracked) if held is not None else None) or tracked.file.path
        near = contents.folder.beside(tracked.target) if tracked.target != tracked.file.path else {}
        for each in (path, *(other for other, inode in near.items() if inode == tracked.file.inode)):
            if each not in shown:
                paths[each] = None
    return list(paths)


def ends_of_nameless(look: Look, held: HeldFiles | None) -> list[TrackedFile]:
    """Files that lost their names after they grew, as they ended: whatever is found has to have all of it."""
    if held is None:
        return []
    missing = [look.files[n] for n in look.files.keys() - look.present if look.files[n].state == "open"]
    return [now for before in missing if (now := held.as_it_ended(before)) != before]


def _renew_copy(look: Look, tracked: TrackedFile, held: HeldFiles) -> None:
    try:
        held.keep(tracked)
    except OSError as error:
        look.problems.append(problem_of(tracked.file.path, error))


def kept_of(
    look: Look,
    contents: Contents,
    held: HeldFiles | None,
    missing: Iterable[int],
    elsewhere: Collection[int],
) -> dict[int, FoundFile]:
    """Copies of the files that have no name any more and bytes that were not read.

    `missing`: without those that were found `elsewhere`, by their content. A file that is compressed at this
    moment is waited for.
    """
    copies: dict[int, FoundFile] = {}
    if held is None:
        return copies
    for number in missing:
        tracked = look.files[number]
        is_elsewhere = number in elsewhere or number in look.awaited
        if is_elsewhere or not held.may_have(tracked) or held.path_of(tracked) is not None:
            continue
        try:
            copy = held.keep(tracked)
        except OSError as error:
            look.problems.append(problem_of(tracked.file.path, error))
            look.awaited.add(number)
            continue
        if copy is not None and contents.is_whole(look, copy) and contents.same_content(look, copy, tracked):
            copies[number] = copy
    return copies
