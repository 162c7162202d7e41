"""Records of one log at places that rows name, read many at once, and what their columns say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.dispatcher.reading_again import as_mended
from photon.join.adapting import RawRecords
from photon.join.records import raw_records
from photon.logs.files import LogFile, TrackedFile
from photon.logs.forgotten_files import are_forgotten
from photon.logs.lines_at import ends_of_files, read_records_at
from photon.logs.parse import parse_combined
from photon.pipeline.location import Location
from photon.pipeline.sections import Log
from photon.storage.tokens import Occurrence

Rows = TypeVar("Rows", pa.Array, pa.ChunkedArray, pa.Table)
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LogCopy:
    """One log in one datacenter, as far as it was read."""

    folder: Location
    log: Log
    files: Mapping[int, TrackedFile]
    line_bytes: int  # a longer line is none
    mended: Mapping[Occurrence, bytes]  # in the places of the log's lines (0047)


@dataclass(frozen=True)
class RecordsAt:
    """The records of one log at the places that rows name."""

    raws: RawRecords
    log: Log
    is_read: Mask  # false: nothing can be read at its place; then its bytes are empty
    is_place: Mask  # whether its place lies in what was read of a log file, whether that is there or not

    @classmethod
    def read(cls, numbers: Ints, offsets: Ints, copy: LogCopy) -> RecordsAt:
        """The records that begin at these offsets of these files."""
        lines = read_records_at(copy.folder, copy.files, numbers, offsets, copy.line_bytes, copy.log)
        lines = as_mended(lines, numbers, offsets, copy.mended)
        is_read = pc.is_valid(lines).to_numpy(zero_copy_only=False)
        files: dict[int, LogFile] = {number: one.file for number, one in copy.files.items()}
        known = np.where(is_read, numbers, -1)
        files[-1] = LogFile(-1, "foreign", "", 0, False, b"", 0, 0, b"")
        is_inside = offsets < ends_of_files(numbers, copy.files)
        is_place = (offsets >= 0) & (is_inside | are_forgotten(numbers, copy.files))
        return cls(raw_records(pc.fill_null(lines, b""), known, files), copy.log, is_read, is_place)

    @property
    def can_be_wrong(self) -> Mask:
        """Which places name no record for sure, if they don't name the right one: their logs are there."""
        return self.is_read | ~self.is_place

    def texts(self, *wanted: Sequence[str]) -> list[pa.Array]:
        """The values of each of these groups of columns together in each record; null where it has none."""
        raws = self.raws
        parts: list[list[pa.Array]] = []
        places: list[Ints] = [np.empty(0, np.int64)]
        for number, header in enumerate(raws.headers):
            rows = np.flatnonzero((raws.header_of == number) & self.is_read)
            file = LogFile(0, "foreign", "", 0, False, header, 0, 0, b"")
            if len(rows):
                parts.append(parse_combined(take(raws.raws, rows), file, self.log, *wanted))
                places.append(rows)
        at = np.full(len(raws.raws), -1)
        at[np.concatenate(places)] = np.arange(sum(map(len, places)))
        found = [
            pa.chunked_array([pa.array([], pa.string()), *(part[n] for part in parts)])
            for n in range(len(wanted))
        ]
        return [each.take(pa.array(at, mask=at < 0)).combine_chunks() for each in found]

    def only(self, wanted: Mask) -> RecordsAt:
        if wanted.all():
            return self
        rows, raws = np.flatnonzero(wanted), self.raws
        some = RawRecords(raws.raws.take(pa.array(rows)), raws.headers, raws.header_of[rows])
        return RecordsAt(some, self.log, self.is_read[rows], self.is_place[rows])


def take(values: Rows, rows: Ints) -> Rows:
    """These rows, in ascending order, without a copy where it is all of them."""
    return values if len(rows) == len(values) else values.take(pa.array(rows))


def are(texts: pa.Array, expected: pa.Array | pa.ChunkedArray) -> Mask:
    """Which records say what is expected of them."""
    same: Mask = pc.fill_null(pc.equal(texts, expected), False).to_numpy(zero_copy_only=False)
    return same


def places_of(occurrences: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """The file numbers and offsets of occurrences; -1 where a text is none."""
    parts = pc.extract_regex(occurrences, r"^(?P<file>\d{1,9}):(?P<offset>\d{1,18})$")
    found = [pc.fill_null(pc.struct_field(parts, name).cast(pa.int64()), -1) for name in ("file", "offset")]
    file, offset = (column.to_numpy(zero_copy_only=False).astype(np.int64) for column in found)
    return file, offset
