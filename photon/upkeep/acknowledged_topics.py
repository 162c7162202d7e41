"""Acknowledge what is lost of landed topics and objects: landing goes on without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from photon.landing.marker import ASIDE, acknowledge, read_marker
from photon.landing.objects.known import failed_in
from photon.landing.objects.marker import MOST_NAMED, Failed, ObjectsMarker
from photon.landing.objects.marker import read_marker as read_objects_marker
from photon.pipeline.file import Pipeline
from photon.storage.store_errors import StoreUnavailable


def acknowledge_topics(pipeline: Pipeline, datacenter: str, dry_run: bool) -> tuple[str, ...]:
    """Name the open losses of a datacenter's topics and objects, and unless `dry_run` have landers go on.

    A lander that runs does so within seconds, another one at its next start. MarkerDamaged, FormatTooNew,
    OSError.
    """
    named = list[str]()
    place = pipeline.datacenters[datacenter]
    for one in place.land:
        assert isinstance(place.logs, Path), "topics are landed on a local disk"
        folder = place.logs / one.into
        if one.objects is not None:
            said = read_objects_marker(folder)
            failed = failures_of(folder, said) if said is not None and said.failed_count else []
            named += [f"objects {one.objects}: {each.sentence()}" for each in failed[:MOST_NAMED]]
            if len(failed) > MOST_NAMED:
                named.append(f"objects {one.objects}: {len(failed) - MOST_NAMED:,} more")
            if failed and not dry_run:
                acknowledge(folder, [each.id for each in failed])
            continue
        marker = read_marker(folder)
        if marker is None or not marker.open_losses:
            continue
        named += [f"topic {marker.topic}: {loss.sentence()}" for loss in marker.open_losses]
        if not dry_run:
            acknowledge(folder, [loss.name for loss in marker.open_losses])
    return tuple(named)


def failures_of(folder: Path, said: ObjectsMarker) -> Sequence[Failed]:
    """All failures of a landed folder; those that the marker names where nobody has the list of all."""
    try:
        return failed_in(folder / ASIDE)
    except StoreUnavailable:
        return said.failed
