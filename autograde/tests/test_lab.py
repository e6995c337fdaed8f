"""In a real browser, as a learner: a check fails, the answer is mended, the check passes."""

import json
import os
from pathlib import Path

import pytest
from browser import CHROMIUM, Notebook, chromium, lab

from crashlab.course.author import read, without_markers
from crashlab.course.paths import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.heavy]

NAME = "1_by_hand/02_checkpoint"
PICTURES = os.environ.get("PICTURES")  # a folder to keep the screenshots in, to look at them


@pytest.fixture(autouse=True)
def _needs_chromium() -> None:
    if not CHROMIUM:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Chromium is not installed.")


def test_a_failing_check_passes_when_the_answer_is_mended(tmp_path: Path) -> None:
    pictures = Path(PICTURES) if PICTURES else tmp_path
    author = read(ROOT / "solutions" / f"{NAME}.py")
    exercises = {exercise.id: exercise for exercise in author.exercises}
    in_place = exercises["save"].alternatives[0].source
    cells = json.loads((ROOT / "notebooks" / f"{NAME}.ipynb").read_text(encoding="utf-8"))["cells"]
    source = {cell["id"]: "".join(cell["source"]) for cell in cells}
    maps = next(name for name, text in source.items() if "side_by_side(\n" in text)
    whole = next(name for name, text in source.items() if "def half_way" in text)

    with lab(ROOT / "notebooks") as address, chromium() as page:
        notebook = Notebook(page, address, f"{NAME}.ipynb")
        notebook.run_all()
        assert "NotImplementedError: predict_budget" in notebook.output("predict_budget")

        for exercise in author.exercises:
            notebook.replace(exercise.id, without_markers(exercise.answer.source))
        notebook.replace("save", in_place)
        notebook.run_all()
        assert notebook.output("save_content") == ""
        assert "torn; " in notebook.output("save_whole").splitlines()[-1]
        assert notebook.output("save_beside") == ""  # Lab stopped before it
        notebook.screenshot("save_whole", pictures / "failing_check.png")

        notebook.replace("save", without_markers(exercises["save"].answer.source))
        notebook.run_all()
        for exercise in author.exercises:
            for test in exercise.tests:
                assert "Error" not in notebook.output(test.id)
        notebook.screenshot("save_whole", pictures / "passing_check.png")
        assert "Your save" in notebook.output(maps)
        notebook.screenshot(maps, pictures / "maps_light.png")
        notebook.screenshot(whole, pictures / "whole_light.png")
        page.theme("JupyterLab Dark")
        notebook.screenshot(maps, pictures / "maps_dark.png")
        page.screenshot(pictures / "window_dark.png")

    for name in (
        "failing_check",
        "passing_check",
        "maps_light",
        "whole_light",
        "maps_dark",
        "window_dark",
    ):
        assert (pictures / f"{name}.png").stat().st_size > 5_000
