"""What notebooks and the question bank state, each held by a test that names it."""

import functools
from collections.abc import Callable
from importlib.metadata import version


def claim(name: str, notebooks: str) -> Callable:
    """Make a test the proof of a claim. The claim in words is the test's docstring.

    name       the claim's id, by which the question bank cites it
    notebooks  the numbers of the notebooks that state it, as in "06 07"
    """

    def prove(test: Callable) -> Callable:
        words = " ".join(test.__doc__.split())

        @functools.wraps(test)
        def proven(*args: object, **named: object) -> None:
            try:
                test(*args, **named)
            except Exception as error:
                raise AssertionError(
                    f"The claim {name}, stated in {notebooks}, does not hold on langgraph "
                    f"{version('langgraph')}: {words} ({type(error).__name__}: {error})"
                ) from error

        proven.claim, proven.notebooks = name, notebooks.split()
        return proven

    return prove
