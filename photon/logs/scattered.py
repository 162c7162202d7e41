"""Read single lines of a log file by their offsets, neighbouring ones at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.logs.files import LogFile
from photon.logs.ranges import read_stretches

# A read costs some 1.5 us, in which 4 KiB are copied: lines that are no farther apart are read at once.
NEIGHBOUR_BYTES = 4096
MOST_BYTES_AT_ONCE = 2**28  # an Arrow array of lines holds below 2 GiB, and a gap may follow each line

Ints = npt.NDArray[np.int64]


def read_lines(logs_folder: Path, file: LogFile, offsets_bytes: Ints, lengths_bytes: Ints) -> list[pa.Array]:
    """The lines at these offsets, which ascend, as binary arrays one after the other. RangeGone."""
    return [
        _read(logs_folder, file, offsets_bytes[rows], lengths_bytes[rows])
        for rows in _portions(lengths_bytes)
    ]


def _portions(lengths_bytes: Ints) -> Iterator[slice]:
    """Consecutive rows with at most `MOST_BYTES_AT_ONCE` of lines, or a single one."""
    portion = (np.cumsum(lengths_bytes) - lengths_bytes) // MOST_BYTES_AT_ONCE
    starts = np.flatnonzero(np.diff(portion, prepend=-1)).tolist()
    yield from (slice(start, end) for start, end in pairwise([*starts, len(lengths_bytes)]))


def _read(logs_folder: Path, file: LogFile, starts: Ints, lengths: Ints) -> pa.Array:
    ends = starts + lengths
    is_first = np.diff(starts, prepend=0) - np.append([0], lengths[:-1]) > NEIGHBOUR_BYTES  # of a stretch
    is_first[0] = True
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(starts)) - 1
    stretches = list(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True))
    data = b"".join(read_stretches(logs_folder, file, stretches))
    stretch_lengths = ends[lasts] - starts[firsts]
    moved = np.cumsum(stretch_lengths) - stretch_lengths - starts[firsts]  # from the file into `data`
    at = starts + moved[np.cumsum(is_first) - 1]
    # Every other value is a line; between them are the bytes from one line to the next.
    bounds = np.stack((at, at + lengths), axis=1).reshape(-1).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    lines = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
    return lines.take(pa.array(np.arange(0, len(bounds), 2)))
