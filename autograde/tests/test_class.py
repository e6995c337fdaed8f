"""nbgrader gives the sample class exactly the scores that the author files promise."""

import csv

import nbformat
import pytest
import toy
from nbgrader.validator import Validator
from traitlets.config import Config

from crashlab.course.engine import configure
from crashlab.course.paths import CourseError
from crashlab.course.release import release
from crashlab.course.sample_class import grade_sample_class

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    rooms = toy.course(tmp_path_factory.mktemp("course"))
    (rooms.solutions / "00_start.py").unlink()
    scores, path = grade_sample_class(rooms)
    return rooms, {score.submission.student: score for score in scores}, path


def test_the_scores_are_as_promised(graded):
    _, scores, _ = graded
    assert {name: score.earned for name, score in scores.items()} == {
        "all-right": 3,
        "untouched": 0,
        "wrong-double-1": 0,
        "wrong-double-2": 1,
        "wrong-double-3": 0,
    }
    assert all(score.as_expected for score in scores.values())
    assert scores["wrong-double-2"].lost == {"double-large": "double(100) is 200, yours gave 10."}


def test_one_notebook_can_be_chosen(tmp_path):
    rooms = toy.course(tmp_path)
    scores, _ = grade_sample_class(rooms, "00_start")
    assert {score.submission.author.stem for score in scores} == {"00_start"}
    with pytest.raises(CourseError, match="No notebook named '03_toy' has an exercise"):
        grade_sample_class(rooms, "03_toy")


def test_a_wrong_answer_may_carry_on_into_a_later_exercise(tmp_path):
    second = toy.AUTHOR[toy.AUTHOR.index("# %% answer") :].replace("double", "twice")
    second = second.replace("secret_answer = 2 * x", "secret_answer = double(x)")
    text = toy.AUTHOR.replace(
        'loses="double-large" why="stops', 'loses="double-large" carries="twice-large" why="stops'
    )
    rooms = toy.course(tmp_path, text + second)
    (rooms.solutions / "00_start.py").unlink()
    scores = {score.submission.student: score for score in grade_sample_class(rooms)[0]}
    assert scores["wrong-double-2"].as_expected and scores["wrong-double-2"].earned == 2
    assert scores["wrong-double-1"].differences[0].startswith("lost twice-")


def test_the_csv_has_a_status(graded):
    _, _, path = graded
    rows = list(csv.DictReader(path.open(encoding="utf-8")))
    assert {row["status"] for row in rows} == {"graded"}
    assert [row["points"] for row in rows if row["student"] == "wrong-double-2"] == ["1"]


def test_feedback_shows_no_hidden_test_and_no_answer(graded):
    rooms, _, _ = graded
    pages = [path.read_text() for path in (rooms.desk / "sample_class/feedback").rglob("*.html")]
    assert len(pages) == 5
    assert not any("hidden_value" in page for page in pages)
    assert any("double(100) is 200" in page for page in pages)


def test_a_real_class_is_not_touched(graded):
    rooms, _, _ = graded
    assert [path.name for path in rooms.desk.iterdir()] == ["sample_class"]


def test_a_difference_and_a_crash_are_told(tmp_path):
    text = toy.AUTHOR.replace("min(2 * x, 10)", "2 * x").replace(
        "str(2 * x)", "__import__('os')._exit(0)"
    )
    rooms = toy.course(tmp_path, text)
    (rooms.solutions / "00_start.py").unlink()
    scores = {score.submission.student: score for score in grade_sample_class(rooms)[0]}
    assert scores["wrong-double-2"].differences == ["passed double-large, which it should lose"]
    assert scores["wrong-double-3"].status == "crashed"
    assert "Kernel died" in scores["wrong-double-3"].differences[0]
    assert scores["wrong-double-1"].as_expected


def test_the_validate_button_does_not_mind_a_warning(tmp_path):
    """The button runs nbgrader's Validator with our settings."""
    rooms = toy.course(tmp_path)
    release(rooms)
    path = rooms.notebooks / "00_start.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.id == "double":
            shell = "import subprocess, sys\nsubprocess.run('echo low >&2', shell=True)\n"
            cell.source = (
                "def double(x):\n    import os; os.write(2, b'low')\n    return 2 * x\n" + shell
            )
    nbformat.write(notebook, path)
    config = Config()
    configure(config, rooms)
    assert Validator(config=config).validate(str(path)) == {}
    assert Validator().validate(str(path))["failed"]
