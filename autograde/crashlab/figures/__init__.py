"""Pictures of what happened, drawn from data; one visual language, see `crashlab.figures.style`."""

from crashlab.figures.crash_map import crash_map, side_by_side
from crashlab.figures.graph_lives import graph_lives
from crashlab.figures.growth import growth
from crashlab.figures.history import histories, history, rows
from crashlab.figures.lives import lives
from crashlab.figures.matrix import outcome_matrix
from crashlab.figures.style import Picture, html, save_png

__all__ = [
    "Picture",
    "crash_map",
    "graph_lives",
    "growth",
    "histories",
    "history",
    "html",
    "lives",
    "outcome_matrix",
    "rows",
    "save_png",
    "side_by_side",
]
