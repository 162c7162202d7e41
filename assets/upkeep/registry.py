"""Verbs of the registry: clear tokens, collect old ids, reshard, repair an endpoint."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from dagster import Config
from pydantic import Field

from assets.runs import Metadata, table
from assets.upkeep.kinds import Upkeep
from assets.work import REPAIR_POOL, DryRunConfig, WorkRun
from photon.clock import in_utc
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import MOST_SHARDS

if TYPE_CHECKING:
    from photon.registry.operations.resharding import Advice, Resharded
    from photon.upkeep.pipeline_gc import GcResult


# -- clearing


class ClearingConfig(DryRunConfig):
    """What to clear."""

    all_rows: bool = Field(
        default=False,
        description="Look at all rows, not only at new ones: for endpoints that were down during a clearing.",
    )


def _clear(run: WorkRun) -> Metadata:
    from photon.registry.open import open_registry
    from photon.registry.operations.init import find_registry
    from photon.upkeep.clear import OFF, Clearing, clear_output

    if not run.pipeline.registry.clearing.enabled:
        return {"says": OFF}
    registry, say = open_registry(find_registry(run.pipeline)), run.telling()
    done = {
        name: clear_output(run.pipeline, name, registry, run.config.all_rows, run.is_dry, say)
        for name in run.served.datacenters
    }
    datacenters = table([{"datacenter": name, **asdict(one)} for name, one in done.items()])
    totals = asdict(sum(done.values(), Clearing()))
    return {**totals, "seconds": run.seconds(), "datacenters": datacenters}


def _clearing_cron(pipeline: Pipeline) -> str | None:
    clearing = pipeline.registry.clearing
    return clearing.cron if clearing.enabled else None


CLEARING = Upkeep(
    name="clearing",
    changes="registry_state",
    work=_clear,
    job_description="Takes the tokens of ids that are in the output out of the registry.",
    description=(
        "Ids whose row is in the output keep their owner in the registry and give up the token with which"
        " they were registered, if registry.clearing.enabled says so."
    ),
    config=ClearingConfig,
    cron=_clearing_cron,
)


# -- collection


def _gc(run: WorkRun) -> Metadata:
    from photon.upkeep.gc_dry_run import would_gc
    from photon.upkeep.pipeline_gc import run_gc

    done = (would_gc if run.is_dry else run_gc)(run.pipeline, run.clock, run.telling())
    for name, one in done.endpoints.items():
        if one.problem:
            run.context.log.warning(f"{name}: {one.problem}; the next run takes what is left there")
    return gc_metadata(done, run.seconds())


def gc_metadata(done: GcResult, seconds: float) -> Metadata:
    """The boundary, and sizes by endpoint; -1 is an unknown size, since a column has one type."""
    endpoints, as_dict = done.endpoints.values(), done.as_dict()
    rows = [
        {"endpoint": name, **{column: -1 if value is None else value for column, value in one.items()}}
        for name, one in as_dict["endpoints"].items()
    ]
    return {
        "boundary": as_dict["boundary"] or "none",
        "because": done.because,
        "items_deleted": sum(one.deleted.items for one in endpoints),
        "bytes_deleted": sum(one.deleted.bytes or 0 for one in endpoints),
        "endpoints_left": sum(bool(one.problem) for one in endpoints),
        "seconds": seconds,
        **({"endpoints": table(rows)} if rows else {}),
    }


COLLECTION = Upkeep(
    name="collection",
    changes="registry_state",
    work=_gc,
    job_description="Forgets ids that are older than the pipeline keeps them.",
    description=(
        "Ids of events older than registry.keep_days leave the registry, never past what the last"
        " verification of every datacenter has seen. What is older than that is too old to be joined."
    ),
    config=DryRunConfig,
    cron=lambda pipeline: pipeline.registry.collection.cron if pipeline.registry.keep_days else None,
)


# -- resharding


class ReshardingConfig(Config):
    """What to do."""

    shards: int | None = Field(
        default=None,
        ge=1,
        le=MOST_SHARDS,
        description="Number of shards from the horizon on. Without it the pipeline file's policy is asked.",
    )


def _reshard(run: WorkRun) -> Metadata:
    from photon.registry.operations.resharding import follow_policy, reshard

    if run.config.shards is not None:
        return _resharded(reshard(run.pipeline, run.config.shards))
    return advice_metadata(follow_policy(run.pipeline), run.pipeline)


def advice_metadata(advice: Advice | None, pipeline: Pipeline) -> Metadata:
    """What the policy says, and what it put in force."""
    if advice is None:
        return {"says": "the policy is off, or ids carry no time: shards are fixed"}
    return {
        "says": _says(advice, pipeline),
        "shards": advice.shards,
        "ids": advice.load.ids,
        "commits_per_second": round(advice.load.commits_per_second, 3),
        "ids_per_shard": round(advice.load.ids / advice.shards),
        **_bytes_of(advice),
        **({} if advice.proposed is None else {"proposed": advice.proposed}),
        **({} if advice.applied is None else _resharded(advice.applied)),
    }


def _bytes_of(advice: Advice) -> Metadata:
    if advice.load.bytes is None:
        return {}
    return {"bytes": advice.load.bytes, "bytes_per_shard": round(advice.load.bytes / advice.shards)}


def _says(advice: Advice, pipeline: Pipeline) -> str:
    if advice.awaits_us is not None:
        return f"{advice.shards} shards count from {in_utc(advice.awaits_us)} on: too early to judge them"
    if advice.proposed is None:
        return f"{advice.shards} shards are as many as it takes"
    if advice.applied is not None:
        return f"{advice.proposed} shards were put in force"
    by_hand = f"photon registry reshard {pipeline.typed} {advice.proposed}"
    return f"{advice.proposed} shards would do better: {by_hand}, or a run with shards in its config"


def _resharded(done: Resharded) -> Metadata:
    return {
        "shards_before": done.before,
        "shards_put_in_force": done.shards,
        "begins": "in force" if done.begins_us is None else in_utc(done.begins_us),
    }


def _resharding_cron(pipeline: Pipeline) -> str | None:
    resharding = pipeline.registry.resharding
    return resharding.cron if pipeline.ids_carry_time and resharding.policy != "off" else None


RESHARDING = Upkeep(
    name="resharding",
    changes="registry_state",
    work=_reshard,
    job_description="Looks at the load of the registry's shards; proposes or puts in force another number.",
    description=(
        "The number of the registry's shards, by hand (config: shards) or by the policy of the pipeline"
        " file. A new number counts for events from the horizon on; nobody waits and nothing is moved."
    ),
    config=ReshardingConfig,
    cron=_resharding_cron,
)


# -- repair


class RepairConfig(DryRunConfig):
    """What to repair."""

    endpoint: str = Field(description="URL of the endpoint, as in the pipeline file.")
    anew: bool = Field(default=False, description="From the beginning, whatever an earlier run has done.")


def _repair(run: WorkRun) -> Metadata:
    from photon.registry.operations.repair import repair_endpoint
    from photon.registry.operations.repair_dry_run import would_repair

    if run.is_dry:
        return {"says": "; ".join(would_repair(run.pipeline, run.config.endpoint).sentences())}
    done = repair_endpoint(run.pipeline, run.config.endpoint, run.config.anew, run.telling())
    return {
        "endpoint": done.endpoint,
        "ids_copied": done.copied,
        "ids_mended": done.mended,
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

REGISTRY_VERBS = (CLEARING, COLLECTION, RESHARDING, REPAIR)
