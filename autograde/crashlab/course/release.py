"""Author files → solution notebooks → student notebooks.

Everything is made in a temporary course first, so that a mistake in one file changes nothing.
"""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from crashlab.course import engine
from crashlab.course.author import Author, Cell, author_files, read
from crashlab.course.paths import HERE, Rooms

# The same on every machine: what a kernel would write here differs from one Python to the next.
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def release(rooms: Rooms = HERE) -> list[Path]:
    """Remake every solution and student notebook; those without an author file are removed.

    Returns the removed ones.
    """
    authors = [read(path, rooms) for path in author_files(rooms)]
    with TemporaryDirectory() as folder:
        workshop = Rooms(Path(folder).resolve())
        make_course(authors, workshop)
        made = {
            place(author, room) for author in authors for room in (rooms.solutions, rooms.notebooks)
        }
        for author in authors:
            for there, here in (
                (workshop.solutions, rooms.solutions),
                (workshop.notebooks, rooms.notebooks),
            ):
                target = place(author, here)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(there / assignment(author) / target.name, target)
    gone = [
        path
        for room in (rooms.solutions, rooms.notebooks)
        for path in _notebooks(room)
        if path not in made
    ]
    for path in gone:
        path.unlink()
    return gone


def make_course(authors: Iterable[Author], rooms: Rooms, record: bool = False) -> None:
    """Write solution notebooks into an empty course; nbgrader makes student notebooks of them.

    Here a notebook that belongs to no part is an assignment of its own, because nbgrader knows
    nothing else. `record` also enters the assignments into the course's gradebook.
    """
    rooms.desk.mkdir(parents=True, exist_ok=True)
    for author in authors:
        target = rooms.solutions / assignment(author) / f"{author.stem}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(solution_notebook(author), target)
    for name in sorted({assignment(author) for author in authors}):
        engine.generate(rooms, name, record)


def assignment(author: Author) -> str:
    """The nbgrader assignment a notebook belongs to: its part, or itself if it lies at the top."""
    return author.part or author.stem


def place(author: Author, room: Path) -> Path:
    """Where the notebook of an author file lies in `room`, solutions/ or notebooks/."""
    return room / author.part / f"{author.stem}.ipynb"


def solution_notebook(author: Author) -> nbformat.NotebookNode:
    """The notebook with answers and hidden tests, as nbgrader wants it; the same everywhere."""
    seen: dict[str, int] = {}
    cells = [_notebook_cell(cell, seen) for cell in author.notebook_cells]
    return new_notebook(cells=cells, metadata=_METADATA)


def _notebook_cell(cell: Cell, seen: dict[str, int]) -> nbformat.NotebookNode:
    if cell.kind == "prose":
        return new_markdown_cell(cell.source, id=_content_id(cell, seen))
    if cell.kind == "code":
        metadata = {"tags": list(cell.tags)} if cell.tags else {}
        return new_code_cell(cell.source, id=_content_id(cell, seen), metadata=metadata)
    grading = {
        "grade": cell.kind != "answer",
        "grade_id": cell.id,
        "locked": cell.kind == "test",
        "schema_version": 3,
        "solution": cell.kind != "test",
        "task": False,
    }
    if cell.points:
        grading["points"] = cell.points
    new_cell = new_markdown_cell if cell.kind == "spoken" else new_code_cell
    return new_cell(cell.source, id=cell.id, metadata={"nbgrader": grading})


def _content_id(cell: Cell, seen: dict[str, int]) -> str:
    """An id made from the text, so that a new cell changes no other cell's id."""
    digest = hashlib.sha256(f"{cell.kind}\n{cell.source}".encode()).hexdigest()[:12]
    seen[digest] = seen.get(digest, 0) + 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def _notebooks(room: Path) -> list[Path]:
    """The notebooks at the two levels of the course, without Jupyter's hidden copies."""
    return [
        path
        for path in (*room.glob("*.ipynb"), *room.glob("[!.]*/*.ipynb"))
        if not path.name.startswith(".")
    ]
