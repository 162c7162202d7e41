"""One sensor for a registry with endpoints of its own: it tells soon when one of them is not well.

A local registry is a file of this machine, so there is nothing to watch.
"""

from __future__ import annotations

from collections.abc import Sequence

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

from assets.registry_state import checks_of
from orchestration.seen import unlike_shown
from photon.health.registry import ENDPOINTS, judge_registry, judge_unavailable
from photon.pipeline.file import Pipeline
from photon.registry.errors import RegistryMissing, RegistryUnavailable
from photon.registry.opening import close_registries
from resources.environment import ServedPipeline, dagster_name

TICK_SECONDS = 30


def registry_sensor(served: ServedPipeline) -> SensorDefinition:
    """The sensor: it evaluates the checks of `registry_state` when Dagster shows another level."""

    @sensor(
        name=dagster_name(served.pipeline.name, "registry_watcher"),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Looks whether each endpoint of the registry answers and takes writes.",
    )
    def watcher(context: SensorEvaluationContext) -> SensorResult:
        try:
            found = _look(served.load())
        except RegistryMissing as error:
            return SensorResult(skip_reason=SkipReason(str(error)))
        finally:
            close_registries()
        return SensorResult(
            skip_reason=SkipReason("; ".join(one.description or "" for one in found)),
            asset_events=unlike_shown(context.instance, [_evaluation(served, one) for one in found]),
        )

    return watcher


def _look(pipeline: Pipeline) -> Sequence[AssetCheckResult]:
    from photon.upkeep.registry_state import registry_state  # late: a location loads without it

    try:
        state = registry_state(pipeline, endpoints_only=True)
    except RegistryUnavailable as error:
        return checks_of(judge_unavailable(error), pipeline)
    # Of its ledgers this look knows nothing: until the report has run, their check has no result.
    return checks_of({ENDPOINTS: judge_registry(state, pipeline)[ENDPOINTS]}, pipeline)


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
