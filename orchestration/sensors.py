"""One sensor a datacenter: looks at it every few seconds, and does what `shift_decision` decides.

Gathers facts and carries out, nothing else: what is to be done is decided there.
"""

from __future__ import annotations

import json
import logging

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
from orchestration.shift_decision import Decision, Facts, decide
from orchestration.shift_runs import ShiftRuns
from photon.clock import MICROSECONDS, Clock, SystemClock
from photon.dispatcher.lock import Lease, standing_of
from photon.growth import growth_of
from photon.pipeline import Pipeline
from resources.environment import Served, dagster_name
from resources.pipelines import PipelineFiles

# Dagster's daemon goes round every 5 s. With 5 here as well, a tick that comes a millisecond early is left
# out, and half of them did: a killed shift waited for up to 10 s.
TICK_SECONDS = 3
WHY_TAG = "photon/why"  # of a run: why it was launched

log = logging.getLogger(__name__)


def shift_job_name(served: Served) -> str:
    """The job whose runs are a pipeline's shifts."""
    return dagster_name(served.pipeline.name, "shift")


def shift_sensor(served: Served, datacenter: str, clock: Clock | None = None) -> SensorDefinition:
    """The sensor that keeps a datacenter's shifts going."""
    clock = clock or SystemClock()

    @sensor(
        name=dagster_name(served.pipeline.name, datacenter),
        job_name=shift_job_name(served),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Starts, replaces and relieves the shifts of datacenter {datacenter}.",
    )
    def shifts(context: SensorEvaluationContext, pipelines: PipelineFiles) -> SensorResult:
        pipeline = pipelines.load(served.pipeline.name)
        runs = ShiftRuns(context.instance, shift_job_name(served), joined_events_key(served), datacenter)
        facts = _gather(pipeline, datacenter, runs, clock.now_us())
        decision = decide(facts, pipeline.shift)
        _carry_out(decision, facts, runs)
        cursor, events = _observe(served, datacenter, facts, context.cursor)
        request = RunRequest(partition_key=datacenter, tags={WHY_TAG: decision.why})
        return SensorResult(
            run_requests=[request] if decision.launch else [],
            skip_reason=None if decision.launch else SkipReason(decision.why),
            cursor=cursor,
            asset_events=events,
        )

    return shifts


def _gather(pipeline: Pipeline, datacenter: str, runs: ShiftRuns, now_us: int) -> Facts:
    # Runs first: one that takes the lease meanwhile is then seen with it, not as one that lost it.
    in_progress, past = runs.in_progress(), runs.past()
    standing = standing_of(pipeline.datacenters[datacenter].state)
    knows_lease = standing.lease is not None and runs.knows(standing.lease.run)
    growth = growth_of(pipeline, datacenter, now_us)
    return Facts(now_us, growth, standing, in_progress, past, knows_lease)


def _carry_out(decision: Decision, facts: Facts, runs: ShiftRuns) -> None:
    """The process first: where it may not be killed, the tick fails and its run is left as it is."""
    if decision.kill and facts.standing.lease is not None:
        _kill(facts.standing.lease)
    for run in decision.lost:
        log.warning("run %s: %s", run.run_id, run.reason)
        runs.mark_lost(run.run_id, run.reason)


def _kill(lease: Lease) -> None:
    """kill -9, unless the process is gone and another one has its number."""
    try:
        process = psutil.Process(lease.process)
        if process.create_time() * MICROSECONDS <= lease.began_us:
            process.kill()
    except psutil.NoSuchProcess:
        return


def _observe(
    served: Served, datacenter: str, facts: Facts, cursor: str | None
) -> tuple[str | None, list[AssetObservation]]:
    """Observations of the logs, where no shift makes them, and the cursor that remembers them."""
    last = Seen(**json.loads(cursor)) if cursor else None
    seen = Seen.of(facts.growth, facts.now_us)
    if facts.standing.held or not is_news(seen, last):
        return cursor, []
    return json.dumps(seen.as_dict()), observations(served, datacenter, facts.growth)
