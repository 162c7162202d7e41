"""Plots of a comparison of joins: throughput of each, and what Photon costs by history, files and cores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from bench.plots import panels, save

Found = Mapping[str, Any]
OURS, THEIRS = "#3b6fb6", "#b8bfc9"
# axis -> the words below it; each line of points begins at the first point, and changes this alone
AXES = {
    "history": "primary events indexed before",
    "files": "files of each log",
    "cores": "cores",
}


def throughput(found: Found) -> dict[str, float]:
    """Events a second of each join, the mean of its rounds."""
    names = dict.fromkeys(run["contender"] for run in found["runs"])
    return {
        name: mean(run["events_per_second"] for run in found["runs"] if run["contender"] == name)
        for name in names
    }


def cost_curve(found: Found, axis: str) -> list[tuple[int, Found]]:
    """The points that differ from the first by this axis alone, with their runs, in order."""
    curves = found["curves"]
    if not curves:
        return []
    first = curves[0]["point"]
    others = [name for name in AXES if name != axis]
    line = [one for one in curves if all(one["point"][name] == first[name] for name in others)]
    every = found["machine"]["cores"]  # where a point names none
    values = [(one["point"][axis] or every, one["run"]) for one in line]
    return sorted(values, key=lambda value: value[0])


def cpu_us(found: Found, run: Found) -> float | None:
    """CPU of a run for each of its primary events, in microseconds."""
    cpu = run["cpu_seconds"]
    return None if cpu is None else 1e6 * cpu / found["sizes"]["late_primary"]


def draw_throughput(found: Found, titles: Mapping[str, str], path: Path) -> None:
    """Write a bar for each join."""
    rates = throughput(found)
    figure, (axes,) = panels(9, 0.5 * len(rates) + 1.2)
    colors = [OURS if name.startswith("photon") else THEIRS for name in rates]
    bars = axes.barh([titles[name] for name in rates], list(rates.values()), color=colors)
    axes.bar_label(bars, [f"{rate:,.0f}" for rate in rates.values()], padding=4, fontsize=9)
    axes.invert_yaxis()  # in the order of the table
    axes.margins(x=0.12)
    axes.set(xlabel="events a second, from the files being there to the last row's commit")
    save(figure, path)


def draw_curves(found: Found, path: Path) -> None:
    """Write a panel for each axis: seconds, and CPU for each primary event."""
    figure, every_axes = panels(11, 3.6, columns=len(AXES))
    for axes, (axis, words) in zip(every_axes, AXES.items(), strict=True):
        line = cost_curve(found, axis)
        places = range(len(line))  # each as far from the next: values grow by factors
        axes.plot(places, [run["seconds"] for _, run in line], "o-", color=OURS, label="seconds")
        axes.set(xlabel=words, ylim=(0, None))
        axes.set_xticks(list(places), labels=[f"{value:,}" for value, _ in line])
        for place, (_, run) in zip(places, line, strict=True):
            if (cost := cpu_us(found, run)) is not None:
                axes.annotate(
                    f"{cost:.0f} us", (place, run["seconds"]), xytext=(0, -14),
                    textcoords="offset points", fontsize=8, ha="center",
                )  # fmt: skip
    every_axes[0].set(ylabel="seconds (below: CPU a primary event)")
    save(figure, path)
