"""Decide about one datacenter's shifts, of joins or of landing: a pure function of what a tick finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from dagster import DagsterRunStatus

from photon.dispatcher.shift.growth import Growth
from photon.dispatcher.shift.lease import LEASE_SECONDS, START_SECONDS, Lease, LeaseStatus
from photon.pipeline.sections import Shift
from photon.process.clock import MICROSECONDS
from photon.process.readable import counted

# After it lets go of the datacenter, a run reports and stops its Spark session, which alone may take 30 s.
RUN_END_SECONDS = 60
# A run that fails sooner, before a batch has ended, has failed quickly: the next ones back off. Longer than
# `START_SECONDS` usually is, so that starts that take too long for a machine grow rarer too.
QUICK_SECONDS = 180
# A successor starts this long before the end of a shift, to be warm by then.
LEAD_SECONDS = 60
FIRST_BACKOFF_SECONDS = 5
MOST_BACKOFF_SECONDS = 300


@dataclass(frozen=True)
class ActiveRun:
    """A run of Dagster's that shifts this datacenter, and that Dagster believes to be in progress."""

    run_id: str
    status: DagsterRunStatus
    since_us: int  # when it was launched, or began


@dataclass(frozen=True)
class PastRun:
    """A run that is over."""

    failed: bool
    began_us: int
    ended_us: int

    def failed_quickly(self, joined_us: int) -> bool:
        """Whether something keeps shifts from running at all; `joined_us`: when a batch of any ended last."""
        is_short = self.ended_us - self.began_us < QUICK_SECONDS * MICROSECONDS
        return self.failed and is_short and self.began_us > joined_us


@dataclass(frozen=True)
class Snapshot:
    """A datacenter and its runs, as one tick of the sensor finds them."""

    now_us: int
    growth: Growth | None  # None: its shifts land, for which there always is work
    lease_status: LeaseStatus
    runs: tuple[ActiveRun, ...] = ()
    past_runs: tuple[PastRun, ...] = ()  # the latest first; they keep a launch back, and bring none about
    lease_is_ours: bool = False  # the lease names a run of this Dagster's, over or not
    unresponsive_since_us: int | None = None  # the last heartbeat, if the tick before found it too old


@dataclass(frozen=True)
class RunToFail:
    """A run to mark as failed, because it will not do so itself."""

    run_id: str
    reason: str
    may_live: bool = False  # end its process, which may live on with a JVM: another run is coming


@dataclass(frozen=True)
class Decision:
    """Launch a shift or not, and the reason."""

    launch: bool
    reason: str
    fail: tuple[RunToFail, ...] = ()
    kill: Lease | None = None  # end the process that has the lock and is hung
    unresponsive_since_us: int | None = None  # for the next tick


def decide(found: Snapshot, shift: Shift) -> Decision:
    """Decide about a datacenter now."""
    beat_us = found.lease_status.beat_us
    unresponsive = _unresponsive(found, shift)
    # Kill at the second tick that finds the same heartbeat: after a machine was suspended or a clock was set,
    # the first tick may come before the next heartbeat.
    hung = unresponsive if found.unresponsive_since_us == beat_us else None
    held = found.lease_status.is_locked and hung is None
    judged = [(run, _failure_of(run, found, shift, held, hung)) for run in found.runs]
    fail = tuple(failure for _, failure in judged if failure is not None)
    in_progress = [run for run, failure in judged if failure is None]
    failed_now = [PastRun(True, run.since_us, found.now_us) for run, failure in judged if failure is not None]
    # Batches that end while another process has the lock are not those of a successor that fails.
    joined_us = 0 if held or found.growth is None else found.growth.state.ended_us
    wait = _why_wait(found, shift, held, in_progress) or _backoff(
        [*failed_now, *found.past_runs], joined_us, found.now_us
    )
    reason = _why_launch(found, held, fail) if wait is None else wait
    return Decision(wait is None, reason, fail, hung, beat_us if unresponsive else None)


def _unresponsive(found: Snapshot, shift: Shift) -> Lease | None:
    """The lease of a process without heartbeat that we may kill: a run of this Dagster's, on this machine."""
    lease = found.lease_status.lease
    if lease is None or not found.lease_status.is_locked or _is_live(found, shift):
        return None
    # A lease that was released is the last holder's: the next one has the lock, and has yet to write its own.
    ours = lease.run != "" and found.lease_is_ours and lease.is_here and lease.released_us is None
    return lease if ours else None


def _is_live(found: Snapshot, shift: Shift) -> bool:
    return found.lease_status.is_live(found.now_us, LEASE_SECONDS)


def _failure_of(
    run: ActiveRun, found: Snapshot, shift: Shift, held: bool, hung: Lease | None
) -> RunToFail | None:
    """The run as one to fail, if it will not end by itself."""
    lease = found.lease_status.lease
    if lease is None or lease.run != run.run_id:
        return _failure_without_lease(run, found, shift)
    if held:
        return None
    process = f"the process {lease.process} of this shift"
    if hung is not None:
        seconds = _seconds(found.now_us - found.lease_status.beat_us)
        return RunToFail(run.run_id, f"{process} gave no sign of life for {seconds} s and was killed")
    if lease.released_us is None:
        reason = f"{process} is gone (killed, out of memory, or the machine went down)"
        return RunToFail(run.run_id, reason)
    since_us = found.now_us - lease.released_us
    if since_us > RUN_END_SECONDS * MICROSECONDS:
        reason = f"{process} let go of its datacenter {_seconds(since_us)} s ago and did not end its run"
        return RunToFail(run.run_id, reason, may_live=True)
    return None


def _failure_without_lease(run: ActiveRun, found: Snapshot, shift: Shift) -> RunToFail | None:
    """A run that was not the last to have the lease, as one to fail; None if it waits in a queue or in line.

    One that had the lease before has time to end from when the last lease began or was released.
    """
    if run.status is DagsterRunStatus.QUEUED or found.lease_status.successor is not None:
        return None
    lease = found.lease_status.lease
    lease_us = max(lease.began_us, lease.released_us or 0) if lease else 0
    if found.now_us - max(run.since_us, lease_us) <= START_SECONDS * MICROSECONDS:
        return None
    reason = (
        f"for {START_SECONDS:.0f} s this shift neither ran its datacenter, "
        "nor waited to, nor ended; its log, or that of the code location, may say why"
    )
    return RunToFail(run.run_id, reason, may_live=True)


def _why_wait(found: Snapshot, shift: Shift, held: bool, in_progress: Sequence[ActiveRun]) -> str | None:
    """Why to launch no shift now; None if one is needed."""
    lease, growth, successor = found.lease_status.lease, found.growth, found.lease_status.successor
    if held and (reason := _why_leave_alone(found, shift, lease)) is not None:
        return reason
    if successor is not None:
        return f"process {successor} waits in line to go on"
    # A run that has released its lease only tidies up: it blocks no other run.
    coming = [run for run in in_progress if lease is None or lease.run != run.run_id]
    if coming:
        return f"run {coming[0].run_id[:8]} is {coming[0].status.value.lower()}"
    if held or growth is None:
        return None
    if not growth.files and not growth.due:
        return "; ".join(["no log files", *growth.problems])
    if lease is not None and growth.signature == lease.idle_seen and not growth.due:
        return f"nothing new since the last shift; {counted(growth.waiting, 'event', 'wait')}, none is due"
    return None


def _why_leave_alone(found: Snapshot, shift: Shift, lease: Lease | None) -> str | None:
    """Why not to replace the process that has the lock; None if its successor may come."""
    if lease is None:
        return "another process has the lock, and its lease can't be read"
    what = f"run {lease.run[:8]}" if lease.run else "a join by command"
    who = f"{what}, process {lease.process} on {lease.host},"
    waits = f", and waits: {lease.waits_for}" if lease.waits_for else ""
    if not _is_live(found, shift):
        seconds = _seconds(found.now_us - found.lease_status.beat_us)
        ours = _unresponsive(found, shift) is not None
        what_next = (
            "the next tick checks once more" if ours else "this Dagster must not end it: end it yourself"
        )
        return f"{who} gives no sign of life for {seconds} s; {what_next}"
    if lease.ends_us is None:
        return f"{who} runs this datacenter; stop it to let Dagster run it"
    left_seconds = _seconds(lease.ends_us - found.now_us)
    lead_seconds = min(LEAD_SECONDS, shift.length.total_seconds() / 2)
    return f"{who} runs it, for {left_seconds} s more{waits}" if left_seconds > lead_seconds else None


def _backoff(past_runs: Sequence[PastRun], joined_us: int, now_us: int) -> str | None:
    """Why to wait after shifts that failed quickly one after another; None if that is long enough ago."""
    failures = len(list(takewhile(lambda run: run.failed_quickly(joined_us), past_runs)))
    if failures < 2:
        return None
    backoff_seconds = min(FIRST_BACKOFF_SECONDS * 2 ** (failures - 2), MOST_BACKOFF_SECONDS)
    left_us = past_runs[0].ended_us + backoff_seconds * MICROSECONDS - now_us
    if left_us <= 0:
        return None
    return f"the last {failures} shifts failed at once; the next in {_seconds(left_us)} s"


def _why_launch(found: Snapshot, held: bool, fail: Sequence[RunToFail]) -> str:
    if held:
        return "the time of the shift that runs is nearly over"
    if fail:
        return fail[-1].reason
    lease, growth = found.lease_status.lease, found.growth
    if lease is None:
        return "this datacenter was never run"
    if lease.released_us is None:
        return f"the process {lease.process} of the last shift is gone"
    if growth is None:
        return "the last shift is over"
    if lease.idle_seen is None:
        return "the last shift left before all was done"
    return (
        "the logs have grown"
        if growth.signature != lease.idle_seen
        else f"{counted(growth.due, 'event', 'are')} due"
    )


def _seconds(us: int) -> int:
    return round(us / MICROSECONDS)
