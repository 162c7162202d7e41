"""One sensor a datacenter: days are verified and filled in once rows are complete up to their ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from dagster import (
    AssetCheckEvaluation,
    DagsterInstance,
    DefaultSensorStatus,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from photon.assets.closed_days import DATACENTER_TAG, days_evaluation, days_sensor_name, look_at_days, ranges
from photon.assets.daily_joins import JOB, partition_key
from photon.orchestration.kept_instance import KEPT
from photon.orchestration.seen import evaluations
from photon.process.clock import Clock, SystemClock
from photon.resources.environment import ServedPipeline

TICK_SECONDS = 60


def closed_days_sensor(
    served: ServedPipeline, datacenter: str, clock: Clock | None = None
) -> SensorDefinition:
    """The sensor of a datacenter's closed days; several that follow one another are one run."""
    clock, job_name = clock or SystemClock(), served.job_name(JOB)

    @sensor(
        name=days_sensor_name(served.pipeline, datacenter),
        job_name=job_name,
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Has days of datacenter {datacenter} verified and filled in once they are closed.",
    )
    def days(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        now_us = clock.now_us()
        look = look_at_days(served, datacenter, KEPT.of(context), context.cursor or None, now_us)
        if look.lacking and look.in_progress:
            return SkipReason(f"run {look.in_progress} of {job_name} is still in progress")
        asked = list(ranges(look.lacking)) if now_us >= look.again_us else []
        seen = days_evaluation(served, datacenter, look)
        return SensorResult(
            run_requests=[_request(datacenter, *some) for some in asked],
            skip_reason=None if asked else SkipReason(look.says() if look.lacking else look.closed.reason),
            cursor=str(look.closed.since) if look.closed.since else None,
            asset_events=_unless_shown(KEPT.of(context), seen),
        )

    return days


def _unless_shown(instance: DagsterInstance, seen: AssetCheckEvaluation) -> Sequence[AssetCheckEvaluation]:
    """The evaluation where Dagster shows other words, or nothing though something is wrong."""
    shown = evaluations(instance, [seen.asset_check_key]).get(seen.asset_check_key)
    is_shown = seen.passed if shown is None else shown.description == seen.description
    return () if is_shown else (seen,)


def _request(datacenter: str, first: date, last: date) -> RunRequest:
    tags = {
        DATACENTER_TAG: datacenter,
        ASSET_PARTITION_RANGE_START_TAG: partition_key(datacenter, first),
        ASSET_PARTITION_RANGE_END_TAG: partition_key(datacenter, last),
    }
    return RunRequest(tags=tags)
