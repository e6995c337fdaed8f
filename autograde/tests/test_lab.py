"""In a real browser: a check fails, the answer is mended, the check passes."""

import os
from pathlib import Path

import nbformat
import pytest
from browser import CHROMIUM, Notebook, chromium, lab

pytestmark = [pytest.mark.browser, pytest.mark.heavy]


@pytest.fixture(autouse=True)
def _needs_chromium() -> None:
    if not CHROMIUM:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Chromium is not installed.")


def test_a_failing_check_passes_when_the_answer_is_mended(tmp_path: Path) -> None:
    served = tmp_path / "course"
    served.mkdir()
    write_notebook(served / "tiny.ipynb", answer="answer = 41", check="assert answer == 42, answer")

    with lab(served) as address, chromium() as page:
        notebook = Notebook(page, address, "tiny.ipynb")
        notebook.run_all()
        assert "AssertionError: 41" in notebook.output("check")

        notebook.replace("answer", "answer = 42")
        notebook.run("answer")
        notebook.run("check")
        assert notebook.output("check") == ""

        pictures = [tmp_path / "light.png", tmp_path / "dark.png", tmp_path / "cell.png"]
        page.screenshot(pictures[0])
        page.theme("JupyterLab Dark")
        page.screenshot(pictures[1])
        notebook.screenshot("answer", pictures[2])

    sizes = [picture.stat().st_size for picture in pictures]
    assert min(sizes) > 1000, sizes


def write_notebook(path: Path, **cells: str) -> None:
    """Write a notebook of code cells, each named by its id."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source, id=name) for name, source in cells.items()],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, path)
