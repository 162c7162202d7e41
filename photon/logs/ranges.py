"""Stretches of whole lines: how much each file gets, where a range ends, and reading it again.

`share_bytes`, `next_first` and `cut_lines` decide and do no I/O; `read_range` and `read_at` are what
tasks read with. Which files there are belongs in `tail`, what the lines mean in `parse`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from photon.logs.files import ByteRange, LogFile


class RangeGone(Exception):
    """The bytes of a planned range are not there any more: the file was truncated, replaced or removed."""

    def __init__(self, file: LogFile, start_bytes: int, end_bytes: int, reason: str) -> None:
        super().__init__(file, start_bytes, end_bytes, reason)  # so that it pickles
        self.file, self.start_bytes, self.end_bytes, self.reason = file, start_bytes, end_bytes, reason

    def __str__(self) -> str:
        where = f"bytes {self.start_bytes} to {self.end_bytes} of {self.file.side} log file {self.file.path}"
        return f"{where} (number {self.file.number}) are not there any more: {self.reason}"


def share_bytes(
    backlog: Mapping[int, int], total_bytes: int, quantum_bytes: int, first: int = 0
) -> dict[int, int]:
    """How many bytes each file may read of `total_bytes`, by file number; files that get none are left out.

    Round by round each file gets what it has waiting, at most a quantum, beginning with the file
    `first` (or the next number after it). So none starves behind a big one, and with `next_first`
    none is forgotten where there are more files than quanta.
    """
    raise NotImplementedError


def next_first(backlog: Mapping[int, int], shares: Mapping[int, int], first: int = 0) -> int:
    """With whom the next batch begins: the first file, from `first` on, that got nothing this time."""
    raise NotImplementedError


def read_range(logs_folder: Path, file: LogFile, byte_range: ByteRange) -> bytes:
    """The bytes of a planned range, as they were planned (protocol A2).

    Raises RangeGone if the file is not there, is another one now, or holds other bytes.
    """
    raise NotImplementedError


def read_at(logs_folder: Path, file: LogFile, start_bytes: int, end_bytes: int) -> bytes:
    """Bytes of a log file by offset, without a checksum; RangeGone if they are not there any more."""
    raise NotImplementedError
