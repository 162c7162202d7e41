"""The facts of a datacenter at one moment, seen from outside: the input of every verdict.

`look` is cheap enough for a watcher. `photon.health.status` has its facts from `gather` too, and gives it
all opened logs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from photon.dispatcher.log_reader import LogReader, opened_logs
from photon.dispatcher.refusals import why_refused
from photon.dispatcher.shift.growth import LIVE_BYTES, Growth, growth_of
from photon.dispatcher.shift.keys import (
    columns_of_newest,
    has_met,
    keyless_of_late,
    none_has_a_key,
    overdue_records,
)
from photon.dispatcher.shift.lease import LeaseStatus, lease_status_of
from photon.dispatcher.shift.people import Decision, Decisions, decisions_seen
from photon.health.feed import FeedSeen, look_at_feed
from photon.health.foreign_commits import look_at_foreign_commits
from photon.health.lakes import (
    Tables,
    has_rows_without_state,
    is_fence,
    look_at_tables,
    put_back,
    second_rows,
    uncompacted,
)
from photon.health.landed_objects import ObjectsSeen
from photon.health.landing import LandingSeen, look_at_landing
from photon.health.stages import orders_of
from photon.health.unmatched import UnmatchedSeen, look_at_unmatched
from photon.health.verdict import PATIENCE_SECONDS
from photon.logs.files import TrackedFile
from photon.logs.unread_files import UnreadFile
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew
from photon.process.operating_system import is_stopped, what_ends
from photon.process.readable import counted, readable
from photon.state.database import StateUnavailable
from photon.state.losses import Losses, acknowledged_counts, lost_files, open_losses
from photon.state.starting import starts
from photon.state.view import StateView, open_view
from photon.storage.append_table import AppendTable
from photon.storage.delta import LakeUnavailable
from photon.storage.foreign_commits import ForeignCommits
from photon.storage.full_disks import without_room

SILENT_SECONDS = PATIENCE_SECONDS  # a shift that hangs is replaced within some 20 s
MOST_LOST_NAMED = 10
# `photon.verification` reads more of its table, and takes long to import.
_REPORTS = AppendTable(
    "verification_reports", pa.schema([("at", pa.timestamp("us", "UTC")), ("report", pa.string())])
)

Activity = Literal[
    "retired",
    "on hold",
    "new",
    "at half a line",  # nobody runs it, and nothing else is unread
    "at rest",
    "not running",  # and there is work
    "fenced",
    "silent",
    "waiting",  # for what is unavailable
    "failing",  # each try of a batch fails
    "catching up",
    "live",
]


@dataclass(frozen=True)
class PastVerification:
    """A stored verification. `report`: `photon.verification.report.DatacenterReport.as_dict`."""

    at_us: int
    report: Mapping[str, Any]

    @property
    def kinds(self) -> str:
        """Name what is broken in a few words: "3 missing"; empty if nothing is."""
        broken = self.report["violations"]
        return ", ".join(f"{one['count']:,} {one['kind'].replace('_', ' ')}" for one in broken)


def newest_verification(pipeline: Pipeline, datacenter: str) -> PastVerification | None:
    """The newest one that was stored; None where there is none. LakeUnavailable, FormatTooNew."""
    found = _verifications_in(_REPORTS.latest(pipeline, datacenter))
    return found[-1] if found else None


def verifications_between(
    pipeline: Pipeline, datacenter: str, from_us: int, to_us: int
) -> list[PastVerification]:
    """Those that were stored in `from_us <= at < to_us`, earliest first. LakeUnavailable, FormatTooNew."""
    return _verifications_in(_REPORTS.between(pipeline, datacenter, from_us, to_us))


def _verifications_in(rows: pa.Table) -> list[PastVerification]:
    reports = zip(rows["at"].cast(pa.int64()).to_pylist(), rows["report"].to_pylist(), strict=True)
    return [PastVerification(at_us, json.loads(report)) for at_us, report in reports]


@dataclass(frozen=True)
class Facts:
    """A datacenter at one moment."""

    datacenter: str
    now_us: int
    growth: Growth
    lease: LeaseStatus
    is_starting: bool = False  # a run of it is on its way
    decisions: Decisions = field(default_factory=Decisions)  # people's, on all datacenters
    is_fenced: bool = False  # the others have ended its epoch
    lost_files: tuple[str, ...] = ()  # tables with data files that are gone, and what to do
    put_back: str = ""  # says that its table is an older copy, and what to do
    verified: PastVerification | None = None  # the newest verification; None: there is none
    unverified_because: str = ""  # why no verification could be read
    lost: Losses = field(default_factory=Losses)  # all losses that nobody has acknowledged
    lost_named: tuple[str, ...] = ()  # the events and files that are lost, each in words
    has_rows_without_state: bool = False  # the datacenter has joined, and its state is gone
    lake: tuple[str, ...] = ()  # why its tables can't be read or written, with what to do
    refused: str = ""  # why each start refuses its state, with what to do
    second_rows: str = ""  # says that some events have two rows, and what to do
    is_stopped: bool = False  # somebody stopped its process, and has to continue it
    what_ends_it: str = ""  # the command that ends or continues its process; empty: it is elsewhere
    half_lines: tuple[str, ...] = ()  # the files in which half a line waits, where nothing else is unread
    unread_files: tuple[UnreadFile, ...] = ()  # that are there, and hold back what they may change
    given_up_files: tuple[UnreadFile, ...] = ()  # that were not read, and a person has acknowledged
    passed_over: tuple[str, ...] = ()  # log files that reading leaves out, each with the reason
    acknowledged: Mapping[str, int] = field(default_factory=dict)  # records by class that people know of
    refused_orders: int = 0  # work orders that could not be read
    uncompacted: str = ""  # says that nobody compacts its table, and what to do
    columns: tuple[str, ...] = ()  # names in the newest foreign lines, where none has a key
    unmatched: UnmatchedSeen | None = None  # of the datacenter that writes unmatched primaries
    feed: FeedSeen | None = None  # of its primary log; None: no feed writes it, or each look there costs
    landing: tuple[LandingSeen | ObjectsSeen, ...] = ()  # the topics and objects that become its logs
    foreign_commits: tuple[ForeignCommits, ...] = ()  # of others, that nobody has decided on
    full: str = ""  # says that the disk of its state, its lake or a local registry has no room
    overdue: int = 0  # records whose primaries are not where logs are read, while no record ever met one

    @property
    def state(self) -> StateView:
        return self.growth.state

    @property
    def unread_bytes(self) -> int:
        return self.growth.primary.unread_bytes + self.growth.foreign.unread_bytes

    @property
    def decision(self) -> Decision | None:
        """Return what people have decided on this datacenter."""
        return self.decisions.on(self.datacenter)

    @property
    def process(self) -> int | None:
        """The process that runs it; None: nobody does, or has not said who it is."""
        return self.lease.lease.process if self.lease.lease and self.lease.is_locked else None

    @property
    def dagster_run(self) -> str | None:
        """The run of Dagster that runs it; None: a command does, or nobody."""
        return (self.lease.lease.run or None) if self.lease.lease and self.lease.is_locked else None

    @property
    def waits_for(self) -> str:
        """Name what the process finds unavailable; empty: nothing."""
        return self.lease.lease.waits_for if self.lease.lease and self.lease.is_locked else ""

    @property
    def waits_since_us(self) -> int:
        return self.lease.lease.waits_since_us if self.lease.lease else 0

    @property
    def ended_by(self) -> str:
        """The error that ended its last join, with what to do, which may be done since."""
        return self.lease.refused or self.lease.ended_by

    def started_by(self, pipeline: Pipeline) -> str:
        """The way to start it: what a person types, or has to look at under Dagster."""
        return starts(pipeline.typed, self.datacenter, self.lease.lease.run if self.lease.lease else "")

    @property
    def blocks(self) -> bool:
        """Whether something has to be mended before any start joins again."""
        return bool(self.lake or self.refused)

    @property
    def silent_seconds(self) -> float:
        """For how long its process has given no sign of life; 0 before the first one."""
        return (self.now_us - (self.lease.beat_us or self.now_us)) / MICROSECONDS

    @property
    def is_silent(self) -> bool:
        """Whether a process is there and gives no sign of life, nor will give one."""
        return self.lease.is_locked and (self.is_stopped or self.silent_seconds > SILENT_SECONDS)

    @property
    def has_work(self) -> bool:
        """Whether something is planned or to be taken up, or unread that is more than half a line."""
        lease, state = self.lease.lease, self.state
        is_left = lease is not None and lease.idle_seen == self.growth.signature
        is_half_a_line = bool(self.half_lines) and not self.lease.is_locked
        is_new = bool(self.unread_bytes) and not (is_left or is_half_a_line)
        return bool(state.requeued or state.has_open_plan or state.soon or is_new)

    @property
    def activity(self) -> Activity:
        """Who is at work on its logs, in a word or two."""
        if self.decision is not None:
            return self.decision
        if not self.lease.is_locked:
            if self.state.epoch is None:
                return "new"
            if self.has_work:
                return "not running"
            return "at half a line" if self.half_lines else "at rest"
        if self.is_fenced:
            return "fenced"
        if self.is_silent:
            return "silent"
        if self.waits_for:
            return "waiting"
        if self.lease.failing is not None:
            return "failing"
        return "catching up" if self.unread_bytes > LIVE_BYTES else "live"

    @property
    def is_joining(self) -> bool:
        """Whether a process is at work, as far as its lease tells."""
        return self.activity in ("waiting", "failing", "catching up", "live")


def look(
    pipeline: Pipeline,
    datacenter: str,
    now_us: int,
    is_starting: bool = False,
    decisions: Decisions | None = None,
) -> Facts:
    """Look at a datacenter now. `decisions`: those of people, where they are known already.

    It opens logs only where there may be a file that can't be read, or half a line. Of a lake in a store the
    join tells: each look there costs.
    """
    growth, lease = (
        growth_of(pipeline, datacenter, now_us),
        lease_status_of(pipeline.datacenters[datacenter].state),
    )
    is_short = not lease.is_locked and 0 < _unread_bytes(growth) <= pipeline.limits.line_bytes
    reader = None
    if growth.state.epoch is not None and (growth.has_untracked or is_short or growth.state.unread):
        reader = opened_logs(pipeline, datacenter, growth.state, now_us)
    known = decisions_seen(pipeline) if decisions is None else decisions
    asks_lake = isinstance(pipeline.datacenters[datacenter].lake, Path)
    return gather(pipeline, datacenter, now_us, growth, lease, reader, known, asks_lake, is_starting)


def gather(
    pipeline: Pipeline,
    datacenter: str,
    now_us: int,
    growth: Growth,
    lease: LeaseStatus,
    reader: LogReader | None,
    decisions: Decisions,
    asks_lake: bool = True,
    is_starting: bool = False,
) -> Facts:
    """All facts of a datacenter. `reader`: its opened logs, if it has any that were worth it."""
    folder, view = pipeline.datacenters[datacenter].state, growth.state
    has_state = view.epoch is not None or bool(growth.state_unreadable)
    tables = Tables()
    if asks_lake:
        known = decisions.tables.get(datacenter)
        tables = look_at_tables(pipeline, datacenter, has_state, known, view.epoch, view.completed)
    is_made_by_join = view.epoch is None and pipeline.registry.endpoints == "local"
    refused = why_refused(pipeline, datacenter, view)
    process = lease.lease.process if lease.lease and lease.is_locked and lease.lease.is_here else None
    verified, unverified_because = None, ""
    try:
        verified = newest_verification(pipeline, datacenter)
    except (LakeUnavailable, FormatTooNew) as error:
        unverified_because = str(error)
    lost, has_no_key = open_losses(folder, view), has_no_key_of_late(view)
    files = reader.files if reader is not None else view.files
    return Facts(
        datacenter,
        now_us,
        growth,
        lease,
        is_starting,
        decisions,
        is_fenced=is_fence(tables.last_batch),
        lost_files=tables.lost_files,
        put_back=put_back(pipeline, datacenter, tables),
        verified=verified,
        unverified_because=unverified_because,
        lost=lost,
        lost_named=_lost_named(pipeline, datacenter, lost, files) if lost else (),
        has_rows_without_state=has_rows_without_state(pipeline, datacenter, has_state),
        lake=tables.problems,
        refused=refused or ("" if is_made_by_join else decisions.refused_because),
        second_rows=second_rows(pipeline, datacenter),
        is_stopped=process is not None and is_stopped(process),
        what_ends_it=what_ends(process) if process is not None else "",
        half_lines=_half_lines(reader) if reader is not None else (),
        unread_files=_unread_files(reader, now_us) if reader is not None else (),
        given_up_files=reader.given_up() if reader is not None else (),
        passed_over=_passed_over(reader, growth) if reader is not None else (),
        acknowledged=acknowledged_counts(folder, view.epoch),
        refused_orders=orders_of(folder, now_us).refused,
        uncompacted=uncompacted(pipeline, datacenter) if view.epoch is not None else "",
        columns=_foreign_columns(pipeline, datacenter, view) if has_no_key else (),
        foreign_commits=look_at_foreign_commits(pipeline, datacenter, decisions.retired),
        unmatched=look_at_unmatched(pipeline, datacenter, decisions, view, now_us) if asks_lake else None,
        feed=look_at_feed(pipeline, datacenter) if asks_lake else None,
        landing=look_at_landing(pipeline, datacenter, now_us),
        full=" and ".join(filter(None, (without_room(folder, *_of_registry(pipeline)), tables.full))),
        overdue=_overdue(pipeline, datacenter, view),
    )


def _of_registry(pipeline: Pipeline) -> list[Path]:
    return [pipeline.registry_folder] if pipeline.registry.endpoints == "local" else []


def has_no_key_of_late(view: StateView) -> bool:
    """Whether no foreign record has a key, or none of the latest although many were to be expected."""
    return none_has_a_key(view.counts.as_dict()) or bool(keyless_of_late(view.gained, view.before))


def _foreign_columns(pipeline: Pipeline, datacenter: str, view: StateView) -> tuple[str, ...]:
    read = (tracked for tracked in view.files.values() if tracked.file.side == "foreign")
    return columns_of_newest(pipeline.datacenters[datacenter].logs, pipeline.foreign, read)


def _overdue(pipeline: Pipeline, datacenter: str, view: StateView) -> int:
    """How many records wait in vain, as it seems; where any has met its primary, nobody has to know."""
    if has_met(view.counts.as_dict()) or not view.counts.of("pending"):
        return 0
    with suppress(StateUnavailable):  # while segments are merged; the next look tells
        return overdue_records(pipeline, datacenter)
    return 0


def _unread_bytes(growth: Growth) -> int:
    return growth.primary.unread_bytes + growth.foreign.unread_bytes


def _half_lines(reader: LogReader) -> tuple[str, ...]:
    """The paths of the files with a backlog, if that is half a line in each; none of them otherwise."""
    numbers = [number for backlog in reader.backlog_bytes.values() for number in backlog]
    if any(reader.has_more_than_half_a_line(number) for number in numbers):
        return ()
    return tuple(sorted(reader.files[number].file.path for number in numbers))


def _unread_files(reader: LogReader, now_us: int) -> tuple[UnreadFile, ...]:
    """Those that hold back what they may change, but for some that may be read in a moment."""
    return tuple(one for one in reader.unread() if one.is_told(now_us))


def _passed_over(reader: LogReader, growth: Growth) -> tuple[str, ...]:
    """Paths that are no plain files, and problems of files other than those that are not read at all."""
    unread = {one.path for entries in reader.entries.values() for one in entries}
    problems = [one for side in reader.problems.values() for one in side if one.path not in unread]
    problems += [one for side in reader.passed_over.values() for one in side]
    found = [f"{readable(one.path)}: {one.reason}" for one in problems]
    return tuple(one for one in dict.fromkeys(found) if one not in growth.problems)


def _lost_named(
    pipeline: Pipeline, datacenter: str, lost: Losses, files: Mapping[int, TrackedFile]
) -> tuple[str, ...]:
    """Name some of the events that are lost, and of the files that have lost something, latest first."""
    events = []
    if lost.records:
        with open_view(pipeline.datacenters[datacenter].state) as state:
            records = state.lost_records(MOST_LOST_NAMED) if state is not None else []
        events = [
            f"event {readable(event_id)} is lost: its record, at byte {at.offset_bytes} of "
            f"{readable(files[at.file_number].file.path)}, is neither in its log nor where it waited"
            for at, event_id in records
        ]
    said = lost_files(lost, files)
    more = len(said) - MOST_LOST_NAMED
    command = f"photon acknowledge {pipeline.typed} {datacenter} --dry-run"
    beyond = [f"{counted(more, 'more file')} went with unread bytes, or in use: {command} names all"]
    return (*events, *said[:MOST_LOST_NAMED], *(beyond if more > 0 else []))
