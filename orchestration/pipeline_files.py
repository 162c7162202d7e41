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

from assets.pipeline_files import evaluation, problems_now
from resources.environment import LocationSettings

TICK_SECONDS = 60
CURSOR_FORMAT = 2


def pipeline_files_sensor(at_load: LocationSettings) -> SensorDefinition:
    """The sensor: it evaluates the check of a file when what it says changes. Its cursor has what it told."""

    @sensor(
        name="pipeline_files",
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Tells which pipeline files are not served, and why, in the check is_served of each.",
    )
    def files(context: SensorEvaluationContext) -> SensorResult:
        stored = json.loads(context.cursor) if context.cursor else {}
        told = stored["told"] if isinstance(stored, dict) and stored.get("format") == CURSOR_FORMAT else {}
        problems = problems_now(at_load)
        news = [evaluation(name, said) for name, said in problems.items() if told.get(name) != said]
        says = "; ".join(filter(None, problems.values())) or "all pipeline files are served"
        return SensorResult(
            skip_reason=SkipReason(says),
            cursor=json.dumps({"format": CURSOR_FORMAT, "told": problems}),
            asset_events=news,
        )

    return files
