"""Figures of the Photon papers, measured here: a page with their numbers, and pictures beside it.

A module for each says what is measured: `figure_outage` (Figures 9, 12 and 13, and what a second datacenter
costs), `figure_batching` and `figure_resharding` (10 and 11), `live_measurement` (7), and `live_peers` for
Spark and Flink beside it. The page is `figures_page.md` with the numbers of its JSON in their places.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench import figure_batching, figure_outage, figure_resharding, live_peers
from bench.figure_batching import Load
from bench.join_contenders import JoinFailed
from bench.join_measurement import Progress, machine, versions
from bench.ledger_rates import new_ledgers, new_registry, positions_over
from bench.live_measurement import MeasurementFailed, measure_live
from bench.live_plot import draw_live, draw_peers
from bench.outage_run import Story, run_outage
from bench.plots import save
from infra.servers.stores import fastest_kind, store_servers
from photon.pipeline.sections import Registry

TEMPLATE = Path(__file__).with_name("figures_page.md")
LOADS = (50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200)
SEED = 1
DATACENTERS = ("east", "west")
Drawn = tuple[Figure, Mapping[str, Any]]


@dataclass(frozen=True)
class Lengths:
    """How long each part is measured, in seconds where nothing else is said."""

    live: float = 90.0
    load: float = 5.0
    outage: Story = field(default_factory=Story)
    peers: live_peers.Story = field(default_factory=live_peers.Story)


QUICK = Lengths(
    live=20.0,
    load=1.0,
    outage=Story(warm_up=10, normal=20, outage=30, recovered=20),
    peers=live_peers.Story(warm_up=15, calm=15, after_kill=40),
)


def delay(folder: Path, lengths: Lengths, say: Progress) -> Drawn:
    """Figure 7."""
    seen = measure_live(folder, lengths.live, seed=SEED, progress=say)
    numbers = {
        "primary_per_second": seen.primary_per_second,
        "foreign_per_second": seen.foreign_per_second,
        "generator_most_behind_seconds": seen.generator.most_behind_seconds,
        **seen.latency.as_dict(),
    }
    return draw_live(seen.rows, seen.window), numbers


def peers(folder: Path, lengths: Lengths, say: Progress) -> Drawn:
    """Live delay beside Spark and Flink, and a kill of each."""
    story = lengths.peers
    seen = [live_peers.measure(name, folder / name, story, SEED, say) for name in live_peers.PEERS]
    numbers = {
        "story": asdict(story),
        "settings": live_peers.SETTINGS,
        **{peer.name: peer.numbers() for peer in seen},
    }
    return draw_peers(seen), numbers


def batching(folder: Path, lengths: Lengths, say: Progress) -> Drawn:
    """Figure 10."""
    points = []
    with store_servers(fastest_kind(), folder, 1) as servers:
        address = new_ledgers(servers, Registry(), DATACENTERS)
        for number, load in enumerate(LOADS, start=1):
            points.append(figure_batching.measure(address, Load(load, lengths.load), number))
            say(f"{points[-1].as_dict()}")
    loads = [point.as_dict() for point in points]
    growth = round(loads[-1]["ids_per_second"] / loads[0]["ids_per_second"])
    numbers = {"seconds": lengths.load, "growth": growth, "loads": loads}
    return figure_batching.draw(points, fastest_kind()), numbers


def resharding(folder: Path, lengths: Lengths, say: Progress) -> Drawn:
    """Figure 11."""
    story = figure_resharding.Story()
    with (
        store_servers(fastest_kind(), folder, 1) as servers,
        positions_over(new_ledgers(servers, Registry(), DATACENTERS)) as positions,
    ):
        points = list(figure_resharding.sizes_over_time(new_registry(positions), story))
    return figure_resharding.draw(points, story, fastest_kind()), figure_resharding.numbers_of(points, story)


def outage(folder: Path, lengths: Lengths, say: Progress) -> Drawn:
    """Figures 9, 12 and 13: a datacenter that dies and comes back; and what it costs to have two."""
    seen = run_outage(folder, SEED, say, story=lengths.outage)
    return figure_outage.draw(seen), figure_outage.numbers_of(seen)


FIGURES: dict[str, Callable[[Path, Lengths, Progress], Drawn]] = {
    "delay": delay,
    "peers": peers,
    "outage": outage,
    "batching": batching,
    "resharding": resharding,
}


def measure_figures(
    folder: Path, page: Path, names: Sequence[str], lengths: Lengths, say: Progress
) -> dict[str, str]:
    """Measure the figures of these names, and write the page, its JSON and its pictures.

    A figure that is not measured, or fails, keeps the numbers and the picture of an earlier run. Without
    names the page alone is written. The result says which failed, and why.
    """
    failed = {}
    for name in names:
        began, load_average = time.time(), round(os.getloadavg()[0], 2)
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=folder) as work:
            try:
                figure, numbers = FIGURES[name](Path(work) / name, lengths, say)
            except (MeasurementFailed, JoinFailed) as error:
                failed[name] = str(error)
                say(f"{name}: {error}")
                continue
        run = {
            "measured_at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)),
            "took_seconds": round(time.time() - began),
            "load_average_before": load_average,
        }
        save(figure, page.with_name(f"{page.stem}-{name}.svg"))
        _add(page.with_suffix(".json"), {name: {**run, **numbers}})
        say(f"{name}: done in {run['took_seconds']} s")
    found = json.loads(page.with_suffix(".json").read_text())
    if FIGURES.keys() <= found.keys():
        page.write_text(page_of(found))
    return failed


def page_of(found: Mapping[str, Any]) -> str:
    """The page of these numbers."""
    worst = figure_outage.worst_in_vain(found["outage"]["joins"])
    derived = {"worst_in_vain": worst, "bin_seconds": figure_outage.BIN_SECONDS}
    return TEMPLATE.read_text().format_map({**found, **derived})


def _add(file: Path, new: Mapping[str, Any]) -> None:
    """Write the JSON with what is new in it."""
    found = json.loads(file.read_text()) if file.exists() else {}
    found |= {"machine": machine(), "versions": versions(), "seed": SEED, **new}
    file.write_text(json.dumps(found, indent=1) + "\n")
