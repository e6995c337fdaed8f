"""Read an author file: a jupytext percent file whose cell headers say what each cell is.

    # %% [markdown]                                      prose
    # %%                                                 code
    # %% answer id="save"                                holds ### BEGIN SOLUTION … ### END SOLUTION
    # %% wrong loses="save-whole" why="writes in place"  must lose exactly these tests (and, in a
                                                         notebook as a whole, those of carries="…")
    # %% right why="NamedTemporaryFile"                  must lose none
    # %% test id="save-whole" points=2                   may hold ### BEGIN HIDDEN TESTS …
    # %% question id="uuid-as-key"                       a question of the bank, in two languages
    # %% spoken id="say" question="uuid-as-key" points=2 an answer that a person gives points for

The last two have no text of their own: the question bank has it.

`carries` are tests of later exercises that use this answer, and fail as long as it is wrong.

A test, a wrong and a right cell belong to the nearest answer above them; together they are one
exercise. A wrong or right cell is a whole replacement for the answer; no notebook holds it.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import jupytext

from crashlab.course.paths import HERE, CourseError, Rooms
from crashlab.course.spoken import bank, question_text, spoken_text

SOLUTION, HIDDEN = "SOLUTION", "HIDDEN TESTS"

_KEYS = {
    "prose": set(),
    "code": {"tags"},
    "answer": {"id"},
    "wrong": {"loses", "carries", "why"},
    "right": {"why"},
    "test": {"id", "points"},
    "question": {"id"},
    "spoken": {"id", "question", "points"},
}
_JUPYTEXT_KEYS = {"title", "lines_to_next_cell", "lines_to_end_of_cell_marker", "cell_marker"}
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class AuthorError(CourseError):
    """An author file breaks a rule; the message names file, cell and rule."""


@dataclass(frozen=True)
class Cell:
    """One cell of an author file; the fields that its kind does not use are empty."""

    kind: str
    source: str
    place: str
    id: str = ""
    points: float = 0
    loses: tuple[str, ...] = ()
    why: str = ""
    tags: tuple[str, ...] = ()
    question: str = ""
    carries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exercise:
    """An answer with its tests, and its known wrong and second right answers in file order."""

    answer: Cell
    tests: tuple[Cell, ...]
    alternatives: tuple[Cell, ...]

    @property
    def id(self) -> str:
        """The id of its answer."""
        return self.answer.id

    @property
    def wrong(self) -> list[Cell]:
        """The known wrong answers."""
        return [cell for cell in self.alternatives if cell.kind == "wrong"]


@dataclass(frozen=True)
class Author:
    """A valid author file; `part` is the folder of its part, empty at the top of solutions/."""

    path: Path
    part: str
    cells: tuple[Cell, ...]
    exercises: tuple[Exercise, ...]

    @property
    def stem(self) -> str:
        """The name that its notebooks have too."""
        return self.path.stem

    @property
    def points(self) -> float:
        """All points of the notebook, those that a person gives included."""
        return sum(cell.points for cell in self.cells)

    @property
    def notebook_cells(self) -> list[Cell]:
        """The cells that go into the solution notebook: no wrong and no second right answer."""
        return [cell for cell in self.cells if cell.kind not in ("wrong", "right")]


def author_files(rooms: Rooms = HERE) -> list[Path]:
    """Every author file: those at the top of solutions/ first, then part by part."""
    return sorted(rooms.solutions.glob("*.py")) + sorted(rooms.solutions.glob("*/*.py"))


def read(path: Path, rooms: Rooms = HERE) -> Author:
    """Parse and validate one author file; AuthorError says what to change."""
    text = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    name = rooms.name(path)
    cells = tuple(
        _from_bank(_cell(raw, f"{name}, cell {number}"), rooms)
        for number, raw in enumerate(text.cells, 1)
    )
    for cell in cells:
        _check_markers(cell)
    counts = Counter(cell.id for cell in cells if cell.id)
    for cell in cells:
        if counts[cell.id] > 1:
            raise AuthorError(f"{cell.place}: the id {cell.id!r} is used by more than one cell.")
    exercises = _exercises(cells)
    for number, exercise in enumerate(exercises):
        _check_exercise(exercise)
        later = {test.id for each in exercises[number + 1 :] for test in each.tests}
        for cell in exercise.wrong:
            if strange := set(cell.carries) - later:
                raise AuthorError(f"{cell.place}: {min(strange)!r} is no test of a later exercise.")
    part = "" if path.parent == rooms.solutions else path.parent.name
    return Author(path, part, cells, exercises)


def region(source: str, marker: str) -> tuple[list[str], list[str]]:
    """The lines inside and outside the regions of `marker`; the marker lines are in neither."""
    inside, outside, current = [], [], None
    for line in source.split("\n"):
        if f"BEGIN {marker}" in line:
            current = inside
        elif f"END {marker}" in line:
            current = None
        else:
            (outside if current is None else inside).append(line)
    return inside, outside


def without_markers(source: str) -> str:
    """An answer as a learner would have written it."""
    return "\n".join(
        line for line in source.split("\n") if not re.search(f"(BEGIN|END) {SOLUTION}", line)
    )


def _cell(raw, place: str) -> Cell:
    title = raw.metadata.get("title", "")
    prose = raw.cell_type == "markdown"
    kind = title or ("prose" if prose else "code")
    keys = set(raw.metadata) - _JUPYTEXT_KEYS
    named = f"{place} ({' '.join(filter(None, [title, str(raw.metadata.get('id', ''))])) or kind})"
    if kind not in _KEYS or raw.cell_type == "raw" or prose != (kind == "prose"):
        kinds = (
            "answer, wrong, right, test, question, spoken, "
            "or nothing for plain code and [markdown] for prose"
        )
        raise AuthorError(f"{named}: the header is none of {kinds}.")
    if unknown := keys - _KEYS[kind]:
        raise AuthorError(f"{named}: the header has an unknown key {min(unknown)!r}.")
    get = raw.metadata.get
    if kind in ("answer", "test", "question", "spoken") and not _ID.fullmatch(str(get("id", ""))):
        raise AuthorError(f"{named}: it needs an id of letters, digits, '-' and '_'.")
    points = get("points", 0)
    if kind in ("test", "spoken") and (not isinstance(points, int | float) or points <= 0):
        raise AuthorError(f"{named}: it needs points, a number above 0.")
    if kind in ("wrong", "right") and not str(get("why", "")).strip():
        raise AuthorError(f'{named}: it needs why="…", the idea behind it in a few words.')
    loses = tuple(str(get("loses", "")).split())
    if kind == "wrong" and not loses:
        raise AuthorError(f'{named}: it needs loses="…", the ids of the tests it must lose.')
    return Cell(
        kind,
        raw.source,
        named,
        str(get("id", "")),
        points,
        loses,
        str(get("why", "")),
        tuple(get("tags", ())),
        str(get("question", "")),
        tuple(str(get("carries", "")).split()),
    )


def _from_bank(cell: Cell, rooms: Rooms) -> Cell:
    """A question or spoken cell with the text that the bank has for it."""
    if cell.kind not in ("question", "spoken"):
        return cell
    if cell.source.strip():
        raise AuthorError(f"{cell.place}: its text is in the question bank; leave the cell empty.")
    name = cell.question or cell.id
    if name not in bank(rooms):
        raise AuthorError(f"{cell.place}: the bank has no question {name!r}.")
    question = bank(rooms)[name]
    if cell.kind == "question":
        return Cell("prose", question_text(question), cell.place)
    return replace(cell, source=spoken_text(question, cell.points))


def _check_markers(cell: Cell) -> None:
    for marker, homes in ((SOLUTION, ("answer", "spoken")), (HIDDEN, ("test",))):
        steps = re.findall(f"(BEGIN|END) {marker}", cell.source)
        if steps and cell.kind not in homes:
            raise AuthorError(
                f"{cell.place}: only a cell of kind {homes[0]} may hold a {marker} region."
            )
        if steps != ["BEGIN", "END"] * (len(steps) // 2):
            raise AuthorError(
                f"{cell.place}: a BEGIN {marker} without its END {marker}, or the other way round."
            )
        if cell.kind == "answer" and cell.kind in homes and not steps:
            raise AuthorError(f"{cell.place}: it needs ### BEGIN SOLUTION and ### END SOLUTION.")


def _exercises(cells: tuple[Cell, ...]) -> tuple[Exercise, ...]:
    groups: list[list[Cell]] = []
    for cell in cells:
        if cell.kind == "answer":
            groups.append([cell])
        elif cell.kind in ("test", "wrong", "right"):
            if not groups:
                raise AuthorError(f"{cell.place}: no answer cell stands above it.")
            groups[-1].append(cell)
    return tuple(
        Exercise(
            answer,
            tuple(cell for cell in rest if cell.kind == "test"),
            tuple(cell for cell in rest if cell.kind != "test"),
        )
        for answer, *rest in groups
    )


def _check_exercise(exercise: Exercise) -> None:
    """Every check can fail, misconceptions have names, and there are two ways to be right."""
    tests = {test.id for test in exercise.tests}
    wrong = exercise.wrong
    for cell in wrong:
        if strange := set(cell.loses) - tests:
            raise AuthorError(
                f"{cell.place}: {min(strange)!r} is no test of the exercise {exercise.id!r}."
            )
    if not tests:
        return
    if len(wrong) < 3:
        raise AuthorError(
            f"{exercise.answer.place}: it has {len(wrong)} wrong answers and needs at least 3."
        )
    if len(wrong) == len(exercise.alternatives):
        raise AuthorError(
            f"{exercise.answer.place}: it needs a second right answer, written differently."
        )
    for test in exercise.tests:
        if not any(test.id in cell.loses for cell in wrong):
            raise AuthorError(
                f"{test.place}: no wrong answer loses it, so nothing shows that it can fail."
            )
