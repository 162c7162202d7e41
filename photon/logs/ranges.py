"""Stretches of whole lines: how much each file gets, where a range ends, and reading it again.

`share_bytes`, `next_first` and `cut_lines` decide and do no I/O; `read_range` and `read_at` are what
tasks read with. Which files there are belongs in `tail`, what the lines mean in `parse`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from photon.logs.files import ByteRange, LogFile
from photon.logs.source import CorruptGzip, NotClosedYet, has_head, open_source

# Of a batch each growing file gets so much before any gets more; of a small batch less, so that it serves
# 16 files at least.
FILE_QUANTUM_BYTES = 2**20
LEAST_FILES = 16


class RangeGone(Exception):
    """The bytes of a planned range are not there any more: the file was truncated, replaced or removed."""

    def __init__(self, file: LogFile, start_bytes: int, end_bytes: int, reason: str) -> None:
        super().__init__(file, start_bytes, end_bytes, reason)  # so that it pickles
        self.file, self.start_bytes, self.end_bytes, self.reason = file, start_bytes, end_bytes, reason

    def __str__(self) -> str:
        where = f"bytes {self.start_bytes} to {self.end_bytes} of {self.file.side} log file {self.file.path}"
        return f"{where} (number {self.file.number}) are not there any more: {self.reason}"


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a range ends in the bytes that were read."""

    length_bytes: int
    lines: int
    ends_inside_oversized: bool


def share_bytes(
    backlog: Mapping[int, int], total_bytes: int, first: int = 0, quantum_bytes: int | None = None
) -> dict[int, int]:
    """How many bytes each file may read of `total_bytes`, by file number; files that get none are left out.

    Round by round each file gets what it has waiting, at most a quantum, beginning with the file
    `first` (or the next number after it). So none starves behind a big one, and with `next_first`
    none is forgotten where there are more files than quanta.
    """
    quantum_bytes = quantum_bytes or max(1, min(FILE_QUANTUM_BYTES, total_bytes // LEAST_FILES))
    shares: dict[int, int] = {}
    waiting = [number for number in _from(backlog, first) if backlog[number] > 0]
    while waiting and total_bytes > 0:
        for number in waiting:
            grant = min(quantum_bytes, backlog[number] - shares.get(number, 0), total_bytes)
            if grant > 0:
                shares[number] = shares.get(number, 0) + grant
                total_bytes -= grant
        waiting = [number for number in waiting if shares.get(number, 0) < backlog[number]]
    return shares


def next_first(backlog: Mapping[int, int], shares: Mapping[int, int], first: int = 0) -> int:
    """With whom the next batch begins: the first file, from `first` on, that got nothing this time.

    Where all got something, with the file after the one that began.
    """
    order = _from(backlog, first)
    unserved = [number for number in order if number not in shares and backlog[number] > 0]
    return unserved[0] if unserved else order[0] + 1 if order else 0


def _from(numbers: Mapping[int, int], first: int) -> list[int]:
    """The numbers in ascending order, turned so that `first` or what follows it leads."""
    return sorted(numbers, key=lambda number: (number < first, number))


def cut_lines(data: bytes, inside_oversized: bool, at_end: bool, line_limit_bytes: int) -> Cut | None:
    """Where the range that begins with `data` ends: behind the last newline, where there is one.

    A line longer than the limit is passed over in pieces, so that it needs no more memory than
    others. `at_end`: nothing follows `data`, and an unterminated last line counts (protocol D4).
    None: wait for more.
    """
    end = data.rfind(b"\n") + 1
    lines = data.count(b"\n")
    rest_bytes = len(data) - end
    rest_is_oversized = rest_bytes > line_limit_bytes or (inside_oversized and end == 0)
    if at_end and rest_bytes:
        return Cut(len(data), lines + 1, rest_is_oversized)
    if end:
        return Cut(end, lines, False)
    return Cut(len(data), 0, True) if rest_bytes and rest_is_oversized else None


def read_range(logs_folder: Path, file: LogFile, byte_range: ByteRange) -> bytes:
    """The bytes of a planned range, as they were planned (protocol A2).

    Raises RangeGone if the file is not there, is another one now, or holds other bytes.
    """
    data = read_at(logs_folder, file, byte_range.start_bytes, byte_range.end_bytes)
    if zlib.crc32(data) != byte_range.checksum:
        raise RangeGone(file, byte_range.start_bytes, byte_range.end_bytes, "other bytes are in their place")
    return data


def read_at(logs_folder: Path, file: LogFile, start_bytes: int, end_bytes: int) -> bytes:
    """Bytes of a log file by offset, without a checksum; RangeGone if they are not there any more.

    The file is looked for where it was seen last, then by its inode in the same folder (it may have
    been rotated since), then compressed.
    """
    reason = "the file is not there"
    for path in whereabouts(logs_folder / file.path, file.inode):
        try:
            with open_source(path, compressed=path.suffix == ".gz") as source:
                if not has_head(source, file):
                    reason = "another file is in its place"
                    continue
                data = source.read(start_bytes, end_bytes - start_bytes)
        except FileNotFoundError:
            continue
        except (OSError, NotClosedYet, CorruptGzip) as error:
            reason = f"{path.name} can't be read: {error or type(error).__name__}"
            continue
        if len(data) == end_bytes - start_bytes:
            return data
        reason = f"the file was truncated to less than {end_bytes} bytes"
    raise RangeGone(file, start_bytes, end_bytes, reason)


def whereabouts(path: Path, inode: int) -> Iterator[Path]:
    """Where a log file may be that was seen at `path`: there, rotated within the folder, or compressed."""
    yield path
    try:
        with os.scandir(path.parent) as entries:
            yield from [
                path.parent / entry.name
                for entry in entries
                if entry.inode() == inode and entry.name != path.name
            ]
    except OSError:
        return
    if path.suffix != ".gz":
        yield path.with_name(path.name + ".gz")
