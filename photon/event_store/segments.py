"""Index segments: immutable files that say where primary events are, by the hash of their ids.

Only the file format is here. `indexing` and `compaction` decide what a segment holds.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from photon.event_store.hashing import Hashes
from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew
from photon.storage import local_copies
from photon.storage.store import store_of

FORMAT_VERSION = 3
SUFFIX = ".segment"
# Widest first, so that every column is aligned to its own width.
_DTYPES = {
    "hashes": "<u8",
    "times_us": "<i8",
    "digests": "<u8",
    "offsets_bytes": "<i8",
    "files": "<u4",
    "lengths_bytes": "<u4",
}
EVENT_BYTES = sum(np.dtype(dtype).itemsize for dtype in _DTYPES.values())  # 40
_MAGIC = b"PhotonIx"
_HEADER = struct.Struct("<8sI4xQ6I")  # magic, version, events, the crc32 of each column
MOST_EXAMPLES = 3  # of reused ids, of each segment
_CHECK_BYTES = 2**24  # read at once while checksums are compared

Ints = npt.NDArray[np.int64]


class SegmentDamaged(Exception):
    """A segment is missing, cut short or altered: the index has to be made again from the logs."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where primary events are, one element each: the bytes [offset, offset + length) of a file."""

    hashes: Hashes
    times_us: npt.NDArray[np.int64]
    digests: Hashes  # of the lines: what tells copies of one event from other events of its id
    offsets_bytes: npt.NDArray[np.int64]
    files: npt.NDArray[np.uint32]
    lengths_bytes: npt.NDArray[np.uint32]  # length of the line without its end

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, rows: Ints | npt.NDArray[np.bool_] | slice) -> Places:
        """The events at `rows`: positions, a mask or a slice."""
        return Places(*(getattr(self, name)[rows] for name in _DTYPES))

    def sorted(self) -> Places:
        """The events by hash; those of one hash by time, digest and place (protocol F14)."""
        order = np.argsort(self.hashes)
        hashes = self.hashes[order]
        is_copy = np.zeros(len(order) + 1, bool)
        is_copy[1:-1] = hashes[1:] == hashes[:-1]
        rows = np.flatnonzero(
            is_copy[:-1] | is_copy[1:]
        )  # few: a sort by all columns takes nine times as long
        some = self.take(order[rows])
        by = (some.offsets_bytes, some.files, some.digests, some.times_us, some.hashes)
        order[rows] = order[rows[np.lexsort(by)]]
        return self.take(order)


assert [each.name for each in fields(Places)] == list(_DTYPES)


def concat(parts: Sequence[Places]) -> Places:
    """The events of all parts, one part after the other."""
    return Places(
        *(
            np.concatenate([np.empty(0, dtype), *(getattr(part, name) for part in parts)])
            for name, dtype in _DTYPES.items()
        )
    )


@dataclass(frozen=True)
class Reused:
    """Events that have the id of another one and say something else, and where some of them are."""

    count: int = 0
    examples: tuple[tuple[int, int], ...] = ()  # file number and offset

    def __add__(self, other: Reused) -> Reused:
        return Reused(self.count + other.count, (self.examples + other.examples)[:MOST_EXAMPLES])


@dataclass(frozen=True)
class SegmentInfo:
    """A segment, as the dispatcher's database lists it."""

    name: str
    events_of: Mapping[int, int] = field(hash=False)  # how many events it holds of each file, by file number
    reused: Reused = Reused()

    @cached_property
    def events(self) -> int:
        return sum(self.events_of.values())


def reused_in(places: Places) -> Reused:
    """The reused ids of sorted events: each follows one of its hash and other content."""
    is_other = places.hashes[1:] == places.hashes[:-1]
    rows = 1 + np.flatnonzero(is_other & (places.digests[1:] != places.digests[:-1]))
    some = places.take(rows[:MOST_EXAMPLES])
    return Reused(len(rows), tuple(zip(some.files.tolist(), some.offsets_bytes.tolist(), strict=True)))


def events_of(places: Places) -> dict[int, int]:
    """How many events are in each file."""
    numbers, counts = np.unique(places.files, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def write_segment(folder: Location, name: str, parts: Iterable[Places], events: int) -> None:
    """Write `events` events, in `parts` that follow each other by hash, and sync them. OSError.

    Readers see all of the file or none of it.
    """

    def write(sink: BinaryIO) -> None:
        at, checksums = 0, [0] * len(_DTYPES)
        for part in parts:
            column_start = _HEADER.size
            for column, (column_name, dtype) in enumerate(_DTYPES.items()):
                data = np.ascontiguousarray(getattr(part, column_name), dtype).data.cast("B")
                sink.seek(column_start + at * np.dtype(dtype).itemsize)
                sink.write(data)
                checksums[column] = zlib.crc32(data, checksums[column])
                column_start += events * np.dtype(dtype).itemsize
            at += len(part)
        assert at == events, f"{at} events in the parts of segment {name}, which was to have {events}"
        sink.seek(0)
        sink.write(_HEADER.pack(_MAGIC, FORMAT_VERSION, events, *checksums))

    store = store_of(folder)
    store.make()
    local_copies.put(folder, file_name(name), write)
    store.sync()


def size_bytes(events: int) -> int:
    """The size of a segment with so many events."""
    return _HEADER.size + EVENT_BYTES * events


def file_name(name: str) -> str:
    """The name of a segment's file."""
    return name + SUFFIX


def open_segment(folder: Location, name: str) -> Segment:
    """A segment, mapped into memory; one on S3 is fetched first. SegmentDamaged, FormatTooNew, OSError."""
    file = file_name(name)
    if isinstance(folder, Path):
        return Segment(folder / file)
    if local_copies.has_copy(folder, file):
        with suppress(SegmentDamaged):
            return Segment(local_copies.path_of(folder, file))
        forget_copy(folder, name)
    try:
        segment = Segment(local_copies.path_of(folder, file))
        segment.check()
    except FileNotFoundError:
        raise SegmentDamaged(f"{folder / file} is not there") from None
    except SegmentDamaged as error:
        forget_copy(folder, name)
        raise SegmentDamaged(f"{folder / file} is damaged: {error}") from None
    return segment


def check_segment(folder: Location, info: SegmentInfo) -> None:
    """See whether a segment is there and whole: of one on S3 its size, for S3 keeps bytes as they are.

    Whoever fetches it compares the checksums. SegmentDamaged, FormatTooNew, OSError.
    """
    if isinstance(folder, Path):
        open_segment(folder, info.name).check()
        return
    found, expected = store_of(folder).size_bytes(file_name(info.name)), size_bytes(info.events)
    if found != expected:
        raise SegmentDamaged(f"{folder / file_name(info.name)} has {found} bytes instead of {expected}")


def forget_copy(folder: Location, name: str) -> None:
    """Remove this machine's copy of a segment on S3, which nobody reads any more."""
    local_copies.forget(folder, file_name(name))


class Segment:
    """An open segment. Its columns are views of the file, which the system reads where they are looked at."""

    def __init__(self, path: Path) -> None:
        """SegmentDamaged, FormatTooNew, OSError."""
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise SegmentDamaged(f"{path} is not there") from None
        except ValueError:  # mmap says so of an empty file
            raise SegmentDamaged(f"{path} is empty") from None
        if len(self._map) < _HEADER.size or self._map[: len(_MAGIC)] != _MAGIC:
            raise SegmentDamaged(f"{path} is no index segment")
        _, version, self.events, *self._checksums = _HEADER.unpack_from(self._map)
        if version > FORMAT_VERSION:
            raise FormatTooNew(path, version, FORMAT_VERSION)
        if version < FORMAT_VERSION:
            raise SegmentDamaged(f"{path} is of an earlier format: {version}")
        if len(self._map) != size_bytes(self.events):
            raise SegmentDamaged(f"{path} has {len(self._map)} bytes, which do not hold {self.events} events")
        columns, start = [], _HEADER.size
        for dtype in _DTYPES.values():
            column = np.frombuffer(self._map, dtype, self.events, start)
            columns.append(column)
            start += column.nbytes
        self.places = Places(*columns)

    def check(self) -> None:
        """Compare the checksums, which reads all of the file. SegmentDamaged."""
        for column, checksum in zip(_DTYPES, self._checksums, strict=True):
            data, found = getattr(self.places, column).data.cast("B"), 0
            for at in range(0, len(data), _CHECK_BYTES):
                found = zlib.crc32(data[at : at + _CHECK_BYTES], found)
            if found != checksum:
                raise SegmentDamaged(f"{self.path}: the checksum of its {column} does not agree")

    def runs(self, wanted: Hashes) -> tuple[Ints, Ints, Ints]:
        """Which of these hashes, which are sorted, it has, and the rows [first, end) of their events."""
        hashes = self.places.hashes
        if not len(hashes) or not len(wanted):
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        first, last = np.searchsorted(hashes, wanted), len(hashes) - 1
        which = np.flatnonzero(hashes[np.minimum(first, last)] == wanted)
        first, own = first[which], wanted[which]
        end = first + 1
        is_long = np.flatnonzero(hashes[np.minimum(end, last)] == own)
        end[is_long] = np.searchsorted(hashes, own[is_long], side="right")
        return which, first, end

    def find(self, wanted: Hashes, most_copies: int | None = None) -> tuple[Ints, Ints]:
        """The events with these hashes, which are sorted: rows of `places`, and whose hash each one has.

        Of each hash at most so many. Without that bound no hash may be wanted twice: an id with thousands
        of events makes as many rows each time.
        """
        which, first, end = self.runs(wanted)
        if most_copies is not None:
            end = np.minimum(end, first + most_copies)
        return rows_of_runs(first, end), np.repeat(which, end - first)


def rows_of_runs(first: Ints, end: Ints) -> Ints:
    """All rows of the stretches [first, end), one stretch after the other."""
    counts = end - first
    rows: Ints = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    return rows
