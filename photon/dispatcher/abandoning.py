"""Work that kept its batch from ending, in smaller pieces (protocol A11).

Halving of items is pure (`planning.halves`); a single range is cut in two by its lines, for which its
bytes are read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from photon.dispatcher.plan import PlanContent
from photon.dispatcher.planning import halves
from photon.logs.files import ByteRange, TrackedFile
from photon.logs.ranges import RangeGone, read_range


def halves_of_plan(
    content: PlanContent, reason: str, files: Mapping[int, TrackedFile], logs: Path
) -> list[PlanContent]:
    """The content in two halves; a single record goes to quarantine, for `reason`."""
    pieces = halves(content)
    if len(pieces) > 1:
        return pieces
    ranges = (*content.primary, *content.foreign)
    if ranges and ranges[0].lines > 1:
        cut = _cut(ranges[0], files[ranges[0].file_number], logs)
        if cut is not None:
            if content.primary:
                return [replace(content, primary=(part,)) for part in cut]
            return [replace(content, foreign=(part,)) for part in cut]
    return [replace(content, quarantine=f"it kept its batch from ending: {reason}")]


def _cut(byte_range: ByteRange, tracked: TrackedFile, logs: Path) -> list[ByteRange] | None:
    """A range as two of whole lines; None if its bytes are gone or it can't be cut."""
    try:
        data = read_range(logs, tracked.file, byte_range)
    except RangeGone:
        return None
    middle = data.find(b"\n", len(data) // 2) + 1
    if middle in (0, len(data)):
        middle = data.rfind(b"\n", 0, len(data) // 2) + 1
    if middle in (0, len(data)):
        return None
    head, tail = data[:middle], data[middle:]
    at = byte_range.start_bytes + middle
    first = replace(
        byte_range, end_bytes=at, checksum=crc32(head), lines=head.count(b"\n"), ends_inside_oversized=False
    )
    second = replace(
        byte_range,
        start_bytes=at,
        checksum=crc32(tail),
        lines=byte_range.lines - first.lines,
        starts_inside_oversized=False,
    )
    return [first, second]
