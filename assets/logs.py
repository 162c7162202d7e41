"""The two logs of a pipeline as observable assets, and observations of them.

A datacenter's shift records the observations; while none runs, its sensor does, and people may at any time.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from dagster import (
    AssetExecutionContext,
    AssetObservation,
    AssetsDefinition,
    AssetSpec,
    BetaWarning,
    MetadataValue,
    ObserveResult,
    TableColumn,
    TableSchema,
    multi_observable_source_asset,
)

from assets.attributes import kinds_of, places
from assets.runs import Metadata, pipeline_of_run
from photon.dispatcher.shift.growth import Growth, growth_of
from photon.pipeline.sections import ForeignLog, Log
from photon.process.clock import MICROSECONDS, SystemClock
from resources.environment import ServedPipeline, dagster_name

# A pair of observations is 4 KB in Dagster's storage; each shift's materializations say more, and more often.
OBSERVED_EVERY_SECONDS = 300
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
    uses.setdefault(log.time, []).append(f"when the event was, in {log.time_unit}")
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
            found: dict[str, Metadata] = {log: {} for log in LOGS}
            with pipeline_of_run(served) as pipeline:
                for datacenter in served.datacenters:
                    growth = growth_of(pipeline, datacenter, SystemClock().now_us())
                    for log, said in log_metadata(datacenter, growth).items():
                        found[log] |= said
            for log, metadata in found.items():
                yield ObserveResult(asset_key=served.asset_key(log), metadata=metadata)

    assert isinstance(logs, AssetsDefinition)
    return logs


@dataclass(frozen=True)
class ObservedLogs:
    """The findings of an observation of a datacenter's logs, and its time."""

    signature: str
    unread_bytes: int
    at_us: int

    @classmethod
    def of(cls, growth: Growth, now_us: int) -> "ObservedLogs":
        return cls(growth.signature, growth.primary.unread_bytes + growth.foreign.unread_bytes, now_us)

    def is_due(self, last: "ObservedLogs | None") -> bool:
        """Whether to record it: the logs have changed, and the last observation is old enough."""
        if last is None:
            return True
        changed = (self.signature, self.unread_bytes) != (last.signature, last.unread_bytes)
        return changed and self.at_us - last.at_us >= OBSERVED_EVERY_SECONDS * MICROSECONDS


def observations(served: ServedPipeline, datacenter: str, growth: Growth) -> list[AssetObservation]:
    """One observation for each log."""
    return [
        AssetObservation(served.asset_key(log), metadata=said)
        for log, said in log_metadata(datacenter, growth).items()
    ]


def log_metadata(datacenter: str, growth: Growth) -> Mapping[str, Metadata]:
    """A datacenter's copy of each log in figures; the primary log's say up to when it is read."""
    progress: Metadata = {}
    if growth.state.watermark_us is not None and growth.lag_seconds is not None:
        progress["watermark"] = MetadataValue.timestamp(growth.state.watermark_us / MICROSECONDS)
        progress["lag_seconds"] = round(growth.lag_seconds, 1)
    seen = {"primary_log": {**asdict(growth.primary), **progress}, "foreign_log": asdict(growth.foreign)}
    return {log: of_datacenter(datacenter, said) for log, said in seen.items()}


def of_datacenter(datacenter: str, metadata: Metadata) -> Metadata:
    """Named by the datacenter, so that Dagster plots a series for each."""
    return {f"{datacenter}_{name}": value for name, value in metadata.items()}
