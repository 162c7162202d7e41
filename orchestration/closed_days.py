"""One sensor a datacenter: days are verified and filled in once rows are complete up to their ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from dagster import (
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from assets.daily_joins import JOB, partition_key
from photon.pipeline.sections import Backfill
from photon.process.clock import Clock, SystemClock
from photon.state.completeness.published import last_said
from photon.upkeep.backfill.days import day_of
from resources.environment import ServedPipeline, dagster_name

TICK_SECONDS = 60
DATACENTER_TAG = "photon/datacenter"
A_DAY = timedelta(days=1)


@dataclass(frozen=True)
class ClosedDays:
    """The days to request now, and the last day that is done with."""

    first: date | None
    last: date | None  # None, as `first`: there is nothing to request
    through: date | None
    reason: str


def closed_days(
    complete_up_to_us: int | None, through: date | None, today: date, settings: Backfill
) -> ClosedDays:
    """The days up to whose ends rows are complete since `through`, among those that Dagster shows.

    A sensor that looks for the first time (`through` None) begins with the last few that are closed already.
    """
    if complete_up_to_us is None:
        return ClosedDays(None, None, through, "no shift has said yet how complete its rows are")
    # A clock that is behind, or a wild time: Dagster knows no day that is not over.
    closed = min(day_of(complete_up_to_us), today) - A_DAY
    if through is None:
        through = closed - settings.first_look_days * A_DAY
    first = max(through + A_DAY, settings.first_day)
    if first > closed:
        return ClosedDays(None, None, through, f"{first} is not closed yet")
    return ClosedDays(first, closed, closed, f"{closed} is closed")


def closed_days_sensor(
    served: ServedPipeline, datacenter: str, clock: Clock | None = None
) -> SensorDefinition:
    """The sensor of a datacenter's closed days; several that were closed at once are one run."""
    clock, job_name = clock or SystemClock(), served.job_name(JOB)

    @sensor(
        name=dagster_name(served.pipeline.name, datacenter, "closed_days"),
        job_name=job_name,
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Has days of datacenter {datacenter} verified and filled in once they are closed.",
    )
    def days(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        pipeline = served.load()
        through = date.fromisoformat(context.cursor) if context.cursor else None
        said = last_said(pipeline.datacenters[datacenter].lake)
        up_to_us = said.complete_up_to_us if said is not None else None
        found = closed_days(up_to_us, through, day_of(clock.now_us()), served.pipeline.backfill)
        mine = RunsFilter(
            job_name=job_name, statuses=NOT_FINISHED_STATUSES, tags={DATACENTER_TAG: datacenter}
        )
        if found.first is not None and (runs := context.instance.get_runs(mine, limit=1)):
            return SkipReason(f"run {runs[0].run_id} of {job_name} is still in progress")
        return SensorResult(
            run_requests=_requests(datacenter, found),
            skip_reason=found.reason if found.first is None else None,
            cursor=str(found.through) if found.through else None,
        )

    return days


def _requests(datacenter: str, found: ClosedDays) -> list[RunRequest]:
    if found.first is None or found.last is None:
        return []
    tags = {
        DATACENTER_TAG: datacenter,
        ASSET_PARTITION_RANGE_START_TAG: partition_key(datacenter, found.first),
        ASSET_PARTITION_RANGE_END_TAG: partition_key(datacenter, found.last),
    }
    return [RunRequest(tags=tags)]
