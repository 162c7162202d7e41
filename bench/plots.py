"""How pictures of measurements are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from examples.demo.latency import SeenRow


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
    # Texts as text: as shapes they are most of a picture's bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "photon"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def plain_numbers(axis: Axis) -> None:
    """Label an axis of powers as 0.5, 1, 2, 5."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def first_seen(rows: Sequence[SeenRow]) -> list[SeenRow]:
    """Each click once, as it was first readable: compaction shows a row again, in another file."""
    first: dict[str, SeenRow] = {}
    for row in sorted(rows, key=lambda row: row.readable_us):
        first.setdefault(row.click_id, row)
    return list(first.values())
