"""Log files that are objects of an S3 bucket: found by listing, read by ranges, known by key and etag.

An object never grows: growth is new objects. One that is put again under its key with other bytes is a
new file, and what was not read of the old one is counted as lost (protocol D1).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from photon.logs.announcements import Announcements
from photon.logs.discovery import FoundFile
from photon.logs.files import LogFile, Stretches, TrackedFile
from photon.logs.on_s3.listening import listening
from photon.logs.on_s3.listing import ListedWatch
from photon.logs.source import LogsUnavailable, ObjectRefused, Source, source_of
from photon.pipeline.location import S3Folder
from photon.storage.s3 import S3Store, StoredObject

REQUESTS_AT_ONCE = 16
PART_BYTES = 8 * 2**20  # bytes of one request: a slow connection has the time of a request for so much
WHOLE_BYTES = 2**20  # a smaller object is read whole by the first request
BEGINNING_BYTES = 2**16  # read of a larger one where its beginning is wanted
# Read ahead; twice as much each time that a read begins where the last one ended.
FIRST_AHEAD_BYTES, MOST_AHEAD_BYTES = 2**18, 2**22
MOST_KEPT_BYTES = 2**26  # so much of the beginnings of objects a process keeps
MOST_KEPT_WHOLE = 64  # objects at once of which more than the beginning is fetched beforehand
GAP_BYTES = 2**18  # stretches that are no farther apart are read by one request


def object_number(name: str, etag: str) -> int:
    """Stands for an inode: another one for each key and for each content (63 bits, as SQLite has them)."""
    digest = blake2b(f"{name}\0{etag}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def found_object(listed: StoredObject) -> FoundFile:
    """An object as a log file that a look finds."""
    return FoundFile(
        listed.name,
        object_number(listed.name, listed.etag),
        listed.size_bytes,
        listed.modified_us * 1_000,
        listed.name.endswith(".gz"),
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    """How an object begins; all of it, if it is no longer."""

    data: bytes
    size_bytes: int


Key = tuple[S3Folder, str, int]  # folder, name, number


class _Beginnings:
    """The beginnings of objects that this process read last, bounded by their bytes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._bytes = 0

    def get(self, key: Key) -> _Kept | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: Key, kept: _Kept) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            self._bytes += len(kept.data) - (len(before.data) if before is not None else 0)
            self._kept[key] = kept
            while self._bytes > MOST_KEPT_BYTES:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= len(oldest.data)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0


_beginnings = _Beginnings()


class ObjectBytes:
    """One object, or FileNotFoundError where it is another one by now. LogsUnavailable."""

    is_certain = True

    def __init__(self, folder: S3Folder, name: str, number: int, size_bytes: int | None = None) -> None:
        self._folder, self._name, self._number = folder, name, number
        self._store = S3Store(folder)
        self._size_bytes = size_bytes
        self._ahead_bytes = FIRST_AHEAD_BYTES
        self._last = (0, b"")  # where the last read began, and what it read

    @property
    def key(self) -> Key:
        return self._folder, self._name, self._number

    def version(self) -> tuple[int]:
        if self._size_bytes is None:
            self.fetch(0, 1)
        return (self._size_bytes or 0,)

    def read(self, start_bytes: int, length_bytes: int) -> bytes:
        if (kept := _beginnings.get(self.key)) is not None:
            self._size_bytes = kept.size_bytes
        end = start_bytes + length_bytes
        if self._size_bytes is not None:
            end = min(end, self._size_bytes)
        if end <= start_bytes:
            return b""
        if kept is not None and end <= len(kept.data):
            return kept.data[start_bytes:end]
        if kept is None and end <= WHOLE_BYTES:
            beginning = self.read_beginning(end)
            if end <= len(beginning) or len(beginning) == self._size_bytes:
                return beginning[start_bytes:end]
        return self._read_on(start_bytes, end)

    def _read_on(self, start_bytes: int, end_bytes: int) -> bytes:
        at_bytes, data = self._last
        if not (at_bytes <= start_bytes and end_bytes <= at_bytes + len(data)):
            is_next = bool(data) and at_bytes <= start_bytes <= at_bytes + len(data)
            self._ahead_bytes = min(2 * self._ahead_bytes, MOST_AHEAD_BYTES) if is_next else FIRST_AHEAD_BYTES
            at_bytes = start_bytes
            data = self.fetch(start_bytes, max(end_bytes, start_bytes + self._ahead_bytes))
            self._last = at_bytes, data
        return data[start_bytes - at_bytes : end_bytes - at_bytes]

    def read_beginning(self, least_bytes: int = BEGINNING_BYTES) -> bytes:
        """How it begins: all of a small one, of others so much or a little more. The process keeps it."""
        is_small = self._size_bytes is None or self._size_bytes <= WHOLE_BYTES
        data = self.fetch(0, WHOLE_BYTES if is_small else max(least_bytes, BEGINNING_BYTES))
        assert self._size_bytes is not None, "a request tells the size of its object"
        _beginnings.put(self.key, _Kept(data, self._size_bytes))
        return data

    def fetch(self, start_bytes: int, end_bytes: int) -> bytes:
        """Request the bytes, a few MiB at a time; fewer where the object ends."""
        parts: list[bytes] = []
        while start_bytes < end_bytes:
            until_bytes = min(end_bytes, start_bytes + PART_BYTES)
            part = self._request(start_bytes, until_bytes)
            parts.append(part)
            if len(part) < until_bytes - start_bytes:
                break
            start_bytes = until_bytes
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _request(self, start_bytes: int, end_bytes: int) -> bytes:
        try:
            data, found = self._store.read_object(self._name, start_bytes, end_bytes)
        except FileNotFoundError:
            raise
        except PermissionError as error:
            raise ObjectRefused(str(error)) from None
        except OSError as error:
            raise LogsUnavailable(str(error)) from None
        if object_number(self._name, found.etag) != self._number:
            raise FileNotFoundError(f"{self._folder / self._name}: another object has taken its place")
        self._size_bytes = found.size_bytes
        return data


class ObjectLogs:
    """A folder of an S3 bucket."""

    is_immutable = True

    def __init__(self, folder: S3Folder) -> None:
        self._folder = folder

    def watch(self, pattern: str, links_lead_out: bool = False) -> ListedWatch:
        return ListedWatch(S3Store(self._folder), found_object, pattern)

    def listening(self) -> AbstractContextManager[Announcements]:
        return listening(self._folder)

    def why_not_there(self) -> str | None:
        try:
            next(S3Store(self._folder).objects(), None)
        except OSError as error:
            return str(error)
        return None

    def find(self, paths: Collection[str]) -> Mapping[str, FoundFile]:
        """Find objects by a listing, which tells times more exactly than in seconds."""
        wanted = set(paths)
        try:
            listed = list(S3Store(self._folder).objects()) if wanted else []
        except OSError:
            return {}
        return {each.name: found_object(each) for each in listed if each.name in wanted}

    @contextmanager
    def open_stored(self, found: FoundFile) -> Iterator[ObjectBytes]:
        yield ObjectBytes(self._folder, found.path, found.inode, found.size_bytes or None)

    @contextmanager
    def open(self, found: FoundFile) -> Iterator[Source]:
        with self.open_stored(found) as stored:
            yield source_of(stored, found.compressed)

    @contextmanager
    def open_at(self, path: str, file: LogFile) -> Iterator[Source]:
        stored = ObjectBytes(self._folder, path, file.inode)
        yield source_of(stored, file.compressed)

    def candidates(self, file: LogFile) -> Iterator[str]:
        """Nothing renames an object."""
        yield file.path

    def elsewhere(self, sought: Sequence[TrackedFile]) -> Iterator[Sequence[str]]:
        return (() for _ in sought)

    def beside(self, path: str) -> Mapping[str, int]:
        return {}

    def target_of(self, found: FoundFile) -> str:
        return ""

    def at_hand(self, found: Sequence[FoundFile]) -> Iterator[FoundFile]:
        most = MOST_KEPT_BYTES // BEGINNING_BYTES // 2
        for first in range(0, len(found), most):
            portion = found[first : first + most]
            if len(portion) > 1:
                with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
                    list(threads.map(partial(self._fetch_beginning, len(portion)), portion))
            yield from portion

    def _fetch_beginning(self, of: int, found: FoundFile) -> None:
        """Pass over errors: the next reader of the object tells what is wrong with it."""
        stored = ObjectBytes(self._folder, found.path, found.inode, found.size_bytes)
        try:
            if of <= MOST_KEPT_WHOLE or found.size_bytes <= BEGINNING_BYTES:
                stored.read_beginning()
            else:
                data = stored.fetch(0, BEGINNING_BYTES)
                _beginnings.put(stored.key, _Kept(data, found.size_bytes))
        except OSError:
            pass

    def read_in_place(self, wanted: Sequence[tuple[LogFile, Stretches]]) -> Iterable[list[bytes] | None]:
        """Read stretches by requests, many at once, neighbouring ones together."""
        spans = [
            (place, file, span)
            for place, (file, stretches) in enumerate(wanted)
            if not file.compressed
            for span in _spans(stretches)
        ]
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
            read = list(threads.map(lambda each: self._read_span(*each[1:]), spans))
        of_file: dict[int, list[bytes] | None] = {}
        for (place, _, _), data in zip(spans, read, strict=True):
            before = of_file.setdefault(place, [])
            of_file[place] = None if data is None or before is None else [*before, *data]
        return [of_file.get(place) for place in range(len(wanted))]

    def _read_span(self, file: LogFile, span: Stretches) -> list[bytes] | None:
        """Stretches that lie side by side; None if the object is another one, ends before or is not given."""
        first, last = span[0][0], span[-1][1]
        try:
            data = ObjectBytes(self._folder, file.path, file.inode).read(first, last - first)
        except (FileNotFoundError, ObjectRefused):
            return None
        if len(data) < last - first:
            return None
        return [data[start - first : end - first] for start, end in span]


def _spans(stretches: Stretches) -> Iterator[Stretches]:
    """Stretches in groups that one request reads."""
    group: list[tuple[int, int]] = []
    for start, end in stretches:
        if group and (start - group[-1][1] > GAP_BYTES or end - group[0][0] > PART_BYTES):
            yield group
            group = []
        group.append((start, end))
    if group:
        yield group
