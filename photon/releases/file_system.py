"""The data files of a release as a file system of DuckDB's, which reads them and can write none.

DuckDB's own settings allow a file for reading and writing alike. It asks for the names of all files of a
table at once, by a pattern, and each name ends with the file's day: so a query is not told of each file,
and opens those of other days not at all.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

from fsspec import AbstractFileSystem

from photon.pipeline.location import Location
from photon.storage.data_files import DataFile
from photon.storage.store import ObjectStore, store_of

_numbers = count(1)
QUIET_SECONDS, ENDS_WITHIN_SECONDS = 0.1, 2.0
# Data files never change under their names: whatever DuckDB keeps of one stays good.
_WRITTEN = datetime.fromtimestamp(0, UTC)


class ReleaseFileSystem(AbstractFileSystem):
    """Files by names of its own, which DuckDB takes for URLs. A connection may have several of them."""

    cachable = False
    # DuckDB asks so for the whole name of each file, at each query.
    unstrip_protocol = staticmethod(str)

    def __init__(self) -> None:
        super().__init__()
        self.protocol = f"photon-{next(_numbers)}"
        self._names: dict[str, list[str]] = {}  # by pattern
        self._files: dict[str, tuple[ObjectStore, DataFile]] = {}
        self._sizes: dict[str, int] = {}
        self._times: dict[str, datetime] = {}
        # No functions of ours: DuckDB's threads would make a stack of Python's for each call.
        self.size, self.modified = self._sizes.__getitem__, self._times.__getitem__

    @property
    def root(self) -> str:
        """The beginning of all names."""
        return f"{self.protocol}://"

    def add(self, files: Sequence[tuple[Location, DataFile]]) -> str:
        """Have DuckDB find these files by a pattern, and each one's day as the last part of its name."""
        root = f"{self.root}{len(self._names)}"
        by_name = {f"{root}/{folder}/{file.path}/{file.date}": (folder, file) for folder, file in files}
        self._names[f"{root}/*"] = list(by_name)
        for name, (folder, file) in by_name.items():
            self._files[name] = store_of(folder), file
            self._sizes[name], self._times[name] = file.size_bytes, _WRITTEN
        return f"{root}/*"

    # -- what DuckDB asks

    def glob(self, path: str, **_: Any) -> list[str]:
        """The names of a pattern."""
        return self._names.get(path, [])

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """A file's size, as the table's log has it."""
        return {"name": path, "size": self._of(path)[1].size_bytes, "type": "file"}

    def open(self, path: str, mode: str = "rb", **_: Any) -> _OpenFile:
        """A file for reading. PermissionError for anything else; FileNotFoundError."""
        if mode != "rb":
            raise PermissionError(f"{path}: files of a release are only read")
        return _OpenFile(*self._of(path))

    def _of(self, path: str) -> tuple[ObjectStore, DataFile]:
        if path not in self._files:
            raise FileNotFoundError(f"{path}: the release has no such file")
        return self._files[path]


@dataclass(frozen=True)
class _OpenFile:
    """A file that DuckDB's threads read at once, each at a place of its own."""

    store: ObjectStore
    file: DataFile
    place: threading.local = field(default_factory=threading.local)

    def seek(self, at_bytes: int, whence: int = 0) -> int:
        """DuckDB counts from the beginning."""
        self.place.at_bytes = at_bytes
        return at_bytes

    def tell(self) -> int:
        return getattr(self.place, "at_bytes", 0)

    def read(self, size_bytes: int = -1) -> bytes:
        """OSError, also for a file that is shorter than the table's log says."""
        start_bytes, end_bytes = self.tell(), self.file.size_bytes
        if size_bytes >= 0:
            end_bytes = min(start_bytes + size_bytes, end_bytes)
        self.seek(end_bytes)
        with _reads:
            found = self.store.read(self.file.path, start_bytes, end_bytes)
        if len(found) < end_bytes - start_bytes:
            raise OSError(f"{self.store.url}/{self.file.path} is cut short: put the file of a copy back")
        return found

    def close(self) -> None:
        """Nothing is held open."""


class Reads:
    """The reads of DuckDB's threads, for the end of the process: one that is under way then would abort it.

    Such reads are left where a program has not taken all rows of a result.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way, self._last_end_seconds, self._is_over = 0, 0.0, False

    def __enter__(self) -> None:
        """OSError: the process ends."""
        with self._lock:
            if self._is_over:
                raise OSError("the process ends")
            self._under_way += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._under_way -= 1
            self._last_end_seconds = time.monotonic()

    def end(self) -> None:
        """Let no read begin; wait for those under way, and for threads at work on what they have read."""
        with self._lock:
            self._is_over = True
        deadline = time.monotonic() + ENDS_WITHIN_SECONDS
        while time.monotonic() < deadline and (
            self._under_way or time.monotonic() < self._last_end_seconds + QUIET_SECONDS
        ):
            time.sleep(QUIET_SECONDS / 10)


_reads = Reads()
atexit.register(_reads.end)
