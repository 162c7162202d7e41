"""Verbs on a whole datacenter: its retirement, and that a person knows what it has lost."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import Field

from assets.runs import Metadata
from assets.upkeep.kinds import Upkeep
from assets.work import DryRunConfig, WorkRun
from photon.errors import WrongUsage

MOST_NAMED = 100  # of the losses that are named: an observation stays small


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
        run.telling(),
    )
    numbers = {name: value for name, value in asdict(done).items() if isinstance(value, int)}
    return {"datacenter": config.datacenter, "retired": not run.is_dry, **numbers}


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
