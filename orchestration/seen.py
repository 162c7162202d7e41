"""Dagster's state of all that people are told: checks, freshness, failed ticks (runs: `failed_runs`).

Each is an Alert of its state now. Whether that is news, and who is told, belongs to `alerts`. Sensors that
evaluate checks ask here what Dagster shows of them: somebody else may have evaluated them since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    SensorEvaluationContext,
)
from dagster._core.definitions.freshness import FreshnessState
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.definitions.selector import RepositorySelector
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, InstigatorTick, TickStatus
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord
from dagster_shared.error import SerializableErrorInfo

from photon.assets.health import level_of
from photon.health.alerts import Alert
from photon.health.verdict import PATIENCE_SECONDS, Level
from photon.orchestration.kept_instance import KEPT
from photon.process.clock import MICROSECONDS

# More ticks of a sensor than come within `PATIENCE_SECONDS`. A schedule's next one comes in an hour or a day.
MOST_TICKS = 20
_FRESHNESS: dict[FreshnessState, Level] = {
    FreshnessState.PASS: "ok",
    FreshnessState.WARN: "warn",
    FreshnessState.FAIL: "error",
}
_ENDED = [TickStatus.SUCCESS, TickStatus.SKIPPED, TickStatus.FAILURE]


@dataclass(frozen=True)
class SensorScope:
    """The things that one sensor tells of."""

    name: str  # name of the pipeline, as alerts say it
    has_asset: Callable[[AssetKey], bool]
    has_job: Callable[[str], bool]
    has_ticks_of: Callable[[str], bool]  # a sensor or a schedule


def open_alerts(context: SensorEvaluationContext, scope: SensorScope, with_ticks: bool = True) -> list[Alert]:
    """The state of all checks, tables and, `with_ticks`, of sensors and schedules."""
    repository = context.repository_def
    assert repository is not None  # a daemon's context has one
    graph, instance = repository.asset_graph, KEPT.of(context)
    keys = [key for key in graph.get_all_asset_keys() if scope.has_asset(key)]
    sensors, schedules = repository.sensor_defs, repository.schedule_defs
    ticking = {*(one.name for one in sensors), *(one.name for one in schedules)}
    names = {name for name in ticking if with_ticks and scope.has_ticks_of(name)}
    return [
        *_checks(instance, scope, [key for key in graph.asset_check_keys if key.asset_key in keys]),
        *_freshness(instance, scope, keys),
        *filter(None, (_tick(instance, scope, state) for state in _instigators(context, names))),
    ]


def unlike_shown(
    instance: DagsterInstance, found: Iterable[AssetCheckEvaluation]
) -> list[AssetCheckEvaluation]:
    """Those of another level than the latest evaluation that Dagster has of their check, or without one."""
    by_key = {one.asset_check_key: one for one in found}
    shown = evaluations(instance, list(by_key))
    levels = {key: level_of(one.passed, one.severity) for key, one in shown.items()}
    return [one for key, one in by_key.items() if levels.get(key) != level_of(one.passed, one.severity)]


def evaluations(
    instance: DagsterInstance, keys: Sequence[AssetCheckKey]
) -> dict[AssetCheckKey, AssetCheckEvaluation]:
    """The latest evaluation of each check, as Dagster shows it."""
    return {key: evaluation for key, _, evaluation in _evaluated(instance, keys)}


def _checks(instance: DagsterInstance, scope: SensorScope, keys: Sequence[AssetCheckKey]) -> Iterator[Alert]:
    """The latest evaluation of each check."""
    for key, record, evaluation in _evaluated(instance, keys):
        yield Alert(
            scope.name,
            "check",
            f"{asset_name(key.asset_key)} {key.name}",
            level_of(evaluation.passed, evaluation.severity),
            evaluation.description or "",
            round(record.create_timestamp * MICROSECONDS),
            record.run_id,
        )


def _evaluated(
    instance: DagsterInstance, keys: Sequence[AssetCheckKey]
) -> Iterator[tuple[AssetCheckKey, AssetCheckExecutionRecord, AssetCheckEvaluation]]:
    """The latest record of each check that has an evaluation."""
    for key, record in instance.event_log_storage.get_latest_asset_check_execution_by_key(keys).items():
        evaluation = record.evaluation
        if _is_evaluated(record) and evaluation is not None:
            yield key, record, evaluation


def asset_name(key: AssetKey) -> str:
    """An asset as alerts call it: without its pipeline, which they name before."""
    return "/".join(key.path[1:] or key.path)


def _is_evaluated(record: AssetCheckExecutionRecord) -> bool:
    """Not one that is planned, or whose run ended before it."""
    event = record.event.dagster_event if record.event is not None else None
    return event is not None and event.event_type is DagsterEventType.ASSET_CHECK_EVALUATION


def _freshness(instance: DagsterInstance, scope: SensorScope, keys: Sequence[AssetKey]) -> Iterator[Alert]:
    """Whether each asset with a freshness policy is fresh, as Dagster's daemon has found it."""
    for key, record in instance.get_freshness_state_records(keys).items():
        level = _FRESHNESS.get(record.freshness_state)
        if level is not None:
            name = asset_name(key)
            says = "is fresh" if level == "ok" else "was not materialized for longer than its policy allows"
            at_us = round(record.updated_at.timestamp() * MICROSECONDS)
            yield Alert(scope.name, "freshness", name, level, f"{name} {says}", at_us)


def _instigators(context: SensorEvaluationContext, names: Collection[str]) -> list[InstigatorState]:
    """Sensors and schedules of this code location that are on."""
    location, repository = context.code_location_origin, context.repository_name
    here = None
    if location is not None and repository is not None:
        here = RepositorySelector(
            location_name=location.location_name, repository_name=repository
        ).selector_id
    return [
        state
        for state in KEPT.of(context).all_instigator_state(repository_selector_id=here)
        if state.name in names and state.status is not InstigatorStatus.STOPPED
    ]


def _tick(instance: DagsterInstance, scope: SensorScope, state: InstigatorState) -> Alert | None:
    """How the latest ticks of a sensor or schedule went; None where they say neither."""
    origin, selector = state.instigator_origin_id, state.selector_id
    is_sensor = state.instigator_type is InstigatorType.SENSOR
    ticks = instance.get_ticks(origin, selector, limit=MOST_TICKS if is_sensor else 1, statuses=_ENDED)
    if not ticks:
        return None
    failed = list(takewhile(lambda tick: tick.status is TickStatus.FAILURE, ticks))
    at_us = round(ticks[0].timestamp * MICROSECONDS)
    if not failed:
        return Alert(scope.name, "tick", state.name, "ok", f"{state.name} works", at_us)
    lasts_seconds = failed[0].timestamp - failed[-1].timestamp
    if is_sensor and lasts_seconds < PATIENCE_SECONDS and len(failed) < MOST_TICKS:
        return None  # the next ones decide
    return Alert(scope.name, "tick", state.name, "error", _says(state, failed[0]), at_us)


def _says(state: InstigatorState, tick: InstigatorTick) -> str:
    """Why a tick failed."""
    kind = state.instigator_type.value.lower()
    return (
        f"the {kind} {state.name} fails, so what it starts or looks at is left alone: {cause_of(tick.error)}"
    )


def cause_of(error: SerializableErrorInfo | None) -> str:
    """The first cause is the user's, those around it are Dagster's."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message.strip() if error is not None else "Dagster has no message"
