"""Which data files came into a Delta table since a commit, and which went. Reads only commits, no row.

What compaction writes and removes (`dataChange` is false) has the rows that were there before: it is none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from photon.pipeline.location import Location
from photon.storage.archived_log import LogEntries
from photon.storage.store import store_of

NO_COMMIT = -1


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as it is known again: another table, or one put back, has another digest at this version."""

    version: int = NO_COMMIT
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """Data files of a table, by path: with rows that are there now and were not, and the other way about.

    A file of either kind may be one that compaction has replaced since: vacuum keeps it for days.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.added, *self.removed)


def commit_at(folder: Location, version: int | None) -> Commit:
    """The commit that made this version of the table in `folder`; None: there is no table.

    One whose entry is gone, from its archive too, is never known again.
    """
    if version is None:
        return Commit()
    try:
        return Commit(version, hashlib.sha256(LogEntries(folder).read(version)).hexdigest())
    except OSError:
        return Commit(version)


def changed_since(folder: Location, since: Commit, version: int | None) -> ChangedFiles | None:
    """The files that changed between `since` and this version of the table in `folder`.

    None if nobody can tell: commits are gone, it is another table now, or a removed file is gone.
    """
    last = NO_COMMIT if version is None else version
    if last < since.version:
        return None
    try:
        if since.version != NO_COMMIT and (not since.digest or commit_at(folder, since.version) != since):
            return None
        entries = LogEntries(folder)
        changed = _changes(map(entries.read, range(since.version + 1, last + 1)))
    except OSError:
        return None
    store = store_of(folder)
    if changed is None or not all(store.size_bytes(path) is not None for path in changed.all):
        return None
    return ChangedFiles(
        *(tuple(str(folder / path) for path in paths) for paths in (changed.added, changed.removed))
    )


def _changes(entries: Iterable[bytes]) -> ChangedFiles | None:
    """The files that these commits changed, by path in the table's folder; None with deletion vectors."""
    added: dict[str, None] = {}
    removed: dict[str, None] = {}
    for line in (line for entry in entries for line in entry.splitlines()):
        action = json.loads(line)
        if (add := action.get("add")) is not None:
            if add.get("deletionVector"):
                return None
            if not add["dataChange"]:
                continue
            added[unquote(add["path"])] = None
        elif (remove := action.get("remove")) is not None and remove["dataChange"]:
            path = unquote(remove["path"])
            # One that came in between was never looked at.
            if path in added:
                del added[path]
            else:
                removed[path] = None
    return ChangedFiles(tuple(added), tuple(removed))
