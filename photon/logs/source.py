"""Read one log file, plain or compressed, and the bytes by which it is recognised.

Offsets are those of decompressed bytes throughout (protocol D3).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal, Protocol

from photon.logs.discovery import FileProblem, reason_of
from photon.logs.file_kinds import Odd, no_text
from photon.logs.files import LogFile, TrackedFile
from photon.logs.formats.dialect import BYTE_ORDER_MARK, Dialect, is_zeek_header
from photon.logs.gzips import CompressedBytes, CorruptGzip, NotClosedYet, index_of
from photon.pipeline.location import Location
from photon.process.errors import UserError

# A pipe may have taken a file's place: opening one waits for its writer, for ever.
READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
TAIL_BYTES = 256  # protocol D2
HASH_BYTES = 16
HEAD_BYTES = 1024  # whole lines: more than one record, for first records are often alike
_FIRST_READ_BYTES = 4096
_ZEROS = bytes(256)
_WRITTEN_STEP_BYTES = 2**20
LEAST_RETURNS = 2  # without a line feed: lines that end with CR alone; one may be the first half of CR LF

UNREADABLE = (OSError, NotClosedYet, CorruptGzip)  # opening and reading a log file may raise these


class LogsUnavailable(UserError, OSError):
    """The store of the logs can't be asked now: its objects may be there all the same."""


class ObjectRefused(LogsUnavailable):
    """The store does not give an object: these credentials may not read it, or it is archived."""


class Source(Protocol):
    """An open log file."""

    @property
    def is_certain(self) -> bool:
        """Whether it has the bytes of the file that was asked for, or none: its content need not tell."""

    def read(self, start_bytes: int, length_bytes: int) -> bytes:
        """The bytes from an offset on; fewer where the file ends."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a log file, which tells it from others (protocol D1)."""

    header: bytes
    header_bytes: int
    head_bytes: int
    head_hash: bytes


HeadResult = Head | Odd | Literal["no record yet", "header too long", "ends with CR"]


def hash_bytes(data: bytes) -> bytes:
    """The hash of heads and tails: BLAKE2b, 128 bits; empty for no bytes."""
    return blake2b(data, digest_size=HASH_BYTES).digest() if data else b""


class StoredBytes(CompressedBytes, Source, Protocol):
    """A log file as it is stored."""


class FileBytes:
    """An open file of this machine."""

    is_certain = False  # inodes are reused, and files change in place

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def key(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_dev, status.st_ino

    def version(self) -> tuple[int, int, int]:
        # A used inode may come with the size and the time of the file before it.
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def read(self, start_bytes: int, length_bytes: int) -> bytes:
        data = os.pread(self._descriptor, length_bytes, start_bytes)
        if not data or len(data) == length_bytes:
            return data
        return data + self.read(start_bytes + len(data), length_bytes - len(data))


class _GzipSource:
    def __init__(self, stored: StoredBytes) -> None:
        self._stored = stored
        self._index = index_of(stored)
        self.is_certain = stored.is_certain

    def read(self, start_bytes: int, length_bytes: int) -> bytes:
        return self._index.read(self._stored, start_bytes, length_bytes)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first bytes of a file whose writer made it longer than what it has written."""

    source: Source
    size_bytes: int
    is_certain = False

    def read(self, start_bytes: int, length_bytes: int) -> bytes:
        return self.source.read(start_bytes, max(0, min(length_bytes, self.size_bytes - start_bytes)))


def written_bytes(source: Source, size_bytes: int, known_bytes: int = 0) -> int:
    """How long a file is without the zeros at its end, over which its writer goes on: it was preallocated.

    `known_bytes`: so much is known to be written. A log has no other stretch of zeros.
    """
    if not size_bytes or source.read(size_bytes - 1, 1) != b"\0":
        return size_bytes
    at = known_bytes
    while at < size_bytes:
        data = source.read(at, _WRITTEN_STEP_BYTES)
        if (zeros := data.find(_ZEROS)) >= 0:
            return at + zeros
        if at + len(data) >= size_bytes or len(data) < len(_ZEROS):
            return at + len(data.rstrip(b"\0"))
        at += len(data) - len(_ZEROS) + 1
    return size_bytes


def source_of(stored: StoredBytes, compressed: bool) -> Source:
    """A log file by its decompressed bytes."""
    return _GzipSource(stored) if compressed else stored


@contextmanager
def open_bytes(path: Path, inode: int | None = None) -> Iterator[FileBytes]:
    """Open a file of this machine; raises OSError as `os.open` does.

    `inode`: as a scan saw it. FileNotFoundError if another file has taken its place since, as in a rotation.
    """
    descriptor = os.open(path, READING)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no plain file", str(path))
        if inode is not None and os.fstat(descriptor).st_ino != inode:
            raise FileNotFoundError(errno.ENOENT, "another file has taken its place", str(path))
        yield FileBytes(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_source(path: Path, compressed: bool, inode: int | None = None) -> Iterator[Source]:
    """Open a log file of this machine as `open_bytes` does; NotClosedYet or CorruptGzip on reading."""
    with open_bytes(path, inode) as stored:
        yield source_of(stored, compressed)


def read_head(source: Source, dialect: Dialect | None, line_limit_bytes: int, final: bool) -> HeadResult:
    """How a file begins; it has no head before its first record is whole, or with `final` begins."""
    result = head_of(source.read(0, _FIRST_READ_BYTES), dialect, line_limit_bytes, final)
    if isinstance(result, Head) and not final:
        return result
    data = source.read(0, 2 * (line_limit_bytes + 1) + len(BYTE_ORDER_MARK))  # a header and a record
    return head_of(data, dialect, line_limit_bytes, final)


def why_not_read(place: Location, head: HeadResult, line_limit_bytes: int) -> str | None:
    """Why a file that begins so is no log, for people; None: it is one, or may become one."""
    if isinstance(head, Odd):
        return f"it {head.what}; {head.remedy_for(place)}"
    if head == "header too long":
        return f"its header line is longer than {line_limit_bytes} bytes (limits.line)"
    return "its lines end with CR alone; expected LF or CR LF" if head == "ends with CR" else None


def head_of(data: bytes, dialect: Dialect | None, line_limit_bytes: int, final: bool) -> HeadResult:
    """Read a file's head from its first bytes; `dialect` is None for JSON lines."""
    start = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    header = b""
    if odd := no_text(data):
        return odd
    if b"\n" not in data and data.count(b"\r") >= LEAST_RETURNS:
        return "ends with CR"
    if dialect is not None and not dialect.names:
        found = _header_line(data, start, dialect, line_limit_bytes)
        if isinstance(found, str):
            return found
        header, start = found
    first_end = data.find(b"\n", _first_record(data, start, dialect)) + 1
    if first_end:
        end = max(first_end, data.rfind(b"\n", start, start + HEAD_BYTES) + 1)
    elif len(data) - start > line_limit_bytes:
        end = start + line_limit_bytes + 1  # the first record is too long, and that much of it is enough
    elif final and len(data) > start:
        end = len(data)
    else:
        return "no record yet"
    return Head(header, start, end - start, hash_bytes(data[start:end]))


def _header_line(
    data: bytes, start: int, dialect: Dialect, line_limit_bytes: int
) -> tuple[bytes, int] | Literal["no record yet", "header too long"]:
    """The first line that is no comment, or Zeek's comment of names; and where the line behind it begins."""
    while True:
        end = data.find(b"\n", start)
        if (len(data) if end < 0 else end) - start > line_limit_bytes:
            return "header too long"
        if end < 0:
            return "no record yet"
        line, start = data[start:end].removesuffix(b"\r"), end + 1
        if not dialect.is_comment(line) or is_zeek_header(line, dialect):
            return line, start


def _first_record(data: bytes, start: int, dialect: Dialect | None) -> int:
    """Where the first line begins that is no comment: comments alone are alike in many files."""
    sign_bytes = 0 if dialect is None else len(dialect.encode(dialect.comment))
    while dialect is not None and dialect.is_comment(data[start : start + sign_bytes]):
        end = data.find(b"\n", start) + 1
        if not end:
            return len(data)
        start = end
    return start


def read_header(source: Source, dialect: Dialect, line_limit_bytes: int) -> bytes | None:
    """The header line, without its newline; None if it is not whole yet, or too long."""
    data = source.read(0, line_limit_bytes + len(BYTE_ORDER_MARK) + 1).removeprefix(BYTE_ORDER_MARK)
    if dialect.names:
        return b""
    found = _header_line(data, 0, dialect, line_limit_bytes)
    return None if isinstance(found, str) else found[0]


def has_head(source: Source, file: LogFile) -> bool:
    """Does this file begin as the log file did (protocol D1)?"""
    if source.is_certain:
        return True
    data = source.read(file.header_bytes, file.head_bytes)
    return hash_bytes(data) == file.head_hash and has_header(source, file)


def has_header(source: Source, file: LogFile) -> bool:
    """Does this file have the header line that the log file had?"""
    before = source.read(0, file.header_bytes).removesuffix(b"\n").removesuffix(b"\r")  # comments too
    return before.endswith(file.first_header)


def has_tail(source: Source, tracked: TrackedFile) -> bool:
    """Is what was read last still in its place (protocol D2)?"""
    if source.is_certain:
        return True
    start = max(0, tracked.offset_bytes - TAIL_BYTES)
    return (
        not tracked.tail_hash
        or hash_bytes(source.read(start, tracked.offset_bytes - start)) == tracked.tail_hash
    )


def has_seen_end(source: Source, tracked: TrackedFile) -> bool:
    """Is what was seen last, though not read, still in its place? Files may begin alike (protocol D2)."""
    return (
        source.is_certain
        or not tracked.seen_hash
        or end_hash(source, tracked.size_bytes) == tracked.seen_hash
    )


def end_hash(source: Source, size_bytes: int) -> bytes:
    """The hash of the last bytes of a file of this size."""
    start = max(0, size_bytes - TAIL_BYTES)
    return hash_bytes(source.read(start, size_bytes - start))


def fingerprint(source: Source, size_bytes: int) -> bytes:
    """The hash of a file's size, of its beginning and of its end."""
    ends = source.read(0, HEAD_BYTES) + source.read(max(0, size_bytes - TAIL_BYTES), TAIL_BYTES)
    return hash_bytes(size_bytes.to_bytes(8, "big") + ends)


def problem_of(path: str, error: Exception) -> FileProblem:
    """The problem with a file whose reading raised this error."""
    if isinstance(error, OSError):
        may_pass = isinstance(error, LogsUnavailable) and not isinstance(error, ObjectRefused)
        return FileProblem(path, reason_of(error), may_pass)
    return FileProblem(path, f"not a sound gzip file: {error or 'it ends early'}")
