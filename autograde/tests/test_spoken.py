"""A question of the bank becomes cells: students see what is asked, instructors also the rubric."""

import json

import nbformat
import pytest
import toy
from nbgrader.api import Gradebook

from crashlab.course import engine
from crashlab.course.author import AuthorError, read
from crashlab.course.check import check
from crashlab.course.paths import CourseError
from crashlab.course.release import release
from crashlab.course.run_course import run_course
from crashlab.course.sample_class import grade_sample_class
from crashlab.course.spoken import ANSWER_HERE, known
from crashlab.course.trial import try_answers

PUBLIC = """\
- id: why-double
  ask: {en: "Why double it?", zh: "为什么要翻倍？"}
  tags: [state]
  notebook: 02_toy
  difficulty: 1
  follow_ups: [{en: "And twice?", zh: "两次呢？"}]
"""
PRIVATE = """\
why-double:
  answer: {en: Because one is too few., zh: 因为一个不够。}
  rubric:
    must: [{en: one is too few, zh: 一个不够}]
    depth: [{en: names the two, zh: 说出两个}]
    mistakes: [{en: says three, zh: 说三个}]
  follow_ups: [{en: It is four then., zh: 那就是四个。}]
  confusable:
    terms: {en: double / twice, zh: 翻倍 / 两次}
    difference: {en: One is a number., zh: 一个是数。}
  claims: [two-is-two]
"""
CLAIMS = """\
from claims import claim

@claim("two-is-two", "02")
def test_two(): ...
"""
CELLS = """
# %% question id="why-double"

# %% spoken id="say-why" question="why-double" points=2
"""


def course(root, cells=CELLS, public=PUBLIC, private=PRIVATE):
    rooms = toy.course(root, toy.AUTHOR + cells)
    (rooms.solutions / "00_start.py").unlink()
    for path, text in (
        (rooms.root / "data/questions/toy.yaml", public),
        (rooms.solutions / "questions/toy.yaml", private),
        (rooms.root / "autograde/tests/test_claims_toy.py", CLAIMS),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    return rooms


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    rooms = course(tmp_path_factory.mktemp("course"))
    release(rooms)
    return rooms


def cells(room) -> dict:
    notebook = nbformat.read(room / "1_by_hand" / "02_toy.ipynb", as_version=4)
    nbformat.validate(notebook)
    return {cell.id: cell for cell in notebook.cells}


def test_a_student_sees_the_question_in_both_languages_and_no_rubric(rooms):
    mine = cells(rooms.notebooks)
    assert any("Why double it?" in c.source and "为什么要翻倍？" in c.source for c in mine.values())
    said = mine["say-why"]
    assert said.cell_type == "markdown" and said.source.endswith(ANSWER_HERE)
    assert said.metadata.nbgrader.points == 2
    assert said.metadata.get("editable", True)
    text = json.dumps([cell.source for cell in mine.values()], ensure_ascii=False)
    for secret in ("too few", "names the two", "says three", "因为", "SOLUTION"):
        assert secret not in text


def test_an_instructor_sees_answer_and_rubric(rooms):
    source = cells(rooms.solutions)["say-why"].source
    for part in ("too few", "names the two", "says three", "Why double it?", "2 points"):
        assert part in source


def test_the_machine_counts_only_what_it_judges(rooms):
    author = read(rooms.solutions / "1_by_hand" / "02_toy.py", rooms)
    assert author.points == 5
    (run,) = run_course(rooms=rooms)
    assert (run.earned, run.possible) == (3, 3)
    judgement = check(rooms.solutions / "1_by_hand" / "02_toy.ipynb", rooms)
    assert [verdict.test for verdict in judgement.verdicts] == ["double-value", "double-large"]
    assert "A person gives 2 points more, for what you say." in judgement.notes


def test_what_the_bank_may_cite(rooms):
    assert known(rooms).claims == {"two-is-two"}
    assert known(rooms).notebooks == {"02_toy"}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('question="why-double" ', 'question="why" ', "the bank has no question 'why'"),
        ('question id="why-double"\n', 'question id="why"\n', "the bank has no question 'why'"),
        ('question id="why-double"\n', 'question id="why-double"\nx = 1\n', "leave the cell empty"),
        (" points=2", "", "it needs points"),
    ],
)
def test_every_slip_is_named(tmp_path, old, new, complaint):
    rooms = course(tmp_path, CELLS.replace(old, new))
    with pytest.raises(AuthorError, match=complaint):
        read(rooms.solutions / "1_by_hand" / "02_toy.py", rooms)


def test_a_broken_bank_stops_the_release(tmp_path):
    rooms = course(tmp_path, private=PRIVATE.replace("two-is-two", "moon"))
    with pytest.raises(CourseError, match=r"why-double: .* no test of the course proves .*moon"):
        release(rooms)
    assert not rooms.notebooks.exists()


@pytest.mark.heavy
def test_a_trial_passes_over_what_is_said(rooms):
    trials = try_answers(rooms.solutions / "1_by_hand" / "02_toy.py", rooms)
    assert len(trials) == 5 and all(trial.as_expected for trial in trials)


@pytest.mark.heavy
def test_nbgrader_waits_for_a_person(tmp_path):
    rooms = course(tmp_path)
    scores, _ = grade_sample_class(rooms)
    assert all(score.as_expected for score in scores)
    school = type(rooms)(rooms.desk / "sample_class", desk_name="")
    with Gradebook(engine.database(school)) as gradebook:
        graded = gradebook.find_submission_notebook("02_toy", "1_by_hand", "all-right")
        points = {
            grade.name: (grade.auto_score, grade.max_score, grade.needs_manual_grade)
            for grade in graded.grades
        }
    assert points["double-large"] == (2, 2, False)
    assert points["say-why"] == (None, 2, True)
