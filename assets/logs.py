"""The two logs of a pipeline as observable assets, and observations of them.

A sensor records the observations, and people may at any time.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    AssetSpec,
    BetaWarning,
    MetadataValue,
    ObserveResult,
    TableColumn,
    TableSchema,
    multi_observable_source_asset,
)

from photon.assets.attributes import kinds_of, places
from photon.assets.runs import Metadata, pipeline_of_run
from photon.assets.series import of_datacenter
from photon.dispatcher.shift.growth import Growth, growth_of
from photon.pipeline.file import Pipeline, dagster_name
from photon.pipeline.sections import ForeignLog, Log
from photon.process.clock import MICROSECONDS, SystemClock
from photon.resources.environment import ServedPipeline

LOGS = ("primary_log", "foreign_log")
KINDS: Mapping[str, str] = {"csv": "csv", "tsv": "tsv", "jsonl": "json"}  # as Dagster calls formats


def log_specs(served: ServedPipeline) -> list[AssetSpec]:
    """Both logs of a pipeline. They have no partitions: of those Dagster asks how many are filled."""
    primary, foreign = served.pipeline.primary, served.pipeline.foreign
    told = (
        (primary, "The log that is waited for: queries, impressions, requests."),
        (foreign, "The log whose every event names its primary: clicks, conversions, responses."),
    )
    folders = {name: served.pipeline.datacenters[name].logs for name in served.datacenters}
    return [
        AssetSpec(
            served.asset_key(name),
            deps=[served.asset_key("landing")] if served.landing else [],
            group_name=served.group_name(),
            description=(
                f"{what} Each datacenter has a full copy. Other programs write it, as {log.format}; files: "
                f"{log.files}. Columns that the pipeline file does not name are text."
            ),
            kinds=kinds_of(folders.values(), KINDS.get(log.format, "text"), here="file"),
            metadata={**places(folders, "folder"), "dagster/column_schema": log_schema(log)},
        )
        for name, (log, what) in zip(LOGS, told, strict=True)
    ]


def log_schema(log: Log) -> MetadataValue:
    """The columns of a log that the pipeline file names, and what for."""
    uses: dict[str, list[str]] = {}
    for name in log.id:
        uses.setdefault(name, []).append("identifies the event" if len(log.id) == 1 else "part of its id")
    if isinstance(log, ForeignLog):
        for name in log.key:
            uses.setdefault(name, []).append("names the primary event")
    for name in log.time:
        uses.setdefault(name, []).append(f"when the event was, in {log.time_unit}")
    for name in log.columns:
        uses.setdefault(name, [])
    return MetadataValue.table_schema(
        TableSchema(
            [
                TableColumn(name, log.columns.get(name, "string"), "; ".join(what) or "declared")
                for name, what in uses.items()
            ]
        )
    )


def log_assets(served: ServedPipeline) -> AssetsDefinition:
    """Both logs, with what *Observe* does: look at all datacenters' folders now."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)  # the decorator is beta, and `dagster` is pinned

        @multi_observable_source_asset(
            specs=log_specs(served),
            name=dagster_name(served.pipeline.name, "logs"),
            description="Looks how far the logs have grown, and how much of them is unread.",
        )
        def logs(context: AssetExecutionContext) -> Iterator[ObserveResult]:
            with pipeline_of_run(served, asks_registry=False) as pipeline:
                found = logs_metadata(growths_of(pipeline, served, SystemClock().now_us()))
            for log, metadata in found.items():
                yield ObserveResult(asset_key=served.asset_key(log), metadata=metadata)

    assert isinstance(logs, AssetsDefinition)
    return logs


def growths_of(pipeline: Pipeline, served: ServedPipeline, now_us: int) -> Mapping[str, Growth]:
    """A look at the logs of each datacenter of this location."""
    return {name: growth_of(pipeline, name, now_us) for name in served.datacenters}


def logs_metadata(growths: Mapping[str, Growth]) -> Mapping[str, Metadata]:
    """Both logs in figures, of all datacenters: then Dagster connects the points of each."""
    found: dict[str, Metadata] = {log: {} for log in LOGS}
    for datacenter, growth in growths.items():
        for log, said in log_metadata(datacenter, growth).items():
            found[log] |= said
    return found


def log_metadata(datacenter: str, growth: Growth) -> Mapping[str, Metadata]:
    """A datacenter's copy of each log in figures; the primary log's say up to when it is read."""
    progress: Metadata = {}
    if growth.state.watermark_us is not None and growth.lag_seconds is not None:
        progress["watermark"] = MetadataValue.timestamp(growth.state.watermark_us / MICROSECONDS)
        progress["lag_seconds"] = round(growth.lag_seconds, 1)
    seen = {"primary_log": {**asdict(growth.primary), **progress}, "foreign_log": asdict(growth.foreign)}
    return {log: of_datacenter(datacenter, said) for log, said in seen.items()}
