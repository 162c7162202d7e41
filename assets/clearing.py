"""Token clearing as an asset: ids that are in the output give up their token, with sizes before and after.

What is cleared is `photon.upkeep.clear`; when, is for `orchestration`.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Mapping

from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    Config,
    MaterializeResult,
    MetadataValue,
    TableRecord,
    asset,
)
from pydantic import Field

from assets.engine import pipeline_of_run
from assets.joined_events import joined_events_key
from photon.clock import MICROSECONDS, Clock, SystemClock
from photon.upkeep.clear import Clearing
from resources.environment import Served
from resources.pipelines import PipelineFiles


class ClearingConfig(Config):
    """What to clear."""

    all_rows: bool = Field(
        default=False,
        description="Look at all rows, not only at new ones: for endpoints that were down during a clearing.",
    )


def clearing_key(served: Served) -> AssetKey:
    """The asset that a pipeline's clearings materialize."""
    return AssetKey([served.name, "token_clearing"])


def clearing_asset(served: Served, clock: Clock | None = None) -> AssetsDefinition:
    """The asset `token_clearing` of a pipeline: of the output of the datacenters that are served here."""
    clock = clock or SystemClock()

    @asset(
        key=clearing_key(served),
        group_name=served.name,
        deps=[joined_events_key(served)],
        kinds={"dynamodb", "deltalake"},
        description=(
            "Ids whose row is in the output keep their owner in the registry and give up the token with which"
            " they were registered, which takes most of their room."
        ),
    )
    def token_clearing(
        context: AssetExecutionContext, config: ClearingConfig, pipelines: PipelineFiles
    ) -> MaterializeResult[None]:
        # Late: what a code location need not load to be served.
        from photon.registry.open import open_registry
        from photon.registry.operations.init import find_registry
        from photon.upkeep.clear import clear_output

        began_us = clock.now_us()
        done: dict[str, Clearing] = {}
        with pipeline_of_run(served, pipelines) as pipeline:
            registry = open_registry(find_registry(pipeline))
            for name in served.datacenters:
                done[name] = clear_output(pipeline, name, registry, config.all_rows, context.log.info)
        seconds = (clock.now_us() - began_us) / MICROSECONDS
        return MaterializeResult(metadata=clearing_metadata(done, seconds))

    return token_clearing


def clearing_metadata(done: Mapping[str, Clearing], seconds: float) -> dict[str, MetadataValue]:
    """Metadata of a clearing that took `seconds`; bytes are those of values, at each endpoint."""
    total = sum(done.values(), Clearing())
    records = [
        TableRecord(
            {
                "datacenter": name,
                "rows": one.rows,
                "ids": one.ids,
                "bytes_before": one.bytes_before,
                "bytes_after": one.bytes_after,
            }
        )
        for name, one in done.items()
    ]
    return {
        "ids": MetadataValue.int(total.ids),
        "rows": MetadataValue.int(total.rows),
        "bytes_before": MetadataValue.int(total.bytes_before),
        "bytes_after": MetadataValue.int(total.bytes_after),
        "rows_without_time": MetadataValue.int(total.rows_without_time),
        "seconds": MetadataValue.float(round(seconds, 1)),
        **({"datacenters": MetadataValue.table(records)} if records else {}),
    }
