"""The outcome matrix: situations down, strategies across, and in each cell what came of it."""

import textwrap

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from crashlab.explore import HARMLESS
from crashlab.figures.fit import width_of
from crashlab.figures.style import FAINT, INK, MARKS, OTHER, SANS, Picture, canvas, html, points

TYPE = 12.5  # size of type; heights and widths are pixels
HEAD = 15  # size of the title
LINE = 17  # from one line of a label to the next
PAD = 12
ROW, COLUMN = 26, 12  # letters of a label, before it goes on in a new line
MARK = 20  # width of a mark and the space behind it

Rows = dict[str, dict[str, str]]


def outcome_matrix(rows: Rows, title: str) -> Picture:
    """Show a table of outcomes: `{situation: {strategy: "once"}}`."""
    return Picture(html(matrix(rows, title), alternative(rows, title)), table(rows, title))


def matrix(rows: Rows, title: str, ink: str = INK) -> Figure:
    """Draw a table of outcomes. Its width follows from the text; what does harm is shaded."""
    columns = strategies(rows)
    heads = {name: textwrap.wrap(name, COLUMN) for name in columns}
    sides = {name: textwrap.wrap(name, ROW) for name in rows}
    first = max(_width(line) for side in sides.values() for line in side) + 2 * PAD
    cell = max(
        *(_width(line, "bold") for head in heads.values() for line in head),
        *(_width(word) + MARK for row in rows.values() for word in row.values()),
    )
    cell += 2 * PAD
    width = max(first + cell * len(columns) + 2 * PAD, _width(title, "bold", HEAD) + 2 * PAD)
    top = 40 + LINE * max(map(len, heads.values())) + PAD
    heights = [LINE * max(len(side), 1) + PAD for side in sides.values()]
    figure, axes = canvas(width, top + sum(heights) + PAD)

    def write(x: float, y: float, text: str, size: float = TYPE, **style: object) -> None:
        style = {"color": ink, "family": SANS, "va": "center_baseline"} | style
        axes.text(x, y, text, size=points(size), parse_math=False, **style)

    def write_lines(x: float, y: float, lines: list[str], **style: object) -> None:
        for i, line in enumerate(lines):
            write(x, y + LINE * (i - (len(lines) - 1) / 2), line, **style)

    def rule(y: float, alpha: float) -> None:
        end = PAD + first + cell * len(columns)
        axes.add_line(Line2D([PAD, end], [y, y], color=ink, alpha=alpha, lw=points(1)))

    write(PAD, 18, title, HEAD, weight="bold")
    for i, lines in enumerate(heads.values()):
        middle = 40 + LINE * max(map(len, heads.values())) / 2
        write_lines(2 * PAD + first + cell * i, middle, lines, weight="bold")
    rule(top, FAINT)
    y = top
    for (name, row), height in zip(rows.items(), heights, strict=True):
        write_lines(PAD, y + height / 2, sides[name])
        for i, strategy in enumerate(columns):
            _cell(axes, write, PAD + first + cell * i, y, cell, height, row.get(strategy))
        y += height
        rule(y, 0.25)
    return figure


def strategies(rows: Rows) -> list[str]:
    """Return the names of the columns, in the order in which the rows name them."""
    return list(dict.fromkeys(strategy for row in rows.values() for strategy in row))


def alternative(rows: Rows, title: str) -> str:
    """Return what the matrix shows, in words, for those who cannot see it."""
    parts = [f"Outcome matrix. {title}."]
    for name, row in rows.items():
        parts.append(f"{name}: " + ", ".join(f"{who} {word}" for who, word in row.items()) + ".")
    return " ".join(parts)


def table(rows: Rows, title: str) -> str:
    """Return the matrix as text, for a terminal."""
    columns = strategies(rows)
    lines = [["", *columns]]
    lines += [[name, *(row.get(each, "–") for each in columns)] for name, row in rows.items()]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns) + 1)]
    padded = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([title, *padded])


def _cell(
    axes: object, write: object, x: float, y: float, width: float, height: float, word: str | None
) -> None:
    middle = y + height / 2
    if word is None:
        write(x + PAD, middle, "–", alpha=FAINT)
        return
    mark = MARKS.get(word, OTHER)
    if word not in HARMLESS:
        axes.add_patch(Rectangle((x, y), width, height, fc=mark.colour, alpha=0.16, lw=0))
    size = points(7 if mark.marker == "D" else 9)  # a diamond is measured by its side
    face = mark.colour if mark.filled else "none"
    style = {"marker": mark.marker, "mfc": face, "mec": mark.colour, "ms": size, "mew": 1.4}
    axes.add_line(Line2D([x + PAD + 5], [middle], linestyle="none", **style))
    write(x + PAD + MARK, middle, word)


def _width(text: str, weight: str = "normal", size: float = TYPE) -> float:
    """Return the width of a line of text in pixels."""
    return width_of(text, size, weight=weight)
