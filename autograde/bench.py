"""Kills per second, against a fresh interpreter per run that does the same. Run it by `make bench`.

The same is: take a function that is defined in a notebook, hence sent by cloudpickle; import what
it needs; run it under a trace function that counts its lines; die by SIGKILL before the chosen one.
The last line of the output is JSON.
"""

import json
import linecache
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cloudpickle

from crashlab import WorkFolder, launch
from crashlab.kill import KILLED

STDLIB = """
import json


def work(path):
    done = []
    for n in range(5):
        done.append(n)
        with open(path / "state.json", "w") as file:
            json.dump(done, file)
    return "the end"
"""

LANGGRAPH = """
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    steps: int


def step(state):
    return {"steps": state["steps"] + 1}


def work(path):
    graph = StateGraph(State)
    graph.add_node("first", step)
    graph.add_node("second", step)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    with SqliteSaver.from_conn_string(str(path / "threads.sqlite")) as saver:
        compiled = graph.compile(checkpointer=saver)
        compiled.invoke({"steps": 0}, {"configurable": {"thread_id": "run-1"}})
    return "the end"
"""

FRESH = """
import os, pickle, signal, sys

work, path, last = pickle.load(sys.stdin.buffer)


def line(frame, event, arg):
    if event == "line" and frame.f_lineno == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return line


mine = work.__code__.co_filename
sys.settrace(lambda frame, event, arg: line if frame.f_code.co_filename == mine else None)
work(path)
"""


def kills_per_second(kill: Callable[[Path], int], rounds: int) -> float:
    """Kill `rounds` times, each time in a new folder, and make sure that each was a kill."""
    seconds = 0.0
    for _ in range(rounds):
        with WorkFolder.fresh() as folder:
            began = time.perf_counter()
            code = kill(folder.path)
            seconds += time.perf_counter() - began
            assert code == KILLED, f"exit code {code}, not a kill"
    return rounds / seconds


def measure(name: str, source: str, rounds: int) -> tuple[float, float]:
    """Return kills per second of the bench and of a fresh interpreter per run."""
    space: dict = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), space)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    work = space["work"]
    last = source.rstrip().count("\n") + 1

    def bench(path: Path) -> int:
        return launch(work, path, kill_before=last, echo=False).exitcode

    def fresh(path: Path) -> int:
        parcel = cloudpickle.dumps((work, path, last))
        return subprocess.run([sys.executable, "-c", FRESH], input=parcel, check=False).returncode

    launch(int)  # the first one starts the server
    return kills_per_second(bench, rounds * 10), kills_per_second(fresh, rounds)


def main() -> None:
    """Measure both functions, print a table and the line of JSON."""
    result: dict[str, dict[str, float]] = {"kills_per_s": {}, "ratio": {}}
    print(f"{'function':<12}{'bench':>14}{'fresh':>14}{'ratio':>8}")
    for name, source, rounds in (("stdlib", STDLIB, 30), ("langgraph", LANGGRAPH, 10)):
        bench, fresh = measure(name, source, rounds)
        result["kills_per_s"][name] = round(bench, 1)
        result["ratio"][name] = round(bench / fresh, 1)
        print(f"{name:<12}{bench:>10.1f} /s{fresh:>11.1f} /s{bench / fresh:>7.1f}×")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
