"""The crash map: your source, and one mark for each kill on the line it fell before."""

import ast
import linecache
from collections import Counter
from itertools import groupby

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from crashlab.explore import HARMLESS, Kill, Report, alternative
from crashlab.figures.style import (
    FAINT,
    GREY,
    INK,
    MARKS,
    MONO,
    OTHER,
    RED,
    SANS,
    Picture,
    canvas,
    html,
    points,
)
from crashlab.source import Line

ROW = 21  # heights and widths are pixels
TYPE = 12.5  # size of type
LETTER = TYPE * 0.602  # width of a letter of the fixed-width face
STEP = 15  # from one mark to the next
MOST_MARKS = 8  # in one row; where kills are more, a mark stands for several and has a number
MOST_RUNS = 4
SHORTEST, LONGEST = 40, 76  # letters of a source line that are shown
BESIDE = 40  # the same, where two maps share a page


def crash_map(
    report: Report, title: str | None = None, ink: str = INK, most_letters: int = LONGEST
) -> Figure:
    """Draw a report. The width follows from the longest line and the most marks in a row.

    A line of source is cut after `most_letters`.
    """
    kills = report.lines
    rows = _rows(report)
    shown = [text for line, text in rows if line in kills or text.lstrip().startswith("def ")]
    longest = max(map(len, shown), default=0)
    longest = min(max(longest, SHORTEST), most_letters)
    marks = {line: _marks(found) for line, found in kills.items()}
    notes = {line: _note(found) for line, found in kills.items()}
    title = title or _title(report)

    code_x = 52
    code_end = code_x + LETTER * longest
    marks_x = code_end + 34
    notes_x = marks_x + STEP * max(map(_width, marks.values()), default=0) + 12
    width = max(
        notes_x + 7.8 * max(map(len, notes.values()), default=0) + 14,
        7.9 * len(title) + 30,
        6.8 * len(_subtitle(report)) + 30,
    )
    top = 62
    height = top + ROW * len(rows) + 46
    figure, axes = canvas(width, height)

    def write(x: float, y: float, text: str, size: float = TYPE, **style: object) -> None:
        style = {"color": ink, "family": SANS, "va": "center_baseline"} | style
        axes.text(x, y, text, size=points(size), parse_math=False, **style)

    write(10, 16, title, 15, weight="bold")
    write(10, 39, _subtitle(report), alpha=FAINT)
    window = set(report.window)
    for i, (line, text) in enumerate(rows):
        y = top + ROW * (i + 0.5)
        if line is None:
            continue
        if line in window:
            axes.add_patch(Rectangle((10, y - ROW / 2), code_end, ROW, fc=RED, alpha=0.16, lw=0))
            axes.add_patch(Rectangle((10, y - ROW / 2), 3, ROW, fc=RED, lw=0))
        write(40, y, str(line[1]), family=MONO, ha="right", alpha=FAINT)
        write(code_x, y, _short(text, longest), family=MONO, alpha=1 if line in kills else FAINT)
        x = marks_x
        for outcome, number in marks.get(line, []):
            _draw(axes, x, y, outcome, _colour(report, outcome))
            if number > 1:
                write(x + 10, y, f"×{number}", 11)
            x += STEP * _width([(outcome, number)])
        if line in kills:
            outcomes = [kill.outcome for kill in kills[line]]
            worst = next((word for word in outcomes if word not in HARMLESS), outcomes[0])
            write(notes_x, y, notes[line], color=_colour(report, worst))
    x, y = 18, height - 18
    for outcome, number in report.counts.most_common():
        _draw(axes, x, y, outcome, _colour(report, outcome))
        write(x + 13, y, f"{outcome} {number}")
        x += 13 + 7.6 * len(f"{outcome} {number}") + 22
    return figure


def side_by_side(reports: dict[str, Report]) -> Picture:
    """Show crash maps next to each other, or one below the other where the page is narrow."""
    maps = []
    for title, report in reports.items():
        figure = crash_map(report, title, most_letters=BESIDE)
        width = figure.get_size_inches()[0] * figure.dpi
        room = f"flex:{width:.0f} 1 0;min-width:{0.62 * width:.0f}px;max-width:{width:.0f}px"
        maps.append(f'<div style="{room}">{html(figure, alternative(report))}</div>')
    markup = f'<div style="display:flex;flex-wrap:wrap;gap:20px">{"".join(maps)}</div>'
    return Picture(markup, "\n\n".join(f"{title}\n{report}" for title, report in reports.items()))


def _rows(report: Report) -> list[tuple[Line | None, str]]:
    """Return the source of the functions in which kills fell, an empty row between two."""
    rows: list[tuple[Line | None, str]] = []
    for file, group in groupby(report.lines, key=lambda line: line[0]):
        source = linecache.getlines(file)
        wanted = [number for _, number in group]
        for _, first, last in _blocks("".join(source), wanted):
            block = [source[n - 1].rstrip("\n") for n in range(first, last + 1)]
            indent = min((len(t) - len(t.lstrip()) for t in block if t.strip()), default=0)
            rows += [(None, "")] if rows else []
            rows += [((file, first + i), text[indent:]) for i, text in enumerate(block)]
    return rows


def _blocks(source: str, wanted: list[int]) -> list[tuple[str, int, int]]:
    """Return name, first and last line of the outermost functions that hold the wanted lines."""
    tree = ast.parse(source)
    found = []
    for node in tree.body:
        functions = [node] if not isinstance(node, ast.ClassDef) else node.body
        for function in functions:
            first = min(
                [function.lineno, *(d.lineno for d in getattr(function, "decorator_list", []))]
            )
            if any(first <= line <= function.end_lineno for line in wanted):
                found.append((getattr(function, "name", ""), first, function.end_lineno))
    return found


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _marks(kills: list[Kill]) -> list[tuple[str, int]]:
    """Return the marks of a row, each with a number: of kills, of a run of equals, or in all."""
    if len(kills) <= MOST_MARKS:
        return [(kill.outcome, 1) for kill in kills]
    runs = [(outcome, len(list(run))) for outcome, run in groupby(kill.outcome for kill in kills)]
    return runs if len(runs) <= MOST_RUNS else list(Counter(kill.outcome for kill in kills).items())


def _width(marks: list[tuple[str, int]]) -> float:
    """Return the width of a row of marks in steps; a number is as wide as its digits."""
    return sum(1 if number == 1 else 2 + 0.55 * len(str(number)) for _, number in marks)


def _note(kills: list[Kill]) -> str:
    """Return the outcomes of a row in words; with their numbers, unless the marks have them."""
    found = Counter(kill.outcome for kill in kills)
    if len(found) == 1 or len(kills) > MOST_MARKS:
        return ", ".join(found)
    return ", ".join(f"{number} {outcome}" for outcome, number in found.items())


def _title(report: Report) -> str:
    where = "within every line" if report.fine else "before every line"
    return f"{report.name}: killed {where}" + (", then restarted" if report.restarted else "")


def _subtitle(report: Report) -> str:
    kills = "1 kill" if len(report.kills) == 1 else f"{len(report.kills)} kills"
    if report.uninterrupted not in report.harmless:
        return f"{report.uninterrupted!r} even when nobody kills it: no kills."
    if report.clean:
        allowed = [word for word in report.counts if word not in HARMLESS]
        rule = f" Allowed here: {', '.join(allowed)}." if allowed else ""
        return f"{kills} by SIGKILL. None did harm.{rule}"
    return f"{kills} by SIGKILL. Crash window: {_spans(report)}."


def _spans(report: Report) -> str:
    """Return the lines of the crash window, with the names of their functions if it has several."""
    # consecutive among the lines that ran, so that a blank line or an `else:` splits no window
    places = list(report.lines)
    names = {line: _function(line) for line in places}
    runs: list[list[Line]] = []
    for line in report.window:
        last = runs[-1][-1] if runs else None
        follows = last and places.index(line) == places.index(last) + 1
        if follows and names[line] == names[last]:
            runs[-1].append(line)
        else:
            runs.append([line])
    spans: dict[str, list[str]] = {}
    for run in runs:
        first, last = run[0][1], run[-1][1]
        spans.setdefault(names[run[0]], []).append(
            f"{first}" if first == last else f"{first}–{last}"
        )
    if len(set(names.values())) > 1:
        return "; ".join(f"{name} {', '.join(found)}" for name, found in spans.items())
    word = "line" if len(report.window) == 1 else "lines"
    return f"{word} {', '.join(next(iter(spans.values())))}"


def _function(line: Line) -> str:
    """Return the name of the outermost function that holds a line."""
    file, number = line
    for name, first, last in _blocks("".join(linecache.getlines(file)), [number]):
        if first <= number <= last:
            return name
    return ""


def _colour(report: Report, outcome: str) -> str:
    """Return the outcome's colour; damage that the exercise allows is grey."""
    allowed = outcome in report.harmless and outcome not in HARMLESS
    return GREY if allowed else MARKS.get(outcome, OTHER).colour


def _draw(axes: object, x: float, y: float, outcome: str, colour: str) -> None:
    mark = MARKS.get(outcome, OTHER)
    face = colour if mark.filled else "none"
    size = points(7 if mark.marker == "D" else 9)  # a diamond is measured by its side
    style = {"marker": mark.marker, "mfc": face, "mec": colour, "ms": size, "mew": 1.4}
    axes.add_line(Line2D([x], [y], linestyle="none", **style))
