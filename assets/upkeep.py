"""Verification and upkeep of a pipeline: its kinds, and one factory that makes an asset of each."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dagster import AssetCheckSpec, AssetExecutionContext, AssetsDefinition, Config, MaterializeResult, asset
from pydantic import Field

from assets.availability import AVAILABILITY_CHECK, PROMISE, availability_check, availability_metadata
from assets.log_copies import COPIES_AGREE, COPIES_CHECK, copies_check
from assets.registry_state import ENDPOINTS_CHECK, SHARDS_CHECK, endpoints_check, shards_check, state_metadata
from assets.runs import Metadata, pipeline_of_run, table
from assets.verification import CHECKS, check_result, report_metadata
from photon.clock import MICROSECONDS, Clock, SystemClock, in_utc
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import MOST_SHARDS
from resources.environment import ServedPipeline

if TYPE_CHECKING:
    from photon.registry.operations.resharding import Advice, Resharded
    from photon.upkeep.pipeline_gc import GcResult


@dataclass(frozen=True)
class UpkeepRun:
    """What one run of upkeep works with."""

    context: AssetExecutionContext
    served: ServedPipeline
    pipeline: Pipeline  # as its file says now
    config: Any  # of the class that its kind names
    clock: Clock
    began_us: int

    def seconds(self) -> float:
        return (self.clock.now_us() - self.began_us) / MICROSECONDS


@dataclass(frozen=True)
class UpkeepKind:
    """One kind of upkeep. `work` imports what it needs when it runs, so that the location loads fast."""

    name: str  # of the job
    asset: str
    work: Callable[[UpkeepRun], MaterializeResult[None]]
    description: str
    job_description: str
    config: type[Config] | None = None
    after: Sequence[str] = ()  # the assets upstream
    group: str = "upkeep"  # in Dagster's graph; empty: that of the data itself
    technologies: Sequence[str] = ("dynamodb",)
    resources: Sequence[str] = ()
    checks: Mapping[str, str] = field(default_factory=dict)  # promises by name
    cron: Callable[[Pipeline], str | None] = lambda pipeline: None  # None: only when somebody asks
    # Dagster does not notice a killed process. After this time it fails the run, and the next one can begin.
    # A verification of 160,000 lines of each of two datacenters takes less than a minute.
    max_runtime_seconds: int = 6 * 3_600


def upkeep_asset(kind: UpkeepKind, served: ServedPipeline) -> AssetsDefinition:
    """The asset of one kind of upkeep of a pipeline."""
    key, clock = served.asset_key(kind.asset), SystemClock()

    @asset(
        key=key,
        group_name=served.group_name(kind.group),
        deps=[served.asset_key(name) for name in kind.after],
        kinds=set(kind.technologies),
        required_resource_keys=set(kind.resources),
        config_schema=kind.config.to_config_schema() if kind.config else None,  # type: ignore[arg-type]  # it takes one
        check_specs=[
            AssetCheckSpec(name, asset=key, description=promise) for name, promise in kind.checks.items()
        ],
        description=kind.description,
    )
    def upkeep(context: AssetExecutionContext) -> MaterializeResult:  # type: ignore[type-arg]  # Dagster refuses MaterializeResult[None] with checks
        began_us = clock.now_us()
        config = kind.config(**context.op_execution_context.op_config) if kind.config else None
        with pipeline_of_run(served) as pipeline:
            return kind.work(UpkeepRun(context, served, pipeline, config, clock, began_us))

    return upkeep


def _verify(run: UpkeepRun) -> MaterializeResult[None]:
    from jobs.log_copies import compare
    from jobs.verification import verify
    from photon.availability.report import judge_all
    from photon.verification.example_places import with_places
    from photon.verification.stored_reports import append

    context = run.context
    spark = context.resources.spark.for_checks(run.pipeline)
    report = verify(run.pipeline, run.served.datacenters, context.log.info, spark, keep=True, pages=True)
    copies = compare(
        run.pipeline, list(report.datacenters), run.clock.now_us(), True, context.log.info, spark
    )
    report = with_places(run.pipeline, copies.added_to(report, run.pipeline.verification.examples))
    seconds = run.seconds()
    append(run.pipeline, report, run.clock.now_us(), context.run.run_id, seconds)
    availability = judge_all(run.pipeline, report.datacenters, run.clock.now_us(), context.run.run_id)
    return MaterializeResult(
        metadata={**report_metadata(report, seconds), **availability_metadata(availability)},
        check_results=[
            *(check_result(check, report) for check in CHECKS),
            copies_check(report, copies.problems),
            availability_check(availability),
        ],
    )


def _recover(run: UpkeepRun) -> MaterializeResult[None]:
    from photon.verification.recovery import recover
    from photon.verification.stored_reports import newest

    stored = newest(run.pipeline, run.served.datacenters)
    done = recover(run.pipeline, {name: one.report for name, one in stored.items()})
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
    return MaterializeResult(
        metadata={
            "ordered": sum(one.ordered for one in done.values()),
            "left_to_others": sum(one.left_to.total() for one in done.values()),
            "left_for_next_round": sum(one.left_out for one in done.values()),
            "seconds": round(run.seconds(), 1),
            **({"datacenters": table(rows)} if rows else {}),
        }
    )


class ClearingConfig(Config):
    """What to clear."""

    all_rows: bool = Field(
        default=False,
        description="Look at all rows, not only at new ones: for endpoints that were down during a clearing.",
    )


def _clear(run: UpkeepRun) -> MaterializeResult[None]:
    from photon.registry.open import open_registry
    from photon.registry.operations.init import find_registry
    from photon.upkeep.clear import OFF, Clearing, clear_output

    if not run.pipeline.registry.clearing.enabled:
        return MaterializeResult(metadata={"says": OFF})
    registry, say = open_registry(find_registry(run.pipeline)), run.context.log.info
    done = {
        name: clear_output(run.pipeline, name, registry, run.config.all_rows, say)
        for name in run.served.datacenters
    }
    datacenters = table([{"datacenter": name, **asdict(one)} for name, one in done.items()])
    totals = asdict(sum(done.values(), Clearing()))
    return MaterializeResult(
        metadata={**totals, "seconds": round(run.seconds(), 1), "datacenters": datacenters}
    )


def _compact(run: UpkeepRun) -> MaterializeResult[None]:
    from photon.upkeep.compact import Compacted, compact_tables, yield_to_joins

    yield_to_joins()
    done = {
        name: compact_tables(run.pipeline, name, run.clock, run.context.log.info)
        for name in run.served.datacenters
    }
    rows = [
        {"datacenter": name, "table": str(table_name), **asdict(one)}
        for name, tables in done.items()
        for table_name, one in tables.items()
    ]
    totals = asdict(sum((one for tables in done.values() for one in tables.values()), Compacted()))
    return MaterializeResult(
        metadata={**totals, "seconds": round(run.seconds(), 1), **({"tables": table(rows)} if rows else {})}
    )


def _gc(run: UpkeepRun) -> MaterializeResult[None]:
    from photon.upkeep.pipeline_gc import run_gc

    done = run_gc(run.pipeline, run.clock)
    for name, one in done.endpoints.items():
        if one.problem:
            run.context.log.warning(f"{name}: {one.problem}; the next run takes what is left there")
    return MaterializeResult(metadata=gc_metadata(done, run.seconds()))


def gc_metadata(done: "GcResult", seconds: float) -> Metadata:
    """The boundary, and sizes by endpoint; -1 is an unknown size, since a column has one type."""
    endpoints, as_dict = done.endpoints.values(), done.as_dict()
    rows = [
        {"endpoint": name, **{column: -1 if value is None else value for column, value in one.items()}}
        for name, one in as_dict["endpoints"].items()
    ]
    return {
        "boundary": as_dict["boundary"] or "none",
        "boundary_before": as_dict["boundary_before"] or "none",
        "because": done.because,
        "items_deleted": sum(one.deleted.items for one in endpoints),
        "bytes_deleted": sum(one.deleted.bytes or 0 for one in endpoints),
        "endpoints_left": sum(bool(one.problem) for one in endpoints),
        "seconds": round(seconds, 1),
        **({"endpoints": table(rows)} if rows else {}),
    }


class ReshardingConfig(Config):
    """What to do."""

    shards: int | None = Field(
        default=None,
        ge=1,
        le=MOST_SHARDS,
        description="Number of shards from the horizon on. Without it the pipeline file's policy is asked.",
    )


def _reshard(run: UpkeepRun) -> MaterializeResult[None]:
    from photon.registry.operations.resharding import follow_policy, reshard

    if run.config.shards is not None:
        return MaterializeResult(metadata=_resharded(reshard(run.pipeline, run.config.shards)))
    return MaterializeResult(metadata=advice_metadata(follow_policy(run.pipeline)))


def advice_metadata(advice: "Advice | None") -> Metadata:
    """What the policy says, and what it put in force."""
    if advice is None:
        return {"says": "the policy is off, or ids carry no time: shards are fixed"}
    return {
        "says": _says(advice),
        "shards": advice.shards,
        "ids": advice.load.ids,
        "commits_per_second": round(advice.load.commits_per_second, 3),
        "ids_per_shard": round(advice.load.ids / advice.shards),
        **_bytes_of(advice),
        **({} if advice.proposed is None else {"proposed": advice.proposed}),
        **({} if advice.applied is None else _resharded(advice.applied)),
    }


def _bytes_of(advice: "Advice") -> Metadata:
    if advice.load.bytes is None:
        return {}
    return {"bytes": advice.load.bytes, "bytes_per_shard": round(advice.load.bytes / advice.shards)}


def _says(advice: "Advice") -> str:
    if advice.awaits_us is not None:
        return f"{advice.shards} shards count from {in_utc(advice.awaits_us)} on: too early to judge them"
    if advice.proposed is None:
        return f"{advice.shards} shards are as many as it takes"
    if advice.applied is not None:
        return f"{advice.proposed} shards were put in force"
    return f"{advice.proposed} shards would do better: photon reshard, or a run with shards in its config"


def _resharded(done: "Resharded") -> Metadata:
    return {
        "shards_before": done.before,
        "shards_put_in_force": done.shards,
        "begins": "in force" if done.begins_us is None else in_utc(done.begins_us),
    }


def _report_state(run: UpkeepRun) -> MaterializeResult[None]:
    from photon.registry.operations.report import registry_state

    state = registry_state(run.pipeline)
    checks = [endpoints_check(state), shards_check(state)]
    return MaterializeResult(metadata=state_metadata(state), check_results=checks)


class RepairConfig(Config):
    """What to repair."""

    endpoint: str = Field(description="URL of the endpoint, as in the pipeline file.")
    anew: bool = Field(default=False, description="From the beginning, whatever an earlier run has done.")


def _repair(run: UpkeepRun) -> MaterializeResult[None]:
    from photon.registry.operations.repair import repair_endpoint

    done = repair_endpoint(run.pipeline, run.config.endpoint, run.config.anew)
    return MaterializeResult(
        metadata={
            "endpoint": done.endpoint,
            "table": done.table,
            "ids_copied": done.copied,
            "ids_mended": done.mended,
            "went_on": done.went_on,
            "members_version": done.members_version,
            "seconds": round(run.seconds(), 1),
        }
    )


def _clearing_cron(pipeline: Pipeline) -> str | None:
    clearing = pipeline.registry.clearing
    return clearing.cron if clearing.enabled else None


def _resharding_cron(pipeline: Pipeline) -> str | None:
    resharding = pipeline.registry.resharding
    return resharding.cron if pipeline.ids_carry_time and resharding.policy != "off" else None


OTHER_CHECKS = {COPIES_CHECK: COPIES_AGREE, AVAILABILITY_CHECK: PROMISE}  # of a verification

# By default they run in the order of protocol E4: verify, recover, clear, gc.
UPKEEP: Sequence[UpkeepKind] = (
    UpkeepKind(
        "verification",
        "verification_report",
        _verify,
        "Every foreign record classified anew from the raw logs and the tables of all datacenters, never "
        "from what the joins have counted. Stored in each datacenter's table verification_reports.",
        "Classifies every foreign record anew; checks that none is missing or joined twice.",
        after=["joined_events"],
        group="",
        technologies=["pyspark", "deltalake"],
        resources=["spark"],
        checks={**{check.name: check.promise for check in CHECKS}, **OTHER_CHECKS},
        cron=lambda pipeline: pipeline.verification.cron,
    ),
    UpkeepKind(
        "recover",
        "recovery",
        _recover,
        "What the newest verification reports name as missing, or as given up wrongly, is ordered to be"
        " looked at again. The dispatchers join it; nothing is joined here.",
        "Has what verification found missing looked at again.",
        after=["verification_report"],
        cron=lambda pipeline: pipeline.recovery.cron,
    ),
    UpkeepKind(
        "clearing",
        "token_clearing",
        _clear,
        "Ids whose row is in the output keep their owner in the registry and give up the token with which"
        " they were registered, if registry.clearing.enabled says so.",
        "Takes the tokens of ids that are in the output out of the registry.",
        config=ClearingConfig,
        after=["joined_events"],
        technologies=["dynamodb", "deltalake"],
        cron=_clearing_cron,
    ),
    UpkeepKind(
        "compaction",
        "compacted_tables",
        _compact,
        "Small files of each datacenter's tables rewritten as large ones, a checkpoint of each table, and old"
        " entries of its log and old data files removed. No row changes; joins go on.",
        "Keeps the tables fit: files, log and what nobody needs any more.",
        after=["joined_events"],
        technologies=["deltalake"],
        cron=lambda pipeline: pipeline.compaction.cron,
    ),
    UpkeepKind(
        "collection",
        "garbage_collection",
        _gc,
        "Ids of events older than registry.keep_days leave the registry, never past what the last"
        " verification of every datacenter has seen. What is older than that is too old to be joined.",
        "Forgets ids that are older than the pipeline keeps them.",
        after=["verification_report"],
        cron=lambda pipeline: pipeline.registry.collection.cron if pipeline.registry.keep_days else None,
    ),
    UpkeepKind(
        "resharding",
        "shards",
        _reshard,
        "The number of the registry's shards, by hand (config: shards) or by the policy of the pipeline"
        " file. A new number counts for events from the horizon on; nobody waits and nothing is moved.",
        "Looks at the load of the registry's shards; proposes or puts in force another number of them.",
        config=ReshardingConfig,
        cron=_resharding_cron,
    ),
    UpkeepKind(
        "registry_report",  # its asset's name is taken
        "registry_state",
        _report_state,
        "The registry of joined ids: ids, bytes and tokens by shard, the boundary of gc; how endpoints"
        " answer and how far they are behind; epochs of datacenters.",
        "Reports on the registry's shards and endpoints.",
        after=["joined_events", "token_clearing"],
        checks={
            ENDPOINTS_CHECK: "Every endpoint answers, takes writes and is in use.",
            SHARDS_CHECK: "No shard takes nearly as many ids a second as one key range of the store bears.",
        },
        cron=lambda pipeline: pipeline.registry.state.cron,
    ),
    UpkeepKind(
        "repair",
        "endpoint_repair",
        _repair,
        "An endpoint of the registry that lost its data, was restored or is new, filled from a majority"
        " of the others while joins go on. Its run needs the endpoint's URL, and goes on where one that died"
        " stopped.",
        "Fills an endpoint of the registry from the others; its run is told which one.",
        config=RepairConfig,
        max_runtime_seconds=2 * 86_400,
    ),
)
