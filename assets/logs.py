"""The two logs of a pipeline, which others write: external assets, and what is seen of them.

Observations say how much there is and how much of it is read. Whoever looks at a datacenter records them,
its shift or, while none runs, its sensor; both decide by `is_news`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from dagster import AssetKey, AssetObservation, AssetSpec, MetadataValue, PartitionsDefinition

from photon.clock import MICROSECONDS
from photon.shift.growth import Growth, LogSize
from resources.environment import Served

LogName = Literal["primary_log", "foreign_log"]

# A pair of observations is 4 KB in Dagster's storage; each shift's materializations say more, and more often.
OBSERVED_EVERY_SECONDS = 300
DESCRIPTIONS: Mapping[LogName, str] = {
    "primary_log": "The log that is waited for; each datacenter has a full copy.",
    "foreign_log": "The log whose every event names its primary; each datacenter has a full copy.",
}


def log_key(served: Served, log: LogName) -> AssetKey:
    """The asset of a pipeline's log."""
    return AssetKey([served.name, log])


def log_assets(served: Served, partitions: PartitionsDefinition[str]) -> list[AssetSpec]:
    """External assets of both logs of a pipeline."""
    files = {"primary_log": served.pipeline.primary.files, "foreign_log": served.pipeline.foreign.files}
    return [
        AssetSpec(
            log_key(served, log),
            group_name=served.name,
            partitions_def=partitions,
            description=f"{description} Files: {files[log]}",
            kinds={"file"},
        )
        for log, description in DESCRIPTIONS.items()
    ]


@dataclass(frozen=True)
class Seen:
    """What the last observations of a datacenter's logs were made of."""

    signature: str
    unread_bytes: int
    at_us: int

    @classmethod
    def of(cls, growth: Growth, now_us: int) -> Seen:
        """What is seen now."""
        return cls(growth.signature, growth.primary.unread_bytes + growth.foreign.unread_bytes, now_us)

    def as_dict(self) -> dict[str, str | int]:
        """For a cursor."""
        return asdict(self)


def is_news(seen: Seen, last: Seen | None) -> bool:
    """Whether to observe: something has changed, and the last observation is long enough ago."""
    if last is None:
        return True
    changed = (seen.signature, seen.unread_bytes) != (last.signature, last.unread_bytes)
    return changed and seen.at_us - last.at_us >= OBSERVED_EVERY_SECONDS * MICROSECONDS


def observations(served: Served, datacenter: str, growth: Growth) -> list[AssetObservation]:
    """One observation for each log; the primary's has the event time up to which it is read."""
    of_primary: dict[str, MetadataValue] = {}
    if growth.watermark_us is not None and growth.lag_seconds is not None:
        of_primary["watermark"] = MetadataValue.timestamp(growth.watermark_us / MICROSECONDS)
        of_primary["lag_seconds"] = MetadataValue.float(round(growth.lag_seconds, 1))
    return [
        AssetObservation(
            log_key(served, "primary_log"),
            partition=datacenter,
            metadata={**_sizes(growth.primary), **of_primary},
        ),
        AssetObservation(
            log_key(served, "foreign_log"), partition=datacenter, metadata=_sizes(growth.foreign)
        ),
    ]


def _sizes(log: LogSize) -> dict[str, MetadataValue]:
    return {
        "files": MetadataValue.int(log.files),
        "bytes": MetadataValue.int(log.bytes),
        "unread_bytes": MetadataValue.int(log.unread_bytes),
    }
