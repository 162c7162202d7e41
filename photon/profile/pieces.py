"""Pieces of one log file: its beginning and, of a long one, some from elsewhere; cut at whole records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from photon.logs.discovery import FoundFile
from photon.logs.formats.lines import split_lines
from photon.logs.formats.records import RecordRules
from photon.logs.source import Source

# A longer file gives so much of its share from its beginning, the rest from its middle and its end.
SHARE_OF_BEGINNING = 0.5
# How long a gzip file is nobody knows. Pieces of it are looked for at these multiples of its share: the
# farthest costs the decompression of 256 MiB at most, a second or two.
GZIP_PLACES = (16, 4, 1)
TIMES_LONGEST = 4  # times the longest record of the beginning: no other one is taken to be longer


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a file that follow each other."""

    start_bytes: int
    data: bytes


def pieces_of(source: Source, file: FoundFile, most_bytes: int) -> tuple[list[Piece], bool]:
    """The beginning of a file, and pieces from elsewhere if it is longer; whether they are all of it."""
    data = source.read(0, most_bytes)
    if len(data) < most_bytes:
        return [Piece(0, data)], True
    first = Piece(0, data[: int(most_bytes * SHARE_OF_BEGINNING)])
    each_bytes = (most_bytes - len(first.data)) // 2
    if file.compressed:
        places = [most_bytes * times for times in GZIP_PLACES]
    else:
        middle_bytes, end_bytes = file.size_bytes // 2, file.size_bytes - each_bytes
        places = [max(middle_bytes, len(first.data)), max(end_bytes, middle_bytes + each_bytes)]
    others = list[Piece]()
    for place in places:
        if len(others) < 2 and (data := source.read(place, each_bytes)):
            others.append(Piece(place, data))
    return [first, *sorted(others, key=lambda piece: piece.start_bytes)], False


def whole_records(pieces: Sequence[Piece], rules: RecordRules | None, is_whole: bool) -> tuple[Piece, ...]:
    """The pieces without records that are cut. The first begins with one; `is_whole`: it ends the file."""
    if is_whole:
        return tuple(pieces)
    usual = None if rules is None else _usual(pieces[0], rules)
    begun = [pieces[0], *(_from_next_record(piece, usual) for piece in pieces[1:])]
    return tuple(Piece(each.start_bytes, each.data[: _whole_bytes(each.data, rules)]) for each in begun)


def _usual(first: Piece, rules: RecordRules) -> RecordRules:
    """The rules by which a record is looked for: elsewhere too few are far longer than at the beginning."""
    longest = int(np.diff(rules.cut(first.data).ends, prepend=0).max(initial=0))
    return replace(rules, limit_bytes=min(rules.limit_bytes, TIMES_LONGEST * longest))


def _from_next_record(piece: Piece, rules: RecordRules | None) -> Piece:
    start = piece.data.find(b"\n") + 1
    if rules is not None:
        sure = rules.sure_start(piece.data[start:], is_at_end=False)
        start = len(piece.data) if sure is None else start + sure
    return Piece(piece.start_bytes + start, piece.data[start:])


def _whole_bytes(data: bytes, rules: RecordRules | None) -> int:
    return data.rfind(b"\n") + 1 if rules is None else rules.cut(data).open_bytes


def raws_of(piece: Piece, rules: RecordRules | None) -> pa.Array:
    """The records of a piece, each without its line end."""
    if rules is None:
        return split_lines(piece.data).raws
    ends = rules.cut(piece.data, at_end=True).ends
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))[: len(ends)]
    records = [piece.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return pa.array([raw.removesuffix(b"\n").removesuffix(b"\r") for raw in records], pa.binary())
