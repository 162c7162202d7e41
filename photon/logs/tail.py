"""Following the files of one log: which there are, how far they were read, what is to be read next.

This wires `discovery`, `identity`, `source` and `ranges` together. It stores nothing: what is to be
remembered goes back to the caller as `TrackedFile`s, and comes in again with the next look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from photon.logs.discovery import Problem
from photon.logs.files import ByteRange, Side, TrackedFile
from photon.pipeline import Limits, Log, Tailing


@dataclass(frozen=True, slots=True)
class LostFile:
    """A log file that can't be read on: it went, or other bytes are in its place. Counted, an alarm if unread."""

    file: TrackedFile  # with its new state, gone or replaced
    unread_bytes: int  # of a compressed file: of its decompressed bytes, as far as known
    reason: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What one look at a log found."""

    changed: Mapping[int, TrackedFile]  # new files and those of which something changed, by number
    backlog_bytes: Mapping[int, int]  # file number -> bytes that wait to be cut; no entry: nothing to do
    problems: tuple[Problem, ...]  # what can't be read now
    lost: tuple[LostFile, ...]  # files that went or were replaced since the last look
    next_number: int  # the number for the next new file


class LogTail:
    """Follows one log of one datacenter. Keeps only caches: another instance goes on from the same state."""

    def __init__(self, logs_folder: Path, side: Side, log: Log, limits: Limits, tailing: Tailing) -> None:
        """A tail of the files that `log.files` names below `logs_folder`. No I/O yet."""
        self._logs_folder = logs_folder
        self._side: Side = side
        self._log = log
        self._limits = limits
        self._tailing = tailing

    def observe(
        self, tracked: Mapping[int, TrackedFile], next_number: int, now_us: int, final: bool = False
    ) -> Observation:
        """Look at all files, match them to `tracked` (of this side) and number new ones from `next_number` on.

        `final`: the inputs are declared complete, so an unterminated last line counts (protocol D4).
        Never raises for what the disk says: see `Observation.problems`.
        """
        raise NotImplementedError

    def cut(
        self,
        tracked: TrackedFile,
        budget_bytes: int,
        final: bool = False,
        size_bytes: int | None = None,
    ) -> tuple[ByteRange, TrackedFile] | None:
        """The next range of whole lines of a file, and the file as it stands behind it.

        At most `budget_bytes`, but at least one line up to the line limit. None: no whole line is
        waiting, or the file is not the tracked one any more, which the next `observe` settles.
        `size_bytes`: lines that begin at or after it are left alone (protocol D4).
        """
        raise NotImplementedError
