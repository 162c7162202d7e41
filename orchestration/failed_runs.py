"""Runs that failed, as people are told of them: once, with their reason, and again when a later one succeeds.

Runs are one subject if they do the same work of the same part: a job's, or that of assets chosen by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from dagster import (
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    RunRecord,
    RunsFilter,
)
from dagster._core.definitions.assets.job.asset_job import is_reserved_asset_job_name
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
)

from photon.assets.closed_days import DATACENTER_TAG
from photon.assets.runs import ended_us
from photon.health.alerts import Alert
from photon.orchestration.seen import SensorScope, asset_name, cause_of
from photon.process.clock import MICROSECONDS

OVERLAP_SECONDS = 60  # Dagster stores the end of a run some time after it
MARKED = "marked as failed from outside"  # Dagster's own words where nobody gave it a reason
MOST_OF_A_JOB = 40  # runs among which to look for one of the same subject: all by hand share one job


def failed_runs(
    instance: DagsterInstance, scope: SensorScope, looked_at: float, since: float, told: Collection[str]
) -> list[Alert]:
    """Runs that have failed since the last look and are not `told`; times in seconds since 1970."""
    after = datetime.fromtimestamp(looked_at - OVERLAP_SECONDS, UTC)
    failed = RunsFilter(statuses=[DagsterRunStatus.FAILURE], updated_after=after)
    alerts = []
    for record in instance.get_run_records(failed):
        run = record.dagster_run
        if _is_of(run, scope) and run.run_id not in told and ended_us(record) >= since * MICROSECONDS:
            subject = run_subject(run)
            text = f"run {run.run_id} of {subject} has failed: {_why_failed(instance, run)}"
            alerts.append(Alert(scope.name, "run", subject, "error", text, ended_us(record), run.run_id))
    return alerts


def mended_runs(instance: DagsterInstance, scope: SensorScope, failed: Mapping[str, str]) -> list[Alert]:
    """Tell which subjects of `failed` are well, for a later run has succeeded. It is keyed by run."""
    latest = {subject: run_id for run_id, subject in failed.items()}
    alerts = []
    for subject, run_id in latest.items():
        record = instance.get_run_record_by_id(run_id)
        good = _success_since(instance, record) if record is not None else None
        if good is not None:
            run = good.dagster_run.run_id
            text = f"run {run} of {subject} has succeeded"
            alerts.append(Alert(scope.name, "run", subject, "ok", text, ended_us(good), run))
    return alerts


def run_subject(run: DagsterRun) -> str:
    """The work of a run, as people call it: its job, or the assets that somebody chose, and for what."""
    chosen = _chosen(run)
    by_hand = f"{', '.join(sorted(map(asset_name, chosen)))} by hand"
    name = by_hand if chosen and is_reserved_asset_job_name(run.job_name) else run.job_name
    return " ".join([name, *dict.fromkeys(_part(run).values())])


def _part(run: DagsterRun) -> dict[str, str]:
    """The tags that name the datacenter or the partitions of a run."""
    datacenter = {tag: run.tags[tag] for tag in (PARTITION_NAME_TAG, DATACENTER_TAG) if tag in run.tags}
    between = (ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG)
    return datacenter or {tag: run.tags[tag] for tag in between if tag in run.tags}


def _success_since(instance: DagsterInstance, failed: RunRecord) -> RunRecord | None:
    """The latest run of the same subject that succeeded, if it began after this one."""
    run = failed.dagster_run
    same = RunsFilter(job_name=run.job_name, statuses=[DagsterRunStatus.SUCCESS], tags=_part(run))
    found = instance.get_run_records(same, limit=MOST_OF_A_JOB)
    good = next((one for one in found if run_subject(one.dagster_run) == run_subject(run)), None)
    return good if good is not None and good.create_timestamp > failed.create_timestamp else None


def _why_failed(instance: DagsterInstance, run: DagsterRun) -> str:
    """The first sentence of a run that says why it failed: its step's, or that of its end.

    Dagster may have marked a run as failed, without a reason, before a sensor found one.
    """
    kinds = {DagsterEventType.STEP_FAILURE, DagsterEventType.RUN_FAILURE}
    entries = instance.all_logs(run.run_id, of_type=kinds)
    for entry in sorted(entries, key=lambda entry: MARKED in (entry.user_message or entry.message)):
        event = entry.dagster_event
        if event is not None and event.is_step_failure:
            failure = event.step_failure_data
            said = failure.user_failure_data.description if failure.user_failure_data else None
            return said or cause_of(failure.error)
        return entry.user_message or entry.message
    return "Dagster has no message"


def _is_of(run: DagsterRun, scope: SensorScope) -> bool:
    """Tell whether a run belongs to a scope: by its job, or by its assets if a person chose them."""
    return scope.has_job(run.job_name) or any(map(scope.has_asset, _chosen(run)))


def _chosen(run: DagsterRun) -> set[AssetKey]:
    """The assets that somebody chose, or whose checks."""
    return {*(run.asset_selection or ()), *(key.asset_key for key in run.asset_check_selection or ())}
