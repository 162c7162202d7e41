"""The cost of availability: processor seconds an event with one, two, three datacenters, one of three lost.

Each datacenter reads all logs, joins its share of the events, and takes over that of one that dies. The same
closed logs are joined each time, by real processes that begin at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.live_measurement import MeasurementFailed
from bench.outage_run import DatacenterProcesses, endpoints_and_processes
from bench.plots import panels
from orchestration.demo.traffic import Traffic

DATACENTERS = ("east", "west", "north")
PRIMARY, FOREIGN = 120_000, 24_000
TRAFFIC_SECONDS = 240.0
POLL_SECONDS = 0.1
LOST_AT = 0.4  # the share of its foreign events that the third datacenter has read when it is killed
MOST_SECONDS = 180.0


@dataclass(frozen=True)
class Run:
    """The cost of some datacenters that joined the same logs."""

    name: str
    datacenters: int
    seconds: float
    cpu_seconds: Mapping[str, float]  # each datacenter's
    won: int
    combined: int  # pairs that the adapter combined, in vain or not


def measure(folder: Path, seed: int) -> list[Run]:
    """Measure one, two and three datacenters, and three that lose the last."""
    runs = [_measure(folder / str(n), seed, f"{n} of {n}", n) for n in (1, 2, 3)]
    return [*runs, _measure(folder / "lost", seed, "2 of 3", 3, is_one_lost=True)]


def _measure(folder: Path, seed: int, name: str, count: int, is_one_lost: bool = False) -> Run:
    traffic = Traffic(
        seed,
        DATACENTERS[:count],
        primary_per_second=PRIMARY / TRAFFIC_SECONDS,
        foreign_per_second=FOREIGN / TRAFFIC_SECONDS,
        duration_seconds=TRAFFIC_SECONDS,
    )
    with endpoints_and_processes(folder, traffic) as (_, processes):
        traffic.write_all(folder)
        began = time.monotonic()
        for datacenter in traffic.datacenters:
            processes.start(datacenter, "until_idle")
        _watch(processes, traffic, is_one_lost)
        seconds = time.monotonic() - began
        batches = processes.batches()
    cpu_seconds = {batch.datacenter: batch.cpu_seconds for batch in batches}  # the last one's
    won, combined = (sum(getattr(batch, key) for batch in batches) for key in ("won", "combined"))
    return Run(name, count, round(seconds, 1), cpu_seconds, won, combined)


def _watch(processes: DatacenterProcesses, traffic: Traffic, is_one_lost: bool) -> None:
    """Wait until all have ended, one of them by kill -9."""
    lost = traffic.datacenters[-1] if is_one_lost else None
    end = time.monotonic() + MOST_SECONDS
    left = list(traffic.datacenters)
    while left:
        for name in list(left):
            if not processes.lives(name):
                left.remove(name)
                continue
            read = sum(batch.foreign for batch in processes.batches() if batch.datacenter == name)
            if name == lost and read >= LOST_AT * traffic.clicks:
                processes.kill(name)
                left.remove(name)
        processes.check()
        if time.monotonic() > end:
            raise MeasurementFailed(f"{left} did not end within {MOST_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def numbers_of(runs: Sequence[Run]) -> dict[str, Any]:
    """CPU of each run for a thousand events, beside that of one datacenter."""
    one = sum(runs[0].cpu_seconds.values())
    return {
        "primary": PRIMARY,
        "foreign": FOREIGN,
        "runs": [
            {
                "datacenters": run.name,
                "seconds": run.seconds,
                "cpu_seconds": dict(run.cpu_seconds),
                "cpu_ms_an_event": round(1e3 * sum(run.cpu_seconds.values()) / (PRIMARY + FOREIGN), 4),
                "percent_of_one": round(100 * sum(run.cpu_seconds.values()) / one, 1),
                "joined": run.won,
                "joined_in_vain": round(1 - run.won / run.combined, 4) if run.combined else 0.0,
            }
            for run in runs
        ],
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """A bar for each run, of the parts of its datacenters."""
    figure, (axes,) = panels(6.4, 4.0)
    names = [run["datacenters"] for run in numbers["runs"]]
    bottom = [0.0] * len(names)
    for datacenter, color in zip(DATACENTERS, ("#3b6fb6", "#e08a2c", "#6f9d5c"), strict=True):
        parts = [run["cpu_seconds"].get(datacenter, 0.0) for run in numbers["runs"]]
        axes.bar(names, parts, bottom=bottom, color=color, label=datacenter)
        bottom = [below + part for below, part in zip(bottom, parts, strict=True)]
    for place, run in enumerate(numbers["runs"]):
        axes.annotate(f"{run['percent_of_one']:.0f} %", (place, bottom[place]), ha="center", va="bottom")
    axes.set(ylabel="processor seconds", xlabel="datacenters at work", title="The same logs, joined once")
    axes.margins(y=0.1)
    axes.legend(frameon=False)
    return figure
