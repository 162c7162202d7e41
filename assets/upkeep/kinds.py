"""One kind of upkeep, and the factory that makes a job of it."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dagster import (
    AssetObservation,
    JobDefinition,
    OpExecutionContext,
    graph,
    op,
)
from dagster._core.storage.tags import COMPUTE_KIND_TAG, MAX_RUNTIME_SECONDS_TAG

from assets.runs import Metadata, canceled_with_a_sentence, pipeline_of_run
from assets.work import IN_ONE_PROCESS, Work, WorkRun
from photon.process.clock import SystemClock
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
