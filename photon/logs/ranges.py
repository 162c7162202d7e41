"""Stretches of whole lines: where a range ends, and reading it again."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import PurePath

from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.logs.folders import log_folder
from photon.logs.later_headers import changes_of, with_later_headers
from photon.logs.record_ranges import cut_records, first_record
from photon.logs.records import RecordRules, record_rules
from photon.logs.source import TAIL_BYTES, UNREADABLE, LogsUnavailable, Source, has_head, has_tail, hash_bytes
from photon.pipeline.location import Location
from photon.pipeline.sections import Log

# A longer range is cut and known again by its last bytes: no byte before them is read to plan it. Other bytes
# in the place of a log are other ones here too.
CHECKED_BYTES = 2**16
RANGES_AT_ONCE, MOST_BYTES_AT_ONCE = 16, 2**25  # of objects, that a task reads together
_STEP_BYTES = 2**16


class RangeGone(Exception):
    """The bytes of a planned range are not there any more: the file was truncated, replaced or removed."""

    def __init__(self, file: LogFile, start_bytes: int, end_bytes: int, reason: str) -> None:
        super().__init__(file, start_bytes, end_bytes, reason)  # so that it pickles
        self.file, self.start_bytes, self.end_bytes, self.reason = file, start_bytes, end_bytes, reason

    def __str__(self) -> str:
        where = f"bytes {self.start_bytes} to {self.end_bytes} of {self.file.side} log file {self.file.path}"
        return f"{where} (number {self.file.number}) are not there any more: {self.reason}"


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


@dataclass(frozen=True, slots=True)
class Checked:
    """What is known of the bytes of a stretch: a crc32, of all but its first so many."""

    checksum: int
    unchecked_bytes: int

    def holds(self, data: bytes) -> bool:
        return zlib.crc32(memoryview(data)[self.unchecked_bytes :]) == self.checksum


def read_range(logs: Location, file: LogFile, byte_range: ByteRange) -> bytes:
    """The bytes of a planned range, as they were planned (protocol A2).

    Raises RangeGone if the file is not there, is another one now, or holds other bytes; LogsUnavailable.
    """
    stretch = (byte_range.start_bytes, byte_range.end_bytes)
    checked = Checked(byte_range.checksum, byte_range.unchecked_bytes)
    return read_stretches(logs, file, [stretch], checked)[0]


def read_ranges(
    logs: Location, wanted: Iterable[tuple[LogFile, ByteRange]]
) -> Iterator[tuple[LogFile, ByteRange, bytes | None]]:
    """The bytes of planned ranges, as `read_range` has them; None where they are gone. LogsUnavailable.

    Those of objects by many requests at once: each takes some milliseconds.
    """

    def read(each: tuple[LogFile, ByteRange]) -> tuple[LogFile, ByteRange, bytes | None]:
        try:
            return (*each, read_range(logs, *each))
        except RangeGone:
            return (*each, None)

    if not log_folder(logs).is_immutable:
        yield from map(read, wanted)
        return
    with ThreadPoolExecutor(RANGES_AT_ONCE) as threads:
        for portion in _portions(wanted):
            yield from threads.map(read, portion)


def _portions(wanted: Iterable[tuple[LogFile, ByteRange]]) -> Iterator[list[tuple[LogFile, ByteRange]]]:
    """Ranges that are held in memory together."""
    portion: list[tuple[LogFile, ByteRange]] = []
    size_bytes = 0
    for file, each in wanted:
        length_bytes = each.end_bytes - each.start_bytes
        if portion and (len(portion) == RANGES_AT_ONCE or size_bytes + length_bytes > MOST_BYTES_AT_ONCE):
            yield portion
            portion, size_bytes = [], 0
        portion.append((file, each))
        size_bytes += length_bytes
    if portion:
        yield portion


def read_at(logs: Location, file: LogFile, start_bytes: int, end_bytes: int) -> bytes:
    """Bytes of a log file by offset, without a checksum. RangeGone, LogsUnavailable."""
    return read_stretches(logs, file, [(start_bytes, end_bytes)])[0]


def read_stretches(
    logs: Location, file: LogFile, stretches: Sequence[tuple[int, int]], checked: Checked | None = None
) -> list[bytes]:
    """The bytes [start, end) of a log file, of each stretch; the first must be as `checked`.

    The file is looked for where it was seen last, then wherever rotation may have moved it since. RangeGone
    if some bytes are not there any more; LogsUnavailable if nobody can tell.
    """
    folder, reason = log_folder(logs), "the file is not there"
    for path in folder.candidates(file):
        try:
            with folder.open_at(path, file) as source:
                if not has_head(source, file):
                    if path == file.path:  # another file elsewhere says nothing of this one
                        reason = "another file is in its place"
                    continue
                found = [source.read(start, end - start) for start, end in stretches]
        except FileNotFoundError:
            continue
        except LogsUnavailable:
            raise
        except UNREADABLE as error:
            reason = f"{PurePath(path).name} can't be read: {error or type(error).__name__}"
            continue
        if any(len(data) != end - start for data, (start, end) in zip(found, stretches, strict=True)):
            reason = f"the file was truncated to less than {stretches[-1][1]} bytes"
        elif checked is not None and not checked.holds(found[0]):
            reason = "other bytes are in their place"
        else:
            return found
    raise RangeGone(file, stretches[0][0], stretches[-1][1], reason)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The records of a file that begin in [start, end); none goes beyond the file's `offset_bytes`."""

    tracked: TrackedFile
    start_bytes: int
    end_bytes: int
    begins_record: bool = False  # at its start, as its maker knows

    @property
    def length_bytes(self) -> int:
        return self.end_bytes - self.start_bytes


def stretches_of(tracked: TrackedFile, piece_bytes: int, from_bytes: int | None = None) -> list[Stretch]:
    """What was read of a file, in stretches; a compressed file is one, for it is read from its start.

    `from_bytes`: only from there on.
    """
    start, end = from_bytes or tracked.file.header_bytes, tracked.offset_bytes
    if start >= end:
        return []
    if tracked.file.compressed:
        return [Stretch(tracked, start, end)]
    return [Stretch(tracked, at, min(at + piece_bytes, end)) for at in range(start, end, piece_bytes)]


def read_pieces(
    logs: Location, stretch: Stretch, piece_bytes: int, line_limit_bytes: int, log: Log | None = None
) -> Iterator[tuple[ByteRange, bytes]]:
    """The whole records of a stretch, in pieces of about `piece_bytes`, each with its range (no checksum).

    Reads only the beginning of a line longer than the limit. Raises RangeGone, perhaps after some
    pieces, if the bytes that were read are not there any more; LogsUnavailable.
    """
    file = stretch.tracked.file
    folder, reason = log_folder(logs), "the file is not there"
    for path in folder.candidates(file):
        begun = False
        try:
            with folder.open_at(path, file) as source:
                if not _is_the_file(source, stretch.tracked, path):
                    if path == file.path:  # another file elsewhere says nothing of this one
                        reason = "another file is in its place"
                    continue
                begun = True
                rules = None if log is None else record_rules(log, file.header, line_limit_bytes)
                yield from _Reader(source, stretch, piece_bytes, line_limit_bytes, rules).pieces()
                return
        except FileNotFoundError:
            continue
        except LogsUnavailable:
            raise
        except UNREADABLE as error:
            reason = f"{PurePath(path).name} can't be read: {error or type(error).__name__}"
            if begun:
                break
    raise _gone(stretch, reason)


def _is_the_file(source: Source, tracked: TrackedFile, path: str) -> bool:
    # The tail of a compressed file at its place is not looked at: that would decompress all of it once more.
    is_at_its_place = tracked.file.compressed and path == tracked.file.path
    return has_head(source, tracked.file) and (is_at_its_place or has_tail(source, tracked))


def _gone(stretch: Stretch, reason: str) -> RangeGone:
    return RangeGone(stretch.tracked.file, stretch.start_bytes, stretch.end_bytes, reason)


@dataclass(frozen=True, slots=True)
class _Reader:
    source: Source
    stretch: Stretch
    piece_bytes: int
    line_limit_bytes: int
    rules: RecordRules | None  # None: each line is a record

    def pieces(self) -> Iterator[tuple[ByteRange, bytes]]:
        first, limit_bytes = self._first_record(), self.stretch.end_bytes
        while first < limit_bytes:
            data, following = self._records(first, min(first + self.piece_bytes, limit_bytes))
            number, end = self.stretch.tracked.file.number, first + len(data)
            yield ByteRange(number, first, end, checksum=0, lines=data.count(b"\n")), data
            first = following

    def _first_record(self) -> int:
        """Where the first record begins that begins in the stretch."""
        start, end = self.stretch.start_bytes, self.stretch.tracked.offset_bytes
        begins = self.stretch.tracked.file.header_bytes
        spans_lines = self.rules is not None and self.rules.spans_lines
        if self.rules is None or not spans_lines or self.stretch.begins_record or start == begins:
            return self._first_line()
        return first_record(self._up_to_end, self.rules, begins, start, end)

    def _records(self, first: int, end: int) -> tuple[bytes, int]:
        """Whole records from `first` on, the last one beginning before `end`; and where the next begins."""
        if self.rules is None or not self.rules.spans_lines:
            return self._piece(first, end)
        found = cut_records(self._up_to_end, self.rules, first, end, final=True, to_record_end=True)
        last = self.stretch.tracked.offset_bytes
        if found is None:
            raise _gone(self.stretch, f"the file ends before byte {end}")
        data = self._read(first, found.end_bytes)
        if found.ends_inside_oversized:
            return data, self._after_newline(found.end_bytes, last)
        return data, found.end_bytes

    def _up_to_end(self, start: int, length_bytes: int) -> bytes:
        """Bytes of what was read of the file; a file that has fewer is another one."""
        end = min(start + length_bytes, self.stretch.tracked.offset_bytes)
        return self._read(start, end) if start < end else b""

    def _first_line(self) -> int:
        """Where the first line begins that begins in the stretch."""
        start = self.stretch.start_bytes
        if start == self.stretch.tracked.file.header_bytes or self.stretch.begins_record:
            return start
        return self._after_newline(start - 1, self.stretch.end_bytes)

    def _piece(self, first: int, end: int) -> tuple[bytes, int]:
        """Whole lines from `first` on, the last one beginning before `end`; and where the next begins."""
        data = self._read(first, end)
        if data.endswith(b"\n"):
            return data, end
        last = self.stretch.tracked.offset_bytes
        more = self._read(end, min(end + self.line_limit_bytes + 1, last))
        newline = more.find(b"\n") + 1
        if newline:
            return data + more[:newline], end + newline
        # The end of what was read, or a line that is too long: that much of it says so.
        return data + more, self._after_newline(end + len(more), last)

    def _after_newline(self, start: int, end: int) -> int:
        while start < end:
            data = self._read(start, min(start + _STEP_BYTES, end))
            newline = data.find(b"\n") + 1
            if newline:
                return start + newline
            start += len(data)
        return end

    def _read(self, start: int, end: int) -> bytes:
        data = self.source.read(start, end - start)
        if len(data) < end - start:
            raise _gone(self.stretch, f"the file ends before byte {end}")
        return data
