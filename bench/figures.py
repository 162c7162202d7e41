"""Figures of the Photon papers, measured here: pictures with their numbers beside them.

    make figures                                    # all, into figures/: some ten minutes on two cores
    python -m bench.figures figures fig10           # one of them

Stores are dynoxide where it is installed, else DynamoDB Local. A module for each says what is measured:
`figure_batching` and `figure_resharding` (Figures 10 and 11), `figure_outage` and `figure_capacity`, which
start real datacenters.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
from matplotlib.figure import Figure

from bench import figure_batching, figure_capacity, figure_outage, figure_resharding
from bench.figure_batching import Load
from bench.ledger_rates import new_ledgers, new_registry, positions_over
from bench.outage_run import run_outage
from bench.plots import save
from infra.servers.stores import fastest_kind, store_servers
from photon.pipeline.sections import Registry

SECONDS = 5.0
LOADS = (50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200)
SEED = 1
DATACENTERS = ("east", "west")
Drawn = tuple[Figure, Mapping[str, Any]]


def batching(folder: Path) -> Drawn:
    """Figure 10."""
    points = []
    with store_servers(fastest_kind(), folder, 1) as servers:
        address = new_ledgers(servers, Registry(), DATACENTERS)
        for number, load in enumerate(LOADS, start=1):
            points.append(figure_batching.measure(address, Load(load, SECONDS), number))
            _say(f"figure 10: {points[-1].as_dict()}")
    numbers = {"seconds": SECONDS, "loads": [point.as_dict() for point in points]}
    return figure_batching.draw(points, fastest_kind()), numbers


def resharding(folder: Path) -> Drawn:
    """Figure 11."""
    story = figure_resharding.Story()
    with (
        store_servers(fastest_kind(), folder, 1) as servers,
        positions_over(new_ledgers(servers, Registry(), DATACENTERS)) as positions,
    ):
        points = list(figure_resharding.sizes_over_time(new_registry(positions), story))
    numbers = {"keep_days": story.keep_days, "reshard_on_day": story.reshard_on_day}
    figure = figure_resharding.draw(points, story, fastest_kind())
    return figure, {**numbers, "looks": [point.as_dict() for point in points]}


def outage(folder: Path) -> Drawn:
    """A datacenter that dies and comes back."""
    seen = run_outage(folder, SEED, _say)
    numbers = figure_outage.numbers_of(seen)
    _say(figure_outage.summary_of(numbers))
    return figure_outage.draw(seen), numbers


def capacity(folder: Path) -> Drawn:
    """The cost of datacenters that join the same logs."""
    numbers = figure_capacity.numbers_of(figure_capacity.measure(folder, SEED))
    return figure_capacity.draw(numbers), numbers


FIGURES: dict[str, Callable[[Path], Drawn]] = {
    "fig10": batching,
    "fig11": resharding,
    "outage": outage,
    "capacity": capacity,
}


def main(folder: Path, names: list[str]) -> None:
    """Make the figures of these names in `folder`."""
    machine = _machine()
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="photon-figures-") as work:
            figure, numbers = FIGURES[name](Path(work) / name)
        save(figure, folder / f"{name}.svg")
        text = json.dumps({"machine": machine, "seed": SEED, **numbers}, indent=1)
        (folder / f"{name}.json").write_text(text + "\n")
        _say(f"{folder / name}.svg and {name}.json")


def _say(text: str) -> None:
    print(text, flush=True)


def _machine() -> dict[str, Any]:
    """Tell what it is measured on, before the measurement is a load itself."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "store": fastest_kind(),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"), sys.argv[2:] or list(FIGURES))
