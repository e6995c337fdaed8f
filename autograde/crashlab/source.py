"""The lines a piece of code is made of, and the points in it at which a process can be killed."""

import dis
import inspect
import linecache
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType

Line = tuple[str, int]  # file name (of a cell: the one that tracebacks show) and line number


LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def is_library(file: str) -> bool:
    """Say whether a file belongs to Python or to an installed package."""
    return file.startswith(LIBRARIES)


def lines_of_code(code: CodeType) -> set[Line]:
    """Return the lines that hold something to run, those of nested functions included."""
    lines = {(code.co_filename, line) for _, _, line in code.co_lines() if line}
    nested = (const for const in code.co_consts if isinstance(const, CodeType))
    return lines.union(*map(lines_of_code, nested))


def lines_of_function(function: Callable) -> set[Line]:
    """Return the lines of a function that hold something to run."""
    return lines_of_code(inspect.unwrap(function).__code__)


def moments(code: CodeType) -> set[int]:
    """Return the instructions (their offsets) that begin a line or follow a call within one.

    What a function does to the world it does by calls, so these are the moments between which the
    world can change. Setting an item or an attribute may call, too.
    """
    starts = {start for start, _ in dis.findlinestarts(code)}
    found = set()
    called = False
    for instruction in dis.get_instructions(code):
        if called or instruction.offset in starts:
            found.add(instruction.offset)
        called = "CALL" in instruction.opname or instruction.opname in (
            "STORE_SUBSCR",
            "STORE_ATTR",
        )
    return found


def line_text(file: str, line: int) -> str:
    """Return the text of a line, without the space around it."""
    return linecache.getline(file, line).strip()


@dataclass(frozen=True, order=True)
class Point:
    """A crash point: the moment before a line of your code runs.

    `visit` says which time the line comes up, from 1. In a close look (`fine`) there are moments
    within a line too, and `visit` numbers all moments of the line.
    """

    file: str
    line: int
    visit: int
    fine: bool = False

    def __str__(self) -> str:
        line = f"line {self.line} `{line_text(self.file, self.line)}`"
        if self.fine:
            return f"within {line}" if self.visit > 1 else f"before {line}"
        return f"before {line}" if self.visit == 1 else f"before {line}, visit {self.visit}"
