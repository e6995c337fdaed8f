"""Student notebooks are what nbgrader makes of the author files, and hold no secret."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import toy
from pydantic import BaseModel

import crashlab
from crashlab.course.author import HIDDEN, SOLUTION, author_files, read, region
from crashlab.course.paths import HERE
from crashlab.course.release import place, release
from crashlab.course.spoken import bank

TRIVIAL = 12  # characters; `return path` says nothing


def _bytes(rooms) -> dict[str, bytes]:
    files = [*rooms.solutions.rglob("*.ipynb"), *rooms.notebooks.rglob("*.ipynb")]
    return {rooms.name(path): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    rooms = toy.course(tmp_path_factory.mktemp("course"))
    release(rooms)
    return rooms


def test_the_student_notebook(released):
    notebook = nbformat.read(released.notebooks / "1_by_hand" / "02_toy.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}
    assert 'raise NotImplementedError("double: write your code here")' in code["double"].source
    assert code["double-large"].metadata.nbgrader["points"] == 2
    assert code["double-large"].metadata["editable"] is False
    text = json.dumps(notebook)
    for secret in ("secret_answer", "hidden_value", "HIDDEN", "x + 3", "min(2 * x", "x + x"):
        assert secret not in text


def test_the_solution_notebook(released):
    notebook = nbformat.read(released.solutions / "00_start.ipynb", as_version=4)
    text = json.dumps(notebook)
    assert "secret_answer" in text and "hidden_value" in text
    assert "x + 3" not in text and "x + x" not in text
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


def test_twice_gives_the_same_bytes(released):
    first = _bytes(released)
    assert sorted(first) == [
        "notebooks/00_start.ipynb",
        "notebooks/1_by_hand/02_toy.ipynb",
        "solutions/00_start.ipynb",
        "solutions/1_by_hand/02_toy.ipynb",
    ]
    assert release(released) == []
    assert _bytes(released) == first


def test_a_new_cell_changes_no_other_id(released, tmp_path):
    longer = toy.course(tmp_path, toy.AUTHOR.replace("# %%\nimport", "# %%\n1\n\n# %%\nimport"))
    release(longer)
    ids = [
        {cell.id for cell in nbformat.read(rooms.notebooks / "00_start.ipynb", 4).cells}
        for rooms in (released, longer)
    ]
    assert ids[0] < ids[1]


def test_notebooks_without_author_file_go(tmp_path):
    rooms = toy.course(tmp_path)
    release(rooms)
    (rooms.solutions / "00_start.py").unlink()
    gone = release(rooms)
    assert sorted(map(rooms.name, gone)) == ["notebooks/00_start.ipynb", "solutions/00_start.ipynb"]
    assert not any(path.exists() for path in gone)


@pytest.mark.heavy
def test_nbgrader_itself_makes_the_same_bytes(released, tmp_path):
    """An instructor's `nbgrader generate_assignment`, in a copy of the course at another place."""
    copy = tmp_path / "copy"
    shutil.copytree(released.root, copy)
    package = Path(crashlab.__file__).parent
    shutil.copytree(package, copy / "autograde" / "crashlab", dirs_exist_ok=True)
    shutil.copy(package.parent / "nbgrader_config.py", copy / "autograde")
    target = copy / "notebooks" / "1_by_hand" / "02_toy.ipynb"
    target.unlink()
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "nbgrader",
            "generate_assignment",
            "1_by_hand",
            "--force",
            "--create",
        ],
        cwd=copy,
        env={
            **os.environ,
            "PATH": search,
            "PYTHONPATH": str(copy / "autograde"),
            "JUPYTER_CONFIG_PATH": str(copy / "autograde"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == (released.notebooks / "1_by_hand" / "02_toy.ipynb").read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["02_toy.ipynb"]


@pytest.fixture(scope="module")
def remade(tmp_path_factory):
    """The course's own author files and its bank, released somewhere else."""
    root = tmp_path_factory.mktemp("remade")
    bank_files = [
        *HERE.root.glob("*/questions/*.yaml"),
        *Path(__file__).parent.glob("test_claims_*"),
    ]
    for path in [*author_files(), *bank_files]:
        target = root / HERE.name(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    rooms = toy.Rooms(root)
    release(rooms)
    return rooms


def test_what_is_committed_is_what_release_makes(remade):
    mine, theirs = _bytes(HERE), _bytes(remade)
    mine = {name: data for name, data in mine.items() if ".ipynb_checkpoints" not in name}
    assert sorted(mine) == sorted(theirs)
    stale = [name for name in theirs if mine[name] != theirs[name]]
    assert not stale, f"not what their author files say, run make release: {stale}"


def _received() -> list[str]:
    """The texts of all that a student receives: notebooks, data, and the package as installed."""
    notebooks = [
        cell.source
        for notebook in HERE.notebooks.rglob("*.ipynb")
        for cell in nbformat.read(notebook, as_version=4).cells
    ]
    desk = HERE.root / "autograde"
    wheel = tomllib.loads((desk / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"][
        "build"
    ]["targets"]["wheel"]
    rooms = [HERE.root / "data", *(desk / name for name in wheel["packages"])]
    files = [desk / name for name in wheel["shared-data"]]
    files += [file for room in rooms for file in room.rglob("*") if file.suffix != ".pyc"]
    return notebooks + [
        file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()
    ]


RECEIVED = _received()


def _secrets(author) -> set[str]:
    """Lines that stand only in a solution or a hidden test, and whole wrong and right answers."""
    inside, outside = [], []
    for cell in author.notebook_cells:
        for marker in (SOLUTION, HIDDEN):
            secret, _ = region(cell.source, marker)
            inside += secret
        _, rest = region(cell.source, SOLUTION)
        outside += region("\n".join(rest), HIDDEN)[1]
    public = {line.strip() for line in outside}
    lines = {line.strip() for line in inside}
    answers = {
        cell.source.strip() for exercise in author.exercises for cell in exercise.alternatives
    }
    return {line for line in lines - public if len(line) > TRIVIAL} | answers


@pytest.mark.parametrize("path", author_files(), ids=lambda path: path.stem)
def test_no_secret_reaches_a_student(path):
    author = read(path)
    secrets = _secrets(author)
    lines = {line.strip() for source in RECEIVED for line in source.splitlines()}
    leaked = [
        secret
        for secret in secrets
        if secret in lines or ("\n" in secret and any(secret in source for source in RECEIVED))
    ]
    assert not leaked, f"a student could read: {leaked}"
    assert place(author, HERE.notebooks).exists()


def _texts(half: BaseModel) -> list[str]:
    """Every text of a half of a question, in both languages; claims and reports are public."""
    found = []
    names = [name for name in type(half).model_fields if name not in ("claims", "source")]
    for value in (getattr(half, name) for name in names):
        for each in value if isinstance(value, tuple) else [value]:
            found += _texts(each) if isinstance(each, BaseModel) else [str(each)]
    return found


@pytest.mark.parametrize("question", bank(HERE).values(), ids=lambda question: question.id)
def test_no_answer_of_the_bank_reaches_a_student(question):
    received = [" ".join(source.split()) for source in RECEIVED]
    assert any(question.asked.ask.zh in source for source in received), "nor the question"
    leaked = [
        secret
        for secret in _texts(question.answered)
        if len(secret) > TRIVIAL and any(" ".join(secret.split()) in source for source in received)
    ]
    assert not leaked, f"a student could read: {leaked}"


def test_no_author_file_reaches_a_student():
    rooms = (HERE.notebooks, HERE.root / "data")
    assert [path for room in rooms for path in room.rglob("*.py")] == []
