"""The unread files of which a person has said that they are known, as they were then.

They lie beside the state, which its dispatcher alone writes, and belong to no epoch: a new one meets the
same files. One that has changed since is another file, and holds back again (protocol D11).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from photon.logs.unread_files import Identity, UnreadFile
from photon.tokens import new_id

ACKNOWLEDGED_FILES = "acknowledged_files.json"


def acknowledged_files(folder: Path) -> frozenset[Identity]:
    """None where it can't be read: then somebody is asked for once more."""
    try:
        stored = json.loads((folder / ACKNOWLEDGED_FILES).read_text())
        return frozenset(
            (str(side), str(path), int(inode), int(size_bytes), int(changed_ns))
            for side, path, inode, size_bytes, changed_ns in stored
        )
    except (OSError, ValueError, TypeError):
        return frozenset()


def acknowledge_files(folder: Path, named: Iterable[UnreadFile], entries: Iterable[UnreadFile]) -> None:
    """Add those that were named; those that have no entry any more go. OSError."""
    there = {one.identity for one in entries}
    known = (acknowledged_files(folder) & there) | {one.identity for one in named}
    unfinished = folder / f"{ACKNOWLEDGED_FILES}.{new_id()}"  # others may do it at the same moment
    unfinished.write_text(json.dumps(sorted(known)))
    unfinished.replace(folder / ACKNOWLEDGED_FILES)
