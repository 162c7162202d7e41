"""Verbs that find out by themselves what is due. Each is an asset; materializing it evaluates it once.

Any of them may be materialized at any time, also by "Materialize all": where nothing is due, it says why.
Recovery has missing rows made, compaction keeps tables fit. Garbage collection (gc) drops ids of old events
with their generation of ledgers; resharding decides how many ledgers the registry has.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from dagster import AssetExecutionContext, AssetObservation, AssetsDefinition, MaterializeResult, asset
from pydantic import Field

from photon.assets.runs import Metadata, canceled_with_a_sentence, of_a_dry_run, pipeline_of_run, table
from photon.assets.work import RECOVERY_POOL, REGISTRY, AssetWork, DryRunConfig, WorkRun, technology_of
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, SystemClock, in_utc
from photon.registry.register import MOST_LEDGERS
from photon.resources.environment import ServedPipeline

if TYPE_CHECKING:
    from photon.upkeep.gc import GcResult
    from photon.upkeep.recovery import Recovered
    from photon.upkeep.registry_state import RegistrySize
    from photon.upkeep.reshard import Resharded


@dataclass(frozen=True, kw_only=True)
class Evaluation(AssetWork):
    """One such verb. `work` imports what it needs when it runs, so that the location loads fast."""

    work: Callable[[WorkRun], Metadata]
    config: type[DryRunConfig]
    technology: str = REGISTRY
    group: str = "upkeep"  # in Dagster's graph


def evaluation_asset(kind: Evaluation, served: ServedPipeline) -> AssetsDefinition:
    """The asset of one kind of evaluation of a pipeline."""
    key, clock = served.asset_key(kind.asset), SystemClock()

    @asset(
        key=key,
        group_name=served.group_name(kind.group),
        deps=[served.asset_key(name) for name in kind.goes_by],
        kinds={technology_of(kind.technology, served.pipeline)},
        pool=kind.pool,
        config_schema=cast("Any", kind.config.to_config_schema()),
        output_required=False,  # a dry run makes nothing
        description=kind.description,
    )
    def evaluate(context: AssetExecutionContext) -> Iterator[MaterializeResult[None] | AssetObservation]:
        began_us = clock.now_us()
        config = kind.config(**context.op_execution_context.op_config)
        with canceled_with_a_sentence(context), pipeline_of_run(served, kind.asks_registry) as pipeline:
            run = WorkRun(context, served, pipeline, config, clock, began_us)
            metadata = {**kind.work(run), "seconds": run.seconds()}
        if run.is_dry:
            yield AssetObservation(key, metadata=of_a_dry_run(metadata))
        else:
            yield MaterializeResult(metadata=metadata)

    return evaluate


def sizes(registry: "RegistrySize", when: str) -> Metadata:
    """Generations, ledgers, ids and bytes of a registry, each with `when` behind its name."""
    return {f"{name}_{when}": number for name, number in asdict(registry).items()}


_DAY_US = 86_400 * MICROSECONDS


def _collect(run: WorkRun) -> Metadata:
    from photon.registry.opening import open_reader
    from photon.upkeep.gc import plan_gc
    from photon.upkeep.plans import carry_out

    done = carry_out(
        lambda: plan_gc(run.pipeline, open_reader(run.pipeline), run.clock), run.is_dry, run.progress()
    )
    if done.problem:
        run.context.log.warning("%s; the next run takes what is left there", done.problem)
    return gc_metadata(done, run.clock.now_us(), run.is_dry)


def gc_metadata(done: "GcResult", now_us: int, dry_run: bool = False) -> Metadata:
    """The boundary and why it is there, what was dropped, and the registry before and after.

    The age of the boundary is a number, so that it plots: while it rises, nothing is verified or dropped.
    """
    metadata: Metadata = {
        "says": "; ".join(done.sentences(dry_run)),
        "because": done.because,
        "boundary_before": _time(done.boundary_before_us),
        "boundary": _time(done.boundary_us),
        "generation": done.generation,
        "generations_begun": int(done.rolled),
        "generations_dropped": len(done.dropped),
        **sizes(done.before, "before"),
        **sizes(done.after, "after"),
    }
    if done.boundary_us is not None:
        metadata["boundary_age_days"] = round((now_us - done.boundary_us) / _DAY_US, 3)
    if done.problem:
        metadata["problem"] = done.problem
    return metadata


def _time(at_us: int | None) -> str:
    return "none" if at_us is None else in_utc(at_us, "seconds")


GARBAGE_COLLECTION = Evaluation(
    name="gc",
    asset="garbage_collection",
    work=_collect,
    job_description="Drops ids that are older than the pipeline keeps them.",
    description=(
        "What gc found and did: ids of events older than registry.keep_days leave the registry, never past"
        " what the last verification of every datacenter has seen. What is older is too old to be joined. An"
        " id goes with all of its generation of ledgers; a full generation is followed by the next one."
    ),
    goes_by=["verification_report"],
    config=DryRunConfig,
    can_work=lambda pipeline: pipeline.registry.keep_days is not None,
    cron=lambda pipeline: pipeline.registry.collection.cron,
)


class ReshardingConfig(DryRunConfig):
    """How many ledgers to make."""

    ledgers: int | None = Field(
        default=None,
        ge=1,
        le=MOST_LEDGERS,
        description="Have so many ledgers from now on. Without it the pipeline file's policy is asked.",
    )


def _reshard(run: WorkRun) -> Metadata:
    from photon.registry.opening import open_reader
    from photon.upkeep.plans import carry_out
    from photon.upkeep.reshard import plan_reshard

    pipeline = run.pipeline
    done = carry_out(lambda: plan_reshard(pipeline, open_reader(pipeline), run.config.ledgers), run.is_dry)
    return resharding_metadata(done, pipeline, run.is_dry)


def resharding_metadata(done: "Resharded", pipeline: Pipeline, dry_run: bool = False) -> Metadata:
    """How many ledgers there were, are wanted and are, and what the choice went by."""
    metadata: Metadata = {
        "says": done.sentence(pipeline, dry_run),
        "because": done.because,
        "generation": done.generation,
        "ledgers_before": done.ledgers_before,
        "ledgers_wanted": done.ledgers_wanted,
        "ledgers": done.ledgers,
        "resharded": int(done.applied),
        "ids": done.ids,
        "bytes": done.bytes,
        "ids_per_ledger": round(done.ids / done.ledgers),
        "bytes_per_ledger": round(done.bytes / done.ledgers),
    }
    if done.bytes_per_second is not None:
        metadata["bytes_per_second_of_busiest"] = round(done.bytes_per_second, 3)
    return metadata


def _can_reshard(pipeline: Pipeline) -> bool:
    """Not where the file says no. The ledgers of a registry on this machine have no key ranges to relieve."""
    is_local = pipeline.registry.endpoints == "local"
    return pipeline.registry.resharding.policy != "off" and (not is_local or len(pipeline.datacenters) > 1)


RESHARDING = Evaluation(
    name="reshard",
    asset="resharding",
    work=_reshard,
    job_description="Looks whether another number of ledgers would do better; proposes it, or rolls.",
    description=(
        "What resharding found and did: how many ledgers the registry should have by its load and by the"
        " datacenters, proposed or put in force as registry.resharding.policy says; or by hand (config:"
        " ledgers). A new number is a new generation: it counts at once, and nothing is moved."
    ),
    goes_by=["joined_events"],
    config=ReshardingConfig,
    can_work=_can_reshard,
    cron=lambda pipeline: pipeline.registry.resharding.cron,
)


def _recover(run: WorkRun) -> Metadata:
    from photon.upkeep.plans import carry_out
    from photon.upkeep.recovery import RecoveryPlan, recovery_sentences
    from photon.verification.stored_reports import newest

    stored = newest(run.pipeline, run.served.datacenters)
    reports = {name: one.report for name, one in stored.items()}
    done = carry_out(lambda: RecoveryPlan(run.pipeline, reports), run.is_dry)
    return {"says": "; ".join(recovery_sentences(done, run.is_dry)), **orders_metadata(run, done)}


def orders_metadata(run: WorkRun, done: "Mapping[str, Recovered]") -> Metadata:
    """The orders that datacenters have got: how many records each is to look at again."""
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
        **({"datacenters": table(rows)} if rows else {}),
    }


RECOVERY = Evaluation(
    name="recover",
    asset="recovery",
    work=_recover,
    job_description="Has what verification found missing looked at again.",
    description=(
        "What the newest verification reports name as missing, or as given up wrongly, is ordered to be"
        " looked at again, whatever its day, today too. The dispatchers join it; nothing is joined here."
    ),
    goes_by=["verification_report"],
    config=DryRunConfig,
    pool=RECOVERY_POOL,
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
        "says": total.sentence(run.is_dry),
        "files_before": total.files_before,
        "files_after": total.files_after,
        "data_files_removed": total.data_files_removed,
        **({"tables": table(rows)} if rows else {}),
    }


COMPACTION = Evaluation(
    name="compact",
    asset="compaction",
    work=_compact,
    job_description="Keeps the tables fit: files, log and what nobody needs any more.",
    description=(
        "Small files of each datacenter's tables rewritten as large ones, a checkpoint of each table, and old"
        " entries of its log and old data files removed. No row changes; joins go on."
    ),
    goes_by=["joined_events"],
    technology="deltalake",
    config=DryRunConfig,
    asks_registry=False,
    cron=lambda pipeline: pipeline.compaction.cron,
)
EVALUATIONS: Sequence[Evaluation] = (RECOVERY, COMPACTION, GARBAGE_COLLECTION, RESHARDING)
