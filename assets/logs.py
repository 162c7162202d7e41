"""The two logs of a pipeline as external assets, and observations of them.

A datacenter's shift records the observations; while none runs, its sensor does.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dagster import AssetObservation, AssetSpec, MetadataValue, PartitionsDefinition

from assets.runs import Metadata
from photon.clock import MICROSECONDS
from photon.shift.growth import Growth
from resources.environment import ServedPipeline

# A pair of observations is 4 KB in Dagster's storage; each shift's materializations say more, and more often.
OBSERVED_EVERY_SECONDS = 300


def log_assets(served: ServedPipeline, partitions: PartitionsDefinition[str]) -> list[AssetSpec]:
    """External assets of both logs of a pipeline."""
    primary, foreign = served.pipeline.primary.files, served.pipeline.foreign.files
    descriptions = {
        "primary_log": f"The log that is waited for; each datacenter has a full copy. Files: {primary}",
        "foreign_log": (
            f"The log whose every event names its primary; each datacenter has a full copy. Files: {foreign}"
        ),
    }
    return [
        AssetSpec(
            served.asset_key(log),
            group_name=served.name,
            partitions_def=partitions,
            description=description,
            kinds={"file"},
        )
        for log, description in descriptions.items()
    ]


@dataclass(frozen=True)
class ObservedLogs:
    """What an observation of a datacenter's logs found, and when."""

    signature: str
    unread_bytes: int
    at_us: int

    @classmethod
    def of(cls, growth: Growth, now_us: int) -> ObservedLogs:
        return cls(growth.signature, growth.primary.unread_bytes + growth.foreign.unread_bytes, now_us)

    def is_due(self, last: ObservedLogs | None) -> bool:
        """Whether to record it: the logs have changed, and the last observation is old enough."""
        if last is None:
            return True
        changed = (self.signature, self.unread_bytes) != (last.signature, last.unread_bytes)
        return changed and self.at_us - last.at_us >= OBSERVED_EVERY_SECONDS * MICROSECONDS


def observations(served: ServedPipeline, datacenter: str, growth: Growth) -> list[AssetObservation]:
    """One observation for each log; the primary log's says up to which event time it is read."""
    progress: Metadata = {}
    if growth.state.watermark_us is not None and growth.lag_seconds is not None:
        progress["watermark"] = MetadataValue.timestamp(growth.state.watermark_us / MICROSECONDS)
        progress["lag_seconds"] = round(growth.lag_seconds, 1)
    metadata = {
        "primary_log": {**asdict(growth.primary), **progress},
        "foreign_log": asdict(growth.foreign),
    }
    return [
        AssetObservation(served.asset_key(log), partition=datacenter, metadata=said)
        for log, said in metadata.items()
    ]
