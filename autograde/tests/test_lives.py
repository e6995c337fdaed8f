"""The lives of a process: each deed is shown, repeated ones are marked, each end is told."""

from crashlab.figures import lives
from crashlab.kill import Life
from crashlab.source import Point

FIRST = Life("agent", "killed", point=Point(__file__, 1, 2))
SECOND = Life("agent", "finished", value="completed")


def test_the_words_tell_deeds_and_ends() -> None:
    picture = lives([(FIRST, ["clone", "build"]), (SECOND, ["build", "install"])])
    words = repr(picture)
    assert "Life 1: clone, build; was killed before line 1" in words
    assert "Life 2: build, install; finished and returned 'completed'." in words
    assert 'aria-label="Lives of the process. Life 1' in picture._repr_html_()


def test_a_life_without_deeds_is_drawn_too() -> None:
    assert "Life 1: nothing done; had not ended" in repr(
        lives([(Life("agent", "stuck", reason="had not ended after 5 s and was killed"), [])])
    )


def test_a_repeated_deed_is_drawn_in_red() -> None:
    once = lives([(FIRST, ["clone"]), (SECOND, ["build"])])._repr_html_()
    twice = lives([(FIRST, ["clone"]), (SECOND, ["clone"])])._repr_html_()
    assert twice.count("#d64545") > once.count("#d64545")
