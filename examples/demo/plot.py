"""A plot of how long rows took, second by second, around an outage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from examples.demo.latency import SeenRow, TimeSpan
from photon.process.clock import MICROSECONDS

BIN_SECONDS = 2.0  # some 200 rows: its p99 is the second slowest of them
SHARES = {0.5: "#9db8d9", 0.9: "#3b6fb6", 0.99: "#17345e"}
LIMIT_SECONDS = 1.5  # p90 in undisturbed minutes is to stay below
TICKS_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
COLORS = {"east": "#3b6fb6", "west": "#e08a2c"}
# Above the axes, opposite the title: there it hides nothing.
LEGEND: dict[str, Any] = {
    "loc": "lower right", "bbox_to_anchor": (1, 0.98), "frameon": False, "ncols": 4, "borderaxespad": 0,
}  # fmt: skip


def binned(rows: Sequence[SeenRow], window: TimeSpan) -> pd.DataFrame:
    """Datacenter, latency and the middle of its bin, in seconds since the window began, of each row in it."""
    seen = [row for row in rows if row.readable_us in window]
    bins = [int((row.readable_us - window.start_us) / MICROSECONDS / BIN_SECONDS) for row in seen]
    return pd.DataFrame(
        {
            "datacenter": [row.row[0] for row in seen],
            "latency_seconds": [row.latency_us / MICROSECONDS for row in seen],
            "middle_seconds": [(number + 0.5) * BIN_SECONDS for number in bins],
        }
    )


def percentiles_over_time(rows: Sequence[SeenRow], window: TimeSpan) -> pd.DataFrame:
    """Seconds by the middle of a bin, one column for each of `SHARES`."""
    latencies = binned(rows, window).groupby("middle_seconds")["latency_seconds"]
    return latencies.quantile(list(SHARES), interpolation="higher").unstack()


def rows_per_second(rows: Sequence[SeenRow], window: TimeSpan) -> pd.DataFrame:
    """Rows by the middle of a bin, one column a datacenter."""
    table = binned(rows, window)
    rates = pd.crosstab(table["middle_seconds"], table["datacenter"]) / BIN_SECONDS
    middles = [(number + 0.5) * BIN_SECONDS for number in range(math.ceil(window.seconds / BIN_SECONDS))]
    return rates.reindex(middles, fill_value=0.0)


def draw(rows: Sequence[SeenRow], span: TimeSpan, outage: TimeSpan, victim: str, path: Path) -> None:
    """Write the plot of a span as PNG, in whole bins, with the outage of one datacenter marked in it."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    bins = int(span.seconds / BIN_SECONDS)
    window = TimeSpan(span.start_us, span.start_us + round(bins * BIN_SECONDS * MICROSECONDS))
    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(10, 6), sharex=True, height_ratios=(3, 2), layout="constrained"
    )
    for share, seconds in percentiles_over_time(rows, window).items():
        above.plot(seconds, color=SHARES[share], linewidth=1.8, label=f"p{share * 100:.0f}")
    above.axhline(
        LIMIT_SECONDS,
        color="#b03030",
        linewidth=1,
        linestyle=(0, (4, 3)),
        label=f"p90 undisturbed: at most {LIMIT_SECONDS} s",
    )
    # The batch that the kill cut short waits for the return, 20 s: on a linear axis it hides all the rest.
    above.set(yscale="log", ylabel="seconds")
    above.set_yticks(TICKS_SECONDS, labels=[f"{tick:g}" for tick in TICKS_SECONDS])
    above.minorticks_off()
    above.set_ylim(TICKS_SECONDS[0], TICKS_SECONDS[-1])
    above.set_title("From the later of two lines written to the joined row readable", loc="left", fontsize=11)
    rates = rows_per_second(rows, window)
    bottom = pd.Series(0.0, rates.index)
    for name, values in rates.items():
        below.bar(rates.index, values, BIN_SECONDS, bottom, color=COLORS.get(name), label=name)
        bottom = bottom + values
    below.set(ylabel="rows/s", xlabel="seconds since both datacenters keep up", xlim=(0, window.seconds))
    below.set_title("Joined by", loc="left", fontsize=11)
    start, end = ((at_us - window.start_us) / MICROSECONDS for at_us in (outage.start_us, outage.end_us))
    for axes in (above, below):
        axes.axvspan(start, end, color="#f6ecdf", zorder=0)
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(**LEGEND)
    for at, text in (
        (start, f"{victim}: kill -9"),
        (end, f"{outage.seconds:.0f} s later: back"),
    ):
        above.annotate(
            text, (at, 1), xycoords=("data", "axes fraction"), xytext=(4, -4), textcoords="offset points",
            fontsize=9, color="#7a4a12", va="top",
        )  # fmt: skip
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
