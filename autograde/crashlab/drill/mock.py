"""A mock interview: which questions, how long, and what came of it."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from crashlab.bank import Question
from crashlab.drill.record import RATINGS, Mock, Record, Review

MINUTES = 20
QUESTIONS = 8  # two and a half minutes each
STRONG = 3.0  # an average rating of "good" and better; "again" counts 1, "easy" counts 4


@dataclass(frozen=True)
class Score:
    """How a part or a tag went: the average of its ratings (1 to 4), and how many there were."""

    name: str
    average: float
    count: int

    @property
    def strong(self) -> bool:
        """Whether it was good on average."""
        return self.average >= STRONG


@dataclass(frozen=True)
class Page:
    """What stands at the end: the weakest parts and tags first, and the questions to say again."""

    asked: int
    rated: int
    parts: tuple[Score, ...]
    tags: tuple[Score, ...]
    again: tuple[Question, ...]


def pick(
    bank: dict[str, Question], parts: dict[str, str], seed: int, number: int = QUESTIONS
) -> list[str]:
    """Choose questions from all parts and of all difficulties alike, the easy ones first.

    `parts` says in which part a notebook is. The same seed gives the same questions.
    """
    left = list(bank.values())
    random.Random(seed).shuffle(left)
    picked: list[Question] = []
    while left and len(picked) < number:
        by_part = Counter(parts.get(each.asked.notebook) for each in picked)
        by_difficulty = Counter(each.asked.difficulty for each in picked)
        rarest = min(
            left,
            key=lambda each: (
                by_part[parts.get(each.asked.notebook)],
                by_difficulty[each.asked.difficulty],
            ),
        )
        left.remove(rarest)
        picked.append(rarest)
    return [each.id for each in sorted(picked, key=lambda each: each.asked.difficulty)]


def seconds_left(mock: Mock, now: datetime) -> float:
    """The time that is left; never more than at its start, should the computer's clock go back."""
    return min(max((mock.deadline - now).total_seconds(), 0), mock.minutes * 60)


def unanswered(mock: Mock, bank: dict[str, Question], reviews: Iterable[Review]) -> list[str]:
    """Its questions that have no rating yet, in their order."""
    rated = {review.question for review in reviews if review.mock == mock.id}
    return [name for name in mock.questions if name in bank and name not in rated]


def unfinished(record: Record, now: datetime) -> Mock | None:
    """The newest interview that was broken off, with time left or with ratings for its page."""
    begun = {review.mock for review in record.reviews()}
    for mock in reversed(record.mocks()):
        if not mock.ended_at and (mock.id in begun or seconds_left(mock, now)):
            return mock
    return None


def page(
    mock: Mock, bank: dict[str, Question], parts: dict[str, str], reviews: Iterable[Review]
) -> Page:
    """Sum up an interview: what was strong, what was weak, and what to say again."""
    own = {review.question: review for review in reviews if review.mock == mock.id}
    rated = [(bank[name], own[name]) for name in mock.questions if name in bank and name in own]
    of_part, of_tag = defaultdict(list), defaultdict(list)
    for question, review in rated:
        worth = RATINGS.index(review.rating) + 1
        of_part[parts.get(question.asked.notebook, "")].append(worth)
        for tag in question.asked.tags:
            of_tag[tag].append(worth)
    weak = tuple(question for question, review in rated if review.rating in ("again", "hard"))
    return Page(len(mock.questions), len(rated), _scores(of_part), _scores(of_tag), weak)


def _scores(ratings: dict[str, list[int]]) -> tuple[Score, ...]:
    scores = (Score(name, fmean(worth), len(worth)) for name, worth in ratings.items())
    return tuple(sorted(scores, key=lambda score: (score.average, score.name)))
