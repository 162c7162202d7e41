"""One sensor a pipeline: it tells Dagster of each hour up to whose end a release is complete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dagster import (
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from photon.assets.releases import ASSET, HOUR, release_of_hour
from photon.pipeline.file import dagster_name
from photon.pipeline.sections import Backfill
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.releases.finding import NoRelease, find_release
from photon.resources.environment import ServedPipeline

TICK_SECONDS = 30
MOST_HOURS = 500  # that one tick tells: each is an event in Dagster's storage


@dataclass(frozen=True)
class CompleteHours:
    """The hours to tell of now, by their beginnings, and the end of the last one that is done with."""

    hours: tuple[datetime, ...]
    through: datetime | None


def complete_hours(
    complete_up_to_us: int | None, through: datetime | None, now_us: int, settings: Backfill
) -> CompleteHours:
    """The hours that are complete since `through`, among those that Dagster shows.

    Rows that left the release set its completeness back: the hours from there on are told again later. A
    sensor that looks for the first time begins with the last few days.
    """
    if complete_up_to_us is None:
        return CompleteHours((), through)
    # A wild time: Dagster knows no hour that is not over.
    end = hour_of(min(complete_up_to_us, now_us))
    if through is None:
        through = end - timedelta(days=settings.first_look_days)
    first_day = datetime.combine(settings.first_day, datetime.min.time(), UTC)
    first = max(min(through, end), first_day)
    count = min(max(0, (end - first) // HOUR), MOST_HOURS)
    return CompleteHours(tuple(first + number * HOUR for number in range(count)), first + count * HOUR)


def hour_of(time_us: int) -> datetime:
    """The beginning of the hour of a time."""
    return datetime.fromtimestamp(time_us // MICROSECONDS // 3_600 * 3_600, UTC)


def complete_hours_sensor(served: ServedPipeline, clock: Clock | None = None) -> SensorDefinition:
    """The sensor; it reads the newest release from the lakes, and asks no registry."""
    clock = clock or SystemClock()

    @sensor(
        name=dagster_name(served.pipeline.name, "releases"),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Tells of each hour up to whose end a release is complete.",
    )
    def hours(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        pipeline = served.load()
        try:
            release = find_release(pipeline)
        except NoRelease as error:
            return SkipReason(str(error))
        through = datetime.fromisoformat(context.cursor) if context.cursor else None
        up_to_us = release.complete_up_to_us
        found = complete_hours(up_to_us, through, clock.now_us(), served.pipeline.backfill)
        return SensorResult(
            skip_reason=None
            if found.hours
            else SkipReason(f"no hour more is complete: {ASSET} {release.number}"),
            asset_events=[release_of_hour(served, release, hour) for hour in found.hours],
            cursor=found.through.isoformat() if found.through else None,
        )

    return hours
