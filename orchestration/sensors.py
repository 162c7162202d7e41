"""Sensors of shifts, of logs and of pipeline files.

Each datacenter has one that carries out every few seconds what `shift_decision` decides, and another one for
shifts that land its logs, if it has any. Each pipeline has one that observes its logs, and a code location
one that tells of pipeline files which are not served.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
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

from photon.assets.logs import growths_of, logs_metadata
from photon.assets.pipeline_files import check_key, evaluation, problems_now
from photon.dispatcher.refusals import OnHold, check_datacenters
from photon.dispatcher.shift.growth import Growth, growth_of
from photon.dispatcher.shift.lease import Lease, LeaseStatus, lease_status_of
from photon.dispatcher.shift.people import ASK_SECONDS, asked_in_time, register_of
from photon.landing.marker import landing_lease
from photon.orchestration.kept_instance import KEPT
from photon.orchestration.seen import evaluations
from photon.orchestration.shift_decision import Decision, Snapshot, decide
from photon.orchestration.shift_runs import ShiftRuns
from photon.pipeline.file import Pipeline, dagster_name
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.process.errors import UserError
from photon.registry.errors import RegistryUnavailable, RetiredDatacenter
from photon.resources.environment import LocationSettings, ServedPipeline

Decided = tuple[type[Exception], ...]


def why_not_to_run(
    pipeline: Pipeline, datacenter: str, ended_by: Decided = (OnHold, RetiredDatacenter)
) -> str | None:
    """Why people keep a datacenter from running, with what lets it run again; None if they don't.

    None also while the registry is missing or does not answer: the run says so, and waits.
    """
    try:
        register = asked_in_time(pipeline, lambda: register_of(pipeline), ASK_SECONDS, while_working=True)
        if register is not None:
            check_datacenters(pipeline, datacenter, register)
    except (OnHold, RetiredDatacenter) as error:
        return str(error) if isinstance(error, ended_by) else None
    except (UserError, RegistryUnavailable):
        return None
    return None


# Dagster's daemon goes round every 5 s. With 5 here as well it left out half of the ticks, which came a
# millisecond early: a killed shift waited for up to 10 s.
TICK_SECONDS = 3
REASON_TAG = "photon/why"  # tags a run with the reason why it was launched

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShiftKind:
    """A kind of shifts of a datacenter: those that join its logs, or those that land them."""

    job: str
    asset: str
    sensor: str
    does: str
    lease_in: Callable[[Pipeline, str], Path]  # the folder that says who is at it
    growth: Callable[[Pipeline, str, int], Growth | None]
    why_not: Callable[[Pipeline, str], str | None]  # to launch one now


def _why_not_to_land(pipeline: Pipeline, datacenter: str) -> str | None:
    """A hold keeps nobody from landing, for the broker removes messages all the same."""
    if pipeline.datacenters[datacenter].land:
        return why_not_to_run(pipeline, datacenter, (RetiredDatacenter,))
    return f"{pipeline.file} has nothing to land in {datacenter} any more: reload the code location"


JOINING = ShiftKind(
    "shift",
    "joined_events",
    "sensor",
    "shifts",
    lambda pipeline, name: pipeline.datacenters[name].state,
    growth_of,
    why_not_to_run,
)
LANDING = ShiftKind("land", "landing", "landing", "landing", landing_lease, lambda *_: None, _why_not_to_land)


def shift_sensor(
    served: ServedPipeline, datacenter: str, clock: Clock | None = None, kind: ShiftKind = JOINING
) -> SensorDefinition:
    """The sensor that keeps a datacenter's shifts of a kind going."""
    clock = clock or SystemClock()

    @sensor(
        name=dagster_name(served.pipeline.name, datacenter, kind.sensor),
        job_name=served.job_name(kind.job),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Starts, replaces and relieves the {kind.does} of datacenter {datacenter}.",
    )
    def shifts(context: SensorEvaluationContext) -> SensorResult:
        pipeline = served.load()
        runs = ShiftRuns(KEPT.of(context), served, datacenter, kind.job, kind.asset)
        before = context.cursor or ""
        unresponsive_since_us = int(before) if before.isdecimal() else None  # else of an earlier format
        found = _look(pipeline, datacenter, kind, runs, clock.now_us(), unresponsive_since_us)
        decision = decide(found, pipeline.shift)
        if decision.launch:  # most ticks launch none: only before one the last runs are read, for a backoff
            found = replace(found, past_runs=runs.past())
            decision = decide(found, pipeline.shift)
        if decision.launch and (why := kind.why_not(pipeline, datacenter)) is not None:
            decision = replace(decision, launch=False, reason=why)
        _carry_out(decision, found, runs, kind.lease_in(pipeline, datacenter))
        request = RunRequest(partition_key=datacenter, tags={REASON_TAG: decision.reason})
        return SensorResult(
            run_requests=[request] if decision.launch else [],
            skip_reason=None if decision.launch else SkipReason(decision.reason),
            cursor=str(decision.unresponsive_since_us or ""),
        )

    return shifts


def _look(
    pipeline: Pipeline,
    datacenter: str,
    kind: ShiftKind,
    runs: ShiftRuns,
    now_us: int,
    unresponsive_since_us: int | None,
) -> Snapshot:
    # Runs first: a run that takes the lease in between is then seen with it, not as one that lost it.
    in_progress = runs.in_progress()
    status = lease_status_of(kind.lease_in(pipeline, datacenter))
    is_ours = status.lease is not None and runs.has(status.lease.run)
    growth = kind.growth(pipeline, datacenter, now_us)
    return Snapshot(now_us, growth, status, in_progress, (), is_ours, unresponsive_since_us)


def _carry_out(decision: Decision, found: Snapshot, runs: ShiftRuns, folder: Path) -> None:
    """Kill first: a run whose hung process lives on after all is left as it is."""
    hung = decision.kill
    spared = hung.run if hung is not None and not _kill_hung(hung, found.lease_status, folder) else None
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


def _kill_hung(lease: Lease, found: LeaseStatus, folder: Path) -> bool:
    """Kill the process if it still has the lock and gave no heartbeat since; whether it is dead."""
    now = lease_status_of(folder)
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


LOGS_TICK_SECONDS = 300  # a pair of observations is 4 KB in Dagster's storage; shifts report more, and sooner


def logs_sensor(served: ServedPipeline, clock: Clock | None = None) -> SensorDefinition:
    """The sensor: it observes both logs where a file of any datacenter has changed, or was read on."""
    clock = clock or SystemClock()

    @sensor(
        name=dagster_name(served.pipeline.name, "logs"),
        minimum_interval_seconds=LOGS_TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Observes how far the logs have grown, and how much of them is unread.",
    )
    def logs(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        growths = growths_of(served.load(), served, clock.now_us())
        seen = json.dumps(
            {
                name: [one.signature, one.primary.unread_bytes, one.foreign.unread_bytes]
                for name, one in growths.items()
            }
        )
        if seen == context.cursor:
            return SkipReason("the logs are as they were")
        observations = [
            AssetObservation(served.asset_key(log), metadata=metadata)
            for log, metadata in logs_metadata(growths).items()
        ]
        says = SkipReason("the logs are observed")
        return SensorResult(skip_reason=says, cursor=seen, asset_events=observations)

    return logs


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
        shown = evaluations(KEPT.of(context), [check_key(name) for name in problems])
        said = {key: one.description for key, one in shown.items()}
        found = [evaluation(name, problem) for name, problem in problems.items()]
        says = "; ".join(filter(None, problems.values())) or "all pipeline files are served"
        return SensorResult(
            skip_reason=SkipReason(says),
            asset_events=[one for one in found if said.get(one.asset_check_key) != one.description],
        )

    return files
