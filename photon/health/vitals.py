"""What a look at a datacenter finds, without disturbing it: the input of every verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.refusals import why_refused
from photon.dispatcher.shift.growth import Growth, growth_of
from photon.dispatcher.shift.lakes import has_rows_without_state, is_fenced, lake_problems, second_rows
from photon.dispatcher.shift.lease import LeaseStatus, lease_status_of
from photon.dispatcher.shift.people import Decision, Decisions, decisions_seen
from photon.dispatcher.shift.stages import orders_of
from photon.dispatcher.shift.status import half_lines, uncompacted
from photon.health.activity import Facts
from photon.health.newest_verification import Verified, newest_verification
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.process.operating_system import is_stopped, what_ends
from photon.state.losses import Losses, acknowledged_counts, open_losses
from photon.storage.delta import LakeUnavailable


@dataclass(frozen=True)
class Vitals:
    """A datacenter at one moment."""

    now_us: int
    growth: Growth
    lease: LeaseStatus
    is_starting: bool = False  # a run of it is on its way
    decision: Decision | None = None  # of people
    is_fenced: bool = False  # the others have ended its epoch
    verified: Verified | None = None  # the newest verification; None: there is none
    unverified_because: str = ""  # why no verification could be read
    lost: Losses = field(default_factory=Losses)  # that nobody has acknowledged
    has_rows_without_state: bool = False  # it has joined, and its state is gone
    lake: tuple[str, ...] = ()  # why its tables can't be read or written, with what to do
    refused: str = ""  # why each start refuses its state, with what to do
    on_hold: frozenset[str] = frozenset()  # all datacenters that people keep from running
    retired: frozenset[str] = frozenset()  # and those that never run again
    second_rows: tuple[str, ...] = ()  # that it has rows that double others, in words
    is_stopped: bool = False  # its process goes on only if somebody continues it
    what_ends_it: str = ""  # how to end its process, or to continue it; empty: it is on another machine
    only_half_lines: bool = False  # nobody runs it, and what is unread is half a line in each file
    passed_over: tuple[str, ...] = ()  # log files that reading leaves out, each with the reason
    acknowledged: Mapping[str, int] = field(default_factory=dict)  # records by class that people know of
    refused_orders: int = 0  # work orders that could not be read
    uncompacted: tuple[str, ...] = ()  # tables that nobody compacts, with what to do

    @property
    def unread_bytes(self) -> int:
        return self.growth.primary.unread_bytes + self.growth.foreign.unread_bytes

    @property
    def has_work(self) -> bool:
        """Whether something is planned or to be taken up, or unread that is more than half a line."""
        lease, state = self.lease.lease, self.growth.state
        is_left = lease is not None and lease.idle_seen == self.growth.signature
        is_new = bool(self.unread_bytes) and not (is_left or self.only_half_lines)
        return bool(state.requeued or state.has_open_plan or state.soon or is_new)

    @property
    def facts(self) -> Facts:
        """What decides who is at work here."""
        silent_us = self.now_us - (self.lease.beat_us or self.now_us)
        return Facts(
            self.decision,
            has_state=self.growth.state.epoch is not None,
            is_run=self.lease.is_locked,
            silent_seconds=silent_us / MICROSECONDS,
            is_stopped=self.is_stopped,
            is_fenced=self.is_fenced,
            waits_for=self.lease.lease.waits_for if self.lease.lease else "",
            has_work=self.has_work,
            only_half_lines=self.only_half_lines,
            unread_bytes=self.unread_bytes,
        )


def look(
    pipeline: Pipeline,
    datacenter: str,
    now_us: int,
    is_starting: bool = False,
    decisions: Decisions | None = None,
) -> Vitals:
    """Look at a datacenter now, from outside. `decisions`: those of people, where they are known already."""
    growth, state = growth_of(pipeline, datacenter, now_us), pipeline.datacenters[datacenter].state
    verified, why = None, ""
    try:
        verified = newest_verification(pipeline, datacenter)
    except LakeUnavailable as error:
        why = str(error)
    lease = lease_status_of(state)
    process = _process_here(lease)
    reader = _reader(pipeline, datacenter, growth, now_us, is_run=lease.is_locked)
    found = Vitals(
        now_us,
        growth,
        lease,
        is_starting,
        verified=verified,
        unverified_because=why,
        lost=open_losses(state, growth.state),
        is_stopped=process is not None and is_stopped(process),
        what_ends_it=what_ends(process) if process is not None else "",
        only_half_lines=reader is not None and not lease.is_locked and bool(half_lines(reader)),
        passed_over=_passed_over(reader, growth),
        acknowledged=acknowledged_counts(state, growth.state.epoch),
        refused_orders=orders_of(state, now_us).refused,
        uncompacted=tuple(uncompacted(pipeline, datacenter)) if growth.state.epoch is not None else (),
        refused=why_refused(pipeline, datacenter, growth.state),
    )
    known = decisions_seen(pipeline) if decisions is None else decisions
    epoch = growth.state.epoch
    is_made_by_join = epoch is None and pipeline.registry.endpoints == "local"
    return replace(
        found,
        refused=found.refused or ("" if is_made_by_join else known.refused_because),
        decision=known.on(datacenter),
        is_fenced=_is_fenced(pipeline, datacenter, epoch),
        has_rows_without_state=has_rows_without_state(pipeline, datacenter, _has_state(growth)),
        lake=_lake(pipeline, datacenter, growth, known),
        second_rows=tuple(second_rows(pipeline, datacenter)),
        on_hold=known.on_hold,
        retired=known.retired,
    )


def _has_state(growth: Growth) -> bool:
    return growth.state.epoch is not None or bool(growth.state_unreadable)


def _lake(pipeline: Pipeline, datacenter: str, growth: Growth, known: Decisions) -> tuple[str, ...]:
    """Name what is wrong with a lake on a disk. The join tells of one in a store, where each look costs."""
    if not isinstance(pipeline.datacenters[datacenter].lake, Path):
        return ()
    table_id = known.tables.get(datacenter)
    return tuple(lake_problems(pipeline, datacenter, _has_state(growth), table_id))


def _is_fenced(pipeline: Pipeline, datacenter: str, epoch: str | None) -> bool:
    """Whether a table on a disk says so; of one in a store each look costs, and the join tells."""
    is_near = isinstance(pipeline.datacenters[datacenter].lake, Path)
    return is_near and is_fenced(pipeline, datacenter, epoch)


def _process_here(status: LeaseStatus) -> int | None:
    """The process of this machine that runs the datacenter, if there is one."""
    lease = status.lease
    return lease.process if lease is not None and status.is_locked and lease.is_here else None


def _reader(
    pipeline: Pipeline, datacenter: str, growth: Growth, now_us: int, is_run: bool
) -> LogReader | None:
    """Return what opens log files; None where there is none to open.

    That is so where the dispatcher knows all files and has read them, as most looks find it; or never ran.
    """
    unread = growth.primary.unread_bytes + growth.foreign.unread_bytes
    is_short = not is_run and 0 < unread <= pipeline.limits.line_bytes
    if growth.state.epoch is None or not (growth.has_untracked or is_short):
        return None
    reader = LogReader(pipeline, datacenter, growth.state.files)
    reader.look(now_us, final=False)
    return reader


def _passed_over(reader: LogReader | None, growth: Growth) -> tuple[str, ...]:
    """The files that can't be read, of those that the dispatcher does not know."""
    if reader is None:
        return ()
    found = [f"{one.path}: {one.reason}" for side in reader.problems.values() for one in side]
    return tuple(one for one in dict.fromkeys(found) if one not in growth.problems)
