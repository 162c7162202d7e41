"""Immutable objects as files of this machine, so that they can be mapped into memory.

In a local folder an object is such a file. One on S3 is fetched once, into a folder that the processes of one
user on this machine share and that is bounded: what was not used for longest goes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from photon.pipeline.location import Location, S3Folder
from photon.storage.store import store_of
from photon.storage.sync import in_place_of

MOST_BYTES = 8 * 2**30  # all copies of a user: the index of 250 million events
FETCHED_AT_ONCE_BYTES = 2**24
LOOKED_AT_EVERY = 32  # copies that a process makes: to look at them all takes 2 us each
_made = 0


def path_of(folder: Location, name: str) -> Path:
    """The file that holds an object; of one on S3 its copy. FileNotFoundError, OSError."""
    if isinstance(folder, Path):
        return folder / name
    copy = _copy_of(folder, name)
    if not _touch(copy):
        _write_copy(copy, lambda sink: _fetch(folder, name, sink))
    return copy


def has_copy(folder: Location, name: str) -> bool:
    """Whether an object on S3 was fetched before."""
    return not isinstance(folder, Path) and _copy_of(folder, name).exists()


def put(folder: Location, name: str, write: Callable[[BinaryIO], None]) -> None:
    """Store an object durably but for its name, in the place of one that is there; keep a copy. OSError."""
    store = store_of(folder)
    if isinstance(folder, Path):
        store.put(name, write)
        return
    copy = _copy_of(folder, name)
    _write_copy(copy, write)
    try:
        with copy.open("rb") as content:
            store.put(name, lambda sink: shutil.copyfileobj(content, sink, FETCHED_AT_ONCE_BYTES))
    except OSError:
        copy.unlink(missing_ok=True)
        raise


def forget(folder: Location, name: str) -> None:
    """Remove the copy of an object, if there is one."""
    if not isinstance(folder, Path):
        with suppress(OSError):
            _copy_of(folder, name).unlink()


def _copy_of(folder: S3Folder, name: str) -> Path:
    place = hashlib.sha256(f"{folder.endpoint_url} {folder}".encode()).hexdigest()[:16]
    return own_folder("copies") / place / name


def own_folder(purpose: str) -> Path:
    """This user's folder for what is temporary: nobody else can read it or put files there. OSError."""
    folder = Path(tempfile.gettempdir()) / f"photon-{purpose}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; remove it, or set TMPDIR")
    return folder


def _touch(copy: Path) -> bool:
    """Note that a copy is used; False if there is none."""
    try:
        os.utime(copy)
    except FileNotFoundError:
        return False
    return True


def _write_copy(copy: Path, write: Callable[[BinaryIO], None]) -> None:
    copy.parent.mkdir(exist_ok=True)
    with in_place_of(copy) as unfinished, unfinished.open("wb") as sink:
        write(sink)
    global _made
    _made += 1
    if _made % LOOKED_AT_EVERY == 1:
        _make_room()


def _fetch(folder: S3Folder, name: str, sink: BinaryIO) -> None:
    with store_of(folder).open(name) as source:
        while part := source.read(FETCHED_AT_ONCE_BYTES):
            sink.write(part)


def _make_room() -> None:
    """Remove the copies that were not used for longest. Who has one open goes on with it."""
    found: list[tuple[float, int, Path]] = []
    for path in own_folder("copies").glob("*/*"):
        with suppress(FileNotFoundError):
            about = path.stat()
            found.append((about.st_mtime, about.st_size, path))
    too_many_bytes = sum(size_bytes for _, size_bytes, _ in found) - MOST_BYTES
    for _, size_bytes, path in sorted(found):
        if too_many_bytes <= 0:
            return
        path.unlink(missing_ok=True)
        too_many_bytes -= size_bytes
