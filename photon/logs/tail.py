"""Following the files of one log: which there are, how far they were read, what is to be read next.

This wires `discovery`, `identity`, `source` and `ranges` together. It stores nothing: what is to be
remembered goes back to the caller as `TrackedFile`s, and comes in again with the next look.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from photon.logs.closed_gzip import ClosedGzips
from photon.logs.cutting import cut_range
from photon.logs.discovery import Problem, Scan, Sighting, reason_of, scan, strip_gz
from photon.logs.files import ByteRange, LogFile, Side, TrackedFile
from photon.logs.identity import match
from photon.logs.source import (
    CorruptGzip,
    Head,
    HeaderTooLong,
    NotClosedYet,
    has_head,
    has_tail,
    open_source,
    read_head,
)
from photon.pipeline.file import Limits, Log, Tailing

# Decompressed in one look, to see which gzip files are whole. No batch begins during a look: it is short.
GZIP_LOOK_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class VanishedFile:
    """A log file that can't be read on: it went, or other bytes are in its place. An alarm if unread."""

    file: TrackedFile  # with its new state, gone or replaced
    unread_bytes: int  # of a compressed file: of its decompressed bytes


# Decompressed in one look, to see which gzip files are whole. No batch begins during a look: it is short.
GZIP_LOOK_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Observation:
    """What one look at a log found."""

    changed: Mapping[int, TrackedFile]  # new files and those of which something changed, by number
    backlog_bytes: Mapping[int, int]  # file number -> bytes that wait to be cut; no entry: nothing to do
    problems: tuple[Problem, ...]  # what can't be read now
    lost: tuple[VanishedFile, ...]  # files that went or were replaced since the last look
    next_number: int  # the number for the next new file
    unsettled: bool = False  # gzip files are still being checked: not idle, though the backlog may be empty


# Decompressed in one look, to see which gzip files are whole. No batch begins during a look: it is short.
GZIP_LOOK_BYTES = 32 * 2**20


@dataclass(slots=True)
class _Look:
    """One look under way: the known files as they become, and what is noticed."""

    files: dict[int, TrackedFile]
    next_number: int
    now_us: int
    final: bool
    problems: list[Problem]
    changed: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)  # numbers of the files that were recognised
    withheld: list[Sighting] = field(default_factory=list)  # can't be read, or are no whole gzip file yet
    sizes: dict[str, int] = field(default_factory=dict)  # decompressed, of the unsettled
    missing: set[int] = field(default_factory=set)
    lost: list[VanishedFile] = field(default_factory=list)
    _gzips: dict[int, TrackedFile] | None = None

    def gzips(self) -> dict[int, TrackedFile]:
        """The compressed files that are known, by inode."""
        if self._gzips is None:
            self._gzips = {file.file.inode: file for file in self.files.values() if file.file.compressed}
        return self._gzips

    def put(self, file: TrackedFile) -> None:
        if self.files.get(file.file.number) != file:
            self.files[file.file.number] = file
            self.changed.add(file.file.number)

    def withhold(self, sighting: Sighting, problem: Problem | None) -> None:
        self.withheld.append(sighting)
        if problem is not None and problem not in self.problems:
            self.problems.append(problem)


class LogTail:
    """Follows one log of one datacenter. Keeps only caches: another instance goes on from the same state."""

    def __init__(
        self,
        logs_folder: Path,
        side: Side,
        log: Log,
        limits: Limits,
        tailing: Tailing,
        gzip_look_bytes: int = GZIP_LOOK_BYTES,
    ) -> None:
        """A tail of the files that `log.files` names below `logs_folder`. No I/O yet."""
        self._logs_folder = logs_folder
        self._side: Side = side
        self._log = log
        self._line_limit_bytes = limits.line_bytes
        self._gzips = ClosedGzips(logs_folder, tailing, gzip_look_bytes)
        self.seen = Scan((), (), {}, frozenset())  # by the last look
        self._known: dict[str, tuple[Sighting, int]] = {}  # path -> as it was last seen, file number
        self._copies: dict[Sighting, int] = {}  # the other form of a known file (`identity.match`)
        self._missing: set[int] = set()  # numbers of the files that the last look did not find
        self._half_lines: dict[int, tuple[int, int]] = {}  # file number -> (offset, size): no whole line
        self._failed_cuts: dict[int, Problem] = {}  # by file number, until a cut succeeds

    def observe(
        self, tracked: Mapping[int, TrackedFile], next_number: int, now_us: int, final: bool = False
    ) -> Observation:
        """Look at all files, match them to `tracked` (of this side), number new ones from `next_number` on.

        A file is lost when two looks in a row miss it (a rename may hide it from one); one that is gone
        comes back when it is seen again. `final`: the inputs are declared complete, so an unterminated
        last line counts, and one look is enough (protocol D4). Never raises for what the disk says.
        """
        found = self.seen = scan(self._logs_folder, self._log.files)
        look = _Look(dict(tracked), next_number, now_us, final, list(found.problems))
        self._gzips.begin_look(unbounded=final)
        unsettled = self._settle(look, found.sightings)
        renamed = self._settle(look, self._renamed(look, found))
        self._copies = {copy: number for copy, number in self._copies.items() if number in look.settled}
        unsettled = [sighting for sighting in unsettled if sighting not in self._copies]
        self._recognise(look, found, unsettled, renamed)
        self._missing = look.missing
        self._known = {  # names that a file had before a rename are forgotten
            path: (sighting, number)
            for path, (sighting, number) in self._known.items()
            if number in look.settled and look.files[number].file.path == path
        }
        look.problems += [p for number, p in self._failed_cuts.items() if number in look.settled]
        look.problems += _vanished_folders(look.files.values(), found)
        return Observation(
            {number: look.files[number] for number in look.changed},
            self._backlog(look),
            tuple(look.problems),
            tuple(look.lost),
            look.next_number,
            self._gzips.unsettled,
        )

    def _settle(self, look: _Look, sightings: Iterable[Sighting]) -> list[Sighting]:
        """Recognise files that are as they were, or merely grew; return the others."""
        unsettled = []
        for sighting in sightings:
            before, number = self._known.get(sighting.path, (None, -1))
            file = look.files.get(number)
            if before is None or before.inode != sighting.inode or file is None or file.state != "open":
                unsettled.append(sighting)
            elif sighting == before:
                look.settled.add(number)
            elif sighting.size_bytes > before.size_bytes and self._merely_grew(look, sighting, file):
                self._see_again(look, file, sighting)
            else:
                unsettled.append(sighting)
        return unsettled

    def _merely_grew(self, look: _Look, sighting: Sighting, file: TrackedFile) -> bool:
        look.sizes[sighting.path] = sighting.size_bytes
        return not sighting.compressed and self._same_content(look, sighting, file)

    def _renamed(self, look: _Look, found: Scan) -> list[Sighting]:
        """Known files under names that the pattern does not match (access.log -> access.log.1)."""
        if not found.others:
            return []
        by_inode = {inode: path for path, inode in found.others.items()}
        renamed: dict[str, None] = {}
        for number, file in look.files.items():
            if number in look.settled:
                continue
            compressed = strip_gz(file.file.path) + ".gz"
            path = by_inode.get(file.file.inode, compressed if compressed in found.others else None)
            if path is not None:
                renamed[path] = None
        return [sighting for path in renamed if (sighting := self._sight(path)) is not None]

    def _sight(self, path: str) -> Sighting | None:
        try:
            status = os.stat(self._logs_folder / path)
        except OSError:
            return None
        return Sighting(path, status.st_ino, status.st_size, status.st_mtime_ns, path.endswith(".gz"))

    def _recognise(
        self, look: _Look, found: Scan, unsettled: list[Sighting], renamed: list[Sighting]
    ) -> None:
        """Match what is not settled to what is known, by content; the rest is new or lost."""
        matches = match(
            look.files,
            [sighting for sighting in unsettled + renamed if self._is_whole(look, sighting)],
            lambda sighting, file: self._same_content(look, sighting, file),
            frozenset(look.settled),
        )
        for number, sighting in matches.same.items():
            self._see_again(look, look.files[number], sighting)
        not_new = {sighting.path for sighting in renamed + look.withheld}
        for sighting in matches.fresh:
            if sighting.path not in not_new:
                self._number(look, sighting)
        self._copies = {**self._copies, **matches.copies}
        self._miss(look, found, matches.lost)

    def _is_whole(self, look: _Look, sighting: Sighting) -> bool:
        """Sets the sighting's decompressed size; False: a gzip file that is not whole, or not yet."""
        look.sizes[sighting.path] = sighting.size_bytes
        if not sighting.compressed:
            return True
        known = look.gzips().get(sighting.inode)
        if known is not None:  # it was whole when it became a log file
            look.sizes[sighting.path] = known.size_bytes
            if self._same_content(look, sighting, known):
                return True
        verdict = self._gzips.size_bytes(sighting, look.now_us, look.final)
        if isinstance(verdict, int):
            look.sizes[sighting.path] = verdict
            return True
        look.withhold(sighting, verdict)
        return False

    def _same_content(self, look: _Look, sighting: Sighting, file: TrackedFile) -> bool:
        """Does it begin as the file did, and end in what was read last (protocol D1, D2)?"""
        if sighting in look.withheld or look.sizes[sighting.path] < file.offset_bytes:
            return False
        unchanged_gzip = file.file.compressed and sighting.inode == file.file.inode
        try:
            with open_source(self._logs_folder / sighting.path, sighting.compressed) as source:
                return has_head(source, file.file) and (unchanged_gzip or has_tail(source, file))
        except FileNotFoundError:
            look.withhold(sighting, None)  # it went since the scan: the next look will tell
        except (OSError, NotClosedYet, CorruptGzip) as error:
            look.withhold(sighting, _problem(sighting.path, error))
        return False

    def _see_again(self, look: _Look, file: TrackedFile, sighting: Sighting) -> None:
        size_bytes, log_file = look.sizes[sighting.path], file.file
        if (log_file.path, log_file.inode) != (sighting.path, sighting.inode):
            path, inode, compressed = sighting.path, sighting.inode, sighting.compressed
            log_file = replace(log_file, path=path, inode=inode, compressed=compressed)
        grown_us = look.now_us if size_bytes > file.size_bytes else file.grown_us
        look.put(replace(file, file=log_file, size_bytes=size_bytes, grown_us=grown_us, state="open"))
        look.settled.add(log_file.number)
        self._known[sighting.path] = sighting, log_file.number

    def _number(self, look: _Look, sighting: Sighting) -> None:
        """Make a log file of a new file, if it holds a record."""
        has_header = self._log.format != "jsonl"
        if look.sizes[sighting.path] == 0:
            return
        try:
            with open_source(self._logs_folder / sighting.path, sighting.compressed) as source:
                head = read_head(source, has_header, self._line_limit_bytes, look.final)
        except FileNotFoundError:
            return
        except (OSError, NotClosedYet, CorruptGzip) as error:
            look.withhold(sighting, _problem(sighting.path, error))
            return
        if isinstance(head, HeaderTooLong):
            reason = f"its header line is longer than {self._line_limit_bytes} bytes (limits.line)"
            look.problems.append(Problem(sighting.path, reason))
        elif isinstance(head, Head):
            log_file = LogFile(
                look.next_number, self._side, sighting.path, sighting.inode, sighting.compressed,
                head.header, head.header_bytes, head.head_bytes, head.head_hash,
            )  # fmt: skip
            size_bytes = look.sizes[sighting.path]
            look.put(TrackedFile(log_file, head.header_bytes, b"", False, size_bytes, look.now_us, None))
            look.settled.add(look.next_number)
            self._known[sighting.path] = sighting, look.next_number
            look.next_number += 1

    def _miss(self, look: _Look, found: Scan, numbers: Collection[int]) -> None:
        """Files that were not found: lost at the second look, unless they may be where nobody can read."""
        withheld = _traces(look.withheld)
        seen = _traces(found.sightings if numbers else ())
        for number in numbers:
            file = look.files[number]
            traces = {file.file.inode, strip_gz(file.file.path)}
            unreadable = any(_is_below(file.file.path, problem.path) for problem in look.problems)
            if file.state != "open" or unreadable or withheld & traces:
                continue
            look.missing.add(number)
            if look.final or number in self._missing:
                unread_bytes = max(0, file.size_bytes - file.offset_bytes)
                look.put(replace(file, state="replaced" if seen & traces else "gone"))
                look.lost.append(VanishedFile(look.files[number], unread_bytes))

    def _backlog(self, look: _Look) -> dict[int, int]:
        backlog = {}
        for number in sorted(look.settled):
            file = look.files[number]
            waiting_bytes = file.size_bytes - file.offset_bytes
            half_line = self._half_lines.get(number) == (file.offset_bytes, file.size_bytes)
            if waiting_bytes > 0 and (look.final or not half_line):
                backlog[number] = waiting_bytes
        return backlog

    def cut(
        self,
        tracked: TrackedFile,
        budget_bytes: int,
        final: bool = False,
        size_bytes: int | None = None,
    ) -> tuple[ByteRange, TrackedFile] | None:
        """The next range of whole lines of a file, and the file as it stands behind it.

        At most `budget_bytes`, but at least one line up to the line limit. None: no whole line is
        waiting, or the file is not the tracked one any more, which the next `observe` settles, or it
        can't be read, which the next `observe` reports.
        `size_bytes`: lines that begin at or after it are left alone (protocol D4).
        """
        file = tracked.file
        try:
            with open_source(self._logs_folder / file.path, file.compressed) as source:
                self._failed_cuts.pop(file.number, None)
                if not (has_head(source, file) and has_tail(source, tracked)):
                    self._known.pop(file.path, None)
                    return None
                cut = cut_range(source, tracked, budget_bytes, self._line_limit_bytes, final, size_bytes)
        except FileNotFoundError:
            self._known.pop(file.path, None)
            return None
        except (OSError, NotClosedYet, CorruptGzip) as error:
            self._failed_cuts[file.number] = _problem(file.path, error)
            return None
        if cut is None:
            self._half_lines[file.number] = (tracked.offset_bytes, tracked.size_bytes)
        return cut


def _problem(path: str, error: Exception) -> Problem:
    if isinstance(error, OSError):
        return Problem(path, reason_of(error))
    return Problem(path, f"not a sound gzip file: {error or 'it ends early'}")


def _traces(sightings: Iterable[Sighting]) -> set[int | str]:
    """By what a file may be known again: inodes and paths."""
    traces: set[int | str] = set()
    for sighting in sightings:
        traces |= {sighting.inode, strip_gz(sighting.path)}
    return traces


def _is_below(path: str, folder: str) -> bool:
    return folder == "." or path == folder or path.startswith(folder + "/")


def _vanished_folders(files: Iterable[TrackedFile], found: Scan) -> list[Problem]:
    """Folders that took unread bytes with them when they went: named as long as their files are tracked."""
    lost: dict[str, int] = {}
    for file in files:
        folder, _, _ = file.file.path.rpartition("/")
        if file.state == "gone" and folder not in found.folders and file.size_bytes > file.offset_bytes:
            lost[folder] = lost.get(folder, 0) + file.size_bytes - file.offset_bytes
    return [
        Problem(folder or ".", f"the folder is not there any more; {unread_bytes} bytes in it were not read")
        for folder, unread_bytes in lost.items()
    ]
