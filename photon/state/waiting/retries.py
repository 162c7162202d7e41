"""References to waiting records, as plans and tasks carry them: columns, some bytes a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.storage.tokens import Occurrence


@dataclass(frozen=True)
class Retries:
    """Records of one segment that are looked up again, with their places in the log."""

    segment: str
    rows: pa.Array  # int64
    files: pa.Array  # int32
    offsets_bytes: pa.Array  # int64
    finals: pa.Array  # bool: the last lookup, over the whole log: not found means unjoinable

    @classmethod
    def of(
        cls,
        segment: str,
        rows: npt.ArrayLike,
        files: npt.ArrayLike,
        offsets_bytes: npt.ArrayLike,
        finals: npt.ArrayLike,
    ) -> Retries:
        """From anything that is like an array."""
        return cls(
            segment,
            pa.array(np.asarray(rows, np.int64)),
            pa.array(np.asarray(files, np.int32)),
            pa.array(np.asarray(offsets_bytes, np.int64)),
            pa.array(np.asarray(finals, np.bool_)),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, end: int) -> Retries:
        """The records from `start` to `end`."""
        columns = (self.rows, self.files, self.offsets_bytes, self.finals)
        return Retries(self.segment, *(column.slice(start, end - start) for column in columns))

    def occurrences(self) -> Iterator[Occurrence]:
        """Where each record is in the log: an object a record, for what is rare."""
        return map(Occurrence, self.files.to_pylist(), self.offsets_bytes.to_pylist())


def count(retries: Iterable[Retries]) -> int:
    """How many records there are."""
    return sum(map(len, retries))


def part(retries: Sequence[Retries], start: int, end: int) -> tuple[Retries, ...]:
    """The records from `start` to `end`, counted over all segments."""
    parts, at = [], 0
    for of_segment in retries:
        low, high = max(start - at, 0), min(end - at, len(of_segment))
        if low < high:
            parts.append(of_segment.part(low, high))
        at += len(of_segment)
    return tuple(parts)


def occurrences(retries: Iterable[Retries]) -> set[Occurrence]:
    """Where all of these records are in the log."""
    return {occurrence for of_segment in retries for occurrence in of_segment.occurrences()}
