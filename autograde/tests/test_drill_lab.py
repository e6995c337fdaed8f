"""The drill in a real browser: a question is said, turned over, asked further, and rated."""

import os
from pathlib import Path

import nbformat
import pytest
import toy_bank
from browser import CHROMIUM, Notebook, Page, chromium, lab

pytestmark = [pytest.mark.browser, pytest.mark.heavy]

PICTURES = os.environ.get("PICTURES")  # a folder to keep the screenshots in, to look at them
WIDTHS = (1280, 800)
CELL = """\
from pathlib import Path

from crashlab.drill import open_drill

open_drill(folder=Path("record"), root=Path("course"))"""

# What a learner sees of the panel, and what of it does not fit into its own box.
TEXT = "document.querySelector('.crashlab-drill').innerText"
CUT_OFF = """[...document.querySelectorAll('.crashlab-drill *')]
    .filter(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth)
    .map(each => `${each.className}: ${each.innerText}`)"""


@pytest.fixture(autouse=True)
def _needs_chromium() -> None:
    if not CHROMIUM:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Chromium is not installed.")


def press(page: Page, label: str) -> None:
    """Press the button whose label begins so, once it is there."""
    button = (
        "[...document.querySelectorAll('.crashlab-drill button')].find(each => each.offsetParent"
    )
    button += " && each.innerText.startsWith(label))"
    page.wait(f"{button} !== undefined", label=label)
    page.js(f"{button}.click()", label=label)


def sees(page: Page, text: str) -> None:
    """Wait until the panel shows a text."""
    page.wait(f"{TEXT}.includes(text)", text=text)


def test_a_learner_drills_in_the_lab(tmp_path: Path) -> None:
    pictures = Path(PICTURES) if PICTURES else tmp_path
    served = tmp_path / "served"
    toy_bank.course(served / "course")
    cell = nbformat.v4.new_code_cell(CELL, id="panel")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata=kernel)
    nbformat.write(notebook, served / "drill.ipynb")

    with lab(served) as address, chromium() as page:

        def picture(name: str) -> None:
            """In both themes and both widths, with nothing cut off."""
            for theme in ("Light", "Dark"):
                page.theme(f"JupyterLab {theme}")
                for width in WIDTHS:
                    page.call(
                        "Emulation.setDeviceMetricsOverride",
                        width=width,
                        height=1000,
                        deviceScaleFactor=1,
                        mobile=False,
                    )
                    page.screenshot(
                        pictures / f"drill_{name}_{theme.lower()}_{width}.png", ".crashlab-drill"
                    )
                    assert page.js(f"return {CUT_OFF}") == []

        notebook = Notebook(page, address, "drill.ipynb")
        notebook.run_all()
        page.wait("document.querySelector('.crashlab-drill .question') !== null")
        sees(page, "Ask what-is-torn of os.replace <now>?")
        page.wait("document.querySelector('.crashlab-drill .clock').innerText >= '0:02'")
        typed = "document.querySelector('.crashlab-drill textarea')"
        page.js(f"{typed}.focus()")
        page.call("Input.insertText", text="First the temporary file,\nthen the rename.")
        picture("asked")

        press(page, "Show the answer")
        sees(page, "Answer what-is-torn & why.")
        sees(page, "then the rename.")
        sees(page, "Easy · in 8 days")
        stopped = page.js("return document.querySelector('.crashlab-drill .clock').innerText")
        press(page, "Ask me further")
        sees(page, "Further what-is-torn 0?")
        press(page, "Show the answer to that")
        sees(page, "Answer to what-is-torn 0.")
        picture("answered")
        assert (
            page.js("return document.querySelector('.crashlab-drill .clock').innerText") == stopped
        )
        assert stopped.endswith(" taken")

        press(page, "中文")
        sees(page, "必须说到")
        picture("chinese")
        press(page, "良好")
        sees(page, "Ask one-mail of os.replace <now>?（中文）")
        assert page.js(f"return {typed}.value") == ""
        press(page, "English")
        press(page, "Mock interview")
        sees(page, "8 questions from all parts")
        picture("offer")
        press(page, "Start")
        sees(page, "Question 1 of 5")
        page.wait("document.querySelector('.crashlab-drill .clock').innerText.startsWith('19:5')")
        picture("interview")
        press(page, "Show the answer")
        press(page, "Again")
        sees(page, "Question 2 of 5")
        press(page, "Show the answer")
        press(page, "Easy")
        sees(page, "Question 3 of 5")
        press(page, "End the interview")
        sees(page, "Your interview: 2 of 5 questions")
        picture("page")
