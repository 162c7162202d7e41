"""One sensor a code location that tells of pipeline files which are not served."""

from __future__ import annotations

import json

from dagster import (
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from assets.pipeline_files import evaluation, told_now
from resources.environment import LocationSettings

TICK_SECONDS = 60


def pipeline_files_sensor(at_load: LocationSettings) -> SensorDefinition:
    """The sensor: it evaluates the check when what is to tell changes. Its cursor is what it told last."""

    @sensor(
        name="pipeline_files",
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Tells which pipeline files are not served, and why, in the check all_served.",
    )
    def files(context: SensorEvaluationContext) -> SensorResult:
        problems = told_now(at_load)
        told = json.dumps(problems)
        return SensorResult(
            skip_reason=SkipReason("; ".join(problems) or "all pipeline files are served"),
            cursor=told,
            asset_events=[evaluation(problems)] if told != context.cursor else [],
        )

    return files
