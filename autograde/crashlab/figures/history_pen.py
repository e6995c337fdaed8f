"""The drawing of a thread whose checkpoints have their places."""

import math

from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Curve

from crashlab.figures.fit import LINE, SMALL, TYPE, advance, families, width_of
from crashlab.figures.history_places import CELL, MARGIN, NAME, TURN, Block, Plan, Spot, channels
from crashlab.figures.history_text import shortened, value_in
from crashlab.figures.style import (
    AMBER,
    BLUE,
    FAINT,
    GREY,
    INK,
    MONO,
    PURPLE,
    RED,
    SANS,
    Mark,
    points,
)
from crashlab.history import Checkpoint

REACH = 9  # from the middle of a checkpoint's mark to where a line begins
GAP = 30  # half of what is left out of a line where steps are folded

SOURCES = {
    "input": Mark("s", GREY),
    "loop": Mark("o", BLUE),
    "update": Mark("D", PURPLE),
    "fork": Mark(">", PURPLE),
}
ERROR = Mark("X", RED)
WRITES = {
    "channel of the state": Mark("s", BLUE),
    "channel of LangGraph": Mark("s", GREY, filled=False),
    "question or answer": Mark("d", AMBER),
    "error": ERROR,
}


class Pen:
    """Writes and draws on axes whose unit is the pixel, in the ink where no colour is given."""

    def __init__(self, axes: object, ink: str) -> None:
        self.axes, self.ink = axes, ink

    def write(
        self,
        x: float,
        y: float,
        text: str,
        size: float = TYPE,
        faint: bool = False,
        colour: str = INK,
        **style: object,
    ) -> None:
        """Write a line of text whose middle is at height `y`."""
        family = style.pop("family", SANS)
        weight = style.get("weight", "normal")
        text = "".join(each if advance(each, family, weight) else "□" for each in text)
        style |= {"family": families(family), "va": "center_baseline"}
        style |= {"color": self.ink if colour == INK else colour, "alpha": FAINT if faint else 1}
        self.axes.text(x, y, text, size=points(size), parse_math=False, **style)

    def line(self, *places: tuple[float, float], colour: str, dashed: bool = False) -> None:
        """Draw a line through places; its corners are round."""
        curve, codes = [places[0]], [Curve.MOVETO]
        for before, corner, after in zip(places, places[1:], places[2:], strict=False):
            curve += [_near(corner, before), corner, _near(corner, after)]
            codes += [Curve.LINETO, Curve.CURVE3, Curve.CURVE3]
        self.curve(Curve([*curve, places[-1]], [*codes, Curve.LINETO]), colour, dashed)

    def curve(self, path: Curve, colour: str, dashed: bool = False) -> None:
        """Draw a path."""
        style = {"ls": (0, (2.5, 1.8))} if dashed else {}
        self.axes.add_patch(PathPatch(path, fc="none", ec=colour, lw=points(1.8), **style))

    def box(self, x: float, y: float, width: float, height: float, **style: object) -> None:
        """Draw a filled rectangle."""
        self.axes.add_patch(Rectangle((x, y), width, height, lw=0, **style))

    def mark(self, x: float, y: float, mark: Mark, size: float, **style: object) -> None:
        """Draw a mark."""
        size = size * 0.78 if mark.marker == "D" else size  # a diamond is measured by its side
        face = mark.colour if mark.filled else "none"
        style = {"marker": mark.marker, "mfc": face, "mec": mark.colour, "mew": points(1.6)} | style
        self.axes.add_line(Line2D([x], [y], ms=points(size), linestyle="none", **style))


def _near(corner: tuple[float, float], place: tuple[float, float]) -> tuple[float, float]:
    """Return the place eight pixels from a corner, or half-way if that is nearer."""
    part = min(0.5, 8 / max(math.dist(corner, place), 1))
    return tuple(c + (p - c) * part for c, p in zip(corner, place, strict=True))


def draw_block(pen: Pen, plan: Plan, block: Block) -> None:
    """Draw a row of the picture."""
    for (x, y), (lane, number) in block.folds.items():
        if any((spot.x, spot.y) == (x - plan.column, y) for spot in block.spots.values()):
            start = x - plan.column + REACH
            pen.line((start, y), (x - GAP, y), colour=GREY if lane else BLUE)
        for shift in (-16, 0, 16):
            pen.mark(x + shift, y, Mark("o", GREY if lane else BLUE), 3)
        pen.write(x, y - 19, f"… {number} steps …", faint=True, ha="center")
    for owner, y, name in block.hooks:
        _draw_hook(pen, plan, block, owner, y, name)
    for spot in block.spots.values():
        _draw_edge(pen, plan, block, spot)
        _draw_open(pen, spot)
        _draw_spot(pen, plan, spot)
    if block.table_y:
        _draw_table(pen, plan, block)


def _colour(each: Checkpoint) -> str:
    """Return the colour of the edge that leads to a checkpoint."""
    if each.source in ("update", "fork"):
        return PURPLE
    return GREY if each.lane or each.source == "input" else BLUE


def _draw_edge(pen: Pen, plan: Plan, block: Block, spot: Spot) -> None:
    """Draw the edge to a checkpoint with what ran on it, and an edge that leaves the row."""
    each, x, y = spot.checkpoint, spot.x, spot.y
    colour, dashed = _colour(each), each.source != "loop"  # dashed where no node ran
    parent = block.spots.get(each.parent)
    before, end = x - plan.column, x - REACH - (2 if each.finished else 0)
    start = before + REACH
    if parent and parent.y != y:
        turn = parent.x + TURN
        way = [(parent.x + REACH - 2, parent.y), (turn, parent.y), (turn, y), (end, y)]
        pen.line(*way, colour=colour, dashed=dashed)
        start = turn
    elif parent:
        start = parent.x + REACH
        for path in _strands(start, end, y, len(each.ran)):
            pen.curve(path, colour, dashed)
    elif each.parent:
        start = before + GAP if (before, y) in block.folds else max(start, 2)
        pen.line((start, y), (end, y), colour=colour, dashed=dashed)
        start = before + REACH
    for i, text in enumerate(spot.along):
        tint = colour if colour == PURPLE else INK
        pen.write((start + end) / 2, y + 15 + 13 * i, text, ha="center", colour=tint)
    after = any(child not in block.spots for child in each.children)
    if after and (x + plan.column, y) not in block.folds:
        pen.line((x + REACH, y), (x + plan.column / 2, y), colour=GREY if each.lane else BLUE)
    elif not each.children and not each.finished and not spot.open:
        pen.line((x + REACH, y), (x + REACH + 20, y), colour=GREY, dashed=True)


def _strands(start: float, end: float, y: float, number: int) -> list[Curve]:
    """Return a line from start to end, or several beside each other where tasks ran in parallel."""
    if number < 2:
        return [Curve([(start, y), (end, y)])]
    bend = (end - start) / 4
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    return [
        Curve([(start, y), (start + bend, y + rise), (end - bend, y + rise), (end, y)], codes)
        for rise in ((-7, 7) if number == 2 else (-9, 0, 9))
    ]


def _draw_spot(pen: Pen, plan: Plan, spot: Spot) -> None:
    """Draw a checkpoint with what is written above and below it."""
    each, x, y = spot.checkpoint, spot.x, spot.y
    draw_sign(pen, x, y, each.source, hollow=any(task.questions for task in each.tasks))
    if each.finished:
        pen.mark(x, y, Mark("o", BLUE, filled=False), 20)
    for i, line in enumerate(reversed(spot.above)):
        pen.write(x, y - 19 - LINE * i, line.text, faint=line.faint, ha="center")
    if spot.below and plan.telling.state:
        tint = spot.below[0].colour
        height = spot.text_y - y - REACH - 4
        pen.box(x - 0.6, y + REACH, 1.2, height, fc=GREY if tint == INK else tint, alpha=0.5)
    left = x - plan.column / 2 + 6
    for i, line in enumerate(spot.below):
        at = spot.text_y + 5 + LINE * i
        style = {"faint": line.faint, "colour": line.colour}
        if line.sign:
            draw_sign(pen, left + 5, at, line.sign)
        if plan.telling.state:
            pen.write(x, at, line.text, ha="center", **style)
        else:
            pen.write(left + (14 if line.sign else 0), at, line.text, **style)


def _draw_open(pen: Pen, spot: Spot) -> None:
    """Draw the tasks of a step that is not complete: half a mark for each that has a result."""
    x, y = spot.x, spot.y
    for tasks, lines in spot.open:
        turn = [] if y == spot.y else [(x + TURN, spot.y), (x + TURN, y)]
        pen.line((x + REACH, spot.y), *turn, (x + 28, y), colour=GREY, dashed=True)
        shown = min(tasks.number, 3)
        for i in range(shown):
            draw_sign(pen, x + 34 + 13 * i, y, tasks.sign)
        for i, text in enumerate(lines):
            colour = RED if tasks.sign == "failed" else INK
            pen.write(x + 32 + 13 * shown, y + LINE * i, text, colour=colour)
        y += LINE * len(lines) + 6


def _draw_hook(pen: Pen, plan: Plan, block: Block, owner: Spot, y: float, name: str) -> None:
    """Draw the line from a step to the subgraph that ran in it, and the subgraph's name."""
    following = [block.spots[c] for c in owner.checkpoint.children if c in block.spots]
    beside = next((spot for spot in following if spot.y == owner.y), None)
    x = owner.x + plan.column / 2
    if beside:
        way = [(x, owner.y + 12 + 13 * len(beside.along))]
    elif owner.open:
        way = [(x, owner.y + owner.open_height)]
    else:
        way = [(owner.x + REACH, owner.y), (x, owner.y)]
    pen.line(*way, (x, y), (x + 12, y), colour=GREY, dashed=True)
    pen.write(x + 16, y, name, weight="bold", faint=True)


def _draw_table(pen: Pen, plan: Plan, block: Block) -> None:
    """Draw the state: a row for each channel, a column for each checkpoint of the main lane."""
    names = channels(plan.thread)
    width = plan.column - 6
    own = plan.thread.of("")
    main = {c.step: c for c in own if not c.lane}
    for row, name in enumerate(names, 1):
        y = block.table_y + CELL * (row + 0.5)
        pen.write(MARGIN, y, shortened(name, NAME), size=SMALL, family=MONO)
    for i, part in enumerate(block.steps):
        x = block.left + plan.column * (i + 0.5)
        head = f"step {part[0]}" if len(part) == 1 else f"{part[0]} … {part[-1]}"
        if any(c.step in part for c in own):
            pen.write(x, block.table_y + CELL / 2, head, faint=True, ha="center")
        each = main.get(part[0])
        if len(part) > 1 or not each:
            continue
        for row, name in enumerate(names, 1):
            if name not in each.values and name not in each.before:
                continue
            y = block.table_y + CELL * row
            changed = name in each.changed
            fill = {"fc": BLUE, "alpha": 0.26} if changed else {"fc": GREY, "alpha": 0.1}
            pen.box(x - width / 2, y + 1, width, CELL - 2, **fill)
            text = value_in(each, name, int((width - 6) / width_of("m", SMALL, MONO)))
            style = {"size": SMALL, "family": MONO, "faint": not changed, "ha": "center"}
            pen.write(x, y + CELL / 2, text, **style)


def draw_sign(pen: Pen, x: float, y: float, sign: str, hollow: bool = False) -> None:
    """Draw a sign by its name: of a source, of a pause, of the end, of what a task left."""
    if sign == "pause":
        sign, hollow = "loop", True
    if sign in SOURCES:
        pen.mark(x, y, SOURCES[sign], 13, **({"mfc": "none"} if hollow else {}))
    if hollow:
        x -= 2.4 if sign == "fork" else 0  # a triangle has its room on the left
        for shift in (-3.4, 1.2):
            pen.box(x + shift, y - 3.2, 2.2, 6.4, fc=AMBER)
    if sign == "end":
        pen.mark(x, y, Mark("o", BLUE), 6)
        pen.mark(x, y, Mark("o", BLUE, filled=False), 13)
    if sign == "saved":
        half = {"fillstyle": "left", "mfc": BLUE, "markerfacecoloralt": "none"}
        pen.mark(x, y, Mark("o", BLUE), 11, **half)
    if sign == "no result":
        pen.mark(x, y, Mark("o", GREY, filled=False), 11)
    if sign == "failed":
        pen.mark(x, y, ERROR, 10)
    if sign in WRITES:
        pen.mark(x, y, WRITES[sign], 7)


def legend_of(spots: list[Spot]) -> list[tuple[str, str]]:
    """Return the signs that a figure uses, each with what it means."""
    each = [spot.checkpoint for spot in spots]
    found = [(source, source) for source in SOURCES if any(c.source == source for c in each)]
    if any(task.questions for c in each for task in c.tasks):
        found.append(("pause", "interrupt"))
    if any(c.finished for c in each):
        found.append(("end", "end"))
    signs = {tasks.sign for spot in spots for tasks, _ in spot.open}
    texts = {"saved": "result saved (pending write)", "failed": "failed", "no result": "no result"}
    found += [(sign, text) for sign, text in texts.items() if sign in signs]
    written = {line.sign for spot in spots for line in spot.below}
    return found + [(sign, sign) for sign in WRITES if sign in written]
