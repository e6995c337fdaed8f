"""An author file is read as written, and every slip in it is named."""

import pytest
import toy

from crashlab.course.author import AuthorError, author_files, read, region, without_markers


@pytest.fixture
def read_toy(tmp_path):
    """Read the toy with `old` replaced by `new`."""

    def change(old: str = "", new: str = ""):
        assert old in toy.AUTHOR
        rooms = toy.course(tmp_path, toy.AUTHOR.replace(old, new))
        return read(rooms.solutions / "1_by_hand" / "02_toy.py", rooms)

    return change


def test_a_good_file_becomes_cells_and_one_exercise(read_toy):
    author = read_toy()
    kinds = [cell.kind for cell in author.cells]
    assert kinds == ["prose", "code", "answer", "wrong", "wrong", "wrong", "right", "test", "test"]
    (exercise,) = author.exercises
    assert exercise.id == "double"
    assert [test.points for test in exercise.tests] == [1, 2]
    assert exercise.alternatives[1].loses == ("double-large",)
    assert exercise.alternatives[1].why == "stops at ten"
    assert [cell.kind for cell in author.notebook_cells] == [
        "prose",
        "code",
        "answer",
        "test",
        "test",
    ]


def test_files_at_the_top_come_first(tmp_path):
    rooms = toy.course(tmp_path)
    assert [rooms.name(path) for path in author_files(rooms)] == [
        "solutions/00_start.py",
        "solutions/1_by_hand/02_toy.py",
    ]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("# %% answer id", "# %% anwser id", "cell 3 (anwser double): the header is none of"),
        ('answer id="double"', "answer", "cell 3 (answer): it needs an id"),
        ('id="double-value"', 'id="double value"', "it needs an id of letters"),
        ('id="double-large"', 'id="double-value"', "the id 'double-value' is used by more than"),
        (" points=2", "", "cell 9 (test double-large): it needs points"),
        ("points=2", "points=0", "it needs points, a number above 0"),
        ("points=2", "point=2", "unknown key 'point'"),
        (' why="adds three"', "", 'it needs why="…"'),
        ('loses="double-large" ', "", 'it needs loses="…"'),
        ('loses="double-large"', 'loses="double-small"', "'double-small' is no test of"),
        (
            'loses="double-large"',
            'loses="double-large" carries="double-value"',
            "'double-value' is no test of a later exercise",
        ),
        ("    ### BEGIN SOLUTION\n", "", "END SOLUTION, or the other way round"),
        ("    ### END SOLUTION\n", "", "a BEGIN SOLUTION without its END SOLUTION"),
        ("### END HIDDEN TESTS\n", "", "a BEGIN HIDDEN TESTS without its END"),
        ("import warnings", "### BEGIN SOLUTION\n### END SOLUTION", "only a cell of kind answer"),
        ('wrong loses="double-large"', "right", "it has 2 wrong answers and needs at least 3"),
        ('right why="adds"', 'wrong loses="double-large" why="x"', "needs a second right answer"),
        ("# %%\nimport warnings", '# %% test id="t" points=1\n1', "no answer cell stands above it"),
        ('loses="double-value double-large"', 'loses="double-large"', "no wrong answer loses it"),
    ],
)
def test_every_slip_is_named(read_toy, old, new, complaint):
    with pytest.raises(AuthorError) as error:
        read_toy(old, new)
    assert complaint in str(error.value)
    assert "solutions/1_by_hand/02_toy.py, cell " in str(error.value)


def test_an_answer_without_a_region_is_refused(read_toy):
    region_text = toy.AUTHOR[toy.AUTHOR.index("    ### BEGIN SOL") : toy.AUTHOR.index("# %% wrong")]
    with pytest.raises(AuthorError, match="needs ### BEGIN SOLUTION"):
        read_toy(region_text, "    return 2 * x\n\n")


def test_a_test_of_another_exercise_cannot_be_lost(tmp_path):
    second = toy.AUTHOR[toy.AUTHOR.index("# %% answer") :].replace("double", "twice")
    text = toy.AUTHOR + second.replace('loses="twice-large"', 'loses="double-large"')
    rooms = toy.course(tmp_path, text)
    with pytest.raises(AuthorError, match="'double-large' is no test of the exercise 'twice'"):
        read(rooms.solutions / "00_start.py", rooms)


def test_regions():
    source = "a\n# BEGIN SOLUTION\nb\n# END SOLUTION\nc"
    assert region(source, "SOLUTION") == (["b"], ["a", "c"])
    assert without_markers(source) == "a\nb\nc"
