"""Make the course's environment in .venv, or bring it up to date.

    python3 autograde/environment.py [--tool conda|mamba|micromamba|venv]
    python3.11 autograde/environment.py --pins

With conda, mamba or micromamba on PATH the environment comes from environment.yml; otherwise it is
a venv of the Python that runs this file, with the same pip list installed. --pins renews
autograde/constraints.txt.

Whatever python3 is there runs this file, so it is written in what Python 3.6 can read: an older
Python then says what to do, instead of stopping at a line that it cannot parse.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENV = ROOT / ".venv"
READY = ENV / ".ready"
LIST = ROOT / "environment.yml"
PINS = ROOT / "autograde" / "constraints.txt"
INPUTS = (LIST, PINS, ROOT / "autograde" / "pyproject.toml")
CONDA_TOOLS = ("conda", "mamba", "micromamba")


class NotMade(Exception):
    """Why there is no environment, and what to do about it, in a sentence."""


def main():
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(description="Make the course's environment in .venv.")
    parser.add_argument("--tool", choices=(*CONDA_TOOLS, "venv"), help="default: what is there")
    parser.add_argument("--pins", action="store_true", help="renew autograde/constraints.txt")
    options = parser.parse_args()
    try:
        if options.pins:
            renew_pins()
        else:
            prepare(options.tool)
    except NotMade as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; the same command starts again.", file=sys.stderr)
        return 130
    return 0


def prepare(tool=None):
    """See to it that .venv holds what the list asks for, made by ``tool`` if one is named."""
    made = made_by()
    if made and tool in (None, made):
        if READY.stat().st_mtime >= max(path.stat().st_mtime for path in INPUTS):
            return
        tool, action = made, update
    else:
        tool, action = tool or default_tool(), create
    started = time.time()
    action(tool)
    READY.write_text(f"{tool} {ENV}\n")
    # A list that was edited while pip was running counts as newer than the environment.
    os.utime(str(READY), (started, started))
    print(f"The environment in {ENV} is ready ({time.time() - started:.0f} s).")


def made_by():
    """The tool that made .venv to its end, or None. A moved one is of no use: it holds its path."""
    if READY.is_file() and python_of(ENV).is_file():
        tool, _, place = READY.read_text().strip().partition(" ")
        if place == str(ENV):
            return tool
    return None


def default_tool():
    """The first conda-like tool on PATH, or venv."""
    return next((tool for tool in CONDA_TOOLS if shutil.which(tool)), "venv")


def create(tool):
    """Make .venv from nothing; what an interrupted run left there goes first."""
    if Path(sys.prefix).resolve() == ENV:
        raise NotMade(
            "The environment has to be made again, but this Python is its own: leave it first "
            "(deactivate), then run the same command."
        )
    if ENV.exists():
        shutil.rmtree(str(ENV))
    if tool == "venv":
        make_venv(ENV)
        install(python_of(ENV), pip_list(LIST.read_text()))
    else:
        make_conda(tool)


def update(tool):
    """Install the list again. That is pip's work in a conda environment too."""
    READY.unlink()
    install(python_of(ENV), pip_list(LIST.read_text()))


def make_venv(folder):
    """Make an empty virtual environment of the Python that runs this file."""
    problem = refusal(sys.version_info)
    if problem:
        raise NotMade(problem)
    try:
        import ensurepip  # noqa: F401  Debian packs it apart from Python
        import venv  # noqa: F401
    except ImportError:
        raise NotMade(
            "This Python cannot make a virtual environment: install its venv module "
            "(Debian and Ubuntu: apt install python3-venv), then run the same command."
        ) from None
    run(sys.executable, "-m", "venv", str(folder))


def supported():
    """The first Python that the course supports and the first that it does not, as listed."""
    bounds = re.search(r"- python >=3\.(\d+),<3\.(\d+)", LIST.read_text())
    return (3, int(bounds.group(1))), (3, int(bounds.group(2)))


def refusal(version):
    """The sentence for a Python that the course does not support, or None."""
    first, end = supported()
    if first <= tuple(version[:2]) < end:
        return None
    return (
        f"This is Python {version[0]}.{version[1]}, and the course needs 3.{first[1]} to "
        f"3.{end[1] - 1}: install one and name it, as in `make test PYTHON=python3.13`, or install "
        "conda."
    )


def make_conda(tool):
    """Make a conda environment at the path of .venv from environment.yml."""
    if not shutil.which(tool):
        raise NotMade(f"There is no {tool} on PATH: install it, or choose another TOOL.")
    # conda 22 knows no --yes for `env create`; the variables work with every version.
    environ = dict(os.environ, CONDA_ALWAYS_YES="true", MAMBA_ALWAYS_YES="true")
    command = [tool, "create"] if tool == "micromamba" else [tool, "env", "create"]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "environment.yml"
        copy.write_text(with_absolute_paths(LIST.read_text()))
        run(*command, "--prefix", str(ENV), "--file", str(copy), env=environ)


def with_absolute_paths(text):
    """Return environment.yml with the paths of -c and -e absolute.

    pip reads the list from a file that the tool writes to a folder of its own choice. The paths
    are file URLs, because a requirements file splits a plain path at its spaces.
    """

    def absolute(match):
        return match.group(1) + (ROOT / match.group(2)).resolve().as_uri()

    return re.sub(r"(?m)^(\s+- -[ce] )(\S+)", absolute, text)


def pip_list(text):
    """Return the entries under `pip:`, the last section of environment.yml, without comments."""
    section = text.partition("- pip:\n")[2]
    entries = [line.partition(" #")[0].strip() for line in section.splitlines()]
    return [entry[2:] for entry in entries if entry.startswith("- ")]


def install(python, entries):
    """Install the entries of a pip list, each a name or an option with its path."""
    arguments = [word for entry in entries for word in entry.split(" ", 1)]
    run(str(python), "-m", "pip", "install", "--no-input", *arguments)


def python_of(env):
    """Return the interpreter of an environment, on whatever system it is."""
    places = [env / "Scripts" / "python.exe", env / "python.exe", env / "bin" / "python"]
    return next((place for place in places if place.is_file()), places[-1])


def renew_pins():
    """Write constraints.txt anew: what pip would install today if nothing were pinned.

    A dry run for the first release of the oldest Python, because a package may ask for a later one
    (3.11.5, say), and then the pins would be of no use on a system that has an earlier.
    """
    oldest = "{}.{}".format(*supported()[0])
    if "{}.{}".format(*sys.version_info) != oldest:
        raise NotMade(
            "Pins are made with the oldest Python that the course supports, so that they hold for "
            f"newer ones: `make pins PYTHON=python{oldest}`."
        )
    unpinned = [entry for entry in pip_list(LIST.read_text()) if not entry.startswith("-c ")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        target = [f"--python-version {oldest}.0", "--only-binary :all:", f"--target {folder}"]
        make_venv(Path(folder) / "venv")
        python = python_of(Path(folder) / "venv")
        install(python, ["--dry-run", f"--report {report}", *target, *unpinned])
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    pins = sorted(f"{each['name']}=={each['version']}\n".lower() for each in found)
    header = [line for line in PINS.read_text().splitlines(True) if line.startswith("#")]
    PINS.write_text("".join(header + [pin for pin in pins if not pin.startswith("crashlab==")]))
    print(f"{PINS} is written.")


def run(*command, env=None):
    """Run a command that says itself what it does; a failure ends the whole."""
    if subprocess.call(command, cwd=str(ROOT), env=env):
        raise NotMade(
            "The environment is not ready, for the reason above; making it needs the network, and "
            "the same command starts again."
        )


if __name__ == "__main__":
    sys.exit(main())
