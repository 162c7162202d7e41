"""Upkeep: verbs that change tables or the registry, each a job of one op that takes what a person may set.

A run's observation says what it did, and is of the asset that it changed. Verbs that find out by themselves
what is due are assets: `evaluations`.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from dagster import (
    AssetObservation,
    JobDefinition,
    OpExecutionContext,
    graph,
    op,
)
from dagster._core.storage.tags import COMPUTE_KIND_TAG, MAX_RUNTIME_SECONDS_TAG
from pydantic import Field

from assets.runs import Metadata, canceled_with_a_sentence, pipeline_of_run, table
from assets.work import IN_ONE_PROCESS, REPAIR_POOL, DryRunConfig, Work, WorkRun
from photon.errors import WrongUsage
from photon.process.clock import SystemClock
from photon.upkeep.recovery import Recovered
from resources.environment import ServedPipeline


@dataclass(frozen=True, kw_only=True)
class Upkeep(Work):
    """A verb. `work` imports what it needs when it runs, so that the location loads fast."""

    changes: str  # the asset that a run's observation is of
    work: Callable[[WorkRun], Metadata]
    description: str
    technology: str = "dynamodb"


def upkeep_job(kind: Upkeep, served: ServedPipeline) -> JobDefinition:
    """The job of one kind of upkeep of a pipeline."""
    name, clock = served.job_name(kind.name), SystemClock()

    @op(
        name=name,
        config_schema=kind.config.to_config_schema() if kind.config else None,  # type: ignore[arg-type]  # it takes one
        pool=kind.pool,
        tags={COMPUTE_KIND_TAG: kind.technology},
        description=kind.description,
    )
    def work(context: OpExecutionContext) -> None:
        began_us = clock.now_us()
        config = kind.config(**context.op_config) if kind.config else None
        with canceled_with_a_sentence(context), pipeline_of_run(served) as pipeline:
            run = WorkRun(context, served, pipeline, config, clock, began_us)
            metadata = {**kind.work(run), **({"dry_run": True} if run.is_dry else {})}
        context.log_event(AssetObservation(served.asset_key(kind.changes), metadata=metadata))

    @graph(name=f"{name}__graph")  # Dagster wants names of ops and graphs to differ
    def verb() -> None:
        work()

    return verb.to_job(
        name=name,
        executor_def=IN_ONE_PROCESS,
        tags={MAX_RUNTIME_SECONDS_TAG: str(kind.max_runtime_seconds)},
        description=f"{kind.job_description} {kind.description}",
    )


def upkeep_jobs(kinds: Sequence[Upkeep], served: ServedPipeline) -> list[JobDefinition]:
    """The jobs of all kinds of upkeep of a pipeline."""
    return [upkeep_job(kind, served) for kind in kinds]


def _recover(run: WorkRun) -> Metadata:
    from photon.upkeep.plans import carry_out
    from photon.upkeep.recovery import RecoveryPlan
    from photon.verification.stored_reports import newest

    stored = newest(run.pipeline, run.served.datacenters)
    reports = {name: one.report for name, one in stored.items()}
    return _ordered(run, carry_out(lambda: RecoveryPlan(run.pipeline, reports), run.is_dry))


def _ordered(run: WorkRun, done: Mapping[str, Recovered]) -> Metadata:
    for name, one in done.items():
        if one.problem:
            run.context.log.warning(f"{name}: {one.problem}")
    rows: list[dict[str, str | int | float]] = [
        {
            "datacenter": name,
            "ordered": one.ordered,
            "left_to_others": one.left_to.total(),
            "left_for_next_round": one.left_out,
        }
        for name, one in done.items()
    ]
    return {
        "ordered": sum(one.ordered for one in done.values()),
        "left_to_others": sum(one.left_to.total() for one in done.values()),
        "seconds": run.seconds(),
        **({"datacenters": table(rows)} if rows else {}),
    }


RECOVERY = Upkeep(
    name="recover",
    changes="verification_report",
    work=_recover,
    job_description="Has what verification found missing looked at again.",
    description=(
        "What the newest verification reports name as missing, or as given up wrongly, is ordered to be"
        " looked at again. The dispatchers join it; nothing is joined here."
    ),
    config=DryRunConfig,
    cron=lambda pipeline: pipeline.recovery.cron,
)


def _compact(run: WorkRun) -> Metadata:
    from photon.upkeep.compact import Compacted, plan_compaction
    from photon.upkeep.plans import carry_out

    pipeline, names, clock, say = run.pipeline, run.served.datacenters, run.clock, run.context.log.info
    done = {
        name: carry_out(partial(plan_compaction, pipeline, name, clock), run.is_dry, say) for name in names
    }
    rows = [
        {"datacenter": name, "table": table_name, **asdict(one)}
        for name, tables in done.items()
        for table_name, one in tables.items()
    ]
    total = sum((one for tables in done.values() for one in tables.values()), Compacted())
    return {
        "files_before": total.files_before,
        "files_after": total.files_after,
        "data_files_removed": total.data_files_removed,
        "seconds": run.seconds(),
        **({"tables": table(rows)} if rows else {}),
    }


COMPACTION = Upkeep(
    name="compaction",
    changes="joined_events",
    work=_compact,
    job_description="Keeps the tables fit: files, log and what nobody needs any more.",
    description=(
        "Small files of each datacenter's tables rewritten as large ones, a checkpoint of each table, and old"
        " entries of its log and old data files removed. No row changes; joins go on."
    ),
    technology="deltalake",
    config=DryRunConfig,
    cron=lambda pipeline: pipeline.compaction.cron,
)


class RepairConfig(DryRunConfig):
    """The endpoint to repair."""

    endpoint: str = Field(description="URL of the endpoint, as in the pipeline file.")
    anew: bool = Field(default=False, description="From the beginning, whatever an earlier run has done.")


def _repair(run: WorkRun) -> Metadata:
    from photon.upkeep.repair import plan_repair

    plan = plan_repair(run.pipeline, run.config.endpoint, run.config.anew)
    if run.is_dry:
        return {"says": "; ".join(plan.sentences())}
    done = plan.apply(run.progress())
    return {
        "endpoint": done.endpoint,
        "entries_copied": done.copied,
        "entries_mended": done.mended,
        "went_on": done.went_on,
        "members_version": done.members_version,
        "seconds": run.seconds(),
    }


REPAIR = Upkeep(
    name="repair",
    changes="registry_state",
    work=_repair,
    job_description="Fills an endpoint of the registry from the others; its run is told which one.",
    description=(
        "An endpoint of the registry that lost its data, was restored or is new, filled from a majority"
        " of the others while joins go on. Its run needs the endpoint's URL, and goes on where one that died"
        " stopped."
    ),
    config=RepairConfig,
    pool=REPAIR_POOL,
    max_runtime_seconds=2 * 86_400,
)


MOST_NAMED = 100  # losses that are named: an observation stays small


class RetirementConfig(DryRunConfig):
    """Which datacenter, and whether to do it: a dry run is what a click does."""

    datacenter: str = Field(description="Its name. It never runs again under this name.")
    lake_is_gone: bool = Field(
        default=False, description="Its rows are lost too: they count no more, and are joined again."
    )
    dry_run: bool = Field(default=True, description="Only say what would be done. False: retire it.")


def _retire(run: WorkRun) -> Metadata:
    from photon.registry.opening import open_reader
    from photon.upkeep.plans import carry_out
    from photon.upkeep.retire import plan_retire

    pipeline, config = run.pipeline, run.config
    done = carry_out(
        lambda: plan_retire(pipeline, open_reader(pipeline), config.datacenter, config.lake_is_gone),
        run.is_dry,
        run.progress(),
    )
    numbers = {name: value for name, value in asdict(done).items() if isinstance(value, int)}
    said = {"datacenter": config.datacenter, "retired": not run.is_dry, **numbers}
    if run.is_dry or done.rows is not None:
        return said
    from jobs.verification import recover_now

    return {**said, **_ordered(run, recover_now(run.pipeline, run.progress()))}


RETIREMENT = Upkeep(
    name="retirement",
    changes="registry_state",
    work=_retire,
    job_description="Gives a datacenter up for good; its run is told which one, and is dry by default.",
    description=(
        "A datacenter that is lost never runs again. Its rows stay, and events that it registered without a"
        " row are free for the others; with lake_is_gone all of its events are."
    ),
    config=RetirementConfig,
)


class AcknowledgementConfig(DryRunConfig):
    """Which datacenter, and whether to do it: a dry run is what a click does."""

    datacenter: str = Field(description="Its name. Its state folder has to be here.")
    dry_run: bool = Field(default=True, description="Only say what is lost. False: acknowledge it.")


def _acknowledge(run: WorkRun) -> Metadata:
    from photon.state.losses import plan_acknowledgement
    from photon.upkeep.plans import carry_out

    place = run.pipeline.datacenters.get(run.config.datacenter)
    if place is None:
        known = ", ".join(run.pipeline.datacenters)
        raise WrongUsage(f"there is no datacenter {run.config.datacenter!r}; expected one of: {known}")
    found = carry_out(lambda: plan_acknowledgement(place.state, run.clock.now_us()), run.is_dry)
    return {
        "datacenter": run.config.datacenter,
        "lost_bytes": found.losses.bytes,
        "may_be_lost_bytes": found.losses.may_be_lost_bytes,
        "lost_records": found.losses.records,
        **found.counts,
        "lost": "\n".join(found.names[:MOST_NAMED]) or "nothing",
    }


ACKNOWLEDGEMENT = Upkeep(
    name="acknowledgement",
    changes="health",
    work=_acknowledge,
    job_description=(
        "Says that somebody knows what a datacenter has lost; the run is told which; dry by default."
    ),
    description="Its checks nothing_lost, dead_letters and unjoinable are green then, until more is bad.",
    technology="python",
    config=AcknowledgementConfig,
)
UPKEEP: Sequence[Upkeep] = (RECOVERY, COMPACTION, REPAIR, RETIREMENT, ACKNOWLEDGEMENT)
