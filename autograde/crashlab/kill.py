"""Run a function in a process of its own, and kill that process just before a chosen line.

`launch` packs your function, sends it to a fresh process and waits. In that process a trace function
counts the lines of *your* code as they come up. At the chosen one the process sends itself SIGKILL, the
signal that no `finally`, no `atexit` and no flush can answer. What the operating system already had
survives. What the process still held is gone.

On Linux and macOS the fresh process is forked from a server that has the course's libraries loaded
(`multiprocessing`'s forkserver), so that one life costs milliseconds. Windows has no fork: there every
process starts an interpreter of its own and ends by TerminateProcess. Results are the same, only slower.
"""

import io
import linecache
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import ChainMap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing import connection
from types import CodeType, FrameType
from typing import Any

import cloudpickle

from crashlab.source import Line, line_text, lines_of_code, lines_of_function

POSIX = os.name == "posix"
KILLED = -signal.SIGKILL if POSIX else 9  # the exit code of a process that ended by `_die`
PRELOADED = [
    "crashlab.kill",
    "crashlab.world",
    "IPython.core.interactiveshell",  # a notebook's `open` is defined there
    "langgraph.checkpoint.sqlite",
    "langgraph.graph",
]
MOST_OUTPUT = 20_000  # characters of a child's output that are shown and kept
MOST_POINTS = 2_000  # crash points that are recorded of one run


class BenchError(Exception):
    """One sentence about the code under test. A notebook shows the sentence and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class NotWritten(BenchError, NotImplementedError):
    """The function under test is still a stub."""


@dataclass(frozen=True, order=True)
class Point:
    """A crash point: the moment before a line of your code runs.

    `visit` says which time the line comes up, from 1. In a close look (`fine`) a line has many moments, and
    `visit` is the number of the moment.
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


@dataclass(frozen=True)
class Life:
    """What became of one process.

    `end` is one of
      "finished"  the function returned, `value` holds what
      "killed"    it died by SIGKILL before `point`, and its exit code says so
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
        if self.end == "killed":
            return f"{self.function} was killed before {self.point}"
        return f"{self.function} {self.reason}"

    __repr__ = __str__

    def result(self) -> Any:
        """What the function returned.

        Raises `NotWritten` if it is a stub and `BenchError` if it did not finish for any other reason.
        """
        if self.end == "finished":
            return self.value
        raise (NotWritten if self.stub else BenchError)(str(self))


def launch(
    function: Callable,
    *args: Any,
    kill_before: str | int | Point | None = None,
    visit: int = 1,
    deadline: float = 10.0,
    echo: bool = True,
    inside: Iterable[Callable] = (),
    fine: bool = False,
    record: bool = False,
) -> Life:
    """Run `function(*args)` in a new process and say how that process ended.

    kill_before  kill the process just before this line runs: a piece of the line's text, or its number
                 in the cell; `None` lets it run to its end
    visit        which time that line comes up, from 1
    deadline     seconds after which a process that has not ended is killed and called "stuck"
    echo         show what the function prints, as it prints it
    inside       the functions whose lines count; by default all code of yours that runs
    fine         look closer: crash points are the single instructions of your lines, and the lines of the
                 library functions that yours call; each belongs to the line of yours that led to it, and a
                 library line counts once for it
    record       keep the crash points that were passed, in `Life.points` (at most MOST_POINTS)

    Output is line-buffered, as in a terminal: what you see was out of the process before it died.
    Raises `BenchError` if `kill_before` names no line, or several, or if the function cannot travel.
    """
    parcel, lines = _pack(function, args)
    if inside:
        lines &= set().union(*map(lines_of_function, inside))
    if not isinstance(kill_before, Point | None):
        kill_before = _find(kill_before, visit, fine, lines)
    order = _Order(parcel, frozenset(lines), kill_before, fine, record, deadline)
    return _live(getattr(function, "__name__", repr(function)), order, echo)


def warm() -> None:
    """Start the server that new processes are forked from (about a second); else the first launch does."""
    launch(int, echo=False, deadline=60)


# The parent's side


class _Packer(cloudpickle.Pickler):
    """Pickles by value what your notebook defines, and keeps the file name of each piece of code.

    cloudpickle itself writes `<dynamic-code>` for the name. With the true one, a line means the same in
    both processes. `lines` says which code is yours: what travels by value is, what is imported is not.
    """

    def __init__(self, file: io.BytesIO) -> None:
        self.lines: set[Line] = set()
        self.dispatch_table = ChainMap({CodeType: self._code}, cloudpickle.Pickler.dispatch_table)
        super().__init__(file)

    def _code(self, code: CodeType) -> tuple:
        self.lines |= lines_of_code(code)
        make, args = cloudpickle.Pickler.dispatch_table[CodeType](code)[:2]
        return _renamed, (code.co_filename, make, args)


def _renamed(file: str, make: Callable, args: tuple) -> CodeType:
    return make(*args).replace(co_filename=file)


@dataclass(frozen=True)
class _Order:
    """All that a new process is told."""

    parcel: bytes
    lines: frozenset[Line]
    kill_at: Point | None
    fine: bool
    record: bool
    deadline: float


def _pack(function: Callable, args: tuple) -> tuple[bytes, set[Line]]:
    buffer = io.BytesIO()
    packer = _Packer(buffer)
    try:
        packer.dump((function, args))
    except Exception as e:
        name = getattr(function, "__name__", function)
        raise BenchError(f"{name} cannot be sent to another process: {e}") from None
    if code := getattr(function, "__code__", None):  # yours too when it stands in a file you import
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


def _live(name: str, order: _Order, echo: bool) -> Life:
    context = multiprocessing.get_context("forkserver" if POSIX else "spawn")
    if POSIX:
        context.set_forkserver_preload(PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, order), daemon=True)
    try:
        process.start()
        theirs.close()
        said = _listen(process, ours, order.deadline, echo)
        exitcode = process.exitcode
    finally:
        _bury(process)
        ours.close()
    said.setdefault("point", None)
    if said.pop("late", False):
        said.update(end="stuck", reason=f"had not ended after {order.deadline:g} s and was killed")
    elif said["point"] is not None and exitcode == KILLED:
        said["end"] = "killed"
    elif "end" not in said:
        how = f"signal {-exitcode}" if exitcode < 0 else f"exit code {exitcode}"
        said.update(end="exited", reason=f"ended its process with {how} and never returned")
    return Life(name, exitcode=exitcode, **said)


def _listen(process: Any, pipe: connection.Connection, deadline: float, echo: bool) -> dict:
    """Collect the child's messages until it is dead; `late` in the answer says that time ran out."""
    said: dict[str, Any] = {}
    output: list[str] = []
    room = MOST_OUTPUT
    ends = time.monotonic() + deadline
    sources = [pipe, process.sentinel]
    while sources:
        ready = connection.wait(sources, max(0.0, ends - time.monotonic()))
        if not ready:
            said["late"] = True
            process.kill()
            process.join()
            break
        if pipe not in ready:  # dead, and nothing left to read
            break
        try:
            kind, what = pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
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
        said["value"] = pickle.loads(said["value"])
    return said | {"output": "".join(output)}


def _bury(process: Any) -> None:
    """Leave nothing of the process behind, nor of what it started itself."""
    if process.pid is None:
        return
    if process.is_alive():
        process.kill()
        process.join()
    if POSIX:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # the usual case: the group died with its only member
    process.close()


# The child's side


class _Stdout(io.TextIOBase):
    """A stdout that sends each finished line to the parent; an unfinished one dies with the process."""

    def __init__(self, pipe: connection.Connection) -> None:
        self.pipe = pipe
        self.held = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.held += text
        if "\n" in text:
            self.flush()
        return len(text)

    def flush(self) -> None:
        text, self.held = self.held, ""
        if text:
            self.pipe.send(("output", text))


class _Tracer:
    """Counts the crash points of the learner's code as they come up, and dies at the chosen one."""

    def __init__(self, order: _Order, pipe: connection.Connection) -> None:
        self.files = {file for file, _ in order.lines}
        self.order = order
        self.pipe = pipe
        self.visits: dict[Line, int] = {}
        self.points: list[Point] = []
        self.seen: set[tuple[Line, Line]] = set()
        self.lock = threading.Lock()

    def call(self, frame: FrameType, event: str, arg: Any) -> Callable | None:
        """Python calls this for each function that is entered, and `step` for each line in it."""
        if frame.f_code.co_filename in self.files:
            frame.f_trace_opcodes = self.order.fine
            return self.step
        return self.step if self.order.fine and self.caller(frame) else None

    def step(self, frame: FrameType, event: str, arg: Any) -> Callable:
        mine = frame.f_code.co_filename in self.files
        if event != ("opcode" if mine and self.order.fine else "line"):
            return self.step
        here = frame.f_code.co_filename, frame.f_lineno
        source = frame if mine else self.caller(frame)
        at = source.f_code.co_filename, source.f_lineno
        if at in self.order.lines and (mine or (at, here) not in self.seen):
            self.seen.add((at, here))
            self.count(at)
        return self.step

    def caller(self, frame: FrameType | None) -> FrameType | None:
        """The nearest frame of the learner's that led to this one; the bench's own frames have none."""
        while frame and frame.f_code.co_filename not in self.files:
            frame = None if frame.f_code.co_filename == __file__ else frame.f_back
        return frame

    def count(self, at: Line) -> None:
        with self.lock:
            visit = self.visits[at] = self.visits.get(at, 0) + 1
            point = Point(*at, visit, self.order.fine)
            if self.order.record and len(self.points) < MOST_POINTS:
                self.points.append(point)
            if point == self.order.kill_at:
                self.pipe.send(("point", point))
                _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL if POSIX else 9)  # on Windows this is TerminateProcess
    time.sleep(60)  # not reached: the signal comes before the call returns


def _child(pipe: connection.Connection, order: _Order) -> None:
    if POSIX:
        os.setsid()  # so that its own children can be found and ended with it
        signal.setitimer(signal.ITIMER_REAL, order.deadline + 5)  # should the parent die first
    sys.stdout = sys.stderr = stdout = _Stdout(pipe)
    sources, parcel = pickle.loads(order.parcel)
    for file, lines in sources.items():
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    tracer = _Tracer(order, pipe)
    watched = order.kill_at is not None or order.record
    try:
        function, args = pickle.loads(parcel)
        if watched:
            threading.settrace(tracer.call)
            sys.settrace(tracer.call)
        try:
            value = function(*args)
        finally:
            sys.settrace(None)
            threading.settrace(None)
        stdout.flush()
        answer = {"end": "finished", "value": _portable(value)}
    except SystemExit as e:
        answer = {"end": "exited", "reason": f"left by SystemExit({e.code!r}) and never returned"}
    except BaseException as e:
        stdout.flush()
        answer = {
            "end": "raised",
            "reason": _explain(e),
            "stub": isinstance(e, NotImplementedError),
        }
    for message in (answer | {"points": tuple(tracer.points)}).items():
        pipe.send(message)


def _portable(value: Any) -> bytes:
    try:
        return cloudpickle.dumps(value)
    except Exception as e:
        raise TypeError(f"the returned value cannot leave its process ({e})") from None


def _explain(error: BaseException) -> str:
    """Print the learner's own traceback, and say in one sentence what was raised and where."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    if not isinstance(error, NotImplementedError):
        print("".join(traceback.format_list(frames)), end="")
        print("".join(traceback.format_exception_only(error)), end="")
    said = traceback.format_exception_only(error)[-1].strip()
    mine = [f for f in frames if f.filename in linecache.cache]
    where = f", at line {mine[-1].lineno} `{mine[-1].line}`" if mine else ""
    return f"raised {said}{where}"
