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
from photon.logs.ranges import RangeGone, read_stretches
from photon.pipeline.location import Location

# A read costs some 1.5 us, in which 4 KiB are copied: lines that are no farther apart are read at once.
NEIGHBOUR_BYTES = 4096
MOST_BYTES_AT_ONCE = 2**28  # an Arrow array of lines holds below 2 GiB, and a gap may follow each line

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of log files, each at another place, by file number and offset."""

    files: Ints
    starts_bytes: Ints
    lengths_bytes: Ints

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, rows: slice) -> Lines:
        return Lines(self.files[rows], self.starts_bytes[rows], self.lengths_bytes[rows])


def read_lines(logs: Location, files: Mapping[int, LogFile], lines: Lines) -> pa.ChunkedArray:
    """The bytes of each line; null where its file can't be read, or is another one now."""
    parts = [_read(logs, files, lines[rows]) for rows in _portions(lines.lengths_bytes)]
    return pa.chunked_array(parts, pa.binary())


def _portions(lengths_bytes: Ints) -> Iterator[slice]:
    """Consecutive rows with at most about `MOST_BYTES_AT_ONCE` of lines, or a single one."""
    portion = (np.cumsum(lengths_bytes) - lengths_bytes) // MOST_BYTES_AT_ONCE
    starts = np.flatnonzero(np.diff(portion, prepend=-1)).tolist()
    yield from (slice(start, end) for start, end in pairwise([*starts, len(lengths_bytes)]))


def _read(logs: Location, files: Mapping[int, LogFile], lines: Lines) -> pa.Array:
    starts, ends = lines.starts_bytes, lines.starts_bytes + lines.lengths_bytes
    is_first = np.ones(len(lines), bool)  # the first line of a stretch
    is_first[1:] = (lines.files[1:] != lines.files[:-1]) | (starts[1:] - ends[:-1] > NEIGHBOUR_BYTES)
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(lines)) - 1
    stretches = list(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True))
    data = read_stretches_in_order(logs, files, lines.files[firsts], stretches)

    lengths = np.array([-1 if part is None else len(part) for part in data])
    is_lost = lengths < 0
    lengths[is_lost] = 0
    stretch = np.cumsum(is_first) - 1  # the stretch of each line
    at = starts + (np.cumsum(lengths) - lengths - starts[firsts])[stretch]  # in all bytes read
    lost = is_lost[stretch]
    at[lost] = (np.cumsum(lengths) - lengths)[stretch[lost]]
    buffer = pa.py_buffer(b"".join(filter(None, data)))
    return cut(buffer, at, at + np.where(lost, 0, lines.lengths_bytes), lost)


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
        except RangeGone:
            data += [None] * len(of_file)
    return data
