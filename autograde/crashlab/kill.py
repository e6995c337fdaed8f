"""Run a function in a process of its own, and kill that process just before a chosen line.

`launch` packs your function, sends it to a fresh process and waits. In that process a trace
function counts the lines of *your* code as they come up. At the chosen one the process sends itself
SIGKILL, the signal that no `finally`, no `atexit` and no flush can answer. What the operating
system already had survives. What the process still held is gone.

On Linux and macOS the fresh process is forked from a server that has the course's libraries loaded
(`multiprocessing`'s forkserver), so that one life costs milliseconds. Windows has no fork: there
every process starts an interpreter of its own and ends by TerminateProcess. Results are the same,
only slower.
"""

import contextlib
import io
import linecache
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import connection
from types import CodeType
from typing import Any

import cloudpickle

from crashlab.source import (
    Line,
    Point,
    is_library,
    line_text,
    lines_of_code,
    lines_of_function,
)
from crashlab.victim import POSIX, Order, live

START = "forkserver" if POSIX else "spawn"
KILLED = -signal.SIGKILL if POSIX else 9  # the exit code of a process that killed itself
MOST_OUTPUT = 20_000  # characters of a child's output that are shown and kept


class BenchError(Exception):
    """One sentence about the code under test. A notebook shows the sentence and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class NotWritten(BenchError, NotImplementedError):
    """The function under test is still a stub."""


@dataclass(frozen=True)
class Life:
    """What became of one process.

    `end` is one of
      "finished"  the function returned, `value` holds what
      "killed"    it died by SIGKILL before `point`, or by SIGXFSZ inside a write, and its exit
                  code says so
      "raised"    an exception came out of it, `reason` holds it
      "exited"    the process ended in some other way (`os._exit`, `sys.exit`, a foreign signal)
      "stuck"     it had not ended after the deadline and was killed for that
    """

    function: str
    end: str
    value: Any = None
    point: Point | None = None
    reason: str = ""
    stub: bool = False  # `reason` is a NotImplementedError
    exitcode: int | None = None
    output: str = ""
    points: tuple[Point, ...] = ()

    def __str__(self) -> str:
        if self.end == "finished":
            return f"{self.function} finished and returned {self.value!r}"
        if self.end == "killed" and self.point:
            return f"{self.function} was killed {self.point}"
        return f"{self.function} {self.reason}"

    __repr__ = __str__

    def result(self) -> Any:
        """What the function returned.

        Raises `NotWritten` if it is a stub and `BenchError` if it did not finish for any other
        reason.
        """
        if self.end == "finished":
            return self.value
        raise (NotWritten if self.stub else BenchError)(str(self))


def launch(
    function: Callable,
    *args: Any,
    kill_before: str | int | Point | None = None,
    visit: int = 1,
    kill_in_write: int | None = None,
    deadline: float = 5.0,
    echo: bool = True,
    inside: Iterable[Callable] = (),
    fine: bool = False,
    record: bool = False,
    fresh: bool = False,
) -> Life:
    """Run `function(*args)` in a new process and say how that process ended.

    kill_before  kill the process just before this line runs: a piece of the line's text, or its
                 number in the cell; `None` lets it run to its end
    visit        which time that line comes up, from 1
    kill_in_write
                 kill the process inside the write that would make a file longer than this many
                 bytes, when those bytes have reached the file (Linux and macOS: the operating
                 system does it, by the signal SIGXFSZ)
    deadline     seconds after which a process that has not ended is killed and called "stuck"
    echo         show what the function prints, as it prints it
    inside       the functions whose lines count, be they yours or a library's; by default all code
                 of yours that runs
    fine         look closer: kill also after each call within a line, and before the lines of the
                 library functions that yours call; each such moment belongs to the line of yours
                 that led to it, and a library line counts once for it
    record       keep the crash points that were passed, in `Life.points` (at most MOST_POINTS)

    fresh        start a new interpreter in place of a fork of a ready one: some tenths of a second,
                 and what every interpreter draws for itself, such as the seed of `hash`, is new

    Output is line-buffered, as in a terminal: what you see was out of the process before it died.
    Raises `BenchError` if `kill_before` names no line, or several, or if the function cannot
    travel.
    """
    if kill_in_write is not None and not POSIX:
        raise BenchError("kill_in_write needs a limit for files that Windows does not have")
    parcel, lines = _pack(function, args)
    if inside:
        lines = set().union(*map(lines_of_function, inside))
    if not isinstance(kill_before, Point | None):
        kill_before = _find(kill_before, visit, fine, lines)
    order = Order(parcel, frozenset(lines), kill_before, kill_in_write, fine, record)
    start = "spawn" if fresh else START
    return _live(getattr(function, "__name__", repr(function)), order, start, deadline, echo)


def warm() -> None:
    """Start the server that new processes are forked from; else the first launch waits for it."""
    launch(int, echo=False, deadline=60)


# The parent's side


class _Packer(cloudpickle.Pickler):
    """Pickles by value what your notebook defines, and keeps the file name of each piece of code.

    cloudpickle itself writes `<dynamic-code>` for the name. With the true one, a line means the
    same in both processes. `lines` says which code is yours: what travels by value is, what is
    imported is not.
    """

    def __init__(self, file: io.BytesIO) -> None:
        self.lines: set[Line] = set()
        self.dispatch_table = ChainMap({CodeType: self._code}, cloudpickle.Pickler.dispatch_table)
        super().__init__(file)

    def _code(self, code: CodeType) -> tuple:
        if not is_library(code.co_filename):  # as a notebook's `open`, which is IPython's
            self.lines |= lines_of_code(code)
        make, args = cloudpickle.Pickler.dispatch_table[CodeType](code)[:2]
        return _renamed, (code.co_filename, make, args)


def _renamed(file: str, make: Callable, args: tuple) -> CodeType:
    return make(*args).replace(co_filename=file)


def _pack(function: Callable, args: tuple) -> tuple[bytes, set[Line]]:
    buffer = io.BytesIO()
    packer = _Packer(buffer)
    try:
        packer.dump((function, args))
    except Exception as e:
        name = getattr(function, "__name__", function)
        raise BenchError(f"{name} cannot be sent to another process: {e}") from None
    code = getattr(function, "__code__", None)
    if code and not is_library(code.co_filename):  # yours too when it stands in a file you import
        packer.lines |= lines_of_code(code)
    sources = {file: linecache.getlines(file) for file, _ in packer.lines}
    return pickle.dumps((sources, buffer.getvalue())), packer.lines


def _find(wanted: str | int, visit: int, fine: bool, lines: set[Line]) -> Point:
    hits = [
        at
        for at in lines
        if (at[1] == wanted if isinstance(wanted, int) else wanted in line_text(*at))
    ]
    if len(hits) != 1:
        number = "no line" if not hits else f"{len(hits)} lines"
        raise BenchError(
            f"kill_before={wanted!r} fits {number} of your code; it must fit exactly one"
        )
    return Point(*hits[0], visit, fine)


def _live(name: str, order: Order, start: str, deadline: float, echo: bool) -> Life:
    context = multiprocessing.get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload(["crashlab.preload"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=live, args=(theirs, order))
    try:
        with no_main():
            process.start()
        theirs.close()
        said = _listen(process, ours, deadline, echo)
        exitcode = process.exitcode
    finally:
        _bury(process)
        ours.close()
    said.setdefault("point", None)
    if said.pop("late", False):
        said.update(end="stuck", reason=f"had not ended after {deadline:g} s and was killed")
    elif said["point"] is not None and exitcode == KILLED:
        said["end"] = "killed"
    elif order.most_bytes is not None and exitcode == -signal.SIGXFSZ:
        said.update(end="killed", reason=f"was killed inside a write, {order.most_bytes} bytes in")
    elif "end" not in said:
        how = f"signal {-exitcode}" if exitcode < 0 else f"exit code {exitcode}"
        said.update(end="exited", reason=f"ended its process with {how} and never returned")
    return Life(name, exitcode=exitcode, **said)


@contextlib.contextmanager
def no_main() -> Iterator[None]:
    """Keep the new process from importing our main script: what it needs travels by value."""
    main = vars(sys.modules["__main__"])
    kept = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(kept)


def _listen(process: Any, pipe: connection.Connection, deadline: float, echo: bool) -> dict:
    """Collect the child's messages until it is dead; `late` says that time ran out."""
    said: dict[str, Any] = {}
    output: list[str] = []
    room = MOST_OUTPUT
    ends = time.monotonic() + deadline
    sources = [pipe, process.sentinel]
    while sources:
        left = ends - time.monotonic()
        ready = connection.wait(sources, left) if left > 0 else []
        if not ready:
            said["late"] = True
            process.kill()
            process.join()
            break
        if pipe not in ready:  # dead, and nothing left to read
            break
        try:
            kind, what = pipe.recv()
        except Exception:  # closed, or garbled by a function that closed what is not its own
            sources.remove(pipe)
            continue
        if kind == "output":
            if room > 0:
                text = what[:room]
                text += "\n[more output was left out]\n" if len(what) > room else ""
                output.append(text)
                if echo:
                    sys.stdout.write(text)
            room -= len(what)
        else:
            said[kind] = what
    process.join()
    if "value" in said:
        try:
            said["value"] = pickle.loads(said["value"])
        except Exception as e:
            reason = f"returned a value that cannot be read in this process ({e})"
            said.update(end="raised", value=None, reason=reason)
    return said | {"output": "".join(output)}


def _bury(process: Any) -> None:
    """Leave nothing of the process behind, nor of what it started itself."""
    if process.pid is None:
        return
    if process.is_alive():
        process.kill()
        process.join()
    if POSIX:
        # usually the group has died with its only member
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.close()
