"""Kill a run, then kill its recovery too, and recover again: every pair of the two."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tqdm.auto import tqdm

from crashlab.explore import HARMLESS, World
from crashlab.kill import BenchError, Life, launch
from crashlab.source import Point

MOST_PAIRS = 600  # tried by one exploration, a few seconds' worth


@dataclass(frozen=True)
class Pair:
    """Two kills, the second in the recovery from the first, and the outcome of the one after that.

    `second` is None where the recovery was left to finish.
    """

    first: Point
    second: Point | None
    outcome: str
    why: str = ""

    def __str__(self) -> str:
        then = f", its recovery killed {self.second}" if self.second else ""
        return f"killed {self.first}{then}"


@dataclass(frozen=True)
class PairReport:
    """The outcomes of the pairs that were tried; `of` is how many pairs there are."""

    name: str
    pairs: tuple[Pair, ...]
    of: int
    seconds: float
    harmless: tuple[str, ...] = HARMLESS

    @property
    def counts(self) -> Counter[str]:
        """How many pairs had which outcome."""
        return Counter(pair.outcome for pair in self.pairs)

    @property
    def damage(self) -> list[Pair]:
        """The pairs that did harm."""
        return [pair for pair in self.pairs if pair.outcome not in self.harmless]

    @property
    def clean(self) -> bool:
        """Whether no pair did harm."""
        return not self.damage

    def verdict(self) -> str:
        """Return the report in one sentence: the first harm, if any, and how often."""
        tried = f"{len(self.pairs)} of {self.of}" if self.of > len(self.pairs) else f"{self.of}"
        if self.clean:
            return f"{self.name}: {tried} pairs of kills, none did harm"
        first = self.damage[0]
        why = f" ({first.why})" if first.why else ""
        harm = f"{len(self.damage)} of the {len(self.pairs)} pairs tried did harm"
        return f"{self.name} {first}: {first.outcome}{why}; {harm}"

    def __str__(self) -> str:
        total = ", ".join(f"{number} {outcome}" for outcome, number in self.counts.most_common())
        return f"{self.verdict()}\n{total}, in {self.seconds:.1f} s"

    __repr__ = __str__


def explore_pairs(
    run: Callable[[World], Any],
    recover: Callable[[World], Any],
    world: Callable[[], AbstractContextManager[World]],
    judge: Callable[[World], str],
    *,
    inside: Iterable[Callable] = (),
    harmless: tuple[str, ...] = HARMLESS,
    most: int = MOST_PAIRS,
    deadline: float = 5.0,
) -> PairReport:
    """Kill `run` at every crash point, kill `recover` at every one of its own, and recover again.

    The parameters are those of `explore`; `recover` is what is started after a kill. Each pair has
    a new world and costs three processes. Where there are more than `most` pairs, every n-th is
    tried, always the same ones, and the report says so.

    Raises `BenchError` (`NotWritten` for a stub) if `run` does not end when nobody kills it.
    """
    began = time.monotonic()
    inside = list(inside)
    options = {"inside": inside, "echo": False, "deadline": deadline}

    def start(function: Callable, place: World, at: Point | None) -> Life:
        return launch(function, place, kill_before=at, record=at is None, **options)

    def one(first: Point, second: Point | None) -> tuple[Pair, Life]:
        with world() as place:
            life = start(run, place, first)
            if life.end == "killed":
                life = start(recover, place, second)
            if second and life.end == "killed":
                life = start(recover, place, None)
            if life.end == "finished":
                return Pair(first, second, judge(place)), life
            return Pair(first, second, "stuck", f"the last process: {life}"), life

    with world() as place:
        whole = start(run, place, None)
        whole.result()
    if not whole.points:
        raise BenchError(f"{whole.function} executed no line of yours, so there is nothing to kill")
    single = [one(first, None) for first in whole.points]
    every = [(pair.first, second) for pair, life in single for second in life.points]
    step = -(-len(every) // most)  # rounded up
    progress = tqdm(every[:: max(step, 1)], whole.function, unit="pair", delay=2, leave=False)
    pairs = [pair for pair, _ in single] + [one(*points)[0] for points in progress]
    total = len(single) + len(every)
    return PairReport(whole.function, tuple(pairs), total, time.monotonic() - began, harmless)
