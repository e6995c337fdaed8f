"""What one window of the drill is doing, whatever it looks like.

    session.next()        a question is shown, and its clock runs
    session.reveal()      the clock stops, the answer may be seen
    session.further()     a follow-up question; then its answer; then the next one
    session.rate("good")  the rating is in the record

Nothing here draws or waits.
"""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from crashlab.bank import Language, Question
from crashlab.drill import mock as mocks
from crashlab.drill import schedule
from crashlab.drill.record import Mock, RatedElsewhere, Rating, Record, Review


def utc_now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


class Session:
    """One learner at one window.

    `bank` holds the questions, `parts` says in which part of the course a notebook is. `question`
    is the one that is shown, `mock` the interview that is going on; both may be None. `clock`
    counts seconds, `now` gives the time in UTC. Of `question`, `revealed` says whether the answer
    may be seen, `asked` and `answered` how many follow-ups have been asked and answered.
    """

    def __init__(
        self,
        bank: dict[str, Question],
        parts: dict[str, str],
        record: Record,
        language: Language = "en",
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.bank, self.parts, self.record, self.language = bank, parts, record, language
        self.clock, self.now = clock, now
        self.mock: Mock | None = None
        self.question: Question | None = None

    def next(self) -> Question | None:
        """Show the next question: of the interview, else the first that is due; None if none is."""
        reviews = self.record.reviews()
        self.question = None
        if waiting := self._waiting(reviews):
            self._show(self.bank[waiting[0]], reviews)
        return self.question

    def waiting(self) -> list[str]:
        """The ids of the questions that would be asked now, in their order."""
        return self._waiting(self.record.reviews())

    def counts(self) -> dict[str, int]:
        """How many questions are `due` again, and how many are `new` and may be asked."""
        rated = {review.question for review in self.record.reviews()}
        waiting = self.waiting()
        again = sum(name in rated for name in waiting)
        return {"due": again, "new": len(waiting) - again}

    def back_in(self) -> timedelta | None:
        """In what time the first rated question is due; None if no question has a rating."""
        times = schedule.due_times(self.bank, self.record.reviews())
        return min(times.values()) - self.now() if times else None

    @property
    def seconds(self) -> float:
        """How long the answer took, or has taken so far."""
        end = self.clock() if self._revealed_at is None else self._revealed_at
        return end - self._shown_at

    @property
    def revealed(self) -> bool:
        """Whether a question is shown and its answer may be seen."""
        return self.question is not None and self._revealed_at is not None

    def reveal(self) -> None:
        """Stop the clock and turn the card over; once."""
        if self.question and not self.revealed:
            self._revealed_at = self.clock()

    @property
    def owes_answer(self) -> bool:
        """Whether a follow-up has been asked whose answer has not been shown."""
        return bool(self.question and self.question.answered and self.answered < self.asked)

    @property
    def goes_further(self) -> bool:
        """Whether a follow-up, or the answer to one, is still to come."""
        if not self.revealed:
            return False
        return self.owes_answer or self.asked < len(self.question.asked.follow_ups)

    def further(self) -> None:
        """Show the answer to the follow-up that was asked, or ask the next one."""
        if self.owes_answer:
            self.answered += 1
        elif self.goes_further:
            self.asked += 1

    def intervals(self) -> dict[Rating, timedelta]:
        """In what time each rating would bring the question back."""
        return schedule.intervals(self._own, self.now())

    def rate(self, rating: Rating) -> None:
        """Write the rating down, and be done with the question.

        Nothing is done before the answer is revealed. RatedElsewhere if another window was first;
        then the question is done with too. RecordError if nothing could be written.
        """
        if not self.revealed:
            return
        review = Review(
            self.question.id,
            len(self._own),
            rating,
            self.now(),
            self.seconds,
            self.language,
            self.mock.id if self.mock else None,
        )
        try:
            self.record.rate(review)
        except RatedElsewhere:
            self.question = None
            raise
        self.question = None

    def unfinished_mock(self) -> Mock | None:
        """An interview that was broken off and can go on, be it to its page."""
        return mocks.unfinished(self.record, self.now())

    def left_of(self, mock: Mock) -> tuple[int, float]:
        """How many questions of an interview are unanswered, and how many seconds are left."""
        left = mocks.unanswered(mock, self.bank, self.record.reviews())
        return len(left), mocks.seconds_left(mock, self.now())

    def start_mock(self, seed: int | None = None) -> Mock:
        """Begin an interview: from now on `next` shows its questions."""
        seed = random.randrange(2**31) if seed is None else seed
        picked = mocks.pick(self.bank, self.parts, seed)
        return self.go_on(
            self.record.start_mock(seed, self.now(), mocks.MINUTES, self.language, picked)
        )

    def go_on(self, mock: Mock) -> Mock:
        """Go on with an interview, with the time that is left of it."""
        self.mock, self.question = mock, None
        return mock

    def break_off(self) -> None:
        """Leave the interview, if one is going on; its clock runs on, and so can it."""
        self.mock = self.question = None

    @property
    def mock_seconds_left(self) -> float:
        """What is left of the interview's time."""
        return mocks.seconds_left(self.mock, self.now())

    def end_mock(self) -> mocks.Page:
        """End the interview, write that down, and sum it up."""
        ended = self.mock
        self.record.end_mock(ended.id, self.now())
        self.break_off()
        return mocks.page(ended, self.bank, self.parts, self.record.reviews())

    def _waiting(self, reviews: list[Review]) -> list[str]:
        if not self.mock:
            return schedule.due(self.bank, reviews, self.now())
        over = not self.mock_seconds_left
        return [] if over else mocks.unanswered(self.mock, self.bank, reviews)

    def _show(self, question: Question, reviews: list[Review]) -> None:
        self.question = question
        self._own = [review for review in reviews if review.question == question.id]
        self._shown_at, self._revealed_at = self.clock(), None
        self.asked = self.answered = 0
