"""The history of a thread, drawn from its checkpoints: a track for each branch, then the state.

Steps go from left to right. `history` asks the graph, `rows` reads the tables of a SQLite file. How
it is made: `crashlab.history` reads, `history_steps` folds, `history_text` tells, `fit` and
`history_places` give every checkpoint and its texts their places, `history_pen` draws.
"""

import math
from pathlib import Path

from matplotlib.figure import Figure

from crashlab.figures.fit import HEAD, TYPE, width_of, wrap
from crashlab.figures.history_pen import Pen, draw_block, draw_sign, legend_of
from crashlab.figures.history_places import MARGIN, WIDTH, Plan, lay_out, measure
from crashlab.figures.history_steps import columns
from crashlab.figures.history_text import ROWS, STATE, Telling, counted, row_words, status, words
from crashlab.figures.style import INK, Picture, canvas, html
from crashlab.history import History, read_history, read_rows

APART = 34  # from the end of a text in the legend to the next one
SMALLEST = 0.9  # of its size: how far a page may shrink a figure


def history(graph: object, config: dict, title: str | None = None) -> Picture:
    """Show the thread that `config` names, as the graph's checkpointer has it.

    Raises ValueError if the graph has no checkpointer or the config no `thread_id`.
    """
    thread = read_history(graph, config)
    title = title or _title(thread)
    text = words(thread, title)
    return Picture(_page((track(thread, title), text)), text)


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
    page = _page(*((drawn[title], texts[title]) for title in read))
    return Picture(page, "\n\n".join(texts.values()))


def rows(path: Path | str, thread_id: str, title: str | None = None) -> Picture:
    """Show a thread as it lies in the tables `checkpoints` and `writes` of a SQLite file.

    Raises FileNotFoundError if there is no file, and ValueError if it has no such tables.
    """
    thread = read_rows(path, thread_id)
    saved, written = len(thread.checkpoints), sum(len(c.writes) for c in thread.checkpoints)
    title = title or (
        f"Thread {thread_id} in {Path(path).name}: "
        f"{counted(saved, 'row')} in checkpoints, {written} in writes"
    )
    text = row_words(thread, title)
    return Picture(_page((track(thread, title, ROWS), text)), text)


def track(
    thread: History,
    title: str,
    telling: Telling = STATE,
    steps: list[range] | None = None,
    sizes: tuple[float, float] | None = None,
    ink: str = INK,
) -> Figure:
    """Draw a thread.

    `steps` are the columns, and `sizes` the width of a column and of what is left of the first.
    Both follow from the thread if they are not given.
    """
    steps = columns(thread.of("")) if steps is None else steps
    column, left = sizes or measure(thread, steps, telling)
    plan = Plan(thread, telling, column)
    room = WIDTH - 2 * MARGIN
    heading = [(line, HEAD, "bold") for line in wrap(title, room, size=HEAD, weight="bold")]
    heading += [(line, TYPE, "normal") for line in wrap(status(thread), room)]
    blocks, bottom = lay_out(plan, steps, left, 14 + 20 * len(heading))
    spots = [spot for block in blocks for spot in block.spots.values()]
    legend = legend_of(spots)
    right = [MARGIN + width_of(text, size=size, weight=weight) for text, size, weight in heading]
    right += [spot.x + (plan.tail if spot.open else column / 2) for spot in spots]
    right += [x + column / 2 for block in blocks for x, _ in block.folds]
    right += [MARGIN + sum(width_of(text) + APART for _, text in legend)]
    figure, axes = canvas(max(right) + MARGIN, bottom + (24 if legend else 0))
    pen = Pen(axes, ink)
    for i, (text, size, weight) in enumerate(heading):
        pen.write(MARGIN, 18 + 20 * i, text, size=size, weight=weight, faint=size != HEAD)
    for block in blocks:
        draw_block(pen, plan, block)
    x = MARGIN + 6
    for sign, text in legend:
        draw_sign(pen, x, bottom + 10, sign)
        pen.write(x + 12, bottom + 10, text, faint=True)
        x += width_of(text) + APART
    return figure


def tracks(threads: dict[str, History], steps: list[range]) -> dict[str, Figure]:
    """Draw threads so that equal steps are at equal places."""
    sizes = [measure(thread, steps, STATE) for thread in threads.values()]
    common = (max(column for column, _ in sizes), max(left for _, left in sizes))
    return {title: track(each, title, STATE, steps, common) for title, each in threads.items()}


def _title(thread: History) -> str:
    own = len(thread.of(""))
    title = f"Thread {thread.thread}: {counted(own, 'checkpoint')}"
    if own < len(thread.checkpoints):
        title += f" and {len(thread.checkpoints) - own} of subgraphs"
    return title + (f", {counted(thread.forks, 'fork')}" if thread.forks else "")


def _page(*drawn: tuple[Figure, str]) -> str:
    """Return figures with their texts as HTML.

    A page that is a little too narrow, as Lab in a window of 1280, shrinks them; a narrower one
    scrolls them, all together, so that type never gets small.
    """
    width = max(math.ceil(SMALLEST * figure.get_figwidth() * figure.dpi) for figure, _ in drawn)
    inner = "".join(f"<div>{html(figure, text)}</div>" for figure, text in drawn)
    return f'<div style="overflow-x:auto"><div style="min-width:{width}px">{inner}</div></div>'
