"""Try every known wrong answer at the price of running the notebook once.

The solution notebook runs cell by cell in one process. Before an answer runs, the process forks:
the fork keeps the state as it was just before the exercise, while the notebook goes on. In the fork
each wrong or second right answer of the exercise is tried in a fork of its own: the alternative,
then the tests of the exercise, and then that process is gone, with all it did to the interpreter
and to the working folder. Only the exercise's own test cells run, not the plain cells between them.

All forks together use AT_ONCE slots: bytes in a pipe, of which a trial takes one while it runs.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from multiprocessing import forkserver
from pathlib import Path
from tempfile import TemporaryDirectory

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from crashlab import kill
from crashlab.course.author import Cell, Exercise, read
from crashlab.course.outcome import CELL_LIMIT, Failure
from crashlab.course.paths import HERE, CourseError, Rooms

AT_ONCE = 2
NOTEBOOK_LIMIT = 900  # seconds for a notebook with all its trials


@dataclass(frozen=True)
class Trial:
    """One answer and how it did.

    `kind` is 'answer' for the solution itself, else 'wrong' or 'right'; `expected` are the tests it
    has to lose; `lost` says for each test that it lost why, and for its exercise's id why
    the answer itself could not run.
    """

    exercise: str
    kind: str
    why: str
    expected: tuple[str, ...]
    lost: dict[str, Failure]

    @property
    def as_expected(self) -> bool:
        """It lost exactly the tests it should, each because a check said so and not by accident."""
        return set(self.lost) == set(self.expected) and not self.accidents

    @property
    def accidents(self) -> dict[str, Failure]:
        """The lost tests whose error is no assertion and none of the bench's."""
        return {test: failure for test, failure in self.lost.items() if not failure.is_verdict}

    def __str__(self) -> str:
        lines = [
            f"{self.exercise}, {self.kind} ({self.why}): "
            f"expected to lose {' '.join(self.expected) or 'nothing'}"
        ]
        for test in sorted({*self.lost, *self.expected}):
            failure = self.lost.get(test)
            said = f"lost by {failure.name}: {failure.message}" if failure else "passed"
            lines.append(f"  {test} {said}")
        return "\n".join(lines)


def try_answers(path: Path, rooms: Rooms = HERE, limit: int = CELL_LIMIT) -> list[Trial]:
    """Try every answer of an author file: the solution, the wrong and the second right ones.

    `limit` is in seconds per trial. CourseError if a cell of the solution notebook fails, and on
    Windows, which has no fork.
    """
    if not hasattr(os, "fork"):
        raise CourseError(
            "Trials need os.fork, which Windows does not have; crashlab class works everywhere."
        )
    with TemporaryDirectory() as folder:
        report, errors, work = (Path(folder) / name for name in ("report.json", "errors", "work"))
        work.mkdir()
        # Not -m: the module that is __main__ has to be the notebook's.
        program = "import sys; from crashlab.course.trial import main; main(*sys.argv[1:])"
        search = os.pathsep.join(
            filter(None, [str(Path(kill.__file__).parents[1]), os.environ.get("PYTHONPATH")])
        )
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    program,
                    str(path),
                    str(rooms.root),
                    str(report),
                    str(limit),
                ],
                cwd=work,
                env={**os.environ, "PYTHONPATH": search, "IPYTHONDIR": folder, "MPLBACKEND": "agg"},
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            status = process.wait(NOTEBOOK_LIMIT)
        except subprocess.TimeoutExpired:
            raise CourseError(
                f"{rooms.name(path)} with its trials took more than {NOTEBOOK_LIMIT} s."
            ) from None
        finally:
            process.terminate()  # it ends its trials, which are groups of their own
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            _kill_group(process.pid)
            process.wait()
        if not report.exists():
            last = errors.read_text().strip().splitlines()[-1:] or [f"exit status {status}"]
            raise CourseError(f"{rooms.name(path)} could not be run to its end: {last[0]}")
        answers = json.loads(report.read_text(encoding="utf-8"))
    return [
        Trial(
            answer["exercise"],
            answer["kind"],
            answer["why"],
            tuple(answer["expected"]),
            {test: Failure.from_json(failure) for test, failure in answer["lost"].items()},
        )
        for answer in answers
    ]


def main(path: str, root: str, report: str, limit: str) -> None:
    """The process that runs the notebook: answers go to the file `report`, complaints to stderr."""
    author = read(Path(path), Rooms(Path(root)))
    exercises = {exercise.id: exercise for exercise in author.exercises}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    shell = _shell()
    kill.warm()  # one forkserver for all trials, instead of one each
    slots = _Slots()
    forks: dict[str, int] = {}
    lost: dict[str, dict] = {}
    try:
        for cell in author.notebook_cells:
            if cell.kind in ("prose", "spoken"):
                continue
            if cell.kind == "answer":
                exercise = exercises[cell.id]
                lost[exercise.id] = {}
                forks[exercise.id] = _fork_exercise(shell, exercise, slots, int(limit))
            failure = _run(shell, cell.source)
            if failure and cell.kind == "test":
                lost[exercise.id][cell.id] = asdict(failure)
            elif failure and "raises-exception" not in cell.tags:
                sys.exit(f"{cell.place}: {failure.sentence}")
        answers: list[dict] = []
        for name, exercise in exercises.items():
            os.waitpid(forks[name], 0)
            del forks[name]
            answers += json.loads(_notes(exercise).read_text(encoding="utf-8"))
            answers.append(_answer(name, exercise.answer, lost[name]))
        Path(report).write_text(json.dumps(answers), encoding="utf-8")
    finally:
        for pid in forks.values():
            os.kill(pid, signal.SIGTERM)  # it ends its trials
            os.waitpid(pid, 0)


class _Slots:
    """Permissions to run a trial, shared by all forks of this process."""

    def __init__(self) -> None:
        self.free, self.returned = os.pipe()
        os.set_blocking(self.free, False)
        os.write(self.returned, b"." * AT_ONCE)

    def take(self) -> bool:
        try:
            return bool(os.read(self.free, 1))
        except BlockingIOError:  # another fork was faster
            return False

    def give_back(self) -> None:
        os.write(self.returned, b".")


def _notes(exercise: Exercise) -> Path:
    return Path.cwd().parent / f"{exercise.id}.json"


def _fork_exercise(shell: InteractiveShell, exercise: Exercise, slots: _Slots, limit: int) -> int:
    """Keep the state of now in a process that tries the exercise's alternatives; its pid."""
    folder = Path.cwd().parent / exercise.id
    shutil.copytree(".", folder)
    pid = os.fork()
    if pid == 0:
        try:
            # The forkserver runs on and serves this process too; but multiprocessing would wait for
            # it as for a child, and here it is a sister.
            forkserver._forkserver.ensure_running = lambda: None
            answers = _try_all(shell, exercise, folder, slots, limit)
            _notes(exercise).write_text(json.dumps(answers), encoding="utf-8")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)  # nothing that the notebook's process has to do at its end is done here
    return pid


@dataclass
class _Child:
    """A trial under way."""

    pid: int
    pipe: int
    cell: Cell
    deadline: float
    heard: bytes = b""


class _Shell(InteractiveShell):
    def enable_gui(self, gui: str | None = None) -> None:
        """Nothing: no window, but `%matplotlib inline` asks."""


def _shell() -> InteractiveShell:
    """A shell as a kernel has it: its module is __main__, and linecache knows every cell."""
    config = Config()
    config.HistoryManager.enabled = False  # it has a thread, and threads do not survive a fork
    config.InteractiveShell.xmode = "Minimal"
    return _Shell.instance(config=config)


def _run(shell: InteractiveShell, source: str) -> Failure | None:
    result = shell.run_cell(source, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    return Failure.of(error) if error else None


def _answer(exercise: str, cell: Cell, lost: dict[str, dict]) -> dict:
    return {
        "exercise": exercise,
        "kind": cell.kind,
        "why": cell.why or "the solution",
        "expected": cell.loses,
        "lost": lost,
    }


def _try_all(
    shell: InteractiveShell, exercise: Exercise, folder: Path, slots: _Slots, limit: int
) -> list[dict]:
    """Every alternative of one exercise, as slots come free, in the order of the file."""
    waiting = list(enumerate(exercise.alternatives))
    running: dict[int, _Child] = {}
    done: dict[str, dict] = {}
    try:
        while waiting or running:
            deadlines = [child.deadline - time.monotonic() for child in running.values()]
            patience = max(0, min(deadlines)) if running else None
            asked = [*running, *([slots.free] if waiting else [])]
            ready, _, _ = select.select(asked, [], [], patience)
            if slots.free in ready and slots.take():
                number, cell = waiting.pop(0)
                copy = folder.with_name(f"{exercise.id}-{number}")
                shutil.copytree(folder, copy)
                child = _fork(shell, cell, exercise, copy, limit)
                running[child.pipe] = child
            for child in list(running.values()):
                over = time.monotonic() > child.deadline
                if child.pipe in ready:
                    chunk = os.read(child.pipe, 65536)
                    child.heard += chunk
                    over = over or not chunk or chunk.endswith(b"\n")
                if over:
                    del running[child.pipe]
                    done[child.cell.place] = _answer(
                        exercise.id, child.cell, _bury(child, exercise, limit)
                    )
                    slots.give_back()
    finally:
        for child in running.values():
            _kill_group(child.pid)
            os.waitpid(child.pid, 0)
    return [done[cell.place] for cell in exercise.alternatives]


def _fork(
    shell: InteractiveShell, cell: Cell, exercise: Exercise, folder: Path, limit: int
) -> _Child:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            os.chdir(folder)
            failures = {exercise.id: _run(shell, cell.source)}
            for test in exercise.tests:
                failures[test.id] = _run(shell, test.source)
            lost = {name: asdict(failure) for name, failure in failures.items() if failure}
            with open(write_end, "w", encoding="utf-8") as pipe:
                pipe.write(json.dumps(lost) + "\n")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)  # nothing that the notebook's process has to do at its end is done here
    os.close(write_end)
    return _Child(pid, read_end, cell, time.monotonic() + limit)


def _bury(child: _Child, exercise: Exercise, limit: int) -> dict[str, dict]:
    """End the child and all its group; what it lost, or everything if it never said."""
    late = time.monotonic() > child.deadline
    _kill_group(child.pid)
    _, status = os.waitpid(child.pid, 0)
    os.close(child.pipe)
    if child.heard.endswith(b"\n"):
        return json.loads(child.heard)
    how = f"within {limit} s" if late else f"(exit status {os.waitstatus_to_exitcode(status)})"
    failure = asdict(Failure("Died", f"The process did not finish its tests {how}."))
    return {test.id: failure for test in exercise.tests}


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
