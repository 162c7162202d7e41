"""The paper's Figures 10 and 11 again, each as a picture with its numbers beside it.

    make figures                 # into figures/, on dynoxide where it is installed, else on DynamoDB Local

What is measured, and how it is drawn, is in `bench.figure_batching` and `bench.figure_resharding`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import figure_batching, figure_resharding
from bench.figure_batching import Load
from bench.figure_resharding import Story
from bench.ledger_rates import new_registry
from bench.store_servers import StoreServer, fastest_kind, registry_pipeline, store_servers
from photon.pipeline.sections import Registry
from photon.process.clock import SystemClock
from photon.registry.address import LedgersAddress
from photon.registry.opening import init_registry
from photon.registry.stores.opening import open_positions

SECONDS = 5.0
LOADS = (50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200)
STORY = Story()


def main(folder: Path) -> None:
    """Make both figures in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = fastest_kind()
    print(f"on {kind}", flush=True)
    with tempfile.TemporaryDirectory() as data, store_servers(kind, Path(data), 1) as (server,):
        batching(_new_registry("batching", server), kind, folder)
        resharding(_new_registry("resharding", server), kind, folder)


def _new_registry(name: str, server: StoreServer) -> LedgersAddress:
    pipeline = registry_pipeline(name, [server.url], Registry(), ("east", "west"))
    return init_registry(pipeline, SystemClock())


def batching(address: LedgersAddress, kind: str, folder: Path) -> None:
    """Figure 10."""
    points = []
    for number, load in enumerate(LOADS, start=1):
        points.append(figure_batching.measure(address, Load(load, SECONDS), number))
        print(f"figure 10: {points[-1].as_dict()}", flush=True)
    numbers = {"store": kind, "seconds": SECONDS, "loads": [point.as_dict() for point in points]}
    _store(folder / "fig10", figure_batching.draw(points, kind), numbers)


def resharding(address: LedgersAddress, kind: str, folder: Path) -> None:
    """Figure 11."""
    points = []
    positions = open_positions(address, SystemClock())
    try:
        for sizes in figure_resharding.sizes_over_time(new_registry(positions), STORY):
            points.append(sizes)
            if sizes.day == int(sizes.day):
                print(f"figure 11: {sizes.as_dict()}", flush=True)
    finally:
        positions.close()
    numbers = {"store": kind, "keep_days": STORY.keep_days, "reshard_on_day": STORY.reshard_on_day}
    looks = [point.as_dict() for point in points]
    _store(folder / "fig11", figure_resharding.draw(points, STORY, kind), {**numbers, "looks": looks})


def _store(path: Path, figure: Any, numbers: Mapping[str, Any]) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=120)
    path.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(f"{path}.png and {path}.json", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"))
