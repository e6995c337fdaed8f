"""A crash map shows what its report holds, as a picture, in words, and in both themes."""

import re
from pathlib import Path

import pytest
from test_explore import run  # a function whose source can be drawn

from crashlab.explore import Kill, Report
from crashlab.figures import crash_map, save_png, side_by_side
from crashlab.figures.style import AMBER, BLUE, GREY, INK, MARKS, PURPLE, RED
from crashlab.source import Point


def report(outcomes: list[list[str]]) -> Report:
    file, first = run.__code__.co_filename, run.__code__.co_firstlineno + 1
    kills = [
        Kill(Point(file, first + i, visit), outcome)
        for i, row in enumerate(outcomes)
        for visit, outcome in enumerate(row, 1)
    ]
    return Report("run", tuple(kills), "once", True, 0.1)


SOME = report(
    [["once"], ["once"] * 4, ["once"] * 3, [], ["once"] * 3, ["twice"] * 3, ["lost", "torn"]]
)


def test_the_picture_has_alternative_text_and_takes_the_ink_of_the_page() -> None:
    markup = SOME._repr_html_()
    assert markup.startswith("<svg")
    label = re.search('aria-label="([^"]*)"', markup)[1]
    assert "3 twice" in label
    assert "1 lost, 1 torn" in label
    assert INK not in markup
    assert "currentColor" in markup


def test_the_window_and_the_counts_are_drawn() -> None:
    texts = [text.get_text() for text in crash_map(SOME).axes[0].texts]
    window = [number for _, number in SOME.window]
    assert f"16 kills by SIGKILL. Crash window: lines {window[0]}–{window[-1]}." in texts
    assert {"once 11", "twice 3", "lost 1", "torn 1"} <= set(texts)
    assert "    for action in PLAN:" in texts


def test_nothing_is_cut_off() -> None:
    many = report([["once"] * 40, ["once", "twice"] * 4, ["an outcome that nobody foresaw"]])
    for each in (SOME, many):
        figure = crash_map(each)
        width, height = figure.get_size_inches() * figure.dpi
        for text in figure.axes[0].texts:
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= width + 1, text.get_text()
            assert box.y0 >= 0
            assert box.y1 <= height + 1


def luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("ground", ["#ffffff", "#111111"])
@pytest.mark.parametrize("colour", [BLUE, RED, AMBER, PURPLE, GREY])
def test_colours_are_legible_on_both_themes(colour: str, ground: str) -> None:
    a, b = sorted([luminance(colour), luminance(ground)])
    assert (b + 0.05) / (a + 0.05) >= 3


def test_no_two_outcomes_look_alike() -> None:
    good = ("new", "kept", "all")  # look like "once"
    looks = [(mark.marker, mark.filled) for word, mark in MARKS.items() if word not in good]
    assert len(set(looks)) == len(looks)


def test_two_maps_stand_side_by_side(tmp_path: Path) -> None:
    pair = side_by_side({"in place": SOME, "replaced": SOME})
    assert pair._repr_html_().count("<svg") == 2
    assert "in place" in repr(pair)
    assert "replaced" in repr(pair)
    save_png(crash_map(SOME, ink="#eeeeee"), tmp_path / "map.png", "#111111")
    assert (tmp_path / "map.png").stat().st_size > 10_000


def test_a_window_in_two_functions_names_them() -> None:
    def point(function: object, at: int) -> Point:
        return Point(function.__code__.co_filename, function.__code__.co_firstlineno + at, 1)

    places = [point(run, 1), point(run, 2), point(report, 1), point(report, 2)]
    kills = [Kill(place, "twice") for place in places[1:]]
    figure = crash_map(Report("run", (Kill(places[0], "once"), *kills), "once", True, 0.1))
    one, two = places[1].line, places[2].line
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert f"4 kills by SIGKILL. Crash window: run {one}; report {two}–{two + 1}." in texts
