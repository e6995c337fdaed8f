"""A growth figure shows its numbers as lines, in words, and in both themes."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from crashlab.figures import growth, save_png
from crashlab.figures.growth import DASHES, LABEL, MARKS, chart, joined, size, spread, ticks
from crashlab.figures.style import INK

TWO = {
    "a list": {step: 5_000 * step * step for step in range(51)},
    "ids": {step: 10_600 * step for step in range(51)},
}
LONG = {
    f"a way to store documents that has the number {n}": {step: 10_000 * step for step in range(9)}
    for n in range(5)
}
ONE = {"one": {3: 7}}
SAME = {
    "a list": {0: 0, 50: 12.5e6},
    "ids": {0: 0, 50: 530e3},
    "delta": {0: 0, 50: 560e3},
    "one": {0: 0, 50: 560e3},
}
NOTHING = {"nothing": {0: 0, 5: 0}, "short": {0: 0, 2: 0}}
ALL = [TWO, LONG, ONE, SAME, NOTHING, {"huge": {10: 3.2e12}, "small": {1: 1}}]


def test_the_picture_has_alternative_text_and_takes_the_ink_of_the_page() -> None:
    markup = growth(TWO, "10 kB a step")._repr_html_()
    assert markup.startswith("<svg")
    label = re.search('aria-label="([^"]*)"', markup)[1]
    assert label == (
        "Growth. 10 kB a step. "
        "a list: 0 B at 0 steps, 3.12 MB at 25 steps, 12.5 MB at 50 steps. "
        "ids: 0 B at 0 steps, 265 kB at 25 steps, 530 kB at 50 steps."
    )
    assert INK not in markup
    assert "currentColor" in markup


def test_a_terminal_gets_a_table_of_the_ticks() -> None:
    assert repr(growth(TWO, "10 kB a step")).split("\n") == [
        "10 kB a step",
        "steps   a list     ids",
        "    0      0 B     0 B",
        "   10   500 kB  106 kB",
        "   20  2.00 MB  212 kB",
        "   30  4.50 MB  318 kB",
        "   40  8.00 MB  424 kB",
        "   50  12.5 MB  530 kB",
    ]


def test_a_value_that_is_missing_is_a_dash_and_few_steps_are_all_shown() -> None:
    lines = {"a": {1: 10, 7: 20}, "b": {7: 5}}
    rows = repr(growth(lines, "")).split("\n")[2:]
    assert [row.split() for row in rows] == [["1", "10", "B", "–"], ["7", "20", "B", "5", "B"]]


def test_the_lines_lie_where_the_numbers_say() -> None:
    axes = chart(TWO, "").axes[0]
    places = [(text.get_ha(), text.get_text(), *text.get_position()) for text in axes.texts]
    xs = {number: x for side, number, x, _ in places if side == "center"}
    levels = {number: y for side, number, _, y in places if side == "right"}
    zero, ten = levels["0"], levels["10"]
    assert "MB" in [text.get_text() for text in axes.texts]
    for name, line in TWO.items():
        [drawn] = [each for each in axes.lines if each.get_gid() == name]
        for step, x, y in zip(sorted(line), *drawn.get_data(), strict=True):
            assert x == pytest.approx(xs["0"] + (xs["50"] - xs["0"]) * step / 50)
            assert y == pytest.approx(zero + (ten - zero) * line[step] / 10e6)


def test_each_line_has_its_name_and_last_value_and_colour_is_not_all_that_tells_them_apart() -> (
    None
):
    axes = chart(LONG, "").axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert all(f"{name}, 80.0 kB" in texts for name in LONG)
    drawn = [each for each in axes.lines if each.get_gid()]
    assert len({each.get_color() for each in drawn}) == len(drawn) == 5
    assert len({mark.marker for mark in MARKS}) == len(set(map(str, DASHES))) == 5


def test_lines_that_end_at_one_place_share_a_label_with_the_marks_of_all() -> None:
    axes = chart(SAME, "").axes[0]
    texts = {text.get_text(): text.get_position() for text in axes.texts}
    assert not {"ids, 530 kB", "delta, 560 kB"} & set(texts)
    assert "a list, 12.5 MB" in texts
    x, y = texts["ids, delta and one, 530 kB to 560 kB"]
    marks = [
        (*map(float, (line.get_xdata()[0], line.get_ydata()[0])), line.get_marker())
        for line in axes.lines
        if line.get_linestyle() == "None"
    ]
    row = sorted((at, marker) for at, height, marker in marks if height == y and at > x - 50)
    assert [marker for _, marker in row] == [mark.marker for mark in MARKS[1:4]]
    assert row[-1][0] < x
    assert joined({"a": 1, "b": 1.5}, 0.4) == {("a",): "a, 1 B", ("b",): "b, 2 B"}
    assert joined({"a": 7, "b": 7}, 0) == {("a", "b"): "a and b, 7 B"}


def test_nothing_is_cut_off_and_no_two_texts_meet() -> None:
    for lines in ALL:
        for title in ("Growth", "A long title " * 9):
            figure = chart(lines, title)
            width, height = figure.get_size_inches() * figure.dpi
            boxes = [text.get_window_extent() for text in figure.axes[0].texts]
            for box in boxes:
                assert box.x0 >= 0
                assert box.x1 <= width
                assert box.y0 >= 0
                assert box.y1 <= height
            for i, box in enumerate(boxes):
                assert not any(box.overlaps(other) for other in boxes[:i])


def test_labels_keep_apart_and_inside() -> None:
    for wanted in (
        [0, 0, 0],
        [50, 51, 90, 300],
        [299, 300, 298],
        [100],
        [0, 10, 20, 290, 300],
        [270, 300, 300],
    ):
        places = spread(dict(enumerate(wanted)), 0, 300)
        found = sorted(places.values())
        assert all(b - a >= LABEL - 1e-6 for a, b in pairwise(found))
        assert found[0] >= 0
        assert found[-1] <= 300 + 1e-6
    assert spread({"a": 10, "b": 200}, 0, 300) == {"a": 10, "b": 200}


def test_sizes_have_three_digits_and_ticks_are_round() -> None:
    bytes_ = [0, 12, 999, 999.6, 1000, 9995, 999_499, 999_500, 8_626_897, 1.234e9]
    said = ["0 B", "12 B", "999 B", "1.00 kB", "1.00 kB", "10.0 kB", "999 kB", "1.00 MB"]
    assert list(map(size, bytes_)) == [*said, "8.63 MB", "1.23 GB"]
    assert ticks(50, whole=True) == [0, 10, 20, 30, 40, 50]
    assert ticks(3, whole=True) == [0, 1, 2, 3]
    assert ticks(12_500_000)[-1] >= 12_500_000
    assert ticks(0) == [0, 1]


def test_what_cannot_be_drawn_is_refused() -> None:
    for lines in ({}, {"a": {}}, {str(n): {1: 1} for n in range(6)}):
        with pytest.raises(ValueError, match="1 to 5 lines"):
            growth(lines, "")


def test_it_can_be_saved_for_a_dark_page(tmp_path: Path) -> None:
    save_png(chart(TWO, "Growth", ink="#eeeeee"), tmp_path / "growth.png", "#111111")
    assert (tmp_path / "growth.png").stat().st_size > 10_000
