"""One sensor a code location that tells of pipeline files which are not served."""

from __future__ import annotations

from dagster import (
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from assets.pipeline_files import check_key, evaluation, problems_now
from orchestration.seen import evaluations
from resources.environment import LocationSettings

TICK_SECONDS = 60


def pipeline_files_sensor(at_load: LocationSettings) -> SensorDefinition:
    """The sensor: it evaluates the check of a file when Dagster shows a result that says something else."""

    @sensor(
        name="pipeline_files",
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Tells which pipeline files are not served, and why, in the check is_served of each.",
    )
    def files(context: SensorEvaluationContext) -> SensorResult:
        problems = problems_now(at_load)
        shown = evaluations(context.instance, [check_key(name) for name in problems])
        said = {key: one.description for key, one in shown.items()}
        found = [evaluation(name, problem) for name, problem in problems.items()]
        says = "; ".join(filter(None, problems.values())) or "all pipeline files are served"
        return SensorResult(
            skip_reason=SkipReason(says),
            asset_events=[one for one in found if said.get(one.asset_check_key) != one.description],
        )

    return files
