"""Acknowledge the messages of landed topics that are lost: their partitions go on behind them."""

from __future__ import annotations

from pathlib import Path

from photon.landing.marker import acknowledge, read_marker
from photon.pipeline.file import Pipeline


def acknowledge_topics(pipeline: Pipeline, datacenter: str, dry_run: bool) -> tuple[str, ...]:
    """Name the open losses of a datacenter's topics, and unless `dry_run` have their landers go on.

    A lander that runs does so within seconds, another one at its next start. MarkerDamaged, FormatTooNew,
    OSError.
    """
    named = list[str]()
    place = pipeline.datacenters[datacenter]
    for one in place.land:
        assert isinstance(place.logs, Path), "topics are landed on a local disk"
        marker = read_marker(place.logs / one.into)
        if marker is None or not marker.open_losses:
            continue
        named += [f"topic {marker.topic}: {loss.sentence()}" for loss in marker.open_losses]
        if not dry_run:
            acknowledge(place.logs / one.into, marker.open_losses)
    return tuple(named)
