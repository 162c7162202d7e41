"""The latency plot of a demo: how long rows took, and who wrote how many, second by second."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.latency import SeenRow, Window, percentile
from examples.demo.summary import Course
from photon.clock import MICROSECONDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BIN_SECONDS = 2.0  # some 200 rows: its p99 is the second slowest of them
SHARES = (0.5, 0.9, 0.99)
LIMIT_SECONDS = 1.5  # p90 in undisturbed minutes is to stay below
TICKS_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
COLORS = {"east": "#3b6fb6", "west": "#e08a2c"}
# Above the axes, opposite the title: there it hides nothing.
_LEGEND: dict[str, Any] = {
    "loc": "lower right", "bbox_to_anchor": (1, 0.98), "frameon": False, "ncols": 3, "borderaxespad": 0,
}  # fmt: skip
PERCENTILE_COLORS = ("#9db8d9", "#3b6fb6", "#17345e")


def percentiles_over_time(rows: Sequence[SeenRow], window: Window) -> list[tuple[float, list[float]]]:
    """For each bin its middle, in seconds since the window began, and p50, p90 and p99 in seconds."""
    bins: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        if row.readable_us in window:
            bins[_bin(row, window)].append(row.latency_us)
    return [
        (
            (number + 0.5) * BIN_SECONDS,
            [percentile(sorted(latencies), share) / MICROSECONDS for share in SHARES],
        )
        for number, latencies in sorted(bins.items())
    ]


def rows_per_second(rows: Sequence[SeenRow], window: Window) -> dict[str, list[float]]:
    """By datacenter, for each bin of the window."""
    count = math.ceil(window.seconds / BIN_SECONDS)
    rates: dict[str, list[float]] = defaultdict(lambda: [0.0] * count)
    for row in rows:
        if row.readable_us in window:
            rates[row.row[0]][_bin(row, window)] += 1 / BIN_SECONDS
    return dict(sorted(rates.items()))


def _bin(row: SeenRow, window: Window) -> int:
    return int((row.readable_us - window.start_us) / (BIN_SECONDS * MICROSECONDS))


def _shown(course: Course) -> Window:
    """From the moment at which both datacenters keep up to the last clicks, in whole bins."""
    start_us = course.undisturbed.start_us
    bins = int(Window(start_us, course.end_us).seconds / BIN_SECONDS)
    return Window(start_us, start_us + round(bins * BIN_SECONDS * MICROSECONDS))


def draw(course: Course, path: Path) -> None:
    """Write the plot as PNG."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    window = _shown(course)
    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(10, 6), sharex=True, height_ratios=(3, 2), layout="constrained"
    )
    _draw_latency(above, course, window)
    _draw_rates(below, course, window)
    _mark((above, below), course, window)
    for axes in (above, below):
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    below.set_xlabel("seconds since both datacenters keep up")
    below.set_xlim(0, window.seconds)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_latency(axes: Axes, course: Course, window: Window) -> None:
    points = percentiles_over_time(course.rows, window)
    times = [time for time, _ in points]
    for index, (share, color) in enumerate(zip(SHARES, PERCENTILE_COLORS, strict=True)):
        values = [values[index] for _, values in points]
        axes.plot(times, values, color=color, linewidth=1.8, label=f"p{share * 100:.0f}")
    axes.axhline(LIMIT_SECONDS, color="#b03030", linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        f"p90 undisturbed: at most {LIMIT_SECONDS} s", (0, LIMIT_SECONDS), xycoords=("axes fraction", "data"),
        xytext=(4, 3), textcoords="offset points", color="#b03030", fontsize=8,
    )  # fmt: skip
    # The batch that the kill cut short waits for the return, 20 s: on a linear axis it hides all the rest.
    axes.set_yscale("log")
    axes.set_yticks(TICKS_SECONDS, labels=[f"{tick:g}" for tick in TICKS_SECONDS])
    axes.minorticks_off()
    axes.set_ylim(TICKS_SECONDS[0], TICKS_SECONDS[-1])
    axes.set_ylabel("seconds")
    axes.set_title("From the later of two lines written to the joined row readable", loc="left", fontsize=11)
    axes.legend(**_LEGEND)


def _draw_rates(axes: Axes, course: Course, window: Window) -> None:
    rates = rows_per_second(course.rows, window)
    edges = [number * BIN_SECONDS for number in range(math.ceil(window.seconds / BIN_SECONDS))]
    bottom = [0.0] * len(edges)
    for name, values in rates.items():
        axes.bar(edges, values, BIN_SECONDS, bottom, align="edge", color=COLORS.get(name), label=name)
        bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    axes.set_ylabel("rows/s")
    axes.set_title("Joined by", loc="left", fontsize=11)
    axes.legend(**_LEGEND)


def _mark(both: tuple[Axes, Axes], course: Course, window: Window) -> None:
    gone = course.without
    start, end = ((at_us - window.start_us) / MICROSECONDS for at_us in (gone.start_us, gone.end_us))
    for axes in both:
        axes.axvspan(start, end, color="#f6ecdf", zorder=0)
        for at in (start, end):
            axes.axvline(at, color="#a0641c", linewidth=1)
    for at, text in (
        (start, f"{course.kill.datacenter}: kill -9"),
        (end, f"{gone.seconds:.0f} s later: back"),
    ):
        both[0].annotate(
            text, (at, 1), xycoords=("data", "axes fraction"), xytext=(4, -4), textcoords="offset points",
            fontsize=9, color="#7a4a12", va="top",
        )  # fmt: skip
