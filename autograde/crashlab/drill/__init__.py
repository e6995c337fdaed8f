"""The spoken drill: say an answer aloud, see a good one, rate yours, and meet it again when due."""

from pathlib import Path
from typing import TYPE_CHECKING

from crashlab import DATA

# Whoever needs the record alone, as each process that is killed in a rating, waits for no more.
if TYPE_CHECKING:
    from crashlab.bank import Language, Question
    from crashlab.drill.panel import Panel


def open_drill(
    language: "Language" = "en", folder: Path | None = None, root: Path = DATA.parent
) -> "Panel":
    """Open the drill in a notebook.

    `folder` is where the record of your ratings is, by default the place for data of yours; `root`
    is the course. RecordError if there can be no record, BankError if the questions are broken.
    """
    from crashlab.drill.panel import Panel
    from crashlab.drill.record import Record
    from crashlab.drill.session import Session

    bank, parts = read_course(root)
    return Panel(Session(bank, parts, Record(folder), language))


def read_course(root: Path = DATA.parent) -> tuple[dict[str, "Question"], dict[str, str]]:
    """The question bank, with answers where the course has them, and the part of each notebook."""
    from crashlab.bank import read_bank

    answers = root / "solutions" / "questions"
    bank = read_bank(root / "data" / "questions", answers if answers.is_dir() else None)
    notebooks = (root / "notebooks").glob("*/[0-9]*.ipynb")
    return bank, {path.stem: path.parent.name for path in notebooks}
