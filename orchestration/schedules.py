"""When things run by the clock: verification of each pipeline, and pruning of Dagster's history.

What they do is in `assets`. What follows from growing logs is for `sensors`.
"""

from __future__ import annotations

from dagster import (
    AssetKey,
    AssetSelection,
    DagsterInstance,
    DefaultScheduleStatus,
    RunRequest,
    RunsFilter,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    define_asset_job,
    in_process_executor,
    schedule,
)

from assets.run_history import PRUNING_JOB
from assets.verification import verification_key
from orchestration.shift_runs import IN_PROGRESS
from resources.environment import Served, dagster_name

# Every hour, away from the full one, when verification and everybody else's jobs begin.
PRUNING_CRON = "41 * * * *"
# If the process of a verification is killed, nobody tells Dagster. After so long it is given up, and the next
# one can begin; 160,000 lines of each of two datacenters take less than a minute.
VERIFICATION_AT_MOST_SECONDS = 6 * 3_600
AT_MOST_TAG = "dagster/max_runtime"


def verification_job_name(served: Served) -> str:
    """The job whose runs are a pipeline's verifications."""
    return dagster_name(served.pipeline.name, "verification")


def verification_job(served: Served):  # type: ignore[no-untyped-def] # Dagster keeps the type to itself
    """The job that makes the verification report of a pipeline, with its checks."""
    return define_asset_job(
        verification_job_name(served),
        selection=AssetSelection.assets(verification_key(served)),
        executor_def=in_process_executor,
        tags={AT_MOST_TAG: str(VERIFICATION_AT_MOST_SECONDS)},
        description="Classifies every foreign record anew; checks that none is missing or joined twice.",
    )


def verification_schedule(served: Served) -> ScheduleDefinition:
    """The schedule of `verification.cron` in the pipeline file; one verification of a pipeline at a time."""
    name = verification_job_name(served)

    @schedule(
        name=f"{name}__schedule",  # no datacenter's sensor ends like that
        job_name=name,
        cron_schedule=served.pipeline.verification.cron,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.RUNNING,
        description="Verifies, unless a verification of this pipeline is still in progress.",
    )
    def verifications(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
        return run_in_progress(context.instance, name, verification_key(served)) or RunRequest()

    return verifications


def run_in_progress(instance: DagsterInstance, job_name: str, key: AssetKey) -> SkipReason | None:
    """Why not to start a run of a job: one of it, or one that makes its asset, is not over yet."""
    # By hand from the asset graph counts too, which is Dagster's own job.
    for run in instance.get_runs(RunsFilter(statuses=IN_PROGRESS)):
        if run.job_name == job_name or key in (run.asset_selection or ()):
            return SkipReason(f"run {run.run_id} of {job_name} is still in progress ({run.status.value})")
    return None


def pruning_schedule() -> ScheduleDefinition:
    """The schedule of pruning; a run that meets another finds less to do."""
    return ScheduleDefinition(
        job_name=PRUNING_JOB,
        cron_schedule=PRUNING_CRON,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.RUNNING,
        description="Keeps Dagster's storage from growing.",
    )
