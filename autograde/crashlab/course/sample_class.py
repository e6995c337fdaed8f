"""A class whose every score is known beforehand.

One student per known wrong answer, one all right, one untouched; the second right answers are tried
by `trial`, which is cheaper. The class has a course of its own below autograde/, with its own
gradebook, so that a real class is never touched.
"""

import csv
import shutil
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook, MissingEntry

from crashlab.course import engine
from crashlab.course.author import Author, author_files, read, without_markers
from crashlab.course.execute import grading, kind
from crashlab.course.outcome import Failure
from crashlab.course.paths import HERE, CourseError, Rooms
from crashlab.course.release import assignment, make_course

AT_ONCE = 2
GRADED, CRASHED, UNGRADED = "graded", "crashed", "ungraded"


@dataclass(frozen=True)
class Submission:
    """One student's notebook: `answers` by exercise id, and the tests that these have to lose."""

    student: str
    why: str
    author: Author
    answers: dict[str, str]
    loses: frozenset[str]


@dataclass(frozen=True)
class Score:
    """What nbgrader made of a submission: status, and for each lost test what the check said."""

    submission: Submission
    status: str
    lost: dict[str, str]

    @property
    def possible(self) -> float:
        """All points of the notebook."""
        return sum(test.points for test in _tests(self.submission.author))

    @property
    def earned(self) -> float:
        """Points that nbgrader gave."""
        return 0.0 if self.status != GRADED else self._without(self.lost)

    @property
    def expected(self) -> float:
        """Points that the author file promises."""
        return self._without(self.submission.loses)

    @property
    def as_expected(self) -> bool:
        """Graded, and exactly the promised tests are lost."""
        return not self.differences

    @property
    def differences(self) -> list[str]:
        """Where nbgrader and the author file disagree, in sentences."""
        if self.status != GRADED:
            return [f"{self.status}: {' '.join(self.lost.values())}".rstrip(": ")]
        too_many = [
            f"lost {test}: {said}"
            for test, said in self.lost.items()
            if test not in self.submission.loses
        ]
        too_few = [
            f"passed {test}, which it should lose"
            for test in self.submission.loses
            if test not in self.lost
        ]
        return too_many + too_few

    def _without(self, lost: Iterable[str]) -> float:
        return sum(test.points for test in _tests(self.submission.author) if test.id not in lost)


def grade_sample_class(rooms: Rooms = HERE, name: str = "") -> tuple[list[Score], Path]:
    """Make the sample class afresh and let nbgrader grade it, in the notebook `name` or in all.

    Returns the scores, in the order of the author files, and the CSV file they are in too.
    """
    files = [path for path in author_files(rooms) if name in ("", path.stem)]
    authors = [author for author in (read(path, rooms) for path in files) if _tests(author)]
    if not authors:
        raise CourseError(f"No notebook {f'named {name!r} ' if name else ''}has an exercise yet.")
    school = Rooms(rooms.desk.resolve() / "sample_class", desk_name="")
    shutil.rmtree(school.root, ignore_errors=True)
    make_course(authors, school, record=True)
    submissions = _submissions(authors)
    for submission in submissions:
        _hand_in(submission, school)
    jobs = sorted({(assignment(each.author), each.student) for each in submissions})
    # spawn: nbgrader starts threads, which a fork would not take along
    with ProcessPoolExecutor(AT_ONCE, mp_context=get_context("spawn")) as pool:
        complaints = dict(zip(jobs, pool.map(partial(_grade, school), jobs), strict=True))
    scores = _scores(submissions, complaints, school)
    return scores, _write_csv(scores, school.desk / "grades.csv")


def _tests(author: Author) -> list:
    return [test for exercise in author.exercises for test in exercise.tests]


def _submissions(authors: list[Author]) -> list[Submission]:
    made = []
    numbers: Counter[str] = Counter()
    for author in authors:
        right = {
            exercise.id: without_markers(exercise.answer.source) for exercise in author.exercises
        }
        every = frozenset(test.id for test in _tests(author))
        made.append(Submission("all-right", "the solutions", author, right, frozenset()))
        made.append(Submission("untouched", "nothing written", author, {}, every))
        for exercise in author.exercises:
            for cell in exercise.wrong:
                numbers[exercise.id] += 1
                student = f"wrong-{exercise.id}-{numbers[exercise.id]}"
                answers = {**right, exercise.id: cell.source}
                loses = frozenset(cell.loses + cell.carries)
                made.append(Submission(student, cell.why, author, answers, loses))
    return made


def _hand_in(submission: Submission, school: Rooms) -> None:
    """The released notebook with this student's answers."""
    part, name = assignment(submission.author), f"{submission.author.stem}.ipynb"
    notebook = nbformat.read(school.notebooks / part / name, as_version=4)
    for cell in notebook.cells:
        if kind(cell) == "spoken":
            cell.source += f"\n\nI am {submission.student}."  # untouched, it would get 0 points
        elif kind(cell) == "answer" and grading(cell)["grade_id"] in submission.answers:
            cell.source = submission.answers[grading(cell)["grade_id"]]
    target = school.desk / "submitted" / submission.student / part / name
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)


def _grade(school: Rooms, job: tuple[str, str]) -> str:
    """Let nbgrader grade one student and write the feedback.

    Returns nbgrader's complaint, so that one bad notebook does not end the class.
    """
    try:
        engine.autograde(school, *job)
        engine.feedback(school, *job)
    except CourseError as error:
        lines = str(error).splitlines()
        return next((line for line in lines if line.startswith("[ERROR]")), lines[0])
    return ""


def _scores(submissions: list[Submission], complaints: dict, school: Rooms) -> list[Score]:
    scores = []
    with Gradebook(engine.database(school)) as gradebook:
        for submission in submissions:
            part, notebook = assignment(submission.author), submission.author.stem
            if complaint := complaints[part, submission.student]:
                scores.append(Score(submission, CRASHED, {"": complaint}))
                continue
            try:
                graded = gradebook.find_submission_notebook(notebook, part, submission.student)
                tests = {test.id for test in _tests(submission.author)}  # and nothing spoken
                points = {
                    grade.name: grade.auto_score for grade in graded.grades if grade.name in tests
                }
            except MissingEntry:
                points = {}
            status = GRADED if points and None not in points.values() else UNGRADED
            said = _said(
                school.desk / "autograded" / submission.student / part / f"{notebook}.ipynb"
            )
            lost = {
                name: said.get(name, "no error shown")
                for name, score in points.items()
                if not score
            }
            scores.append(Score(submission, status, lost))
    return scores


def _said(path: Path) -> dict[str, str]:
    """What each failed cell of a graded notebook said, by its id."""
    said = {}
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error" and (name := grading(cell).get("grade_id")):
                said[name] = Failure(output.ename, output.evalue, (output.ename,)).sentence
    return said


def _write_csv(scores: list[Score], path: Path) -> Path:
    rows = [
        {
            "student": score.submission.student,
            "assignment": assignment(score.submission.author),
            "notebook": score.submission.author.stem,
            "misconception": score.submission.why,
            "status": score.status,
            "points": score.earned,
            "possible": score.possible,
            "expected": score.expected,
            "lost": " ".join(score.lost),
        }
        for score in scores
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
