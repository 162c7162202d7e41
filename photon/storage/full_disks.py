"""A disk without room, in words: which folder's it is, and what to do.

The system names the file only where one is opened, not where a write finds no room.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from photon.pipeline.location import Location

LEAST_BYTES = 2**20  # with less than that free, there is no room for a write-ahead log
_WITHOUT_ROOM = {errno.ENOSPC: "make room", errno.EDQUOT: "make room within the quota"}
_CODE_BITS = 0xFF  # SQLite's extended codes name the kind in these bits
_OF_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def is_without_room(error: Exception, *folders: Location) -> bool:
    """Whether the system, or SQLite, says that a disk or a quota is full.

    `folders`: where it may have been. They tell where SQLite says "disk I/O error" of a full disk.
    """
    if isinstance(error, OSError):
        return error.errno in _WITHOUT_ROOM
    code = getattr(error, "sqlite_errorcode", 0) & _CODE_BITS
    return code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and bool(full_among(*folders)))


def full_among(*folders: Location) -> list[Location]:
    """Those of these folders whose disks have no room, each once."""
    free = {folder: _free_bytes(folder) for folder in folders}
    return [folder for folder, bytes_ in free.items() if bytes_ is not None and bytes_ < LEAST_BYTES]


def without_room(*folders: Location) -> str:
    """Say which of these folders' disks have no room; empty: each has some."""
    full = " and ".join(map(str, full_among(*folders)))
    return f"no room in {full}" if full else ""


def why_not(error: Exception, *folders: Location) -> str:
    """The error's words; of one of a disk also the folder, and what to do.

    `folders`: where it may have been.
    """
    if isinstance(error, OSError) and (remedy := _WITHOUT_ROOM.get(error.errno or 0)):
        places = " or ".join(map(str, full_among(*folders) or folders))
        return f"{error}: no room in {places}; {remedy} there"
    if getattr(error, "sqlite_errorcode", 0) & _CODE_BITS not in _OF_THE_DISK:
        return str(error)
    return " or ".join(in_words(str(error), folder, _free_bytes(folder)) for folder in folders)


def in_words(said: str, folder: Location, free_bytes: int | None) -> str:
    """An error of the disk in words; `free_bytes`: None where nobody can tell."""
    if free_bytes is not None and free_bytes < LEAST_BYTES:
        return f"{said}: the disk of {folder} has no room, {free_bytes:,} bytes are free; make room"
    return f"{said}: look at the disk of {folder}, and at what the system's log says of it"


def _free_bytes(folder: Location) -> int | None:
    """The room on a folder's disk, also of one that is yet to be made; None where nobody can tell."""
    if not isinstance(folder, Path):
        return None
    try:
        found = os.statvfs(next(one for one in (folder, *folder.absolute().parents) if one.exists()))
    except (OSError, StopIteration):
        return None
    if not found.f_blocks:  # some mounts of stores count nothing
        return None
    return found.f_bavail * found.f_frsize
