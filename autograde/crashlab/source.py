"""Which lines a piece of code is made of, and their text."""

import inspect
import linecache
from collections.abc import Callable
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
