"""Read one log file, plain or compressed, and the bytes by which it is recognised.

Offsets are of decompressed bytes throughout (protocol D3). A gzip file is a log file once it is whole:
`WholeGzips` finds out which are.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Literal, Protocol

from photon.errors import UserError
from photon.logs.dialect import BYTE_ORDER_MARK, Dialect, is_zeek_header
from photon.logs.discovery import FileProblem, FoundFile, reason_of
from photon.logs.files import LogFile, TrackedFile
from photon.logs.gzips import CompressedBytes, CorruptGzip, GzipStream, NotClosedYet, index_of
from photon.logs.odd_files import Odd, may_be_utf16, no_text
from photon.logs.utf16 import MARK_BYTES, Utf16Text, utf16_text
from photon.pipeline.values import Encoding
from photon.process.clock import microseconds

TAIL_BYTES = 256  # protocol D2
HEAD_BYTES = 1024  # whole lines: more than one record, for first records are often alike
_FIRST_READ_BYTES = 4096
_STEP_BYTES = 2**20
LEAST_RETURNS = 2  # without a line feed: lines that end with CR alone; one may be the first half of CR LF
# Decompressed in one look, to see which gzip files are whole. No batch begins during a look: it is short.
GZIP_LOOK_BYTES = 32 * 2**20


ENDS_EARLY = (
    "this gzip file ends early: it is read once it is whole; if nobody writes it any more, compress it again"
)
NO_UTF16_MARK = Odd(
    "does not begin with UTF-16's byte order mark, as `encoding: utf-16` expects",
    "convert it by `iconv -t UTF-16`, with -f and its own encoding, or leave `encoding` out if it is UTF-8",
)
UNREADABLE = (OSError, NotClosedYet, CorruptGzip)  # opening and reading a log file may raise these


class LogsUnavailable(UserError, OSError):
    """The store of the logs can't be asked now: its objects may be there all the same."""


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
    return blake2b(data, digest_size=16).digest() if data else b""


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


def source_of(
    stored: StoredBytes, compressed: bool, encoding: Encoding = "utf-8", utf16_mark: bytes = b""
) -> Source:
    """A log file by its decompressed bytes; by its text, if it is to be UTF-16 or known to be."""
    source: Source = _GzipSource(stored) if compressed else stored
    if utf16_mark:
        return Utf16Text(source, utf16_mark)
    return utf16_text(source) if encoding == "utf-16" else source


@contextmanager
def open_bytes(path: Path, inode: int | None = None) -> Iterator[FileBytes]:
    """Open a file of this machine; raises OSError as `os.open` does.

    `inode`: as a scan saw it. FileNotFoundError if another file has taken its place since, as in a rotation.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if inode is not None and os.fstat(descriptor).st_ino != inode:
            raise FileNotFoundError(errno.ENOENT, "another file has taken its place", str(path))
        yield FileBytes(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_source(
    path: Path,
    compressed: bool,
    inode: int | None = None,
    encoding: Encoding = "utf-8",
    utf16_mark: bytes = b"",
) -> Iterator[Source]:
    """Open a log file of this machine as `open_bytes` does; NotClosedYet or CorruptGzip on reading."""
    with open_bytes(path, inode) as stored:
        yield source_of(stored, compressed, encoding, utf16_mark)


def read_head(source: Source, dialect: Dialect | None, line_limit_bytes: int, final: bool) -> HeadResult:
    """How a file begins; it has no head before its first record is whole, or with `final` begins."""
    if dialect is not None and dialect.encoding == "utf-16":
        return _read_utf16_head(source, dialect, line_limit_bytes, final)
    return _read_head(source, dialect, line_limit_bytes, final)


def why_not_read(head: HeadResult, line_limit_bytes: int) -> str | None:
    """Why a file that begins so is no log, for people; None: it is one, or may become one."""
    if isinstance(head, Odd):
        return f"it {head.what}; {head.remedy}"
    if head == "header too long":
        return f"its header line is longer than {line_limit_bytes} bytes (limits.line)"
    return "its lines end with CR alone; expected LF or CR LF" if head == "ends with CR" else None


def _read_utf16_head(source: Source, dialect: Dialect, line_limit_bytes: int, final: bool) -> HeadResult:
    """The same of a file that is to be UTF-16: its header begins with the byte order mark."""
    if not isinstance(source, Utf16Text):
        return NO_UTF16_MARK if len(source.read(0, MARK_BYTES)) == MARK_BYTES else "no record yet"
    found = _read_head(source, dialect, line_limit_bytes, final)
    return replace(found, header=source.mark + found.header) if isinstance(found, Head) else found


def _read_head(source: Source, dialect: Dialect | None, line_limit_bytes: int, final: bool) -> HeadResult:
    result = head_of(source.read(0, _FIRST_READ_BYTES), dialect, line_limit_bytes, final)
    if isinstance(result, Head) and not final:
        return result
    data = source.read(0, 2 * (line_limit_bytes + 1) + len(BYTE_ORDER_MARK))  # a header and a record
    return head_of(data, dialect, line_limit_bytes, final)


def head_of(data: bytes, dialect: Dialect | None, line_limit_bytes: int, final: bool) -> HeadResult:
    """Read a file's head from its first bytes; `dialect` is None for JSON lines."""
    start = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    header = b""
    if odd := no_text(data):
        return odd if dialect is None else may_be_utf16(data, odd)
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


_Verdict = int | FileProblem | None  # decompressed size; what is wrong with it; not closed yet


class WholeGzips:
    """Which gzip files are whole: only those are log files (protocol D3).

    One that ends early is still being written, or was left behind half done: reading it now would lose its
    rest. To find out, decompress it once, a bounded piece at each look. Between looks this remembers what it
    found of each gzip file that is no log file yet.
    """

    def __init__(
        self,
        open_stored: Callable[[FoundFile], AbstractContextManager[StoredBytes]],
        idle_after: timedelta | None,
    ) -> None:
        """`idle_after`: then a file that ends early is not waited for; None: it never grows."""
        self._open = open_stored
        self._idle_us = -1 if idle_after is None else microseconds(idle_after)
        self._verdicts: dict[FoundFile, _Verdict] = {}
        self._checks: dict[FoundFile, GzipStream] = {}  # read to their ends, look by look
        self._seen_us: dict[FoundFile, int] = {}  # when each that ends early was seen first
        self._budget_bytes = 0
        self._asked: set[FoundFile] = set()
        self.pending = False  # a check is under way: the next look will know more

    def begin_look(self, unbounded: bool) -> None:
        """Forget the files that the last look did not ask for; start with a fresh budget."""
        for file in self._checks.keys() - self._asked:
            del self._checks[file]
        self._verdicts = {file: verdict for file, verdict in self._verdicts.items() if file in self._asked}
        self._seen_us = {file: seen_us for file, seen_us in self._seen_us.items() if file in self._asked}
        self._asked = set()
        self._budget_bytes = 2**62 if unbounded else GZIP_LOOK_BYTES
        self.pending = False

    def size_bytes(self, file: FoundFile) -> _Verdict:
        """The decompressed size of a whole gzip file, or what is wrong with it, or None: ask again.

        LogsUnavailable.
        """
        self._asked.add(file)
        if file not in self._verdicts and not self._check(file):
            self.pending = True
            return None
        verdict = self._verdicts[file]
        return FileProblem(file.path, ENDS_EARLY) if verdict is None else verdict

    def is_unfinished(self, file: FoundFile, now_us: int, final: bool) -> bool:
        """Whether a file that ends early may still be written: it was, within the time that counts as idle.

        It was written when it says so, or when it was seen first: clocks may be wrong.
        """
        if final or self._verdicts.get(file, 0) is not None:
            return False
        since_us = min(file.modified_ns // 1000, self._seen_us.setdefault(file, now_us))
        return now_us - since_us <= self._idle_us

    def _check(self, file: FoundFile) -> bool:
        """Decompress on within the budget; whether the check has ended."""
        if self._budget_bytes <= 0:
            return False
        verdict: _Verdict = None
        try:
            stream = self._checks.setdefault(file, GzipStream())
            verdict = self._advance(file, stream)
            if verdict is None:
                return False
        except NotClosedYet:
            pass
        except LogsUnavailable:
            raise
        except (OSError, CorruptGzip) as error:
            verdict = problem_of(file.path, error)
            if isinstance(error, OSError):
                self._asked.discard(file)  # permission may be given later: look again
        self._verdicts[file] = verdict
        self._checks.pop(file, None)
        return True

    def _advance(self, file: FoundFile, stream: GzipStream) -> int | None:
        """Read on within the budget: the decompressed size, or None if the budget was too small."""
        with self._open(file) as stored:
            while self._budget_bytes > 0:
                step_bytes = len(stream.read(stored, _STEP_BYTES))
                if step_bytes == 0:
                    return stream.at_bytes
                self._budget_bytes -= step_bytes
        return None


def problem_of(path: str, error: Exception) -> FileProblem:
    """The problem with a file whose reading raised this error."""
    if isinstance(error, OSError):
        return FileProblem(path, reason_of(error))
    return FileProblem(path, f"not a sound gzip file: {error or 'it ends early'}")
