"""What to do about one datacenter's shifts: whose run is over, who is to be ended, whether one is to begin.

Pure: facts in, a decision out. Who gathers the facts and carries the decision out is `sensors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from dagster import DagsterRunStatus

from photon.clock import MICROSECONDS, microseconds
from photon.pipeline.file import Shift
from photon.shift.growth import Growth
from photon.shift.lease import Lease, LeaseStatus

# After it let go of the datacenter a run reports and stops its Spark session, which alone may take 30 s.
END_PATIENCE_SECONDS = 60
# A run that failed sooner than this failed quickly; such runs are followed at growing distance. Longer than
# `shift.start` usually is, so that starts that take too long for a machine grow rarer too.
QUICK_SECONDS = 180
FIRST_DISTANCE_SECONDS = 5
# So long before the end of a shift its successor starts, to be warm by then.
LEAD_SECONDS = 60
MOST_DISTANCE_SECONDS = 300


@dataclass(frozen=True)
class Run:
    """A run of Dagster's that shifts this datacenter, and is not over as Dagster knows it."""

    run_id: str
    status: DagsterRunStatus
    since_us: int  # when it was launched, or began


@dataclass(frozen=True)
class PastRun:
    """A run that is over."""

    failed: bool
    began_us: int
    ended_us: int

    @property
    def failed_quickly(self) -> bool:
        """Whether something keeps shifts from running at all."""
        return self.failed and self.ended_us - self.began_us < QUICK_SECONDS * MICROSECONDS


@dataclass(frozen=True)
class Facts:
    """All that a decision is made of."""

    now_us: int
    growth: Growth
    standing: LeaseStatus
    runs: tuple[Run, ...] = ()
    past_runs: tuple[PastRun, ...] = ()  # the latest first
    knows_lease: bool = False  # the lease names a run of this Dagster's, over or not
    silent_since_us: int | None = None  # the last sign of life, if the look before found it too old


@dataclass(frozen=True)
class LostRun:
    """A run that is to be marked as failed, for it will not say so itself."""

    run_id: str
    reason: str
    # Its process may live on, with a JVM: it is told to end, for another one comes.
    may_live: bool = False


@dataclass(frozen=True)
class Decision:
    """What to do. `why` says why a shift is launched, or why none is."""

    launch: bool
    why: str
    lost: tuple[LostRun, ...] = ()
    kill: Lease | None = None  # of the process that has the lock and gives no sign of life
    silent_since_us: int | None = None  # for the next look


def decide(facts: Facts, shift: Shift) -> Decision:
    """What to do about a datacenter now."""
    silent = _silent(facts, shift)
    # One look may come before the first sign of life after a suspended machine goes on, or a clock was set.
    hung = silent if facts.silent_since_us == facts.standing.beat_us else None
    held = facts.standing.held and hung is None
    found = [(run, _why_lost(run, facts, shift, held, hung)) for run in facts.runs]
    lost = tuple(reason for _, reason in found if reason is not None)
    left = [run for run, reason in found if reason is None]
    over = [PastRun(True, run.since_us, facts.now_us) for run, reason in found if reason is not None]
    waits = _why_wait(facts, shift, held, left) or _distance([*over, *facts.past_runs], facts.now_us)
    why = _why_launch(facts, held, lost) if waits is None else waits
    return Decision(waits is None, why, lost, hung, facts.standing.beat_us if silent else None)


def _silent(facts: Facts, shift: Shift) -> Lease | None:
    """The lease of a process that may be killed: of a run of this Dagster's, here, without sign of life."""
    lease = facts.standing.lease
    if lease is None or not facts.standing.held or _is_live(facts, shift):
        return None
    # One that was let go is the last holder's: the next one has the lock, and has yet to write its own.
    ours = lease.run != "" and facts.knows_lease and lease.is_here and lease.released_us is None
    return lease if ours else None


def _is_live(facts: Facts, shift: Shift) -> bool:
    return facts.standing.is_live(facts.now_us, shift.lease_duration.total_seconds())


def _why_lost(run: Run, facts: Facts, shift: Shift, held: bool, hung: Lease | None) -> LostRun | None:
    """The run as lost, if it will not end by itself."""
    lease = facts.standing.lease
    if lease is None or lease.run != run.run_id:
        return _why_not_there(run, facts, shift)
    if held:
        return None
    process = f"the process {lease.process} of this shift"
    if hung is not None:
        silent = _seconds(facts.now_us - facts.standing.beat_us)
        return LostRun(run.run_id, f"{process} gave no sign of life for {silent} s and was killed")
    if lease.released_us is None:
        reason = f"{process} is gone (killed, out of memory, or the machine went down)"
        return LostRun(run.run_id, reason)
    if facts.now_us - lease.released_us > END_PATIENCE_SECONDS * MICROSECONDS:
        since = _seconds(facts.now_us - lease.released_us)
        reason = f"{process} let go of its datacenter {since} s ago and did not end its run"
        return LostRun(run.run_id, reason, may_live=True)
    return None


def _why_not_there(run: Run, facts: Facts, shift: Shift) -> LostRun | None:
    """A run that was not the last to have the lease, as lost; None if it waits in a queue or in line.

    It may have had the lease before the last one, so its time runs from when that one's began, or ended.
    """
    if run.status is DagsterRunStatus.QUEUED or facts.standing.successor is not None:
        return None
    lease = facts.standing.lease
    of_lease = (lease.began_us, lease.released_us or 0) if lease else ()
    if facts.now_us - max(run.since_us, *of_lease, 0) <= microseconds(shift.start_timeout):
        return None
    reason = (
        f"for {shift.start_timeout.total_seconds():.0f} s this shift neither ran its datacenter, "
        "nor waited to, nor ended; its log, or that of the code location, may say why"
    )
    return LostRun(run.run_id, reason, may_live=True)


def _why_wait(facts: Facts, shift: Shift, held: bool, left: Sequence[Run]) -> str | None:
    """Why no shift is to begin now; None if one is."""
    lease, growth, standing = facts.standing.lease, facts.growth, facts.standing
    if held and (why := _why_leave(facts, shift, lease)) is not None:
        return why
    if standing.successor is not None:
        return f"process {standing.successor} waits in line to go on"
    # A run that has let go only tidies up: it is in nobody's way.
    coming = [run for run in left if lease is None or lease.run != run.run_id]
    if coming:
        return f"run {coming[0].run_id[:8]} is {coming[0].status.value.lower()}"
    if held:
        return None
    if not growth.files and not growth.due:
        return "; ".join(["no log files", *growth.problems])
    if lease is not None and growth.signature == lease.idle_seen and not growth.due:
        return f"nothing new since the last shift; {growth.waiting} events wait, none is due"
    return None


def _why_leave(facts: Facts, shift: Shift, lease: Lease | None) -> str | None:
    """Why the process that has the lock is left alone; None if its successor may come."""
    if lease is None:
        return "another process has the lock, and its lease can't be read"
    what = f"run {lease.run[:8]}" if lease.run else "`photon join`"
    who = f"{what}, process {lease.process} on {lease.host},"
    if not _is_live(facts, shift):
        seconds = _seconds(facts.now_us - facts.standing.beat_us)
        ours = _silent(facts, shift) is not None
        what_next = "it is looked at once more" if ours else "it is not for this Dagster to end: end it"
        return f"{who} gives no sign of life for {seconds} s; {what_next}"
    if lease.ends_us is None:
        return f"{who} runs this datacenter; stop it to let Dagster run it"
    left_seconds = _seconds(lease.ends_us - facts.now_us)
    lead_seconds = min(LEAD_SECONDS, shift.length.total_seconds() / 2)
    return f"{who} runs it, for {left_seconds} s more" if left_seconds > lead_seconds else None


def _distance(past_runs: Sequence[PastRun], now_us: int) -> str | None:
    """Why the next shift is not to follow yet, where those before it failed quickly one after another."""
    failures = len(list(takewhile(lambda run: run.failed_quickly, past_runs)))
    if failures < 2:
        return None
    distance_seconds = min(FIRST_DISTANCE_SECONDS * 2 ** (failures - 2), MOST_DISTANCE_SECONDS)
    left_us = past_runs[0].ended_us + distance_seconds * MICROSECONDS - now_us
    return (
        f"the last {failures} shifts failed at once; the next in {_seconds(left_us)} s"
        if left_us > 0
        else None
    )


def _why_launch(facts: Facts, held: bool, lost: Sequence[LostRun]) -> str:
    if held:
        return "the time of the shift that runs is nearly over"
    if lost:
        return lost[-1].reason
    lease, growth = facts.standing.lease, facts.growth
    if lease is None:
        return "this datacenter was never run"
    if lease.released_us is None:
        return f"the process {lease.process} of the last shift is gone"
    if lease.idle_seen is None:
        return "the last shift left before all was done"
    return "the logs have grown" if growth.signature != lease.idle_seen else f"{growth.due} events are due"


def _seconds(us: int) -> int:
    return round(us / MICROSECONDS)
