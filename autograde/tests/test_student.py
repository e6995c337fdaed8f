"""A notebook as it is handed out runs to its first unanswered exercise, and says which it is."""

import asyncio
from pathlib import Path

import nbformat
import pytest

from crashlab.course.author import author_files, read
from crashlab.course.execute import run_async
from crashlab.course.paths import HERE
from crashlab.course.release import place


@pytest.mark.heavy
@pytest.mark.parametrize("path", author_files(), ids=lambda path: path.stem)
def test_an_unanswered_notebook_stops_at_its_first_exercise(path: Path) -> None:
    author = read(path)
    notebook = nbformat.read(place(author, HERE.notebooks), as_version=4)
    if not author.exercises:  # it runs to its end
        assert [str(ran.failure) for ran in asyncio.run(run_async(notebook)) if ran.failure] == []
        return
    first = author.exercises[0].id
    stop = next(n for n, cell in enumerate(notebook.cells) if cell.id == first)
    notebook.cells = notebook.cells[: stop + 1]
    *before, answer = asyncio.run(run_async(notebook))
    assert [str(ran.failure) for ran in before if ran.failure] == []
    assert answer.failure.name == "NotImplementedError"
    assert answer.failure.message.startswith(f"{first}: ")


@pytest.mark.parametrize("path", author_files(), ids=lambda path: path.stem)
def test_every_answer_cell_has_a_stub_that_names_it(path: Path) -> None:
    author = read(path)
    notebook = nbformat.read(place(author, HERE.notebooks), as_version=4)
    source = {cell.id: cell.source for cell in notebook.cells}
    for exercise in author.exercises:
        assert f'raise NotImplementedError("{exercise.id}: ' in source[exercise.id]
