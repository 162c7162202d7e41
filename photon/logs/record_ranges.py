"""Ranges of whole records of several lines: where one ends, and where the first of a stretch begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from photon.logs.formats.lines import cut
from photon.logs.formats.records import Cuts, RecordRules

Read = Callable[[int, int], bytes]  # from an offset on so many bytes; fewer where the file ends
STEP_BYTES = 2**22
LOOKED_AROUND_BYTES = (
    2**16
)  # beside a record's limit before and behind a place, at first; then eight times as many


@dataclass(frozen=True, slots=True)
class RecordsCut:
    """Where a range of records ends."""

    end_bytes: int  # offset in the file
    lines: int
    ends_inside_oversized: bool = False
    headers: tuple[tuple[int, bytes], ...] = ()  # header lines in it, by their offsets


def cut_records(
    read: Read, rules: RecordRules, start: int, target: int, final: bool, to_record_end: bool
) -> RecordsCut | None:
    """The records from `start`, where one begins, up to `target`; the first one may go beyond it.

    `final`: nothing follows the end of the file. `to_record_end`: a record that begins before `target` is
    taken as a whole. None: no record is known to its end.
    """
    at, lines, rest = start, 0, b""
    headers: list[tuple[int, bytes]] = []
    is_at_end = False
    while at + len(rest) < target and not is_at_end and not _is_long(rest, rules):
        wanted = min(STEP_BYTES, target - at - len(rest))
        data = read(at + len(rest), wanted)
        is_at_end = len(data) < wanted
        rest += data
        if is_at_end and final:
            ends_inside = _is_long(rest[rest.rfind(b"\n") + 1 :], rules)
            found = rules.cut(rest, at_end=True)
            lines += int(found.lines.sum())
            headers += _headers(rest, found, at, rules)
            end = at + len(rest)
            return RecordsCut(end, lines, ends_inside, tuple(headers)) if end > start else None
        found = rules.cut(rest)
        if len(found.ends):
            taken = int(found.ends[-1])
            headers += _headers(rest, found, at, rules)
            at, lines, rest = at + taken, lines + int(found.lines.sum()), rest[taken:]
    if rest and not is_at_end and (at == start or to_record_end) and not _is_long(rest, rules):
        wanted = rules.limit_bytes + 2  # each record that begins in `rest` is known to its end
        data = read(at + len(rest), wanted)
        is_final = final and len(data) < wanted
        found = rules.cut(rest + data, is_final)
        if to_record_end:
            count = int(np.searchsorted(found.ends, len(rest))) + 1
        else:
            count = max(1, int(np.searchsorted(found.ends, len(rest), side="right")))
        count = min(count, len(found.ends))
        if count:
            some = Cuts(found.ends[:count], found.lines[:count], 0)
            headers += _headers(rest + data, some, at, rules)
            at, lines = at + int(found.ends[count - 1]), lines + int(found.lines[:count].sum())
        else:
            rest += data
    if at > start:
        return RecordsCut(at, lines, headers=tuple(headers))
    return RecordsCut(at + len(rest), 0, True) if _is_long(rest, rules) else None


def _headers(data: bytes, found: Cuts, at: int, rules: RecordRules) -> list[tuple[int, bytes]]:
    """The header lines among these records, whose bytes begin at an offset."""
    starts = np.concatenate((np.zeros(1, np.int64), found.ends))[:-1]
    alike = rules.as_long_as_headers(found.ends - 1 - starts)
    if not len(alike):
        return []
    starts, ends = starts[alike], found.ends[alike] - 1
    raws = cut(pa.py_buffer(data), starts, ends, np.zeros(len(ends), bool))
    rows = rules.headers(raws, ends - starts).tolist()
    return [(at + int(starts[row]), raws[row].as_py().removesuffix(b"\r")) for row in rows]


def _is_long(rest: bytes, rules: RecordRules) -> bool:
    """Whether bytes begin with a line beyond the limit, whose end is not there."""
    return len(rest) > rules.limit_bytes and b"\n" not in rest


def first_record(read: Read, rules: RecordRules, begins: int, start: int, end: int) -> int:
    """Where the first record begins at `start` or behind it; `begins`: where the first of the file does.

    `end`: of what counts of the file. Reads backwards until a record is found that begins for sure.
    """
    around_bytes = rules.limit_bytes + LOOKED_AROUND_BYTES
    while start - around_bytes > begins:
        first = start - around_bytes
        data = read(first, min(end - first, 2 * around_bytes))
        line = first + data.find(b"\n") + 1
        sure = rules.sure_start(data[line - first :], is_at_end=first + len(data) >= end)
        if line > first and sure is not None and line + sure <= start:
            return _walk(read, rules, line + sure, start, end)
        around_bytes *= 8
    return _walk(read, rules, begins, start, end)


def _walk(read: Read, rules: RecordRules, at: int, start: int, end: int) -> int:
    """The first record at `start` or behind it, from one that begins before it."""

    def up_to_end(offset: int, length: int) -> bytes:
        return read(offset, min(length, end - offset))

    while at < start:
        found = cut_records(up_to_end, rules, at, start, final=True, to_record_end=True)
        if found is None:
            return end
        at = found.end_bytes
        if found.ends_inside_oversized:
            at = _behind_line(up_to_end, at, end)
    return at


def _behind_line(read: Read, at: int, end: int) -> int:
    while at < end:
        data = read(at, min(STEP_BYTES, end - at))
        if newline := data.find(b"\n") + 1:
            return at + newline
        at += len(data) or end
    return end
