"""What 06_checkpointer states about LangGraph: what is saved, when, and where."""

import operator
import os
import shutil
import signal
import sqlite3
import sys
import threading
import warnings
from contextlib import closing
from pathlib import Path
from typing import Annotated, TypedDict

import httpx
import pytest
from claims import claim
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import EmptyInputError, GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.managed import RemainingSteps
from langgraph.types import Command, RetryPolicy, interrupt

from crashlab import WorkFolder, launch

RUN = {"configurable": {"thread_id": "run-217"}}
LINE = {"fetch": [START], "abseil": ["fetch"], "re2": ["abseil"]}
WIDE = {"fetch": [START], "abseil": ["fetch"], "gtest": ["fetch"], "re2": ["abseil", "gtest"]}
ASK = {"fetch": [START], "ask": ["fetch"], "re2": ["ask"]}


class Build(TypedDict, total=False):
    target: str
    built: Annotated[list[str], operator.add]


class Killed(BaseException):
    """Ends a run as a kill would, in tests where only what is saved matters."""


def graph(plan: dict, ready=lambda name: None) -> StateGraph:
    """Make the graph of a plan; `ready` is called in each node."""

    def make(name: str):
        def node(state: Build) -> dict:
            ready(name)
            return {"built": [interrupt("?") if name == "ask" else name]}

        return node

    builder = StateGraph(Build)
    for name, earlier in plan.items():
        builder.add_node(name, make(name))
        for each in earlier:
            builder.add_edge(each, name)
    return builder


def compiled(plan: dict, saver: InMemorySaver | None = None, ready=lambda name: None):
    return graph(plan, ready).compile(checkpointer=saver or InMemorySaver())


def steps(app) -> list[int]:
    return [snapshot.metadata["step"] for snapshot in app.get_state_history(RUN)][::-1]


def runs(plan: dict, saver: InMemorySaver, value: object) -> list[str]:
    """Return the nodes that run when `value` is passed to the thread."""
    ran: list[str] = []
    compiled(plan, saver, ran.append).invoke(value, RUN, durability="sync")
    return ran


def stop_in(where: str):
    def ready(name: str) -> None:
        if name == where:
            raise Killed

    return ready


def killed_in(where: str, plan: dict = LINE) -> InMemorySaver:
    saver = InMemorySaver()
    with pytest.raises(Killed):
        compiled(plan, saver, stop_in(where)).invoke({}, RUN, durability="sync")
    return saver


def paused() -> InMemorySaver:
    saver = InMemorySaver()
    compiled(ASK, saver).invoke({}, RUN)
    return saver


def finished() -> InMemorySaver:
    saver = paused()
    compiled(ASK, saver).invoke(Command(resume="yes"), RUN)
    return saver


class Gate(InMemorySaver):
    """From a step on, no checkpoint is saved until the gate is opened."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step, self.gate = step, threading.Event()

    def put(self, config, checkpoint, metadata, versions):
        if metadata["step"] >= self.step:
            assert self.gate.wait(5), "nobody opened the gate"
        return super().put(config, checkpoint, metadata, versions)


# What


@claim("saved-checkpoints", "06")
def test_checkpoints_of_a_run() -> None:
    """A run leaves a checkpoint for its input, one when the input is in the channels, and one
    after each super-step, however many nodes ran in it."""
    for plan in (LINE, WIDE):
        app = compiled(plan)
        app.invoke({"target": "re2"}, RUN)
        assert steps(app) == [-1, 0, 1, 2, 3]


@claim("saved-rows", "06")
def test_rows(tmp_path: Path) -> None:
    """SqliteSaver keeps two tables, checkpoints and writes: each checkpoint names its parent, and
    what a node returned lies in writes, under the checkpoint that it started from."""
    path = tmp_path / "threads.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph(LINE).compile(checkpointer=saver).invoke({"target": "re2"}, RUN, durability="sync")
    with closing(sqlite3.connect(path)) as db:
        tables = {
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        select = (
            "SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints ORDER BY checkpoint_id"
        )
        ids, parents = zip(*db.execute(select), strict=True)
        select = "SELECT checkpoint_id, channel FROM writes WHERE channel = 'built'"
        built = sorted(id_ for id_, _ in db.execute(select))
    assert tables == {"checkpoints", "writes"}
    assert parents == (None, *ids[:-1])
    assert built == list(ids[1:4])


@claim("saved-no-code", "06")
def test_no_code(tmp_path: Path) -> None:
    """A checkpoint holds values, channel versions and names of nodes in their channels, and no
    code."""
    path = tmp_path / "threads.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        app = graph(LINE).compile(checkpointer=saver)
        app.invoke({"target": "re2"}, RUN)
        checkpoint = saver.get_tuple(RUN).checkpoint
    content = path.read_bytes()
    assert {"channel_values", "channel_versions", "versions_seen"} <= set(checkpoint)
    assert b"branch:to:abseil" in content
    assert not any(word in content for word in (b"operator", b"ready", b"interrupt", b"def "))


@claim("next-worked-out", "06")
def test_what_is_next_is_worked_out() -> None:
    """A node is next when its channel holds a value that it has not seen; reading empties the
    channel, though its version grows; what is next is not saved, the graph works it out."""
    saver = killed_in("re2")
    checkpoint = saver.get_tuple(RUN).checkpoint
    number = {name: int(str(v).split(".")[0]) for name, v in checkpoint["channel_versions"].items()}
    seen = int(str(checkpoint["versions_seen"]["abseil"]["branch:to:abseil"]).split(".")[0])
    assert "branch:to:re2" in checkpoint["channel_values"]
    assert "branch:to:abseil" not in checkpoint["channel_values"]
    assert number["branch:to:abseil"] > seen
    assert compiled(LINE, saver).get_state(RUN).next == ("re2",)
    assert compiled({"fetch": [START]}, saver).get_state(RUN).next == ()


@claim("saved-forks", "06 10")
def test_a_run_from_an_old_checkpoint_forks() -> None:
    """invoke(None) with an old config saves a checkpoint with source "fork" whose parent is the
    old one, and runs on from there."""
    app = compiled(LINE)
    app.invoke({"target": "re2"}, RUN)
    [old] = [each for each in app.get_state_history(RUN) if each.next == ("re2",)]
    app.invoke(None, old.config)
    newest, fork, *_ = app.get_state_history(RUN)
    assert (fork.metadata["source"], fork.next) == ("fork", ("re2",))
    ids = [each["configurable"]["checkpoint_id"] for each in (fork.parent_config, old.config)]
    assert ids[0] == ids[1]
    assert (newest.metadata["source"], newest.next) == ("loop", ())


@claim("saved-branches", "06 10")
def test_an_update_of_an_old_checkpoint_branches() -> None:
    """update_state with an old config saves a checkpoint with source "update" whose parent is the
    old one, and the thread goes on from there."""
    app = compiled(LINE)
    app.invoke({"target": "re2"}, RUN)
    [old] = [each for each in app.get_state_history(RUN) if each.next == ("re2",)]
    app.update_state(old.config, {"target": "other"})
    head = app.get_state(RUN)
    assert (head.metadata["source"], head.next) == ("update", ("re2",))
    assert (
        head.parent_config["configurable"]["checkpoint_id"]
        == (old.config["configurable"]["checkpoint_id"])
    )


@claim("saved-subgraph", "06")
def test_subgraph() -> None:
    """To the history of a graph a subgraph is one node: its own checkpoints are not listed there,
    though the saver has them."""
    saver = InMemorySaver()
    builder = graph({"fetch": [START]})
    builder.add_node("abseil", graph({"a": [START], "b": ["a"]}).compile())
    app = builder.add_edge("fetch", "abseil").compile(checkpointer=saver)
    app.invoke({"target": "re2"}, RUN)
    assert steps(app) == [-1, 0, 1, 2]
    assert len(list(saver.list(RUN))) > 4


# When


@claim("sync-waits", "06 07")
def test_sync() -> None:
    """Under "sync" a super-step begins when the checkpoint of the one before is saved."""
    saver, counts = InMemorySaver(), []
    app = compiled(LINE, saver, lambda name: counts.append(len(list(saver.list(RUN)))))
    app.invoke({}, RUN, durability="sync")
    assert counts == [2, 3, 4]


@claim("async-default", "06 07")
@pytest.mark.parametrize("mode", [{}, {"durability": "async"}])
def test_async_runs_ahead(mode: dict) -> None:
    """Under "async", the default, all nodes may run while not one checkpoint is saved."""
    saver, ran = Gate(-1), []

    def ready(name: str) -> None:
        ran.append((name, len(list(saver.list(RUN)))))
        if name == "re2":
            saver.gate.set()

    compiled(LINE, saver, ready).invoke({}, RUN, **mode)
    assert ran == [("fetch", 0), ("abseil", 0), ("re2", 0)]


@claim("exit-once", "06")
def test_exit() -> None:
    """Under "exit" nothing is saved before the end, and then one checkpoint; an exception counts
    as an end."""
    for fails in (False, True):
        saver, counts = InMemorySaver(), []

        def ready(name: str, saver=saver, counts=counts, fails=fails) -> None:
            counts.append(len(list(saver.list(RUN))))
            if fails and name == "re2":
                raise OSError

        app = compiled(LINE, saver, ready)
        if fails:
            with pytest.raises(OSError):
                app.invoke({}, RUN, durability="exit")
        else:
            app.invoke({}, RUN, durability="exit")
        assert counts == [0, 0, 0]
        assert len(list(saver.list(RUN))) == 1
        assert app.get_state(RUN).next == (("re2",) if fails else ())


@claim("exit-signals", "06")
def test_exit_and_sigterm() -> None:
    """Under "exit" a process that dies of SIGTERM or SIGKILL leaves nothing."""

    def die(folder: WorkFolder, number: int) -> None:
        def ready(name: str) -> None:
            if name == "re2":
                os.kill(os.getpid(), number)

        with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
            graph(LINE, ready).compile(checkpointer=saver).invoke({}, RUN, durability="exit")

    for name in ("SIGTERM", "SIGKILL"):
        number = getattr(signal, name, signal.SIGTERM)
        with WorkFolder.fresh() as folder:
            assert launch(die, folder, number, echo=False).end == "exited"
            with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
                assert list(saver.list(RUN)) == [], name


@claim("mode-misspelt", "06")
def test_misspelt_mode() -> None:
    """A durability mode that does not exist is accepted, and does not wait."""
    saver, ran = Gate(-1), []

    def ready(name: str) -> None:
        ran.append(name)
        if name == "re2":
            saver.gate.set()

    compiled(LINE, saver, ready).invoke({}, RUN, durability="snyc")
    assert ran == list(LINE)


@claim("sync-without-checkpointer", "06")
def test_sync_without_checkpointer() -> None:
    """The mode "sync" without a checkpointer warns and then raises an AttributeError."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(AttributeError, match="_put_checkpoint_fut"):
            graph(LINE).compile().invoke({}, durability="sync")
    assert "no effect" in str(warned[0].message)


@claim("kill-goes-on", "06 07")
def test_none_goes_on() -> None:
    """After a kill in a node, invoke(None) runs that node again and what follows it."""
    assert runs(LINE, killed_in("abseil"), None) == ["abseil", "re2"]


@claim("kill-input-only", "06")
def test_only_the_input() -> None:
    """A thread of which only the first checkpoint is saved runs from its first node on None:
    pending writes whose checkpoint is not saved are worth nothing."""
    saver = InMemorySaver()
    put, saver.put = saver.put, lambda *args: put(*args) if args[2]["step"] < 0 else args[0]
    compiled(LINE, saver).invoke({"target": "re2"}, RUN)
    saver.put = put
    assert steps(compiled(LINE, saver)) == [-1]
    saved = {each.config["configurable"]["checkpoint_id"] for each in saver.list(RUN)}
    orphans = {
        channel
        for (_, _, id_), found in saver.writes.items()
        if id_ not in saved
        for _, channel, *_ in found.values()
    }
    assert "built" in orphans
    assert runs(LINE, saver, None) == list(LINE)


# Pending writes


@claim("sibling-kept", "06 07")
def test_sibling() -> None:
    """A node whose pending write is saved does not run again when its sibling was killed;
    get_state shows its result, and the history shows the checkpoint without it."""
    kept = threading.Event()

    class Tells(InMemorySaver):
        def put_writes(self, config, writes, *rest):
            super().put_writes(config, writes, *rest)
            if ("built", ["gtest"]) in writes:
                kept.set()

    def ready(name: str) -> None:
        if name == "abseil":
            assert kept.wait(5)
            raise Killed

    saver = Tells()
    with pytest.raises(Killed):
        compiled(WIDE, saver, ready).invoke({}, RUN, durability="sync")
    app = compiled(WIDE, saver)
    assert (app.get_state(RUN).next, app.get_state(RUN).values["built"]) == (
        ("abseil",),
        ["fetch", "gtest"],
    )
    newest = next(app.get_state_history(RUN))
    assert (set(newest.next), newest.values["built"]) == ({"abseil", "gtest"}, ["fetch"])
    assert runs(WIDE, saver, None) == ["abseil", "re2"]


class Ordered(InMemorySaver):
    """Of the two writes that end the step of abseil, the one called `first` is saved first."""

    def __init__(self, first: str) -> None:
        super().__init__()
        self.first, self.done = first, threading.Event()

    def turn(self, what: str, mine: bool, save):
        if mine and what != self.first:
            assert self.done.wait(5), f"{what} does not come without the other"
        result = save()
        if mine and what == self.first:
            self.done.set()
        return result

    def put(self, config, checkpoint, metadata, versions):
        save = lambda: InMemorySaver.put(self, config, checkpoint, metadata, versions)  # noqa: E731
        return self.turn("checkpoint", metadata["step"] == 2, save)

    def put_writes(self, config, writes, *rest):
        save = lambda: InMemorySaver.put_writes(self, config, writes, *rest)  # noqa: E731
        return self.turn("writes", ("built", ["abseil"]) in writes, save)


@claim("sync-race", "06 07")
@pytest.mark.parametrize("first", ["writes", "checkpoint"])
def test_pending_write_and_checkpoint_come_in_either_order(first: str) -> None:
    """Under "sync" too, the pending write of a node and the checkpoint of its step are saved in
    either order: neither waits for the other."""
    saver = Ordered(first)
    compiled(LINE, saver).invoke({}, RUN, durability="sync")
    assert saver.done.is_set()


class Dies(InMemorySaver):
    """Dies when it is to save the checkpoint of abseil, whose pending write is saved or not."""

    def __init__(self, kept: bool) -> None:
        super().__init__()
        self.kept, self.told, self.dies = kept, threading.Event(), True

    def put_writes(self, config, writes, *rest):
        mine = ("built", ["abseil"]) in writes
        if self.kept or not mine:
            super().put_writes(config, writes, *rest)
        if mine:
            self.told.set()

    def put(self, config, checkpoint, metadata, versions):
        if self.dies and metadata["step"] == 2:
            assert self.told.wait(5)
            raise Killed
        return super().put(config, checkpoint, metadata, versions)


@claim("next-empty-unfinished", "06 07 08")
@pytest.mark.parametrize(("kept", "after"), [(True, ["re2"]), (False, ["abseil", "re2"])])
def test_next_is_empty_and_work_is_left(kept: bool, after: list[str]) -> None:
    """Killed when the pending write of a node is saved and its checkpoint is not, a thread has
    next == () and tasks, and None runs the rest; without the pending write the node runs
    again."""
    saver = Dies(kept)
    with pytest.raises(Killed):
        compiled(LINE, saver).invoke({}, RUN, durability="sync")
    saver.dies = False
    state = compiled(LINE, saver).get_state(RUN)
    assert state.next == (() if kept else ("abseil",))
    assert [task.name for task in state.tasks] == ["abseil"]
    saver.kept = True
    assert runs(LINE, saver, None) == after
    assert compiled(LINE, saver).get_state(RUN).tasks == ()


@claim("breakpoint-no-trace", "06 08 09")
def test_breakpoint() -> None:
    """A thread stopped by interrupt_before looks like one killed in that node."""
    stopped, killed = InMemorySaver(), killed_in("abseil")
    graph(LINE).compile(checkpointer=stopped, interrupt_before=["abseil"]).invoke({}, RUN)
    one, other = (compiled(LINE, saver).get_state(RUN) for saver in (stopped, killed))
    assert (one.next, one.values, one.metadata) == (other.next, other.values, other.metadata)
    for state in (one, other):
        [task] = state.tasks
        assert (task.name, task.result, task.error, task.interrupts) == ("abseil", None, None, ())


@claim("state-tells", "06 08")
def test_what_a_state_tells() -> None:
    """get_state of an unknown thread has no created_at; a question lies in interrupts, an
    exception in the error of its task; a finished thread has no tasks."""
    assert compiled(LINE).get_state(RUN).created_at is None
    state = compiled(ASK, paused()).get_state(RUN)
    assert [question.value for question in state.interrupts] == ["?"]
    assert compiled(ASK, finished()).get_state(RUN).tasks == ()

    def ready(name: str) -> None:
        raise OSError("no space left")

    app = compiled(LINE, None, ready)
    with pytest.raises(OSError):
        app.invoke({}, RUN)
    assert "no space left" in app.get_state(RUN).tasks[0].error


@claim("answer-saved-still-asks", "06 08")
@pytest.mark.parametrize(("value", "given"), [(None, "yes"), (Command(resume="no"), "no")])
def test_an_answer_is_saved_and_the_question_stays(value: Command | None, given: str) -> None:
    """Killed in the node when the answer was saved, a thread still shows its question; None gives
    the node the saved answer, and a new answer counts in its place."""
    saver, got = InMemorySaver(), []

    def app(dies: bool = False):
        def node(state: Build) -> None:
            got.append(interrupt("?"))
            if dies:
                raise Killed

        return StateGraph(Build).add_node("ask", node).add_edge(START, "ask").compile(saver)

    app().invoke({}, RUN)
    with pytest.raises(Killed):
        app(dies=True).invoke(Command(resume="yes"), RUN, durability="sync")
    assert "__resume__" in [channel for _, channel, _ in saver.get_tuple(RUN).pending_writes]
    state = app().get_state(RUN)
    assert (state.next, [question.value for question in state.interrupts]) == (("ask",), ["?"])
    app().invoke(value, RUN)
    assert got == ["yes", given]


def asks(saver: InMemorySaver, fails: str = ""):
    """A graph of a node that asks and, if told so, fails before or after its question."""

    def ask(state: Build) -> dict:
        if fails == "before":
            raise OSError
        target = interrupt("?")
        if fails == "after":
            raise OSError
        return {"target": target}

    builder = StateGraph(Build).add_node(ask).add_edge(START, "ask")
    return builder.compile(checkpointer=saver)


@claim("error-and-question", "06 08")
@pytest.mark.parametrize("fails", ["before", "after"])
def test_error_and_question(fails: str) -> None:
    """A node that failed after its answer shows its error and its question, and so does one that
    failed and asks at its second try."""
    saver = InMemorySaver()
    if fails == "after":
        asks(saver).invoke({}, RUN)
    with pytest.raises(OSError):
        asks(saver, fails).invoke({} if fails == "before" else Command(resume="yes"), RUN)
    if fails == "before":
        asks(saver).invoke(None, RUN)
    [task] = asks(saver).get_state(RUN).tasks
    assert (task.result, [question.value for question in task.interrupts]) == (None, ["?"])
    assert "OSError" in task.error


@claim("error-stays", "06")
def test_an_error_stays() -> None:
    """A task that failed and then succeeded keeps its error beside its result until its step is
    closed; a question is gone when its task has a result."""
    saver = Dies(kept=True)

    def fail(name: str) -> None:
        if name == "abseil":
            raise OSError

    with pytest.raises(OSError):
        compiled(LINE, saver, fail).invoke({}, RUN, durability="sync")
    with pytest.raises(Killed):
        compiled(LINE, saver).invoke(None, RUN, durability="sync")
    [task] = compiled(LINE, saver).get_state(RUN).tasks
    assert (task.result, "OSError" in task.error) == ({"built": ["abseil"]}, True)

    saver = InMemorySaver()
    asks(saver).invoke({}, RUN)
    put, saver.put = saver.put, lambda config, *rest: config
    asks(saver).invoke(Command(resume="yes"), RUN)
    saver.put = put
    [task] = asks(saver).get_state(RUN).tasks
    assert (task.result, task.interrupts) == ({"target": "yes"}, ())


# What runs


@claim("none-on-new", "06")
def test_none_on_new() -> None:
    """invoke(None) on a new thread, on one under another id, or without a checkpointer raises
    EmptyInputError."""
    with pytest.raises(EmptyInputError):
        compiled(LINE).invoke(None, RUN)
    with pytest.raises(EmptyInputError):
        compiled(LINE, killed_in("abseil")).invoke(None, {"configurable": {"thread_id": "other"}})
    with pytest.raises(EmptyInputError):
        graph(LINE).compile().invoke(None, RUN)


def answered_and_killed() -> InMemorySaver:
    saver = paused()
    with pytest.raises(Killed):
        compiled(ASK, saver, stop_in("re2")).invoke(Command(resume="yes"), RUN, durability="sync")
    return saver


@claim("none-continues", "06 08")
def test_none() -> None:
    """invoke(None) asks an open question again, runs what a kill interrupted, and on a finished
    thread runs nothing."""
    assert runs(ASK, paused(), None) == ["ask"]
    assert runs(ASK, answered_and_killed(), None) == ["re2"]
    assert runs(ASK, finished(), None) == []


@claim("empty-input-restarts", "06 08")
@pytest.mark.parametrize("value", [{}, {"target": "gtest"}])
def test_empty_input(value: dict) -> None:
    """An input, {} too, runs from the first node, whatever the thread was doing; the values of
    the checkpoint stay."""
    for saver in (InMemorySaver(), paused(), answered_and_killed(), finished()):
        before = compiled(ASK, saver).get_state(RUN).values.get("built", [])
        assert runs(ASK, saver, value) == ["fetch", "ask"]
        assert compiled(ASK, saver).get_state(RUN).values["built"] == [*before, "fetch"]


@claim("empty-input-discards", "06 08")
def test_empty_input_discards_pending_writes() -> None:
    """An input discards a pending write whose step is not closed: the saved result of that node
    is gone."""
    saver = Dies(kept=True)
    with pytest.raises(Killed):
        compiled(LINE, saver).invoke({}, RUN, durability="sync")
    saver.dies = False
    app = compiled(LINE, saver)
    assert app.get_state(RUN).values["built"] == ["fetch", "abseil"]
    assert app.invoke({}, RUN)["built"] == ["fetch", *LINE]


@claim("resume-anywhere", "06 08 09")
def test_resume() -> None:
    """Command(resume=...) on a thread that asked nothing is no error: it begins a new thread,
    goes on after a kill, and does nothing on a finished thread."""
    assert runs(ASK, InMemorySaver(), Command(resume="yes")) == ["fetch", "ask"]
    assert runs(ASK, paused(), Command(resume="yes")) == ["ask", "re2"]
    assert runs(ASK, answered_and_killed(), Command(resume="yes")) == ["re2"]
    assert runs(ASK, finished(), Command(resume="yes")) == []


@claim("thread-ids-collide", "06")
@pytest.mark.parametrize(("one", "other"), [(None, "None"), ("", ""), (1, "1"), (True, "True")])
def test_thread_ids(one: object, other: str) -> None:
    """A thread_id of None, of no letters, or that is no text is accepted and turned into a
    text."""
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as db:
        app = graph(LINE).compile(checkpointer=SqliteSaver(db))
        app.invoke({}, {"configurable": {"thread_id": one}})
        built = app.invoke({}, {"configurable": {"thread_id": other}})["built"]
    assert len(built) == 6


@claim("thread-id-absent", "06")
def test_no_thread_id() -> None:
    """A config without a thread_id is refused."""
    for config in ({}, {"configurable": {}}):
        with pytest.raises(ValueError, match="thread_id"):
            compiled(LINE).invoke({}, config)


# Limits and retries


class Loop(TypedDict, total=False):
    tries: Annotated[int, operator.add]
    left: RemainingSteps


def loop(ready=lambda state: None):
    def node(state: Loop) -> dict:
        ready(state)
        return {"tries": 1}

    builder = StateGraph(Loop).add_node("node", node).add_edge(START, "node")
    builder.add_conditional_edges("node", lambda state: "node" if state["tries"] < 12 else END)
    return builder.compile(checkpointer=InMemorySaver())


@claim("recursion-default", "06")
def test_recursion_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default recursion limit is what LANGGRAPH_DEFAULT_RECURSION_LIMIT says, else 10007
    super-steps; RemainingSteps is what is left after the step under way."""

    def first_left() -> int:
        left: list[int] = []
        loop(lambda state: left.append(state["left"])).invoke({"tries": 0}, RUN)
        return left[0]

    assert first_left() == 10006
    monkeypatch.setenv("LANGGRAPH_DEFAULT_RECURSION_LIMIT", "20")
    assert launch(first_left, fresh=True, echo=False).result() == 19


@claim("recursion-one-more", "06")
def test_recursion_needs_one_more() -> None:
    """At the recursion limit it raises even if no step is left: n super-steps need a limit of
    n + 1."""
    with pytest.raises(GraphRecursionError):
        loop().invoke({"tries": 0}, RUN | {"recursion_limit": 12})
    assert loop().invoke({"tries": 0}, RUN | {"recursion_limit": 13})["tries"] == 12


@claim("recursion-per-invoke", "06 07")
def test_recursion_limit() -> None:
    """At the recursion limit the state is saved; each invoke counts from zero, and None goes
    on."""
    app, limit = loop(), RUN | {"recursion_limit": 5}
    with pytest.raises(GraphRecursionError):
        app.invoke({"tries": 0}, limit)
    assert (app.get_state(RUN).values["tries"], app.get_state(RUN).next) == (5, ("node",))
    for _ in range(3):
        try:
            app.invoke(None, limit)
        except GraphRecursionError:
            continue
    assert (app.get_state(RUN).values["tries"], app.get_state(RUN).tasks) == (12, ())


def attempts(error: Exception, **policy: object) -> int:
    made: list[int] = []

    def node(state: Build) -> None:
        made.append(1)
        raise error

    quick = RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False, **policy)
    builder = StateGraph(Build).add_node(node, retry_policy=quick).add_edge(START, "node")
    with pytest.raises(type(error)):
        builder.compile().invoke({})
    return len(made)


REQUEST = httpx.Request("POST", "http://farm/")


def answer(code: int) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError("", request=REQUEST, response=httpx.Response(code))


@claim("retry-default", "06")
def test_default_retries() -> None:
    """By default a policy retries 5xx of httpx, its read timeout, ConnectionError, AssertionError
    and exceptions of your own, and not 429, 404, TimeoutError, OSError, RuntimeError or ValueError
    and what is derived from them."""

    class Mine(Exception):
        pass

    class Bad(ValueError):
        pass

    timeout = httpx.ReadTimeout("", request=REQUEST)
    for error in (answer(503), timeout, ConnectionResetError(), AssertionError(), Mine()):
        assert attempts(error) == 3, repr(error)
    for error in (answer(429), answer(404), TimeoutError(), OSError(), RuntimeError(), Bad()):
        assert attempts(error) == 1, repr(error)


@claim("retry-whole-node", "06")
def test_retry_runs_the_node() -> None:
    """A retry runs the whole node again; retry_on decides, and without a policy a node runs
    once."""
    assert attempts(ValueError(), retry_on=lambda error: True) == 3
    assert attempts(ConnectionResetError(), retry_on=lambda error: False) == 1
    ran: list[str] = []

    def ready(name: str) -> None:
        ran.append(name)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        compiled(LINE, None, ready).invoke({}, RUN)
    assert ran == ["fetch"]


# Symptoms


@claim("saver-threads", "06")
def test_check_same_thread() -> None:
    """The saver works in other threads: a connection without check_same_thread=False is
    refused."""
    with closing(sqlite3.connect(":memory:")) as db:
        app = graph(LINE).compile(checkpointer=SqliteSaver(db))
        with pytest.raises(sqlite3.ProgrammingError, match="same thread"):
            app.invoke({}, RUN)


class Held(TypedDict, total=False):
    thing: object


@claim("unserialisable-after", "06")
def test_a_state_that_cannot_be_saved() -> None:
    """A value that cannot be saved raises a TypeError when the node has acted, and the thread
    stays before the node."""
    done: list[int] = []

    def node(state: Held) -> dict:
        done.append(1)
        return {"thing": threading.Lock()}

    app = StateGraph(Held).add_node("node", node).add_edge(START, "node").compile(InMemorySaver())
    for value in ({}, None):
        with pytest.raises(TypeError, match="msgpack"):
            app.invoke(value, RUN, durability="sync")
        assert app.get_state(RUN).next == ("node",)
    assert len(done) == 2


@claim("class-moved", "06")
def test_a_class_that_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object whose class is no longer where it was comes back as a dict, with no exception."""
    source = "from dataclasses import dataclass\n@dataclass\nclass Order:\n    n: int\n"
    (tmp_path / "parts_06.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import parts_06

    app = StateGraph(Held).add_node("node", lambda state: {"thing": parts_06.Order(2)})
    app = app.add_edge(START, "node").compile(InMemorySaver())
    app.invoke({}, RUN)
    assert app.get_state(RUN).values["thing"] == parts_06.Order(2)
    (tmp_path / "parts_06.py").unlink()
    monkeypatch.delitem(sys.modules, "parts_06")
    assert app.get_state(RUN).values["thing"] == {"n": 2}


@claim("wal-copy", "06")
def test_a_copy_without_wal(tmp_path: Path) -> None:
    """SqliteSaver writes in WAL mode: a copy of the file alone misses the newest rows, a backup
    has them."""
    path, copy, backup = (tmp_path / f"{name}.sqlite" for name in ("threads", "copy", "backup"))
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph(LINE).compile(checkpointer=saver).invoke({}, RUN)
        shutil.copy(path, copy)
        with closing(sqlite3.connect(backup)) as db:
            saver.conn.backup(db)
    with (
        closing(sqlite3.connect(copy)) as db,
        pytest.raises(sqlite3.OperationalError, match="no such"),
    ):
        db.execute("SELECT * FROM checkpoints")
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("SELECT count(*) FROM checkpoints").fetchone() == (5,)
