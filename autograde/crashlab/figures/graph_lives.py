"""The lives of a process that runs a graph: nodes as bars, what they did, where it was killed.

Time runs from left to right and, where a line is full, on in the next one. It is the order of the
records in the journal, not the clock: the same journal gives the same picture. Nodes that ran side
by side lie one below the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import nan

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.path import Path

from crashlab.figures.fit import width_of
from crashlab.figures.lives import ENDS
from crashlab.figures.style import (
    AMBER,
    BLUE,
    FAINT,
    INK,
    RED,
    SANS,
    Mark,
    Picture,
    canvas,
    html,
    points,
)
from crashlab.journal import Journal, Record
from crashlab.kill import BenchError, Life

TYPE, HEAD = 12, 15  # sizes of type; all lengths are pixels
WIDTH = 900  # of the widest figure
LEFT, TOP, EDGE = 66, 42, 12
RIGHT = WIDTH - EDGE - 20  # where a line is full; the mark of a kill may come behind
BAR, LANE = 26, 30  # height of a bar, and from one bar to the one below it
LINE, LIFE = 6, 14  # room between the lines of a life, and between two lives
PAD = 8  # beside a text in a bar
STEP = 10  # at least from one record to the next, so that their order shows
MARK = 18  # room for a mark
LONGEST_NODE, LONGEST_WORD, LONGEST_END = 32, 44, 100  # letters
KEPT = 30  # of a life with more than twice as many steps, the first and the last that are drawn

DONE, AGAIN, RAISED = Mark("o", BLUE), Mark("D", RED), Mark("v", AMBER)
PAUSED = Mark(
    Path.make_compound_path(
        Path([(-0.7, -1), (-0.7, 1), (-0.3, 1), (-0.3, -1), (-0.7, -1)]),
        Path([(0.3, -1), (0.3, 1), (0.7, 1), (0.7, -1), (0.3, -1)]),
    ),
    INK,
)

KEY = [(AGAIN, "had been done before"), (PAUSED, "paused by an interrupt")]

Lives = Sequence[Sequence[Record]]
Step = list[tuple[Record, bool]]  # records, each with whether its effect had been done before


def graph_lives(
    journal: Journal | Lives,
    ends: Sequence[Life | None] | None = None,
    title: str = "Lives of the graph",
) -> Picture:
    """Show what became of each process that ran a graph, from a journal or the lives it returns.

    `ends` are what `launch` returned for these lives, in the same order; `None` for a process that
    it did not launch. An effect that was done before, in this life or an earlier one, is red.

    Raises `BenchError` if there are not as many ends as lives. A process that wrote nothing is not
    in the journal: insert an empty list for it, and give the lives in place of the journal.
    """
    torn = 0
    if isinstance(journal, Journal):
        journal, torn = journal.lives(), journal.torn()
    words = tell(journal, ends, title, torn)
    return Picture(html(draw(journal, ends, title, torn), " ".join(words)), "\n".join(words))


def draw(
    lives: Lives, ends: Sequence[Life | None] | None, title: str, torn: int = 0, ink: str = INK
) -> Figure:
    """Draw the lives; `torn` is the number of records that could not be read."""
    layouts = [_layout(steps, end) for steps, end in _pairs(lives, ends)]
    marks = [sign.mark for layout in layouts for sign in layout.signs]
    key = [(mark, meaning) for mark, meaning in KEY if mark in marks]
    key += [(None, _tell_torn(torn))] if torn else []
    rights = [layout.right for layout in layouts]
    rights += [EDGE + _width(title, HEAD, "bold"), LEFT + sum(_room_of_key(*each) for each in key)]
    height = TOP + sum(layout.tops()[-1] + LIFE for layout in layouts) + (LANE if key else 0)
    figure, axes = canvas(max(rights) + EDGE, height)

    def write(x: float, y: float, text: str, size: float = TYPE, **style: object) -> None:
        style = {"color": ink, "family": SANS, "va": "center_baseline"} | style
        axes.text(x, y, text, size=points(size), parse_math=False, **style)

    def put(x: float, y: float, mark: Mark | None, word: str, **style: object) -> None:
        if mark:
            _draw_mark(axes, x, y, mark, ink)
        write(x + MARK / 2, y, word, **style)

    write(EDGE, 18, title, HEAD, weight="bold")
    y = TOP
    for number, layout in enumerate(layouts, 1):
        tops = [y + top for top in layout.tops()]
        write(EDGE, y + BAR / 2, f"life {number}", alpha=FAINT)
        for bar in layout.bars:
            top = tops[bar.line] + LANE * bar.lane
            _draw_bar(axes, bar, top, ink)
            write(bar.start + PAD, top + BAR / 2, bar.name, weight="bold")
        for sign in layout.signs:
            middle = tops[sign.line] + LANE * sign.lane + BAR / 2
            colour = ink if sign.colour == INK else sign.colour
            put(sign.x, middle, sign.mark, sign.word, color=colour)
        y = tops[-1] + LIFE
    x = LEFT
    for mark, meaning in key:
        put(x + MARK / 2, y + BAR / 2, mark, meaning, alpha=FAINT)
        x += _room_of_key(mark, meaning)
    return figure


def tell(lives: Lives, ends: Sequence[Life | None] | None, title: str, torn: int = 0) -> list[str]:
    """Return what the figure shows, in words: the title, and a sentence for each life."""
    said = [f"{title}."]
    for number, (steps, end) in enumerate(_pairs(lives, ends), 1):
        parts = [_tell_step(step) for step in steps] or ["nothing written"]
        ended = _tell_end(steps, end)
        said.append(f"Life {number}: {'; '.join([*parts, ended] if ended else parts)}.")
    return [*said, _tell_torn(torn)] if torn else said


# From records to steps, and to words


def _pairs(
    lives: Lives, ends: Sequence[Life | None] | None
) -> list[tuple[list[Step], Life | None]]:
    """Split each life where no node is running, so that nodes that overlap are in one step."""
    if ends is not None and len(ends) != len(lives):
        raise BenchError(
            f"there are {len(lives)} lives in the journal, but {len(ends)} ends; "
            "a process that wrote nothing has no life there"
        )
    seen: set[str] = set()
    found = []
    for records in lives:
        steps: list[Step] = []
        running: set[int] = set()
        for record in records:
            if not running:
                steps.append([])
            effect = record.what == "effect"
            steps[-1].append((record, effect and record.word in seen))
            if effect:
                seen.add(record.word)
            elif record.what == "entered":
                running.add(record.entry)
            else:
                running.discard(record.entry)
        found.append(_folded(steps))
    return list(zip(found, ends or [None] * len(lives), strict=True))


def _folded(steps: list[Step]) -> list[Step]:
    """Put a note in the place of what lies between the first and the last steps of a long life."""
    middle = [each for step in steps[KEPT:-KEPT] for each in step]
    if len(steps) <= 2 * KEPT:
        return steps
    nodes, effects = (sum(r.what == what for r, _ in middle) for what in ("entered", "effect"))
    again = sum(again for _, again in middle)
    note = f"… {nodes} more nodes with {effects} effects, {again or 'none'} of them done before …"
    return [*steps[:KEPT], [(Record(0, None, 0, "note", note), again > 0)], *steps[-KEPT:]]


def _not_ended(step: Step) -> list[str]:
    """Return the nodes that were entered in this step and did not end."""
    last = {record.entry: record for record, _ in step if record.node is not None}
    return [record.node for record in last.values() if record.what in ("entered", "effect")]


def _tell_step(step: Step) -> str:
    """Say of each node in a step what it did and how it ended."""
    said = []
    for entry in dict.fromkeys(record.entry for record, _ in step):
        mine = [each for each in step if each[0].entry == entry]
        did = [r.word + (" again" if again else "") for r, again in mine if r.what == "effect"]
        last = mine[-1][0]
        if last.what == "note":
            said.append(last.word)
        elif last.node is None:
            said.append(f"{', '.join(did)} outside any node")
        else:
            ends = {"left": "", "paused": " paused", "raised": f" raised {last.word}"}
            done = f" ({', '.join(did)})" if did else ""
            said.append(last.node + done + ends.get(last.what, " did not end"))
    return said[0] if len(said) == 1 else f"at the same time: {', '.join(said)}"


def _tell_end(steps: list[Step], end: Life | None) -> str:
    """Say how a life ended, as far as that is known."""
    if end is not None:
        return _short(str(end).removeprefix(f"{end.function} "), LONGEST_END)
    nodes = _not_ended(steps[-1]) if steps else []
    return f"ended inside {' and '.join(nodes)}" if nodes else ""


def _tell_torn(torn: int) -> str:
    return f"Left out: {torn} torn record{'s' * (torn > 1)}."


def _short(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


# From steps to places


@dataclass
class _Bar:
    """A node, or the piece of it that lies in one line."""

    line: int
    lane: int
    start: float
    name: str
    begins: bool = True  # here, and not in the line above
    end: float = 0
    ends: bool = True  # here, and neither in the line below nor by a kill


@dataclass(frozen=True)
class _Sign:
    """A mark, and the word behind it."""

    line: int
    lane: float
    x: float
    mark: Mark | None
    word: str = ""
    colour: str = INK  # of the word


@dataclass(frozen=True)
class _Layout:
    """Where the bars and signs of one life go."""

    bars: list[_Bar]
    signs: list[_Sign]

    def tops(self) -> list[float]:
        """Return the upper edge of each line, and the lower edge of the last."""
        lanes: dict[int, int] = {0: 1}
        for each in [*self.bars, *self.signs]:
            lanes[each.line] = max(lanes.get(each.line, 1), int(each.lane) + 1)
        heights = [lanes[line] * LANE + LINE for line in sorted(lanes)]
        return [sum(heights[:i]) for i in range(len(heights) + 1)]

    @property
    def right(self) -> float:
        """How far the longest line goes."""
        words = [sign.x + MARK / 2 + _width(sign.word) for sign in self.signs]
        return max([LEFT, *words, *(bar.end for bar in self.bars)])


def _layout(steps: list[Step], end: Life | None) -> _Layout:
    layout = _Layout([], [])
    line, x = 0, float(LEFT)
    for step in steps:
        bars, signs, last, right = _place(step, line, x)
        if last > line and x > LEFT:  # it does not fit here, so give it a line of its own
            bars, signs, last, right = _place(step, line + 1, LEFT)
        layout.bars.extend(bars)
        layout.signs.extend(signs)
        line, x = last, right
    mark = ENDS[end.end] if end else ENDS["killed"]
    cut = [bar for bar in layout.bars if bar.line == line and not bar.ends]
    if mark is not ENDS["finished"]:
        layout.signs.extend(_Sign(line, bar.lane, bar.end, mark) for bar in cut)
    text = _tell_end(steps, end)
    lane = 0.0
    if x + MARK + _width(text) > WIDTH - EDGE:
        line, x, cut = line + 1, LEFT, []
    elif cut:  # beside its marks
        lane = sum(bar.lane for bar in cut) / len(cut)
    if text:
        shown = None if cut or mark is ENDS["finished"] else mark
        x += MARK / 2 if shown else 0
        layout.signs.append(_Sign(line, lane, x, shown, text, mark.colour))
    return layout


def _place(step: Step, line: int, x: float) -> tuple[list[_Bar], list[_Sign], int, float]:
    """Place a step from x on; return its bars and signs, and the line and x where it ends."""
    bars: list[_Bar] = []
    signs: list[_Sign] = []
    running: dict[int, _Bar] = {}
    free: dict[int, float] = {}  # where the next thing in a lane can be
    time = x - STEP

    def spot(entry: int, before: float) -> tuple[int, float]:
        taken = [bar.lane for bar in running.values()]
        free_lanes = (lane for lane in count() if lane not in taken)
        lane = running[entry].lane if entry in running else next(free_lanes)
        return lane, max(time + STEP, free.get(lane, x) + before)

    for record, again in step:
        word, before, behind = _room(record)
        lane, at = spot(record.entry, before)
        if at + behind > RIGHT:
            line, x, time, free = line + 1, LEFT, LEFT - STEP, {}
            for lane, (entry, bar) in enumerate(list(running.items())):
                bar.end, bar.ends = RIGHT, False
                name = bar.name if bar.name.startswith("… ") else f"… {bar.name}"
                running[entry] = _Bar(line, lane, LEFT, name, begins=False)
                free[lane] = LEFT + _width(name, weight="bold") + 2 * PAD
            bars.extend(running.values())
            lane, at = spot(record.entry, before)
        time = at
        free[lane] = at + behind
        if record.what == "entered":
            running[record.entry] = _Bar(line, lane, at, word)
            bars.append(running[record.entry])
        elif record.what == "effect":
            mark, colour = (AGAIN, RED) if again else (DONE, INK)
            signs.append(_Sign(line, lane, at, mark, word, colour))
        elif record.what == "note":
            signs.append(_Sign(line, lane, at - MARK / 2, None, word, RED if again else INK))
        else:
            running.pop(record.entry).end = at
            free[lane] = at + STEP
            if record.what != "left":
                mark = PAUSED if record.what == "paused" else RAISED
                signs.append(_Sign(line, lane, at - before + MARK / 2, mark, word, mark.colour))
    if running:  # when its process ended
        time = max(time + STEP, *(free[bar.lane] + MARK / 2 for bar in running.values()))
        for bar in running.values():
            bar.end, bar.ends = time, False
    return bars, signs, line, max(time + STEP, *free.values())


def _room(record: Record) -> tuple[str, float, float]:
    """Return the text of a record, and the room it takes on both sides of its moment."""
    if record.what == "entered":
        name = _short(record.node, LONGEST_NODE)
        return name, 0, _width(name, weight="bold") + 2 * PAD
    if record.what in ("left", "paused"):
        return "", MARK if record.what == "paused" else 0, 0
    if record.what == "note":
        return record.word, 0, _width(record.word) + STEP
    word = _short(record.word, LONGEST_WORD)
    if record.what == "raised":
        return word, MARK + _width(word) + PAD, 0
    return word, MARK / 2, MARK / 2 + _width(word) + PAD


def _width(text: str, size: float = TYPE, weight: str = "normal") -> float:
    """Return the width of a line of text in pixels."""
    return width_of(text, size, weight=weight)


def _room_of_key(mark: Mark | None, meaning: str) -> float:
    return (MARK if mark else 0) + _width(meaning) + 2 * MARK


# From places to a picture


def _draw_bar(axes: object, bar: _Bar, top: float, ink: str) -> None:
    """Draw a bar; a side at which the node neither begins nor ends is open."""
    axes.add_patch(Rectangle((bar.start, top), bar.end - bar.start, BAR, fc=ink, alpha=0.08, lw=0))
    low, gap = top + BAR, (nan, nan)
    edge = [(bar.end, top), (bar.start, top), (bar.start, low), (bar.end, low)]
    if not bar.begins:
        edge.insert(2, gap)
    if bar.ends:
        edge.append(edge[0])
    axes.add_line(Line2D(*zip(*edge, strict=True), color=ink, alpha=0.5, lw=points(1.2)))


def _draw_mark(axes: object, x: float, y: float, mark: Mark, ink: str) -> None:
    colour = ink if mark.colour == INK else mark.colour
    size = points(7 if mark.marker == "D" else 10)  # a diamond is measured by its side
    style = {"marker": mark.marker, "mfc": colour, "mec": colour, "ms": size}
    axes.add_line(Line2D([x], [y], linestyle="none", **style))
