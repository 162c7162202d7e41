"""Read both logs of a datacenter: what has grown, and the ranges of the next plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest

from photon.dispatcher.fed_log import FedLog
from photon.dispatcher.file_messages import log_entries, log_lost, log_problems, log_unknown_ends
from photon.dispatcher.landed_logs import LandedLogs
from photon.logs.announcements import Announcements
from photon.logs.discovery import FileProblem, signature_of
from photon.logs.files import ByteRange, LogFile, Side, TrackedFile
from photon.logs.forgotten_files import SeenFolders
from photon.logs.formats.records import RecordRules, record_rules
from photon.logs.ranges import RangeGone, read_at
from photon.logs.shares import next_to_serve, shares_of
from photon.logs.tailing.observation import Observation
from photon.logs.tailing.open_files import MOST_HELD, OpenFiles
from photon.logs.tailing.tail import LogTail
from photon.logs.unread_files import UnreadFile, bounded, follow
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Log
from photon.process.clock import MICROSECONDS
from photon.state.dispatcher_state import DispatcherState
from photon.state.plan import Advance
from photon.state.unread_logs import acknowledged_files
from photon.state.view import StateView

# How big files are is stored with each plan; where none follows, as with half a line, after this time.
SIZES_EVERY_SECONDS = 5


@dataclass(frozen=True)
class NewRanges:
    """Ranges of one log for a plan, and how far its files are read then."""

    ranges: tuple[ByteRange, ...] = ()
    advances: tuple[Advance, ...] = ()

    @property
    def length_bytes(self) -> int:
        return sum(each.end_bytes - each.start_bytes for each in self.ranges)


class LogReader:
    """Both logs of one datacenter, as far as they are read."""

    def __init__(
        self,
        pipeline: Pipeline,
        datacenter: str,
        files: Mapping[int, TrackedFile],
        store: DispatcherState | None = None,
        news: Announcements | None = None,
        held: OpenFiles | None = None,
        unread: Iterable[UnreadFile] = (),
    ) -> None:
        """Continue from `files` and from those that were `unread`.

        Without `store`, nothing of what a look finds is stored or logged.

        `news`: what is told of new files. `held`: those that this process holds open.
        """
        self.limits = pipeline.limits
        self._store = store
        self._news = news or Announcements()
        self._held = held
        self._told: dict[Side, list[str]] = {"primary": [], "foreign": []}  # since the side's last look
        self._logs = logs = pipeline.datacenters[datacenter].logs
        limits, tailing = pipeline.limits, pipeline.tailing
        self._settings: dict[Side, Log] = {"primary": pipeline.primary, "foreign": pipeline.foreign}
        folder = pipeline.primary.fed_folder(logs) if store is not None else None
        self.fed = FedLog(folder) if folder is not None else None
        self._landed = LandedLogs.of(pipeline, datacenter)
        self.files = dict(files)
        self.entries: dict[Side, tuple[UnreadFile, ...]] = {
            side: tuple(one for one in unread if one.side == side) for side in ("primary", "foreign")
        }
        self._tails: dict[Side, LogTail] = {
            side: LogTail(logs, side, log_of, limits, tailing, held, self.entries[side])
            for side, log_of in self._settings.items()
        }
        self._state_folder = pipeline.datacenters[datacenter].state
        self._acknowledged = acknowledged_files(self._state_folder)
        self.passed_over: dict[Side, tuple[FileProblem, ...]] = {"primary": (), "foreign": ()}
        self.has_looked = False  # before, files may be there of which the state knows nothing
        self._with_new_headers: set[int] = set()
        self.backlog_bytes: dict[Side, dict[int, int]] = {"primary": {}, "foreign": {}}
        self.problems: dict[Side, tuple[FileProblem, ...]] = {"primary": (), "foreign": ()}
        self.away_because: str | None = None  # the store of the logs can't be asked now
        self._checks_pending = False
        self._looks: dict[Side, int] = {"primary": 0, "foreign": 0}
        # The look in which a listing began that has ended: all that was there before it is found.
        self._listed_look: dict[Side, int] = {"primary": 0, "foreign": 0}
        self._listed_us: dict[Side, int] = {}  # the same as a time
        self._new_look: dict[Side, int] = {"primary": 1, "foreign": 1}  # when a look found something new
        self._unsettled: dict[Side, tuple[int, int]] = {}  # a look, and up to when the log was read by then
        self._final = False
        self._late: set[int] = set()  # numbers of files that could not be read at first
        self._ends_bytes: dict[int, int] | None = None  # where each file of declared-complete inputs ends
        self._first: dict[Side, int] = {"primary": 0, "foreign": 0}
        self._grown: set[int] = set()  # numbers of the files whose size is not stored yet
        self._sizes_stored_us = 0
        self._to_hold = set(files)  # numbers of files that are new to this reader, or have moved

    def of(self, side: Side) -> dict[int, TrackedFile]:
        return {number: tracked for number, tracked in self.files.items() if tracked.file.side == side}

    def awaited_of(self, side: Side, now_us: int) -> list[TrackedFile]:
        """The files of one log. Of those that a person has given up nothing more is awaited.

        Of landed ones their marker says it, but where somebody has called the logs complete.
        """
        given_up = {(one.path, one.inode) for one in self.entries[side] if one.identity in self._acknowledged}
        files = [
            replace(one, size_bytes=one.offset_bytes, grown_us=0)
            if (one.file.path, one.file.inode) in given_up
            else one
            for one in self.of(side).values()
        ]
        return files if self._final else self._landed.awaited(side, files, now_us)

    def look(self, now_us: int, final: bool, whole: bool = False) -> Collection[TrackedFile]:
        """Look at both logs, and return the primary files that are new, have moved or are lost.

        Foreign logs first: so a look that sees a foreign line sees every primary line written before it.
        With `final` the first look that the store of the logs answers decides where the inputs end; later
        growth is left alone (protocol D4). `whole`: it leaves nothing to later listings.
        """
        self._final = final
        self._landed.read()
        if self.fed is not None:
            self.fed.read(now_us)  # before the folder is listed, so that what it names is found (G6)
        self._acknowledged = acknowledged_files(self._state_folder)
        sides: tuple[Side, Side] = ("foreign", "primary")
        observed = {side: self._observe(side, now_us, final, whole) for side in sides}
        self._landed.read_again()
        self._checks_pending = any(each.checks_pending for each in observed.values())
        self._note_listings(observed)
        if self.fed is not None and not (observed["primary"].checks_pending or self._is_unsure("primary")):
            self.fed.listed(self._listed_us.get("primary", 0))
        away = [each.problems[0].reason for each in observed.values() if each.is_away]
        self.away_because = away[0] if away else None
        self.has_looked = self.has_looked or self.away_because is None
        if final and self.away_because is None:
            self._leave_later_growth()
        self._store_sizes(now_us)
        self._hold(now_us)
        return observed["primary"].changed.values()

    def _hold(self, now_us: int) -> None:
        """Hold open what has changed, the files that grew last ahead."""
        if self._held is None:
            return
        latest = nlargest(MOST_HELD, map(self.files.__getitem__, self._to_hold), key=lambda f: f.grown_us)
        self._held.hold(latest, self.files)
        self._held.tend(self.files, now_us)
        self._to_hold = set()

    def find_moved(self, ranges: Iterable[ByteRange]) -> list[TrackedFile]:
        """The files of these ranges that have moved, or lost their names, since the last look: as they are.

        OSError: a copy can't be written.
        """
        if self._held is None:
            return []
        before = [self.files[number] for number in sorted({each.file_number for each in ranges})]
        moved = [new for old in before if (new := self._held.moved(old)) is not None]
        self.files.update({new.file.number: new for new in moved})
        if moved and self._store is not None:
            self._store.put_files(moved)
        return moved

    def folders(self) -> dict[Side, SeenFolders]:
        """Each log's folders, as the last look saw them."""
        there = {side: (one for one in self.of(side).values() if one.state == "open") for side in self._tails}
        return {side: SeenFolders.of(tail.seen.folders, there[side]) for side, tail in self._tails.items()}

    def forget(self, numbers: Collection[int], changed: Mapping[int, TrackedFile]) -> None:
        """Forget files, as the state has (protocol D13); others are `changed` by that."""
        self.files.update(changed)
        for number in numbers:
            del self.files[number]
        for noted in (self._late, self._grown, self._to_hold, self._with_new_headers):
            noted.difference_update(numbers)

    def doubt(self, numbers: Iterable[int]) -> None:
        """Have the next look read these primary files: a lookup did not find a line of theirs."""
        self._tails["primary"].doubt(self.files[number].file for number in numbers)

    @property
    def checks_pending(self) -> bool:
        """Whether files are still being looked for or checked: the backlog may be longer than it says."""
        return self._checks_pending or self.awaits_listing

    @property
    def awaits_listing(self) -> bool:
        """Whether more may be there: no listing has ended that began since a look found something new."""
        return any(self._listed_look[side] < look for side, look in self._new_look.items())

    @property
    def due_in_seconds(self) -> float:
        """How long after the last look a log is to be listed; 0 where each look reads the folders."""
        return min(tail.seen.due_in_seconds for tail in self._tails.values())

    def settled_us(self, side: Side, read_us: int | None, before_us: int | None) -> int | None:
        """Up to when a log is read (protocol D12), from how far its files are, and what was known before.

        An object that nobody has listed may be older than those that are known. So a time counts once a
        listing has ended that began after the look behind which it was found, if nothing is behind it then.
        """
        look, listed_look = self._looks[side], self._listed_look[side]
        if self._final or read_us is None or (before_us is not None and read_us <= before_us):
            return read_us
        since, found_us = self._unsettled.pop(side, (look, read_us))
        if listed_look >= look:
            return read_us
        if listed_look < since:
            self._unsettled[side] = since, found_us
            return before_us
        if read_us > found_us:
            self._unsettled[side] = look, read_us
        return min(found_us, read_us)

    def is_unsettled(self, side: Side) -> bool:
        """Whether a later look may tell that a log is read further than is known."""
        return side in self._unsettled

    @property
    def seen_until_us(self) -> int | None:
        """All that came to the logs before this time is seen; None if a file could not be looked at."""
        if self._checks_pending or any(map(self._is_unsure, self._tails)):
            return None
        if len(self._listed_us) < len(self._tails):
            return None
        return min(self._listed_us.values())

    def _note_listings(self, observed: Mapping[Side, Observation]) -> None:
        """On S3 a listing takes many looks, and those of the two logs need never end with the same one."""
        if any(each.changed for each in observed.values()):
            self._new_look = dict(self._looks)
        for side, observation in observed.items():
            if observation.listed_us is not None:
                self._listed_look[side] = self._looks[side] - observation.listed_looks_ago
                self._listed_us[side] = observation.listed_us

    def unread(self, side: Side | None = None) -> tuple[UnreadFile, ...]:
        """Files that are not read and that nobody has acknowledged: they hold back all that they may change.

        So it does before this reader's first look: a process goes on where the last one stopped.
        """
        of = self.entries.values() if side is None else [self.entries[side]]
        return tuple(one for entries in of for one in entries if one.holds(self._acknowledged))

    def given_up(self) -> tuple[UnreadFile, ...]:
        """Return the files that are there and unread, and that a person has acknowledged."""
        there = (one for side in self.entries.values() for one in side if one.state != "gone")
        return tuple(one for one in there if one.identity in self._acknowledged)

    def awaits(self, now_us: int) -> bool:
        """Whether the next looks may read a file that is not read now."""
        return any(one.is_awaited(now_us) for one in self.unread())

    def _is_unsure(self, side: Side) -> bool:
        """Whether there may be more in a log than was seen, but for files that somebody acknowledged."""
        known = {one.path for one in self.entries[side] if not one.holds(self._acknowledged)}
        return bool(self.unread(side)) or any(one.path not in known for one in self.problems[side])

    def has_more_than_half_a_line(self, number: int) -> bool:
        """Whether a file with a backlog has something to read; half a line stays until its writer ends it."""
        tracked = self.files[number]
        if tracked.inside_oversized or tracked.unread_bytes > self.limits.line_bytes:
            return True  # a line beyond the limit is read without its end
        end_bytes = tracked.offset_bytes + tracked.unread_bytes
        try:
            data = read_at(self._logs, tracked.file, tracked.offset_bytes, end_bytes)
        except RangeGone:
            return True  # the file has just changed
        rules = self.rules_of(tracked.file)
        return b"\n" in data if rules is None else rules.end_of_first(data, at_end=False) is not None

    def rules_of(self, file: LogFile) -> RecordRules | None:
        """How records over several lines are told apart in a file; None: each line is one."""
        return record_rules(self._settings[file.side], file.header, self.limits.line_bytes)

    def take_grown(self, now_us: int) -> list[TrackedFile]:
        """The files whose size has changed since the caller stored it (protocol D5); it does so now."""
        grown = [self.files[number] for number in sorted(self._grown)]
        self._grown.clear()
        self._sizes_stored_us = now_us
        return grown

    def _store_sizes(self, now_us: int) -> None:
        is_due = now_us - self._sizes_stored_us >= SIZES_EVERY_SECONDS * MICROSECONDS
        if is_due and self._grown and self._store is not None:
            self._store.put_sizes(self.take_grown(now_us))

    def _observe(self, side: Side, now_us: int, final: bool, whole: bool) -> Observation:
        next_number = max(self.files, default=0) + 1
        self._looks[side] += 1
        observation = self._tails[side].observe(
            self.of(side), next_number, now_us, final, self._told_of(side), whole
        )
        changed = {
            number: _restart_if_back(self.files.get(number), new)
            for number, new in observation.changed.items()
        }
        store = [new for number, new in changed.items() if _is_worth_storing(self.files.get(number), new)]
        lost_bytes = sum(lost.unread_bytes for lost in observation.vanished)
        lost_bytes -= sum(self._counted_bytes(new) for new in changed.values())
        before = self.entries[side]
        entries, ended = (
            follow(before, observation.seen_files, now_us) if observation.seen_files else (before, ())
        )
        entries, over = bounded(entries, before, self._acknowledged)
        lost_bytes += sum(one.size_bytes for one in over if one.identity not in self._acknowledged)
        others = {side: entries} if entries != before else {}
        if (store or lost_bytes or others) and self._store is not None:
            self._store.put_files(store, lost_bytes, others)
            log_entries(side, before, entries, ended)
            log_lost(side, observation.vanished)
            log_unknown_ends(side, self.files, changed)
        late = {trace for one in ended for trace in (one.entry.path, one.entry.inode)}
        self._late |= {n for n, new in changed.items() if late & {new.file.path, new.file.inode}}
        self.entries[side], self.passed_over[side] = entries, observation.passed_over
        self._grown = (self._grown | changed.keys()).difference(new.file.number for new in store)
        self.files.update(changed)
        self._to_hold |= changed.keys()
        restarted = {n: new for n, new in changed.items() if new is not observation.changed[n]}
        restarted_bytes = {n: new.unread_bytes for n, new in restarted.items()}
        self.backlog_bytes[side] = {**observation.backlog_bytes, **restarted_bytes}
        if self._store is not None and not observation.is_away:
            log_problems(side, self.problems[side], observation.problems)
        self.problems[side] = observation.problems
        return observation

    def _told_of(self, side: Side) -> list[str] | None:
        """The paths that were told of since this side was looked at; None: nobody tells."""
        news = self._news.take()
        for told in self._told.values():
            told.extend(news or ())
        found, self._told[side] = self._told[side], []
        return None if news is None else found

    def _counted_bytes(self, now: TrackedFile) -> int:
        """How much of a file was counted as lost, though it has come back."""
        before = self.files.get(now.file.number)
        is_back = before is not None and before.state != "open" and now.state == "open"
        return before.unread_bytes if before is not None and is_back else 0

    def _leave_later_growth(self) -> None:
        if self._ends_bytes is None:
            self._ends_bytes = {
                number: self.files[number].offset_bytes + unread
                for backlog in self.backlog_bytes.values()
                for number, unread in backlog.items()
            }
        for number in self._late:  # they were there at the first look
            self._ends_bytes.setdefault(number, self.files[number].size_bytes)
        for side, backlog in self.backlog_bytes.items():
            left = {n: self._ends_bytes.get(n, 0) - self.files[n].offset_bytes for n in backlog}
            self.backlog_bytes[side] = {number: unread for number, unread in left.items() if unread > 0}

    @property
    def signature(self) -> str:
        """A hash of the log files as the last look saw them."""
        return signature_of(self._tails[side].seen for side in ("primary", "foreign"))

    def backlog_after(self, side: Side, advances: Iterable[Advance]) -> dict[int, int]:
        """How many bytes of each file wait to be cut behind these advances."""
        read = {a.file_number: a.offset_bytes - self.files[a.file_number].offset_bytes for a in advances}
        left = {number: unread - read.get(number, 0) for number, unread in self.backlog_bytes[side].items()}
        return {number: unread for number, unread in left.items() if unread > 0}

    def cut(
        self, side: Side, budget_bytes: int, most_lines: int, behind: Sequence[Advance] = ()
    ) -> NewRanges:
        """The next ranges of one log, `behind` those of a plan that is under way, within the budget.

        Files are cut until `most_lines` is reached, so that at most one file's share goes beyond it.
        """
        backlog, read = self.backlog_after(side, behind), {each.file_number: each for each in behind}
        if not backlog or budget_bytes <= 0:
            return NewRanges()
        shares = shares_of(backlog, budget_bytes, self._first[side])
        self._first[side] = next_to_serve(backlog, shares, self._first[side])
        ranges: list[ByteRange] = []
        advances: list[Advance] = []
        lines = 0
        for number, share in shares.items():
            end_bytes = self._ends_bytes.get(number) if self._ends_bytes is not None else None
            file = self.files[number] if number not in read else _read_to(self.files[number], read[number])
            cut = self._tails[side].cut(file, share, self._ends_bytes is not None, end_bytes)
            if cut is None:
                continue
            byte_range, after = cut
            if after.file.header != file.file.header:
                self._note_headers(after.file)
            ranges.append(byte_range)
            advances.append(Advance(number, after.offset_bytes, after.tail_hash, after.inside_oversized))
            lines += byte_range.lines
            if lines >= most_lines:
                break
        return NewRanges(tuple(ranges), tuple(advances))

    def _note_headers(self, file: LogFile) -> None:
        """Store that a file has headers within it, before a plan goes by them: its content alone says so."""
        known = self.files[file.number]
        self.files[file.number] = replace(known, file=replace(known.file, header=file.header))
        if self._store is not None:
            self._store.put_files([self.files[file.number]])
        self._with_new_headers.add(file.number)

    def take_with_new_headers(self) -> list[TrackedFile]:
        """The primary files in which headers were found since the caller asked last."""
        found = [self.files[number] for number in sorted(self._with_new_headers)]
        self._with_new_headers.clear()
        return [tracked for tracked in found if tracked.file.side == "primary"]

    def advance(self, advances: tuple[Advance, ...], max_time_us: Mapping[int, int]) -> None:
        """Note how far a completed plan has read, as the state has stored it."""
        for step in advances:
            self.files[step.file_number] = _read_to(self.files[step.file_number], step)
        for number, time_us in max_time_us.items():
            before = self.files[number].max_time_us
            latest = time_us if before is None else max(before, time_us)
            self.files[number] = replace(self.files[number], max_time_us=latest)


def _read_to(file: TrackedFile, step: Advance) -> TrackedFile:
    """A file that is read as far as `step` says."""
    return replace(
        file,
        offset_bytes=step.offset_bytes,
        tail_hash=step.tail_hash,
        inside_oversized=step.inside_oversized,
    )


def opened_logs(pipeline: Pipeline, datacenter: str, view: StateView, now_us: int) -> LogReader:
    """The logs of a datacenter, looked into from where its dispatcher is; not before it has one."""
    reader = LogReader(pipeline, datacenter, view.files, unread=view.unread)
    if view.epoch is not None:
        reader.look(now_us, final=False)
    return reader


def note_files(
    pipeline: Pipeline,
    datacenter: str,
    state: DispatcherState,
    now_us: int,
    held: OpenFiles | None = None,
) -> None:
    """Note the files that are there, before anything that takes long: they may be rotated meanwhile.

    Not beside an open plan, whose end stores how far its files are read.
    """
    if state.open_plan() is None:
        unread = state.unread_files()
        reader = LogReader(pipeline, datacenter, state.files(), state, held=held, unread=unread)
        reader.look(now_us, final=False)


def _restart_if_back(before: TrackedFile | None, now: TrackedFile) -> TrackedFile:
    """A primary file that was lost and is there again is read from its start: the map has forgotten it."""
    if before is None or before.state == "open" or now.state != "open" or now.file.side == "foreign":
        return now
    return replace(now, offset_bytes=now.file.header_bytes, tail_hash=b"", inside_oversized=False)


def _is_worth_storing(before: TrackedFile | None, after: TrackedFile) -> bool:
    """Whether more changed than its size and end, which the next start sees anew."""
    if before is None:
        return True
    return before != replace(
        after,
        size_bytes=before.size_bytes,
        grown_us=before.grown_us,
        seen_hash=before.seen_hash,
        modified_ns=before.modified_ns,
    )
