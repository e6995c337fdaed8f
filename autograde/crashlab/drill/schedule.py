"""When a question comes back: FSRS says it, from the ratings that the record holds.

Its cards are not kept anywhere. They follow from the ratings, so they are made from them each time,
and there is no second fact that could disagree with the first.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from fsrs import Card, Scheduler
from fsrs import Rating as Grade

from crashlab.bank import Question
from crashlab.drill.record import RATINGS, Rating, Review

SCHEDULER = Scheduler(enable_fuzzing=False)
GRADES = dict(zip(RATINGS, (Grade.Again, Grade.Hard, Grade.Good, Grade.Easy), strict=True))


def card(reviews: Iterable[Review]) -> Card:
    """What FSRS knows of one question, after its ratings in the order of their generations."""
    replayed = Card(card_id=0)
    for review in sorted(reviews, key=lambda review: review.generation):
        replayed, _ = SCHEDULER.review_card(replayed, GRADES[review.rating], review.at)
    return replayed


def due(bank: dict[str, Question], reviews: Iterable[Review], now: datetime) -> list[str]:
    """The questions to ask now: those that are due, the most overdue first, then new ones.

    New ones come in the order of the notebooks and, for one notebook, of the bank; each when every
    question it needs has had a rating.
    """
    times = due_times(bank, reviews)
    again = sorted((name for name in times if times[name] <= now), key=times.__getitem__)
    new = [
        name
        for name, question in bank.items()
        if name not in times and times.keys() >= set(question.asked.needs)
    ]
    return again + sorted(new, key=lambda name: bank[name].asked.notebook)


def due_times(bank: dict[str, Question], reviews: Iterable[Review]) -> dict[str, datetime]:
    """When each rated question of the bank is due, in UTC."""
    of_question = defaultdict(list)
    for review in reviews:
        of_question[review.question].append(review)
    return {name: card(own).due for name, own in of_question.items() if name in bank}


def intervals(reviews: Iterable[Review], now: datetime) -> dict[Rating, timedelta]:
    """In what time each rating would bring a question back, given its ratings so far."""
    known = card(reviews)
    return {
        rating: SCHEDULER.review_card(known, grade, now)[0].due - now
        for rating, grade in GRADES.items()
    }
