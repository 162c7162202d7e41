"""Attributes of assets: owners, links, tags, references to code, and how old each asset may become.

All datacenters of an asset share one freshness policy. The checks of `health` name the one that lags.
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
from photon.resources.environment import ServedPipeline

CHECKED: Mapping[str, str] = {
    "health": "whether its datacenters are well",
    "verification_report": "whether its rows are right",
}
PIPELINE_TAG = "photon/pipeline"
ROLE_TAG = "photon/role"  # names an asset's part in the pipeline, so that people can select all of one role
Role = Literal["log", "rows", "days", "release", "rest", "report", "upkeep", "health"]
ROLES: Mapping[str, Role] = {
    "landing": "log",
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


# Dagster hides checks from before the last materialization, and shifts make one a minute (docs/adr/0060).
WITHOUT_CHECKS: frozenset[Role] = frozenset({"log", "rows", "days", "release", "rest"})


def _where_checks_are(served: ServedPipeline) -> str:
    """A sentence with links to the assets that have the checks, for people who open another asset first."""
    at = {name: f"/assets/{'/'.join(served.asset_key(name).path)}?view=checks" for name in CHECKED}
    named = [f"[{what}]({at[name]})" for name, what in CHECKED.items()]
    return f"**Checks**: {', '.join(named)}."


def with_attributes(
    served: ServedPipeline, assets: Sequence[AssetsDefinition | AssetSpec]
) -> list[AssetsDefinition | AssetSpec]:
    """The assets with owners and links of the pipeline file, tags, and a reference to the code of each."""
    links = {name: MetadataValue.url(url) for name, url in served.pipeline.links.items()}

    def with_all(spec: AssetSpec) -> AssetSpec:
        role = ROLES[spec.key.path[-1]]
        if role in WITHOUT_CHECKS:
            spec = spec.replace_attributes(description=f"{spec.description}\n\n{_where_checks_are(served)}")
        return spec.merge_attributes(
            owners=list(served.pipeline.owners),
            tags={PIPELINE_TAG: served.pipeline.name, ROLE_TAG: role},
            metadata=links,
        )

    specs = map_asset_specs(with_all, assets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)  # references are beta, and `dagster` is pinned
        return list(with_source_code_references(list(specs)))  # type: ignore[arg-type]


def kinds_of(folders: Iterable[Location], *kinds: str, here: str | None = None) -> set[str]:
    """These kinds, and s3 if one of the folders is there, else `here` if it is given."""
    is_on_s3 = any(not isinstance(folder, Path) for folder in folders)
    place = "s3" if is_on_s3 else here
    return {*kinds, place} if place is not None else set(kinds)


def uri_of(place: Location) -> str:
    """A folder as a URL."""
    return place.as_uri() if isinstance(place, Path) else str(place)


def places(folders: Mapping[str, Location], what: str) -> dict[str, str]:
    """Metadata with each datacenter's folder; Dagster's own field has it too, if there is only one."""
    named = {f"{datacenter}_{what}": str(folder) for datacenter, folder in folders.items()}
    return {**named, "dagster/uri": uri_of(*folders.values())} if len(folders) == 1 else named


LEAST = timedelta(minutes=1)  # Dagster refuses a shorter one


def freshness(limits: Durations) -> FreshnessPolicy:
    """A policy that fails at one age and warns at a lower one; a warning that is no earlier is left out."""
    error, warn = max(limits.error, LEAST), max(limits.warn, LEAST)
    return FreshnessPolicy.time_window(fail_window=error, warn_window=warn if warn < error else None)
