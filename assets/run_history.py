"""Dagster's own history, pruned: runs that ended long ago with their events and logs, and ticks of no effect.

What may go is decided in `pruning`; when it is looked for is for `orchestration`. Room in the SQLite files
that is given up here is used again, so they stop growing; they do not shrink.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    JobDefinition,
    OpExecutionContext,
    RunRecord,
    RunsFilter,
    job,
    op,
)
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus

from assets.pruning import EndedRun, Kind, newest_of_each, prunable
from photon.clock import MICROSECONDS, Clock, SystemClock

PRUNING_JOB = "prune_run_history"
# Of one call, so that it ends soon; two datacenters have some 150 runs a day. The rest is for the next call.
MOST_RUNS_LOOKED_AT = 500
# A kind's newer runs among those of Dagster's one job for assets chosen by hand.
MOST_NEWER_LOOKED_AT = 100
# A tick that started nothing is 1.3 KB, and there are 34,560 a day of two sensors: 45 MB, of which this is 6.
SKIPPED_TICKS_KEPT_HOURS = 3
DAY_US = 86_400 * MICROSECONDS
OVER = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
PARTITION_TAG = "dagster/partition"


def pruning_job(keep_runs_days: float, clock: Clock | None = None) -> JobDefinition:
    """The job that prunes; runs stay for `keep_runs_days` after their end."""
    clock = clock or SystemClock()

    @op(description=f"Deletes runs that ended more than {keep_runs_days:g} days ago, but each kind's newest.")
    def prune(context: OpExecutionContext) -> None:
        runs = prune_history(context.instance, clock.now_us(), keep_runs_days, context.log.info)
        context.add_output_metadata({"runs": runs})

    @job(name=PRUNING_JOB, description="Keeps Dagster's storage from growing.")
    def prune_run_history() -> None:
        prune()

    return prune_run_history


def prune_history(
    instance: DagsterInstance, now_us: int, keep_runs_days: float, say: Callable[[str], None]
) -> int:
    """Delete what may go, at most so much a call, and count the runs; after a crash the next call goes on."""
    before_us = now_us - round(keep_runs_days * DAY_US)
    oldest = _ended_runs(instance, before_us)
    newest = newest_of_each(oldest).values()
    outlived = [run.kind for run in newest if _is_outlived(instance, run)]
    doomed = prunable(oldest, before_us, outlived)
    for run_id in doomed:
        _delete(instance, run_id)
    _purge_skipped_ticks(instance, now_us - SKIPPED_TICKS_KEPT_HOURS * 3_600 * MICROSECONDS)
    say(
        f"deleted {len(doomed)} runs of {len(oldest)} that ended before {_time(before_us):%Y-%m-%d %H:%M} UTC"
    )
    return len(doomed)


def _ended_runs(instance: DagsterInstance, before_us: int) -> list[EndedRun]:
    filters = RunsFilter(statuses=OVER, updated_before=_time(before_us))
    records = instance.get_run_records(
        filters, limit=MOST_RUNS_LOOKED_AT, order_by="update_timestamp", ascending=True
    )
    return [_ended_run(record) for record in records]


def _is_outlived(instance: DagsterInstance, run: EndedRun) -> bool:
    """Whether there is a newer run of its kind; where that is not clear, there is none."""
    partition = {PARTITION_TAG: run.kind.partition} if run.kind.partition else {}
    filters = RunsFilter(job_name=run.kind.job, statuses=[DagsterRunStatus(run.kind.status)], tags=partition)
    newest = instance.get_run_records(filters, limit=MOST_NEWER_LOOKED_AT)
    return any(other.kind == run.kind and other.ended_us > run.ended_us for other in map(_ended_run, newest))


def _ended_run(record: RunRecord) -> EndedRun:
    run = record.dagster_run
    chosen: Sequence[str] = [key.to_user_string() for key in run.asset_selection or ()]
    kind = Kind(run.job_name, frozenset(chosen), run.tags.get(PARTITION_TAG, ""), run.status.value)
    ended = record.end_time or record.update_timestamp.timestamp()
    return EndedRun(run.run_id, kind, round(ended * MICROSECONDS))


def _delete(instance: DagsterInstance, run_id: str) -> None:
    """The run itself last: as long as it is there, the next call finds what is left of it."""
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    instance.event_log_storage.delete_events(run_id)
    instance.delete_run(run_id)


def _purge_skipped_ticks(instance: DagsterInstance, before_us: int) -> None:
    """Of sensors. Dagster's own retention (infra/dagster.yaml) counts in whole days."""
    for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
        before_seconds = before_us / MICROSECONDS
        instance.purge_ticks(
            state.instigator_origin_id, state.selector_id, before_seconds, [TickStatus.SKIPPED]
        )


def _time(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / MICROSECONDS, UTC)
