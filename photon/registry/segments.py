"""Runs of holds as files: sorted columns, mapped into memory so that a look-up reads a few pages only.

`view_store` lists the files, and `holds` says what is in them. Nobody mends a damaged or missing file: the
view is made again, from the ledgers.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew
from photon.registry.holds import HashRun, RunFile
from photon.storage import local_copies
from photon.storage.store import store_of

FORMAT_VERSION = 1
SUFFIX = ".holds"
# Widest first, so that every column is aligned to its own width.
_DTYPES = {"upper": "<u8", "lower": "<u8", "positions": "<u4", "numbers": "<u2"}
HOLD_BYTES = sum(np.dtype(dtype).itemsize for dtype in _DTYPES.values())  # 22
_MAGIC = b"PhotonHo"
_HEADER = struct.Struct("<8sI4xQ4I")  # magic, version, holds, the crc32 of each column
_CHECK_BYTES = 2**24  # read at once while checksums are compared


class RunDamaged(Exception):
    """A run's file is missing, cut short or altered: the view has to be made anew by reading."""


def write_run(folder: Location, name: str, run: HashRun) -> RunFile:
    """Write a run and sync it; the caller syncs the folder. Readers see all of the file or none.

    OSError.
    """
    columns = [np.ascontiguousarray(getattr(run, column), dtype) for column, dtype in _DTYPES.items()]

    def write(sink: BinaryIO) -> None:
        checksums = (_checksum(column.data.cast("B")) for column in columns)
        sink.write(_HEADER.pack(_MAGIC, FORMAT_VERSION, len(run), *checksums))
        for column in columns:
            sink.write(column.data.cast("B"))

    local_copies.put(folder, file_name(name), write)
    return RunFile(folder, name, len(run))


def file_name(name: str) -> str:
    """The name of a run's file."""
    return name + SUFFIX


def size_bytes(holds: int) -> int:
    """The size of the file of so many holds."""
    return _HEADER.size + HOLD_BYTES * holds


def open_run(file: RunFile, compares_checksums: bool = False) -> HashRun:
    """A run, mapped into memory; one on S3 is fetched first.

    Only its header is read, or all of it where checksums are compared. RunDamaged, FormatTooNew, OSError.
    """
    folder, name = file.folder, file_name(file.name)
    had_copy = local_copies.has_copy(folder, name)
    try:
        return _open(file, compares_checksums)
    except RunDamaged:
        local_copies.forget(folder, name)
        if not had_copy:
            raise
    return _open(file, compares_checksums)  # the object may be whole where its copy was not


def remove_runs(folder: Location, names: Collection[str]) -> None:
    """Remove these runs' files, if they are there. A process that has one mapped goes on with it. OSError."""
    store_of(folder).remove(*map(file_name, names))
    for name in names:
        local_copies.forget(folder, file_name(name))


def remove_other_runs(folder: Location, listed: Collection[str]) -> None:
    """Remove the files of runs that are not listed, unfinished ones too. OSError."""
    kept = {file_name(name) for name in listed}
    store = store_of(folder)
    store.remove(*[name for name in store.names() if SUFFIX in name and name not in kept])


def _open(file: RunFile, compares_checksums: bool) -> HashRun:
    name, holds = file_name(file.name), file.holds
    where = file.folder / name
    try:
        mapped = _map(local_copies.path_of(file.folder, name))
    except FileNotFoundError:
        raise RunDamaged(f"{where} is not there") from None
    if len(mapped) < _HEADER.size or mapped[: len(_MAGIC)] != _MAGIC:
        raise RunDamaged(f"{where} is no run of holds")
    _, version, found, *checksums = _HEADER.unpack_from(mapped)
    if version > FORMAT_VERSION:
        raise FormatTooNew(where, version, FORMAT_VERSION)
    if version < 1 or found != holds or len(mapped) != size_bytes(holds):
        raise RunDamaged(
            f"{where} has {found} holds in {len(mapped)} bytes, expected {holds} in {size_bytes(holds)}"
        )
    columns: dict[str, Any] = {}
    start = _HEADER.size
    for column, dtype in _DTYPES.items():
        columns[column] = np.frombuffer(mapped, dtype, holds, start)
        start += columns[column].nbytes
    if compares_checksums:
        for column, expected in zip(columns, checksums, strict=True):
            if _checksum(columns[column].data.cast("B")) != expected:
                raise RunDamaged(f"{where}: the checksum of its {column} does not agree")
    return HashRun(**columns, file=file)


def _checksum(data: memoryview) -> int:
    found = 0
    for at in range(0, len(data), _CHECK_BYTES):
        found = zlib.crc32(data[at : at + _CHECK_BYTES], found)
    return found


def _map(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # mmap says so of an empty file
            return b""
