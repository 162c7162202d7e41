"""The known files of one log as they were last seen, and how they are read on: what is cut of them next."""

from __future__ import annotations

from collections.abc import Iterable

from photon.logs.cutting import cut_range, cut_to_end
from photon.logs.discovery import FileProblem, FoundFile
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.logs.folders import LogFolder
from photon.logs.formats.records import record_rules
from photon.logs.source import (
    UNREADABLE,
    Beginning,
    LogsUnavailable,
    has_head,
    has_seen_end,
    has_tail,
    problem_of,
    source_of,
)
from photon.logs.tailing.observation import Look
from photon.logs.tailing.retry_times import RetryTimes
from photon.logs.unread_files import UnreadFile
from photon.pipeline.sections import Log


class KnownFiles:
    """Reads known files on, and knows which of them can't be. Keeps only caches."""

    def __init__(
        self,
        folder: LogFolder,
        log: Log,
        line_limit_bytes: int,
        retry_times: RetryTimes,
        unread: Iterable[UnreadFile],
    ) -> None:
        """`unread`: files that an earlier one could not read."""
        self._folder, self._log, self._line_limit_bytes = folder, log, line_limit_bytes
        self._retry_times = retry_times
        self.seen: dict[str, tuple[FoundFile, int]] = {}  # path -> as it was last seen, file number
        self.preallocated: set[int] = set()  # numbers of files that are written to within their sizes
        self._half_lines: dict[int, tuple[int, int]] = {}  # file number -> (offset, size): no whole line
        self._failed_cuts: dict[int, FileProblem] = {}  # file number -> problem, until one succeeds
        # Paths and inodes of files that may be known and read, and can't be read again.
        self._doubted = {(one.path, one.inode) for one in unread}

    def note(self, found: FoundFile, number: int, is_preallocated: bool) -> None:
        """Remember a file as a look has seen it."""
        if is_preallocated:
            self.preallocated.add(number)
        else:
            self.preallocated.discard(number)
        self.seen[found.path] = found, number

    def forget(self, number: int) -> None:
        """Have the next look compare this file by its content."""
        self.seen = {path: known for path, known in self.seen.items() if known[1] != number}

    def keep(self, look: Look) -> None:
        """Forget the names that files had before a rename, and files that are not there."""
        self.seen = {
            path: (file, number)
            for path, (file, number) in self.seen.items()
            if number in look.present and look.files[number].file.path == path
        }
        self.preallocated &= look.files.keys()
        self._half_lines = {n: at for n, at in self._half_lines.items() if n in look.present}
        self._failed_cuts = {n: problem for n, problem in self._failed_cuts.items() if n in look.files}

    def doubt(self, files: Iterable[LogFile]) -> None:
        """Try at the next look whether these can be read."""
        self._doubted |= {(file.path, file.inode) for file in files}

    def read_doubted(self, look: Look) -> None:
        """Note which known files can't be read on, and which can't be read again where a lookup failed."""
        known = {(one.file.path, one.file.inode): one for one in look.files.values()} if self._doubted else {}
        doubted = {known[place].file.number: place for place in self._doubted & known.keys()}
        for number, place in sorted(doubted.items()):
            file, found = look.files[number].file, self._as_found(look.files[number].file)
            if self._retry_times.held(found) is not None or self._retry_times.is_enough:
                continue
            try:
                with self._folder.open_stored(FoundFile.of(file)) as stored:
                    stored.version()  # asks the store, which may have given its beginning before
                    source_of(stored, file.compressed).read(max(0, look.files[number].offset_bytes - 1), 1)
            except FileNotFoundError:
                pass  # gone, which the look notices
            except UNREADABLE as error:
                of_store = isinstance(error, LogsUnavailable)
                problem = self._retry_times.put(found, problem_of(found.path, error), of_store)
                self._failed_cuts[number] = problem
                continue
            self._doubted.discard(place)
            self._retry_times.was_read(found)
            self._failed_cuts.pop(number, None)
        failed = self._failed_cuts.items()
        there = [problem for number, problem in failed if number in look.present or number in doubted]
        look.problems += there
        look.failed |= {problem.path for problem in there}

    def backlog(self, look: Look) -> dict[int, int]:
        """How many bytes of each file wait to be cut; half a line does not."""
        files = look.files
        unread = [n for n in look.present if files[n].size_bytes > files[n].offset_bytes]
        return {
            number: files[number].unread_bytes
            for number in sorted(unread)
            if not self._is_held(files[number].file)
            and (
                look.final
                or self._half_lines.get(number) != (files[number].offset_bytes, files[number].size_bytes)
            )
        }

    def _is_held(self, file: LogFile) -> bool:
        """Whether a known file could not be cut, and is not tried again yet."""
        return file.number in self._failed_cuts and self._retry_times.held(self._as_found(file)) is not None

    def _as_found(self, file: LogFile) -> FoundFile:
        return self.seen[file.path][0] if file.path in self.seen else FoundFile.of(file)

    def cut(
        self, tracked: TrackedFile, budget_bytes: int, final: bool = False, size_bytes: int | None = None
    ) -> tuple[ByteRange, TrackedFile] | None:
        """The next range of whole lines of a file, and the file after it; see `cut_range`.

        None: no whole line is waiting, or the file can't be read or is another one now, which the next
        `observe` reports.
        """
        file = tracked.file
        found = self._as_found(file)
        if self._retry_times.held(found) is not None:
            return None
        try:
            with self._folder.open_at(file.path, file) as source:
                self._failed_cuts.pop(file.number, None)
                if not (
                    has_head(source, file) and has_tail(source, tracked) and has_seen_end(source, tracked)
                ):
                    self.seen.pop(file.path, None)
                    return None
                if file.number in self.preallocated:
                    source = Beginning(source, tracked.size_bytes)
                is_closed = final or self._folder.is_immutable  # an unterminated last line is whole
                is_rest = self._is_left_as_a_whole(tracked, budget_bytes, size_bytes)
                if is_rest and (cut := cut_to_end(source, tracked)) is not None:
                    return cut
                limit_bytes = self._line_limit_bytes
                rules = record_rules(self._log, file.header, limit_bytes)
                cut = cut_range(source, tracked, budget_bytes, limit_bytes, is_closed, size_bytes, rules)
        except FileNotFoundError:
            self.seen.pop(file.path, None)
            return None
        except UNREADABLE as error:
            of_store = isinstance(error, LogsUnavailable)
            problem = self._retry_times.put(found, problem_of(file.path, error), of_store)
            self._failed_cuts[file.number] = problem
            return None
        self._retry_times.was_read(found)
        if cut is None:
            self._half_lines[file.number] = (tracked.offset_bytes, tracked.size_bytes)
        return cut

    def _is_left_as_a_whole(self, tracked: TrackedFile, budget_bytes: int, size_bytes: int | None) -> bool:
        """Whether a range takes all that is left of an object."""
        is_plain = self._folder.is_immutable and not tracked.file.compressed
        left_bytes = min(budget_bytes, (size_bytes or tracked.size_bytes) - tracked.offset_bytes)
        return is_plain and 0 < tracked.unread_bytes <= left_bytes
