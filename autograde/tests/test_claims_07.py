"""What 07_kill_the_agent states about LangGraph: where a kill goes on, and what runs again."""

import operator
import sqlite3
import threading
from contextlib import closing
from typing import Annotated, TypedDict

import pytest
from claims import claim
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.func import task
from langgraph.graph import START, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Send

RUN = {"configurable": {"thread_id": "run-217"}}
CALLS = ["a", "b", "c"]


class State(TypedDict, total=False):
    done: Annotated[list[str], operator.add]


class Killed(BaseException):
    """Ends a run as a kill would, in tests where only what is saved matters."""


class Saver(InMemorySaver):
    """Tells when the writes of a task are saved."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[str] = []
        self.news = threading.Condition()

    def put_writes(self, config, writes, task_id, task_path=""):
        super().put_writes(config, writes, task_id, task_path)
        with self.news:
            self.saved.append(task_id)
            self.news.notify_all()

    def wait_for(self, tasks: set[str]) -> None:
        with self.news:
            assert self.news.wait_for(lambda: tasks <= set(self.saved), 5), "not saved"


def one_node(builder: StateGraph, use) -> None:
    builder.add_node("tools", lambda state: {"done": [use(call) for call in CALLS]})
    builder.add_edge(START, "tools")


def sends(builder: StateGraph, use) -> None:
    builder.add_node("tool", lambda call: {"done": [use(call)]})
    builder.add_conditional_edges(START, lambda state: [Send("tool", c) for c in CALLS], ["tool"])


def tasks(builder: StateGraph, use) -> None:
    @task
    def one(call: str) -> str:
        return use(call)

    builder.add_node("tools", lambda state: {"done": [one(call).result() for call in CALLS]})
    builder.add_edge(START, "tools")


def compiled(build, use, saver: InMemorySaver | None = None):
    builder = StateGraph(State)
    build(builder, use)
    return builder.compile(checkpointer=saver or InMemorySaver())


def alone(node, saver: InMemorySaver):
    builder = StateGraph(State).add_node("tools", node).add_edge(START, "tools")
    return builder.compile(checkpointer=saver)


def task_id() -> str:
    return get_runtime().execution_info.task_id


def killed_in_the_last(build) -> tuple[list[str], dict]:
    """Kill while c is performed, when a and b have finished and are saved as far as they can be.

    Return the calls that run when the run goes on, and its state in the end.
    """
    saver, finished, news = Saver(), {}, threading.Event()

    def use(call: str) -> str:
        if call == "c":
            assert news.wait(5)
            saver.wait_for(set(finished.values()) - {task_id()})
            raise Killed
        finished[call] = task_id()
        if len(finished) == 2:
            news.set()
        return call

    with pytest.raises(Killed):
        compiled(build, use, saver).invoke({}, RUN, durability="sync")
    ran: list[str] = []

    def use_again(call: str) -> str:
        ran.append(call)
        return call

    return ran, compiled(build, use_again, saver).invoke(None, RUN, durability="sync")


# What runs again


@claim("grain-is-the-super-step", "07")
def test_one_node() -> None:
    """Killed in a node, a run goes on at the node's first line: what it had done is done again."""
    ran, end = killed_in_the_last(one_node)
    assert (ran, end["done"]) == (CALLS, CALLS)


@claim("send-each-kept", "07")
def test_sends() -> None:
    """With one Send per call, a call whose pending writes are saved does not run again."""
    ran, end = killed_in_the_last(sends)
    assert (ran, end["done"]) == (["c"], CALLS)


@claim("task-each-kept", "07")
def test_tasks() -> None:
    """With one @task per call in a node, a call whose result is saved does not run again."""
    ran, end = killed_in_the_last(tasks)
    assert (ran, end["done"]) == (["c"], CALLS)


@claim("task-by-position", "07")
def test_position() -> None:
    """The results of @tasks are matched by the order in which they are asked for, not by their
    arguments."""
    saver = Saver()

    def both(order: str, use):
        @task
        def one(call: str) -> str:
            return use(call)

        def build(builder: StateGraph, _: object) -> None:
            builder.add_node(
                "tools", lambda s: {"done": [f"{c}: {one(c).result()}" for c in order]}
            )
            builder.add_edge(START, "tools")

        return compiled(build, None, saver)

    seen: list[str] = []

    def use(call: str) -> str:
        if seen:
            saver.wait_for(set(seen))
            raise Killed
        seen.append(task_id())
        return call

    with pytest.raises(Killed):
        both("ab", use).invoke({}, RUN, durability="sync")
    ran: list[str] = []
    end = both("ba", lambda call: ran.append(call) or call).invoke(None, RUN)
    assert end["done"] == ["b: a", "a: a"]
    assert ran == ["a"]


@claim("task-name-counts", "07")
def test_name_of_a_task() -> None:
    """The result of a @task is saved under the name of its function: renamed, it runs again."""
    for name, again in (("one", []), ("other", ["a"])):
        saver, ran, ids = Saver(), [], []

        def one(call: str, ids=ids) -> str:
            ids.append(task_id())
            return call

        def tools(state: State, saver=saver, ids=ids) -> dict:
            task(one)("a").result()
            saver.wait_for(set(ids))
            raise Killed

        with pytest.raises(Killed):
            alone(tools, saver).invoke({}, RUN, durability="sync")

        def other(call: str, ran=ran) -> str:
            ran.append(call)
            return call

        other.__name__ = name
        end = alone(lambda state, f=other: {"done": [task(f)("a").result()]}, saver).invoke(
            None, RUN
        )
        assert (ran, end["done"]) == (again, ["a"])


@claim("task-id-names-the-task", "07")
@pytest.mark.parametrize(("build", "number"), [(one_node, 1), (sends, 3), (tasks, 3)])
def test_task_id(build, number: int) -> None:
    """Each Send and each @task is a task with an id of its own, by which its writes are saved; a
    node that does it all is one."""
    saver, seen = Saver(), set()

    def use(call: str) -> str:
        seen.add(task_id())
        return call

    compiled(build, use, saver).invoke({}, RUN, durability="sync")
    assert len(seen) == number
    assert seen <= set(saver.saved)


# When the writes reach the disk


@claim("task-result-before-save", "07")
def test_result_comes_before_its_save() -> None:
    """Under "sync" too, a node gets the result of a @task while its writes are not saved yet."""
    second = threading.Event()

    class Late(InMemorySaver):
        def put_writes(self, config, writes, *rest):
            if ("__return__", "a") in writes:
                assert second.wait(5), "b does not begin before a is saved"
            super().put_writes(config, writes, *rest)

    def use(call: str) -> str:
        if call == "b":
            second.set()
        return call

    end = compiled(tasks, use, Late()).invoke({}, RUN, durability="sync")
    assert end["done"] == CALLS


@claim("small-pool-saves-late", "07")
def test_a_pool_of_one() -> None:
    """With max_concurrency=1 and one Send per call, no call's writes are saved before the last call
    has run."""
    saver, counts = Saver(), []

    def use(call: str) -> str:
        counts.append(len(saver.saved))
        return call

    compiled(sends, use, saver).invoke({}, RUN | {"max_concurrency": 1}, durability="sync")
    assert counts == [1, 1, 1]  # those of the input
    assert len(saver.saved) == 4


@claim("sends-side-by-side", "07")
def test_side_by_side() -> None:
    """All Sends of a super-step run at the same time; @tasks whose results are asked for one by one
    run one after the other."""
    together = threading.Barrier(3, timeout=5)
    compiled(sends, lambda call: (together.wait(), call)[1]).invoke({}, RUN)

    running, most = [], []

    def use(call: str) -> str:
        running.append(call)
        most.append(len(running))
        running.remove(call)
        return call

    compiled(tasks, use).invoke({}, RUN)
    assert most == [1, 1, 1]


# Threads


def threads_of(build, mode: str) -> set[threading.Thread]:
    seen: set[threading.Thread] = set()

    def use(call: str) -> str:
        seen.add(threading.current_thread())
        return call

    list(compiled(build, use).stream({}, RUN, stream_mode=mode))
    return seen


@claim("node-threads", "07")
def test_where_a_node_runs() -> None:
    """A node that is alone in its super-step runs in the thread that called the graph, unless
    messages are streamed; several tasks at once, and @tasks, run in a pool."""
    me = threading.current_thread()
    assert threads_of(one_node, "updates") == threads_of(one_node, "values") == {me}
    assert me not in threads_of(one_node, "messages")
    assert me not in threads_of(sends, "updates") | threads_of(tasks, "updates")


@claim("record-needs-threads", "07")
@pytest.mark.parametrize("build", [sends, tasks])
def test_a_connection_in_another_thread(build) -> None:
    """A connection without check_same_thread=False serves a lone node, and fails in Sends and
    @tasks."""
    with closing(sqlite3.connect(":memory:")) as record:

        def use(call: str) -> str:
            return record.execute("SELECT ?", (call,)).fetchone()[0]

        assert compiled(one_node, use).invoke({}, RUN)["done"] == CALLS
        with pytest.raises(sqlite3.ProgrammingError, match="same thread"):
            compiled(build, use).invoke({}, RUN)


# The run of an agent


class Agent(TypedDict):
    step: int


@claim("agent-super-steps", "07")
def test_super_steps_of_an_agent() -> None:
    """An agent of n steps, each model and tools and in the end model and accept, takes 2n
    super-steps, leaves 2n + 2 checkpoints and needs a recursion limit of 2n + 1."""
    builder = StateGraph(Agent)
    builder.add_node("model", lambda state: {"step": state["step"] + 1})
    builder.add_node("tools", lambda state: {})
    builder.add_node("accept", lambda state: {})
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda s: "accept" if s["step"] == 18 else "tools")
    builder.add_edge("tools", "model")
    with SqliteSaver.from_conn_string(":memory:") as saver:
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(GraphRecursionError):
            graph.invoke({"step": 0}, {"configurable": {"thread_id": "x"}, "recursion_limit": 36})
        assert graph.invoke({"step": 0}, RUN | {"recursion_limit": 37})["step"] == 18
        assert len(list(saver.list(RUN))) == 38


@claim("changed-on-resume", "07 10")
def test_update_before_going_on() -> None:
    """What update_state writes into an interrupted run is there when None goes on, at the node that
    was next."""
    saver, seen = InMemorySaver(), []

    def build(kills: bool):
        def tools(state: Agent) -> dict:
            if kills:
                raise Killed
            seen.append(state["step"])
            return {}

        builder = StateGraph(Agent).add_node("model", lambda state: {"step": 5})
        builder.add_node("tools", tools).add_edge(START, "model").add_edge("model", "tools")
        return builder.compile(checkpointer=saver)

    with pytest.raises(Killed):
        build(True).invoke({"step": 0}, RUN, durability="sync")
    build(False).update_state(RUN, {"step": 0})
    build(False).invoke(None, RUN)
    assert seen == [0]
