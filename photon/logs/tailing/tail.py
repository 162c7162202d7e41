"""Follow the files of one log: which there are, how far they were read, what to read next.

Nothing is stored here: the caller stores the `TrackedFile`s that a look returns, for the next look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from photon.logs.discovery import FileProblem, FoundFile, Scan, match
from photon.logs.files import ByteRange, LogFile, Side, TrackedFile
from photon.logs.folders import log_folder
from photon.logs.formats.dialect import dialect_of
from photon.logs.source import (
    UNREADABLE,
    Beginning,
    Head,
    LogsUnavailable,
    end_hash,
    hash_bytes,
    problem_of,
    read_head,
    why_not_read,
)
from photon.logs.tailing.contents import Contents
from photon.logs.tailing.known_files import KnownFiles
from photon.logs.tailing.missing_files import (
    ends_of_nameless,
    kept_of,
    miss,
    paths_elsewhere,
    vanished_folders,
)
from photon.logs.tailing.observation import Look, Observation
from photon.logs.tailing.open_files import OpenFiles
from photon.logs.tailing.retry_times import RetryTimes
from photon.logs.tailing.rotated_files import (
    copies_among,
    copies_among_new,
    damaged_in_place,
    find_back,
    find_continued,
    find_elsewhere,
    find_moved,
    find_rotated,
    longer_copies,
)
from photon.logs.tailing.unknown_ends import Ends, latest_growth_us, was_written
from photon.logs.tailing.unread_finder import UnreadFinder
from photon.logs.tailing.unseen_rotations import UnseenRotations, others_beside, strangers_beside
from photon.logs.tailing.whole_gzips import WholeGzips
from photon.logs.unread_files import UnreadFile
from photon.pipeline.location import Location
from photon.pipeline.sections import Limits, Log, Tailing
from photon.process.clock import MICROSECONDS, microseconds

# Which new files are numbered first, by whether they are compressed, and matched by the pattern: each is
# compared with those before it, for a log and its copy may both be new.
ORDER_OF_NEW = ((False, True), (False, False), (True, True), (True, False))
LISTED_ONLY = "it is listed and not there: it was removed before it was read, or its key ends with a slash"


class LogTail:
    """Follows one log of one datacenter. Keeps only caches: another instance goes on from the same state."""

    def __init__(
        self,
        logs: Location,
        side: Side,
        log: Log,
        limits: Limits,
        tailing: Tailing,
        held: OpenFiles | None = None,
        unread: Iterable[UnreadFile] = (),
    ) -> None:
        """A tail of the files that `log.files` names below `logs`. No I/O yet.

        `held`: the files that the caller holds open. `unread`: those that an earlier one could not read.
        """
        self._logs, self._folder = logs, log_folder(logs)
        self._held = held
        self._watch = self._folder.watch(log.files, tailing.links_lead_out)
        self._side: Side = side
        self._log = log
        self._line_limit_bytes = limits.line_bytes
        self._idle_us = microseconds(tailing.idle_after)
        idle_after = None if self._folder.is_immutable else tailing.idle_after
        self._gzips = WholeGzips(self._folder.open_stored, idle_after)
        self._contents = Contents(self._folder, self._gzips)
        self._retry_times = RetryTimes()
        self._known = KnownFiles(self._folder, log, limits.line_bytes, self._retry_times, unread)
        self._unread = UnreadFinder(side, log.files, self._contents)
        self.seen = Scan()  # files that the last look saw
        self._copies: dict[FoundFile, int] = {}  # the other form of a known file (`discovery.match`)
        self._unseen = UnseenRotations()
        # Numbers of the files that the last look did not find, with `Ends.latest_us` of the first such look.
        self._missing: dict[int, int] = {}

    def observe(
        self,
        tracked: Mapping[int, TrackedFile],
        next_number: int,
        now_us: int,
        final: bool = False,
        told: Sequence[str] | None = None,
        whole: bool = False,
    ) -> Observation:
        """Look at all files, match them to `tracked` (of this side), number new ones from `next_number` on.

        A file vanishes when two looks in a row miss it (a rename may hide it from one); it comes back when
        it is seen again. `final`: the inputs are declared complete, so an unterminated last line counts, and
        one look is enough (protocol D4). `told` and `whole` are for the watch.

        Never raises for what the disk says.
        """
        found = self.seen = self._watch.scan(final or whole, told)
        paths = frozenset(file.path for file in found.files)
        look = Look(
            dict(tracked),
            next_number,
            now_us,
            final,
            list(found.problems),
            paths,
            paths | found.others.keys(),
            tracked,
        )
        self._gzips.begin_look(unbounded=final)
        self._retry_times.begin_look(now_us)
        ends = Ends.of(tracked.values(), found.inodes, self._idle_us, self._held)
        self._recognise(look, found, ends)
        self._retry_times.keep(found.files)
        latest_us = latest_growth_us(tracked.values())
        self._missing = {number: self._missing.get(number, latest_us) for number in look.missing}
        self._known.keep(look)
        if self._held is not None:
            self._held.note_doubled(look.files, self._copies.values())
        self._known.read_doubted(look)
        look.problems += vanished_folders(look.files.values(), found)
        known = self._known.seen.keys() - look.failed
        seen_files = None if found.is_away else self._unread.seen_files(look, found, known, self._copies)
        made = (
            {one.path for one in seen_files.unread if one.is_copy_so_far} if seen_files is not None else set()
        )
        look.problems = [one for one in look.problems if one.path not in made]  # each rotation makes some
        return Observation(
            {number: look.files[number] for number in look.changed},
            self._known.backlog(look),
            tuple(look.problems),
            tuple(look.vanished),
            self._gzips.pending
            or found.is_away
            or any(look.files[number].state == "open" for number in look.missing),
            found.is_away,
            seen_files=seen_files,
            passed_over=found.passed_over,
            listed_us=now_us - int(found.took_seconds * MICROSECONDS) if found.is_whole else None,
            listed_looks_ago=found.began_scans_ago,
        )

    def doubt(self, files: Iterable[LogFile]) -> None:
        """Try at the next look whether these can be read; as long as one can't, it has an entry."""
        self._known.doubt(files)

    def _recognise(self, look: Look, found: Scan, ends: Ends) -> None:
        """Match what was found to the known files, and number the others."""
        for tracked in self._held.gone_on(look.files) if self._held is not None else ():
            look.put(tracked)
            self._known.forget(tracked.file.number)
        unknown = self._find_unchanged(look, found.files)
        for tracked in ends_of_nameless(look, self._held):
            look.put(replace(tracked, grown_us=look.now_us))
        paths = paths_elsewhere(look, self._contents, found, self._held)
        renamed = self._find_unchanged(look, self._folder.find(paths).values())
        self._copies = {copy: number for copy, number in self._copies.items() if number in look.present}
        self._match(look, found, ends, [file for file in unknown if file not in self._copies], renamed)

    def _find_unchanged(self, look: Look, found: Iterable[FoundFile]) -> list[FoundFile]:
        """Recognise files that are as they were, or merely grew; return the others."""
        others = []
        for now in found:
            before, number = self._known.seen.get(now.path, (None, -1))
            file = look.files.get(number)
            if before is None or file is None or file.state != "open" or before.inode != now.inode:
                others.append(now)
            elif (now is before or now == before) and number not in self._known.preallocated:
                look.present.add(number)
            elif (
                now.size_bytes > before.size_bytes or number in self._known.preallocated
            ) and self._merely_grew(look, now, file):
                self._found_again(look, file, now)
            else:
                if now.size_bytes == before.size_bytes:
                    look.altered.add(now.inode)
                others.append(now)
        return others

    def _merely_grew(self, look: Look, found: FoundFile, file: TrackedFile) -> bool:
        look.sizes.pop(found.path, None)
        return not found.compressed and self._contents.same_content(look, found, file)

    def _match(
        self, look: Look, found: Scan, ends: Ends, unknown: list[FoundFile], renamed: list[FoundFile]
    ) -> None:
        """Match the other files by content; those that match nothing are new or missing."""
        matches = match(
            look.files,
            [file for file in unknown + renamed if self._can_be_read(look, file)],
            lambda found, file: self._contents.same_content(look, found, file),
            frozenset(look.present),
        )
        for number, file in matches.same.items():
            before = look.files[number]
            is_other = ends.may_be_another(before, file) or ends.may_be_written_anew(before, file)
            self._found_again(look, before, file, is_other or ends.was_left(before))
        rotated = find_rotated(look, self._contents, found, matches)
        rotated |= find_moved(look, self._contents, rotated, ends.inodes)
        rotated |= find_elsewhere(look, self._contents, matches.missing, rotated, ends.inodes)
        if rotated:
            ends = ends.beside(others_beside(look, self._contents, found, self._held).values())
        for number, file in rotated.items():
            before = look.files[number]
            self._found_again(look, before, file, ends.was_copied(before, file))
        left = [number for number in matches.missing if number not in rotated]
        damaged = damaged_in_place(look, self._contents, left, matches.fresh)
        for number, file in damaged.items():
            self._begin_otherwise(look, look.files[number], file)
        rotated |= damaged
        kept = kept_of(look, self._contents, self._held, matches.missing, rotated)
        for number, file in kept.items():
            before = look.files[number]
            self._found_again(look, before, file, ends.went_in_use(before))
        missing = [number for number in matches.missing if number not in rotated and number not in kept]
        not_new = {file.path for file in [*renamed, *look.withheld, *rotated.values()]}
        longer = longer_copies(look, matches)
        fresh = [file for file in [*matches.fresh, *longer] if file.path not in not_new]
        miss(look, found, ends, missing, self._missing, self._folder.is_immutable)
        fresh += self._unseen.find(look, self._contents, found, self._held, missing)
        back = find_back(look, self._contents, missing, fresh)
        back |= find_continued(look, self._contents, [file for file in fresh if file not in back])
        for file, number in back.items():
            self._found_again(look, look.files[number], file)
        look.vanished = [file for file in look.vanished if file.file.number not in back.values()]
        self._copies |= {file: number for file, number in matches.copies.items() if file not in longer}
        for is_compressed, is_log in ORDER_OF_NEW:
            new = [file for file in fresh if file.compressed is is_compressed and file not in back]
            new = [file for file in new if (file.path in look.matched) is is_log]
            self._copies |= copies_among(look, self._contents, new)
            new = [file for file in new if file not in self._copies and file not in look.withheld]
            twins = copies_among_new(look, self._contents, new)
            by_age = sorted(new, key=lambda file: file.modified_ns)  # so that numbers go by age
            for file in self._folder.at_hand(by_age):
                if self._retry_times.is_enough:
                    break
                if file not in twins:
                    self._number(look, file)
            self._copies |= {
                file: self._known.seen[whole.path][1]
                for file, whole in twins.items()
                if whole.path in self._known.seen
            }
        self._unseen.forget(self._copies, self._known.seen)

    def _can_be_read(self, look: Look, found: FoundFile) -> bool:
        """Whether it is whole, and to be tried at this look."""
        if (problem := self._retry_times.held(found)) is not None or self._retry_times.is_enough:
            look.withhold(found, problem)
            return False
        try:
            if self._contents.is_whole(look, found):
                return True
            if self._gzips.was_refused(found):
                self._retry_times.put(found, look.problems[-1])
        except LogsUnavailable as error:
            look.withhold(found, self._retry_times.put(found, problem_of(found.path, error), of_store=True))
        return False

    def _found_again(
        self, look: Look, file: TrackedFile, found: FoundFile, end_unknown: bool = False
    ) -> None:
        size_bytes = look.sizes[found.path]
        log_file = replace(file.file, path=found.path, inode=found.inode, compressed=found.compressed)
        grown_us = look.now_us if size_bytes > file.size_bytes else file.grown_us
        if found.size_bytes == file.size_bytes and was_written(file, found):
            look.altered.add(found.inode)
        end_unknown = end_unknown or (file.end_unknown and file.state == "open")
        end_unknown = end_unknown and not self._folder.is_immutable  # an object never grew
        again = replace(file, file=log_file, size_bytes=size_bytes, grown_us=grown_us, state="open")
        has_moved = (file.file.path, file.file.inode) != (found.path, found.inode)
        grows = size_bytes > file.size_bytes and not has_moved
        in_use = found.path in look.matched or grows or (file.in_use and not has_moved)
        again = replace(again, in_use=in_use, end_unknown=end_unknown)
        look.put(self._as_seen(look, again, found, has_moved))
        self._remember(look, found, log_file.number)

    def _begin_otherwise(self, look: Look, file: TrackedFile, found: FoundFile) -> None:
        """Know a file by what it begins with now. Its columns stay those of its header of then."""
        with suppress(*UNREADABLE), self._folder.open(found) as source:
            start, length = file.file.header_bytes, file.file.head_bytes
            head_hash = hash_bytes(source.read(start, length))
            look.altered.add(found.inode)
            look.ends[found.path] = end_hash(source, look.sizes[found.path])
            self._found_again(look, replace(file, file=replace(file.file, head_hash=head_hash)), found)

    def _as_seen(self, look: Look, file: TrackedFile, found: FoundFile, has_moved: bool) -> TrackedFile:
        """A file with what tells it from others the next time."""
        is_named = found.path in look.matched
        return replace(
            file,
            disk_bytes=found.size_bytes if found.compressed else 0,
            seen_hash=look.ends.get(found.path, file.seen_hash),
            modified_ns=found.modified_ns if is_named or not file.modified_ns else file.modified_ns,
            altered_us=look.now_us if found.inode in look.altered else file.altered_us,
            target=self._folder.target_of(found) if is_named and has_moved else file.target,
        )

    def _number(self, look: Look, found: FoundFile) -> None:
        """Make a log file of a new file, if it holds a record."""
        size_bytes = look.sizes[found.path]
        if size_bytes == 0:
            look.without_record.add(found.path)
            return
        try:
            with self._folder.open(found) as source:
                is_closed = look.final or self._folder.is_immutable
                if self._contents.is_preallocated(look, found):
                    source = Beginning(source, size_bytes)
                head = read_head(source, dialect_of(self._log), self._line_limit_bytes, is_closed)
                is_half = head == "no record yet" and source.read(size_bytes - 1, 1) != b"\n"
                if not (found.compressed or self._folder.is_immutable):
                    look.ends[found.path] = end_hash(source, size_bytes)
        except FileNotFoundError:
            if self._folder.is_immutable:
                problem = FileProblem(found.path, LISTED_ONLY)
                look.problems.append(self._retry_times.put(found, problem))
            return
        except UNREADABLE as error:
            of_store = isinstance(error, LogsUnavailable)
            look.withhold(found, self._retry_times.put(found, problem_of(found.path, error), of_store))
            return
        self._retry_times.was_read(found)
        if (why := why_not_read(self._logs / found.path, head, self._line_limit_bytes)) is not None:
            look.problems.append(self._retry_times.put(found, FileProblem(found.path, why)))
        elif isinstance(head, Head):
            log_file = LogFile(
                look.next_number, self._side, found.path, found.inode, found.compressed,
                head.header, head.header_bytes, head.head_bytes, head.head_hash,
            )  # fmt: skip
            new = TrackedFile(log_file, head.header_bytes, b"", False, size_bytes, look.now_us, None)
            strangers = strangers_beside(look, self._contents, found)
            new = replace(new, end_unknown=found.path in look.cut_off, strangers=strangers)
            look.put(self._as_seen(look, new, found, has_moved=True))
            self._contents.note_as_log(look, found)
            self._remember(look, found, look.next_number)
            look.next_number += 1
        elif is_half:
            look.half.add(found.path)
        else:
            look.without_record.add(found.path)

    def _remember(self, look: Look, found: FoundFile, number: int) -> None:
        look.present.add(number)
        self._known.note(found, number, self._contents.is_preallocated(look, found))

    def cut(
        self, tracked: TrackedFile, budget_bytes: int, final: bool = False, size_bytes: int | None = None
    ) -> tuple[ByteRange, TrackedFile] | None:
        """Return the next range of whole lines of a file, as `KnownFiles.cut` does."""
        return self._known.cut(tracked, budget_bytes, final, size_bytes)
