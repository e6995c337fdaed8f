"""The environment: one list, pinned, installed whole or not at all, by whatever tool is there."""

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import environment
import pytest

ROOT = environment.ROOT
SCRIPT = "autograde/environment.py"
# Stands in for conda: writes down what it was told, and makes a prefix whose Python is a stand-in
# too; or fails half-way through, where the test asks for that.
CONDA = """#!/bin/sh
for word in "$@"; do echo "$word" >> "$SAID/arguments"; done
while [ $# -gt 1 ]; do
    case $1 in --prefix) prefix=$2 ;; --file) cp "$2" "$SAID/list" ;; esac
    shift
done
mkdir -p "$prefix/bin"
if [ -e "$SAID/fail" ]; then touch "$prefix/half"; exit 1; fi
cp "$SAID/python" "$prefix/bin/python"
"""
PYTHON = """#!/bin/sh
echo "$*" >> "$SAID/pip"
"""


class Clone:
    """A copy of what the environment is made from, and a PATH on which only our tools are."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a clone"  # pip lists split a path at its spaces
        self.said = folder / "said"
        self.tools = folder / "tools"
        (self.root / "autograde").mkdir(parents=True)
        self.said.mkdir()
        self.tools.mkdir()
        for path in [*environment.INPUTS, ROOT / SCRIPT]:
            shutil.copy(path, self.root / path.relative_to(ROOT))
        write_program(self.said / "python", PYTHON)

    def has(self, tool: str) -> None:
        write_program(self.tools / tool, CONDA)

    def prepare(self, *arguments: str, python: Path | str = sys.executable) -> tuple[int, str]:
        """Run the script; return its exit status and what it printed."""
        path = f"{self.tools}:/usr/bin:/bin"
        ran = subprocess.run(
            [python, self.root / SCRIPT, *arguments],
            env={**os.environ, "PATH": path, "SAID": str(self.said)},
            capture_output=True,
            text=True,
        )
        return ran.returncode, ran.stdout + ran.stderr

    def heard(self, what: str) -> list[str]:
        """The lines that a stand-in wrote down since the last time."""
        path = self.said / what
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def version(python: Path) -> tuple[int, int] | None:
    ask = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    ran = subprocess.run(ask, capture_output=True, text=True)
    if ran.returncode:  # pyenv puts a name on PATH for each Python, also for those not chosen
        return None
    major, minor = ran.stdout.split()
    return int(major), int(minor)


@functools.cache
def pythons() -> dict[tuple[int, int], Path]:
    """The Pythons of this machine by version; for its own version the one that runs the tests."""
    found = [Path(sys.executable), *(Path.home() / ".pyenv" / "versions").glob("3.*/bin/python")]
    names = [shutil.which(f"python3.{minor}") for minor in range(6, 20)]
    found += [Path(name) for name in names if name]
    return {number: python for python in reversed(found) if (number := version(python))}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    lines = [line for line in environment.PINS.read_text().splitlines() if line[0] != "#"]
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def listed() -> list[str]:
    return environment.pip_list(environment.LIST.read_text())


# The list


@pytest.mark.heavy
def test_the_list_resolves() -> None:
    words = [word for entry in listed() for word in entry.split(" ", 1)]
    install = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", *words]
    ran = subprocess.run(install, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_what_is_installed_fits_together() -> None:
    ran = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


def test_every_package_is_pinned() -> None:
    project = tomllib.loads((ROOT / "autograde" / "pyproject.toml").read_text())["project"]
    names = [entry for entry in listed() if not entry.startswith("-")] + project["dependencies"]
    missing = {normal(name) for name in names} - pinned().keys()
    assert not missing, f"Not in constraints.txt, run `make pins`: {sorted(missing)}"


def test_pins_are_names_and_versions_only() -> None:
    lines = environment.PINS.read_text().splitlines()
    odd = [line for line in lines if not re.fullmatch(r"#.*|[a-z0-9._-]+==[a-z0-9.]+", line)]
    assert not odd, odd


def test_the_list_is_read_without_its_comments() -> None:
    text = "dependencies:\n  - pip\n  - pip:\n      # why\n      - -e ./here  # it\n      - numpy\n"
    assert environment.pip_list(text) == ["-e ./here", "numpy"]
    assert listed()[:2] == ["-c autograde/constraints.txt", "-e ./autograde"]


def test_no_tracked_file_names_a_package_registry() -> None:
    hosts = [".".join(parts) for parts in [("pypi", "org"), ("pythonhosted", "org")]]
    hosts += [".".join(parts) for parts in [("anaconda", "org"), ("npmjs", "org")]]
    hosts += [".".join(parts) for parts in [("debian", "org"), ("ubuntu", "com")]]
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("not a git checkout, so nothing is tracked")
    for name in filter(None, listing.stdout.split("\0")):
        if (ROOT / name).is_file():
            text = (ROOT / name).read_text(errors="replace")
            assert not [host for host in hosts if host in text], f"{name} names a registry"


# The Python that is there


def test_the_script_is_readable_to_an_old_python() -> None:
    ast.parse((ROOT / SCRIPT).read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("number", [(3, 6), (3, 10), (3, 15)])
def test_an_unsupported_python_is_refused_in_a_sentence(number: tuple[int, int]) -> None:
    sentence = environment.refusal(number)
    assert "This is Python {}.{}, and the course needs 3.11 to 3.14".format(*number) in sentence
    assert "make test PYTHON=" in sentence


@pytest.mark.parametrize("number", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_a_supported_python_is_not_refused(number: tuple[int, int]) -> None:
    assert environment.refusal(number) is None


def test_the_old_pythons_of_this_machine_are_refused(clone: Clone) -> None:
    old = {number: python for number, python in pythons().items() if number < (3, 11)}
    if not old:
        pytest.skip("no Python older than 3.11 is here; the sentence itself is tested above")
    for number, python in old.items():
        status, said = clone.prepare("--tool", "venv", python=python)
        assert (status, said) == (1, environment.refusal(number) + "\n")
        assert not (clone.root / ".venv").exists()


# The tool


@pytest.mark.parametrize("tool", environment.CONDA_TOOLS)
def test_a_conda_tool_gets_absolute_paths(clone: Clone, tool: str) -> None:
    clone.has(tool)
    status, said = clone.prepare()
    assert status == 0, said

    arguments = clone.heard("arguments")
    command = ["create"] if tool == "micromamba" else ["env", "create"]
    assert arguments[:-1] == [*command, "--prefix", str(clone.root / ".venv"), "--file"]
    assert Path(arguments[-1]).is_absolute()
    given = environment.pip_list("\n".join(clone.heard("list")) + "\n")
    here = clone.root.as_uri()
    assert given[:2] == [f"-c {here}/autograde/constraints.txt", f"-e {here}/autograde"]
    assert given[2:] == listed()[2:]


@pytest.mark.heavy
def test_a_venv_is_made_where_there_is_no_conda(clone: Clone) -> None:
    # A list of nothing, so that no network is needed.
    (clone.root / "empty").touch()
    bounds = "  - python >=3.11,<3.15\n"
    (clone.root / "environment.yml").write_text(f"{bounds}  - pip:\n      - -r empty\n")
    status, said = clone.prepare()
    assert status == 0, said
    python = environment.python_of(clone.root / ".venv")
    assert version(python) == sys.version_info[:2]
    assert clone.prepare() == (0, "")


def test_the_tool_can_be_chosen(clone: Clone) -> None:
    clone.has("conda")
    clone.has("mamba")
    clone.prepare("--tool", "mamba")
    assert (clone.root / ".venv" / ".ready").read_text().startswith("mamba ")
    status, said = clone.prepare("--tool", "micromamba")
    assert (status, said) == (
        1,
        "There is no micromamba on PATH: install it, or choose another TOOL.\n",
    )


# Whole or not at all


def test_a_half_made_environment_is_made_again(clone: Clone) -> None:
    clone.has("conda")
    (clone.said / "fail").touch()
    status, said = clone.prepare()
    assert status == 1
    assert "The environment is not ready" in said
    assert "Traceback" not in said
    assert (clone.root / ".venv" / "half").exists()

    (clone.said / "fail").unlink()
    status, said = clone.prepare()
    assert status == 0, said
    assert not (clone.root / ".venv" / "half").exists()


def test_a_ready_environment_is_left_alone(clone: Clone) -> None:
    clone.has("conda")
    clone.prepare()
    clone.heard("arguments")
    assert clone.prepare() == (0, "")
    assert clone.heard("arguments") == clone.heard("pip") == []


@pytest.mark.parametrize("path", environment.INPUTS, ids=lambda path: path.name)
def test_an_environment_older_than_its_list_is_updated(clone: Clone, path: Path) -> None:
    clone.has("conda")
    clone.prepare()
    clone.heard("arguments")
    edited = clone.root / path.relative_to(ROOT)
    later = (clone.root / ".venv" / ".ready").stat().st_mtime + 1
    os.utime(edited, (later, later))
    status, said = clone.prepare()
    assert status == 0, said
    assert clone.heard("arguments") == []
    expected = "-m pip install --no-input -c autograde/constraints.txt -e ./autograde jupyterlab"
    assert clone.heard("pip")[0].startswith(expected)


def test_a_moved_environment_is_made_again(clone: Clone) -> None:
    clone.has("conda")
    clone.prepare()
    clone.heard("arguments")
    clone.root = clone.root.rename(clone.root.with_name("moved"))
    clone.prepare()
    assert str(clone.root / ".venv") in clone.heard("arguments")
