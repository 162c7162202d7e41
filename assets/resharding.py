"""Resharding: how many ledgers the registry has, by the policy of the pipeline file or by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from assets.evaluations import Evaluation
from assets.runs import Metadata
from assets.work import DryRunConfig, WorkRun
from photon.pipeline.file import Pipeline
from photon.registry.register import MOST_LEDGERS

if TYPE_CHECKING:
    from photon.upkeep.reshard import Resharded


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
    return resharding_metadata(done, pipeline)


def resharding_metadata(done: Resharded, pipeline: Pipeline) -> Metadata:
    """How many ledgers there were, are wanted and are, and what the choice went by."""
    metadata: Metadata = {
        "says": _says(done, pipeline),
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


def _says(done: Resharded, pipeline: Pipeline) -> str:
    """The findings and the work of one evaluation, in a sentence."""
    if done.applied:
        return f"{done.ledgers} new ledgers in the place of {done.ledgers_before}: {done.because}"
    if not done.is_due:
        return f"nothing was due: {done.because}"
    by_hand = f"photon registry reshard {pipeline.typed} {done.ledgers_wanted}"
    return (
        f"{done.ledgers_wanted} new ledgers would do better: {done.because}. What to do: {by_hand}, a run"
        f" with ledgers: {done.ledgers_wanted} in its config, or registry.resharding.policy: apply"
    )


def _cron(pipeline: Pipeline) -> str | None:
    policy = pipeline.registry.resharding
    return None if policy.policy == "off" else policy.cron


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
    of=["joined_events"],
    config=ReshardingConfig,
    cron=_cron,
)
