"""What every notebook says of itself is true, and it is written as the house writes."""

import re

import pytest

from crashlab.course.author import Author, author_files, read
from crashlab.course.paths import ROOT

AUTHORS = [read(path) for path in author_files()]
README = (ROOT / "README.md").read_text(encoding="utf-8")
notebooks = pytest.mark.parametrize("author", AUTHORS, ids=lambda author: author.stem)


def prose(author: Author) -> list[str]:
    return [cell.source for cell in author.cells if cell.kind == "prose"]


@notebooks
def test_the_first_cell_has_title_question_minutes_and_the_right_points(author: Author) -> None:
    first = author.cells[0].source
    assert re.match(r"# \S", first)
    assert re.search(r"^\*\*.+\?\*\*$", first, re.M), "no question"
    minutes, points = re.search(
        r"^(\d+) minutes · (\d+) points? · before this: ", first, re.M
    ).groups()
    assert 5 <= int(minutes) <= 240
    assert int(points) == author.points


@notebooks
def test_the_readme_knows_the_notebook_and_its_points(author: Author) -> None:
    name = author.path.relative_to(ROOT / "solutions").with_suffix("").as_posix()
    assert re.search(rf"^\| `notebooks/{name}` \|.*\| {author.points:g} \|$", README, re.M)
    start = (ROOT / "solutions" / "00_start_here.py").read_text(encoding="utf-8")
    assert f"| `{name}` |" in start


@notebooks
def test_the_prose_keeps_its_voice(author: Author) -> None:
    for text in prose(author):
        plain = re.sub(r"`[^`]*`", "", text)
        assert "!" not in plain, text
        assert not re.search("[\U0001f300-\U0001faff\u2600-\u27bf]", plain), text


def test_every_room_is_in_the_readme() -> None:
    for room in ("notebooks/", "solutions/", "autograde/", "data/"):
        assert f"`{room}" in README
