"""The lives of a process: one row for each, with what it did to the outside and how it ended."""

from collections.abc import Sequence

from matplotlib.lines import Line2D

from crashlab.figures.style import (
    AMBER,
    BLUE,
    FAINT,
    INK,
    PURPLE,
    RED,
    SANS,
    Mark,
    Picture,
    canvas,
    html,
    points,
)
from crashlab.kill import Life

ROW, STEP, LETTER = 58, 34, 7.2  # pixels: between rows, between the deeds of a row, of a letter
LEFT, TOP = 74, 58
ENDS = {
    "finished": Mark("o", BLUE),
    "killed": Mark("X", RED),
    "raised": Mark("v", AMBER),
    "exited": Mark("v", AMBER),
    "stuck": Mark("s", PURPLE),
}


def lives(
    rows: Sequence[tuple[Life, Sequence[str]]], title: str = "Lives of the process"
) -> Picture:
    """Show what became of each process: `rows` are pairs of a life and the deeds it did, in order.

    A deed that an earlier life had done already is drawn red: it was done twice.
    """
    ends = [str(life).removeprefix(f"{life.function} ") for life, _ in rows]
    widths = [sum(map(_width, deeds)) for _, deeds in rows]
    width = LEFT + max(
        [w + 40 + LETTER * len(end) for w, end in zip(widths, ends, strict=True)] + [8 * len(title)]
    )
    figure, axes = canvas(width, TOP + ROW * len(rows))

    def write(x: float, y: float, text: str, **style: object) -> None:
        style = {"color": INK, "family": SANS, "va": "center_baseline", "size": points(12)} | style
        axes.text(x, y, text, parse_math=False, **style)

    write(10, 18, title, weight="bold", size=points(15))
    seen: set[str] = set()
    words = [f"{title}."]
    for number, ((life, deeds), end) in enumerate(zip(rows, ends, strict=True), 1):
        y = TOP + ROW * (number - 0.45)
        write(10, y, f"life {number}", alpha=FAINT)
        x: float = LEFT
        total = sum(map(_width, deeds))
        axes.add_line(Line2D([x, x + total + 12], [y, y], color=INK, alpha=0.4, lw=1.2))
        for deed in deeds:
            colour = RED if deed in seen else BLUE
            middle = x + _width(deed) / 2
            style = {"marker": "D" if deed in seen else "o", "mfc": colour, "mec": colour}
            axes.add_line(Line2D([middle], [y], linestyle="none", ms=points(7), **style))
            write(middle, y - 17, deed, ha="center", color=colour if deed in seen else INK)
            x += _width(deed)
        seen.update(deeds)
        mark = ENDS[life.end]
        style = {"marker": mark.marker, "mfc": mark.colour, "mec": mark.colour, "ms": points(10)}
        axes.add_line(Line2D([x + 12], [y], linestyle="none", **style))
        write(x + 26, y, end, color=mark.colour)
        words.append(f"Life {number}: {', '.join(deeds) or 'nothing done'}; {end}.")
    return Picture(html(figure, " ".join(words)), "\n".join(words))


def _width(deed: str) -> float:
    return LETTER * len(deed) + STEP / 2
