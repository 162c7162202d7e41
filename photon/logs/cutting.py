"""Cutting the next range of one open log file: what is read for it, and what it looks like.

Where a range ends is decided in `ranges.cut_lines`; which file is cut, and when, in `tail`.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

from photon.logs.files import ByteRange, TrackedFile
from photon.logs.ranges import cut_lines
from photon.logs.source import TAIL_BYTES, Source, hash_bytes


def cut_range(
    source: Source,
    tracked: TrackedFile,
    budget_bytes: int,
    line_limit_bytes: int,
    final: bool = False,
    size_bytes: int | None = None,
) -> tuple[ByteRange, TrackedFile] | None:
    """The next range of whole lines, and the file as it stands behind it; None: no whole line is waiting.

    At most `budget_bytes`, but at least one line up to the limit. `final`: an unterminated last line
    counts; `size_bytes`: lines that begin at or after it are left alone (both protocol D4).
    """
    start = tracked.offset_bytes
    data, at_end = _read_lines(source, start, budget_bytes, line_limit_bytes, size_bytes)
    cut = cut_lines(data, tracked.inside_oversized, final and at_end, line_limit_bytes)
    if cut is None:
        return None
    end = start + cut.length_bytes
    data = data[: cut.length_bytes]
    tail_start = min(start, max(0, end - TAIL_BYTES))  # a short range takes bytes before it into its tail
    tail = (source.read(tail_start, start - tail_start) + data)[-TAIL_BYTES:]
    byte_range = ByteRange(
        file_number=tracked.file.number,
        start_bytes=start,
        end_bytes=end,
        checksum=zlib.crc32(data),
        lines=cut.lines,
        starts_inside_oversized=tracked.inside_oversized,
        ends_inside_oversized=cut.ends_inside_oversized,
    )
    inside = cut.ends_inside_oversized
    return byte_range, replace(tracked, offset_bytes=end, tail_hash=hash_bytes(tail), inside_oversized=inside)


def _read_lines(
    source: Source, start: int, budget_bytes: int, line_limit_bytes: int, size_bytes: int | None
) -> tuple[bytes, bool]:
    """Bytes to cut a range from, and whether they reach the end of what is to be read."""
    length_bytes = budget_bytes if size_bytes is None else min(budget_bytes, size_bytes - start)
    if length_bytes <= 0:
        return b"", True
    data = source.read(start, length_bytes)
    if len(data) < length_bytes:
        return data, True
    # The budget or `size_bytes` ends here, perhaps amid a line. A first line, and one that begins before
    # `size_bytes`, are read to their end, or far enough to know that they are too long.
    at_size = start + len(data) == size_bytes
    if data.endswith(b"\n") or (b"\n" in data and not at_size):
        return data, at_size
    more = source.read(start + len(data), line_limit_bytes + 1)
    end = more.find(b"\n") + 1
    return (data + more[:end], at_size) if end else (data + more, len(more) <= line_limit_bytes)
