"""The bytes of one log file, plain or compressed, and the first of them, by which it is known again.

Offsets are of decompressed bytes throughout (protocol D3). Which files there are belongs in
`discovery`, what a match of two heads means in `identity`.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal, Protocol

from photon.logs.files import LogFile, TrackedFile

TAIL_BYTES = 256  # protocol D2
HEAD_BYTES = 1024  # of whole lines: more than one record, for first records are often alike
_FIRST_READ_BYTES = 4096
_STEP_BYTES = 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NotClosedYet(Exception):
    """A gzip file ends early: its writer is still at work."""


class CorruptGzip(Exception):
    """A gzip file that no writer will mend."""


class Source(Protocol):
    """An open log file."""

    def read(self, start_bytes: int, length_bytes: int) -> bytes:
        """The bytes from an offset on; fewer where the file ends."""
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """How a log file begins: what tells it from others (protocol D1)."""

    header: bytes
    header_bytes: int
    head_bytes: int
    head_hash: bytes


@dataclass(frozen=True, slots=True)
class HeaderTooLong:
    """The first line of a CSV or TSV file is longer than any line may be."""


HeadResult = Head | HeaderTooLong | Literal["no record yet"]


def hash_bytes(data: bytes) -> bytes:
    """The hash of heads and tails: BLAKE2b, 128 bits; empty for no bytes."""
    return blake2b(data, digest_size=16).digest() if data else b""


class _PlainSource:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, start_bytes: int, length_bytes: int) -> bytes:
        data = os.pread(self._descriptor, length_bytes, start_bytes)
        if not data or len(data) == length_bytes:
            return data
        return data + self.read(start_bytes + len(data), length_bytes - len(data))


class _GzipSource:
    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def read(self, start_bytes: int, length_bytes: int) -> bytes:
        with _gzip_errors():
            self._file.seek(start_bytes)
            return self._file.read(length_bytes)


@contextmanager
def _gzip_errors() -> Iterator[None]:
    try:
        yield
    except EOFError:
        raise NotClosedYet from None
    except (gzip.BadGzipFile, zlib.error) as error:  # BadGzipFile is an OSError: not one of the disk
        raise CorruptGzip(str(error)) from None


@contextmanager
def open_source(path: Path, compressed: bool) -> Iterator[Source]:
    """Open a log file; raises OSError as `os.open` does, and NotClosedYet or CorruptGzip on reading."""
    if compressed:
        with gzip.open(path) as file:
            yield _GzipSource(file)
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _PlainSource(descriptor)
    finally:
        os.close(descriptor)


class GzipCheck:
    """Reads a gzip file to its end, in steps: is it closed, and how long is it when decompressed?"""

    def __init__(self, path: Path) -> None:
        """Opens the file: OSError."""
        self._file = gzip.open(path)  # noqa: SIM115  closed by `close`
        self._size_bytes = 0

    def advance(self, budget_bytes: int) -> tuple[int | None, int]:
        """Read on: (the decompressed size, or None if the budget was too small; the bytes read).

        Raises NotClosedYet and CorruptGzip.
        """
        read_bytes = 0
        with _gzip_errors():
            while read_bytes < budget_bytes:
                step = len(self._file.read(_STEP_BYTES))
                if step == 0:
                    return self._size_bytes, read_bytes
                read_bytes += step
                self._size_bytes += step
        return None, read_bytes

    def close(self) -> None:
        self._file.close()


def read_head(source: Source, has_header: bool, line_limit_bytes: int, final: bool) -> HeadResult:
    """How a file begins. It has no head before its first record is whole (`final`: is there at all)."""
    result = head_of(source.read(0, _FIRST_READ_BYTES), has_header, line_limit_bytes, final)
    if isinstance(result, Head) and not final:
        return result
    data = source.read(0, 2 * (line_limit_bytes + 1) + len(_BYTE_ORDER_MARK))  # a header and a record
    return head_of(data, has_header, line_limit_bytes, final)


def head_of(data: bytes, has_header: bool, line_limit_bytes: int, final: bool) -> HeadResult:
    """The pure part of `read_head`: what the first bytes of a file say."""
    start = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
    header = b""
    if has_header:
        end = data.find(b"\n", start)
        if (len(data) if end < 0 else end) - start > line_limit_bytes:
            return HeaderTooLong()
        if end < 0:
            return "no record yet"
        header, start = data[start:end].removesuffix(b"\r"), end + 1
    first_end = data.find(b"\n", start) + 1
    if first_end:
        end = max(first_end, data.rfind(b"\n", start, start + HEAD_BYTES) + 1)
    elif len(data) - start > line_limit_bytes:
        end = start + line_limit_bytes + 1  # the first record is too long, and that much of it is enough
    elif final and len(data) > start:
        end = len(data)
    else:
        return "no record yet"
    return Head(header, start, end - start, hash_bytes(data[start:end]))


def read_header(source: Source, line_limit_bytes: int) -> bytes | None:
    """The first line, without its newline; None if it is not whole yet, or too long."""
    data = source.read(0, line_limit_bytes + len(_BYTE_ORDER_MARK) + 1).removeprefix(_BYTE_ORDER_MARK)
    line, newline, _ = data.partition(b"\n")
    return line.removesuffix(b"\r") if newline else None


def has_head(source: Source, file: LogFile) -> bool:
    """Does this file begin as the log file did (protocol D1)?"""
    data = source.read(0, file.header_bytes + file.head_bytes)
    header = data[: file.header_bytes].removeprefix(_BYTE_ORDER_MARK)
    return (
        hash_bytes(data[file.header_bytes :]) == file.head_hash
        and header.removesuffix(b"\n").removesuffix(b"\r") == file.header
    )


def has_tail(source: Source, tracked: TrackedFile) -> bool:
    """Is what was read last still in its place (protocol D2)?"""
    start = max(0, tracked.offset_bytes - TAIL_BYTES)
    return (
        not tracked.tail_hash
        or hash_bytes(source.read(start, tracked.offset_bytes - start)) == tracked.tail_hash
    )
