"""One sensor a pipeline that tells a user's function of failed checks, failed runs and stale assets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dagster import (
    AssetCheckKey,
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)
from dagster._core.definitions.freshness import FreshnessState
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from assets.health import level_of
from photon.clock import MICROSECONDS, Clock, SystemClock
from photon.health.alerts import Alert, levels_after, load_hook, news
from photon.health.verdicts import Level
from resources.environment import ServedPipeline, dagster_name

TICK_SECONDS = 10
CURSOR_FORMAT = 1
OVERLAP_SECONDS = 60  # Dagster stores the end of a run some time after it
MOST_RUNS = 1_000  # are remembered: more than fail in that time
_FRESHNESS: dict[FreshnessState, Level] = {
    FreshnessState.PASS: "ok",
    FreshnessState.WARN: "warn",
    FreshnessState.FAIL: "error",
}


@dataclass(frozen=True)
class Cursor:
    """What was told."""

    since: float  # the first look, in seconds since 1970: older failures are nobody's news
    levels: dict[str, str]  # of checks and tables
    runs_until: float  # the last look at failed runs
    runs: tuple[str, ...]  # those that were told

    @classmethod
    def from_text(cls, text: str | None, now: float) -> Cursor:
        """As it was stored. The first one tells nothing of runs that failed before."""
        stored = json.loads(text) if text else {}
        if stored.get("format") != CURSOR_FORMAT:
            return cls(now, {}, now, ())
        return cls(stored["since"], stored["levels"], stored["runs_until"], tuple(stored["runs"]))

    def as_text(self) -> str:
        return json.dumps(
            {
                "format": CURSOR_FORMAT,
                "since": self.since,
                "levels": self.levels,
                "runs_until": self.runs_until,
                "runs": self.runs,
            }
        )


def alerts_sensor(served: ServedPipeline, clock: Clock | None = None) -> SensorDefinition:
    """The sensor. A hook that raises fails the tick, and the next tick tells the same again."""
    clock = clock or SystemClock()

    @sensor(
        name=dagster_name(served.pipeline.name, "alerts"),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Tells alerts.hook of failed checks, failed runs and stale assets.",
    )
    def alerts(context: SensorEvaluationContext) -> SensorResult:
        pipeline = served.load()
        hook = load_hook(pipeline)
        if hook is None:
            return SensorResult(skip_reason=SkipReason("the pipeline file names no alerts.hook"))
        now = clock.now_us() / MICROSECONDS
        cursor = Cursor.from_text(context.cursor, now)
        graph = context.repository_def.asset_graph  # type: ignore[union-attr]  # a daemon's context has one
        keys = [key for key in graph.get_all_asset_keys() if key.path[0] == served.name]
        checks = [key for key in graph.asset_check_keys if key.asset_key in keys]
        standing = [
            *_checks(context.instance, served, checks),
            *_freshness(context.instance, served, keys),
        ]
        failed = list(_failed_runs(context.instance, served, cursor))
        told = [*news(standing, cursor.levels), *failed]
        for alert in told:
            hook(alert)
        runs = (*(alert.run for alert in failed), *cursor.runs)[:MOST_RUNS]
        after = Cursor(cursor.since, levels_after(standing), now, runs)
        says = "; ".join(alert.title for alert in told) or "nothing is new"
        return SensorResult(skip_reason=SkipReason(says), cursor=after.as_text())

    return alerts


def _checks(
    instance: DagsterInstance, served: ServedPipeline, keys: Sequence[AssetCheckKey]
) -> Iterator[Alert]:
    """The latest evaluation of each check."""
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    for key, record in found.items():
        evaluation = record.evaluation
        if _is_evaluated(record) and evaluation is not None:
            yield Alert(
                served.pipeline.name,
                "check",
                f"{key.asset_key.path[-1]} {key.name}",
                level_of(evaluation.passed, evaluation.severity),
                evaluation.description or "",
                round(record.create_timestamp * MICROSECONDS),
                record.run_id,
            )


def _is_evaluated(record: AssetCheckExecutionRecord) -> bool:
    """Not one that is planned, or whose run ended before it."""
    event = record.event.dagster_event if record.event is not None else None
    return event is not None and event.event_type is DagsterEventType.ASSET_CHECK_EVALUATION


def _freshness(
    instance: DagsterInstance, served: ServedPipeline, keys: Sequence[AssetKey]
) -> Iterator[Alert]:
    """Whether each asset with a freshness policy is fresh, as Dagster's daemon has found it."""
    for key, record in instance.get_freshness_state_records(keys).items():
        level = _FRESHNESS.get(record.freshness_state)
        if level is not None:
            name = key.path[-1]
            says = "is fresh" if level == "ok" else "was not materialized for longer than its policy allows"
            at_us = round(record.updated_at.timestamp() * MICROSECONDS)
            yield Alert(served.pipeline.name, "freshness", name, level, f"{name} {says}", at_us)


def _failed_runs(instance: DagsterInstance, served: ServedPipeline, cursor: Cursor) -> Iterator[Alert]:
    """The pipeline's runs that have failed since the last look."""
    after = datetime.fromtimestamp(cursor.runs_until - OVERLAP_SECONDS, UTC)
    failed = RunsFilter(statuses=[DagsterRunStatus.FAILURE], updated_after=after)
    for record in instance.get_run_records(failed):
        run = record.dagster_run
        selected = {key.path[0] for key in run.asset_selection or ()}
        ours = run.job_name.startswith(f"{served.name}__") or served.name in selected
        ended = record.end_time or record.update_timestamp.timestamp()
        if ours and run.run_id not in cursor.runs and ended >= cursor.since:
            yield Alert(
                served.pipeline.name,
                "run",
                run.job_name,
                "error",
                f"run {run.run_id} of {run.job_name} has failed; its log in Dagster says why",
                round(ended * MICROSECONDS),
                run.run_id,
            )
