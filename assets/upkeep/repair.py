"""Repair of an endpoint of the registry."""

from __future__ import annotations

from pydantic import Field

from assets.runs import Metadata
from assets.upkeep.kinds import Upkeep
from assets.work import REPAIR_POOL, DryRunConfig, WorkRun


class RepairConfig(DryRunConfig):
    """The endpoint to repair."""

    endpoint: str = Field(description="URL of the endpoint, as in the pipeline file.")
    anew: bool = Field(default=False, description="From the beginning, whatever an earlier run has done.")


def _repair(run: WorkRun) -> Metadata:
    from photon.upkeep.repair import plan_repair

    plan = plan_repair(run.pipeline, run.config.endpoint, run.config.anew)
    if run.is_dry:
        return {"says": "; ".join(plan.sentences())}
    done = plan.apply(run.telling())
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
