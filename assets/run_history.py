"""Prune Dagster's own history: runs that ended long ago, old events and evaluations, ticks without effect.

The SQLite files stop growing, since the room is used again; they do not shrink.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
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
from dagster._core.storage.dagster_run import FINISHED_STATUSES

from photon.assets.event_history import delete_outlived, delete_run, delete_tags_without_run
from photon.assets.runs import canceled_with_a_sentence, ended_us
from photon.assets.work import IN_ONE_PROCESS, UPKEEP_POOL, DryRunConfig
from photon.process.clock import MICROSECONDS, Clock, SystemClock

PRUNING_JOB = "prune_run_history"
# One call looks at so many, so that it ends soon; the next call does the rest. Two datacenters have some 400
# runs a day, 288 of them compactions.
MOST_RUNS_LOOKED_AT = 500
# Newer runs among which to look for one of the same kind: all assets chosen by hand share one job.
MOST_NEWER_LOOKED_AT = 100
# A tick that started nothing is 1.3 KB. Two sensors make 34,560 a day: 45 MB; this keeps 6 MB.
SKIPPED_TICKS_KEPT_HOURS = 3
DAY_US = 86_400 * MICROSECONDS


@dataclass(frozen=True)
class RunKind:
    """Runs that follow one another. The newest of a kind stays, so that Dagster shows how it went.

    Partitions make no kind: days become ever more, and what was made of each stays without its run.
    """

    job: str
    assets: frozenset[str]  # chosen by hand in the asset graph
    status: str


@dataclass(frozen=True)
class EndedRun:
    """A run that is over."""

    run_id: str
    kind: RunKind
    ended_us: int


def newest_of_each(runs: Iterable[EndedRun]) -> dict[RunKind, EndedRun]:
    """The run of each kind that ended last."""
    return {run.kind: run for run in sorted(runs, key=lambda run: run.ended_us)}


def prunable(runs: Iterable[EndedRun], before_us: int, outlived: Collection[RunKind]) -> list[str]:
    """The ids of runs that ended before `before_us` and are not the newest of their kind, the oldest first.

    Kinds that are `outlived` have newer runs than these.
    """
    runs = sorted(runs, key=lambda run: run.ended_us)
    newest = newest_of_each(runs)
    return [
        run.run_id
        for run in runs
        if run.ended_us < before_us and (run.kind in outlived or newest[run.kind] is not run)
    ]


def pruning_job(keep_runs_days: float, clock: Clock | None = None) -> JobDefinition:
    """The job that deletes runs `keep_runs_days` after their end."""
    clock = clock or SystemClock()

    @op(
        description=(
            f"Deletes runs that ended more than {keep_runs_days:g} days ago, and older events and"
            " evaluations, but each kind's newest."
        ),
        pool=UPKEEP_POOL,
    )
    def prune(context: OpExecutionContext, config: DryRunConfig) -> None:
        say = context.log.info
        with canceled_with_a_sentence(context):
            runs = prune_history(context.instance, clock.now_us(), keep_runs_days, say, config.dry_run)
        context.add_output_metadata({"runs": runs})

    @job(
        name=PRUNING_JOB,
        executor_def=IN_ONE_PROCESS,
        description="Keeps Dagster's storage from growing.",
    )
    def prune_run_history() -> None:
        prune()

    return prune_run_history


def prune_history(
    instance: DagsterInstance,
    now_us: int,
    keep_runs_days: float,
    say: Callable[[str], None],
    dry_run: bool = False,
) -> int:
    """Delete a bounded number of runs, and of events and evaluations, and count the runs.

    After a crash the next call goes on. With `dry_run` only say which these are.
    """
    before_us = now_us - round(keep_runs_days * DAY_US)
    before = datetime.fromtimestamp(before_us / MICROSECONDS, UTC)
    records = instance.get_run_records(
        RunsFilter(statuses=FINISHED_STATUSES, updated_before=before),
        limit=MOST_RUNS_LOOKED_AT,
        order_by="update_timestamp",
        ascending=True,
    )
    oldest = [_ended_run(record) for record in records]
    outlived = [run.kind for run in newest_of_each(oldest).values() if _is_outlived(instance, run)]
    deleted = prunable(oldest, before_us, outlived)
    which = f"runs of {len(oldest)} that ended before {before:%Y-%m-%d %H:%M} UTC"
    if dry_run:
        outlived_rows = delete_outlived(instance, before_us, dry_run)
        say(f"dry run: {len(deleted)} {which} would be deleted: {', '.join(deleted) or 'none'}")
        say(f"dry run: {outlived_rows} events and evaluations would be deleted")
        return len(deleted)
    for run_id in deleted:
        instance.compute_log_manager.delete_logs(prefix=[run_id])
        delete_run(instance, run_id)
    delete_tags_without_run(instance)
    outlived_rows = delete_outlived(instance, before_us)
    # Dagster's own retention (orchestration/dagster.yaml) counts in whole days.
    ticks_before_seconds = now_us / MICROSECONDS - SKIPPED_TICKS_KEPT_HOURS * 3_600
    for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
        instance.purge_ticks(
            state.instigator_origin_id, state.selector_id, ticks_before_seconds, [TickStatus.SKIPPED]
        )
    say(f"deleted {len(deleted)} {which}, and {outlived_rows} older events and evaluations")
    return len(deleted)


def _is_outlived(instance: DagsterInstance, run: EndedRun) -> bool:
    """Whether a newer run of its kind is found."""
    filters = RunsFilter(job_name=run.kind.job, statuses=[DagsterRunStatus(run.kind.status)])
    newest = instance.get_run_records(filters, limit=MOST_NEWER_LOOKED_AT)
    return any(other.kind == run.kind and other.ended_us > run.ended_us for other in map(_ended_run, newest))


def _ended_run(record: RunRecord) -> EndedRun:
    run = record.dagster_run
    chosen = frozenset(key.to_user_string() for key in run.asset_selection or ())
    kind = RunKind(run.job_name, chosen, run.status.value)
    return EndedRun(run.run_id, kind, ended_us(record))
