"""The lines a piece of code is made of, and the points in it at which a process can be killed."""

import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType

Line = tuple[str, int]  # file name (of a cell: the one that tracebacks show) and line number


def lines_of_code(code: CodeType) -> set[Line]:
    """Return the lines that hold something to run, those of nested functions included."""
    lines = {(code.co_filename, line) for _, _, line in code.co_lines() if line}
    nested = (const for const in code.co_consts if isinstance(const, CodeType))
    return lines.union(*map(lines_of_code, nested))


def lines_of_function(function: Callable) -> set[Line]:
    """Return the lines of a function that hold something to run."""
    return lines_of_code(inspect.unwrap(function).__code__)


def line_text(file: str, line: int) -> str:
    """Return the text of a line, without the space around it."""
    return linecache.getline(file, line).strip()


@dataclass(frozen=True, order=True)
class Point:
    """A crash point: the moment before a line of your code runs.

    `visit` says which time the line comes up, from 1. In a close look (`fine`) a line has many
    moments, and `visit` is the number of the moment.
    """

    file: str
    line: int
    visit: int
    fine: bool = False

    def __str__(self) -> str:
        line = f"line {self.line} `{line_text(self.file, self.line)}`"
        if self.fine:
            return f"moment {self.visit} of {line}"
        return line if self.visit == 1 else f"{line}, visit {self.visit}"
