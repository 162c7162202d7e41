"""Lines of a stretch of bytes. Their values are read by `csv_lines` and `json_lines`.

A record is one line, or several (`records`), ended by LF; a CR before it is dropped. It means what a
parser makes of it by itself: reading many at once is only quicker, and is done where it is sure to say
the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SMALLEST_BLOCK = 64  # below it, one by one is as quick as another attempt on half of it

BLANK = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of some bytes, in order."""

    raws: pa.Array  # binary: without the newline
    starts: np.ndarray  # int64: offset of each in the bytes
    lengths: np.ndarray  # int64: without the newline, with a CR before it
    data: bytes | None  # all of them as `join_lines` would join them, if they are at hand


@dataclass(frozen=True, slots=True)
class LineTexts:
    """Some columns of some lines as text: null where a line has none, or where it failed.

    Numbers may be int64 where only their value matters.
    """

    columns: tuple[pa.Array, ...]
    failures: Mapping[int, str]  # line -> reason; BLANK: it holds nothing at all


class LineReader(ABC):
    """The lines of one format. Each line means what `record` makes of it; the rest is only quicker."""

    @abstractmethod
    def record(self, raw: bytes) -> Mapping[str, str | None]:
        """The values of one line by key, as text; ValueError says why it is no record."""

    def may_escape(self, data: bytes) -> bool:
        """These lines may spell a value otherwise than by its own characters."""
        return True

    def value(self, record: Mapping[str, str | None], name: str) -> str | None:
        """A record's value of this name; None where it has none."""
        return record[name] if name in record else self.inner(record).get(name)

    def inner(self, record: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """The values that lie in others, by names of their own; a row has no columns of them."""
        return {}

    def texts(
        self, raws: pa.Array, names: Sequence[str], valued: Collection[str] = (), data: bytes | None = None
    ) -> LineTexts:
        """The values of `names` in lines that are UTF-8, as strings.

        `valued`: of these only a number's value matters, not how it is written, and whole ones may come as
        int64. `data`: the lines joined, if they are at hand.
        """
        failures: dict[int, str] = {}
        values: list[list[str | None]] = [[] for _ in names]
        for row, raw in enumerate(raws.to_pylist()):
            record: Mapping[str, str | None] | None
            try:
                record = self.record(raw)
            except ValueError as error:
                failures[row] = str(error)
                record = None
            for name, column in zip(names, values, strict=True):
                column.append(None if record is None else self.value(record, name))
        return LineTexts(tuple(pa.array(column, pa.string()) for column in values), failures)

    def all_texts(self, raws: pa.Array) -> dict[str, pa.Array] | None:
        """All values of lines that are UTF-8, by key; None where they are to be read one by one."""
        return None


def split_lines(data: bytes) -> Lines:
    """The lines of `data` (below 2 GiB); the last may lack its newline."""
    if not data:
        return Lines(pa.array([], pa.binary()), np.zeros(0, np.int64), np.zeros(0, np.int64), None)
    codes = np.frombuffer(data, np.uint8)
    ends = np.where(codes == 10)[0].astype(np.int64)
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
    lengths = ends - starts
    returns = (lengths > 0) & (codes[ends - 1] == 13)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths - returns))).astype(np.int32)
    is_joined = data.endswith(b"\n") and not returns.any()
    joined = data if is_joined else None
    if returns.any():
        data = (data + b"\n" if returns[-1] else data).replace(b"\r\n", b"")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data.replace(b"\n", b""))]
    return Lines(pa.Array.from_buffers(pa.binary(), len(ends), buffers), starts, lengths, joined)


def cut(text: pa.Buffer, starts: np.ndarray, ends: np.ndarray, is_lost: np.ndarray) -> pa.Array:
    """The bytes of `text` from each start to its end, without a copy of each; null where lost."""
    # Every other value is wanted; between them are the bytes from one to the next.
    bounds = np.stack((starts, ends), axis=1).reshape(-1)
    values = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds.astype(np.int32)), text]
    )
    return values.take(pa.array(np.arange(0, len(bounds), 2), mask=is_lost))


def join_lines(raws: pa.Array) -> bytes:
    """The inverse of `split_lines`: every line with its newline."""
    _, offsets, data = pc.binary_join_element_wise(raws, b"", b"\n").buffers()
    return b"" if data is None else bytes(data[: np.frombuffer(offsets, np.int32)[len(raws)]])


def in_halves(raws: pa.Array, read: Callable[[pa.Array], LineTexts]) -> LineTexts:
    """Read two halves of the lines one after the other."""
    half = len(raws) // 2
    first, second = read(raws[:half]), read(raws[half:])
    failures = {**first.failures, **{half + row: reason for row, reason in second.failures.items()}}
    columns = zip(first.columns, second.columns, strict=True)
    return LineTexts(tuple(map(_one_behind_the_other, columns)), failures)


def _one_behind_the_other(halves: tuple[pa.Array, pa.Array]) -> pa.Array:
    first, second = halves
    if first.type != second.type:  # whole numbers, and other texts
        first, second = first.cast(pa.string()), second.cast(pa.string())
    return pa.concat_arrays([first, second])


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """All chunks of a column as one."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
