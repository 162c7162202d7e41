"""How pictures of measurements are drawn, and that of a live one: how its delay is spread, and its course."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from orchestration.demo.latency import SeenRow, TimeSpan
from orchestration.demo.plot import COLORS, LEGEND, SHARES, binned, percentiles_over_time


def panels(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Any]]:
    """Make a picture of so many inches, with its panels from left to right and from top to bottom."""
    figure = Figure((width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=columns == 1)
    return figure, list(axes.flat)


def save(figure: Figure, path: Path) -> None:
    """Write a picture, in the format that the ending says. An SVG says nothing of when it was drawn."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


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
    """Write the picture of a live measurement: the distribution of the delay, and its course."""
    once = first_seen(rows)
    figure, (left, right) = panels(11, 4, columns=2)
    shares = shares_within(once, window)
    left.plot(shares.index, shares * 100, color=COLORS["east"], linewidth=1.8)
    left.set(xlabel="seconds", ylabel="percent of rows readable within", xlim=(0, None), ylim=(0, 100))
    for share, seconds in percentiles_over_time(once, window).items():
        right.plot(seconds, color=SHARES[share], linewidth=1.8, label=f"p{share * 100:.0f}")
    right.set(xlabel="seconds since the measurement began", ylabel="seconds", ylim=(0, None))
    right.legend(**LEGEND)
    for axes in (left, right):
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    figure.suptitle("From the later of two lines written to the joined row readable", fontsize=11)
    save(figure, path)
