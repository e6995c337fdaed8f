"""A course of one exercise, for tests that need no bench."""

from pathlib import Path

from crashlab.course.paths import Rooms

AUTHOR = """\
# %% [markdown]
# # Toy
#
# Double a number.

# %%
import warnings

# %% answer id="double"
def double(x):
    ### BEGIN SOLUTION
    secret_answer = 2 * x
    return secret_answer
    ### END SOLUTION

# %% wrong loses="double-value double-large" why="adds three"
def double(x):
    return x + 3

# %% wrong loses="double-large" why="stops at ten"
def double(x):
    return min(2 * x, 10)

# %% wrong loses="double-value double-large" why="gives words"
def double(x):
    return str(2 * x)

# %% right why="adds"
def double(x):
    return x + x

# %% test id="double-value" points=1
warnings.warn("a warning is no mistake")
assert double(2) == 4, f"double(2) is 4, yours gave {double(2)!r}."

# %% test id="double-large" points=2
assert double(3) == 6, f"double(3) is 6, yours gave {double(3)!r}."
### BEGIN HIDDEN TESTS
hidden_value = double(100)
assert hidden_value == 200, f"double(100) is 200, yours gave {hidden_value!r}."
### END HIDDEN TESTS
"""


def course(root: Path, text: str = AUTHOR) -> Rooms:
    """A course with `text` as 02_toy of its part 1_by_hand, and again at the top as 00_start."""
    rooms = Rooms(root)
    for name in ("1_by_hand/02_toy.py", "00_start.py"):
        path = rooms.solutions / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return rooms
