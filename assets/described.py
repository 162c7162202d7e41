"""What every asset of a pipeline says of itself: owners, links, tags, and where its code is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from dagster import (
    AssetsDefinition,
    AssetSpec,
    BetaWarning,
    MetadataValue,
    map_asset_specs,
    with_source_code_references,
)

from photon.pipeline.location import Location
from resources.environment import ServedPipeline

PIPELINE_TAG = "photon/pipeline"


def described(
    served: ServedPipeline, assets: Sequence[AssetsDefinition | AssetSpec]
) -> list[AssetsDefinition | AssetSpec]:
    """The assets with owners and links of the pipeline file, and a reference to the code of each."""
    links = {name: MetadataValue.url(url) for name, url in served.pipeline.links.items()}
    told = map_asset_specs(
        lambda spec: spec.merge_attributes(
            owners=list(served.pipeline.owners), tags={PIPELINE_TAG: served.pipeline.name}, metadata=links
        ),
        assets,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)  # of the references: `dagster` is pinned
        return list(with_source_code_references(list(told)))  # type: ignore[arg-type]


def uri_of(place: Location) -> str:
    """A folder as a URL."""
    return place.as_uri() if isinstance(place, Path) else str(place)


def places(folders: Mapping[str, Location], what: str) -> dict[str, str]:
    """Each datacenter's folder; where there is only one, Dagster's own field has it too."""
    named = {f"{datacenter}_{what}": str(folder) for datacenter, folder in folders.items()}
    return {**named, "dagster/uri": uri_of(*folders.values())} if len(folders) == 1 else named
