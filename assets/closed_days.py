"""Closed days of a datacenter: which are not done, when they are asked for again, and a check that tells.

A day is done when Dagster has a materialization of it in `daily_joins`, and until then its sensor
(`photon.orchestration.closed_days`) asks for it. The sensor's cursor has only where its first look began.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import takewhile

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    DagsterInstance,
    DagsterRunStatus,
    RunsFilter,
    asset_check,
)

from photon.assets.daily_joins import ASSET, JOB, partition_key
from photon.assets.runbook import section
from photon.assets.runs import canceled_with_a_sentence, cursor_of, ended_us, pipeline_of_run
from photon.pipeline.file import Pipeline, dagster_name
from photon.pipeline.sections import Backfill
from photon.process.clock import MICROSECONDS, SystemClock, in_iso
from photon.resources.environment import ServedPipeline
from photon.state.completeness.published import last_said
from photon.upkeep.backfill.days import day_of

CHECK = "days_are_done"
DATACENTER_TAG = "photon/datacenter"
A_DAY = timedelta(days=1)
# Days whose run failed or was canceled are asked for again after 5 minutes, then 10, up to an hour.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 300, 3_600
MOST_RUNS = 8  # are looked at: after so many the pause no longer grows
ALARMING_FAILURES = 2  # one may be a hiccup, and the next run takes it back
MOST_NAMED = 5


@dataclass(frozen=True)
class ClosedDays:
    """The days that are closed, of those that the sensor cares for."""

    days: Sequence[date]
    since: date | None  # the day before the first one that it cares for; None: nothing was read yet
    reason: str


def closed_days(
    complete_up_to_us: int | None, since: date | None, today: date, settings: Backfill
) -> ClosedDays:
    """The days after `since` up to whose ends rows are complete, among those that Dagster shows.

    A sensor that looks for the first time (`since` None) begins with the last few that are closed already.
    """
    if complete_up_to_us is None:
        return ClosedDays((), since, "no shift has said yet how complete its rows are")
    # A clock that is behind, or a wild time: Dagster knows no day that is not over.
    closed = min(day_of(complete_up_to_us), today) - A_DAY
    if since is None:
        since = closed - settings.first_look_days * A_DAY
    first = max(since + A_DAY, settings.first_day)
    days = [first + number * A_DAY for number in range((closed - first).days + 1)]
    return ClosedDays(days, since, f"{max(closed + A_DAY, first)} is not closed yet")


def ranges(days: Sequence[date]) -> Iterator[tuple[date, date]]:
    """The first and the last of days that follow one another; `days` are in order."""
    first = last = None
    for day in days:
        if first is not None and last is not None and day != last + A_DAY:
            yield first, last
            first = None
        first, last = first or day, day
    if first is not None and last is not None:
        yield first, last


def pause_seconds(failures: int) -> int:
    """How long to wait after so many runs in a row that failed or were canceled."""
    return min(FIRST_PAUSE_SECONDS * 2 ** (failures - 1), LONGEST_PAUSE_SECONDS) if failures else 0


@dataclass(frozen=True)
class DaysLook:
    """The state of a datacenter's closed days now."""

    closed: ClosedDays
    lacking: Sequence[date]  # closed, and not done
    runs: Sequence[str] = ()  # those that failed since one succeeded, the latest first
    in_progress: str | None = None  # a run that may make them
    again_us: int = 0  # when they are asked for again

    def says(self) -> str:
        """Say in words how it is: the text of the check."""
        if not self.lacking:
            return "All closed days are done."
        named = ", ".join(map(str, self.lacking[:MOST_NAMED]))
        more = f" and {len(self.lacking) - MOST_NAMED} more" if len(self.lacking) > MOST_NAMED else ""
        if not self.runs:
            return f"Closed and asked for: {named}{more}."
        return (
            f"Closed and not done: {named}{more}; run {self.runs[0]} did not make them, and says why. "
            f"They are asked for again after {in_iso(self.again_us, 'seconds')}."
        )


def look_at_days(
    served: ServedPipeline, datacenter: str, instance: DagsterInstance, cursor: str | None, now_us: int
) -> DaysLook:
    """Look which days are closed and not done; `cursor` is the sensor's."""
    since = date.fromisoformat(cursor) if cursor else None
    said = last_said(served.load().datacenters[datacenter].lake)
    up_to_us = said.complete_up_to_us if said is not None else None
    closed = closed_days(up_to_us, since, day_of(now_us), served.pipeline.backfill)
    made = instance.get_materialized_partitions(served.asset_key(ASSET))
    lacking = [day for day in closed.days if partition_key(datacenter, day) not in made]
    mine = RunsFilter(job_name=served.job_name(JOB), tags={DATACENTER_TAG: datacenter})
    last = instance.get_run_records(mine, limit=MOST_RUNS)
    if at_work := [one.dagster_run.run_id for one in last if not one.dagster_run.is_finished]:
        return DaysLook(closed, lacking, in_progress=at_work[0])
    failed = list(takewhile(lambda one: one.dagster_run.status is not DagsterRunStatus.SUCCESS, last))
    if not failed:
        return DaysLook(closed, lacking)
    again_us = ended_us(failed[0]) + pause_seconds(len(failed)) * MICROSECONDS
    return DaysLook(closed, lacking, [one.dagster_run.run_id for one in failed], None, again_us)


def days_sensor_name(pipeline: Pipeline, datacenter: str) -> str:
    """The sensor that asks for the days of a datacenter."""
    return dagster_name(pipeline.name, datacenter, "closed_days")


def days_evaluation(served: ServedPipeline, datacenter: str, look: DaysLook) -> AssetCheckEvaluation:
    """The check's result, without a run."""
    fails = bool(look.lacking) and bool(look.runs)
    is_error = len(look.runs) >= ALARMING_FAILURES
    remedy = {"what_to_do": "mend what the run names; its days are then asked for, or select them here"}
    return AssetCheckEvaluation(
        served.asset_key(ASSET),
        dagster_name(datacenter, CHECK),
        passed=not fails,
        severity=AssetCheckSeverity.ERROR if is_error else AssetCheckSeverity.WARN,
        description=look.says(),
        metadata={
            "days": len(look.lacking),
            **(remedy if fails else {}),
            **section(CHECK, served.pipeline, datacenter),
        },
    )


def days_check(served: ServedPipeline, datacenter: str) -> AssetChecksDefinition:
    """The check as people may have it evaluated now; else its sensor does when the words change."""
    name, sensor = dagster_name(datacenter, CHECK), days_sensor_name(served.pipeline, datacenter)

    @asset_check(
        asset=served.asset_key(ASSET),
        name=name,
        description=f"{datacenter}: each closed day is made, or its run is on its way.",
    )
    def days_are_done(context: AssetCheckExecutionContext) -> AssetCheckResult:
        with canceled_with_a_sentence(context), pipeline_of_run(served, asks_registry=False):
            cursor = cursor_of(context, sensor)
            look = look_at_days(served, datacenter, context.instance, cursor, SystemClock().now_us())
        seen = days_evaluation(served, datacenter, look)
        return AssetCheckResult(
            passed=seen.passed, severity=seen.severity, description=seen.description, metadata=seen.metadata
        )

    return days_are_done
