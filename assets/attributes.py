"""Attributes of assets: owners, links, tags, and where the code of each is; how old each may become.

A freshness policy is one for all datacenters. The checks of `health` name the one that does not keep up.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal

from dagster import (
    AssetsDefinition,
    AssetSpec,
    BetaWarning,
    FreshnessPolicy,
    MetadataValue,
    map_asset_specs,
    with_source_code_references,
)

from photon.pipeline.location import Location
from photon.pipeline.sections import Durations
from resources.environment import ServedPipeline

PIPELINE_TAG = "photon/pipeline"
ROLE_TAG = "photon/role"  # names an asset's part in the pipeline, so that people can select all of one role
Role = Literal["log", "rows", "days", "release", "rest", "report", "upkeep", "health"]
ROLES: Mapping[str, Role] = {
    "primary_log": "log",
    "foreign_log": "log",
    "joined_events": "rows",
    "daily_joins": "days",
    "release": "release",
    "dead_letters": "rest",
    "unjoined": "rest",
    "too_old": "rest",
    "conflicting": "rest",
    "unmatched": "rest",
    "verification_report": "report",
    "registry_state": "report",
    "recovery": "upkeep",
    "compaction": "upkeep",
    "garbage_collection": "upkeep",
    "resharding": "upkeep",
    "health": "health",
}


def with_attributes(
    served: ServedPipeline, assets: Sequence[AssetsDefinition | AssetSpec]
) -> list[AssetsDefinition | AssetSpec]:
    """The assets with owners and links of the pipeline file, tags, and a reference to the code of each."""
    links = {name: MetadataValue.url(url) for name, url in served.pipeline.links.items()}
    specs = map_asset_specs(
        lambda spec: spec.merge_attributes(
            owners=list(served.pipeline.owners),
            tags={PIPELINE_TAG: served.pipeline.name, ROLE_TAG: ROLES[spec.key.path[-1]]},
            metadata=links,
        ),
        assets,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)  # references are beta, and `dagster` is pinned
        return list(with_source_code_references(list(specs)))  # type: ignore[arg-type]


def kinds_of(folders: Iterable[Location], *kinds: str, here: str | None = None) -> set[str]:
    """The kinds of what lies in these folders: also s3 where one is there; else `here`, if it is named."""
    is_on_s3 = any(not isinstance(folder, Path) for folder in folders)
    place = "s3" if is_on_s3 else here
    return {*kinds, place} if place is not None else set(kinds)


def uri_of(place: Location) -> str:
    """A folder as a URL."""
    return place.as_uri() if isinstance(place, Path) else str(place)


def places(folders: Mapping[str, Location], what: str) -> dict[str, str]:
    """Each datacenter's folder; where there is only one, Dagster's own field has it too."""
    named = {f"{datacenter}_{what}": str(folder) for datacenter, folder in folders.items()}
    return {**named, "dagster/uri": uri_of(*folders.values())} if len(folders) == 1 else named


LEAST = timedelta(minutes=1)  # Dagster refuses a shorter one


def freshness(limits: Durations) -> FreshnessPolicy:
    """The policy of an asset that warns and fails at these ages; a warning that is no sooner is left out."""
    error, warn = max(limits.error, LEAST), max(limits.warn, LEAST)
    return FreshnessPolicy.time_window(fail_window=error, warn_window=warn if warn < error else None)
