"""nbgrader, told where the rooms are, and the steps of it that the course calls itself."""

import os
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from nbformat import NotebookNode
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import (
    ClearHiddenTests,
    ClearSolutions,
    NbGraderPreprocessor,
)
from nbgrader.utils import capture_log, is_solution
from traitlets.config import Config

from crashlab.course.outcome import CELL_LIMIT
from crashlab.course.paths import HERE, CourseError, Rooms
from crashlab.course.spoken import ANSWER_HERE

# A warning is no mistake, but nbgrader gives 0 points for anything on stderr. Its IgnorePattern
# works for autograde and not for the Validate button; so the kernel itself sends to stdout what is
# meant for stderr, Python's and the file descriptor's.
_NO_STDERR = "import os, sys; os.dup2(1, 2); sys.stderr = sys.stdout"


class NamedStub(ClearSolutions):
    """Replace a solution by a stub that says which answer is missing."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict, cell_index: int
    ) -> tuple[NotebookNode, dict]:
        """Set the stub of this cell, then let nbgrader replace the solution by it."""
        if is_solution(cell):
            name = cell.metadata.nbgrader["grade_id"]
            self.code_stub = {
                "python": f'raise NotImplementedError("{name}: write your code here")'
            }
        return super().preprocess_cell(cell, resources, cell_index)


class ShortTracebacks(NbGraderPreprocessor):
    """Keep the last line of every error: a traceback in the feedback quotes the hidden tests."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict, cell_index: int
    ) -> tuple[NotebookNode, dict]:
        """Shorten the errors of this cell."""
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                output.traceback = [f"{output.ename}: {output.evalue}"]
        return cell, resources


def configure(c: Config, rooms: Rooms = HERE) -> None:
    """Write the course's settings into nbgrader's configuration `c`."""
    desk = rooms.desk.relative_to(rooms.root)
    c.CourseDirectory.root = str(rooms.root)
    c.CourseDirectory.source_directory = rooms.solutions.name
    c.CourseDirectory.release_directory = rooms.notebooks.name
    c.CourseDirectory.submitted_directory = str(desk / "submitted")
    c.CourseDirectory.autograded_directory = str(desk / "autograded")
    c.CourseDirectory.feedback_directory = str(desk / "feedback")
    c.CourseDirectory.db_url = database(rooms)
    c.CourseDirectory.ignore = [*CourseDirectory.ignore.default(), "*.py"]
    c.GenerateAssignment.preprocessors = [
        NamedStub if step is ClearSolutions else step for step in _steps(GenerateAssignment)
    ]
    c.ClearSolutions.text_stub = ANSWER_HERE
    c.GenerateFeedback.preprocessors = [
        ClearHiddenTests,
        ShortTracebacks,
        *_steps(GenerateFeedback),
    ]
    c.Execute.timeout = CELL_LIMIT
    c.Execute.extra_arguments = [
        "--HistoryManager.hist_file=:memory:",
        f"--IPKernelApp.exec_lines={_NO_STDERR}",
    ]


def database(rooms: Rooms) -> str:
    """The address of the gradebook."""
    return f"sqlite:///{(rooms.desk / 'gradebook.db').as_posix()}"


def generate(rooms: Rooms, assignment: str, record: bool = False) -> None:
    """nbgrader's generate_assignment: student notebooks, and a gradebook entry if `record`."""
    config = Config()
    config.GenerateAssignment.no_database = not record
    config.SaveCells.enabled = record
    _run(GenerateAssignment, rooms, assignment, config=config)


def autograde(rooms: Rooms, assignment: str, student: str) -> None:
    """nbgrader's autograde for one student; CourseError carries nbgrader's log if it gives up."""
    _run(Autograde, rooms, assignment, student_id=student)


def feedback(rooms: Rooms, assignment: str, student: str) -> None:
    """nbgrader's generate_feedback for one student."""
    _run(GenerateFeedback, rooms, assignment, student_id=student)


def _steps(converter: type) -> list[type]:
    return converter.preprocessors.default()


def _run(
    converter: type,
    rooms: Rooms,
    assignment: str,
    student_id: str = "*",
    config: Config | None = None,
) -> None:
    """Run one converter; what it logs is shown only if it fails."""
    _find_alembic()
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = config or Config()
        configure(config, rooms)
        # Two processes grade one class: each waits for the other's write, and as their kernels
        # listen on files, they cannot pick the same TCP port.
        config.CourseDirectory.db_url += "?timeout=60"
        if os.name == "posix":
            config.KernelManager.transport = "ipc"
            config.KernelManager.ip = str(Path(folder) / "kernel")
        course = CourseDirectory(config=config, assignment_id=assignment, student_id=student_id)
        result = capture_log(converter(coursedir=course, config=config, force=True))
    if not result["success"]:
        log = result.get("log") or result["error"]
        raise CourseError(
            f"nbgrader could not finish {converter.__name__} for {assignment}, {student_id}:\n{log}"
        )


def _find_alembic() -> None:
    """nbgrader makes a new gradebook with the command alembic, which stands beside this Python."""
    here = str(Path(sys.executable).parent)
    if here not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PATH")]))
