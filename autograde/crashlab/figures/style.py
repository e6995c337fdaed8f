"""The visual language: colours and shapes of outcomes, type, and how a figure gets into a page.

Each outcome has a colour and a shape, so that neither alone carries the meaning. The colours keep a
contrast of at least 3 : 1 on white and on the dark theme's black. Everything else is drawn in one
ink, which in a notebook becomes the colour of the text around the figure: dark on light, light on
dark.
"""

import io
from dataclasses import dataclass
from html import escape
from pathlib import Path

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

INK = "#1d2b3a"
FAINT = 0.66  # opacity of secondary text
DPI = 96  # one unit of the figures' coordinates is one pixel of this size
MONO = "DejaVu Sans Mono"
SANS = "DejaVu Sans"


@dataclass(frozen=True)
class Mark:
    """How an outcome is drawn: a matplotlib marker, its colour, and whether it is filled."""

    marker: str
    colour: str
    filled: bool = True


BLUE, RED, AMBER, PURPLE, GREY = "#3583c4", "#d64545", "#b57f0e", "#9a62c7", "#7d868f"
MARKS = {
    "once": Mark("o", BLUE),
    "old": Mark("o", BLUE, filled=False),
    "new": Mark("o", BLUE),
    "kept": Mark("o", BLUE),
    "all": Mark("o", BLUE),
    "twice": Mark("D", RED),
    "again": Mark("P", RED),
    "over": Mark("^", RED),
    "torn": Mark("X", RED),
    "lost": Mark("v", AMBER),
    "stuck": Mark("s", PURPLE),
}
OTHER = Mark("p", GREY)  # an outcome that has no sign of its own


@dataclass(frozen=True)
class Picture:
    """A figure as a notebook shows it, and the same in words for a terminal or a screen reader."""

    markup: str
    words: str

    def _repr_html_(self) -> str:
        return self.markup

    def __repr__(self) -> str:
        return self.words


def canvas(width: float, height: float) -> tuple[Figure, object]:
    """Return a transparent figure and its axes; coordinates are pixels from the top left."""
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    figure.patch.set_alpha(0)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def points(pixels: float) -> float:
    """Return a length given in pixels in points, the unit of matplotlib's type and marks."""
    return pixels * 72 / DPI


def html(figure: Figure, words: str) -> str:
    """Return a figure as SVG in the colour of the text around it, with alternative text."""
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "path"}):
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    label = escape(words, quote=True)
    return svg.replace(
        "<svg ", f'<svg role="img" aria-label="{label}" style="max-width:100%;height:auto" ', 1
    )


def save_png(figure: Figure, path: Path, ground: str) -> None:
    """Save a figure as a PNG of twice its size in pixels, on a ground of the given colour."""
    figure.patch.set(facecolor=ground, alpha=1)
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=2 * DPI, facecolor=ground, metadata={"Software": None})
