"""Reading log files anew, up to where they were read: for verification and tracing.

Stretches of a file that many tasks can read at once, and the whole lines that begin in each. Ranges that a
plan holds are read with `ranges`; which files there are is `tail`, what the lines mean `parse`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.logs.ranges import RangeGone, whereabouts
from photon.logs.source import CorruptGzip, NotClosedYet, Source, has_head, has_tail, open_source

_STEP_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Stretch:
    """The lines of a file that begin in [start, end); none goes beyond the file's `offset_bytes`."""

    tracked: TrackedFile
    start_bytes: int
    end_bytes: int

    @property
    def length_bytes(self) -> int:
        """How much there is to read."""
        return self.end_bytes - self.start_bytes


def stretches_of(tracked: TrackedFile, piece_bytes: int) -> list[Stretch]:
    """What was read of a file, in stretches; a compressed file is one, for it is read from its start."""
    start, end = tracked.file.header_bytes, tracked.offset_bytes
    if start >= end:
        return []
    if tracked.file.compressed:
        return [Stretch(tracked, start, end)]
    return [Stretch(tracked, at, min(at + piece_bytes, end)) for at in range(start, end, piece_bytes)]


def read_pieces(
    logs_folder: Path, stretch: Stretch, piece_bytes: int, line_limit_bytes: int
) -> Iterator[tuple[ByteRange, bytes]]:
    """The whole lines of a stretch, in pieces of about `piece_bytes`, each with its range (no checksum).

    Of a line longer than the limit only its beginning is read. Raises RangeGone, perhaps after some
    pieces, if the bytes that were read are not there any more.
    """
    file = stretch.tracked.file
    reason = "the file is not there"
    for path in whereabouts(logs_folder / file.path, file.inode):
        begun = False
        try:
            with open_source(path, compressed=path.suffix == ".gz") as source:
                if not _is_the_file(source, stretch.tracked, path):
                    reason = "another file is in its place"
                    continue
                begun = True
                yield from _Reader(source, stretch, piece_bytes, line_limit_bytes).pieces()
                return
        except FileNotFoundError:
            continue
        except (OSError, NotClosedYet, CorruptGzip) as error:
            reason = f"{path.name} can't be read: {error or type(error).__name__}"
            if begun:
                break
    raise _gone(file, stretch, reason)


def _is_the_file(source: Source, tracked: TrackedFile, path: Path) -> bool:
    # The tail of a compressed file is not looked at: that would decompress all of it once more.
    return has_head(source, tracked.file) and (path.suffix == ".gz" or has_tail(source, tracked))


def _gone(file: LogFile, stretch: Stretch, reason: str) -> RangeGone:
    return RangeGone(file, stretch.start_bytes, stretch.end_bytes, reason)


@dataclass(frozen=True, slots=True)
class _Reader:
    source: Source
    stretch: Stretch
    piece_bytes: int
    line_limit_bytes: int

    def pieces(self) -> Iterator[tuple[ByteRange, bytes]]:
        first, limit_bytes = self._first_line(), self.stretch.end_bytes
        while first < limit_bytes:
            data, following = self._piece(first, min(first + self.piece_bytes, limit_bytes))
            number, end = self.stretch.tracked.file.number, first + len(data)
            yield ByteRange(number, first, end, checksum=0, lines=data.count(b"\n")), data
            first = following

    def _first_line(self) -> int:
        """Where the first line begins that begins in the stretch."""
        start = self.stretch.start_bytes
        if start == self.stretch.tracked.file.header_bytes:
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
            raise _gone(self.stretch.tracked.file, self.stretch, f"the file ends before byte {end}")
        return data
