"""Upkeep: verbs that people start, each a job of one op that takes what a person may set.

A run's observation says what it did, and is of the asset that it changed. Verbs that find out by themselves
what is due are assets: `evaluations`.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Sequence
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

from photon.assets.evaluations import orders_metadata
from photon.assets.runs import Metadata, canceled_with_a_sentence, of_a_dry_run, pipeline_of_run
from photon.assets.work import (
    IN_ONE_PROCESS,
    RECOVERY_POOL,
    REGISTRY,
    REPAIR_POOL,
    DryRunConfig,
    Work,
    WorkRun,
    technology_of,
)
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Datacenter
from photon.process.clock import SystemClock
from photon.process.errors import WrongUsage
from photon.resources.environment import ServedPipeline


@dataclass(frozen=True, kw_only=True)
class Upkeep(Work):
    """A verb. `work` imports what it needs when it runs, so that the location loads fast."""

    changes: str  # the asset that a run's observation is of
    work: Callable[[WorkRun], Metadata]
    description: str
    technology: str = REGISTRY


def upkeep_job(kind: Upkeep, served: ServedPipeline) -> JobDefinition:
    """The job of one kind of upkeep of a pipeline."""
    name, clock = served.job_name(kind.name), SystemClock()

    @op(
        name=name,
        config_schema=kind.config.to_config_schema() if kind.config else None,  # type: ignore[arg-type]  # it takes one
        pool=kind.pool,
        tags={COMPUTE_KIND_TAG: technology_of(kind.technology, served.pipeline)},
        description=kind.description,
    )
    def work(context: OpExecutionContext) -> None:
        began_us = clock.now_us()
        config = kind.config(**context.op_config) if kind.config else None
        with canceled_with_a_sentence(context), pipeline_of_run(served, kind.asks_registry) as pipeline:
            run = WorkRun(context, served, pipeline, config, clock, began_us)
            metadata = kind.work(run)
            metadata = of_a_dry_run(metadata) if run.is_dry else metadata
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
    """The jobs of those kinds of upkeep that can work for a pipeline."""
    return [upkeep_job(kind, served) for kind in kinds if kind.can_work(served.pipeline)]


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
    # From a majority of the other endpoints.
    can_work=lambda pipeline: len(pipeline.registry.endpoints) > 1 and pipeline.registry.endpoints != "local",
    pool=REPAIR_POOL,
    max_runtime_seconds=2 * 86_400,
)


MOST_NAMED = 100  # losses that are named: an observation stays small


class DatacenterConfig(DryRunConfig):
    """Which datacenter."""

    datacenter: str = Field(description="Its name, as in the pipeline file.")

    def place_in(self, pipeline: Pipeline) -> Datacenter:
        """Its folders. WrongUsage."""
        if self.datacenter in pipeline.datacenters:
            return pipeline.datacenters[self.datacenter]
        known = ", ".join(pipeline.datacenters)
        raise WrongUsage(f"{pipeline.file} has no datacenter {self.datacenter!r}; expected one of: {known}")


class RetirementConfig(DatacenterConfig):
    """Which datacenter never runs again, and whether its lake is there."""

    lake_is_gone: bool = Field(
        default=False, description="Its rows are lost too: they count no more, and are joined again."
    )


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
    from photon.jobs.verification import recover_now

    return {**said, **orders_metadata(run, recover_now(run.pipeline, run.progress()))}


RETIREMENT = Upkeep(
    name="retirement",
    changes="registry_state",
    work=_retire,
    job_description="Gives a datacenter up for good; its run is told which one.",
    description=(
        "A datacenter that is lost never runs again. Its rows stay, and events that it registered without a"
        " row are free for the others; with lake_is_gone all of its events are."
    ),
    config=RetirementConfig,
    can_work=lambda pipeline: len(pipeline.datacenters) > 1,  # the last one is never retired
    pool=RECOVERY_POOL,
)


def _acknowledge(run: WorkRun) -> Metadata:
    from photon.state.losses import plan_acknowledgement
    from photon.upkeep.acknowledged_topics import acknowledge_topics
    from photon.upkeep.plans import carry_out

    place = run.config.place_in(run.pipeline)
    of_topics = acknowledge_topics(run.pipeline, run.config.datacenter, run.is_dry)
    found = carry_out(lambda: plan_acknowledgement(place.state, run.clock.now_us()), run.is_dry)
    return {
        "datacenter": run.config.datacenter,
        "lost_bytes": found.losses.bytes,
        "may_be_lost_bytes": found.losses.may_be_lost_bytes,
        "lost_records": found.losses.records,
        **found.counts,
        "lost": "\n".join((*of_topics, *found.names)[:MOST_NAMED]) or "nothing",
    }


ACKNOWLEDGEMENT = Upkeep(
    name="acknowledgement",
    changes="health",
    work=_acknowledge,
    job_description="Says that somebody knows what a datacenter has lost; its run is told which one.",
    description="Its checks nothing_lost, dead_letters and unjoinable are green then, until more is bad.",
    technology="python",
    config=DatacenterConfig,
    pool=None,
    asks_registry=False,
)


def _hold(run: WorkRun, is_held: bool) -> Metadata:
    from photon.upkeep.hold import plan_hold
    from photon.upkeep.plans import carry_out

    run.config.place_in(run.pipeline)
    name = run.config.datacenter
    on_hold = carry_out(lambda: plan_hold(run.pipeline, name, is_held), run.is_dry)
    return {"datacenter": name, "on_hold": ", ".join(on_hold) or "none"}


HOLD = Upkeep(
    name="hold",
    changes="health",
    work=partial(_hold, is_held=True),
    job_description="Keeps a datacenter from running, for planned work; its run is told which one.",
    description=(
        "The others take over its share at once. A shift that runs ends within seconds, before its next"
        " batch. Its sensor starts none until the job resume has run."
    ),
    config=DatacenterConfig,
    pool=None,
)
RESUME = Upkeep(
    name="resume",
    changes="health",
    work=partial(_hold, is_held=False),
    job_description="Lets a datacenter run again after a hold; its run is told which one.",
    description="Its sensor starts a shift at its next tick.",
    config=DatacenterConfig,
    pool=None,
)
UPKEEP: Sequence[Upkeep] = (HOLD, RESUME, REPAIR, RETIREMENT, ACKNOWLEDGEMENT)
