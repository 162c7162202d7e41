"""The log file map: which primary files are there, by number, in an immutable file that tasks read.

The dispatcher's database has the files, and every change of them. A task can't reach it, so it gets a copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import astuple, fields

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.logs.files import LogFile
from photon.pipeline.location import Location
from photon.storage.store import store_of

SUFFIX = ".files"
_COLUMNS = pa.schema(
    [
        ("number", pa.int64()),
        ("side", pa.string()),
        ("path", pa.string()),
        ("inode", pa.uint64()),
        ("compressed", pa.bool_()),
        ("header", pa.binary()),
        ("header_bytes", pa.int64()),
        ("head_bytes", pa.int64()),
        ("head_hash", pa.binary()),
    ]
)
assert _COLUMNS.names == [field.name for field in fields(LogFile)]


def write_log_files(folder: Location, name: str, files: Iterable[LogFile]) -> None:
    """Write a map of these files. OSError."""
    rows = sorted(map(astuple, files))
    columns = zip(*rows, strict=True) if rows else ([] for _ in _COLUMNS)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _COLUMNS, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=_COLUMNS)

    def write(sink: object) -> None:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    store = store_of(folder)
    store.make()
    store.put(name + SUFFIX, write)


class LogFiles:
    """A map as a task reads it. Files that went, or were replaced, are not in it."""

    def __init__(self, folder: Location, name: str) -> None:
        """OSError, pyarrow.ArrowInvalid."""
        with store_of(folder).open(name + SUFFIX) as source:
            self._table = pa.ipc.open_file(source).read_all()
        self._numbers: npt.NDArray[np.int64] = self._table["number"].to_numpy()

    def knows(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Whether each of these files is there."""
        if not len(self._numbers):
            return np.zeros(len(numbers), bool)
        at = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        known: npt.NDArray[np.bool_] = self._numbers[at] == numbers
        return known

    def files(self, numbers: Collection[int]) -> dict[int, LogFile]:
        """These files by number; all of them are known."""
        rows = self._table.take(np.searchsorted(self._numbers, sorted(numbers)))
        columns = [column.to_pylist() for column in rows.columns]
        return {row[0]: LogFile(*row) for row in zip(*columns, strict=True)}
