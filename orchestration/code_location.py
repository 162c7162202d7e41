"""Everything that a code location serves, built by one pure function."""

from __future__ import annotations

from collections.abc import Sequence

from dagster import (
    AssetSelection,
    Definitions,
    StaticPartitionsDefinition,
    define_asset_job,
)
from dagster._core.storage.tags import MAX_RUNTIME_SECONDS_TAG

from photon.assets.attributes import with_attributes
from photon.assets.closed_days import days_check
from photon.assets.daily_joins import ASSET as DAILY_JOINS
from photon.assets.daily_joins import JOB as DAILY_JOB
from photon.assets.daily_joins import daily_joins_asset
from photon.assets.evaluations import evaluation_asset
from photon.assets.health import health_asset, health_checks
from photon.assets.joined_events import joined_events_asset
from photon.assets.landing import landing_asset
from photon.assets.logs import log_assets
from photon.assets.pipeline_files import file_checks, pipeline_file_assets
from photon.assets.releases import release_spec
from photon.assets.reports import REPORTS, report_asset
from photon.assets.run_history import pruning_job
from photon.assets.side_tables import side_table_assets
from photon.assets.unmatched import evaluations_of
from photon.assets.upkeep import UPKEEP, upkeep_jobs
from photon.assets.work import IN_ONE_PROCESS, LOGGERS, NO_OUTPUTS, AssetWork
from photon.orchestration.alerts import alerts_sensor
from photon.orchestration.closed_days import closed_days_sensor
from photon.orchestration.complete_hours import complete_hours_sensor
from photon.orchestration.registry_watcher import registry_sensor
from photon.orchestration.schedules import asset_job, pruning_schedule, schedules_of
from photon.orchestration.sensors import LANDING, logs_sensor, pipeline_files_sensor, shift_sensor
from photon.orchestration.watcher import watcher_sensor
from photon.resources.environment import LocationSettings, ServedPipeline
from photon.resources.spark import spark_resource

DAYS_MAX_RUNTIME_SECONDS = 2 * 86_400  # for a rebuild of many days, which goes on when it is started again


def build_defs(settings: LocationSettings) -> Definitions:
    """The definitions of a code location with nothing but Photon; no I/O, the same for equal settings."""
    alone = Definitions(resources=NO_OUTPUTS, executor=IN_ONE_PROCESS, loggers=LOGGERS)
    return Definitions.merge(defs_beside_others(settings), alone)


def defs_beside_others(settings: LocationSettings) -> Definitions:
    """The definitions for a code location whose other assets bring an IO manager, an executor and loggers."""
    shared = Definitions(
        resources={"spark": spark_resource(settings.spark_master)},
        assets=pipeline_file_assets(settings),
        asset_checks=file_checks(settings),
        jobs=[pruning_job(settings.keep_runs_days)],
        sensors=[
            pipeline_files_sensor(settings),
            *(alerts_sensor(file, settings) for file in settings.file_names()),
        ],
        schedules=[pruning_schedule()],
    )
    return Definitions.merge(shared, *map(_definitions_of, settings.served))


def _definitions_of(served: ServedPipeline) -> Definitions:
    """The definitions that one pipeline adds; each of its datacenters is a partition."""
    datacenters = StaticPartitionsDefinition(list(served.datacenters))
    shift = define_asset_job(
        served.job_name("shift"),
        selection=AssetSelection.assets(served.asset_key("joined_events")),
        executor_def=IN_ONE_PROCESS,
        description="Joins one datacenter's logs for some time; its sensor starts it.",
    )
    days = define_asset_job(
        served.job_name(DAILY_JOB),
        selection=AssetSelection.assets(served.asset_key(DAILY_JOINS)),
        executor_def=IN_ONE_PROCESS,
        tags={MAX_RUNTIME_SECONDS_TAG: str(DAYS_MAX_RUNTIME_SECONDS)},
        description="Fills in closed days of a datacenter, or makes their rows again.",
    )
    landing = define_asset_job(
        served.job_name(LANDING.job),
        selection=AssetSelection.assets(served.asset_key(LANDING.asset)),
        executor_def=IN_ONE_PROCESS,
        description="Lands one datacenter's topics and objects for some time; its sensor starts it.",
    )
    asset_works: Sequence[AssetWork] = (*REPORTS, *evaluations_of(served))
    return Definitions(
        assets=with_attributes(
            served,
            [
                *([landing_asset(served)] if served.landing else []),
                log_assets(served),
                *side_table_assets(served),
                joined_events_asset(served, datacenters),
                daily_joins_asset(served, datacenters),
                release_spec(served),
                health_asset(served),
                *(evaluation_asset(kind, served) for kind in evaluations_of(served)),
                *(report_asset(report, served) for report in REPORTS),
            ],
        ),
        asset_checks=[
            check(served, name) for check in (health_checks, days_check) for name in served.datacenters
        ],
        jobs=[
            shift,
            *([landing] if served.landing else []),
            days,
            *(asset_job(work, served) for work in asset_works),
            *upkeep_jobs(UPKEEP, served),
        ],
        sensors=[
            watcher_sensor(served),
            logs_sensor(served),
            complete_hours_sensor(served),
            *([] if served.pipeline.registry.endpoints == "local" else [registry_sensor(served)]),
            *(shift_sensor(served, name) for name in served.datacenters),
            *(shift_sensor(served, name, kind=LANDING) for name in served.landing),
            *(closed_days_sensor(served, name) for name in served.datacenters),
        ],
        schedules=schedules_of(served),
    )
