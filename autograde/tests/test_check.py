"""A learner is told, test by test, what passes, and every mishap with the file has its sentence."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
import toy

from crashlab.course import cli
from crashlab.course.check import check
from crashlab.course.paths import CourseError
from crashlab.course.release import release
from crashlab.course.run_course import run_course

RIGHT = "def double(x):\n    return 2 * x"


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    rooms = toy.course(tmp_path_factory.mktemp("course"))
    release(rooms)
    return rooms


@pytest.fixture
def learner(rooms, tmp_path):
    """A learner's copy; called with a function that edits its cells by id, it returns the path."""

    def edit(change=lambda notebook, cells: None) -> Path:
        path = tmp_path / "02_toy.ipynb"
        shutil.copy(rooms.notebooks / "1_by_hand" / path.name, path)
        notebook = nbformat.read(path, as_version=4)
        change(notebook, {cell.id: cell for cell in notebook.cells})
        nbformat.write(notebook, path)
        return path

    return edit


def answer(source):
    """An edit that writes `source` into the answer cell."""

    def change(notebook, cells):
        cells["double"].source = source

    return change


def outcome(judgement):
    return [(verdict.test, verdict.status, verdict.earned) for verdict in judgement.verdicts]


def test_all_right_also_with_a_warning(learner, rooms):
    path = learner(answer(RIGHT))
    before = path.read_bytes()
    judgement = check(path, rooms)
    assert outcome(judgement) == [("double-value", "pass", 1), ("double-large", "pass", 2)]
    assert judgement.passed and judgement.notes == []
    assert path.read_bytes() == before


def test_untouched_is_not_attempted(learner, rooms):
    judgement = check(learner(), rooms)
    assert [verdict.status for verdict in judgement.verdicts] == ["not attempted"] * 2
    assert not judgement.passed and judgement.notes == []


def test_a_stub_outside_a_function_is_not_attempted(learner, rooms):
    judgement = check(learner(answer('raise NotImplementedError("double")')), rooms)
    assert [verdict.status for verdict in judgement.verdicts] == ["not attempted"] * 2


def test_a_stub_that_the_bench_reports_is_not_attempted(learner, rooms):
    source = "from crashlab import NotWritten\ndef double(x): raise NotWritten('double')"
    judgement = check(learner(answer(source)), rooms)
    assert [verdict.status for verdict in judgement.verdicts] == ["not attempted"] * 2


def test_a_failing_check_speaks_for_itself(learner, rooms):
    judgement = check(learner(answer("def double(x):\n    return x + 2")), rooms)
    assert outcome(judgement) == [("double-value", "pass", 1), ("double-large", "fail", 0)]
    assert judgement.verdicts[1].sentence == "double(3) is 6, yours gave 5."


def test_an_answer_that_breaks_is_named(learner, rooms):
    judgement = check(learner(answer("def double(x) return x")), rooms)
    assert [verdict.status for verdict in judgement.verdicts] == ["fail"] * 2
    assert judgement.notes[0].startswith("Cell 3 (double): SyntaxError")


@pytest.mark.heavy
def test_a_cell_that_never_ends(learner, rooms):
    def change(notebook, cells):
        answer(RIGHT)(notebook, cells)
        extra = nbformat.v4.new_code_cell("while True: pass")
        notebook.cells.insert(2, extra)

    judgement = check(learner(change), rooms, limit=2)
    assert judgement.notes == ["Cell 3: It did not end within 2 s and was stopped."]
    assert judgement.passed


def test_a_kernel_that_dies(learner, rooms):
    judgement = check(learner(answer("import os\nos._exit(0)")), rooms)
    assert [verdict.status for verdict in judgement.verdicts] == ["fail"] * 2
    assert judgement.verdicts[0].sentence == "It did not run: the kernel ended in cell 3 (double)."
    assert judgement.notes[0].startswith("Cell 3 (double): The kernel died")


def test_edited_and_skipped_tests_are_restored(learner, rooms):
    def change(notebook, cells):
        cells["double-value"].source = "pass"
        cells["double-large"].metadata["tags"] = ["skip-execution"]
        answer("def double(x):\n    return 0")(notebook, cells)

    judgement = check(learner(change), rooms)
    assert judgement.notes == [
        "The test cell double-value was edited; the check used the original."
    ]
    assert [verdict.status for verdict in judgement.verdicts] == ["fail"] * 2


@pytest.mark.heavy
def test_edits_in_the_released_notebook_itself_are_seen(tmp_path):
    """A learner works in notebooks/; the tests are then the solution's, without the hidden ones."""
    rooms = toy.course(tmp_path)
    release(rooms)
    path = rooms.notebooks / "1_by_hand" / "02_toy.ipynb"
    assert check(path, rooms).notes == []
    text = path.read_text(encoding="utf-8").replace("double(2) == 4", "double(2) == 5")
    path.write_text(text, encoding="utf-8")
    assert "double-value was edited" in check(path, rooms).notes[0]


def test_a_missing_test_costs_its_points(learner, rooms):
    def change(notebook, cells):
        answer(RIGHT)(notebook, cells)
        notebook.cells.remove(cells["double-large"])

    judgement = check(learner(change), rooms)
    assert outcome(judgement) == [("double-value", "pass", 1), ("double-large", "fail", 0)]
    assert "double-large is missing" in judgement.verdicts[1].sentence


def test_a_doubled_cell_is_refused(learner, rooms):
    def change(notebook, cells):
        copy = nbformat.from_dict(cells["double"])
        copy.id = "another"
        notebook.cells.insert(3, copy)

    with pytest.raises(CourseError, match="cells 3 and 4 both are the cell double; merge them"):
        check(learner(change), rooms)


def test_files_that_cannot_be_judged(tmp_path, rooms):
    with pytest.raises(CourseError, match="There is no file"):
        check(tmp_path / "none.ipynb", rooms)
    text = tmp_path / "text.ipynb"
    text.write_text("not json")
    with pytest.raises(CourseError, match="is not a notebook"):
        check(text, rooms)
    prose = tmp_path / "prose.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), prose)
    with pytest.raises(CourseError, match="no exercises"):
        check(prose, rooms)


def test_the_command_prints_and_says_it_by_its_exit_status(learner, tmp_path, capsys):
    assert cli.main(["check", str(learner(answer("def double(x):\n    return x + 2")))]) == 1
    printed = capsys.readouterr().out
    assert "fail" in printed and "double(3) is 6, yours gave 5." in printed
    assert "1 of 3 points" in printed and "Traceback" not in printed
    assert cli.main(["check", str(learner(answer(RIGHT)))]) == 0
    assert cli.main(["check", str(tmp_path / "none.ipynb")]) == 2
    assert "There is no file" in capsys.readouterr().err


@pytest.mark.heavy
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal")
def test_ctrl_c_leaves_no_kernel(learner, tmp_path):
    pid = tmp_path / "pid"
    path = learner(
        answer(f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    )
    program = "import sys; from crashlab.course.cli import main; sys.exit(main(sys.argv[1:]))"
    package = str(Path(cli.__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", program, "check", str(path)],
        env={**os.environ, "PYTHONPATH": package},
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 30
    while not (pid.exists() and pid.read_text()) and time.monotonic() < end:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and "Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_the_course_earns_all_its_points(rooms):
    runs = run_course(rooms=rooms)
    assert [(run.notebook, run.earned, run.possible) for run in runs] == [
        ("00_start", 3, 3),
        ("02_toy", 3, 3),
    ]
    assert not any(run.broken for run in runs)
    with pytest.raises(CourseError, match="there are: 00_start, 02_toy"):
        run_course("03_else", rooms)


@pytest.mark.heavy
def test_a_lost_point_is_named(tmp_path):
    rooms = toy.course(
        tmp_path, toy.AUTHOR.replace("secret_answer = 2 * x", "secret_answer = 3 * x")
    )
    release(rooms)
    (run,) = run_course("02_toy", rooms)
    assert run.earned == 0 and run.possible == 3
    assert run.broken[0].place == "cell 4 (double-value)"
    assert run.broken[0].failure.sentence == "double(2) is 4, yours gave 6."
