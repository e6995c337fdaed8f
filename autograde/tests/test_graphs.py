"""Kills inside LangGraph: in a node, on its return, and in the lines of the saver itself."""

import inspect
import sqlite3
import threading
from contextlib import closing
from typing import TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from crashlab import WorkFolder, explore, launch

THREAD = {"configurable": {"thread_id": "run-1"}}


class State(TypedDict):
    done: list[str]


def returned(node):
    """Leave a line behind the node's own return, for a kill to fall on."""

    def and_back(state: State) -> dict:
        update = node(state)
        return update

    return and_back


def graph(folder: WorkFolder) -> StateGraph:
    def fetch(state: State) -> dict:
        folder.perform("fetch")
        return {"done": [*state["done"], "fetch"]}

    def build(state: State) -> dict:
        folder.perform("configure")
        folder.perform("compile")
        return {"done": [*state["done"], "build"]}

    builder = StateGraph(State)
    builder.add_node("fetch", returned(fetch))
    builder.add_node("build", returned(build))
    builder.add_edge(START, "fetch")
    builder.add_edge("fetch", "build")
    builder.add_edge("build", END)
    return builder


def run(folder: WorkFolder) -> list[str]:
    with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        compiled = graph(folder).compile(checkpointer=saver)
        begun = compiled.get_state(THREAD).created_at
        return compiled.invoke(None if begun else {"done": []}, THREAD, durability="sync")["done"]


def counted(folder: WorkFolder) -> str:
    performed = folder.performed()
    missing = {"fetch", "configure", "compile"} - set(performed)
    return "lost" if missing else "once" if len(performed) == 3 else "twice"


def checkpoints(folder: WorkFolder) -> int:
    with closing(sqlite3.connect(folder.path / "threads.sqlite")) as db:
        return db.execute("SELECT count(*) FROM checkpoints").fetchone()[0]


@pytest.mark.parametrize(
    ("line", "visit", "performed"),
    [
        ('folder.perform("fetch")', 1, ["fetch", "configure", "compile"]),
        ("update = node(state)", 2, ["fetch", "configure", "compile"]),
        ('folder.perform("compile")', 1, ["fetch", "configure", "configure", "compile"]),
        ("return update", 2, ["fetch", "configure", "compile", "configure", "compile"]),
    ],
    ids=["in a node", "before a node", "between two calls of a node", "when a node has returned"],
)
def test_kills_in_and_around_a_node(line: str, visit: int, performed: list[str]) -> None:
    with WorkFolder.fresh() as folder:
        assert launch(run, folder, kill_before=line, visit=visit).end == "killed"
        assert launch(run, folder).result() == ["fetch", "build"]
        assert folder.performed() == performed


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_kill_before_a_checkpoint_is_inserted(step: int) -> None:
    insert = "INSERT OR REPLACE INTO checkpoints"
    with WorkFolder.fresh() as folder:
        life = launch(run, folder, kill_before=insert, visit=step, inside=[SqliteSaver.put])
        assert life.end == "killed", life
        assert life.point.file.endswith("sqlite/__init__.py")
        assert checkpoints(folder) == step - 1
        assert launch(run, folder).result() == ["fetch", "build"]
        assert counted(folder) in ("once", "twice")  # which: put and put_writes are in a race


@pytest.mark.parametrize(
    ("function", "line", "rows"),
    [(SqliteSaver.cursor, "self.conn.commit()", 0), (SqliteSaver.put, "return {", 1)],
)
def test_a_row_is_there_when_it_is_committed(function: object, line: str, rows: int) -> None:
    with WorkFolder.fresh() as folder:
        assert launch(run, folder, kill_before=line, inside=[function]).end == "killed"
        assert checkpoints(folder) == rows


def test_a_kill_before_pending_writes_are_inserted_repeats_the_node() -> None:
    class Late(SqliteSaver):
        """Its pending writes come last: the next checkpoint may not pass them."""

        def put(self, config: dict, *rest: object) -> dict:
            if rest[1]["step"] == 1:
                threading.Event().wait()  # until the kill
            return super().put(config, *rest)

    def run_late(folder: WorkFolder) -> None:
        with Late.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
            compiled = graph(folder).compile(checkpointer=saver)
            compiled.invoke({"done": []}, THREAD, durability="sync")

    with WorkFolder.fresh() as folder:
        writes = [SqliteSaver.put_writes]
        life = launch(run_late, folder, kill_before="query = (", visit=2, inside=writes)
        assert life.end == "killed", life
        assert folder.performed() == ["fetch"]
        assert launch(run, folder).result() == ["fetch", "build"]
        assert folder.performed() == ["fetch", "fetch", "configure", "compile"]


def test_lines_of_a_library_are_explored_like_yours() -> None:
    either = ("once", "twice")  # which: put and put_writes are in a race
    report = explore(run, WorkFolder.fresh, counted, inside=[SqliteSaver.setup], harmless=either)
    assert report.clean, report.verdict()
    assert {file for file, _ in report.lines} == {inspect.getsourcefile(SqliteSaver)}
