"""Files that went away: which of them are missing, which are gone, and which may be where nobody can read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from photon.logs.discovery import FileProblem, FoundFile, Scan, strip_gz
from photon.logs.files import TrackedFile
from photon.logs.look import Look
from photon.logs.unknown_ends import Ends


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
        unreadable = any(_is_below(file.file.path, problem.path) for problem in look.problems)
        if file.state != "open" or unreadable or withheld & traces or number in look.awaited:
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


def _is_below(path: str, folder: str) -> bool:
    return folder == "." or path == folder or path.startswith(folder + "/")


def vanished_folders(files: Iterable[TrackedFile], found: Scan) -> list[FileProblem]:
    """Vanished folders whose files had unread bytes: problems as long as these files are tracked."""
    unread: dict[str, int] = {}
    for file in files:
        folder, _, _ = file.file.path.rpartition("/")
        if file.state == "gone" and folder not in found.folders and file.unread_bytes:
            unread[folder] = unread.get(folder, 0) + file.unread_bytes
    return [
        FileProblem(folder or ".", f"the folder is not there any more; {bytes_} bytes in it were not read")
        for folder, bytes_ in unread.items()
    ]
