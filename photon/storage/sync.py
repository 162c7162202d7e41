"""Files, folders and databases that outlast a power cut (protocol A18). Object stores do it by themselves."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from photon.process.faults import fault_point
from photon.storage.tokens import new_id

SQLITE_SYNCHRONOUS = "FULL"  # a transaction is on disk when it returns
UNFINISHED = ".unfinished"  # ends the name of what is not yet written to its end
ABANDONED_SECONDS = 3_600.0  # what is unfinished is so old: to write a file of a state takes milliseconds


def write_synced(target: Path, write: Callable[[BinaryIO], None]) -> None:
    """Have `write` fill a new file, and sync it. OSError removes what is there of it; FileExistsError.

    Its name is on disk once its folder is synced too.
    """
    with target.open("xb") as sink:
        try:
            fault_point("disk.before_write", target)
            write(sink)
            sink.flush()
            fault_point("disk.before_sync", target)
            os.fsync(sink.fileno())
        except OSError:
            target.unlink(missing_ok=True)
            raise
    fault_point("disk.after_sync", target)


@contextmanager
def in_place_of(target: Path) -> Iterator[Path]:
    """Give the file to write: it takes the other one's place at the end, so that nobody finds half of it.

    Each writer has a name of its own, for another may do the same. An error removes what is there of it.
    """
    unfinished = target.with_name(f"{target.name}.{new_id()}{UNFINISHED}")
    try:
        yield unfinished
        unfinished.replace(target)
    except Exception:
        with suppress(OSError):
            unfinished.unlink()
        raise


def remove_abandoned(folder: Path) -> None:
    """Remove what processes that died left unfinished in a folder."""
    for path in folder.glob(f"*{UNFINISHED}"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                path.unlink()


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each with its name on disk. OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync(each.parent)


def sync(path: Path) -> None:
    """Put what is in this file, or the names in this folder, on disk."""
    fault_point("disk.before_sync", path)
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
    fault_point("disk.after_sync", path)


def keep_transactions(db: sqlite3.Connection) -> None:
    """Have each transaction be on disk when it returns. sqlite3.Error for a file that is none of SQLite's."""
    db.execute(f"PRAGMA synchronous={SQLITE_SYNCHRONOUS}")
    db.execute("PRAGMA journal_mode=WAL")
