"""The number of a registry's shards as an asset: their load, and another one where a run or policy asks."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from typing import TYPE_CHECKING

from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    Config,
    MaterializeResult,
    MetadataValue,
    asset,
)
from pydantic import Field

from assets.engine import pipeline_of_run
from photon.clock import Clock, SystemClock, in_utc
from photon.pipeline.file import MOST_SHARDS
from resources.environment import Served
from resources.pipelines import PipelineFiles

if TYPE_CHECKING:
    from photon.registry.operations.resharding import Advice, Resharded


class ReshardingConfig(Config):
    """What to do."""

    shards: int | None = Field(
        default=None,
        ge=1,
        le=MOST_SHARDS,
        description="So many shards from the horizon on. Without it the pipeline file's policy is asked.",
    )


def resharding_key(served: Served) -> AssetKey:
    """The asset that a pipeline's resharding materializes."""
    return AssetKey([served.name, "shards"])


def resharding_asset(served: Served, clock: Clock | None = None) -> AssetsDefinition:
    """The asset `shards` of a pipeline's registry."""
    clock = clock or SystemClock()

    @asset(
        key=resharding_key(served),
        group_name=served.name,
        kinds={"dynamodb"},
        description=(
            "The number of the registry's shards, by hand (config: shards) or by the policy of the pipeline"
            " file. A new number counts for events from the horizon on; nobody waits and nothing is moved."
        ),
    )
    def shards(
        context: AssetExecutionContext, config: ReshardingConfig, pipelines: PipelineFiles
    ) -> MaterializeResult[None]:
        # Late: what a code location need not load to be served.
        from photon.registry.operations.resharding import follow_policy, reshard

        with pipeline_of_run(served, pipelines) as pipeline:
            if config.shards is not None:
                return MaterializeResult(metadata=_resharded(reshard(pipeline, config.shards)))
            advice = follow_policy(pipeline, clock)
        return MaterializeResult(metadata=advice_metadata(advice))

    return shards


def advice_metadata(advice: "Advice | None") -> dict[str, MetadataValue]:
    """Metadata of what the policy said, and of what was put in force."""
    if advice is None:
        return {"says": MetadataValue.text("the policy is off, or ids carry no time: shards are fixed")}
    return {
        "says": MetadataValue.text(_says(advice)),
        "shards": MetadataValue.int(advice.shards),
        "ids": MetadataValue.int(advice.load.ids),
        "bytes": MetadataValue.int(advice.load.bytes),
        "commits_per_second": MetadataValue.float(round(advice.load.commits_per_second, 3)),
        "ids_per_shard": MetadataValue.int(round(advice.load.ids / advice.shards)),
        "bytes_per_shard": MetadataValue.int(round(advice.load.bytes / advice.shards)),
        **({} if advice.proposed is None else {"proposed": MetadataValue.int(advice.proposed)}),
        **({} if advice.applied is None else _resharded(advice.applied)),
    }


def _says(advice: "Advice") -> str:
    if advice.awaits_us is not None:
        return f"{advice.shards} shards count from {in_utc(advice.awaits_us)} on: too early to judge them"
    if advice.proposed is None:
        return f"{advice.shards} shards are as many as it takes"
    if advice.applied is not None:
        return f"{advice.proposed} shards were put in force"
    return f"{advice.proposed} shards would do better: photon reshard, or a run with shards in its config"


def _resharded(done: "Resharded") -> dict[str, MetadataValue]:
    return {
        "shards_before": MetadataValue.int(done.before),
        "shards_put_in_force": MetadataValue.int(done.shards),
        "begins": MetadataValue.text("in force" if done.begins_us is None else in_utc(done.begins_us)),
    }
