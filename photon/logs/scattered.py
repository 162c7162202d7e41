"""Read single lines of many log files by their offsets, neighbouring ones at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.logs.files import LogFile
from photon.logs.folders import log_folder
from photon.logs.formats.lines import cut
from photon.logs.ranges import NOT_READ_AGAIN, read_stretches
from photon.pipeline.location import Location

# A read costs some 1.5 us, in which 4 KiB are copied: lines that are no farther apart are read at once.
NEIGHBOUR_BYTES = 4096
MOST_BYTES_AT_ONCE = 2**24  # bounds memory; larger portions outgrow a core's cache, and take twice as long

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScatteredLines:
    """Lines of log files, each at another place, by file number and offset."""

    files: Ints
    starts_bytes: Ints
    lengths_bytes: Ints


@dataclass(frozen=True, slots=True)
class LinePlaces:
    """Places in log files, in the order of files and offsets. Two may overlap."""

    numbers: Ints
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: slice) -> LinePlaces:
        return LinePlaces(self.numbers[rows], self.starts[rows], self.ends[rows])

    def begins_stretch(self) -> npt.NDArray[np.bool_]:
        """Whether a place is too far from the one before it to be read together with it."""
        is_first = np.ones(len(self), bool)
        is_far = np.diff(self.starts) > NEIGHBOUR_BYTES
        is_first[1:] = (self.numbers[1:] != self.numbers[:-1]) | is_far
        return is_first

    def portions(self) -> Iterator[slice]:
        """Consecutive rows of which about `MOST_BYTES_AT_ONCE` are read, or a single one."""
        read_bytes = self.ends - np.where(self.begins_stretch(), self.starts, np.roll(self.ends, 1))
        portion = (np.cumsum(read_bytes) - read_bytes) // MOST_BYTES_AT_ONCE
        firsts = np.flatnonzero(np.diff(portion, prepend=-1)).tolist()
        yield from (slice(first, after) for first, after in pairwise([*firsts, len(self)]))


@dataclass(frozen=True, slots=True)
class ReadPlaces:
    """The bytes of places, neighbours together; nothing of those that could not be read."""

    text: bytes
    starts: Ints  # where each place begins in the text; at its end or beyond: the place could not be read
    ends: Ints  # where the bytes end that were read together with it
    ends_in_file: Ints  # the same, by their offsets in its file


def read_places(logs: Location, files: Mapping[int, LogFile], places: LinePlaces) -> ReadPlaces:
    """The bytes at these places, and behind each up to the end of its stretch. LogsUnavailable."""
    is_first = places.begins_stretch()
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(places)) - 1
    stretches = list(zip(places.starts[firsts].tolist(), places.ends[lasts].tolist(), strict=True))
    data = [part or b"" for part in read_stretches_in_order(logs, files, places.numbers[firsts], stretches)]
    lengths = np.array([len(part) for part in data], np.int64)
    ends = np.cumsum(lengths)
    stretch = np.cumsum(is_first) - 1  # the stretch of each place
    starts = places.starts + (ends - lengths - places.starts[firsts])[stretch]
    return ReadPlaces(b"".join(data), starts, ends[stretch], places.ends[lasts][stretch])


def read_lines(logs: Location, files: Mapping[int, LogFile], lines: ScatteredLines) -> pa.ChunkedArray:
    """The bytes of each line; null where its file can't be read, or is another one now."""
    places = LinePlaces(lines.files, lines.starts_bytes, lines.starts_bytes + lines.lengths_bytes)
    parts = [_read_lines(logs, files, places[rows]) for rows in places.portions()]
    return pa.chunked_array(parts, pa.binary())


def _read_lines(logs: Location, files: Mapping[int, LogFile], places: LinePlaces) -> pa.Array:
    read = read_places(logs, files, places)
    ends = read.starts + places.ends - places.starts
    is_lost = ends > read.ends
    starts, ends = np.where(is_lost, 0, read.starts), np.where(is_lost, 0, ends)
    return cut(pa.py_buffer(read.text), starts, ends, is_lost)


def read_stretches_in_order(
    logs: Location, files: Mapping[int, LogFile], numbers: Ints, stretches: list[tuple[int, int]]
) -> list[bytes | None]:
    """The bytes of each stretch, sorted by file; None where a file can't be read. LogsUnavailable."""
    data: list[bytes | None] = []
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    bounds = pairwise([*starts, len(stretches)])
    wanted = [(files[int(numbers[first])], stretches[first:after]) for first, after in bounds]
    for (file, of_file), found in zip(wanted, log_folder(logs).read_in_place(wanted), strict=True):
        try:
            data += read_stretches(logs, file, of_file) if found is None else found
        except NOT_READ_AGAIN:
            data += [None] * len(of_file)
    return data
