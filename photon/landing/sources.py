"""All that a datacenter's `land` names, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence

from photon.landing.service import ToLand
from photon.landing.topics import topics_of
from photon.pipeline.file import Pipeline


def sources_of(pipeline: Pipeline, names: Sequence[str]) -> list[ToLand]:
    """The sources that these datacenters land. ExtraMissing."""
    from photon.landing.objects.to_land import objects_of  # late: a status needs no boto3

    return [*topics_of(pipeline, names), *objects_of(pipeline, names)]
