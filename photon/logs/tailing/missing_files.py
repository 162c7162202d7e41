"""Files that no folder of the pattern shows: where they may be, and when they are given up as gone.

A file may have been moved while it was held open, or seen elsewhere by an earlier look. It may have no
name any more, and a copy of it is kept. Or it may lie where nobody can read. A file that two looks find
in none of these places has vanished.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from photon.logs.discovery import FileProblem, FoundFile, Scan, Unseen, strip_gz
from photon.logs.files import TrackedFile
from photon.logs.source import problem_of
from photon.logs.tailing.contents import Contents
from photon.logs.tailing.observation import Look
from photon.logs.tailing.open_files import OpenFiles
from photon.logs.tailing.unknown_ends import Ends
from photon.process.readable import counted


def paths_elsewhere(look: Look, contents: Contents, found: Scan, held: OpenFiles | None) -> list[str]:
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


def paths_out_of_sight(look: Look, contents: Contents, found: Scan, held: OpenFiles | None) -> list[str]:
    """Where files may be that the scan does not show."""
    shown = {file.path for file in found.files} | found.others.keys()
    paths: dict[str, None] = {}
    beside: dict[str | None, Mapping[str, int]] = {None: {}}  # folders behind links, each listed once
    for number, tracked in look.files.items():
        if number in look.present or tracked.state != "open":
            continue
        if held is not None and held.is_kept(tracked.file.path):
            _renew_copy(look, tracked, held)
        path = (held.path_of(tracked) if held is not None else None) or tracked.file.path
        is_linked = tracked.target != tracked.file.path
        folder = tracked.target.rpartition("/")[0] if is_linked else None
        if folder not in beside:
            beside[folder] = contents.folder.beside(tracked.target)
        near = (other for other, inode in beside[folder].items() if inode == tracked.file.inode)
        for each in (path, *near):
            if each not in shown:
                paths[each] = None
    return list(paths)


def ends_of_nameless(look: Look, held: OpenFiles | None) -> list[TrackedFile]:
    """Files that lost their names after they grew, as they ended: whatever is found has to have all of it."""
    if held is None:
        return []
    missing = [look.files[n] for n in look.files.keys() - look.present if look.files[n].state == "open"]
    return [now for before in missing if (now := held.as_it_ended(before)) != before]


def _renew_copy(look: Look, tracked: TrackedFile, held: OpenFiles) -> None:
    try:
        held.keep(tracked)
    except OSError as error:
        look.problems.append(problem_of(tracked.file.path, error))


def kept_of(
    look: Look,
    contents: Contents,
    held: OpenFiles | None,
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


# -- vanished files


def miss(
    look: Look,
    found: Scan,
    ends: Ends,
    numbers: Collection[int],
    before: Mapping[int, int],
    is_immutable: bool,
) -> None:
    """Files that were not found vanish at the second look, unless they may be where nobody can read.

    `before`: the files that the look before did not find, with `Ends.latest_us` of the first such look.
    """
    withheld = _traces(look.withheld)
    seen = _traces(found.files if numbers else ())
    for number in numbers:
        file = look.files[number]
        traces = {file.file.inode, strip_gz(file.file.path)}
        is_behind = found.is_away or any(_may_hide(one, file.file.path) for one in found.unseen)
        if file.state != "open" or is_behind or withheld & traces or number in look.awaited:
            continue
        look.missing.add(number)
        if look.final or number in before:
            in_use = ends.went_in_use(file, before.get(number))
            is_unknown = file.end_unknown or ends.was_cut_off(file) or in_use
            state: Literal["replaced", "gone"] = "replaced" if seen & traces else "gone"
            look.put(replace(file, state=state, end_unknown=is_unknown and not is_immutable))
            look.vanished.append(look.files[number])
        elif file.in_use and ends.grew_lately(file) and not is_immutable:
            # The file may have grown, and another process may look next.
            look.put(replace(file, grown_us=look.now_us))


def _traces(found: Iterable[FoundFile]) -> set[int | str]:
    """The inodes and paths by which files may be recognised."""
    return {trace for file in found for trace in (file.inode, strip_gz(file.path))}


def _may_hide(unseen: Unseen, path: str) -> bool:
    """Whether a file may be there still: itself, or a folder or link above it, could not be looked at.

    A link that leads to nothing at its own path does not hide it: its log went, or was renamed. One that is
    refused does.
    """
    is_above = unseen.path == "." or path.startswith(unseen.path + "/")
    return is_above or ((unseen.kind == "file" or unseen.is_refused) and unseen.path == path)


def vanished_folders(files: Iterable[TrackedFile], found: Scan) -> list[FileProblem]:
    """Vanished folders whose files had unread bytes: problems as long as these files are tracked."""
    unread: dict[str, int] = {}
    for file in files:
        folder, _, _ = file.file.path.rpartition("/")
        if file.state == "gone" and folder not in found.folders and file.unread_bytes:
            unread[folder] = unread.get(folder, 0) + file.unread_bytes
    return [
        FileProblem(
            folder or ".",
            f"the folder is not there any more; in it {counted(bytes_, 'byte', 'were')} not read",
        )
        for folder, bytes_ in unread.items()
    ]
