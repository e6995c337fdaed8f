"""What the question bank says about LangGraph and no notebook states: savers, tools, pauses."""

import asyncio
import operator
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from claims import claim
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import EmptyInputError
from langgraph.func import task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import get_runtime
from langgraph.types import Command, RetryPolicy, Send, interrupt

from crashlab import Journal, WorkFolder, launch

RUN = {"configurable": {"thread_id": "run-217"}}


class State(TypedDict, total=False):
    done: Annotated[list[str], operator.add]
    step: int
    answer: Any


class Killed(BaseException):
    """Ends a run as a kill would, in tests where only what is saved matters."""


def line(*nodes: Callable[[State], dict | None]) -> StateGraph:
    """Make a graph of these nodes, one after the other."""
    builder = StateGraph(State).add_sequence([*nodes])
    return builder.add_edge(START, nodes[0].__name__)


def on_disk(folder: WorkFolder):
    return SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite"))


def journal_of(folder: WorkFolder) -> Journal:
    return Journal(folder.path / "journal.jsonl")


def die() -> None:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def step(state: State) -> dict:
    return {"step": state.get("step", 0) + 1}


def again(state: State) -> str:
    return "step" if state["step"] < 12 else END


# Savers


def first_half(folder: WorkFolder, in_memory: bool) -> None:
    with on_disk(folder) as saver:
        app = line(step).compile(checkpointer=InMemorySaver() if in_memory else saver)
        app.invoke({}, RUN)


def second_half(folder: WorkFolder, in_memory: bool) -> int | None:
    with on_disk(folder) as saver:
        app = line(step).compile(checkpointer=InMemorySaver() if in_memory else saver)
        return app.get_state(RUN).values.get("step")


@claim("memory-saver-dies", "06")
def test_memory() -> None:
    """What an InMemorySaver holds is gone with its process; what a SqliteSaver wrote to a file the
    next process reads."""
    for in_memory, found in ((True, None), (False, 1)):
        with WorkFolder.fresh() as folder:
            assert launch(first_half, folder, in_memory, echo=False).end == "finished"
            assert launch(second_half, folder, in_memory, echo=False).result() == found


@claim("saver-made-anew", "06")
def test_a_saver_for_each_request() -> None:
    """A graph that is compiled with a new InMemorySaver for each request starts at nothing each
    time; with one saver for all requests the second continues the first."""
    anew = [line(step).compile(InMemorySaver()).invoke({}, RUN)["step"] for _ in range(2)]
    saver = InMemorySaver()
    kept = [line(step).compile(saver).invoke({}, RUN)["step"] for _ in range(2)]
    assert (anew, kept) == ([1, 1], [1, 2])


@claim("saver-connection-shared", "06")
def test_connections_that_serve(tmp_path: Path) -> None:
    """A connection opened with check_same_thread=False serves the saver, and from_conn_string
    opens its own so."""
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as db:
        assert line(step).compile(SqliteSaver(db)).invoke({}, RUN)["step"] == 1
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        assert line(step).compile(saver).invoke({}, RUN)["step"] == 1


@claim("saver-takes-turns", "06")
def test_one_saver_in_many_threads() -> None:
    """Eight threads may use one SqliteSaver with one connection at the same time: no error, and
    every thread of the graph is whole."""
    together, ends = threading.Barrier(8, timeout=5), {}

    def run(name: str) -> None:
        together.wait()
        for _ in range(4):
            ends[name] = app.invoke({}, {"configurable": {"thread_id": name}})["step"]

    with SqliteSaver.from_conn_string(":memory:") as saver:
        app = line(step).compile(saver)
        app.invoke({}, RUN)
        workers = [threading.Thread(target=run, args=(name,)) for name in "abcdefgh"]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
    assert ends == dict.fromkeys("abcdefgh", 4)


@claim("saver-sync-async", "06")
def test_sync_and_async() -> None:
    """SqliteSaver refuses ainvoke; AsyncSqliteSaver serves it, refuses invoke in the thread of its
    event loop, and takes it from another thread."""

    async def trials() -> None:
        with SqliteSaver.from_conn_string(":memory:") as saver:
            with pytest.raises(NotImplementedError, match="AsyncSqliteSaver"):
                await line(step).compile(saver).ainvoke({}, RUN)
            other = line(step).compile(saver)
            assert (await asyncio.to_thread(other.invoke, {}, RUN))["step"] == 1
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            app = line(step).compile(saver)
            assert (await app.ainvoke({}, RUN))["step"] == 1
            with pytest.raises(asyncio.InvalidStateError, match="different thread"):
                app.invoke({}, RUN)
            assert (await asyncio.to_thread(app.invoke, {}, RUN))["step"] == 2

    asyncio.run(trials())


@claim("sync-call-blocks-the-loop", "06")
def test_a_sync_call_in_a_handler() -> None:
    """A sync invoke in an async function stops every other coroutine of the loop until it has
    ended; ainvoke lets them run, also beside a sync node."""

    def slow(state: State) -> None:
        time.sleep(0.1)

    async def ticks(through: Callable) -> int:
        counted: list[int] = []

        async def tick() -> None:
            while True:
                counted.append(1)
                await asyncio.sleep(0.005)

        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0.02)
        before = len(counted)
        await through(line(slow).compile(InMemorySaver()))
        ticking.cancel()
        return len(counted) - before

    async def blocking(app) -> None:
        app.invoke({}, RUN)

    assert asyncio.run(ticks(blocking)) == 0
    assert asyncio.run(ticks(lambda app: app.ainvoke({}, RUN))) > 2


@claim("disk-full", "06")
def test_a_full_disk() -> None:
    """When the disk is full from the first super-step on, "sync" raises after one node, "async" and
    "exit" when all nodes have run."""

    class Full(InMemorySaver):
        def put(self, config, checkpoint, metadata, versions):
            if metadata["step"] >= 1:
                raise sqlite3.OperationalError("database or disk is full")
            return super().put(config, checkpoint, metadata, versions)

    def runs(mode: str) -> list[str]:
        ran: list[str] = []
        builder = StateGraph(State)
        builder.add_sequence([(name, lambda s, name=name: ran.append(name)) for name in "abcde"])
        with pytest.raises(sqlite3.OperationalError, match="disk is full"):
            builder.add_edge(START, "a").compile(Full()).invoke({}, RUN, durability=mode)
        return ran

    assert [runs(mode) for mode in ("sync", "async", "exit")] == [["a"], [*"abcde"], [*"abcde"]]


@claim("bill-fifty-documents", "06 10")
def test_fifty_documents() -> None:
    """A list that gets a document of 10 KB in each of 50 steps takes between 12 and 15 MB in
    SqliteSaver, and less than 2 MB under "exit"."""

    def size(mode: str) -> int:
        builder = StateGraph(State)
        builder.add_node("n", lambda s: {"done": [os.urandom(5_000).hex()]}).add_edge(START, "n")
        more = lambda s: "n" if len(s["done"]) < 50 else END  # noqa: E731
        with SqliteSaver.from_conn_string(":memory:") as saver:
            builder.add_conditional_edges("n", more, ["n", END]).compile(saver).invoke(
                {}, RUN, durability=mode
            )
            [(pages, page)] = saver.conn.execute(
                "SELECT page_count, page_size FROM pragma_page_count, pragma_page_size"
            )
        return pages * page

    assert 12e6 < size("async") < 15e6
    assert size("exit") < 2e6


@claim("run-id-is-not-the-thread", "06")
def test_run_and_thread() -> None:
    """A thread keeps its id and its state through all calls; a run_id is given per call, is absent
    if nobody gives one, and finds nothing."""
    seen: list[tuple] = []

    def node(state: State) -> dict:
        info = get_runtime().execution_info
        seen.append((info.thread_id, info.run_id))
        return step(state)

    app = line(node).compile(InMemorySaver())
    one, two = ("00000000-0000-4000-8000-00000000000" + digit for digit in "12")
    app.invoke({}, RUN)
    app.invoke({}, RUN | {"run_id": one})
    assert app.invoke({}, RUN | {"run_id": two})["step"] == 3
    assert seen == [("run-217", None), ("run-217", one), ("run-217", two)]
    with pytest.raises(EmptyInputError):
        app.invoke(None, {"configurable": {"thread_id": one}})


@claim("two-resumes-fork", "06 09")
def test_two_go_on_at_once() -> None:
    """Two workers that call invoke(None) on one killed thread at the same time both run its node
    and both succeed; the thread forks, and what one of them saved is not in its newest
    state."""
    together, effects, returned = threading.Barrier(2, timeout=5), [], []

    def graph(name: str):
        def work(state: State) -> dict:
            if not name:
                raise Killed
            together.wait()
            effects.append(name)
            return {"done": [name]}

        return line(work)

    with WorkFolder.fresh() as folder:
        with on_disk(folder) as saver, pytest.raises(Killed):
            graph("").compile(saver).invoke({}, RUN, durability="sync")

        def worker(name: str) -> None:
            with on_disk(folder) as saver:
                app = graph(name).compile(saver)
                returned.append(app.invoke(None, RUN, durability="sync")["done"])

        workers = [threading.Thread(target=worker, args=(name,)) for name in "AB"]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        with on_disk(folder) as saver:
            history = [*graph("x").compile(saver).get_state_history(RUN)]
    assert (sorted(effects), sorted(returned)) == (["A", "B"], [["A"], ["B"]])
    assert len(history[0].values["done"]) == 1
    assert [each.metadata["source"] for each in history[:2]] == ["loop", "loop"]
    assert history[0].parent_config == history[1].parent_config


@claim("thread-runs-new-code", "06 09")
def test_new_code() -> None:
    """A thread that waits runs the function that the graph has now under the name of its node."""
    saver = InMemorySaver()

    def graph(version: str):
        def ask(state: State) -> dict:
            return {"answer": f"{version}: {interrupt('?')}"}

        return line(ask).compile(saver)

    graph("old").invoke({}, RUN)
    assert graph("new").invoke(Command(resume="yes"), RUN)["answer"] == "new: yes"


@claim("orphan-repaired", "09")
def test_an_orphan_goes_on() -> None:
    """A thread whose node was renamed while it waited goes on at the new name after update_state
    as the node before it, and asks again."""
    saver = InMemorySaver()

    def graph(name: str):
        builder = StateGraph(State).add_node("propose", step)
        builder.add_node(name, lambda state: {"answer": interrupt("?")})
        return builder.add_edge(START, "propose").add_edge("propose", name).compile(saver)

    graph("gate").invoke({}, RUN)
    renamed = graph("approval")
    assert "answer" not in renamed.invoke(Command(resume="yes"), RUN)
    renamed.update_state(RUN, None, as_node="propose")
    assert renamed.get_state(RUN).next == ("approval",)
    assert renamed.invoke(None, RUN)["__interrupt__"]
    assert renamed.invoke(Command(resume="yes"), RUN) == {"step": 1, "done": [], "answer": "yes"}


# Limits and failures


@claim("flag-in-the-state", "06")
def test_a_flag_is_no_key() -> None:
    """A flag that a node returns with its effect is not there when the node runs again after a
    failure, and it skips the next legitimate order on the thread."""
    orders: list[str] = []

    def order(state: State) -> dict:
        if state.get("answer"):
            return {}
        orders.append(state["done"][-1])
        if len(orders) == 1:
            raise ConnectionResetError
        return {"answer": "ordered"}

    app = line(order).compile(InMemorySaver())
    with pytest.raises(ConnectionResetError):
        app.invoke({"done": ["A"]}, RUN)
    app.invoke(None, RUN)
    assert orders == ["A", "A"]
    app.invoke({"done": ["B"]}, RUN)
    assert orders == ["A", "A"]


@claim("recursion-limit-misplaced", "06")
def test_limit_in_configurable() -> None:
    """A recursion_limit inside configurable limits nothing; beside it, it does."""
    builder = StateGraph(State).add_node("step", step).add_edge(START, "step")
    app = builder.add_conditional_edges("step", again, ["step", END]).compile(InMemorySaver())
    misplaced = {"configurable": {"thread_id": "a", "recursion_limit": 5}}
    assert app.invoke({}, misplaced)["step"] == 12
    with pytest.raises(RecursionError):
        app.invoke({}, {"configurable": {"thread_id": "b"}, "recursion_limit": 5})
    assert app.get_state({"configurable": {"thread_id": "b"}}).values["step"] == 5


@claim("recursion-at-the-last-step", "06")
def test_limit_at_the_last_step() -> None:
    """A graph of twelve super-steps with a limit of 12 runs all of them and raises; its thread is
    finished, and None runs nothing."""
    ran: list[int] = []

    def node(state: State) -> dict:
        ran.append(1)
        return step(state)

    builder = StateGraph(State).add_node("step", node).add_edge(START, "step")
    app = builder.add_conditional_edges("step", again, ["step", END]).compile(InMemorySaver())
    with pytest.raises(RecursionError):
        app.invoke({}, RUN | {"recursion_limit": 12})
    assert (app.get_state(RUN).next, app.get_state(RUN).tasks) == ((), ())
    assert app.invoke(None, RUN)["step"] == 12
    assert len(ran) == 12


def flaky(folder: WorkFolder, given: dict | None, killed_at: int) -> None:
    def node(state: State) -> None:
        attempt = get_runtime().execution_info.node_attempt
        journal_of(folder).effect(f"attempt {attempt}, checkpoints {len([*saver.list(RUN)])}")
        if attempt == killed_at:
            die()
        raise ConnectionResetError

    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False)
    with on_disk(folder) as saver:
        builder = StateGraph(State).add_node(node, retry_policy=policy).add_edge(START, "node")
        builder.compile(saver).invoke(given, RUN, durability="sync")


@claim("retry-is-inside-the-process", "06")
def test_a_kill_between_two_attempts() -> None:
    """The attempts of a retry policy belong to one process and make no checkpoint: after a kill the
    next process counts them from 1; when they are used up, the error is saved with the task."""
    with WorkFolder.fresh() as folder:
        assert launch(flaky, folder, {}, 2, echo=False).end == "exited"
        assert launch(flaky, folder, None, 0, echo=False).end == "raised"
        effects = [r.word for life in journal_of(folder).lives() for r in life]
        assert effects == [f"attempt {n}, checkpoints 2" for n in (1, 2, 1, 2, 3)]
        with on_disk(folder) as saver:
            builder = StateGraph(State).add_node("node", step).add_edge(START, "node")
            [failed] = builder.compile(saver).get_state(RUN).tasks
            assert "ConnectionResetError" in failed.error


@claim("sibling-kept-after-an-error", "06 07")
@pytest.mark.parametrize("keeps", [True, False])
def test_a_sibling_of_a_failure(keeps: bool) -> None:
    """When one of two nodes side by side raises, only that one runs again on invoke(None); without
    a checkpointer both run again."""
    ran: list[str] = []
    returned = threading.Event()

    def good(state: State) -> None:
        ran.append("good")
        returned.set()

    def bad(state: State) -> None:
        assert returned.wait(5)
        ran.append("bad")
        if ran.count("bad") == 1:
            raise ConnectionResetError

    builder = StateGraph(State).add_node(good).add_node(bad)
    builder.add_edge(START, "good").add_edge(START, "bad")
    app = builder.compile(checkpointer=InMemorySaver() if keeps else None)
    with pytest.raises(ConnectionResetError):
        app.invoke({}, RUN)
    app.invoke(None if keeps else {}, RUN)
    assert (ran.count("good"), ran.count("bad")) == (1 if keeps else 2, 2)


# The agent that is killed


def agent(folder: WorkFolder, given: dict | None) -> dict:
    """Two steps: a reply, two calls; a reply, no calls."""
    journal = journal_of(folder)

    def perform(call: str) -> str:
        journal.effect(call)
        return call

    def model(state: State) -> dict:
        return {"step": state.get("step", 0) + 1}

    def tools(state: State) -> dict:
        return {"done": [perform(f"{name}{state['step']}") for name in "ab"]}

    builder = StateGraph(State).add_node(model).add_node(tools)
    builder.add_edge(START, "model").add_edge("tools", "model")
    builder.add_conditional_edges("model", lambda s: "tools" if s["step"] < 3 else END)
    with on_disk(folder) as saver:
        return builder.compile(saver).invoke(given, RUN, durability="sync")


@claim("kill-between-or-inside", "07")
@pytest.mark.parametrize(
    ("line_of_code", "visit", "twice"),
    [
        ('return {"step"', 2, []),
        ("journal.effect(call)", 4, ["a2"]),
        ("return call", 4, ["a2", "b2"]),
    ],
)
def test_where_the_kill_falls(line_of_code: str, visit: int, twice: list[str]) -> None:
    """Under "sync" a real kill between two super-steps repeats no call and the count of steps goes
    on; inside the tools node it repeats the calls of that step that had been performed."""
    with WorkFolder.fresh() as folder:
        kill = {"kill_before": line_of_code, "visit": visit, "echo": False}
        assert launch(agent, folder, {}, **kill).end == "killed"
        assert launch(agent, folder, None, echo=False).result()["step"] == 3
        journal = journal_of(folder)
        counts = {call: journal.count(call) for call in ("a1", "b1", "a2", "b2")}
    assert counts == {call: 2 if call in twice else 1 for call in counts}


def builds(folder: WorkFolder, given: dict | None) -> dict:
    """One node compiles, the next one links for the target of the environment."""

    def compiles(state: State) -> dict:
        os.environ["CRASHLAB_TARGET"] = "aarch64-linux"
        (folder.path / "re2.o").touch()
        return {"done": ["re2.o"]}

    def link(state: State) -> dict:
        there = (folder.path / "re2.o").exists()
        return {"answer": (os.environ.get("CRASHLAB_TARGET"), there)}

    with on_disk(folder) as saver:
        return line(compiles, link).compile(saver).invoke(given, RUN, durability="sync")


@claim("outside-is-not-restored", "07")
def test_environment_and_files() -> None:
    """A checkpoint brings back neither the environment variables of the process that died nor a
    file that was deleted since, and no error says so."""
    with WorkFolder.fresh() as folder:
        assert launch(builds, folder, {}, echo=False).value["answer"] == ("aarch64-linux", True)
    with WorkFolder.fresh() as folder:
        kill = {"kill_before": "there = ", "echo": False}
        assert launch(builds, folder, {}, **kill).end == "killed"
        (folder.path / "re2.o").unlink()
        found = launch(builds, folder, None, echo=False).result()
    assert (found["done"], found["answer"]) == (["re2.o"], (None, False))


def saved_result(folder: WorkFolder, call: str) -> bool:
    with closing(sqlite3.connect(folder.path / "threads.sqlite")) as db:
        rows = db.execute("SELECT value FROM writes WHERE channel = 'messages'")
        return any(f"did {call}".encode() in value for (value,) in rows)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 4
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def two_tools(folder: WorkFolder, given: dict | None, one_send_each: bool, dies: bool) -> list[str]:
    journal = journal_of(folder)

    @tool
    def charge() -> str:
        """Charge the card."""
        journal.effect("charge")
        return "did charge"

    @tool
    def mail() -> str:
        """Send a mail; here the process dies, when the charge is as far as it gets."""
        if dies:
            until(lambda: journal.count("charge") == 1)
            if one_send_each:
                until(lambda: saved_result(folder, "charge"))
            die()
        journal.effect("mail")
        return "did mail"

    calls = [{"name": name, "args": {}, "id": f"call {name}"} for name in ("charge", "mail")]
    with on_disk(folder) as saver:
        app = tool_graph(calls, [charge, mail], one_send_each).compile(saver)
        end = app.invoke(given, RUN, durability="sync")
    return [message.content for message in end["messages"] if message.type == "tool"]


def tool_graph(calls: list[dict], tools: list, one_send_each: bool) -> StateGraph:
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=calls)]})
    builder.add_node("tools", ToolNode(tools)).add_edge(START, "model")
    if one_send_each:
        sends = [Send("tools", [{**call, "type": "tool_call"}]) for call in calls]
        return builder.add_conditional_edges("model", lambda state: sends, ["tools"])
    return builder.add_edge("model", "tools")


@claim("tool-node-is-one-task", "07")
@pytest.mark.parametrize(("one_send_each", "charges"), [(False, 2), (True, 1)])
def test_a_kill_in_the_second_tool(one_send_each: bool, charges: int) -> None:
    """Killed in the second of two tools, one ToolNode performs the first again; with one Send per
    call it does not, if what the first returned is on disk."""
    first = {"messages": [HumanMessage("go")]}
    with WorkFolder.fresh() as folder:
        life = launch(two_tools, folder, first, one_send_each, True, echo=False)
        assert life.end == "exited"
        results = launch(two_tools, folder, None, one_send_each, False, echo=False).result()
        count = journal_of(folder).count
        assert (count("charge"), count("mail")) == (charges, 1)
    assert results == ["did charge", "did mail"]


def mails(folder: WorkFolder, given: dict | None, people: str, dies_at: str) -> list[str]:
    """One node mails each of these people, by a @task."""

    @task
    def mail(person: str) -> str:
        if person == dies_at:
            until(lambda: saved_tasks(folder) == people.index(person))
            die()
        journal_of(folder).effect(person)
        return person

    def tell(state: State) -> dict:
        return {"done": [f"{person}: {mail(person).result()}" for person in people]}

    with on_disk(folder) as saver:
        return line(tell).compile(saver).invoke(given, RUN, durability="sync")["done"]


def saved_tasks(folder: WorkFolder) -> int:
    with closing(sqlite3.connect(folder.path / "threads.sqlite")) as db:
        query = "SELECT count(*) FROM writes WHERE channel = '__return__'"
        return db.execute(query).fetchone()[0]


@claim("task-list-changes", "07")
@pytest.mark.parametrize(
    ("then", "told", "mailed"),
    [("BCDE", "ABDE", [1, 1, 0, 1, 1, 0]), ("XABCDE", "ABBCDE", [1, 2, 1, 1, 1, 0])],
)
def test_a_list_that_changes(then: str, told: str, mailed: list[int]) -> None:
    """A node mails A to E by @tasks and is killed after two. If A is then taken off the list, C is
    never mailed; if X is put at its head, X is never mailed and B twice; and no error says so."""
    with WorkFolder.fresh() as folder:
        life = launch(mails, folder, {}, "ABCDE", "C", echo=False)
        assert life.end == "exited"
        done = launch(mails, folder, None, then, "", echo=False).result()
        counts = [journal_of(folder).count(person) for person in "ABCDEX"]
    assert done == [f"{person}: {got}" for person, got in zip(then, told, strict=True)]
    assert counts == mailed


# Pauses


def waits_in_input(folder: WorkFolder, blocks: bool) -> None:
    def propose(state: State) -> dict:
        return {"step": 1}

    def approve(state: State) -> dict:
        if blocks:
            threading.Event().wait()  # as input() waits for somebody who does not come
        return {"answer": interrupt("Patch it?")}

    with on_disk(folder) as saver:
        line(propose, approve).compile(saver).invoke({}, RUN, durability="sync")


@claim("input-holds-a-process", "08")
def test_input() -> None:
    """A node that waits for a person in its own process has to be killed, and its thread shows no
    question; with interrupt() the process ends by itself and the question is in the file."""
    for blocks, deadline, end, open_questions in ((True, 1, "stuck", 0), (False, 9, "finished", 1)):
        with WorkFolder.fresh() as folder:
            life = launch(waits_in_input, folder, blocks, deadline=deadline, echo=False)
            assert life.end == end
            with on_disk(folder) as saver:
                approve = lambda state: None  # noqa: E731
                state = line(step).add_node("approve", approve).compile(saver).get_state(RUN)
                assert (state.next, len(state.interrupts)) == (("approve",), open_questions)


def asks(folder: WorkFolder, number: int) -> None:
    with many(folder) as app:
        for each in range(number):
            thread = {"configurable": {"thread_id": f"run-{each}"}}
            app.invoke({}, thread, durability="exit")


def answers(folder: WorkFolder, thread: str) -> str:
    with many(folder) as app:
        return app.invoke(Command(resume="yes"), {"configurable": {"thread_id": thread}})["answer"]


@contextmanager
def many(folder: WorkFolder):
    def ask(state: State) -> dict:
        return {"answer": interrupt("?")}

    with on_disk(folder) as saver:
        yield line(ask).compile(saver)


@claim("hundred-questions-no-process", "08 09")
def test_a_hundred_wait() -> None:
    """A hundred questions that one process asked are in one file when it has ended, and another
    process answers any one of them."""
    with WorkFolder.fresh() as folder:
        assert launch(asks, folder, 100, echo=False, deadline=30).end == "finished"
        assert launch(answers, folder, "run-73", echo=False).result() == "yes"
        with many(folder) as app:
            threads = [{"configurable": {"thread_id": f"run-{each}"}} for each in range(100)]
            waiting = [thread for thread in threads if app.get_state(thread).interrupts]
    assert len(waiting) == 99


@claim("pause-is-no-failure", "06 08")
def test_a_pause_is_not_retried() -> None:
    """A retry policy is not asked about the pause: one that retries everything enters the node
    once."""
    entered, judged = [], []

    def ask(state: State) -> dict:
        entered.append(1)
        return {"answer": interrupt("?")}

    def always(error: Exception) -> bool:
        judged.append(error)
        return True

    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=always)
    builder = StateGraph(State).add_node(ask, retry_policy=policy).add_edge(START, "ask")
    assert builder.compile(InMemorySaver()).invoke({}, RUN)["__interrupt__"]
    assert (len(entered), judged) == (1, [])


@claim("loop-by-an-edge", "08")
def test_a_loop_in_the_graph() -> None:
    """A node with one pause and an edge that leads back to it: what stands below the pause runs
    once for each answer, and a call without an answer leaves the question open."""
    log: list[str] = []

    def ask(state: State) -> dict:
        answer = interrupt("Your age?")
        log.append(answer)
        return {"answer": answer}

    builder = StateGraph(State).add_node(ask).add_edge(START, "ask")
    again = lambda state: END if state["answer"].isdigit() else "ask"  # noqa: E731
    app = builder.add_conditional_edges("ask", again, ["ask", END]).compile(InMemorySaver())
    app.invoke({}, RUN)
    for answer in ("x", "y", "z", "7"):
        assert app.invoke(None, RUN)["__interrupt__"]
        app.invoke(Command(resume=answer), RUN)
    assert log == ["x", "y", "z", "7"]
    assert app.get_state(RUN).tasks == ()


@claim("id-goes-to-the-first-pause", "08")
@pytest.mark.parametrize("by_id", [False, True])
def test_another_question_comes_first(by_id: bool) -> None:
    """When another pause of the node comes first in its second run, it takes the answer, also one
    that names the question that was asked."""
    full: list[int] = []

    def ask(state: State) -> dict:
        wipe = interrupt("wipe?") if full else "not asked"
        return {"answer": (wipe, interrupt("mail?"))}

    app = line(ask).compile(InMemorySaver())
    [asked] = app.invoke({}, RUN)["__interrupt__"]
    full.append(1)
    resume = {asked.id: "yes"} if by_id else "yes"
    [again] = app.invoke(Command(resume=resume), RUN)["__interrupt__"]
    assert (asked.value, again.value) == ("mail?", "mail?")
    assert app.invoke(Command(resume="no"), RUN)["answer"] == ("yes", "no")


@claim("text-replaces-the-question", "08")
def test_new_text_while_it_waits() -> None:
    """A new input to a thread that waits begins a new run and its question takes the place of the
    old one: the old id is not accepted, a plain yes answers the new question."""

    def gate(state: State) -> dict:
        return {"answer": interrupt(f"{state['done'][-1]}?")}

    app = line(gate).compile(InMemorySaver())
    [old] = app.invoke({"done": ["pay 10"]}, RUN)["__interrupt__"]
    [new] = app.invoke({"done": ["pay 9999"]}, RUN)["__interrupt__"]
    assert (old.value, new.value) == ("pay 10?", "pay 9999?")
    assert app.get_state(RUN).interrupts == (new,)
    assert "answer" not in app.invoke(Command(resume={old.id: "yes"}), RUN)
    assert app.invoke(Command(resume="yes"), RUN)["done"] == ["pay 10", "pay 9999"]
    assert app.get_state(RUN).values["answer"] == "yes"


@claim("pause-without-saver", "08")
def test_a_pause_without_a_checkpointer() -> None:
    """Without a checkpointer interrupt() still returns its question, and no answer can be given."""

    def ask(state: State) -> dict:
        return {"answer": interrupt("?")}

    app = line(ask).compile()
    assert app.invoke({}, RUN)["__interrupt__"][0].value == "?"
    with pytest.raises(RuntimeError, match="without checkpointer"):
        app.invoke(Command(resume="yes"), RUN)


@claim("breakpoint-of-one-call", "08 09")
def test_breakpoints_of_a_call() -> None:
    """Breakpoints given to invoke hold for that call alone; those of compile hold for all."""
    ran: list[str] = []

    def graph(**settings):
        builder = StateGraph(State)
        builder.add_sequence([(name, lambda s, name=name: ran.append(name)) for name in "abc"])
        return builder.add_edge(START, "a").compile(checkpointer=InMemorySaver(), **settings)

    app = graph()
    app.invoke({}, RUN, interrupt_before=["b", "c"])
    app.invoke(None, RUN)
    assert ran == ["a", "b", "c"]
    ran.clear()
    app = graph(interrupt_before=["b", "c"])
    app.invoke({}, RUN)
    app.invoke(None, RUN)
    assert ran == ["a", "b"]


@claim("tools-that-ask", "08")
@pytest.mark.parametrize("one_send_each", [False, True])
def test_two_tools_that_ask(one_send_each: bool) -> None:
    """Two tools that ask in one ToolNode ask in two rounds, and the first runs three times; with
    one Send per call both questions are open at once and each tool runs twice."""
    ran: list[str] = []

    @tool
    def refund() -> str:
        """Refund the money."""
        ran.append("refund")
        return f"refund: {interrupt('refund?')}"

    @tool
    def delete() -> str:
        """Delete the account."""
        ran.append("delete")
        return f"delete: {interrupt('delete?')}"

    calls = [{"name": name, "args": {}, "id": f"call {name}"} for name in ("refund", "delete")]
    app = tool_graph(calls, [refund, delete], one_send_each).compile(InMemorySaver())
    one_by_one = RUN | {"max_concurrency": 1}
    out, rounds = app.invoke({"messages": [HumanMessage("go")]}, one_by_one), []
    while asked := out.get("__interrupt__"):
        rounds.append(sorted(each.value for each in asked))
        resume = {each.id: f"yes to {each.value}" for each in asked}
        out = app.invoke(Command(resume=resume), one_by_one)
    results = [message.content for message in out["messages"] if message.type == "tool"]
    assert results == ["refund: yes to refund?", "delete: yes to delete?"]
    if one_send_each:
        assert rounds == [["delete?", "refund?"]]
        assert (ran.count("refund"), ran.count("delete")) == (2, 2)
    else:
        assert (rounds, ran.count("refund")) == ([["refund?"], ["delete?"]], 3)


@claim("tools-share-the-answers", "08")
def test_the_yes_to_another_tool() -> None:
    """Two tools in one ToolNode take answers in the order in which they reach their pauses: an
    answer by the id of the refund's question is taken by the delete that comes first."""
    asks, taken, rounds = threading.Event(), threading.Event(), []

    @tool
    def refund() -> str:
        """Refund the money."""
        if rounds:
            assert taken.wait(5)
        try:
            return interrupt("refund?")
        finally:
            asks.set()

    @tool
    def delete() -> str:
        """Delete the account."""
        if not rounds:
            assert asks.wait(5)
        try:
            return interrupt("delete?")
        finally:
            taken.set()

    calls = [{"name": name, "args": {}, "id": f"call {name}"} for name in ("refund", "delete")]
    app = tool_graph(calls, [refund, delete], one_send_each=False).compile(InMemorySaver())
    [asked] = app.invoke({"messages": [HumanMessage("go")]}, RUN)["__interrupt__"]
    taken.clear()
    rounds.append(asked.value)
    [again] = app.invoke(Command(resume={asked.id: "yes, refund"}), RUN)["__interrupt__"]
    rounds.append(again.value)
    out = app.invoke(Command(resume={again.id: "yes, refund"}), RUN)
    results = {m.tool_call_id: m.content for m in out["messages"] if m.type == "tool"}
    assert rounds == ["refund?", "refund?"]
    assert results == {"call refund": "yes, refund", "call delete": "yes, refund"}
