"""Ranges and stretches of a log file are read again: what was planned, or what was read once."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePath

from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.logs.folders import LogFolder, log_folder
from photon.logs.formats.records import RecordRules, record_rules
from photon.logs.record_ranges import cut_records, first_record
from photon.logs.source import UNREADABLE, LogsUnavailable, ObjectRefused, Source, has_head, has_tail
from photon.pipeline.location import Location
from photon.pipeline.sections import Log

RANGES_AT_ONCE, MOST_BYTES_AT_ONCE = 16, 2**25  # ranges of objects that a task reads together
# So much of a long range is read, and then parsed, at once: it stays in a core's cache, and its memory is
# used again. 32 MiB at once take a third longer to parse, and 8,000 pages to clear; NumPy has them cleared
# from 4 MiB on.
BLOCK_BYTES = 2**21
# A task that reads logs again (verification, a trace, a comparison of copies) takes pieces of this size: so
# much is parsed in memory at once.
PIECE_BYTES = 32 * 2**20
_STEP_BYTES = 2**16


class RangeGone(Exception):
    """The bytes of a planned range are not there any more: the file was truncated, replaced or removed."""

    def __init__(self, file: LogFile, start_bytes: int, end_bytes: int, reason: str) -> None:
        super().__init__(file, start_bytes, end_bytes, reason)  # so that it pickles
        self.file, self.start_bytes, self.end_bytes, self.reason = file, start_bytes, end_bytes, reason

    def __str__(self) -> str:
        where = f"bytes {self.start_bytes} to {self.end_bytes} of {self.file.side} log file {self.file.path}"
        return f"{where} (number {self.file.number}) are not there any more: {self.reason}"


# Raised where bytes that were read before can't be read again, for whoever goes on without them.
NOT_READ_AGAIN = (RangeGone, ObjectRefused)


@dataclass(frozen=True, slots=True)
class Checked:
    """The checksum of a stretch: a crc32 of all but its first bytes."""

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
    logs: Location,
    wanted: Iterable[tuple[LogFile, ByteRange]],
    each_line_is_a_record: Callable[[LogFile], bool],
) -> Iterator[tuple[LogFile, ByteRange, bytes | None]]:
    """The bytes of planned ranges, as `read_range` has them; None where they are gone. LogsUnavailable.

    Those of objects by many requests at once: each takes some milliseconds. Those of this machine's files in
    blocks of whole lines, where each line is a record (`each_line_is_a_record`).
    """

    def read(each: tuple[LogFile, ByteRange]) -> tuple[LogFile, ByteRange, bytes | None]:
        try:
            return (*each, read_range(logs, *each))
        except RangeGone:
            return (*each, None)

    if log_folder(logs).is_immutable:
        with ThreadPoolExecutor(RANGES_AT_ONCE) as threads:
            for portion in _portions(wanted):
                yield from threads.map(read, portion)
        return
    for file, where in wanted:
        if where.unchecked_bytes <= BLOCK_BYTES or file.compressed or not each_line_is_a_record(file):
            yield read((file, where))
        else:
            yield from ((file, *block) for block in _blocks(logs, file, where))


def _blocks(logs: Location, file: LogFile, where: ByteRange) -> Iterator[tuple[ByteRange, bytes | None]]:
    """A range in parts that end behind a line; the last one None if the rest is gone. LogsUnavailable.

    The checked tail is read first, and nothing is taken of a range whose tail is another.
    """
    folder, at = log_folder(logs), where.start_bytes
    tail_at = where.start_bytes + where.unchecked_bytes
    for path in folder.candidates(file):
        try:
            with folder.open_at(path, file) as source:
                tail = source.read(tail_at, where.end_bytes - tail_at) if has_head(source, file) else b""
                if len(tail) < where.end_bytes - tail_at or not Checked(where.checksum, 0).holds(tail):
                    continue
                while where.end_bytes - at > BLOCK_BYTES:
                    wanted = min(BLOCK_BYTES, tail_at - at)
                    data = source.read(at, wanted)
                    end = data.rfind(b"\n") + 1
                    if len(data) < wanted or not end:
                        break
                    yield where.part(at, at + end), data[:end]
                    at += end
                rest = source.read(at, tail_at - at)
                if len(rest) == tail_at - at:
                    yield where.part(at, where.end_bytes), rest + tail
                    return
        except LogsUnavailable:
            raise
        except UNREADABLE:
            pass
        if at > where.start_bytes:
            break
    yield where.part(at, where.end_bytes), None


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
    """Divide what was read of a file into stretches; a compressed file is one: it is read from its start.

    `from_bytes`: only from there on.
    """
    start, end = from_bytes or tracked.file.header_bytes, tracked.offset_bytes
    if start >= end:
        return []
    if tracked.file.compressed:
        return [Stretch(tracked, start, end)]
    return [Stretch(tracked, at, min(at + piece_bytes, end)) for at in range(start, end, piece_bytes)]


def read_pieces(
    logs: Location,
    stretch: Stretch,
    piece_bytes: int,
    line_limit_bytes: int,
    log: Log | None = None,
    folder: LogFolder | None = None,
) -> Iterator[tuple[ByteRange, bytes]]:
    """The whole records of a stretch, in pieces of about `piece_bytes`, each with its range (no checksum).

    Reads only the beginning of a line longer than the limit. `folder`: the one of `logs`, if it is open.
    Raises RangeGone, perhaps after some pieces, if the bytes that were read are not there any more;
    LogsUnavailable.
    """
    file = stretch.tracked.file
    folder, reason = folder or log_folder(logs), "the file is not there"
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
                yield from _RangeReader(source, stretch, piece_bytes, line_limit_bytes, rules).pieces()
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
class _RangeReader:
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
