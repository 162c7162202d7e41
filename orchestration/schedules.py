"""Schedules: verification, upkeep of the registry, and pruning of Dagster's history."""

from __future__ import annotations

from dagster import (
    AssetSelection,
    DefaultScheduleStatus,
    RunRequest,
    RunsFilter,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    define_asset_job,
    schedule,
)
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.tags import MAX_RUNTIME_SECONDS_TAG

from photon.assets.reports import REPORTS
from photon.assets.run_history import PRUNING_JOB
from photon.assets.unmatched import evaluations_of
from photon.assets.work import IN_ONE_PROCESS, AssetWork
from photon.resources.environment import ServedPipeline

# Every hour, away from the full one, when verification and everybody else's jobs begin.
PRUNING_CRON = "41 * * * *"


def asset_job(work: AssetWork, served: ServedPipeline):  # type: ignore[no-untyped-def] # Dagster keeps the type to itself
    """The job that makes a report, or an evaluation."""
    return define_asset_job(
        served.job_name(work.name),
        selection=AssetSelection.assets(served.asset_key(work.asset)),
        executor_def=IN_ONE_PROCESS,
        tags={MAX_RUNTIME_SECONDS_TAG: str(work.max_runtime_seconds)},
        description=work.job_description,
    )


def schedules_of(served: ServedPipeline) -> list[ScheduleDefinition]:
    """One schedule for each report and evaluation."""
    return [_schedule(work, served) for work in (*REPORTS, *evaluations_of(served))]


def _schedule(work: AssetWork, served: ServedPipeline) -> ScheduleDefinition:
    job_name, key = served.job_name(work.name), served.asset_key(work.asset)

    @schedule(
        name=f"{job_name}__schedule",  # no datacenter's sensor ends like that
        job_name=job_name,
        cron_schedule=work.cron(served.pipeline),
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.RUNNING,
        description=f"{work.job_description} Not while a run of it is still in progress.",
    )
    def request_run(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
        for run in context.instance.get_runs(RunsFilter(statuses=NOT_FINISHED_STATUSES)):
            # A run by hand from the asset graph counts too: it is one of Dagster's own job.
            if run.job_name == job_name or key in (run.asset_selection or ()):
                return SkipReason(f"run {run.run_id} of {job_name} is still in progress ({run.status.value})")
        return RunRequest()

    return request_run


def pruning_schedule() -> ScheduleDefinition:
    """The schedule of pruning. It looks for no run in progress: a second run finds less to do."""
    return ScheduleDefinition(
        job_name=PRUNING_JOB,
        cron_schedule=PRUNING_CRON,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.RUNNING,
        description="Keeps Dagster's storage from growing.",
    )
