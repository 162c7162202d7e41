"""Sensors of shifts and of pipeline files.

Each datacenter has one that carries out every few seconds what `shift_decision` decides. A code location has
one that tells of pipeline files which are not served.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, replace
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

from assets.logs import ObservedLogs, observations
from assets.pipeline_files import check_key, evaluation, problems_now
from orchestration.seen import evaluations
from orchestration.shift_decision import Decision, Snapshot, decide
from orchestration.shift_runs import ShiftRuns
from photon.dispatcher.refusals import OnHold, check_datacenters
from photon.dispatcher.shift.growth import growth_of
from photon.dispatcher.shift.lease import Lease, LeaseStatus, lease_status_of
from photon.dispatcher.shift.people import register_of
from photon.errors import UserError
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.registry.errors import RegistryUnavailable, RetiredDatacenter
from resources.environment import LocationSettings, ServedPipeline, dagster_name


def why_not_to_run(pipeline: Pipeline, datacenter: str) -> str | None:
    """Why people keep a datacenter from running, with what lets it run again; None if they don't.

    None also while the registry is missing or does not answer: the run says so, and waits.
    """
    try:
        register = register_of(pipeline)
        if register is not None:
            check_datacenters(pipeline, datacenter, register)
    except (OnHold, RetiredDatacenter) as error:
        return str(error)
    except (UserError, RegistryUnavailable):
        return None
    return None


# Dagster's daemon goes round every 5 s. With 5 here as well it left out half of the ticks, which came a
# millisecond early: a killed shift waited for up to 10 s.
TICK_SECONDS = 3
CURSOR_FORMAT = 4
REASON_TAG = "photon/why"  # tags a run with the reason why it was launched

log = logging.getLogger(__name__)


def shift_sensor(served: ServedPipeline, datacenter: str, clock: Clock | None = None) -> SensorDefinition:
    """The sensor that keeps a datacenter's shifts going."""
    clock = clock or SystemClock()

    @sensor(
        name=dagster_name(served.pipeline.name, datacenter, "sensor"),
        job_name=served.job_name("shift"),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Starts, replaces and relieves the shifts of datacenter {datacenter}.",
    )
    def shifts(context: SensorEvaluationContext) -> SensorResult:
        pipeline = served.load()
        runs = ShiftRuns(context.instance, served, datacenter)
        cursor = Cursor.from_text(context.cursor)
        found = _look(pipeline, datacenter, runs, clock.now_us(), cursor)
        decision = decide(found, pipeline.shift)
        if decision.launch and (why := why_not_to_run(pipeline, datacenter)) is not None:
            decision = replace(decision, launch=False, reason=why)
        _carry_out(decision, found, runs, pipeline.datacenters[datacenter].state)
        observed, observed_now = _observe(served, datacenter, found, cursor.observed)
        request = RunRequest(partition_key=datacenter, tags={REASON_TAG: decision.reason})
        return SensorResult(
            run_requests=[request] if decision.launch else [],
            skip_reason=None if decision.launch else SkipReason(decision.reason),
            cursor=Cursor(observed, decision.unresponsive_since_us).as_text(),
            asset_events=observed_now,
        )

    return shifts


@dataclass(frozen=True)
class Cursor:
    """A sensor's memory from one tick to the next."""

    observed: ObservedLogs | None = None  # at the last observation
    unresponsive_since_us: int | None = None

    @classmethod
    def from_text(cls, text: str | None) -> Cursor:
        """As it was stored. Forgets one of another format, which costs one observation and one tick."""
        stored = json.loads(text) if text else {}
        if stored.get("format") != CURSOR_FORMAT:
            return cls()
        observed = ObservedLogs(**stored["observed"]) if stored["observed"] else None
        return cls(observed, stored["unresponsive_since_us"])

    def as_text(self) -> str:
        return json.dumps({"format": CURSOR_FORMAT, **asdict(self)})


def _look(pipeline: Pipeline, datacenter: str, runs: ShiftRuns, now_us: int, cursor: Cursor) -> Snapshot:
    # Runs first: a run that takes the lease in between is then seen with it, not as one that lost it.
    in_progress, past = runs.in_progress(), runs.past()
    status = lease_status_of(pipeline.datacenters[datacenter].state)
    is_ours = status.lease is not None and runs.has(status.lease.run)
    growth = growth_of(pipeline, datacenter, now_us)
    return Snapshot(now_us, growth, status, in_progress, past, is_ours, cursor.unresponsive_since_us)


def _carry_out(decision: Decision, found: Snapshot, runs: ShiftRuns, state: Path) -> None:
    """Kill first: a run whose hung process lives on after all is left as it is."""
    hung = decision.kill
    spared = hung.run if hung is not None and not _kill_hung(hung, found.lease_status, state) else None
    lease = found.lease_status.lease
    for run in decision.fail:
        if run.run_id == spared:
            continue
        log.warning("run %s: %s", run.run_id, run.reason)
        terminate = run.may_live
        if run.may_live and lease is not None and lease.run == run.run_id and lease.is_here:
            _kill_process(lease)
            terminate = False
        runs.fail(run, terminate)


def _kill_hung(lease: Lease, found: LeaseStatus, state: Path) -> bool:
    """Kill the process if it still has the lock and gave no heartbeat since; whether it is dead."""
    now = lease_status_of(state)
    if not now.is_locked:
        return True
    return (now.lease, now.beat_us) == (lease, found.beat_us) and _kill_process(lease)


def _kill_process(lease: Lease) -> bool:
    """Send SIGKILL, unless another process has its number now; whether it is dead."""
    try:
        process = psutil.Process(lease.process)
        if process.create_time() * MICROSECONDS > lease.began_us:
            return False
        process.kill()
    except psutil.NoSuchProcess:
        return True
    return True


def _observe(
    served: ServedPipeline, datacenter: str, found: Snapshot, last: ObservedLogs | None
) -> tuple[ObservedLogs | None, list[AssetObservation]]:
    """Observations of the logs, unless a shift of ours makes them, and what to remember of them."""
    observed = ObservedLogs.of(found.growth, found.now_us)
    shift_observes = (
        found.lease_status.is_locked and found.lease_is_ours and found.unresponsive_since_us is None
    )
    if shift_observes or not observed.is_due(last):
        return last, []
    return observed, observations(served, datacenter, found.growth)


FILES_TICK_SECONDS = 60


def pipeline_files_sensor(at_load: LocationSettings) -> SensorDefinition:
    """The sensor: it evaluates the check of a file when Dagster shows a result that says something else."""

    @sensor(
        name="pipeline_files",
        minimum_interval_seconds=FILES_TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Tells which pipeline files are not served, and why, in the check is_served of each.",
    )
    def files(context: SensorEvaluationContext) -> SensorResult:
        problems = problems_now(at_load)
        shown = evaluations(context.instance, [check_key(name) for name in problems])
        said = {key: one.description for key, one in shown.items()}
        found = [evaluation(name, problem) for name, problem in problems.items()]
        says = "; ".join(filter(None, problems.values())) or "all pipeline files are served"
        return SensorResult(
            skip_reason=SkipReason(says),
            asset_events=[one for one in found if said.get(one.asset_check_key) != one.description],
        )

    return files
