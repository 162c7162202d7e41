"""Unmatched primaries: the asset that writes them, for pipelines that ask for it."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from photon.assets.evaluations import EVALUATIONS, Evaluation
from photon.assets.runs import Metadata
from photon.assets.work import DryRunConfig, WorkRun
from photon.process.clock import in_utc
from photon.resources.environment import ServedPipeline

UNMATCHED_CRON = "37 * * * *"  # every hour: after recovery, before gc


class UnmatchedConfig(DryRunConfig):
    """How much to look at."""

    anew: bool = Field(default=False, description="Look at all primaries again.")


def _find(run: WorkRun) -> Metadata:
    from photon.registry.opening import open_reader
    from photon.unmatched.found import HeldBack
    from photon.unmatched.run import find_unmatched

    try:
        registry = open_reader(run.pipeline)
        found = find_unmatched(run.pipeline, registry, run.clock, run.config.anew, run.is_dry)
    except HeldBack as error:
        run.context.log.warning(f"{error}; the next run tries again")
        return {"says": str(error), "held_back": str(error)}
    metadata: dict[str, Any] = {
        "says": "; ".join(found.sentences(run.is_dry)),
        "owner": found.owner,
        "decided_up_to": "none" if found.up_to_us is None else in_utc(found.up_to_us, "seconds"),
        **found.counts,
    }
    if found.held_back:
        metadata["held_back"] = found.held_back
    if found.up_to_us is not None:
        metadata["behind_hours"] = round((run.clock.now_us() - found.up_to_us) / 3.6e9, 2)
    return metadata


UNMATCHED = Evaluation(
    name="find_unmatched",
    asset="unmatched",
    work=_find,
    job_description="Writes primaries that no foreign event was joined with.",
    description=(
        "The table `unmatched`, in the lake of the one datacenter that owns it: primaries that no row names,"
        " each once, `unmatched.after` behind its time. Materializing it writes those that are due."
    ),
    goes_by=["joined_events"],
    config=UnmatchedConfig,
    can_work=lambda pipeline: pipeline.unmatched is not None,
    cron=lambda pipeline: UNMATCHED_CRON,
    technology="deltalake",
    group="side_tables",
)


def evaluations_of(served: ServedPipeline) -> Sequence[Evaluation]:
    """The evaluations that can work for a pipeline: an asset of any other would never say anything."""
    return [kind for kind in (*EVALUATIONS, UNMATCHED) if kind.can_work(served.pipeline)]
