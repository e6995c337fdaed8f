"""Growth: how many bytes lie on disk after so many steps, a line for each way to store them."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from crashlab.figures.fit import families, width_of
from crashlab.figures.style import (
    AMBER,
    BLUE,
    FAINT,
    GREY,
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

TYPE, HEAD = 12, 15  # sizes of type; all lengths are pixels
EDGE, TOP, BOTTOM = 12, 66, 44
WIDTH, HEIGHT = 430, 290  # of the field in which the lines are
GAP = 10  # between a tick and its number
LABEL = 19  # from one label to the next
LEAD = 34  # from the end of a line to its label, with the mark before the label
ROW = 15  # from one mark to the next before a label that lines share
NEAR, WIDEST = 6, 330  # ends this near to each other share a label, if it is not wider than this
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
MARKS = (Mark("o", BLUE), Mark("D", RED), Mark("^", AMBER), Mark("s", PURPLE), Mark("v", GREY))
DASHES = ("-", (0, (7, 2.5)), (0, (2, 2)), (0, (7, 2, 2, 2)), (0, (4, 1.5)))

Lines = Mapping[str, Mapping[int, float]]
Key = TypeVar("Key")


def growth(lines: Lines, title: str) -> Picture:
    """Show bytes on disk against steps: `{name: {steps: bytes}}`, at most five lines.

    Raises ValueError if there is no line, a line without a value, or more lines than can be told
    apart.
    """
    if not 1 <= len(lines) <= len(MARKS) or not all(lines.values()):
        raise ValueError(f"growth draws 1 to {len(MARKS)} lines, each with at least one value")
    return Picture(html(chart(lines, title), alternative(lines, title)), table(lines, title))


def chart(lines: Lines, title: str, ink: str = INK) -> Figure:
    """Draw the lines, each with its name and last value at its end; near ends share a label."""
    most_bytes = max(max(line.values()) for line in lines.values())
    most_steps = max(max(line) for line in lines.values())
    levels, steps = ticks(most_bytes), ticks(most_steps, whole=True)
    unit = next((unit for unit in UNITS if levels[-1] >= unit[0]), UNITS[-1])
    numbers = {level: f"{level / unit[0]:g}" for level in levels}
    lasts = {name: line[max(line)] for name, line in lines.items()}
    labels = joined(lasts, NEAR / HEIGHT * levels[-1])
    left = EDGE + max(map(_width, numbers.values())) + GAP
    right = left + WIDTH
    wide = max(ROW * (len(names) - 1) + _width(text) for names, text in labels.items())
    edge = max(right + LEAD + wide, EDGE + _width(title, HEAD, "bold"))
    figure, axes = canvas(edge + EDGE, TOP + HEIGHT + BOTTOM)

    def at(step: float, amount: float) -> tuple[float, float]:
        return left + WIDTH * step / steps[-1], TOP + HEIGHT * (1 - amount / levels[-1])

    def write(x: float, y: float, text: str, size: float = TYPE, **style: object) -> None:
        style = {"color": ink, "family": families(SANS), "va": "center_baseline"} | style
        axes.text(x, y, text, size=points(size), parse_math=False, **style)

    def rule(xs: Sequence[float], ys: Sequence[float], **style: object) -> None:
        axes.add_line(Line2D(xs, ys, **({"color": ink, "lw": points(1)} | style)))

    write(EDGE, 18, title, HEAD, weight="bold")
    write(EDGE, TOP - 20, unit[1], alpha=FAINT)
    for level, number in numbers.items():
        y = at(0, level)[1]
        rule([left, right], [y, y], alpha=FAINT if level == 0 else 0.16)
        write(left - GAP, y, number, ha="right", alpha=FAINT)
    for step in steps:
        x = at(step, 0)[0]
        rule([x, x], [TOP + HEIGHT, TOP + HEIGHT + 4], alpha=FAINT)
        write(x, TOP + HEIGHT + 15, f"{step:g}", ha="center", alpha=FAINT)
    write(left + WIDTH / 2, TOP + HEIGHT + 33, "steps", ha="center", alpha=FAINT)

    ends = {name: at(max(line), line[max(line)]) for name, line in lines.items()}
    middles = {names: sum(ends[name][1] for name in names) / len(names) for names in labels}
    places = spread(middles, TOP, TOP + HEIGHT)
    for (name, line), mark, dash in zip(lines.items(), MARKS, DASHES, strict=False):
        way = [at(step, line[step]) for step in sorted(line)]
        rule(*zip(*way, strict=True), color=mark.colour, lw=points(2), ls=dash, gid=name)
        x, y = ends[name]
        names = next(names for names in labels if name in names)
        place, sign = places[names], right + LEAD - 14
        rule([x + 4, sign - 8], [y, place], alpha=0.35)
        _put(axes, x, y, mark)
        _put(axes, sign + ROW * names.index(name), place, mark)
        if name == names[-1]:
            write(right + LEAD + ROW * (len(names) - 1), place, labels[names])
    return figure


def joined(lasts: Mapping[str, float], near: float) -> dict[tuple[str, ...], str]:
    """Return the labels: each with the lines it is for, which end near to each other."""
    found: list[tuple[str, ...]] = []
    for name in lasts:
        for i, names in enumerate(found):
            ends = [lasts[each] for each in (*names, name)]
            both = _label((*names, name), lasts)
            if max(ends) - min(ends) <= near and _width(both) <= WIDEST:
                found[i] = (*names, name)
                break
        else:
            found.append((name,))
    return {names: _label(names, lasts) for names in found}


def _label(names: Sequence[str], lasts: Mapping[str, float]) -> str:
    *others, last = names
    said = f"{', '.join(others)} and {last}" if others else last
    ends = [lasts[name] for name in names]
    return f"{said}, {' to '.join(dict.fromkeys(map(size, (min(ends), max(ends)))))}"


def alternative(lines: Lines, title: str) -> str:
    """Return what the figure shows, in words, for those who cannot see it."""
    parts = [f"Growth. {title}."]
    for name, line in lines.items():
        first, half, last = min(line), min(line, key=lambda n: abs(n - max(line) / 2)), max(line)
        said = [f"{size(line[n])} at {n} steps" for n in dict.fromkeys((first, half, last))]
        parts.append(f"{name}: {', '.join(said)}.")
    return " ".join(parts)


def table(lines: Lines, title: str) -> str:
    """Return the values as text, for a terminal: where the figure has a tick, and the last."""
    known = sorted({step for line in lines.values() for step in line})
    shown = {step for step in ticks(known[-1], whole=True) if step in known} | {known[-1]}
    rows = [["steps", *lines]]
    for step in sorted(shown) if len(known) > 12 else known:
        found = [size(line[step]) if step in line else "–" for line in lines.values()]
        rows.append([str(step), *found])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    padded = [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([title, *padded])


def size(amount: float) -> str:
    """Return a number of bytes in three digits and a unit: 8.63 MB (a kB is 1000 bytes)."""
    if amount < 999.5:
        return f"{amount:.0f} B"
    digits, exponent = f"{amount:.2e}".split("e")
    rounded = float(digits) * 10 ** int(exponent)
    base, name = next(unit for unit in UNITS if rounded >= unit[0])
    value = rounded / base
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {name}"


def ticks(most: float, whole: bool = False) -> list[float]:
    """Return about five round numbers from 0 on; the last is not below `most`."""
    if not most:
        return [0, 1]
    power = 10 ** math.floor(math.log10(most / 5))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= most / 5 * 0.999)
    step = max(1, math.ceil(step)) if whole else step
    return [step * n for n in range(math.ceil(most / step * 0.999999) + 1)]


def spread(wanted: Mapping[Key, float], top: float, bottom: float) -> dict[Key, float]:
    """Return places at least `LABEL` apart, as near to the wanted ones as that allows."""
    order = sorted(wanted, key=wanted.__getitem__)
    runs: list[tuple[float, int]] = []  # where labels that touch begin, and how many they are
    for name in order:
        start, length = wanted[name], 1
        while runs and start < runs[-1][0] + LABEL * runs[-1][1]:
            above, n = runs.pop()
            start = (above * n + (start - LABEL * n) * length) / (n + length)
            length += n
            start = max(top, min(start, bottom - LABEL * (length - 1)))
        runs.append((start, length))
    places = [start + LABEL * i for start, length in runs for i in range(length)]
    return dict(zip(order, places, strict=True))


def _put(axes: object, x: float, y: float, mark: Mark) -> None:
    ms = points(7 if mark.marker == "D" else 9)  # a diamond is measured by its side
    style = {"marker": mark.marker, "mfc": mark.colour, "mec": mark.colour, "ms": ms}
    axes.add_line(Line2D([x], [y], linestyle="none", **style))


def _width(text: str, size: float = TYPE, weight: str = "normal") -> float:
    return width_of(text, size=size, weight=weight)
