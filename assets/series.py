"""A series for each datacenter in the plots of an asset.

Dagster connects two points of a plot only where every event between them has that number too. Datacenters
report in turns, so each event repeats the latest numbers of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagster import (
    AssetKey,
    AssetRecordsFilter,
    DagsterInstance,
    EventLogRecord,
    FloatMetadataValue,
    IntMetadataValue,
)

from photon.assets.runs import Metadata
from photon.process.clock import MICROSECONDS

FRESH_SECONDS = 180.0  # a datacenter that reports nothing for longer is at rest or dead: its curves end
LASTING = ("_rows", "_records")  # counts of what is stored: they hold also while nobody reports


def of_datacenter(datacenter: str, metadata: Metadata) -> Metadata:
    """The metadata under names that begin with the datacenter's."""
    return {f"{datacenter}_{name}": value for name, value in metadata.items()}


def numbers_of_others(
    instance: DagsterInstance, key: AssetKey, datacenters: Sequence[str], own: str, now_us: int
) -> Metadata:
    """The latest numbers of all other datacenters, from the asset's last event of each partition.

    An asset without partitions has all of them in its last event.
    """
    found: Metadata = {}
    for name in datacenters:
        record = _latest(instance, key, name) or _latest(instance, key, None)
        if name == own or record is None:
            continue
        event = record.asset_event
        is_fresh = now_us / MICROSECONDS - record.timestamp <= FRESH_SECONDS
        for label, value in (event.metadata if event else {}).items():
            if not isinstance(value, IntMetadataValue | FloatMetadataValue) or value.value is None:
                continue
            if _owner(label, datacenters) == name and (is_fresh or label.endswith(LASTING)):
                found[label] = value.value
    return found


def _latest(instance: DagsterInstance, key: AssetKey, partition: str | None) -> EventLogRecord | None:
    """The latest event that says something of the asset, or of one of its partitions."""
    asked = AssetRecordsFilter(key, asset_partitions=[partition] if partition else None)
    records = [
        *instance.fetch_materializations(asked, limit=1).records,
        *instance.fetch_observations(asked, limit=1).records,
    ]
    return max(records, key=lambda one: one.storage_id, default=None)


def _owner(label: str, datacenters: Sequence[str]) -> str:
    """The datacenter that a number is of. One's name may begin with another one's: east, east_2."""
    return max((name for name in datacenters if label.startswith(f"{name}_")), key=len, default="")
