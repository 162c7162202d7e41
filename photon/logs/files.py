"""Photon's knowledge of a log file, as immutable records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Side = Literal["primary", "foreign"]
Stretches = Sequence[tuple[int, int]]  # bytes from the first number to before the second


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log file, as it is told from all others (protocol D1). Offsets are of decompressed bytes.

    `number` is given at first sight, by the datacenter's state. `path` is relative to the
    datacenter's logs folder, where the file was seen last; a rotation changes it, and nothing else.
    """

    number: int
    side: Side
    path: str
    inode: int
    compressed: bool
    # The header line of CSV and TSV without its newline, empty for JSON lines; and behind a newline those
    # within the file that change the order of its columns.
    header: bytes
    header_bytes: int  # where the records begin: length of the header line with its newline, or 0
    head_bytes: int  # how many bytes from `header_bytes` on `head_hash` covers: at least one record
    head_hash: bytes

    @property
    def first_header(self) -> bytes:
        """The header line that the file begins with."""
        return self.header.partition(b"\n")[0]

    @property
    def later_headers(self) -> bytes:
        """Header lines within the file that change the order of its columns (`photon.logs.later_headers`)."""
        return self.header.partition(b"\n")[2]


@dataclass(frozen=True, slots=True)
class TrackedFile:
    """A log file and how far it was read. Immutable: the dispatcher stores a new one with each plan."""

    file: LogFile
    offset_bytes: int  # everything before it is in a completed or open plan
    tail_hash: bytes  # hash of the last 256 bytes before `offset_bytes` (protocol D2); empty at the start
    inside_oversized: bool  # `offset_bytes` is inside a line longer than the limit
    size_bytes: int  # as last seen (of a compressed file: decompressed, once it was read to the end)
    grown_us: int  # when it was last seen to grow
    max_time_us: int | None  # the largest event time read from it
    state: Literal["open", "gone", "replaced"] = "open"  # gone: unseen; replaced: truncated or reused
    disk_bytes: int = 0  # size on disk of a compressed file when it was last whole; else 0
    seen_hash: bytes = b""  # hash of the last 256 bytes before `size_bytes`; empty where nobody has read them
    modified_ns: int = 0  # when it was last written to, as seen while `files` matched its name
    # Where it lay as a log, from the logs folder: of a link, what that led to. Empty for an object.
    target: str = ""
    altered_us: int = 0  # when it was last seen to be written to in its place, without growing
    # Somebody may still write to it: it was the log when it was seen last, or has grown since it was rotated.
    in_use: bool = True
    # Fingerprints of the files beside it when a log of its name was seen first: none is its rotation.
    strangers: bytes = b""
    end_unknown: bool = False  # the file may have grown before it was truncated or went, and nobody knows

    @property
    def read_bytes(self) -> int:
        return self.offset_bytes - self.file.header_bytes

    @property
    def unread_bytes(self) -> int:
        """How much of it waits, as last seen; of a compressed file: of its decompressed bytes."""
        return max(0, self.size_bytes - self.offset_bytes)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A stretch of whole lines of one log file, with its checksum: what a plan holds (protocol A2).

    A long one is not read to be planned: its lines are estimated, and the checksum is of its last bytes.
    """

    file_number: int
    start_bytes: int
    end_bytes: int
    checksum: int  # crc32 of the bytes but the first `unchecked_bytes`
    lines: int  # newlines in it (an unterminated last line counts, where it is consumed)
    starts_inside_oversized: bool = False
    ends_inside_oversized: bool = False
    unchecked_bytes: int = 0

    def part(self, start_bytes: int, end_bytes: int) -> ByteRange:
        """Some of it, from a line's begin to a line's end; lines and checksum stay those of the whole."""
        return replace(
            self,
            start_bytes=start_bytes,
            end_bytes=end_bytes,
            starts_inside_oversized=self.starts_inside_oversized and start_bytes == self.start_bytes,
            ends_inside_oversized=self.ends_inside_oversized and end_bytes == self.end_bytes,
        )
