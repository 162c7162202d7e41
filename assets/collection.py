"""Collection of old ids as an asset, with what each endpoint had before and has afterwards.

What is collected is `photon.upkeep.gc`; when, is for `orchestration`.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from typing import TYPE_CHECKING

from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    MaterializeResult,
    MetadataValue,
    TableRecord,
    asset,
)

from assets.engine import pipeline_of_run
from assets.verification import verification_key
from photon.clock import MICROSECONDS, Clock, SystemClock
from resources.environment import Served
from resources.pipelines import PipelineFiles

if TYPE_CHECKING:
    from photon.upkeep.gc import Collected


def collection_key(served: Served) -> AssetKey:
    """The asset that a pipeline's collections materialize."""
    return AssetKey([served.name, "garbage_collection"])


def collection_asset(served: Served, clock: Clock | None = None) -> AssetsDefinition:
    """The asset `garbage_collection` of a pipeline: over all endpoints of its registry."""
    clock = clock or SystemClock()

    @asset(
        key=collection_key(served),
        group_name=served.name,
        deps=[verification_key(served)],
        kinds={"dynamodb"},
        description=(
            "Ids of events older than registry.keep_days leave the registry, never past what the last"
            " verification of every datacenter has seen. What is older than that is too old to be joined."
        ),
    )
    def garbage_collection(
        context: AssetExecutionContext, pipelines: PipelineFiles
    ) -> MaterializeResult[None]:
        # Late: what a code location need not load to be served.
        from photon.upkeep.gc import collect

        began_us = clock.now_us()
        with pipeline_of_run(served, pipelines) as pipeline:
            collected = collect(pipeline, clock)
        for name, one in collected.endpoints.items():
            if one.problem:
                context.log.warning(f"{name}: {one.problem}; the next collection takes what is left there")
        seconds = (clock.now_us() - began_us) / MICROSECONDS
        return MaterializeResult(metadata=collection_metadata(collected, seconds))

    return garbage_collection


def collection_metadata(collected: "Collected", seconds: float) -> dict[str, MetadataValue]:
    """Metadata of a collection that took `seconds`: the boundary, and sizes by endpoint."""
    swept = collected.endpoints.values()
    told = collected.as_dict()
    records = [TableRecord({"endpoint": name, **_columns(one)}) for name, one in told["endpoints"].items()]
    return {
        "boundary": MetadataValue.text(told["boundary"] or "none"),
        "boundary_before": MetadataValue.text(told["boundary_before"] or "none"),
        "because": MetadataValue.text(collected.because),
        "items_deleted": MetadataValue.int(sum(one.deleted.items for one in swept)),
        "bytes_deleted": MetadataValue.int(sum(one.deleted.bytes for one in swept)),
        "endpoints_left": MetadataValue.int(sum(bool(one.problem) for one in swept)),
        "seconds": MetadataValue.float(round(seconds, 1)),
        **({"endpoints": MetadataValue.table(records)} if records else {}),
    }


def _columns(told: dict[str, int | str | None]) -> dict[str, int | str]:
    # A table of Dagster takes its columns' types from the first row: a size that nobody told is -1.
    return {name: -1 if value is None else value for name, value in told.items()}
