"""LogFileMap: which stretches of which log files may hold a primary id (paper, section 3.3).

Storage in SQLite on the datacenter's own disk, shared by its processes. How files are cut into
entries is `entries`; reading what an entry points to is `logs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from photon.event_store.entries import Piece
from photon.event_store.hashing import Hashes
from photon.logs.files import LogFile
from photon.pipeline import EventStoreSettings

Window = tuple[int, int] | None  # first and last microsecond, both included; None: all the time


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of a file that one entry covers."""

    file_number: int
    start_bytes: int
    end_bytes: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A block whose filter holds the id's hash, and how often."""

    block: Block
    occurrences: int


class LogFileMap:
    """The map in the file `path`, which is made if it is missing. One instance per process and thread.

    ValueError if a newer Photon wrote the file.
    """

    def __init__(self, path: Path, settings: EventStoreSettings) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""

    def put_files(self, files: Iterable[LogFile]) -> None:
        """Remember files by their numbers; one that is known takes its new path."""
        raise NotImplementedError

    def files(self, numbers: Iterable[int]) -> dict[int, LogFile]:
        """Those of the files that are known, by number."""
        raise NotImplementedError

    def remove_file(self, number: int) -> None:
        """Forget a file and its entries: it is gone, or was replaced."""
        raise NotImplementedError

    def covered_to(self) -> dict[int, int]:
        """By file number, the offset up to which its last entry covers it."""
        raise NotImplementedError

    def add(self, pieces: Iterable[Piece]) -> None:
        """Index events, in one durable transaction. What is covered already changes nothing."""
        raise NotImplementedError

    def blocks_holding(self, hashes: Hashes, windows: Sequence[Window]) -> list[tuple[Candidate, ...]]:
        """For each hash, the entries that may hold it and have records within its window."""
        raise NotImplementedError
