"""Ranges of several files are put behind each other, to be parsed together, and cut into lines or records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from photon.logs.files import ByteRange, LogFile
from photon.logs.formats.dialect import Dialect
from photon.logs.formats.lines import Lines, cut, split_lines
from photon.logs.formats.records import RecordRules
from photon.logs.later_headers import in_first_order, later_headers

# The file of a range, its place in the file, and its bytes.
Piece = tuple[LogFile, ByteRange, bytes]


@dataclass(frozen=True, slots=True)
class JoinedRanges:
    """The lines of some ranges, one range after the other, and where each of them is from."""

    lines: Lines
    file_numbers: np.ndarray  # int32
    offsets: np.ndarray  # int64: in the file
    piece_of: np.ndarray  # int64: which range each is from
    is_rest: np.ndarray  # bool: of a line that began in the range before
    parts: Sequence[bytes]  # the bytes of each range, with a newline at the end
    text: bytes  # all of them
    changed: Sequence[LogFile]  # files among them whose order of columns changes within

    def header_at(self, row: int) -> bytes | None:
        """The header line within a row's file that holds at the row, as noted when the file was cut.

        None: the one that the file begins with.
        """
        noted = (
            later_headers(each.later_headers)
            for each in self.changed
            if each.number == self.file_numbers[row]
        )
        before = [line for headers in noted for at, line in headers if at <= self.offsets[row]]
        return before[-1] if before else None

    def in_first_order(self, dialect: Dialect | None) -> JoinedRanges:
        """The same records, each in the order of columns that its file begins with."""
        if not self.changed:
            return self
        raws = in_first_order(self.lines.raws, self.file_numbers, self.offsets, self.changed, dialect)
        return replace(self, lines=replace(self.lines, raws=raws, data=None))

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> JoinedRanges:
        parts = [data if data.endswith(b"\n") else data + b"\n" for _, _, data in pieces if data]
        text = parts[0] if len(parts) == 1 else b"".join(parts)
        lines = split_lines(text)
        ranges = [where for _, where, data in pieces if data]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        starts = ends - [len(part) for part in parts]
        piece_of = np.searchsorted(ends, lines.starts, side="right")
        from_start = np.array([where.start_bytes for where in ranges], np.int64) - starts
        numbers = np.array([file.number for file, _, data in pieces if data], np.int32)
        inside = np.array([where.starts_inside_oversized for where in ranges], bool)
        is_first = np.diff(piece_of, prepend=-1) != 0
        return cls(
            lines,
            numbers[piece_of],
            lines.starts + from_start[piece_of],
            piece_of,
            is_first & inside[piece_of],
            parts,
            text,
            list({file.number: file for file, _, _ in pieces if file.later_headers}.values()),
        )

    def in_records(self, rules: RecordRules) -> JoinedRanges:
        """The records that these lines make, range by range."""
        rests = np.flatnonzero(self.is_rest)
        starts = [np.empty(0, np.int64)]
        ends = [np.empty(0, np.int64)]
        at = 0
        for part in self.parts:
            first = np.searchsorted(self.lines.starts, at)
            rest_bytes = int(self.lines.lengths[first]) + 1 if first in rests else 0
            if rest_bytes:
                starts.append(np.array([at]))
                ends.append(np.array([at + rest_bytes]))
            found = rules.cut(part[rest_bytes:], at_end=True).ends + at + rest_bytes
            starts.append(np.concatenate(([at + rest_bytes], found[:-1]))[: len(found)])
            ends.append(found)
            at += len(part)
        first_bytes, behind = np.concatenate(starts).astype(np.int64), np.concatenate(ends).astype(np.int64)
        rows = np.searchsorted(self.lines.starts, first_bytes)
        lengths = behind - 1 - first_bytes
        codes = np.frombuffer(self.text, np.uint8)
        returns = (lengths > 0) & (codes[np.maximum(behind - 2, 0)] == 13)
        raws = cut(pa.py_buffer(self.text), first_bytes, behind - 1 - returns, np.zeros(len(rows), bool))
        return replace(
            self,
            lines=Lines(raws, first_bytes, lengths, None),
            file_numbers=self.file_numbers[rows],
            offsets=self.offsets[rows],
            piece_of=self.piece_of[rows],
            is_rest=self.is_rest[rows],
        )
