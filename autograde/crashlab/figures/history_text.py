"""What is told of a thread: in words, and at each checkpoint of its picture.

`STATE` and `ROWS` are the two ways to tell it: as the graph's state, and as the rows of a file.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from crashlab.figures.history_steps import columns, unfolded
from crashlab.figures.style import AMBER, INK, RED
from crashlab.history import CONTROL, Checkpoint, History, Question, Task

SAID = 160  # letters of a question or an error that are shown


@dataclass(frozen=True)
class Line:
    """A line of text at a checkpoint; a sign may stand before it.

    What is too long goes on in further lines if it is `wrapped`, else its middle is left out.
    """

    text: str
    colour: str = INK
    faint: bool = False
    sign: str = ""  # what was written: see `history_pen.WRITES`
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
    shown = unfolded(thread, steps)
    for namespace in dict.fromkeys(each.namespace for each in shown):
        own = [each for each in shown if each.namespace == namespace]
        for lane in sorted({each.lane for each in own}):
            chain = [each for each in own if each.lane == lane]
            if namespace:
                lines.append(f"Subgraph {called(namespace)} in step {step[chain[0].owner] + 1}")
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
        where = f", namespace {called(each.namespace)}" if each.namespace else ""
        lines.append(
            f"{_short_id(each.id)}: parent {parent}, step {each.step}, {each.source}{where}"
        )
        lines += [f"  {write.name} wrote {write.channel}" for write in each.writes]
    return "\n".join(lines)


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
    return f"next: {', '.join(shortened(name, letters) for name in names) or 'none'}"


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
    return [f"{task.name} failed: {shortened(task.error, SAID)}" for task in failed]


def _questions(each: Checkpoint) -> list[Line]:
    found = []
    for task in each.tasks:
        who = f"{task.name} asks" if len(each.tasks) > 1 else "asks"
        for question in task.questions:
            found.append(Line(f"{who}: {_plain(question.asked)}", AMBER, wrapped=True))
            answer = _answer(question, not each.children)
            found.append(Line(answer, AMBER, wrapped=True))
    return found


def _answer(question: Question, waits: bool) -> str:
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
        Open(_tally([name] * number)[0], number, sign, shortened(error or "", SAID))
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
        lines.append(Line(write.channel, sign=_written(write.channel)))
    return lines


def _written(channel: str) -> str:
    if channel in ("__interrupt__", "__resume__"):
        return "question or answer"
    if channel in CONTROL:
        return "error"
    own = channel.startswith(("__", "branch:", "join:"))
    return "channel of LangGraph" if own else "channel of the state"


def _nothing(each: Checkpoint) -> list:
    return []


STATE = Telling(
    lambda c: Line(_next(c, 21), faint=True, wrapped=True), _along, _below, _open, state=True
)
ROWS = Telling(lambda c: Line(_short_id(c.id)), _nothing, _row_below, _nothing, state=False)


# Words for values and names


def _change(each: Checkpoint, name: str, letters: int = 32) -> str:
    return f"{name} = {value_in(each, name, letters)}"


def value_in(each: Checkpoint, name: str, letters: int) -> str:
    """Return a value of the state in at most so many letters; of a list, how much it grew."""
    if name not in each.values:
        return "–" if name in each.before else ""
    value, old = each.values[name], each.before.get(name)
    if isinstance(value, list):
        grown = len(value) - len(old) if isinstance(old, list) else 0
        total = "1 item" if len(value) == 1 else f"{len(value)} items"
        text = f"+{grown} → {total}" if grown > 0 and old else total
        return text if len(text) <= letters else text.removesuffix(" items")
    return shortened(repr(value), letters)


def _plain(value: object) -> str:
    return shortened(value if isinstance(value, str) else repr(value), SAID)


def shortened(text: str, letters: int) -> str:
    """Return a text without line breaks; if it is too long, its middle is left out."""
    text = " ".join(text.split())
    if len(text) <= letters:
        return text
    head = (letters - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (letters - 1 - head) :]}"


def _tally(names: Iterable[str]) -> list[str]:
    return [name if n == 1 else f"{name} ×{n}" for name, n in Counter(names).items()]


def _listed(names: Iterable[str]) -> str:
    *most, last = _tally(names) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def counted(number: int, noun: str) -> str:
    """Return "one fork" or "2 forks"."""
    return f"one {noun}" if number == 1 else f"{number} {noun}s"


def _short_id(id_: str) -> str:
    return f"…{id_[-6:]}"  # the part that differs within a thread


def called(namespace: str) -> str:
    """Return what a namespace is the run of: "outer:id|inner:id" is of inner."""
    *_, name, call = ["", *namespace.split("|")]
    if call.isdigit():  # of several calls in one task the first has no number
        return f"{name.split(':')[0]}, call {int(call) + 1}"
    return call.split(":")[0]
