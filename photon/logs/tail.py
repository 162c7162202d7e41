"""Follow the files of one log: which there are, how far they were read, what to read next.

Nothing is stored here: the caller stores the `TrackedFile`s that a look returns, for the next look.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from photon.logs.discovery import (
    FileProblem,
    FoundFile,
    Matches,
    Scan,
    match,
    scan,
    stat_file,
    strip_gz,
)
from photon.logs.files import ByteRange, LogFile, Side, TrackedFile
from photon.logs.ranges import cut_range
from photon.logs.rotation import SHORT_BYTES, Beginnings, Rotations, is_beginning_of
from photon.logs.source import (
    UNREADABLE,
    Head,
    NotClosedYet,
    WholeGzips,
    has_head,
    has_tail,
    open_source,
    problem_of,
    read_head,
)
from photon.pipeline.file import Limits, Log, Tailing


@dataclass(frozen=True, slots=True)
class Observation:
    """What one look at a log found."""

    changed: Mapping[int, TrackedFile]  # new and changed files, by number
    backlog_bytes: Mapping[int, int]  # file number -> bytes that wait to be cut; no entry: nothing to do
    problems: tuple[FileProblem, ...]  # what can't be read now
    vanished: tuple[TrackedFile, ...]  # gone or replaced since the last look; an alarm if unread
    checks_pending: bool = False  # the next look will know more: not idle, though the backlog may be empty


@dataclass
class _Look:
    """One look under way: the known files as they become, and what it has noticed."""

    files: dict[int, TrackedFile]
    next_number: int
    now_us: int
    final: bool
    problems: list[FileProblem]
    changed: set[int] = field(default_factory=set)
    present: set[int] = field(default_factory=set)  # numbers of the files that were found again
    withheld: list[FoundFile] = field(default_factory=list)  # can't be read, or are no whole gzip file yet
    sizes: dict[str, int] = field(default_factory=dict)  # by path, decompressed
    awaited: set[int] = field(default_factory=set)  # numbers of files that are being compressed
    missing: set[int] = field(default_factory=set)
    vanished: list[TrackedFile] = field(default_factory=list)

    @cached_property
    def gzips(self) -> dict[int, TrackedFile]:
        """The compressed files that are known, by inode."""
        return {file.file.inode: file for file in self.files.values() if file.file.compressed}

    @cached_property
    def plain_beginnings(self) -> Beginnings:
        """How the files begin that are there and not compressed; asked when all that are known are found."""
        return Beginnings(self.files[n] for n in self.present if not self.files[n].file.compressed)

    def put(self, file: TrackedFile) -> None:
        if self.files.get(file.file.number) != file:
            self.files[file.file.number] = file
            self.changed.add(file.file.number)

    def withhold(self, found: FoundFile, problem: FileProblem | None) -> None:
        self.withheld.append(found)
        if problem is not None and problem not in self.problems:
            self.problems.append(problem)


class LogTail:
    """Follows one log of one datacenter. Keeps only caches: another instance goes on from the same state."""

    def __init__(self, logs_folder: Path, side: Side, log: Log, limits: Limits, tailing: Tailing) -> None:
        """A tail of the files that `log.files` names below `logs_folder`. No I/O yet."""
        self._logs_folder = logs_folder
        self._side: Side = side
        self._log = log
        self._line_limit_bytes = limits.line_bytes
        self._gzips = WholeGzips(logs_folder, tailing.idle_after)
        self.seen = Scan()  # by the last look
        self._known: dict[str, tuple[FoundFile, int]] = {}  # path -> as it was last seen, file number
        self._copies: dict[FoundFile, int] = {}  # the other form of a known file (`discovery.match`)
        self._missing: set[int] = set()  # numbers of the files that the last look did not find
        self._half_lines: dict[int, tuple[int, int]] = {}  # file number -> (offset, size): no whole line
        self._failed_cuts: dict[int, FileProblem] = {}  # by file number, until a cut succeeds

    def observe(
        self, tracked: Mapping[int, TrackedFile], next_number: int, now_us: int, final: bool = False
    ) -> Observation:
        """Look at all files, match them to `tracked` (of this side), number new ones from `next_number` on.

        A file vanishes when two looks in a row miss it (a rename may hide it from one); it comes back when
        it is seen again. `final`: the inputs are declared complete, so an unterminated last line counts, and
        one look is enough (protocol D4). Never raises for what the disk says.
        """
        found = self.seen = scan(self._logs_folder, self._log.files)
        look = _Look(dict(tracked), next_number, now_us, final, list(found.problems))
        self._gzips.begin_look(unbounded=final)
        unknown = self._find_unchanged(look, found.files)
        renamed = self._find_unchanged(look, self._renamed(look, found))
        self._copies = {copy: number for copy, number in self._copies.items() if number in look.present}
        self._match(look, found, [file for file in unknown if file not in self._copies], renamed)
        self._missing = look.missing
        self._known = {  # names that a file had before a rename are forgotten
            path: (file, number)
            for path, (file, number) in self._known.items()
            if number in look.present and look.files[number].file.path == path
        }
        look.problems += [p for number, p in self._failed_cuts.items() if number in look.present]
        look.problems += _vanished_folders(look.files.values(), found)
        return Observation(
            {number: look.files[number] for number in look.changed},
            self._backlog(look),
            tuple(look.problems),
            tuple(look.vanished),
            self._gzips.pending or any(look.files[number].state == "open" for number in look.missing),
        )

    def _find_unchanged(self, look: _Look, found: Iterable[FoundFile]) -> list[FoundFile]:
        """Recognise files that are as they were, or merely grew; return the others."""
        others = []
        for now in found:
            before, number = self._known.get(now.path, (None, -1))
            file = look.files.get(number)
            if before is None or before.inode != now.inode or file is None or file.state != "open":
                others.append(now)
            elif now == before:
                look.present.add(number)
            elif now.size_bytes > before.size_bytes and self._merely_grew(look, now, file):
                self._found_again(look, file, now)
            else:
                others.append(now)
        return others

    def _merely_grew(self, look: _Look, found: FoundFile, file: TrackedFile) -> bool:
        look.sizes[found.path] = found.size_bytes
        return not found.compressed and self._same_content(look, found, file)

    def _renamed(self, look: _Look, found: Scan) -> list[FoundFile]:
        """Known files under names that the pattern does not match (access.log -> access.log.1)."""
        by_inode = {inode: path for path, inode in found.others.items()}
        paths: dict[str, None] = {}
        for number, file in look.files.items() if found.others else ():
            compressed = strip_gz(file.file.path) + ".gz"
            path = by_inode.get(file.file.inode, compressed if compressed in found.others else None)
            if path is not None and number not in look.present:
                paths[path] = None
        return [now for path in paths if (now := stat_file(self._logs_folder, path)) is not None]

    def _match(self, look: _Look, found: Scan, unknown: list[FoundFile], renamed: list[FoundFile]) -> None:
        """Match the other files by content; those that match nothing are new or missing."""
        matches = match(
            look.files,
            [file for file in unknown + renamed if self._is_whole(look, file)],
            lambda found, file: self._same_content(look, found, file),
            frozenset(look.present),
        )
        for number, file in matches.same.items():
            self._found_again(look, look.files[number], file)
        rotated = self._find_rotated(look, found, matches)
        for number, file in rotated.items():
            self._found_again(look, look.files[number], file)
        not_new = {file.path for file in [*renamed, *look.withheld, *rotated.values()]}
        fresh = [file for file in matches.fresh if file.path not in not_new]
        self._copies |= {**matches.copies, **self._copies_among(look, fresh)}
        for file in fresh:
            if file not in self._copies:
                self._number(look, file)
        self._miss(look, found, [number for number in matches.missing if number not in rotated])

    def _find_rotated(self, look: _Look, found: Scan, matches: Matches) -> dict[int, FoundFile]:
        """Files that are not where they were, by content: among new files and those that nobody follows."""
        sought = [look.files[n] for n in matches.missing if look.files[n].state == "open"]
        if not sought:
            return {}
        beginnings, rotated = Beginnings(sought), dict[int, FoundFile]()
        for candidate in self._rotations(look, found, sought, matches.fresh):
            for file in self._like(look, candidate, beginnings):
                if file.file.number in rotated:
                    continue
                if candidate in look.withheld or not self._is_whole(look, candidate):
                    if candidate.path not in {problem.path for problem in look.problems}:
                        look.awaited.add(file.file.number)
                elif self._same_content(look, candidate, file):
                    rotated[file.file.number] = candidate
                    break
        return rotated

    def _rotations(
        self, look: _Look, found: Scan, sought: Iterable[TrackedFile], fresh: Iterable[FoundFile]
    ) -> list[FoundFile]:
        """What the files that are sought may be called now, in the order of the paths."""
        followed = {look.files[number].file.path for number in look.present}
        rotations = Rotations(file.file.path for file in sought)
        others = [stat_file(self._logs_folder, path) for path in rotations.among(found.others)]
        candidates = {file.path: file for file in [*others, *look.withheld, *fresh] if file is not None}
        return [candidates[path] for path in sorted(candidates) if path not in followed]

    def _like(self, look: _Look, found: FoundFile, beginnings: Beginnings) -> list[TrackedFile]:
        """The files that begin as this one; all that it may be a rotation of, while nobody can tell."""
        try:
            with open_source(self._logs_folder / found.path, found.compressed) as source:
                return beginnings.like(source, found.path)
        except NotClosedYet:
            return beginnings.beside(found.path)
        except UNREADABLE:
            return []  # if it is to be read, whoever reads it says so

    def _copies_among(self, look: _Look, fresh: Iterable[FoundFile]) -> dict[FoundFile, int]:
        """New files that hold nothing but the beginning of a file that is there: copies, perhaps half done.

        Read as files of their own, all their records would be read twice. When the original is truncated, a
        copy takes its place.
        """
        copies = {}
        for file in fresh:
            if file.compressed:
                continue
            known = look.plain_beginnings
            short = known.named_before(file.path) if file.size_bytes <= SHORT_BYTES else []
            for whole in [*self._like(look, file, known), *short]:
                if self._is_beginning_of(file, whole):
                    copies[file] = whole.file.number
        return copies

    def _is_beginning_of(self, found: FoundFile, whole: TrackedFile) -> bool:
        try:
            with (
                open_source(self._logs_folder / found.path, False) as copy,
                open_source(self._logs_folder / whole.file.path, False) as source,
            ):
                return is_beginning_of(copy, found.size_bytes, source)
        except UNREADABLE:
            return False

    def _is_whole(self, look: _Look, found: FoundFile) -> bool:
        """Note the file's decompressed size; False: a gzip file that is not whole, or not yet."""
        look.sizes[found.path] = found.size_bytes
        if not found.compressed:
            return True
        known = look.gzips.get(found.inode)
        if known is not None:  # it was whole when it became a log file
            look.sizes[found.path] = known.size_bytes
            if self._same_content(look, found, known):
                return True
        verdict = self._gzips.size_bytes(found, look.now_us, look.final)
        if isinstance(verdict, int):
            look.sizes[found.path] = verdict
            return True
        look.withhold(found, verdict)
        return False

    def _same_content(self, look: _Look, found: FoundFile, file: TrackedFile) -> bool:
        """Whether it begins as the file did, and holds what was read last (protocol D1, D2)."""
        if found in look.withheld or look.sizes[found.path] < file.offset_bytes:
            return False
        unchanged_gzip = file.file.compressed and found.inode == file.file.inode
        try:
            with open_source(self._logs_folder / found.path, found.compressed) as source:
                return has_head(source, file.file) and (unchanged_gzip or has_tail(source, file))
        except FileNotFoundError:
            look.withhold(found, None)  # it went since the scan: the next look will tell
        except UNREADABLE as error:
            look.withhold(found, problem_of(found.path, error))
        return False

    def _found_again(self, look: _Look, file: TrackedFile, found: FoundFile) -> None:
        size_bytes = look.sizes[found.path]
        log_file = replace(file.file, path=found.path, inode=found.inode, compressed=found.compressed)
        grown_us = look.now_us if size_bytes > file.size_bytes else file.grown_us
        look.put(replace(file, file=log_file, size_bytes=size_bytes, grown_us=grown_us, state="open"))
        self._remember(look, found, log_file.number)

    def _number(self, look: _Look, found: FoundFile) -> None:
        """Make a log file of a new file, if it holds a record."""
        size_bytes, has_header = look.sizes[found.path], self._log.format != "jsonl"
        if size_bytes == 0:
            return
        try:
            with open_source(self._logs_folder / found.path, found.compressed) as source:
                head = read_head(source, has_header, self._line_limit_bytes, look.final)
        except FileNotFoundError:
            return
        except UNREADABLE as error:
            look.withhold(found, problem_of(found.path, error))
            return
        if head == "header too long":
            reason = f"its header line is longer than {self._line_limit_bytes} bytes (limits.line)"
            look.problems.append(FileProblem(found.path, reason))
        elif isinstance(head, Head):
            log_file = LogFile(
                look.next_number, self._side, found.path, found.inode, found.compressed,
                head.header, head.header_bytes, head.head_bytes, head.head_hash,
            )  # fmt: skip
            look.put(TrackedFile(log_file, head.header_bytes, b"", False, size_bytes, look.now_us, None))
            self._remember(look, found, look.next_number)
            look.next_number += 1

    def _remember(self, look: _Look, found: FoundFile, number: int) -> None:
        look.present.add(number)
        self._known[found.path] = found, number

    def _miss(self, look: _Look, found: Scan, numbers: Collection[int]) -> None:
        """Files that were not found vanish at the second look, unless they may be where nobody can read."""
        withheld = _traces(look.withheld)
        seen = _traces(found.files if numbers else ())
        for number in numbers:
            file = look.files[number]
            traces = {file.file.inode, strip_gz(file.file.path)}
            unreadable = any(_is_below(file.file.path, problem.path) for problem in look.problems)
            if file.state != "open" or unreadable or withheld & traces or number in look.awaited:
                continue
            look.missing.add(number)
            if look.final or number in self._missing:
                look.put(replace(file, state="replaced" if seen & traces else "gone"))
                look.vanished.append(look.files[number])

    def _backlog(self, look: _Look) -> dict[int, int]:
        backlog = {}
        for number in sorted(look.present):
            file = look.files[number]
            half_line = self._half_lines.get(number) == (file.offset_bytes, file.size_bytes)
            if file.unread_bytes and (look.final or not half_line):
                backlog[number] = file.unread_bytes
        return backlog

    def cut(
        self, tracked: TrackedFile, budget_bytes: int, final: bool = False, size_bytes: int | None = None
    ) -> tuple[ByteRange, TrackedFile] | None:
        """The next range of whole lines of a file, and the file after it; see `cut_range`.

        None: no whole line is waiting, or the file can't be read or is another one now, which the next
        `observe` reports.
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
        except UNREADABLE as error:
            self._failed_cuts[file.number] = problem_of(file.path, error)
            return None
        if cut is None:
            self._half_lines[file.number] = (tracked.offset_bytes, tracked.size_bytes)
        return cut


def _traces(found: Iterable[FoundFile]) -> set[int | str]:
    """The inodes and paths by which files may be recognised."""
    return {trace for file in found for trace in (file.inode, strip_gz(file.path))}


def _is_below(path: str, folder: str) -> bool:
    return folder == "." or path == folder or path.startswith(folder + "/")


def _vanished_folders(files: Iterable[TrackedFile], found: Scan) -> list[FileProblem]:
    """Vanished folders whose files had unread bytes: problems as long as these files are tracked."""
    unread: dict[str, int] = {}
    for file in files:
        folder, _, _ = file.file.path.rpartition("/")
        if file.state == "gone" and folder not in found.folders and file.unread_bytes:
            unread[folder] = unread.get(folder, 0) + file.unread_bytes
    return [
        FileProblem(folder or ".", f"the folder is not there any more; {bytes_} bytes in it were not read")
        for folder, bytes_ in unread.items()
    ]
