"""The history of a thread, drawn from its checkpoints: a track for each branch, then the state.

Steps go from left to right. `history` asks the graph, `rows` reads the tables of a SQLite file. How
it is made: `crashlab.history` reads, `lay_out` gives every checkpoint its place, `track` draws.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Curve

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
    Picture,
    canvas,
    html,
    points,
)
from crashlab.history import CONTROL, Checkpoint, History, Question, Task, read_history, read_rows

WIDTH = 880  # the most that a figure takes; all lengths are pixels
MARGIN = 12
HEAD, TYPE, SMALL = 15, 11.5, 11  # sizes of type
LINE = 14  # from one line of text to the next
REACH = 9  # from the middle of a checkpoint's mark to where a line begins
TURN = 15  # from a checkpoint to where its branches go up
GAP = 30  # half of what is left out of a line where steps are folded
NAME, SAID = 18, 160  # letters of a channel's name, of a question or an error that are shown
CELL = 20  # height of a cell of the table
NARROWEST, BROADEST = 100, 150  # of columns
LONG = 16  # a thread of more steps is folded
ENDS = 3  # steps that stay at both ends of a folded thread

CHINESE = ("Noto Sans CJK SC", "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC", "STHeiti")

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


@dataclass(frozen=True)
class Line:
    """A line of text at a checkpoint; a mark may stand before it.

    What is too long goes on in further lines if it is `wrapped`, else its middle is left out.
    """

    text: str
    colour: str = INK
    faint: bool = False
    mark: Mark | None = None
    wrapped: bool = False


@dataclass(frozen=True)
class Open:
    """Tasks of a step that is not complete, which are alike: how many, and what became of them."""

    name: str
    number: int
    sign: str  # "saved", "failed" or "no result"
    error: str

    def __str__(self) -> str:
        return f"{self.name}: {self.error if self.sign == 'failed' else self.sign}"


@dataclass(frozen=True)
class Telling:
    """What is written above a checkpoint, along the edge to it, and below it."""

    above: Callable[[Checkpoint], Line]
    along: Callable[[Checkpoint], list[str]]
    below: Callable[[Checkpoint], list[Line]]
    open: Callable[[Checkpoint], list[Open]]
    state: bool  # whether the state is shown as a table


@dataclass(frozen=True)
class Spot:
    """A checkpoint with its place and its texts; `text_y` is where those below it begin."""

    checkpoint: Checkpoint
    x: float
    y: float
    text_y: float
    above: list[Line]
    along: list[str]
    below: list[Line]
    open: list[tuple[Open, list[str]]]


@dataclass(frozen=True)
class Plan:
    """What is drawn, how, and how wide a column is."""

    thread: History
    telling: Telling
    column: float

    @property
    def tail(self) -> float:
        """The room right of a checkpoint for the tasks of a step that is not complete."""
        return max(1.3 * self.column, 250)


@dataclass
class Block:
    """One row of the picture: tracks, and the table below them if the state is shown."""

    steps: list[range]
    left: float
    spots: dict[str, Spot] = field(default_factory=dict)
    folds: dict[tuple[float, float], tuple[int, int]] = field(default_factory=dict)  # lane, steps
    hooks: list[tuple[Spot, float, str]] = field(default_factory=list)  # owner, y, name of subgraph
    table_y: float = 0


def history(graph: object, config: dict, title: str | None = None) -> Picture:
    """Show the thread that `config` names, as the graph's checkpointer has it.

    Raises ValueError if the graph has no checkpointer or the config no `thread_id`.
    """
    thread = read_history(graph, config)
    title = title or _title(thread)
    text = words(thread, title)
    return Picture(html(track(thread, title), text), text)


def histories(threads: dict[str, History | tuple[object, dict]]) -> Picture:
    """Show several threads below each other, with equal steps below each other.

    `threads` has a graph and a config for each title, or a `History` that was read earlier with
    `read_history`, for instance before a kill.
    """
    read = {
        title: thread if isinstance(thread, History) else read_history(*thread)
        for title, thread in threads.items()
    }
    steps = columns([each for thread in read.values() for each in thread.of("")])
    drawn = tracks(read, steps)
    texts = {title: words(thread, title, steps) for title, thread in read.items()}
    return Picture(
        "".join(f"<div>{html(drawn[title], texts[title])}</div>" for title in read),
        "\n\n".join(texts.values()),
    )


def rows(path: Path | str, thread_id: str, title: str | None = None) -> Picture:
    """Show a thread as it lies in the tables `checkpoints` and `writes` of a SQLite file.

    Raises FileNotFoundError if there is no file, and ValueError if it has no such tables.
    """
    thread = read_rows(path, thread_id)
    saved, written = len(thread.checkpoints), sum(len(c.writes) for c in thread.checkpoints)
    title = title or (
        f"Thread {thread_id} in {Path(path).name}: "
        f"{_count(saved, 'row')} in checkpoints, {written} in writes"
    )
    text = row_words(thread, title)
    return Picture(html(track(thread, title, ROWS), text), text)


def track(
    thread: History,
    title: str,
    telling: Telling | None = None,
    steps: list[range] | None = None,
    sizes: tuple[float, float] | None = None,
    ink: str = INK,
) -> Figure:
    """Draw a thread.

    `steps` are the columns, and `sizes` the width of a column and of what is left of the first.
    Both follow from the thread if they are not given.
    """
    telling = telling or STATE
    steps = columns(thread.of("")) if steps is None else steps
    column, left = sizes or measure(thread, steps, telling)
    plan = Plan(thread, telling, column)
    room = WIDTH - 2 * MARGIN
    heading = [(line, HEAD, "bold") for line in _wrap(title, room, size=HEAD, weight="bold")]
    heading += [(line, TYPE, "normal") for line in _wrap(status(thread), room)]
    blocks, bottom = lay_out(plan, steps, left, 14 + 20 * len(heading))
    spots = [spot for block in blocks for spot in block.spots.values()]
    legend = _legend(spots, telling)
    right = [MARGIN + _width(text, size=size, weight=weight) for text, size, weight in heading]
    right += [spot.x + (plan.tail if spot.open else column / 2) for spot in spots]
    right += [x + column / 2 for block in blocks for x, _ in block.folds]
    right += [MARGIN + sum(_width(text) + 34 for _, text in legend)]
    figure, axes = canvas(max(right) + MARGIN, bottom + (24 if legend else 0))
    pen = Pen(axes, ink)
    for i, (text, size, weight) in enumerate(heading):
        pen.write(MARGIN, 18 + 20 * i, text, size=size, weight=weight, faint=size != HEAD)
    for block in blocks:
        _draw_block(pen, plan, block)
    x = MARGIN + 6
    for sign, text in legend:
        _draw_sign(pen, x, bottom + 10, sign)
        pen.write(x + 12, bottom + 10, text, faint=True)
        x += _width(text) + 34
    return figure


def tracks(threads: dict[str, History], steps: list[range]) -> dict[str, Figure]:
    """Draw threads so that equal steps are at equal places."""
    sizes = [measure(thread, steps, STATE) for thread in threads.values()]
    common = (max(column for column, _ in sizes), max(left for _, left in sizes))
    return {title: track(each, title, STATE, steps, common) for title, each in threads.items()}


# What is told of a thread


def status(thread: History) -> str:
    """Say in a sentence where a thread stands."""
    last = thread.newest
    if last is None:
        return f"Nothing saved under thread {thread.thread}."
    if last.missing:
        return f"Not finished: next is {_listed(last.missing)}, which this graph does not have."
    if last.finished:
        return "Finished."
    asked = [
        f"{task.name} asks {_plain(question.asked)!r}"
        for task in last.tasks
        for question in task.questions
        if not (task.finished or task.error)
    ]
    start = f"Paused: {'; '.join(asked)}" if asked else "Not finished"
    if not last.pending:
        return f"{start}." if asked else f"{start}: next is {_listed(last.waiting)}."
    begun = ", ".join(f"{tasks.name} {tasks.sign}" for tasks in _open(last))
    begun = begun.replace("no result", "without a result")
    return f"{start}. Step {last.step + 1} has begun: {begun}."


def words(thread: History, title: str, steps: list[range] | None = None) -> str:
    """Return a thread as text, a line for each checkpoint; folded steps are one line."""
    steps = columns(thread.of("")) if steps is None else steps
    lines = [title, status(thread)]
    folded = {column[0]: len(column) for column in steps if len(column) > 1}
    step = {each.id: each.step for each in thread.checkpoints}
    shown = _shown(thread, steps)
    for namespace in dict.fromkeys(each.namespace for each in shown):
        own = [each for each in shown if each.namespace == namespace]
        for lane in sorted({each.lane for each in own}):
            chain = [each for each in own if each.lane == lane]
            if namespace:
                lines.append(f"Subgraph {_called(namespace)} in step {step[chain[0].owner] + 1}")
            elif lane:
                lines.append("Branch")
            if lane and chain[0].parent in step:
                lines[-1] += f", from step {step[chain[0].parent]}"
            for each in chain:
                lines.append(f"  {_sentence(each)}")
                if not namespace and each.children and each.step + 1 in folded:
                    lines.append(f"  … {folded[each.step + 1]} steps …")
    return "\n".join(lines)


def row_words(thread: History, title: str) -> str:
    """Return the rows of a thread as text."""
    lines = [title]
    for each in thread.checkpoints:
        parent = _short_id(each.parent) if each.parent else "none"
        where = f", namespace {_called(each.namespace)}" if each.namespace else ""
        lines.append(
            f"{_short_id(each.id)}: parent {parent}, step {each.step}, {each.source}{where}"
        )
        lines += [f"  {write.name} wrote {write.channel}" for write in each.writes]
    return "\n".join(lines)


def _title(thread: History) -> str:
    own = len(thread.of(""))
    title = f"Thread {thread.thread}: {_count(own, 'checkpoint')}"
    if own < len(thread.checkpoints):
        title += f" and {len(thread.checkpoints) - own} of subgraphs"
    return title + (f", {_count(thread.forks, 'fork')}" if thread.forks else "")


def _sentence(each: Checkpoint) -> str:
    """Return a checkpoint in words."""
    parts = [f"ran {_listed(each.ran)}"] if each.source == "loop" and each.ran else []
    parts += [" ".join(_along(each))] if each.source in ("update", "fork") else []
    parts += [_change(each, name) for name in each.changed]
    parts += [*(line.text for line in _questions(each)), *_failures(each)]
    parts += map(str, _open(each))
    return f"step {each.step}, {each.source}: {'; '.join([*parts, _next(each)])}."


def _next(each: Checkpoint, letters: int = 99) -> str:
    if each.finished:
        return "end"
    names = _tally(each.next if each.children else each.waiting)
    return f"next: {', '.join(_shortened(name, letters) for name in names) or 'none'}"


def _along(each: Checkpoint) -> list[str]:
    if each.source == "loop":
        names = _tally(each.ran)
        return names if len(names) <= 4 else [*names[:3], f"and {len(names) - 3} more"]
    if each.source == "update":
        name = each.ran[0].strip("_").upper() if each.ran == ("__end__",) else _listed(each.ran)
        return ["update_state"] + ([] if each.ran == ("update_state",) else [f"as {name}"])
    if not each.parent:
        return []
    return ["replay" if each.source == "fork" else "input"]


def _below(each: Checkpoint) -> list[Line]:
    lines = [
        Line(f"waits for {name}, which this graph does not have", RED, wrapped=True)
        for name in each.missing
    ]
    lines += _questions(each)
    lines += [Line(text, RED, wrapped=True) for text in _failures(each)]
    if each.lane or each.namespace:  # the others are in the table
        lines += [Line(_change(each, name, 12), faint=True, wrapped=True) for name in each.changed]
    return lines


def _failures(each: Checkpoint) -> list[str]:
    """Return the errors of a step that was complete in the end, or was left."""
    failed = [task for task in each.tasks if task.error and not each.pending]
    return [f"{task.name} failed: {_shortened(task.error, SAID)}" for task in failed]


def _questions(each: Checkpoint) -> list[Line]:
    found = []
    for task in each.tasks:
        who = f"{task.name} asks" if len(each.tasks) > 1 else "asks"
        for question in task.questions:
            found.append(Line(f"{who}: {_plain(question.asked)}", AMBER, wrapped=True))
            answer = _answer(question, waits=not each.children)
            found.append(Line(answer, AMBER, wrapped=True))
    return found


def _answer(question: Question, waits: bool = True) -> str:
    given = ", ".join(map(_plain, question.answers))
    if question.answered:
        return f"answered: {given}"
    if question.answers:
        return f"answer saved: {given}"
    return "no answer yet" if waits else "not answered"


def _open(each: Checkpoint) -> list[Open]:
    if not each.pending:
        return []
    found = Counter((task.name, _sign(task), task.error) for task in each.tasks)
    return [
        Open(_tally([name] * number)[0], number, sign, _shortened(error or "", SAID))
        for (name, sign, error), number in found.items()
    ]


def _sign(task: Task) -> str:
    return "saved" if task.finished else "failed" if task.error else "no result"


def _row_below(each: Checkpoint) -> list[Line]:
    lines = [
        Line(f"parent {_short_id(each.parent)}" if each.parent else "no parent", faint=True),
        Line(f"step {each.step}, {each.source}", faint=True),
    ]
    writer = None
    for write in each.writes:
        if write.task != writer:
            lines.append(Line(f"{write.name}:"))
        writer = write.task
        lines.append(Line(write.channel, mark=_write_mark(write.channel)))
    return lines


def _write_mark(channel: str) -> Mark:
    if channel in ("__interrupt__", "__resume__"):
        return WRITES["question or answer"]
    if channel in CONTROL:
        return WRITES["error"]
    own = channel.startswith(("__", "branch:", "join:"))
    return WRITES["channel of LangGraph" if own else "channel of the state"]


def _nothing(each: Checkpoint) -> list:
    return []


STATE = Telling(
    lambda c: Line(_next(c, 21), faint=True, wrapped=True), _along, _below, _open, state=True
)
ROWS = Telling(lambda c: Line(_short_id(c.id)), _nothing, _row_below, _nothing, state=False)


# Words for values and names


def _change(each: Checkpoint, name: str, letters: int = 32) -> str:
    return f"{name} = {_value(each, name, letters)}"


def _value(each: Checkpoint, name: str, letters: int) -> str:
    """Return a value of the state in at most so many letters; of a list, how much it grew."""
    if name not in each.values:
        return "–" if name in each.before else ""
    value, old = each.values[name], each.before.get(name)
    if isinstance(value, list):
        grown = len(value) - len(old) if isinstance(old, list) else 0
        total = "1 item" if len(value) == 1 else f"{len(value)} items"
        text = f"+{grown} → {total}" if grown > 0 and old else total
        return text if len(text) <= letters else text.removesuffix(" items")
    return _shortened(repr(value), letters)


def _plain(value: object) -> str:
    return _shortened(value if isinstance(value, str) else repr(value), SAID)


def _shortened(text: str, letters: int) -> str:
    """Return a text without line breaks; if it is too long, its middle is left out."""
    text = " ".join(text.split())
    if len(text) <= letters:
        return text
    head = (letters - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (letters - 1 - head) :]}"


def _tally(names: object) -> list[str]:
    return [name if n == 1 else f"{name} ×{n}" for name, n in Counter(names).items()]


def _listed(names: object) -> str:
    *most, last = [*_tally(names)] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _count(number: int, noun: str) -> str:
    return f"one {noun}" if number == 1 else f"{number} {noun}s"


def _short_id(id_: str) -> str:
    return f"…{id_[-6:]}"  # the part that differs within a thread


def _called(namespace: str) -> str:
    """Return what a namespace is the run of: "outer:id|inner:id" is of inner."""
    *_, name, call = ["", *namespace.split("|")]
    if call.isdigit():  # of several calls in one task the first has no number
        return f"{name.split(':')[0]}, call {int(call) + 1}"
    return call.split(":")[0]


# Places


def columns(checkpoints: list[Checkpoint], most: int = LONG) -> list[range]:
    """Return the steps of each column: one, or a run of steps that is folded.

    More than `most` steps are folded. Those at both ends stay, and all at which more happened than
    that nodes ran.
    """
    if not checkpoints:
        return []
    steps = range(min(c.step for c in checkpoints), max(c.step for c in checkpoints) + 1)
    forked = {child for c in checkpoints if len(c.children) > 1 for child in c.children}
    kept = {*steps[:ENDS], *steps[-ENDS:]}
    kept |= {c.step for c in checkpoints if c.id in forked or _notable(c)}
    found: list[range] = []
    for step in steps:
        if len(steps) > most and found and step not in kept and found[-1][-1] not in kept:
            found[-1] = range(found[-1].start, step + 1)
        else:
            found.append(range(step, step + 1))
    return found


def _notable(each: Checkpoint) -> bool:
    happened = any(task.questions or task.error for task in each.tasks)
    return len(each.children) != 1 or each.source in ("update", "fork") or happened


def _shown(thread: History, steps: list[range], namespace: str = "") -> list[Checkpoint]:
    """Return the checkpoints that are not folded away, those of subgraphs after their owner."""
    single = {column[0] for column in steps if len(column) == 1}
    found = []
    for each in thread.of(namespace):
        if each.step in single:
            found.append(each)
            for inner in thread.within(each):
                found += _shown(thread, columns(thread.of(inner)), inner)
    return found


def measure(thread: History, steps: list[range], telling: Telling) -> tuple[float, float]:
    """Return the width of a column and of what is left of the first one.

    Names have the room that they need; the rest has it as far as all columns fit into one row.
    """
    shown = _shown(thread, steps)
    own = [c for c in shown if not c.namespace and not c.lane] if telling.state else []
    names = [_width(part) + 12 for c in shown for part in telling.above(c).text.split(", ")]
    names += [_width(line) + 2 * TURN + 6 for c in shown for line in telling.along(c)]
    rest = [_width(_value(c, name, 14), SMALL, MONO) + 18 for c in own for name in c.changed]
    below = [line for c in shown for line in telling.below(c)]
    rest += [min(_width(line.text), 130) + 10 for line in below if line.wrapped]
    names += [_width(line.text) + (26 if line.mark else 10) for line in below if not line.wrapped]
    labels = [_width(_shortened(name, NAME), SMALL, MONO) for name in _channels(thread)]
    left = MARGIN + (max(labels, default=0) + 10 if telling.state else 0)
    fits = (WIDTH - MARGIN - left) / max(len(steps), 1)
    return min(max(NARROWEST, *names, min(max(rest, default=0), fits)), BROADEST), left


def _channels(thread: History) -> list[str]:
    """Return the channels of the main lane's state, in the order in which they appear."""
    own = (c for c in thread.of("") if not c.lane)
    return list(dict.fromkeys(name for c in own for name in c.values))


def lay_out(plan: Plan, steps: list[range], left: float, top: float) -> tuple[list[Block], float]:
    """Return the rows of the picture, from the top, and where the last one ends."""
    column = plan.column
    own = plan.thread.of("")
    tail = plan.tail - column / 2 if any(map(plan.telling.open, own)) else 0
    if left + column * len(steps) + tail > WIDTH - MARGIN:
        left = max(left, MARGIN + column / 2)  # an edge comes in from the row before
    blocks, y = [], top
    for part in _parts(steps, int((WIDTH - MARGIN - left - tail) // column)):
        block = Block(part, left)
        y = _stack(plan, block, "", part, left, y) + 8
        if plan.telling.state:
            block.table_y = y
            y += CELL * (1 + len(_channels(plan.thread)))
        blocks.append(block)
        y += 12
    return blocks, y


def _parts(steps: list[range], fit: int) -> list[list[range]]:
    """Return the columns in rows of about equal length, none longer than `fit`."""
    size = math.ceil(len(steps) / math.ceil(len(steps) / fit)) if steps else 1
    return [steps[i : i + size] for i in range(0, len(steps), size)]


def _stack(
    plan: Plan, block: Block, namespace: str, steps: list[range], left: float, top: float
) -> float:
    """Place the lanes of a namespace below each other; return where the last one ends."""
    own = plan.thread.of(namespace)
    places = [(left + plan.column * (i + 0.5), part) for i, part in enumerate(steps)]
    xs = {part[0]: x for x, part in places if len(part) == 1}
    for lane in _order(own):
        chain = [c for c in own if c.lane == lane]
        spots = [_spot(plan, c, xs, own) for c in chain if c.step in xs]
        folds = [
            (x, part) for x, part in places if len(part) > 1 and any(c.step in part for c in chain)
        ]
        if not spots and not folds:
            continue
        y = top + 14 + LINE * max([1, *(len(spot.above) for spot in spots)])
        text_y = y + 14 + 13 * max((len(spot.along) for spot in spots), default=0)
        placed = [
            replace(spot, y=y, text_y=max(text_y, y + 4 + _open_height(spot))) for spot in spots
        ]
        block.spots |= {spot.checkpoint.id: spot for spot in placed}
        block.folds |= {(x, y): (lane, len(part)) for x, part in folds}
        top = max([text_y, *(spot.text_y + LINE * len(spot.below) for spot in placed)]) + 8
        for spot in placed:
            for inner in plan.thread.within(spot.checkpoint):
                top = _hang(plan, block, inner, spot, top)
    return top


def _hang(plan: Plan, block: Block, namespace: str, owner: Spot, top: float) -> float:
    """Place a subgraph's checkpoints below the step in which it ran; return where they end."""
    own = plan.thread.of(namespace)
    steps = columns(own)
    tail = plan.tail - plan.column / 2 if any(map(plan.telling.open, own)) else 0
    right = WIDTH - MARGIN - tail
    left = min(owner.x + plan.column / 2 + 8, right - plan.column * len(steps))
    left = max(left, MARGIN + plan.column / 2)
    block.hooks.append((owner, top + 10, _called(namespace)))
    top += 18
    for part in _parts(steps, int((right - left) // plan.column)):
        top = _stack(plan, block, namespace, part, left, top)
    return top + 4


def _order(own: list[Checkpoint]) -> list[int]:
    """Return the lanes from top to bottom; the main one is the lowest.

    Of the branches of a lane the one that leaves it last is nearest to it, so that none has to
    cross another.
    """
    by_id = {c.id: c for c in own}
    first = {c.lane: c for c in reversed(own)}
    leaves: dict[int, list[tuple[int, int]]] = {}
    for lane, start in first.items():
        parent = by_id.get(start.parent, own[0])
        if lane:
            leaves.setdefault(parent.lane, []).append((-parent.step, lane))

    def above(lane: int) -> list[int]:
        return [lane, *(one for _, branch in sorted(leaves.get(lane, ())) for one in above(branch))]

    return above(0)[::-1]


def _spot(plan: Plan, each: Checkpoint, xs: dict[int, float], own: list[Checkpoint]) -> Spot:
    """Return a checkpoint with its texts as they fit; it has no height yet."""
    telling, column = plan.telling, plan.column
    by_id = {c.id: c for c in own}
    above, along, below = telling.above(each), telling.along(each), telling.below(each)
    if any(by_id[child].lane != each.lane for child in each.children):
        above, below = None, [above, *below]  # its branches go up where the text would be
    parent = by_id.get(each.parent)
    if parent and parent.lane != each.lane and parent.step not in xs:
        along = [*along, f"from step {parent.step}"]
    return Spot(
        each,
        xs[each.step],
        0,
        0,
        _fitted(above, column) if above else [],
        [_cut(line, column - 2 * TURN) for line in along],
        [part for line in below for part in _fitted(line, column)],
        [(tasks, _wrap(str(tasks), plan.tail - 70, most=3)) for tasks in telling.open(each)],
    )


def _fitted(line: Line, column: float) -> list[Line]:
    """Return a line as it fits into a column."""
    room = column - (24 if line.mark else 8)
    parts = _wrap(line.text, room, most=5) if line.wrapped else [_cut(line.text, room)]
    return [replace(line, text=part) for part in parts]


def _open_height(spot: Spot) -> float:
    return sum(LINE * len(lines) + 6 for _, lines in spot.open)


# Text that fits


@cache
def _families(family: str) -> list[str]:
    """Return a typeface, and those that are installed of the ones that have what it lacks."""
    installed = {font.name for font in fontManager.ttflist}
    return [family, *(name for name in CHINESE if name in installed)]


@cache
def _advance(letter: str, family: str, weight: str) -> float | None:
    """Return how wide a letter is, for type of size 1; None if no typeface has it."""
    for name in _families(family):
        font = get_font(findfont(FontProperties(family=name, weight=weight)))
        if font.get_char_index(ord(letter)):
            font.set_size(64, 72)
            return font.load_char(ord(letter)).linearHoriAdvance / 65536 / 64
    return None


def _width(text: str, size: float = TYPE, family: str = SANS, weight: str = "normal") -> float:
    return size * sum(_advance(letter, family, weight) or 1 for letter in text)


def _cut(text: str, room: float) -> str:
    """Return a text without its middle, if it is wider than the room."""
    text = " ".join(text.split())
    letters = len(text)
    while _width(text) > room and letters > 1:
        letters -= 1
        text = _shortened(text, letters)
    return text


def _wrap(text: str, room: float, most: int = 99, **font: object) -> list[str]:
    """Return a text in lines; more than `most` end with an ellipsis."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _width(longer, **font) <= room:
            lines[-1] = longer
            continue
        while _width(word, **font) > room:
            ends = range(len(word) - 1, 0, -1)
            end = next((n for n in ends if _width(word[:n], **font) <= room), 1)
            lines.append(word[:end])
            word = word[end:]
        lines.append(word)
    return lines if len(lines) <= most else [*lines[: most - 1], lines[most - 1][:-1] + "…"]


# Drawing


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
        text = "".join(each if _advance(each, family, weight) else "□" for each in text)
        style |= {"family": _families(family), "va": "center_baseline"}
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


def _draw_block(pen: Pen, plan: Plan, block: Block) -> None:
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
    _draw_sign(pen, x, y, each.source, hollow=any(task.questions for task in each.tasks))
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
        if line.mark:
            pen.mark(left + 5, at, line.mark, 7)
        if plan.telling.state:
            pen.write(x, at, line.text, ha="center", **style)
        else:
            pen.write(left + (14 if line.mark else 0), at, line.text, **style)


def _draw_open(pen: Pen, spot: Spot) -> None:
    """Draw the tasks of a step that is not complete: half a mark for each that has a result."""
    x, y = spot.x, spot.y
    for tasks, lines in spot.open:
        turn = [] if y == spot.y else [(x + TURN, spot.y), (x + TURN, y)]
        pen.line((x + REACH, spot.y), *turn, (x + 28, y), colour=GREY, dashed=True)
        shown = min(tasks.number, 3)
        for i in range(shown):
            _draw_sign(pen, x + 34 + 13 * i, y, tasks.sign)
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
        way = [(x, owner.y + _open_height(owner))]
    else:
        way = [(owner.x + REACH, owner.y), (x, owner.y)]
    pen.line(*way, (x, y), (x + 12, y), colour=GREY, dashed=True)
    pen.write(x + 16, y, name, weight="bold", faint=True)


def _draw_table(pen: Pen, plan: Plan, block: Block) -> None:
    """Draw the state: a row for each channel, a column for each checkpoint of the main lane."""
    names = _channels(plan.thread)
    width = plan.column - 6
    own = plan.thread.of("")
    main = {c.step: c for c in own if not c.lane}
    for row, name in enumerate(names, 1):
        y = block.table_y + CELL * (row + 0.5)
        pen.write(MARGIN, y, _shortened(name, NAME), size=SMALL, family=MONO)
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
            text = _value(each, name, int((width - 6) / _width("m", SMALL, MONO)))
            style = {"size": SMALL, "family": MONO, "faint": not changed, "ha": "center"}
            pen.write(x, y + CELL / 2, text, **style)


def _draw_sign(pen: Pen, x: float, y: float, sign: str, hollow: bool = False) -> None:
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


def _legend(spots: list[Spot], telling: Telling) -> list[tuple[str, str]]:
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
    if not telling.state:
        marks = {line.mark for spot in spots for line in spot.below}
        found += [(text, text) for text, mark in WRITES.items() if mark in marks]
    return found
