"""Figures as Markdown images small enough to be stored with every report.

What is drawn is for those who draw it.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 80
FONT_POINTS = 7


def new_figure(inches: tuple[float, float]) -> Figure:
    """An empty figure of this width and height."""
    # Late: 0.5 s, which a code location need not spend. A figure of its own: pyplot would keep state.
    from matplotlib.figure import Figure

    return Figure(inches, DOTS_PER_INCH, layout="constrained")


def plain(axes: Axes, x: str, y: str) -> None:
    """Axes with these labels, small and without a frame."""
    axes.set_xlabel(x, fontsize=FONT_POINTS)
    axes.set_ylabel(y, fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def markdown_image(figure: Figure, title: str, colours: int) -> str:
    """The figure as a Markdown image, reduced to so many colours."""
    return f"![{title}](data:image/png;base64,{base64.b64encode(_png(figure, colours)).decode()})"


def _png(figure: Figure, colours: int) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    size = canvas.get_width_height()
    picture = Image.frombuffer("RGBA", size, canvas.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB")
    file = io.BytesIO()
    picture.quantize(colours).save(file, "PNG", optimize=True)
    return file.getvalue()
