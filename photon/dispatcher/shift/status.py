"""How far a datacenter is: read from its state, its logs and its lease, without disturbing them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.refusals import why_refused
from photon.dispatcher.shared_places import shared_logs, why_copy
from photon.dispatcher.shift.deletable_files import deletable, files_of, needed_by_waiting
from photon.dispatcher.shift.lakes import has_rows_without_state, is_fenced, lake_problems, second_rows
from photon.dispatcher.shift.lease import lease_status_of
from photon.dispatcher.shift.people import Decision, Decisions, how_to_start
from photon.dispatcher.shift.stages import Stages, stages_of, stored_plans
from photon.errors import UserError
from photon.logs.files import Side, TrackedFile
from photon.logs.folders import log_folder
from photon.logs.tailing.open_files import kept_bytes
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, microseconds
from photon.process.operating_system import is_stopped, what_ends
from photon.process.readable import readable
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import last_said
from photon.state.damage import damage_is_named
from photon.state.database import StateReader
from photon.state.losses import Losses, lost_files, open_losses
from photon.state.view import open_view, view_of
from photon.storage.table_log import commits_in_log

MOST_LOST_NAMED = 10
MOST_COMMITS = 20_000  # in a table's log: eight times what compaction leaves, and 60 ms for each batch
# By when waiting events were first seen: within so many seconds.
AGES = (
    (60, "within a minute"),
    (600, "within ten minutes"),
    (3_600, "within an hour"),
    (86_400, "within a day"),
)
OLDEST = "before that"


@dataclass(frozen=True)
class LogStatus:
    """One log of a datacenter."""

    files: int
    gone_files: int
    read_bytes: int
    backlog_bytes: int
    # Paths below the logs folder of the files that joining does not need any more (`deletable`).
    safe_to_delete: tuple[str, ...] = ()
    safe_to_delete_bytes: int = 0


@dataclass(frozen=True)
class DatacenterStatus:
    """One datacenter. Times are microseconds since 1970 UTC."""

    running_process: int | None
    running_run: str | None  # of Dagster; None: a command, or nobody
    last_sign_of_life_us: int | None
    epoch: str | None
    batch: int
    counts: dict[str, int]
    waiting: dict[str, int]  # by reason
    to_take_up_again: int
    watermark_us: int | None
    watermark_lag_seconds: float | None
    primary: LogStatus
    foreign: LogStatus
    problems: list[str]
    blocks: tuple[str, ...] = ()  # of the problems, those for which no start joins anything
    ended_by: str = ""  # the error that ended its last join, with what to do, which may be done since
    waiting_by_age: dict[str, int] = field(default_factory=dict)  # by when they were first seen
    stages: Stages = field(default_factory=Stages)
    completeness: Completeness | None = None  # as the last shift has published it
    half_lines: tuple[str, ...] = ()  # the files in which half a line waits, where nothing else is unread
    decision: Decision | None = None  # of people
    decision_unknown_because: str | None = None
    waits_for: str = ""  # what its process finds unavailable
    waits_since_us: int = 0
    is_fenced: bool = False  # they have
    has_rows_without_state: bool = False  # it has joined, and its state is gone
    is_stopped: bool = False  # its process goes on only if somebody continues it
    what_ends_it: str = ""  # how to end its process, or to continue it; empty: it is on another machine
    lost: Losses = field(default_factory=Losses)  # that nobody has acknowledged
    kept_log_bytes: int = 0  # copies of logs that were deleted unread, on this disk
    notes: tuple[str, ...] = ()  # what it shares with another one, perhaps by mistake

    def silent_seconds(self, now_us: int) -> float:
        """For how long its process has given no sign of life; 0 before the first one."""
        return (now_us - (self.last_sign_of_life_us or now_us)) / MICROSECONDS


def status_of(
    pipeline: Pipeline, datacenter: str, clock: Clock, decisions: Decisions | None = None
) -> DatacenterStatus:
    """How far the datacenter is now. A folder that is missing is a problem that is named, not an error.

    StateDamaged, StateUnavailable, FormatTooNew.
    """
    decisions = decisions or Decisions()
    decision = decisions.on(datacenter)
    place = pipeline.datacenters[datacenter]
    lease_status, now_us = lease_status_of(place.state), clock.now_us()
    lease = lease_status.lease if lease_status.is_locked else None
    with damage_is_named(place.state), open_view(place.state) as state:
        view = view_of(state, now_us)
        waiting = state.waiting.by_reason() if state is not None else {}
        by_age = _by_age(state, now_us) if waiting and state is not None else {}
        plans = stored_plans(state)
        needed = files_of(plans.contents)
        needed |= needed_by_waiting(state, view.files.values()) if state is not None else set()
        stages = stages_of(state, plans, place.state, now_us)
        lost = open_losses(place.state, view)
        records = state.lost_records(MOST_LOST_NAMED) if state is not None and lost.records else []
        out_of_reach = state.out_of_reach if state is not None else {}
        work = state.work if state is not None and isinstance(state.work, Path) else place.state
        copied = why_copy(state, pipeline) if state is not None else None
    rows_without_state = has_rows_without_state(pipeline, datacenter, view.epoch is not None)
    reader = LogReader(pipeline, datacenter, view.files)
    if view.epoch is not None:
        reader.look(now_us, final=False)
        problems = [f"{readable(p.path)}: {p.reason}" for side in reader.problems.values() for p in side]
        problems += [
            f"event {readable(event_id)} is lost: its record, at byte {at.offset_bytes} of "
            f"{readable(view.files[at.file_number].file.path)}, is neither in its log nor where it waited"
            for at, event_id in records
        ]
        problems += _lost_files(pipeline, datacenter, lost, reader.files)
        problems += uncompacted(pipeline, datacenter)
        people = decisions.on_hold, decisions.retired
        problems += [
            f"{_out_of_reach(name, waiting.get('held', 0))}: {why}; "
            f"{how_to_start(pipeline, name, *people)}, or make its lake readable here"
            for name, why in out_of_reach.items()
        ]
    else:
        problems = []
        if (why := log_folder(place.logs).why_not_there()) is not None:
            problems.append(f"{place.logs}: {why}; expected the datacenter's logs")
    ended_by = lease_status.refused or lease_status.ended_by
    if lease_status.refused:
        problems.append(f"its last join was refused: {lease_status.refused}")
    elif ended_by:
        problems.append(f"its last join was ended by an error: {ended_by}")
    blocks = lake_problems(pipeline, datacenter, view.epoch is not None, decisions.tables.get(datacenter))
    is_made_by_join = view.epoch is None and pipeline.registry.endpoints == "local"
    refused = "" if is_made_by_join else decisions.refused_because
    refused = refused or why_refused(pipeline, datacenter, view)
    blocks += [refused] if refused else []
    problems += blocks
    if view.epoch is None and not (decision or rows_without_state or blocks or ended_by):
        makes_it = f"a shift, or photon join {pipeline.typed} -d {datacenter}, makes it"
        problems.insert(0, f"{place.state}: no state yet; {makes_it}")
    problems += second_rows(pipeline, datacenter)
    idle_us = microseconds(pipeline.retry.unjoinable_after)
    completeness = last_said(place.lake)
    of_this_epoch = completeness if completeness is not None and completeness.epoch == view.epoch else None
    safe = deletable(reader.files.values(), needed, of_this_epoch, now_us, idle_us)
    return DatacenterStatus(
        running_process=lease.process if lease else None,
        running_run=(lease.run or None) if lease else None,
        last_sign_of_life_us=lease_status.beat_us or None,
        epoch=view.epoch,
        batch=view.completed,
        counts=view.counts.as_dict() if view.epoch is not None else {},
        waiting=waiting,
        to_take_up_again=view.requeued,
        watermark_us=view.watermark_us,
        watermark_lag_seconds=view.lag_seconds(now_us),
        primary=_log_status(reader, "primary", safe),
        foreign=_log_status(reader, "foreign", safe),
        problems=problems if decision != "retired" else [],  # nobody reads or mends it any more
        blocks=tuple(blocks),
        ended_by=ended_by,
        waiting_by_age=by_age,
        stages=stages,
        completeness=completeness,
        half_lines=half_lines(reader),
        decision=decision,
        decision_unknown_because=decisions.unknown_because,
        waits_for=lease.waits_for if lease else "",
        waits_since_us=lease.waits_since_us if lease else 0,
        is_fenced=not blocks and is_fenced(pipeline, datacenter, view.epoch),
        has_rows_without_state=rows_without_state,
        is_stopped=lease is not None and lease.is_here and is_stopped(lease.process),
        what_ends_it=what_ends(lease.process) if lease is not None and lease.is_here else "",
        lost=lost,
        kept_log_bytes=kept_bytes(work),
        notes=(*shared_logs(pipeline, datacenter), *([copied] if copied else [])),
    )


def statuses_of(
    pipeline: Pipeline,
    clock: Clock,
    decisions: Decisions | None = None,
    datacenters: Iterable[str] | None = None,
) -> tuple[dict[str, DatacenterStatus], dict[str, Exception]]:
    """Each datacenter, or each of some, and why some can't be asked: that says nothing of the others."""
    found, errors = dict[str, DatacenterStatus](), dict[str, Exception]()
    for name in pipeline.datacenters if datacenters is None else datacenters:
        try:
            found[name] = status_of(pipeline, name, clock, decisions)
        except (UserError, OSError) as error:
            errors[name] = error
    return found, errors


def _lost_files(
    pipeline: Pipeline, datacenter: str, lost: Losses, files: Mapping[int, TrackedFile]
) -> list[str]:
    """The files that have lost something, latest first; beyond a few their number."""
    said = lost_files(lost, files)
    more = len(said) - MOST_LOST_NAMED
    command = f"photon acknowledge {pipeline.typed} {datacenter} --dry-run"
    beyond = [f"{more:,} more files went with unread bytes, or in use: {command} names them all"]
    return said[:MOST_LOST_NAMED] + (beyond if more > 0 else [])


def _out_of_reach(datacenter: str, held: int) -> str:
    """What can't be done while the lake of another datacenter can't be read here."""
    if held:
        return (
            f"{held:,} records are held: datacenter {datacenter} registered their events and is silent, "
            "and what it did not join can't be freed from here"
        )
    return f"whether the registry has the newest rows of datacenter {datacenter} is not known here"


def uncompacted(pipeline: Pipeline, datacenter: str) -> list[str]:
    """That nobody compacts the table of joined rows, if so. On S3 Delta lists no more than it needs."""
    folder = pipeline.datacenters[datacenter].lake / "joined_events"
    if not isinstance(folder, Path):
        return []
    try:
        if commits_in_log(folder, MOST_COMMITS) < MOST_COMMITS:
            return []
    except OSError:
        return []  # whoever joins says so
    command = f"photon compact {pipeline.typed} -d {datacenter}"
    return [
        f"{folder}: {MOST_COMMITS:,} commits or more are in its log, and each batch looks through them all;"
        f" run {command}, and have it run every few minutes"
    ]


def half_lines(reader: LogReader) -> tuple[str, ...]:
    """The paths of the files with a backlog, if that is half a line in each; none of them otherwise."""
    numbers = [number for backlog in reader.backlog_bytes.values() for number in backlog]
    if any(reader.has_more_than_half_a_line(number) for number in numbers):
        return ()
    return tuple(sorted(reader.files[number].file.path for number in numbers))


def _by_age(state: StateReader, now_us: int) -> dict[str, int]:
    bounds_us = [seconds * MICROSECONDS for seconds, _ in AGES]
    names = (*(name for _, name in AGES), OLDEST)
    counts = zip(names, state.waiting.by_age(now_us, bounds_us), strict=True)
    return {name: count for name, count in counts if count}


def _log_status(reader: LogReader, side: Side, safe: Iterable[TrackedFile]) -> LogStatus:
    files = reader.of(side).values()
    deletable_here = [one for one in safe if one.file.side == side]
    return LogStatus(
        files=len(files),
        gone_files=sum(tracked.state != "open" for tracked in files),
        read_bytes=sum(tracked.offset_bytes for tracked in files),
        backlog_bytes=sum(reader.backlog_bytes[side].values()),
        safe_to_delete=tuple(sorted(one.file.path for one in deletable_here)),
        safe_to_delete_bytes=sum(one.size_bytes for one in deletable_here),
    )
