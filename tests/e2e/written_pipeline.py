"""A pipeline of traffic whose parts lie where a test says, with a local registry that has nothing yet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestration.demo.traffic import Traffic
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries, init_registry
from tests.support.local_servers import local_server


def written(folder: Path, traffic: Traffic, places: Mapping[str, str], more: str = "") -> Path:
    """The pipeline file in `folder`. `places`: of each datacenter, as the file has them. `more`: its end."""
    made = traffic.write_pipeline(folder, more=more, places=places)
    pipeline = load_pipeline(made)
    traffic.write_all(folder, {name: place.logs for name, place in pipeline.datacenters.items()})
    with local_server(folder / "state" / "registry"):
        init_registry(pipeline, SystemClock())
        close_registries()
    return made
