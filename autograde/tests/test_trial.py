"""Every known wrong answer loses exactly its own points, and every right one loses none."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy

import crashlab
from crashlab.course.author import author_files
from crashlab.course.paths import CourseError
from crashlab.course.trial import try_answers

pytestmark = pytest.mark.heavy


def _try(tmp_path, text=toy.AUTHOR, limit=20):
    rooms = toy.course(tmp_path, text)
    return {
        trial.why: trial for trial in try_answers(rooms.solutions / "00_start.py", rooms, limit)
    }


def test_the_toy_is_as_promised(tmp_path):
    trials = _try(tmp_path)
    assert list(trials) == ["adds three", "stops at ten", "gives words", "adds", "the solution"]
    assert all(trial.as_expected for trial in trials.values())
    assert (
        trials["adds three"].lost["double-large"].message == "double(100) is 200, yours gave 103."
    )


def test_what_is_not_as_promised_is_told(tmp_path):
    text = toy.AUTHOR.replace("return x + 3", "return None + x").replace("min(2 * x, 10)", "2 * x")
    trials = _try(tmp_path, text)
    accident = trials["adds three"]
    assert not accident.as_expected and set(accident.accidents) == {"double-value", "double-large"}
    assert "lost by TypeError" in str(accident)
    assert not trials["stops at ten"].as_expected
    assert "double-large passed" in str(trials["stops at ten"])


def test_a_child_that_dies_or_never_ends_loses_everything(tmp_path):
    text = toy.AUTHOR.replace("return x + 3", "import os; os._exit(3)")
    text = text.replace("return str(2 * x)", "\n    while True: pass")
    trials = _try(tmp_path, text, limit=3)
    dead, stuck = trials["adds three"], trials["gives words"]
    assert set(dead.lost) == {"double-value", "double-large"} == set(stuck.lost)
    assert "exit status 3" in dead.lost["double-value"].message
    assert "within 3 s" in stuck.lost["double-value"].message
    assert trials["the solution"].as_expected and trials["adds"].as_expected


def test_a_trial_leaves_no_trace(tmp_path):
    """No name and no file of one answer is there for the next, and __main__ is the notebook."""
    text = toy.AUTHOR.replace(
        "import warnings", "import os, sys, warnings\nopen('count', 'w').close()"
    )
    text = text.replace(
        "warnings.warn(",
        "assert not os.path.getsize('count') and not hasattr(os, 'mark')\n"
        "os.mark = open('count', 'w').write('x')\n"
        "assert sys.modules['__main__'].double is double and sys.modules['__main__'].warnings\n"
        "import inspect; inspect.getsource(double)\n"
        "warnings.warn(",
    )
    assert all(trial.as_expected for trial in _try(tmp_path, text).values())


def test_a_broken_lesson_is_named(tmp_path):
    text = toy.AUTHOR.replace("import warnings", "import warnings\nwarnings.wran()")
    with pytest.raises(CourseError, match=r"00_start.py, cell 2 \(code\).*wran"):
        _try(tmp_path, text)


def test_ctrl_c_leaves_no_child(tmp_path):
    pid = tmp_path / "pid"
    endless = f"open({str(pid)!r}, 'w').write(str(__import__('os').getpid()))\n    while True: pass"
    rooms = toy.course(tmp_path, toy.AUTHOR.replace("return x + 3", endless))
    program = (
        "import sys; from pathlib import Path; from crashlab.course.trial import try_answers\n"
        "try_answers(Path(sys.argv[1]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(rooms.solutions / "00_start.py")],
        env={**os.environ, "PYTHONPATH": str(Path(crashlab.__file__).parents[1])},
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 30
    while not (pid.exists() and pid.read_text()) and time.monotonic() < end:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.wait(20)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize("path", author_files(), ids=lambda path: path.stem)
def test_the_answers_of_the_course(path):
    wrong = [str(trial) for trial in try_answers(path) if not trial.as_expected]
    assert not wrong, "\n".join(wrong)
