"""The file of a local registry, and its transactions. A process holds nothing of it between two of them."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from photon.process.mounts import file_system_of, is_of_network, mounts_here
from photon.process.operating_system import PRIVATE_FILE, private_file, private_folder
from photon.process.readable import readable
from photon.registry.stores.sqlite.lock import Missed, alone_in
from photon.registry.stores.sqlite.problems import (
    NoAnswer,
    another_user,
    at_commit,
    gone,
    linked,
    no_registry,
    no_turn,
    of_error,
    old_server,
    on_network,
    out_of_memory,
    replaced,
)
from photon.storage.sync import sync

T = TypeVar("T")
Inode = tuple[int, int]
Work = Callable[[sqlite3.Connection], T]

DATABASE = "registry.sqlite"
FORMAT = 1
APPLICATION = 0x50484F54  # "PHOT": what `file` and we know the file by
BUSY_SECONDS = 0.1  # for another program that has the file open: nobody of ours has while we hold the lock
# Plain, so that any SQLite of the last ten years reads it.
SCHEMA = f"""
BEGIN;
CREATE TABLE stores (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, touched BLOB);
CREATE TABLE pipelines (name TEXT PRIMARY KEY, store TEXT NOT NULL);
CREATE TABLE items (store INTEGER NOT NULL, ledger TEXT NOT NULL, position INTEGER NOT NULL,
                    promised TEXT NOT NULL DEFAULT '', accepted TEXT NOT NULL DEFAULT '', beat INTEGER,
                    ending BLOB, value BLOB, PRIMARY KEY (store, ledger, position));
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
COMMIT;
"""


class RegistryFile:
    """The file in one folder. What it can't do is a NoAnswer. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.path = self.folder / DATABASE

    def exists(self) -> bool:
        """Whether a registry was made here. NoAnswer if that of a server was, or nobody may look."""
        with self._errors():
            self._refuse_old_server()
            return self._inode() is not None

    def ask(self, work: Work[T], seconds: float) -> T:
        """Commit what `work` does, if it changes anything; within so many seconds of waiting for a turn.

        A NoAnswer that is unclear may be committed all the same.
        """
        with self._turn(seconds) as inode, closing(self._opened(inode)) as connection:
            connection.execute("BEGIN")
            try:
                found = work(connection)
                if self._inode() != inode:
                    raise NoAnswer(replaced(self.path, "unreachable"))
            except BaseException:
                # SQLite ends some transactions itself. What is left ends with the connection.
                with suppress(sqlite3.Error):
                    connection.rollback()
                raise
            if connection.total_changes:
                try:
                    connection.execute("COMMIT")
                except (sqlite3.Error, MemoryError) as error:
                    raise NoAnswer(at_commit(self.path, error)) from error
                if self._inode() != inode:
                    raise NoAnswer(replaced(self.path, "unclear"))
            return found

    def make(self, seconds: float) -> None:
        """Make the file, unless it is there, whole or not at all."""
        if self.exists():
            return
        with self._errors():
            private_folder(self.folder)
            _refuse_network(self.folder, os.stat(self.folder).st_dev)
            with alone_in(self.folder, time.monotonic() + seconds):
                if not self.exists():
                    _make(self.path)

    def copy_to(self, folder: Path, seconds: float) -> Path:
        """Copy it into another folder, while nobody writes. NoAnswer; FileExistsError if one is there."""
        copy = folder / DATABASE
        with self._turn(seconds) as inode:
            with closing(self._opened(inode)) as connection:
                connection.execute("SELECT count(*) FROM stores").fetchone()  # undoes what a kill left
            private_folder(folder)
            private = partial(os.open, mode=PRIVATE_FILE)
            with self.path.open("rb") as source, open(copy, "xb", opener=private) as target:
                shutil.copyfileobj(source, target)
        sync(copy)
        sync(folder)
        return copy

    # -- one transaction

    @contextmanager
    def _turn(self, seconds: float) -> Iterator[Inode]:
        """A turn with the file that is there."""
        began_seconds = time.monotonic()
        with self._errors(began_seconds):
            self._refuse_old_server()
            if self._inode() is None:
                raise NoAnswer(gone(self.path))
            _refuse_network(self.folder, os.stat(self.folder).st_dev)
            with alone_in(self.folder, began_seconds + seconds):
                if (inode := self._inode()) is None:
                    raise NoAnswer(gone(self.path))
                yield inode

    def _opened(self, inode: Inode) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode=rw",  # never made here
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            found = [
                connection.execute(f"PRAGMA {one}").fetchone()
                for one in ("application_id", "user_version", "journal_mode = TRUNCATE")
            ]
            connection.execute("PRAGMA synchronous = FULL")
            if found != [(APPLICATION,), (FORMAT,), ("truncate",)] or self._inode() != inode:
                raise NoAnswer(no_registry(self.path, str(found)))
        except BaseException:
            connection.close()
            raise
        return connection

    def _inode(self) -> Inode | None:
        """Which file is at the path now. NoAnswer, OSError."""
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if found.st_nlink > 1:  # another name has another journal
            raise NoAnswer(linked(self.path))
        return found.st_dev, found.st_ino

    def _refuse_old_server(self) -> None:
        if (old := old_server(self.folder)) is not None:
            raise NoAnswer(old)

    @contextmanager
    def _errors(self, began_seconds: float = 0.0) -> Iterator[None]:
        try:
            yield
        except Missed as missed:
            waited_seconds = time.monotonic() - began_seconds
            raise NoAnswer(no_turn(readable(str(missed)), waited_seconds)) from missed
        except sqlite3.Error as error:
            raise NoAnswer(of_error(self.path, error)) from error
        except MemoryError as error:
            raise NoAnswer(out_of_memory()) from error
        except FileExistsError:
            raise
        except OSError as error:
            raise NoAnswer(another_user(self.path, error)) from error


@lru_cache
def _refuse_network(folder: Path, device: int) -> None:
    """Look at the list of mounts once for each device that is there; NoAnswer."""
    if is_of_network(kind := file_system_of(folder, mounts_here())):
        raise NoAnswer(on_network(folder, kind))


def _make(path: Path) -> None:
    """Make a registry without any pipeline under another name, and then give it its own."""
    unfinished = path.with_suffix(".unfinished")
    for left in path.parent.glob(f"{unfinished.name}*"):  # by who was killed here
        left.unlink()
    private_file(unfinished)
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
    sync(unfinished)
    unfinished.rename(path)
    for folder in (path.parent, path.parent.parent):
        sync(folder)
