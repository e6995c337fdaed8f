"""An outcome matrix shows its table as a picture, in words, and in both themes."""

import re
from pathlib import Path

from crashlab.figures import save_png
from crashlab.figures.matrix import matrix, outcome_matrix
from crashlab.figures.style import INK, MARKS

TWO = {
    "before either": {"effect first": "once", "record first": "once"},
    "between the two": {"effect first": "twice", "record first": "lost"},
}
LONG = {
    "a situation that takes many more words than fit into one line of a label": {
        "a strategy with a long name": "an outcome that nobody foresaw",
        "b": "once",
    },
    "Wi": {word: word for word in MARKS},
}


def test_the_picture_has_alternative_text_and_takes_the_ink_of_the_page() -> None:
    markup = outcome_matrix(TWO, "Both orders")._repr_html_()
    assert markup.startswith("<svg")
    label = re.search('aria-label="([^"]*)"', markup)[1]
    assert label == (
        "Outcome matrix. Both orders. before either: effect first once, record first once. "
        "between the two: effect first twice, record first lost."
    )
    assert INK not in markup
    assert "currentColor" in markup


def test_a_terminal_gets_a_table() -> None:
    assert repr(outcome_matrix(TWO, "Both orders")).split("\n") == [
        "Both orders",
        "                 effect first  record first",
        "before either    once          once",
        "between the two  twice         lost",
    ]


def test_each_cell_has_a_mark_and_a_word_and_harm_is_shaded() -> None:
    axes = matrix(TWO, "Both orders").axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert [texts.count(word) for word in ("once", "twice", "lost")] == [2, 1, 1]
    marks = [line.get_marker() for line in axes.lines if line.get_linestyle() == "None"]
    assert marks == [MARKS[word].marker for word in ("once", "once", "twice", "lost")]
    assert len(axes.patches) == 2


def test_a_cell_may_be_missing() -> None:
    rows = TWO | {"after both": {"record first": "once"}}
    assert "–" in [text.get_text() for text in matrix(rows, "").axes[0].texts]
    assert repr(outcome_matrix(rows, "")).endswith("after both       –             once")


def test_nothing_is_cut_off_and_no_two_texts_meet() -> None:
    for rows, title in ((TWO, "Both orders"), (TWO, "A long title " * 6), (LONG, "Long")):
        figure = matrix(rows, title)
        width, height = figure.get_size_inches() * figure.dpi
        boxes = [text.get_window_extent() for text in figure.axes[0].texts]
        for box in boxes:
            assert box.x0 >= 0
            assert box.x1 <= width
            assert box.y0 >= 0
            assert box.y1 <= height
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:i])


def test_it_can_be_saved_for_a_dark_page(tmp_path: Path) -> None:
    save_png(matrix(TWO, "Both orders", ink="#eeeeee"), tmp_path / "matrix.png", "#111111")
    assert (tmp_path / "matrix.png").stat().st_size > 10_000
