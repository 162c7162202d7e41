"""Objects below one location: a local folder, or a prefix of an S3 bucket.

Whatever reads and writes data files goes through an `ObjectStore`; Delta's own log goes through delta-rs.
Both kinds promise the same: `create` never replaces an object, `put` shows it whole or not at all, and what
`sync` was asked for outlasts a power cut.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from photon.pipeline.location import Location, OutsideFolder, is_inside
from photon.storage.sync import in_place_of, make_folder, sync, write_synced


class ObjectStore(Protocol):
    """The objects of one folder, by name. A name may have slashes, and OutsideFolder refuses others."""

    @property
    def url(self) -> str:
        """As Delta and Spark know the folder."""

    @property
    def delta_options(self) -> dict[str, str] | None:
        """Options by which delta-rs reaches the folder, beside the environment's credentials."""

    @property
    def is_durable(self) -> bool:
        """Whether all that is written outlasts a power cut by itself, without `sync`."""

    def size_bytes(self, name: str) -> int | None:
        """The object's size; None if there is none."""

    def changed_us(self, name: str) -> int:
        """When the object was written, by the store's clock. FileNotFoundError."""

    def read(self, name: str, start_bytes: int = 0, end_bytes: int | None = None) -> bytes:
        """The bytes of an object from `start_bytes` up to `end_bytes`, or to its end. FileNotFoundError."""

    def open(self, name: str) -> pa.NativeFile:
        """An object for reading here and there, as Parquet is read. FileNotFoundError."""

    def create(self, name: str, write: Callable[[BinaryIO], None]) -> int:
        """Have `write` fill a new object; its size in bytes. FileExistsError if there is one.

        The name of one in a folder of this one is on disk then, with that folder.
        """

    def put(self, name: str, write: Callable[[BinaryIO], None]) -> None:
        """Have `write` fill an object, or another one in its place; readers see all of it or nothing."""

    def version(self, name: str) -> str | None:
        """A mark that tells an object from others under its name; None if there is no object."""

    def versions(self, first: str, second: str) -> dict[str, str]:
        """The versions of two objects that follow each other by name: of S3 one listing, which sees both.

        It may see more, behind them in their folder.
        """

    def read_version(self, name: str) -> tuple[bytes, str]:
        """The bytes of an object, and its `version`. FileNotFoundError."""

    def swap(self, name: str, data: bytes, version: str) -> None:
        """Put these bytes in the place of a version, or of none (""). FileExistsError: another one is there.

        A folder of this machine does not compare: whoever swaps there alone has its lock.
        """

    def names(self, prefix: str = "") -> Iterator[str]:
        """The names of the folder's own objects that begin so, in no order; none of folders in it."""

    def sizes(self) -> dict[str, int]:
        """The size of every object below the folder, also of those in folders in it, by name."""

    def remove(self, *names: str) -> None:
        """Remove these objects, those that are there."""

    def remove_folder(self, name: str) -> None:
        """Remove a folder in this one with all that is in it, if it is there."""

    def make(self) -> None:
        """Make the folder, where folders must be made."""

    def sync(self, *names: str) -> None:
        """Put these names of objects or folders on disk; without one, the names in this folder."""


class LocalStore:
    """A folder of this machine."""

    delta_options: None = None
    is_durable = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def url(self) -> str:
        return str(self._folder)

    def _path(self, name: str) -> Path:
        """Where an object is: below the folder, also after links on the way there are resolved."""
        path = self._folder / name
        if not is_inside(name):
            raise OutsideFolder(self.url, name)
        if self._is_linked(name) and not path.parent.resolve().is_relative_to(self._folder.resolve()):
            raise OutsideFolder(self.url, name)
        return path

    def _is_linked(self, name: str) -> bool:
        """Tell whether a folder on the way to an object is a link: to resolve all took a tenth of a join."""
        folders = accumulate(name.split("/")[:-1], os.path.join, initial=self.url)
        return any(map(os.path.islink, islice(folders, 1, None)))

    def _readable(self, name: str) -> Path:
        """The same for reading: neither is the object a link that leads out."""
        path = self._path(name)
        if path.is_symlink() and not path.resolve().is_relative_to(self._folder.resolve()):
            raise OutsideFolder(self.url, name)
        return path

    def size_bytes(self, name: str) -> int | None:
        try:
            return self._path(name).stat().st_size
        except FileNotFoundError:
            return None

    def changed_us(self, name: str) -> int:
        return self._path(name).stat().st_mtime_ns // 1_000

    def read(self, name: str, start_bytes: int = 0, end_bytes: int | None = None) -> bytes:
        with self._readable(name).open("rb") as file:
            file.seek(start_bytes)
            return file.read() if end_bytes is None else file.read(end_bytes - start_bytes)

    def open(self, name: str) -> pa.NativeFile:
        return pa.OSFile(str(self._readable(name)))

    def create(self, name: str, write: Callable[[BinaryIO], None]) -> int:
        target = self._path(name)
        if is_nested := "/" in name:
            make_folder(target.parent)
        write_synced(target, write)
        if is_nested:
            sync(target.parent)
        return target.stat().st_size

    def put(self, name: str, write: Callable[[BinaryIO], None]) -> None:
        with in_place_of(self._path(name)) as unfinished:
            write_synced(unfinished, write)

    def version(self, name: str) -> str | None:
        try:
            status = self._path(name).stat()
        except FileNotFoundError:
            return None
        return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"

    def versions(self, first: str, second: str) -> dict[str, str]:
        return {name: found for name in (first, second) if (found := self.version(name)) is not None}

    def read_version(self, name: str) -> tuple[bytes, str]:
        version = self.version(name)
        return self.read(name), version or ""

    def swap(self, name: str, data: bytes, version: str) -> None:
        self.put(name, content(data))

    def names(self, prefix: str = "") -> Iterator[str]:
        if self._folder.is_dir():
            with os.scandir(self._folder) as found:
                yield from (each.name for each in found if each.name.startswith(prefix) and each.is_file())

    def sizes(self) -> dict[str, int]:
        found = {}
        for folder, _, names in os.walk(self._folder):
            for path in (Path(folder, name) for name in names):
                with suppress(FileNotFoundError):  # the file just went
                    found[path.relative_to(self._folder).as_posix()] = path.stat().st_size
        return found

    def remove(self, *names: str) -> None:
        for path in [self._path(name) for name in names]:
            path.unlink(missing_ok=True)

    def remove_folder(self, name: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path(name))

    def make(self) -> None:
        make_folder(self._folder)

    def sync(self, *names: str) -> None:
        for name in names or ("",):
            sync(self._path(name))


def content(data: bytes) -> Callable[[BinaryIO], None]:
    """Write these bytes and no more: for `create` and `put`."""

    def write(sink: BinaryIO) -> None:
        sink.write(data)

    return write


def store_of(folder: Location) -> ObjectStore:
    """The objects below a location."""
    if isinstance(folder, Path):
        return LocalStore(folder)
    from photon.storage.s3 import S3Store  # only who uses S3 waits for its libraries

    return S3Store(folder)
