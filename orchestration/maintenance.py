"""Upkeep of a pipeline's registry: a job for each kind, and a schedule where the pipeline file says when.

One list of kinds; what they do is in `assets`. Their order within an hour, by the defaults of the pipeline
file, is that of protocol E4: verify, recover, clear, collect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dagster import (
    AssetKey,
    AssetsDefinition,
    AssetSelection,
    DefaultScheduleStatus,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    define_asset_job,
    in_process_executor,
    schedule,
)

from assets.clearing import clearing_asset, clearing_key
from assets.collection import collection_asset, collection_key
from assets.registry_state import registry_state_asset, registry_state_key
from assets.repair import repair_asset, repair_key
from assets.resharding import resharding_asset, resharding_key
from orchestration.schedules import AT_MOST_TAG, run_in_progress
from photon.pipeline.file import Pipeline
from resources.environment import Served, dagster_name


@dataclass(frozen=True)
class Upkeep:
    """One kind of upkeep: its asset, and the job that makes it.

    `cron`: when, by the pipeline file; where that is None, only when somebody asks.
    """

    name: str
    key: Callable[[Served], AssetKey]
    asset: Callable[[Served], AssetsDefinition]
    description: str
    cron: Callable[[Pipeline], str | None] = lambda pipeline: None
    # If its process is killed, nobody tells Dagster. After so long a run is given up, and the next can begin.
    at_most_seconds: int = 6 * 3_600

    def job_name(self, served: Served) -> str:
        """The job whose runs do it."""
        return dagster_name(served.pipeline.name, self.name)


def _collection_cron(pipeline: Pipeline) -> str | None:
    return None if pipeline.registry.keep_days is None else pipeline.registry.collection.cron


def _resharding_cron(pipeline: Pipeline) -> str | None:
    resharding = pipeline.registry.resharding
    return resharding.cron if pipeline.ids_carry_time and resharding.policy != "off" else None


UPKEEP: Sequence[Upkeep] = (
    Upkeep(
        "clearing",
        clearing_key,
        clearing_asset,
        "Takes the tokens of ids that are in the output out of the registry.",
        lambda pipeline: pipeline.registry.clearing.cron,
    ),
    Upkeep(
        "collection",
        collection_key,
        collection_asset,
        "Forgets ids that are older than the pipeline keeps them.",
        _collection_cron,
    ),
    Upkeep(
        "resharding",
        resharding_key,
        resharding_asset,
        "Looks at the load of the registry's shards; proposes or puts in force another number of them.",
        _resharding_cron,
    ),
    Upkeep(
        "registry_report",  # an asset's own name is taken
        registry_state_key,
        registry_state_asset,
        "Looks at the registry's shards and endpoints, and tells how they stand.",
        lambda pipeline: pipeline.registry.state.cron,
    ),
    Upkeep(
        "repair",
        repair_key,
        repair_asset,
        "Fills an endpoint of the registry from the others; its run is told which one.",
        at_most_seconds=2 * 86_400,
    ),
)


def upkeep_job(kind: Upkeep, served: Served):  # type: ignore[no-untyped-def] # Dagster keeps the type to itself
    """The job of one kind of upkeep."""
    return define_asset_job(
        kind.job_name(served),
        selection=AssetSelection.assets(kind.key(served)),
        executor_def=in_process_executor,
        tags={AT_MOST_TAG: str(kind.at_most_seconds)},
        description=kind.description,
    )


def upkeep_schedules(served: Served) -> list[ScheduleDefinition]:
    """The schedules of all upkeep that has a time in the pipeline file; one run of a kind at a time."""
    times = [(kind, kind.cron(served.pipeline)) for kind in UPKEEP]
    return [_schedule(kind, served, cron) for kind, cron in times if cron is not None]


def _schedule(kind: Upkeep, served: Served, cron: str) -> ScheduleDefinition:
    name = kind.job_name(served)

    @schedule(
        name=f"{name}__schedule",  # no datacenter's sensor ends like that
        job_name=name,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.RUNNING,
        description=f"{kind.description} Not while a run of it is still in progress.",
    )
    def upkeep(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
        return run_in_progress(context.instance, name, kind.key(served)) or RunRequest()

    return upkeep
