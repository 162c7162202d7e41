"""Releases as an asset: an hour is there once a release is complete up to its end.

So an asset of one's own that depends on `release` by its hours, or by the 24 of a day, waits for all of them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from dagster import (
    AssetMaterialization,
    AssetSpec,
    AutomationCondition,
    HourlyPartitionsDefinition,
    MetadataValue,
)

from photon.assets.attributes import kinds_of
from photon.assets.runs import Metadata
from photon.process.clock import MICROSECONDS
from photon.releases.release import Release
from photon.resources.environment import ServedPipeline

ASSET = "release"
HOUR = timedelta(hours=1)
KEY_FORMAT = "%Y-%m-%d-%H:%M"  # Dagster's keys of hours


def release_spec(served: ServedPipeline) -> AssetSpec:
    """The asset: joins make releases, and a sensor tells of those that completed an hour."""
    first_hour = f"{served.pipeline.backfill.first_day.isoformat()}-00:00"
    return AssetSpec(
        served.asset_key(ASSET),
        group_name=served.group_name(),
        partitions_def=HourlyPartitionsDefinition(first_hour, timezone="UTC"),
        deps=[served.asset_key("joined_events")],
        kinds=kinds_of((place.lake for place in served.pipeline.datacenters.values()), "deltalake"),
        description=(
            "A numbered snapshot of all datacenters' rows, which never changes. An hour is materialized when"
            " a release is complete up to its end: no event of it that was logged by then waits."
        ),
    )


def release_of_hour(served: ServedPipeline, release: Release, hour: datetime) -> AssetMaterialization:
    """A release that is complete up to the end of an hour."""
    return AssetMaterialization(
        served.asset_key(ASSET), partition=hour.strftime(KEY_FORMAT), metadata=release_metadata(release)
    )


def release_metadata(release: Release) -> Metadata:
    """The completeness of a release, its rows, and what it shows first."""
    metadata: Metadata = {
        "release": release.number,
        "made_at": MetadataValue.timestamp(release.made_us / MICROSECONDS),
        "made_by": release.by,
        "rows": release.rows,
    }
    if release.complete_up_to_us is not None:
        metadata["complete_up_to"] = MetadataValue.timestamp(release.complete_up_to_us / MICROSECONDS)
    if release.unmatched_up_to_us is not None:
        metadata["unmatched_up_to"] = MetadataValue.timestamp(release.unmatched_up_to_us / MICROSECONDS)
    if release.notes:
        metadata["notes"] = MetadataValue.md("\n".join(f"- {note}" for note in release.notes))
    return metadata


def when_complete() -> AutomationCondition[Any]:
    """When a release is complete up to the end of each hour of a partition, and all else is there.

    Again when a part was made again. Not before the checks upstream hold. Also of partitions before the last
    one: a pipeline may catch up with several.
    """
    eager = AutomationCondition.eager().without(AutomationCondition.in_latest_time_window())
    return eager & AutomationCondition.all_deps_blocking_checks_passed()
