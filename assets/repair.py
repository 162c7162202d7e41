"""The repair of an endpoint of a pipeline's registry as an asset, whose run is told which one.

How it is done is `photon.registry.operations.repair`; when to, docs/operations.md.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
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
from photon.clock import MICROSECONDS, Clock, SystemClock
from resources.environment import Served
from resources.pipelines import PipelineFiles


class RepairConfig(Config):
    """What to repair."""

    endpoint: str = Field(description="URL of the endpoint, as in the pipeline file.")


def repair_key(served: Served) -> AssetKey:
    """The asset that a repair of a pipeline's registry materializes."""
    return AssetKey([served.name, "endpoint_repair"])


def repair_asset(served: Served, clock: Clock | None = None) -> AssetsDefinition:
    """The asset `endpoint_repair` of a pipeline."""
    clock = clock or SystemClock()

    @asset(
        key=repair_key(served),
        group_name=served.name,
        kinds={"dynamodb"},
        description=(
            "An endpoint of the registry that lost its data, was restored or is new, filled from a majority"
            " of the others while joins go on. Its run needs the endpoint's URL, and may be repeated."
        ),
    )
    def endpoint_repair(
        context: AssetExecutionContext, config: RepairConfig, pipelines: PipelineFiles
    ) -> MaterializeResult[None]:
        # Late: what a code location need not load to be served.
        from photon.registry.operations.repair import repair_endpoint

        began_us = clock.now_us()
        with pipeline_of_run(served, pipelines) as pipeline:
            done = repair_endpoint(pipeline, config.endpoint, clock)
        return MaterializeResult(
            metadata={
                "endpoint": MetadataValue.text(done.endpoint),
                "table": MetadataValue.text(done.table),
                "ids_copied": MetadataValue.int(done.copied),
                "ids_mended": MetadataValue.int(done.mended),
                "members_version": MetadataValue.int(done.members_version),
                "seconds": MetadataValue.float(round((clock.now_us() - began_us) / MICROSECONDS, 1)),
            }
        )

    return endpoint_repair
