"""Why SQLite can't write, in words: of a disk without room it says no more than `disk I/O error`."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

LEAST_BYTES = 2**20  # with less than that free, there is no room for a write-ahead log
_CODE_BITS = 0xFF  # SQLite's extended codes name the kind in these bits
_OF_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def why_not(error: Exception, folder: Path) -> str:
    """The error's words; and of an error of the disk, how much room there is and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & _CODE_BITS
    return in_words(str(error), _free_bytes(folder)) if code in _OF_THE_DISK else str(error)


def in_words(said: str, free_bytes: int | None) -> str:
    """An error of the disk in words; `free_bytes`: None where nobody can tell."""
    if free_bytes is not None and free_bytes < LEAST_BYTES:
        return f"{said}: its disk has no room, {free_bytes:,} bytes are free; make room"
    return f"{said}: look at its disk, and at what the system's log says of it"


def _free_bytes(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
