"""One sensor for a registry with endpoints of its own: it tells soon when one of them is not well.

A local registry is a file of this machine, so there is nothing to watch.
"""

from __future__ import annotations

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from photon.assets.registry_state import checks_of
from photon.health.memory import WatcherNotes, as_text, from_text
from photon.health.registry import ENDPOINTS, ask_endpoints
from photon.orchestration.kept_instance import KEPT
from photon.orchestration.seen import unlike_shown
from photon.orchestration.watcher import due_of, sure_of
from photon.pipeline.file import dagster_name
from photon.process.clock import Clock, SystemClock
from photon.registry.errors import RegistryMissing
from photon.resources.environment import ServedPipeline

TICK_SECONDS = 10
ANSWER_SECONDS = 3.0  # an endpoint that takes longer does not answer at this look


def registry_sensor(served: ServedPipeline, clock: Clock | None = None) -> SensorDefinition:
    """The sensor: it evaluates the checks of `registry_state` when their level or words change."""

    clock = clock or SystemClock()

    @sensor(
        name=dagster_name(served.pipeline.name, "registry_watcher"),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Looks whether each endpoint of the registry answers and takes writes.",
    )
    def watcher(context: SensorEvaluationContext) -> SensorResult:
        pipeline, now_us = served.load(), clock.now_us()
        try:
            found = {ENDPOINTS: (ask_endpoints(pipeline, ANSWER_SECONDS),)}
        except RegistryMissing as error:
            return SensorResult(skip_reason=SkipReason(str(error)))
        before = from_text(context.cursor).get(ENDPOINTS, WatcherNotes())
        memory = before.memory.fresh(now_us).having_found(found, now_us)
        told = {promise: one for promise, (one,) in memory.telling(found, now_us).items()}
        sure = sure_of(told)
        due = due_of(sure, before.told, now_us)
        evaluations = [_evaluation(served, one) for one in checks_of(sure, pipeline)]
        unlike = unlike_shown(KEPT.of(context), evaluations)
        return SensorResult(
            skip_reason=SkipReason("; ".join(one.text for one in told.values())),
            cursor=as_text({ENDPOINTS: WatcherNotes(now_us, memory, {**before.told, **due})}),
            asset_events=[one for one in evaluations if one.check_name in due or one in unlike],
        )

    return watcher


def _evaluation(served: ServedPipeline, result: AssetCheckResult) -> AssetCheckEvaluation:
    """The result without a run."""
    return AssetCheckEvaluation(
        asset_key=served.asset_key("registry_state"),
        check_name=str(result.check_name),
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=result.metadata or {},
    )
