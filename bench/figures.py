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
from bench.store_servers import fastest_kind, registry_pipeline, store_servers
from photon.clock import SystemClock
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Registry
from photon.pipeline.values import parse_duration
from photon.registry.open import close_registries, open_registry
from photon.registry.operations.init import init_registry
from photon.testing.manual_clock import ManualClock

SEED = 1
SHARDS = 4
PROCESSES = 2
TASKS = 32
SECONDS = 8.0
LOADS = (50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800)
STORY = Story()
FIRST_DAY_US = 1_767_571_200_000_000  # 2026-01-05


def main(folder: Path) -> None:
    """Make both figures in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = fastest_kind()
    print(f"on {kind}, seed {SEED}", flush=True)
    with tempfile.TemporaryDirectory() as data, store_servers(kind, Path(data), 1) as (server,):
        try:
            batching(_pipeline("batching", server.url), kind, folder)
            resharding(_pipeline("resharding", server.url), kind, folder)
        finally:
            close_registries()


def _pipeline(name: str, url: str) -> Pipeline:
    """A registry whose ids carry their time: others have a fixed number of shards."""
    settings = Registry(shards=SHARDS, horizon_step=parse_duration("12h"))
    pipeline = registry_pipeline(name, [url], settings)
    return pipeline.model_copy(update={"foreign": pipeline.foreign.model_copy(update={"time_in_id": True})})


def batching(pipeline: Pipeline, kind: str, folder: Path) -> None:
    """Figure 10."""
    address = init_registry(pipeline, SystemClock())
    points = []
    for seed, load in enumerate(LOADS, start=SEED):
        points.append(figure_batching.measure(address, Load(load, TASKS, SECONDS), PROCESSES, seed))
        print(f"figure 10: {points[-1].of_a_shard()}", flush=True)
    numbers = {"store": kind, "shards": SHARDS, "tasks": TASKS, "processes": PROCESSES, "seconds": SECONDS}
    of_a_shard = [point.of_a_shard() for point in points]
    _store(folder / "fig10", figure_batching.draw(points, kind), {**numbers, "of_a_shard": of_a_shard})


def resharding(pipeline: Pipeline, kind: str, folder: Path) -> None:
    """Figure 11."""
    clock = ManualClock(FIRST_DAY_US)
    address = init_registry(pipeline, clock)
    close_registries()  # opened by the machine's clock; ours is another one
    points = []
    for sizes in figure_resharding.sizes_over_time(open_registry(address, clock), clock, STORY):
        points.append(sizes)
        if sizes.day == int(sizes.day):
            print(f"figure 11: {sizes.as_dict()}", flush=True)
    numbers = {"store": kind, "keep_days": STORY.keep_days, "reshard_on_day": STORY.reshard_on_day}
    looks = [point.as_dict() for point in points]
    _store(folder / "fig11", figure_resharding.draw(points, STORY, kind), {**numbers, "looks": looks})


def _store(path: Path, figure: Any, numbers: Mapping[str, Any]) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=120)
    path.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(f"{path}.png and {path}.json", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"))
