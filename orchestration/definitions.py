"""The code location: everything that Dagster serves, built by one pure function.

Here is only what all pipelines share. What each brings is `pipeline_definitions`; the parts themselves
belong to `assets`, `resources` and the other modules of `orchestration`.
"""

from __future__ import annotations

from dagster import Definitions, in_process_executor

from assets.run_history import pruning_job
from jobs.session import LOCAL_MASTER
from orchestration.pipeline_definitions import definitions_of
from orchestration.schedules import pruning_schedule
from resources.environment import LocationSettings, settings_of_this_process
from resources.pipelines import PipelineFiles
from resources.spark import SparkResource


def build_defs(settings: LocationSettings) -> Definitions:
    """The definitions of this code location; no I/O, the same for equal settings."""
    shared = Definitions(
        resources={
            "pipelines": PipelineFiles(
                files={served.pipeline.name: str(served.pipeline.file) for served in settings.served}
            ),
            "spark": SparkResource(master=settings.spark_master or LOCAL_MASTER),
        },
        # A run is one process: a shift's Spark session and its lock belong to the process that reports.
        executor=in_process_executor,
        jobs=[pruning_job(settings.keep_runs_days)],
        schedules=[pruning_schedule()],
    )
    return Definitions.merge(shared, *map(definitions_of, settings.served))


defs = build_defs(settings_of_this_process())
