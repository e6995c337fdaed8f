"""The record of your ratings: what no kill can tear, and no two windows can say twice."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from platformdirs import user_data_dir

from crashlab.drill.files import VERSION, RecordError, connect, find_or_make

if TYPE_CHECKING:
    from crashlab.bank import Language

Rating = Literal["again", "hard", "good", "easy"]
RATINGS: tuple[Rating, ...] = get_args(Rating)


class RatedElsewhere(RecordError):
    """This question, as it was shown, has its rating already: from another window."""


@dataclass(frozen=True)
class Review:
    """One rating of one question.

    `generation` is how many ratings the question had when it was shown; `at` is in UTC; `seconds`
    were taken for the answer; `mock` is the interview it was part of.
    """

    question: str
    generation: int
    rating: Rating
    at: datetime
    seconds: float
    language: "Language"
    mock: int | None = None


@dataclass(frozen=True)
class Mock:
    """A mock interview. No crash refills its clock: that runs from `started_at` (in UTC)."""

    id: int
    seed: int
    started_at: datetime
    minutes: float
    language: "Language"
    questions: tuple[str, ...]
    ended_at: datetime | None = None

    @property
    def deadline(self) -> datetime:
        """When its time is over, in UTC."""
        return self.started_at + timedelta(minutes=self.minutes)


class Record:
    """Ratings and mock interviews, in a SQLite file.

    `path` is that file; `kept_aside` are the files that are not used, and why. Each call opens the
    file anew, so that a window which waits for you holds no lock.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Open the record in a folder, by default in the place for data of yours.

        RecordError if that cannot be done.
        """
        folder = folder or Path(user_data_dir("crashlab", appauthor=False))
        self.path, self.kept_aside = find_or_make(folder.absolute(), _read)

    def rate(self, review: Review) -> None:
        """Write one rating, in one transaction; it counts once.

        RatedElsewhere if this generation of the question has a rating, RecordError if nothing
        could be written.
        """
        row = astuple(replace(review, at=review.at.isoformat()))
        claim = (
            "INSERT INTO reviews VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (question, generation) DO NOTHING"
        )
        with self._opened() as db:
            db.execute("BEGIN IMMEDIATE")
            written = db.execute(claim, row).rowcount
            db.execute("COMMIT")
        if not written:
            raise RatedElsewhere(f"{review.question} was rated in another window")

    def reviews(self) -> list[Review]:
        """All ratings; those of one question in the order of their generations."""
        with self._opened() as db:
            return _read(db)[0]

    def mocks(self) -> list[Mock]:
        """All mock interviews, the oldest first."""
        with self._opened() as db:
            return _read(db)[1]

    def start_mock(
        self, seed: int, at: datetime, minutes: float, language: "Language", questions: list[str]
    ) -> Mock:
        """Write down that an interview begins, and with which questions."""
        row = (seed, at.isoformat(), minutes, language, json.dumps(questions))
        with self._opened() as db:
            number = db.execute(
                "INSERT INTO mocks (seed, started_at, minutes, language, questions)"
                " VALUES (?, ?, ?, ?, ?)",
                row,
            ).lastrowid
        return Mock(number, seed, at, minutes, language, tuple(questions))

    def end_mock(self, number: int, at: datetime) -> None:
        """Write down that an interview has ended; the first end counts."""
        with self._opened() as db:
            db.execute(
                "UPDATE mocks SET ended_at = ? WHERE id = ? AND ended_at IS NULL",
                (at.isoformat(), number),
            )

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(connect(self.path, "rw")) as db:
                version = db.execute("PRAGMA user_version").fetchone()[0]
                if version != VERSION:
                    raise RecordError(f"{self.path.name} has become one of version {version}")
                yield db
        except sqlite3.Error as error:
            raise RecordError(f"{self.path.name}: {error}") from error


def _read(db: sqlite3.Connection) -> tuple[list[Review], list[Mock]]:
    """Everything; ValueError or TypeError if a rating, a time or a list is none."""
    reviews = [
        Review(question, generation, _rating(rating), _time(at), *rest)
        for question, generation, rating, at, *rest in db.execute(
            "SELECT * FROM reviews ORDER BY question, generation"
        )
    ]
    mocks = [
        Mock(
            number,
            seed,
            _time(began),
            minutes,
            language,
            tuple(json.loads(questions)),
            _time(ended),
        )
        for number, seed, began, minutes, language, questions, ended in db.execute(
            "SELECT * FROM mocks ORDER BY id"
        )
    ]
    return reviews, mocks


def _rating(text: str) -> Rating:
    if text not in RATINGS:  # a file that is only read is not held to its CHECKs by SQLite
        raise ValueError(f"{text!r} is no rating")
    return text


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
