"""A plot of a live measurement: how the delay of its rows is distributed, and its course."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from orchestration.demo.latency import SeenRow, TimeSpan
from orchestration.demo.plot import COLORS, LEGEND, SHARES, binned, percentiles_over_time


def first_seen(rows: Sequence[SeenRow]) -> list[SeenRow]:
    """Each click once, as it was first readable: compaction shows a row again, in another file."""
    first: dict[str, SeenRow] = {}
    for row in sorted(rows, key=lambda row: row.readable_us):
        first.setdefault(row.click_id, row)
    return list(first.values())


def shares_within(rows: Sequence[SeenRow], window: TimeSpan) -> pd.Series:
    """The share of the rows of a window that took no longer, by seconds."""
    seconds = sorted(binned(rows, window)["latency_seconds"])
    return pd.Series([(number + 1) / len(seconds) for number in range(len(seconds))], seconds)


def draw_live(rows: Sequence[SeenRow], window: TimeSpan, path: Path) -> None:
    """Write the plot of a live measurement: the distribution of the delay, and its course."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    once = first_seen(rows)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    shares = shares_within(once, window)
    left.plot(shares.index, shares * 100, color=COLORS["east"], linewidth=1.8)
    left.set(xlabel="seconds", ylabel="percent of rows readable within", xlim=(0, None), ylim=(0, 100))
    for share, seconds in percentiles_over_time(once, window).items():
        right.plot(seconds, color=SHARES[share], linewidth=1.8, label=f"p{share * 100:.0f}")
    right.set(xlabel="seconds since the measurement began", ylabel="seconds", ylim=(0, None))
    right.legend(**LEGEND)
    for axes in (left, right):
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("From the later of two lines written to the joined row readable", fontsize=11)
    figure.savefig(path)
    pyplot.close(figure)
