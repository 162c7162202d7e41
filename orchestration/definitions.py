"""The code location: everything that Dagster serves, built by one pure function."""

from __future__ import annotations

from dagster import (
    AssetSelection,
    Definitions,
    StaticPartitionsDefinition,
    define_asset_job,
    in_process_executor,
)

from assets.joined_events import joined_events_asset
from assets.logs import log_assets
from assets.run_history import pruning_job
from assets.upkeep import UPKEEP, upkeep_asset
from orchestration.schedules import pruning_schedule, upkeep_job, upkeep_schedules
from orchestration.sensors import shift_sensor
from resources.environment import LocationSettings, ServedPipeline, location_settings
from resources.spark import SparkResource


def build_defs(settings: LocationSettings) -> Definitions:
    """The definitions of this code location; no I/O, the same for equal settings."""
    shared = Definitions(
        resources={"spark": SparkResource(master=settings.spark_master or "")},
        # A run is one process: a shift's Spark session and its lock belong to the process that reports.
        executor=in_process_executor,
        jobs=[pruning_job(settings.keep_runs_days)],
        schedules=[pruning_schedule()],
    )
    return Definitions.merge(shared, *map(_definitions_of, settings.served))


def _definitions_of(served: ServedPipeline) -> Definitions:
    """What one pipeline adds; each of its datacenters is a partition."""
    datacenters = StaticPartitionsDefinition(list(served.datacenters))
    shift = define_asset_job(
        served.job_name("shift"),
        selection=AssetSelection.assets(served.asset_key("joined_events")),
        executor_def=in_process_executor,
        description="Joins one datacenter's logs for some time; its sensor starts it.",
    )
    return Definitions(
        assets=[
            *log_assets(served, datacenters),
            joined_events_asset(served, datacenters),
            *(upkeep_asset(kind, served) for kind in UPKEEP),
        ],
        jobs=[shift, *(upkeep_job(kind, served) for kind in UPKEEP)],
        sensors=[shift_sensor(served, name) for name in served.datacenters],
        schedules=upkeep_schedules(served),
    )


defs = build_defs(location_settings())
