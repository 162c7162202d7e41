"""How a shift's latency went, as a picture small enough to be stored with every report.

What is measured is `photon.shift_report`; where the picture is shown, `shift_metadata`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from photon.clock import MICROSECONDS
from photon.shift_report import Latency, ShiftReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE_INCHES = (4.2, 1.5)
DOTS_PER_INCH = 80
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
    return f"![latency in seconds](data:image/png;base64,{base64.b64encode(_png(points)).decode()})"


def _png(points: Sequence[tuple[int, Latency]]) -> bytes:
    # Late: 0.5 s, which a code location need not spend. A figure of its own: pyplot would keep state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(SIZE_INCHES, DOTS_PER_INCH, layout="constrained")
    _draw(figure.add_subplot(), points)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    size = canvas.get_width_height()
    picture = Image.frombuffer("RGBA", size, canvas.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB")
    file = io.BytesIO()
    picture.quantize(COLOURS).save(file, "PNG", optimize=True)
    return file.getvalue()


def _draw(axes: Axes, points: Sequence[tuple[int, Latency]]) -> None:
    last_us = points[-1][0]
    minutes = [(last_us - at_us) / MICROSECONDS / 60 for at_us, _ in points]
    for field, label, colour in LINES:
        seconds = [getattr(latency, field) for _, latency in points]
        axes.plot(minutes, seconds, color=colour, linewidth=1, label=label, antialiased=False)
    axes.set_ylim(bottom=0)
    axes.invert_xaxis()
    axes.set_xlabel("minutes ago", fontsize=7)
    axes.set_ylabel("seconds", fontsize=7)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 0.96), frameon=False, ncols=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
