"""Judge a learner's notebook without a gradebook: which tests pass, fail, or are not attempted."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbgrader.preprocessors import ClearHiddenTests

from crashlab.course.execute import Ran, grading, kind, run
from crashlab.course.outcome import CELL_LIMIT
from crashlab.course.paths import HERE, CourseError, Rooms

PASS, FAIL, NOT_ATTEMPTED = "pass", "fail", "not attempted"


@dataclass(frozen=True)
class Verdict:
    """One test: its exercise, the points it is worth, PASS, FAIL or NOT_ATTEMPTED, and why."""

    exercise: str
    test: str
    points: float
    status: str
    sentence: str = ""

    @property
    def earned(self) -> float:
        """All points or none."""
        return self.points if self.status == PASS else 0.0


@dataclass(frozen=True)
class Judgement:
    """The verdicts on one notebook, and what else the learner should know."""

    verdicts: list[Verdict]
    notes: list[str]

    @property
    def passed(self) -> bool:
        """Every test passed."""
        return all(verdict.status == PASS for verdict in self.verdicts)


def check(path: Path, rooms: Rooms = HERE, limit: int = CELL_LIMIT) -> Judgement:
    """Run the notebook at `path`, which stays as it is, and judge it.

    `limit` is in seconds per cell. CourseError if the file cannot be judged: it is not there, is
    no notebook, has no exercises, or has an exercise's cell twice.
    """
    notebook = _read(path)
    _refuse_doubles(notebook, path)
    released = _released_tests(path, rooms)
    tests = [cell for cell in notebook.cells if kind(cell) == "test"]
    if not tests and not released:
        raise CourseError(f"{path} has no exercises to check.")
    notes = _restore(tests, released)
    verdicts, remarks = _judge(run(notebook, limit))
    if spoken := [grading(cell)["points"] for cell in notebook.cells if kind(cell) == "spoken"]:
        remarks.append(f"A person gives {sum(spoken):g} points more, for what you say.")
    present = {grading(cell)["grade_id"] for cell in tests}
    for name, cell in released.items():
        if name not in present:
            sentence = f"The test cell {name} is missing; copy it from a fresh notebook."
            verdicts.append(Verdict("", name, grading(cell)["points"], FAIL, sentence))
    return Judgement(verdicts, notes + remarks)


def _read(path: Path) -> nbformat.NotebookNode:
    if not path.is_file():
        raise CourseError(f"There is no file {path}.")
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises many kinds; to a learner they all mean this
        raise CourseError(f"{path} is not a notebook, or is damaged.") from error


def _refuse_doubles(notebook: nbformat.NotebookNode, path: Path) -> None:
    places = defaultdict(list)
    for number, cell in enumerate(notebook.cells, 1):
        if name := grading(cell).get("grade_id"):
            places[name].append(number)
    for name, numbers in places.items():
        if len(numbers) > 1:
            cells = " and ".join(map(str, numbers))
            raise CourseError(
                f"{path}: cells {cells} both are the cell {name}; merge them if you split it "
                "(select both, Shift+M), delete the copy if you copied it."
            )


def _released_tests(path: Path, rooms: Rooms) -> dict[str, nbformat.NotebookNode]:
    """The test cells as released, by id.

    From notebooks/; from solutions/ if the learner works on that very file.
    """
    for room in (rooms.notebooks, rooms.solutions):
        for original in sorted([*room.glob(path.name), *room.glob(f"*/{path.name}")]):
            if not original.samefile(path):
                notebook = nbformat.read(original, as_version=4)
                notebook, _ = ClearHiddenTests().preprocess(notebook, {})
                tests = [cell for cell in notebook.cells if kind(cell) == "test"]
                return {grading(cell)["grade_id"]: cell for cell in tests}
    return {}


def _restore(
    tests: list[nbformat.NotebookNode], released: dict[str, nbformat.NotebookNode]
) -> list[str]:
    """Put the released tests in place of edited ones, and say so."""
    notes = []
    for cell in tests:
        name = grading(cell)["grade_id"]
        original = released.get(name)
        if original is None:
            continue
        if cell.source != original.source:
            notes.append(f"The test cell {name} was edited; the check used the original.")
        cell.source, cell.cell_type = original.source, original.cell_type
        cell.metadata = original.metadata
    return notes


def _judge(results: list[Ran]) -> tuple[list[Verdict], list[str]]:
    verdicts, notes = [], []
    answer: Ran | None = None
    stubs: list[str] = []
    for ran in results:
        if ran.kind == "answer":
            answer = ran
            if ran.failure and ran.failure.is_stub:
                stubs.append(ran.id)
        unwritten = ran.failure and (
            ran.failure.is_stub
            or (ran.failure.name == "NameError" and stubs)
            or (ran.kind == "test" and answer and answer.id in stubs)
        )
        if ran.kind == "test":
            status = PASS if ran.passed else NOT_ATTEMPTED if unwritten else FAIL
            sentence = ran.failure.sentence if status == FAIL else ""
            verdicts.append(
                Verdict(answer.id if answer else "", ran.id, ran.points, status, sentence)
            )
        elif ran.failure and not unwritten and not ran.may_raise and ran.failure.name != "NotRun":
            notes.append(f"{ran.place.capitalize()}: {ran.failure.sentence}")
    return verdicts, notes
