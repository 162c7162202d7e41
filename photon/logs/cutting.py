"""Where the next range of a growing file ends: behind its last whole record within the budget.

`photon.logs.ranges` reads again what is cut here.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

from photon.logs.files import ByteRange, TrackedFile
from photon.logs.formats.records import RecordRules
from photon.logs.later_headers import changes_of, with_later_headers
from photon.logs.record_ranges import cut_records
from photon.logs.source import TAIL_BYTES, Source, hash_bytes

# A longer range is cut and known again by its last bytes: no byte before them is read to plan it. Other bytes
# in the place of a log are other ones here too.
CHECKED_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class LinesCut:
    """Where a range ends in the bytes that were read."""

    length_bytes: int
    lines: int
    ends_inside_oversized: bool


def cut_lines(data: bytes, inside_oversized: bool, at_end: bool, line_limit_bytes: int) -> LinesCut | None:
    """Where the range that begins with `data` ends: behind the last newline, where there is one.

    Pass over a line longer than the limit in pieces, so that it needs no more memory than
    others. `at_end`: nothing follows `data`, and an unterminated last line counts (protocol D4).
    None: wait for more.
    """
    end = data.rfind(b"\n") + 1
    lines = data.count(b"\n")
    rest_bytes = len(data) - end
    rest_is_oversized = rest_bytes > line_limit_bytes or (inside_oversized and end == 0)
    if at_end and rest_bytes:
        return LinesCut(len(data), lines + 1, rest_is_oversized)
    if end:
        return LinesCut(end, lines, False)
    return LinesCut(len(data), 0, True) if rest_bytes and rest_is_oversized else None


def cut_range(
    source: Source,
    tracked: TrackedFile,
    budget_bytes: int,
    line_limit_bytes: int,
    final: bool = False,
    size_bytes: int | None = None,
    rules: RecordRules | None = None,
) -> tuple[ByteRange, TrackedFile] | None:
    """The next range of whole records, and the file after it; None: no whole record is waiting.

    At most `budget_bytes`, but at least one record up to the limit. `final`: an unterminated last line
    counts; `size_bytes`: records that begin at or after it are left alone (both protocol D4). `rules`: of
    records over several lines; None: each line is one.
    """
    start, limit_bytes = tracked.offset_bytes, line_limit_bytes
    if rules is not None and not tracked.inside_oversized:
        return _cut_records(source, tracked, budget_bytes, rules, final, size_bytes)
    if rules is not None:
        budget_bytes = 1  # to the end of that line: behind it a record begins
    length_bytes = budget_bytes if size_bytes is None else min(budget_bytes, size_bytes - start)
    first = start + max(0, length_bytes - CHECKED_BYTES)
    last_bytes = length_bytes - (first - start)
    data, at_end = _read_lines(source, first, last_bytes, limit_bytes, size_bytes)
    if first > start and b"\n" not in data[:last_bytes]:  # inside a long line, or behind the file's end
        first = start
        data, at_end = _read_lines(source, start, length_bytes, limit_bytes, size_bytes)
    cut = cut_lines(data, tracked.inside_oversized, final and at_end, limit_bytes)
    if cut is None:
        return None
    end = first + cut.length_bytes
    data = data[: cut.length_bytes]
    tail_start = min(first, max(0, end - TAIL_BYTES))  # a short range takes bytes before it into its tail
    tail = (source.read(tail_start, first - tail_start) + data)[-TAIL_BYTES:]
    byte_range = ByteRange(
        file_number=tracked.file.number,
        start_bytes=start,
        end_bytes=end,
        checksum=zlib.crc32(data),
        lines=cut.lines * (end - start) // (end - first),
        starts_inside_oversized=tracked.inside_oversized,
        ends_inside_oversized=cut.ends_inside_oversized,
        unchecked_bytes=first - start,
    )
    inside = cut.ends_inside_oversized
    return byte_range, replace(tracked, offset_bytes=end, tail_hash=hash_bytes(tail), inside_oversized=inside)


def _cut_records(
    source: Source,
    tracked: TrackedFile,
    budget_bytes: int,
    rules: RecordRules,
    final: bool,
    size_bytes: int | None,
) -> tuple[ByteRange, TrackedFile] | None:
    """The next range of records over several lines; all of it is read, for each quote counts."""
    start = tracked.offset_bytes
    target = start + budget_bytes if size_bytes is None else min(start + budget_bytes, size_bytes)
    found = cut_records(source.read, rules, start, target, final, to_record_end=target == size_bytes)
    if found is None:
        return None
    end, inside = found.end_bytes, found.ends_inside_oversized
    first = max(start, end - CHECKED_BYTES)
    byte_range = ByteRange(
        file_number=tracked.file.number,
        start_bytes=start,
        end_bytes=end,
        checksum=zlib.crc32(source.read(first, end - first)),
        lines=found.lines,
        ends_inside_oversized=inside,
        unchecked_bytes=first - start,
    )
    tail = source.read(max(0, end - TAIL_BYTES), min(end, TAIL_BYTES))
    file = tracked.file
    if changes := changes_of(file, found.headers, rules.dialect):
        file = with_later_headers(file, changes)
    after = replace(tracked, file=file, offset_bytes=end, tail_hash=hash_bytes(tail), inside_oversized=inside)
    return byte_range, after


def cut_to_end(source: Source, tracked: TrackedFile) -> tuple[ByteRange, TrackedFile] | None:
    """All that is left of an object, which is what it is without a checksum; its lines are estimated.

    None: what it begins with, which is at hand since it was seen first, has no whole line.
    """
    start, end = tracked.offset_bytes, tracked.size_bytes
    beginning = source.read(0, min(end, CHECKED_BYTES))
    newlines = beginning.count(b"\n")
    if not newlines or tracked.inside_oversized:
        return None
    byte_range = ByteRange(
        file_number=tracked.file.number,
        start_bytes=start,
        end_bytes=end,
        checksum=zlib.crc32(b""),
        lines=1 + newlines * (end - start) // len(beginning),  # never too few: one line is not cut in halves
        unchecked_bytes=end - start,
    )
    return byte_range, replace(tracked, offset_bytes=end, tail_hash=b"")


def _read_lines(
    source: Source, start: int, length_bytes: int, line_limit_bytes: int, size_bytes: int | None
) -> tuple[bytes, bool]:
    """Bytes to cut a range from, and whether they reach the end of the file, or `size_bytes`."""
    if length_bytes <= 0:
        return b"", True
    data = source.read(start, length_bytes)
    if len(data) < length_bytes:
        return data, True
    # The budget or `size_bytes` ends here, perhaps inside a line. A first line, and one that begins before
    # `size_bytes`, are read to their end, or far enough to know that they are too long.
    at_size = start + len(data) == size_bytes
    if data.endswith(b"\n") or (b"\n" in data and not at_size):
        return data, at_size
    more = source.read(start + len(data), line_limit_bytes + 1)
    end = more.find(b"\n") + 1
    return (data + more[:end], at_size) if end else (data + more, len(more) <= line_limit_bytes)
