"""Inside the process that is to be killed: count the lines as they come up, and die before one.

Only what is sent through the pipe gets out: lines of output, the crash point just before the kill,
or how the function ended. That the process was really killed is not for this side to say: its exit
code says it, to the parent.
"""

import functools
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
from collections.abc import Callable, Container
from dataclasses import dataclass
from multiprocessing import connection
from types import FrameType
from typing import Any

import cloudpickle

from crashlab.source import Line, Point, moments

HERE = os.path.dirname(__file__)
POSIX = os.name == "posix"
MOST_POINTS = 2_000  # crash points that are recorded of one run


@dataclass(frozen=True)
class Order:
    """All that a new process is told."""

    parcel: bytes
    lines: frozenset[Line]
    kill_at: Point | None
    most_bytes: int | None
    fine: bool
    record: bool


class _Stdout(io.TextIOBase):
    """A stdout that sends finished lines to the parent; an unfinished one dies with the process."""

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

    def __init__(self, order: Order, pipe: connection.Connection) -> None:
        self.files = {file for file, _ in order.lines}
        self.order = order
        self.pipe = pipe
        self.visits: dict[Line, int] = {}
        self.points: list[Point] = []
        self.seen: set[tuple[Line, Line]] = set()
        self.lock = threading.Lock()
        self.moments = functools.cache(moments)

    def call(self, frame: FrameType, event: str, arg: Any) -> Callable | None:
        """Python calls this for each function that is entered, and `step` for what it does."""
        if frame.f_code.co_filename in self.files:
            frame.f_trace = self.step  # Python 3.13 wants this first
            frame.f_trace_opcodes = self.order.fine
            return self.step
        return self.step if self.order.fine and self.caller(frame) else None

    def step(self, frame: FrameType, event: str, arg: Any) -> Callable:
        here = frame.f_code.co_filename, frame.f_lineno
        mine = here in self.order.lines
        if mine and not self.order.fine:
            if event == "line":
                self.count(here)
        elif mine:
            if event == "opcode" and frame.f_lasti in self.moments(frame.f_code):
                self.count(here)
        elif event == "line" and self.order.fine:
            caller = self.caller(frame)
            if caller and (caller, here) not in self.seen:
                self.seen.add((caller, here))
                self.count(caller)
        return self.step

    def caller(self, frame: FrameType | None) -> Line | None:
        """The learner's line that led to this frame; what the bench itself does has none."""
        while frame and not frame.f_code.co_filename.startswith(HERE):
            at = frame.f_code.co_filename, frame.f_lineno
            if at in self.order.lines:
                return at
            frame = frame.f_back
        return None

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


def live(pipe: connection.Connection, order: Order) -> None:
    """Run the function that the order holds, and tell through the pipe how it ended."""
    me = os.getpid()
    if POSIX:
        os.setsid()  # so that its own children can be found and ended with it
    threading.Thread(target=_follow_parent, daemon=True).start()
    if order.most_bytes is not None:
        _limit_files(order.most_bytes)
    sys.stdout = sys.stderr = stdout = _Stdout(pipe)
    sources, parcel = pickle.loads(order.parcel)
    for file, lines in sources.items():
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    tracer = _Tracer(order, pipe)
    watched = order.kill_at is not None or order.record
    try:
        function, args = pickle.loads(parcel)
        if watched:
            # Python 3.12 makes opcode events only if one frame wants them at this point
            sys._getframe().f_trace_opcodes = order.fine
            threading.settrace(tracer.call)
            sys.settrace(tracer.call)
        try:
            value = function(*args)
            if watched and sys.gettrace() != tracer.call:
                raise RuntimeError("the trace function was replaced, so lines were not counted")
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
            "reason": _explain(e, sources),
            "stub": isinstance(e, NotImplementedError),
        }
    if os.getpid() != me:
        os._exit(0)  # a fork that the function made and let return: its story is not the answer
    for message in (answer | {"points": tuple(tracer.points)}).items():
        pipe.send(message)


def _limit_files(most_bytes: int) -> None:
    """Let the operating system kill this process when it writes beyond that length of a file."""
    import resource  # not on Windows

    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it by default
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def _follow_parent() -> None:
    """Die when the process that launched this one has died, however it did."""
    multiprocessing.parent_process().join()
    if POSIX:
        os.killpg(0, signal.SIGKILL)
    _die()


def _portable(value: Any) -> bytes:
    try:
        return cloudpickle.dumps(value)
    except Exception as e:
        raise TypeError(f"the returned value cannot leave its process ({e})") from None


def _explain(error: BaseException, mine: Container[str]) -> str:
    """Print the learner's own traceback, and say in one sentence what was raised and where."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    told = traceback.format_exception_only(error)
    if not isinstance(error, NotImplementedError):
        print("".join(traceback.format_list(frames)), end="")
        print("".join(told), end="")
    notes = "\n".join(getattr(error, "__notes__", []))  # they stand last, and LangGraph adds one
    said = told[-1 - len(notes.splitlines())].strip()
    places = [f"line {f.lineno} `{f.line}`" for f in frames if f.filename in mine]
    where = f", at {places[-1]}" if places else ""
    return f"raised {said}{where}"
