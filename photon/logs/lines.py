"""Lines of a stretch of bytes: where each begins, and what is in it.

A record is one line, ended by LF; a CR before it is dropped. What a line means belongs in `csv_rows`
and `json_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of some bytes, in order."""

    raws: pa.Array  # binary: without the newline
    starts: np.ndarray  # int64: offset of each in the bytes
    lengths: np.ndarray  # int64: without the newline, with a CR before it


@dataclass(frozen=True, slots=True)
class LineTexts:
    """Some columns of some lines as text: null where a line has none, or where it failed."""

    columns: tuple[pa.Array, ...]
    failures: Mapping[int, str]  # line -> reason; BLANK: it holds nothing at all


BLANK = ""


def split_lines(data: bytes) -> Lines:
    """The lines of `data` (below 2 GiB); the last may lack its newline."""
    if not data:
        return Lines(pa.array([], pa.binary()), np.zeros(0, np.int64), np.zeros(0, np.int64))
    codes = np.frombuffer(data, np.uint8)
    ends = np.where(codes == 10)[0].astype(np.int64)
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
    lengths = ends - starts
    returns = (lengths > 0) & (codes[ends - 1] == 13)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths - returns))).astype(np.int32)
    if returns.any():
        data = (data + b"\n" if returns[-1] else data).replace(b"\r\n", b"")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data.replace(b"\n", b""))]
    return Lines(pa.Array.from_buffers(pa.binary(), len(ends), buffers), starts, lengths)


def join_lines(raws: pa.Array) -> bytes:
    """The inverse of `split_lines`: every line with its newline."""
    raws = pa.concat_arrays([raws, pa.array([b""], pa.binary())])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(raws)], pa.int32()), raws), b"\n")
    return bytes(joined[0].as_py())


def concat_texts(parts: Sequence[LineTexts], sizes: Sequence[int]) -> LineTexts:
    """Texts of consecutive lines, put together; `sizes`: how many lines each part has."""
    failures: dict[int, str] = {}
    first = 0
    for part, size in zip(parts, sizes, strict=True):
        failures.update({first + row: reason for row, reason in part.failures.items()})
        first += size
    columns = zip(*(part.columns for part in parts), strict=True)
    return LineTexts(tuple(pa.concat_arrays(column) for column in columns), failures)
