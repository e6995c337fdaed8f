"""Kill a function before every line it executes, restart it, and judge what became of the world."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from tqdm.auto import tqdm

from crashlab.kill import BenchError, launch
from crashlab.source import Line, Point, line_text
from crashlab.victim import MOST_POINTS

World = TypeVar("World")
tqdm.monitor_interval = 0  # no thread beside the learner's

HARMLESS = (
    "once",
    "old",
    "new",
    "kept",
    "all",
)  # every other outcome is damage, unless an exercise says otherwise


@dataclass(frozen=True)
class Kill:
    """One kill: the moment it fell in, what the judge called the outcome, and why if need be.

    `endless` says that the restart never ended, and that no kill was tried after this one.
    """

    point: Point
    outcome: str
    why: str = ""
    endless: bool = False


@dataclass(frozen=True)
class Report:
    """Every crash point of one function, with its outcome.

    `name` is the function's, `kills` are in the order of execution, `uninterrupted` is the outcome
    of the run that nobody killed, `restarted` says whether the function ran again after each kill.
    In a notebook a report draws itself as a crash map; `print` shows it as a table.
    """

    name: str
    kills: tuple[Kill, ...]
    uninterrupted: str
    restarted: bool
    seconds: float
    fine: bool = False
    harmless: tuple[str, ...] = HARMLESS

    @property
    def counts(self) -> Counter[str]:
        """How many kills had which outcome."""
        return Counter(kill.outcome for kill in self.kills)

    @property
    def lines(self) -> dict[Line, list[Kill]]:
        """The kills of each line: files as they were reached, lines as in the source."""
        files = list(dict.fromkeys(kill.point.file for kill in self.kills))
        lines: dict[Line, list[Kill]] = {}
        for kill in sorted(self.kills, key=lambda kill: (files.index(kill.point.file), kill.point)):
            lines.setdefault((kill.point.file, kill.point.line), []).append(kill)
        return lines

    @property
    def damage(self) -> list[Kill]:
        """The kills that did harm."""
        return [kill for kill in self.kills if kill.outcome not in self.harmless]

    @property
    def window(self) -> list[Line]:
        """The crash window: the lines before which at least one kill did harm."""
        harmful = {(kill.point.file, kill.point.line) for kill in self.damage}
        return [line for line in self.lines if line in harmful]

    @property
    def clean(self) -> bool:
        """Whether nothing did harm: no kill, and not the run that nobody killed."""
        return not self.damage and self.uninterrupted in self.harmless

    def at(self, text: str) -> set[str]:
        """Return the outcomes of all kills before the lines that contain `text`."""
        return {
            kill.outcome
            for kill in self.kills
            if text in line_text(kill.point.file, kill.point.line)
        }

    def verdict(self) -> str:
        """Return the report in one sentence: the first harm, if any, and how often."""
        then = ", then restarted" if self.restarted else ""
        kills = "1 kill" if len(self.kills) == 1 else f"{len(self.kills)} kills"
        if self.uninterrupted not in self.harmless:
            return f"{self.name} gives {self.uninterrupted!r} even when nobody kills it"
        if self.clean:
            return f"{self.name}: {kills}, none did harm"
        first = self.damage[0]
        why = f" ({first.why})" if first.why else ""
        return (
            f"{self.name} killed {first.point}{then}: {first.outcome}{why}; "
            f"{len(self.damage)} of {kills} did harm"
        )

    def __str__(self) -> str:
        rows = [f"{'line':>5} {'kills':>5}  {'outcome':<22} code"]
        above = None
        for (file, number), kills in self.lines.items():
            rows += [""] if above not in (None, file) else []
            above = file
            found = Counter(kill.outcome for kill in kills)
            outcome = ", ".join(
                f"{n} {word}" if len(found) > 1 else word for word, n in found.items()
            )
            rows.append(f"{number:>5} {len(kills):>5}  {outcome:<22} {line_text(file, number)}")
        total = ", ".join(f"{n} {word}" for word, n in self.counts.most_common())
        return "\n".join([*rows, f"{len(self.kills)} kills in {self.seconds:.1f} s: {total}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from crashlab.figures import (  # matplotlib takes half a second: only when drawn
            crash_map,
            html,
        )

        return html(crash_map(self), alternative(self))


def alternative(report: Report) -> str:
    """Return what a crash map shows, in words, for those who cannot see it."""
    parts = [f"Crash map of {report.name}. {report.verdict()}."]
    for (_, number), kills in report.lines.items():
        found = Counter(kill.outcome for kill in kills)
        parts.append(
            f"Line {number}: " + ", ".join(f"{n} {word}" for word, n in found.items()) + "."
        )
    return " ".join(parts)


def explore(
    run: Callable[[World], Any],
    world: Callable[[], AbstractContextManager[World]],
    judge: Callable[[World], str],
    *,
    inside: Iterable[Callable] = (),
    restart: bool = True,
    fine: bool = False,
    harmless: tuple[str, ...] = HARMLESS,
    deadline: float = 5.0,
) -> Report:
    """Kill `run` before every line that it executes, each time in a new world, and report the
    outcomes.

    run      the function under test; gets the world
    world    makes a new world for each kill: `with world() as place`
    judge    looks at the world when all processes are dead and says in a word what it finds, such
             as "once", "twice", "lost", "torn"
    inside   the functions whose lines count, be they yours or a library's; by default all code of
             yours that runs
    restart  run it again, to its end, after the kill; a restart that fails is "stuck" without a
             judge
    harmless the outcomes that this exercise allows
    fine     kill also after each call within a line and inside the library functions it calls

    Costs two processes a kill, whatever their number; stops after a restart that never ends. Raises
    `BenchError` (`NotWritten` for a stub) if `run` does not come to its end when nobody kills it,
    or has 2000 crash points or more.
    """
    began = time.monotonic()
    inside = list(inside)
    with world() as place:
        whole = launch(
            run, place, inside=inside, fine=fine, record=True, echo=False, deadline=deadline
        )
        whole.result()
        uninterrupted = judge(place)
    if not whole.points:
        raise BenchError(f"{whole.function} executed no line of yours, so there is nothing to kill")
    if len(whole.points) == MOST_POINTS:
        raise BenchError(
            f"{whole.function} has {MOST_POINTS} crash points or more; explore a shorter run"
        )

    def one(point: Point) -> Kill:
        with world() as place:
            life = launch(
                run,
                place,
                kill_before=point,
                inside=inside,
                fine=fine,
                echo=False,
                deadline=deadline,
            )
            if life.end != "killed":
                return Kill(
                    point,
                    "missed",
                    f"{life}, so it was not killed there: it runs differently each time",
                )
            if restart:
                life = launch(run, place, echo=False, deadline=deadline)
                if life.end != "finished":
                    return Kill(point, "stuck", f"the restarted {life}", life.end == "stuck")
            return Kill(point, judge(place))

    kills: list[Kill] = []
    points = whole.points if uninterrupted in harmless else ()  # what fails alone needs no kill
    for point in tqdm(points, whole.function, unit="kill", delay=2, leave=False):
        kills.append(one(point))
        if kills[-1].endless:  # one deadline is patience enough
            break
    return Report(
        whole.function,
        tuple(kills),
        uninterrupted,
        restart,
        time.monotonic() - began,
        fine,
        harmless,
    )
