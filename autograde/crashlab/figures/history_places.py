"""The places of a thread's checkpoints and of their texts: lanes, columns, and rows that fit."""

import math
from dataclasses import dataclass, field, replace

from crashlab.figures.fit import LINE, SMALL, cut, width_of, wrap
from crashlab.figures.history_steps import columns, unfolded
from crashlab.figures.history_text import Line, Open, Telling, called, shortened, value_in
from crashlab.figures.style import MONO
from crashlab.history import Checkpoint, History

WIDTH = 880  # the most that a figure takes; all lengths are pixels
MARGIN = 12
TURN = 15  # from a checkpoint to where its branches go up
CELL = 20  # height of a cell of the table
NAME = 18  # letters of a channel's name that are shown
NARROWEST, BROADEST = 100, 150  # of columns


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

    @property
    def open_height(self) -> float:
        """How high the tasks of a step that is not complete are."""
        return sum(LINE * len(lines) + 6 for _, lines in self.open)


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

    def beyond(self, namespace: str) -> float:
        """Return how much of that room is needed beyond the last column of a namespace."""
        needed = any(map(self.telling.open, self.thread.of(namespace)))
        return self.tail - self.column / 2 if needed else 0


@dataclass
class Block:
    """One row of the picture: tracks, and the table below them if the state is shown."""

    steps: list[range]
    left: float
    spots: dict[str, Spot] = field(default_factory=dict)
    folds: dict[tuple[float, float], tuple[int, int]] = field(default_factory=dict)  # lane, steps
    hooks: list[tuple[Spot, float, str]] = field(default_factory=list)  # owner, y, name of subgraph
    table_y: float = 0


def measure(thread: History, steps: list[range], telling: Telling) -> tuple[float, float]:
    """Return the width of a column and of what is left of the first one.

    Names have the room that they need; the rest has it as far as all columns fit into one row.
    """
    shown = unfolded(thread, steps)
    own = [c for c in shown if not c.namespace and not c.lane] if telling.state else []
    names = [width_of(part) + 12 for c in shown for part in telling.above(c).text.split(", ")]
    names += [width_of(line) + 2 * TURN + 6 for c in shown for line in telling.along(c)]
    rest = [width_of(value_in(c, name, 14), SMALL, MONO) + 18 for c in own for name in c.changed]
    below = [line for c in shown for line in telling.below(c)]
    rest += [min(width_of(line.text), 130) + 10 for line in below if line.wrapped]
    names += [width_of(line.text) + (26 if line.sign else 10) for line in below if not line.wrapped]
    labels = [width_of(shortened(name, NAME), SMALL, MONO) for name in channels(thread)]
    left = MARGIN + (max(labels, default=0) + 10 if telling.state else 0)
    fits = (WIDTH - MARGIN - left) / max(len(steps), 1)
    return min(max(NARROWEST, *names, min(max(rest, default=0), fits)), BROADEST), left


def channels(thread: History) -> list[str]:
    """Return the channels of the main lane's state, in the order in which they appear."""
    own = (c for c in thread.of("") if not c.lane)
    return list(dict.fromkeys(name for c in own for name in c.values))


def lay_out(plan: Plan, steps: list[range], left: float, top: float) -> tuple[list[Block], float]:
    """Return the rows of the picture, from the top, and where the last one ends."""
    column = plan.column
    tail = plan.beyond("")
    if left + column * len(steps) + tail > WIDTH - MARGIN:
        left = max(left, MARGIN + column / 2)  # an edge comes in from the row before
    blocks, y = [], top
    for part in _parts(steps, int((WIDTH - MARGIN - left - tail) // column)):
        block = Block(part, left)
        y = _stack(plan, block, "", part, left, y) + 8
        if plan.telling.state:
            block.table_y = y
            y += CELL * (1 + len(channels(plan.thread)))
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
            replace(spot, y=y, text_y=max(text_y, y + 4 + spot.open_height)) for spot in spots
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
    steps = columns(plan.thread.of(namespace))
    right = WIDTH - MARGIN - plan.beyond(namespace)
    left = min(owner.x + plan.column / 2 + 8, right - plan.column * len(steps))
    left = max(left, MARGIN + plan.column / 2)
    block.hooks.append((owner, top + 10, called(namespace)))
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
        [cut(line, column - 2 * TURN) for line in along],
        [part for line in below for part in _fitted(line, column)],
        [(tasks, wrap(str(tasks), plan.tail - 70, most=3)) for tasks in telling.open(each)],
    )


def _fitted(line: Line, column: float) -> list[Line]:
    """Return a line as it fits into a column."""
    room = column - (24 if line.sign else 8)
    parts = wrap(line.text, room, most=5) if line.wrapped else [cut(line.text, room)]
    return [replace(line, text=part) for part in parts]
