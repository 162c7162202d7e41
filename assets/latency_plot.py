"""How a shift's latency went, as a picture small enough to be stored with every report.

What is measured is `photon.shift.report`; where the picture is shown, `shift_metadata`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assets.pictures import FONT_POINTS, markdown_image, new_figure, plain
from photon.clock import MICROSECONDS
from photon.shift.report import Latency, ShiftReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE_INCHES = (4.2, 1.5)
# Two datacenters report 2,880 times a day: a picture of 2 KB adds 8 MB to Dagster's storage, base64 included.
COLOURS = 6
LINES = (
    ("p99_seconds", "p99", "#d95f02"),
    ("p90_seconds", "p90", "#7570b3"),
    ("p50_seconds", "p50", "#1b9e77"),
)


def latency_plot(reports: Sequence[ShiftReport]) -> str | None:
    """Percentiles over a shift's reports as a Markdown image; None with fewer than two that measured any."""
    points = [(report.at_us, report.latency) for report in reports if report.latency is not None]
    if len(points) < 2:
        return None
    figure = new_figure(SIZE_INCHES)
    _draw(figure.add_subplot(), points)
    return markdown_image(figure, "latency in seconds", COLOURS)


def _draw(axes: Axes, points: Sequence[tuple[int, Latency]]) -> None:
    last_us = points[-1][0]
    minutes = [(last_us - at_us) / MICROSECONDS / 60 for at_us, _ in points]
    for field, label, colour in LINES:
        seconds = [getattr(latency, field) for _, latency in points]
        axes.plot(minutes, seconds, color=colour, linewidth=1, label=label, antialiased=False)
    axes.set_ylim(bottom=0)
    axes.invert_xaxis()
    axes.legend(fontsize=FONT_POINTS, loc="lower left", bbox_to_anchor=(0, 0.96), frameon=False, ncols=3)
    plain(axes, "minutes ago", "seconds")
