"""One sensor a datacenter: looks at it every few seconds, and does what `shift_decision` decides.

Gathers facts and carries out, nothing else: what is to be done is decided there.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import psutil
from dagster import (
    AssetObservation,
    DefaultSensorStatus,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from assets.joined_events import joined_events_key
from assets.logs import Seen, is_news, observations
from orchestration.shift_decision import Decision, Facts, LostRun, decide
from orchestration.shift_runs import ShiftRuns
from photon.clock import MICROSECONDS, Clock, SystemClock
from photon.pipeline.file import Pipeline
from photon.shift.growth import growth_of
from photon.shift.lease import Lease, LeaseStatus, lease_status_of
from resources.environment import Served, dagster_name
from resources.pipelines import PipelineFiles

# Dagster's daemon goes round every 5 s. With 5 here as well, a tick that comes a millisecond early is left
# out, and half of them did: a killed shift waited for up to 10 s.
TICK_SECONDS = 3
DAEMON_SECONDS = 5  # between two ticks, as the daemon goes round
CURSOR_FORMAT = 1
WHY_TAG = "photon/why"  # of a run: why it was launched

log = logging.getLogger(__name__)


def shift_job_name(served: Served) -> str:
    """The job whose runs are a pipeline's shifts."""
    return dagster_name(served.pipeline.name, "shift")


def shift_sensor(served: Served, datacenter: str, clock: Clock | None = None) -> SensorDefinition:
    """The sensor that keeps a datacenter's shifts going."""
    clock = clock or SystemClock()

    @sensor(
        name=dagster_name(served.pipeline.name, datacenter, "sensor"),
        job_name=shift_job_name(served),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Starts, replaces and relieves the shifts of datacenter {datacenter}.",
    )
    def shifts(context: SensorEvaluationContext, pipelines: PipelineFiles) -> SensorResult:
        pipeline = pipelines.load(served.pipeline.name)
        runs = ShiftRuns(context.instance, shift_job_name(served), joined_events_key(served), datacenter)
        before = Memory.of(context.cursor)
        facts = _gather(pipeline, datacenter, runs, clock.now_us(), before)
        decision = decide(facts, pipeline.shift)
        _carry_out(decision, facts, runs, pipeline.datacenters[datacenter].state)
        seen, events = _observe(served, datacenter, facts, before.seen)
        request = RunRequest(partition_key=datacenter, tags={WHY_TAG: decision.why})
        return SensorResult(
            run_requests=[request] if decision.launch else [],
            skip_reason=None if decision.launch else SkipReason(decision.why),
            cursor=Memory(seen, decision.silent_since_us).as_cursor(),
            asset_events=events,
        )

    return shifts


@dataclass(frozen=True)
class Memory:
    """What a sensor remembers from one look to the next: its cursor."""

    seen: Seen | None = None  # at the last observation
    silent_since_us: int | None = None

    @classmethod
    def of(cls, cursor: str | None) -> Memory:
        """As it was stored; of another format: nothing, which costs one observation and one look."""
        stored = json.loads(cursor) if cursor else {}
        if stored.get("format") != CURSOR_FORMAT:
            return cls()
        return cls(Seen(**stored["seen"]) if stored["seen"] else None, stored["silent_since_us"])

    def as_cursor(self) -> str:
        """To be stored."""
        seen = self.seen.as_dict() if self.seen else None
        return json.dumps({"format": CURSOR_FORMAT, "seen": seen, "silent_since_us": self.silent_since_us})


def _gather(pipeline: Pipeline, datacenter: str, runs: ShiftRuns, now_us: int, before: Memory) -> Facts:
    # Runs first: one that takes the lease meanwhile is then seen with it, not as one that lost it.
    in_progress, past = runs.in_progress(), runs.past()
    standing = lease_status_of(pipeline.datacenters[datacenter].state)
    knows_lease = standing.lease is not None and runs.knows(standing.lease.run)
    growth = growth_of(pipeline, datacenter, now_us)
    return Facts(now_us, growth, standing, in_progress, past, knows_lease, before.silent_since_us)


def _carry_out(decision: Decision, facts: Facts, runs: ShiftRuns, state: Path) -> None:
    """The process first: where it may not be killed, the tick fails and its run is left as it is."""
    killed = decision.kill is None or _kill(decision.kill, facts.standing, state)
    for run in decision.lost:
        if decision.kill is not None and run.run_id == decision.kill.run and not killed:
            continue
        log.warning("run %s: %s", run.run_id, run.reason)
        left = _lease_left_by(run, facts.standing.lease)
        if left is not None:
            _kill_process(left)
        runs.mark_lost(run.run_id, run.reason, terminate=run.may_live and left is None)


def _lease_left_by(run: LostRun, lease: Lease | None) -> Lease | None:
    """The lease that names the process of a run that has let go of its datacenter here and did not end."""
    is_its_own = lease is not None and lease.run == run.run_id and lease.is_here
    return lease if run.may_live and is_its_own else None


def _kill(lease: Lease, seen: LeaseStatus, state: Path) -> bool:
    """kill -9, if the process still has the lock and has given no sign of life since; whether it is dead."""
    now = lease_status_of(state)
    if not now.held:
        return True
    return (now.lease, now.beat_us) == (lease, seen.beat_us) and _kill_process(lease)


def _kill_process(lease: Lease) -> bool:
    """kill -9, unless another process has its number now; whether it is dead."""
    try:
        process = psutil.Process(lease.process)
        if process.create_time() * MICROSECONDS > lease.began_us:
            return False
        process.kill()
    except psutil.NoSuchProcess:
        return True
    return True


def _observe(
    served: Served, datacenter: str, facts: Facts, last: Seen | None
) -> tuple[Seen | None, list[AssetObservation]]:
    """Observations of the logs, where no shift of ours makes them, and what to remember of them."""
    seen = Seen.of(facts.growth, facts.now_us)
    reported = facts.standing.held and facts.knows_lease and facts.silent_since_us is None
    if reported or not is_news(seen, last):
        return last, []
    return seen, observations(served, datacenter, facts.growth)
