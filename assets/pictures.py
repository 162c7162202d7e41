"""Plots that the live page lacks, as Markdown images, small enough to be stored with every report."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from photon.dispatcher.shift.report import ShiftReport
from photon.pipeline.sections import Availability
from photon.process.clock import MICROSECONDS
from photon.verification.availability.budget import HOUR_US, Minute

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from photon.upkeep.registry_state import LedgerRow

# As wide as the UI's column of metadata, and legible there without a zoom.
DOTS_PER_INCH = 100
FONT_POINTS = 9
# Two datacenters report 2,880 times a day, a fifth of it with a picture: 4 KB of shares add 3 MB to Dagster's
# storage, base64 included.
SHARES_INCHES = (7.6, 2.6)
SHARES_COLOURS = 16
LEAST_SHARE, MOST_SHARE = (
    0.01,
    100.0,
)  # %, on an axis of powers of ten: a class of 0.3 % has a line of its own
# Lines differ in dashes and marks too: for people who see no colours, and where one lies upon another.
SHARES = (
    ("joined", "joined", "#1b9e77", "-", 3.0),
    ("joined_elsewhere", "joined elsewhere", "#7570b3", "--", 1.5),
    ("", "others", "#999999", "_", 1.0),
    ("unjoinable", "unjoinable", "#a6761d", "^-", 1.0),
    ("dead_letters", "dead letters", "#e7298a", "x", 1.0),
)
LEDGERS_INCHES = (7.6, 4.0)
LEDGERS_COLOURS = 8
AVAILABILITY_INCHES = (7.6, 2.4)
AVAILABILITY_COLOURS = 8


def shares_plot(reports: Sequence[ShiftReport]) -> str | None:
    """Shares of foreign records by class, in % of each report's; None with fewer than two that have any.

    A line has a gap where its class had no record.
    """
    points = [report for report in reports if report.classes]
    if len(points) < 2:
        return None
    figure = _new_figure(SHARES_INCHES)
    axes = figure.add_subplot()
    minutes = [(points[-1].at_us - report.at_us) / MICROSECONDS / 60 for report in points]
    heights = [_shares(report.classes) for report in points]
    for name, label, colour, style, width in SHARES:
        line = [each[name] or float("nan") for each in heights]
        looks: dict[str, Any] = {"color": colour, "linewidth": width, "markersize": 4, "antialiased": False}
        if any(each[name] for each in heights):
            axes.plot(minutes, line, style, label=label, **looks)
    axes.set_yscale("log")
    axes.set_ylim(LEAST_SHARE, 1.3 * MOST_SHARE)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlim(max(minutes), 0)
    _label(axes, "minutes ago", "% of records", legend_bottom=0.96)
    return _markdown_image(figure, "what became of foreign records, in %", SHARES_COLOURS)


def _shares(classes: Mapping[str, int]) -> dict[str, float]:
    """Shares of one report, in %, by the names in SHARES; "" has all other classes."""
    total = sum(classes.values())
    shares = {name: 100 * classes.get(name, 0) / total for name, *_ in SHARES if name}
    others = total - sum(classes.get(name, 0) for name in shares)
    return {**shares, "": 100 * others / total}


def ledgers_plot(ledgers: Sequence[LedgerRow]) -> str:
    """Ids by ledger, and below it the bytes of its entries."""
    figure = _new_figure(LEDGERS_INCHES)
    ids, sizes = figure.subplots(2, 1, sharex=True)
    _bars(ids, "ids", [one.ids for one in ledgers], "#1b9e77")
    _bars(sizes, "bytes of entries", [one.bytes for one in ledgers], "#7570b3")
    _label(ids, "", "ids", legend_bottom=0.98)
    _label(sizes, "ledgers, from the oldest to the newest", "bytes", legend_bottom=0.98)
    return _markdown_image(figure, "ids and bytes by ledger", LEDGERS_COLOURS)


def availability_plot(minutes: Mapping[int, Minute], settings: Availability) -> str | None:
    """Late events by minute of the last day; None with fewer than two minutes."""
    if len(minutes) < 2:
        return None
    last_us = max(minutes)
    figure = _new_figure(AVAILABILITY_INCHES)
    axes = figure.add_subplot()
    day = [each for at_us, each in minutes.items() if last_us - at_us < 24 * HOUR_US]
    hours = [(last_us - each.at_us) / HOUR_US for each in day]
    shares = [100 * each.late / max(1, each.joinable) for each in day]
    axes.vlines(hours, 0, shares, label="late", color="#d95f02", linewidth=1, antialiased=False)
    axes.axhline(100 * (1 - settings.of_events), label="allowed", color="#999999", linewidth=1)
    axes.set_xlim(24, 0)
    _label(axes, "hours ago", "% of events", legend_bottom=0.98)
    return _markdown_image(figure, "events that were late", AVAILABILITY_COLOURS)


def _bars(axes: Axes, label: str, heights: Sequence[int], colour: str) -> None:
    axes.bar(range(len(heights)), heights, 1.0, label=label, color=colour, antialiased=False)


def _new_figure(inches: tuple[float, float]) -> Figure:
    # Late: it takes 0.5 s, which a code location need not spend. Not pyplot's figure, which keeps state.
    from matplotlib.figure import Figure

    return Figure(inches, DOTS_PER_INCH, layout="constrained")


def _label(axes: Axes, x: str, y: str, legend_bottom: float) -> None:
    """Add small labels and a legend; remove the frame."""
    axes.set_xlabel(x, fontsize=FONT_POINTS)
    axes.set_ylabel(y, fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    corner = (0, legend_bottom)
    axes.legend(fontsize=FONT_POINTS, loc="lower left", bbox_to_anchor=corner, frameon=False, ncols=5)


def _markdown_image(figure: Figure, title: str, colours: int) -> str:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    size = canvas.get_width_height()
    picture = Image.frombuffer("RGBA", size, canvas.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB")
    file = io.BytesIO()
    # Colours are chosen by how much they cover, so that a thin line keeps its own.
    picture.quantize(colours, Image.Quantize.MAXCOVERAGE).save(file, "PNG", optimize=True)
    return f"![{title}](data:image/png;base64,{base64.b64encode(file.getvalue()).decode()})"
