"""What 09_approval_desk states about LangGraph: breakpoints, answers that go astray, lost nodes.

And the proof of the desk itself: the notebook's own exploration, run in a kernel.
"""

import asyncio
import inspect
import os
import sqlite3
import threading
from pathlib import Path
from typing import TypedDict

import nbformat
import pytest
from claims import claim
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from crashlab import Journal, launch
from crashlab.course.author import read, without_markers
from crashlab.course.execute import run_async
from crashlab.course.paths import ROOT

R7 = {"configurable": {"thread_id": "R-7"}}
NO = {"approval": "denied"}


class Purchase(TypedDict, total=False):
    approval: str
    order: str


class Asked(TypedDict, total=False):
    plan: object
    answer: object


def purchase(ordered: list):
    def order(state: Purchase) -> dict:
        ordered.append("cable")
        return {"order": "PO-1"}

    builder = StateGraph(Purchase)
    builder.add_node("human_approval", lambda state: {"approval": "approved"})
    builder.add_node("order", order).add_edge(START, "human_approval")
    builder.add_edge("human_approval", "order").add_edge("order", END)
    graph = builder.compile(InMemorySaver(), interrupt_before=["human_approval"])
    return graph, graph.invoke({"order": "wanted"}, R7)


def asking(paid: list, saver: object = None, one_node: bool = False, ready=lambda: None):
    """Two questions, in two nodes or in one, then a payment if the second answer is yes."""

    def ask(state: Asked) -> dict:
        answer = interrupt("pay?")
        ready()
        return {"answer": answer}

    def plan(state: Asked) -> dict:
        return {"plan": interrupt("plan?")} | (ask(state) if one_node else {})

    def after(state: Asked) -> str:
        return "pay" if state["answer"] == "yes" else END

    builder = StateGraph(Asked).add_node("plan", plan).add_edge(START, "plan")
    builder.add_node("pay", lambda state: paid.append(state.get("answer")))
    if not one_node:
        builder.add_node("ask", ask).add_edge("plan", "ask")
    builder.add_conditional_edges("plan" if one_node else "ask", after, ["pay", END])
    return builder.compile(saver or InMemorySaver())


def question(graph) -> str:
    [asked] = graph.get_state(R7).interrupts
    return asked.id


def begun(paid: list, **options):
    graph = asking(paid, **options)
    graph.invoke({}, R7)
    return graph


def asked_for_money(paid: list, **options):
    graph = begun(paid, **options)
    graph.invoke(Command(resume="yes"), R7)
    return graph


# A breakpoint


@claim("desk-breakpoint-silent", "09")
def test_a_breakpoint_leaves_nothing_in_the_result() -> None:
    """A run that stops at a static breakpoint has no __interrupt__ in its result and no interrupt
    in its state: only next says that it waits."""
    graph, result = purchase([])
    state = graph.get_state(R7)
    assert "__interrupt__" not in result
    assert (state.next, state.interrupts) == (("human_approval",), ())


@claim("desk-denied-ordered", "09")
def test_denied_and_ordered() -> None:
    """A denial written by update_state at a breakpoint is overwritten by the node that runs next,
    and with as_node the node is skipped and its edge followed: both times the order is made."""
    for as_node, approval in ((None, "approved"), ("human_approval", "denied")):
        graph, _ = purchase(ordered := [])
        graph.update_state(R7, NO, as_node=as_node)
        graph.invoke(None, R7)
        assert (ordered, graph.get_state(R7).values["approval"]) == (["cable"], approval)


@claim("desk-breakpoint-answer", "09")
def test_an_answer_to_a_breakpoint_goes_nowhere() -> None:
    """Command(resume=...) at a static breakpoint goes on like invoke(None): its value is
    dropped."""
    for value in (None, Command(resume="denied")):
        graph, _ = purchase(ordered := [])
        graph.invoke(value, R7)
        assert (ordered, graph.get_state(R7).values["approval"]) == (["cable"], "approved")


@claim("desk-breakpoint-asks", "09")
def test_an_answer_to_a_breakpoint_is_taken_by_a_node_that_asks() -> None:
    """If the node behind a static breakpoint calls interrupt(), Command(resume=...) given at the
    breakpoint is the answer to it."""
    builder = StateGraph(Purchase).add_edge(START, "ask")
    builder.add_node("ask", lambda state: {"approval": interrupt("?")})
    graph = builder.compile(InMemorySaver(), interrupt_before=["ask"])
    graph.invoke({"order": "wanted"}, R7)
    assert graph.get_state(R7).interrupts == ()
    assert graph.invoke(Command(resume="denied"), R7)["approval"] == "denied"


@claim("desk-as-last-node", "09")
def test_an_update_as_the_last_node_ends_the_thread() -> None:
    """update_state as the last node makes the thread finished without running anything."""
    graph, _ = purchase(ordered := [])
    graph.update_state(R7, NO, as_node="order")
    graph.invoke(None, R7)
    assert (ordered, graph.get_state(R7).tasks) == ([], ())


# Answers that go astray


@claim("desk-unknown-thread", "09")
def test_an_answer_to_an_unknown_thread_starts_it() -> None:
    """Command(resume=...) on a thread that does not exist starts a new run at the first node."""
    graph = begun([])
    other = {"configurable": {"thread_id": "R-T"}}
    for answer in ("yes", {question(graph): "yes"}):
        assert graph.invoke(Command(resume=answer), other)["__interrupt__"][0].value == "plan?"


@claim("desk-next-question", "09")
def test_a_double_click_answers_the_next_question() -> None:
    """A plain answer given twice answers the next question too; given by id, it does not, if each
    question has a node of its own."""
    for by_id, right in ((False, ["yes"]), (True, [])):
        graph = begun(paid := [])
        click = Command(resume={question(graph): "yes"} if by_id else "yes")
        graph.invoke(click, R7)
        graph.invoke(click, R7)
        assert paid == right


@claim("desk-first-id", "09")
def test_the_first_id_answers_all_questions_of_a_node() -> None:
    """Where a node asks twice, the id of its first question also answers the second, although that
    one is listed under another id; the first answer is a pending write of the node."""
    graph = begun(paid := [], one_node=True)
    first = question(graph)
    graph.invoke(Command(resume={first: "yes"}), R7)
    assert question(graph) != first
    writes = graph.checkpointer.get_tuple(R7).pending_writes
    assert ["yes"] in [value for _, channel, value in writes if channel == "__resume__"]
    graph.invoke(Command(resume={first: "yes"}), R7)
    assert paid == ["yes"]


@claim("desk-failed-final", "09")
def test_an_answer_is_final_after_an_exception() -> None:
    """When a node raises after its answer, the answer is saved for it under __resume__: the
    question is still listed, and another answer, plain or by id, is dropped."""

    def fail() -> None:
        if failures:
            raise ConnectionError(failures.pop())

    for by_id in (False, True):
        failures = ["no network"]
        graph = asked_for_money(paid := [], ready=fail)
        asked = question(graph)
        with pytest.raises(ConnectionError):
            graph.invoke(Command(resume="yes"), R7)
        writes = graph.checkpointer.get_tuple(R7).pending_writes
        assert ["yes"] in [value for _, channel, value in writes if channel == "__resume__"]
        assert question(graph) == asked
        graph.invoke(Command(resume={asked: "no"} if by_id else "no"), R7)
        assert paid == ["yes"]


class Late(SqliteSaver):
    """Writes the checkpoint of step 2 only when an answer is saved for its node."""

    def __init__(self, path: Path) -> None:
        super().__init__(sqlite3.connect(path, check_same_thread=False))
        self.saved = threading.Event()

    def put_writes(self, config, writes, task_id, task_path=""):
        super().put_writes(config, writes, task_id, task_path)
        if any(channel == "__resume__" and isinstance(value, list) for channel, value in writes):
            self.saved.set()

    def put(self, config, checkpoint, metadata, versions):
        if metadata["step"] == 2:
            self.saved.wait()
            os._exit(1)
        return super().put(config, checkpoint, metadata, versions)


def on_file(path: Path, kind=None):
    saver = kind(path) if kind else SqliteSaver(sqlite3.connect(path, check_same_thread=False))
    journal = Journal(path.with_name("journal.jsonl"))

    class Book(list):
        def append(self, value: object) -> None:
            journal.effect("pay")

    return asking(Book(), saver)


def killed_before_the_checkpoint(path: Path) -> None:
    graph = on_file(path, Late)
    graph.invoke(Command(resume={question(graph): "yes"}), R7, durability="sync")


@claim("desk-saved-final", "09")
def test_an_answer_is_final_when_the_node_has_returned(tmp_path: Path) -> None:
    """When a node has returned, its answer is final even if the checkpoint after it was never
    written: the question is no longer listed, and another answer is dropped."""
    path = tmp_path / "threads.sqlite"
    graph = on_file(path)
    graph.invoke({}, R7)
    graph.invoke(Command(resume="yes"), R7)
    assert launch(killed_before_the_checkpoint, path, echo=False).exitcode == 1
    state = graph.get_state(R7)
    assert (state.next, state.interrupts, len(state.tasks)) == ((), (), 1)
    graph.invoke(Command(resume="no"), R7)
    assert Journal(tmp_path / "journal.jsonl").count("pay") == 1


def killed_in_the_node(path: Path, by_id: bool) -> None:
    class Known(SqliteSaver):
        """Knows when a plain answer is on disk."""

        def put_writes(self, config, writes, task_id, task_path=""):
            super().put_writes(config, writes, task_id, task_path)
            if ("__resume__", "yes") in writes:
                saved.set()

    def die() -> None:
        assert by_id or saved.wait(5)
        os._exit(1)

    saved = threading.Event()
    graph = asking([], Known(sqlite3.connect(path, check_same_thread=False)), ready=die)
    answer = {question(graph): "yes"} if by_id else "yes"
    graph.invoke(Command(resume=answer), R7, durability="sync")


@claim("desk-killed-lost", "09")
def test_an_answer_dies_with_a_process_that_is_killed_in_the_node(tmp_path: Path) -> None:
    """An answer given by id is not saved while its node runs: killed there, the thread asks again.
    A plain answer stays on the thread, and the next invoke(None) takes it."""
    for by_id, right in ((True, 0), (False, 1)):
        path = tmp_path / str(by_id) / "threads.sqlite"
        path.parent.mkdir()
        graph = on_file(path)
        graph.invoke({}, R7)
        graph.invoke(Command(resume="yes"), R7)
        asked = question(graph)
        assert launch(killed_in_the_node, path, by_id, echo=False).exitcode == 1
        assert question(graph) == asked
        graph.invoke(None, R7)
        assert Journal(path.with_name("journal.jsonl")).count("pay") == right


@claim("desk-old-checkpoint", "09")
def test_a_no_at_an_old_checkpoint_pays_again() -> None:
    """An answer with the config of a checkpoint that was answered is dropped, and the nodes after
    it run again with the old answer."""
    graph = asked_for_money(paid := [])
    old, asked = graph.get_state(R7).config, question(graph)
    graph.invoke(Command(resume="yes"), R7)
    assert [each.id for each in graph.get_state(old).interrupts] == [asked]
    graph.invoke(Command(resume="no"), old)
    graph.invoke(Command(resume={asked: "no"}), old)
    assert paid == ["yes"] * 3


@claim("desk-goto", "09")
def test_goto_goes_round_the_question() -> None:
    """Command(goto=...) on a waiting thread runs that node without an answer; the question stays
    open under its id."""
    graph = asked_for_money(paid := [])
    asked = question(graph)
    graph.invoke(Command(goto="pay"), R7)
    assert (paid, question(graph)) == ([None], asked)


@claim("desk-values-by-id", "09")
def test_none_and_an_empty_dict_arrive_by_id() -> None:
    """None and {} cannot be given as plain answers; by the id of the question both arrive."""
    for value in (None, {}):
        graph = asked_for_money([])
        try:
            graph.invoke(Command(resume=value), R7)
        except UnboundLocalError:
            assert value is None
        asked = question(graph)
        assert graph.invoke(Command(resume={asked: value}), R7)["answer"] == value


@claim("desk-no-lock", "09")
def test_two_at_once_are_both_served() -> None:
    """Nothing locks a thread: two answers at the same moment both run what comes after."""

    def other() -> None:
        if second:
            second.pop()
            asking(paid, saver).invoke(Command(resume="yes"), R7, durability="sync")

    second, saver = ["ben"], InMemorySaver()
    graph = asked_for_money(paid := [], saver=saver, ready=other)
    graph.invoke(Command(resume="yes"), R7, durability="sync")
    assert paid == ["yes", "yes"]


class Full(InMemorySaver):
    """Has no room for the checkpoint after the second answer."""

    def put(self, config, checkpoint, metadata, versions):
        if metadata["step"] == 2:
            raise OSError("the disk is full")
        return super().put(config, checkpoint, metadata, versions)


@claim("desk-sync-first", "09")
def test_under_sync_nothing_runs_before_the_checkpoint_is_saved() -> None:
    """Under durability="sync" a node does not run when the checkpoint before it could not be saved;
    under the default, "async", it runs all the same."""
    for options, right in (({"durability": "sync"}, []), ({}, ["yes"])):
        graph = asked_for_money(paid := [], saver=Full())
        with pytest.raises(OSError, match="the disk is full"):
            graph.invoke(Command(resume={question(graph): "yes"}), R7, **options)
        assert paid == right


@claim("desk-update-hides", "09")
def test_an_update_takes_the_question_off_the_list() -> None:
    """update_state on a waiting thread takes the question off the list; invoke(None) asks again,
    under another id."""
    graph = begun([])
    asked = question(graph)
    graph.update_state(R7, {"plan": "looked at"})
    assert (graph.get_state(R7).next, graph.get_state(R7).interrupts) == (("plan",), ())
    graph.invoke(None, R7)
    assert question(graph) != asked


@claim("desk-bad-input", "09")
def test_a_bad_input_is_saved_before_it_is_checked() -> None:
    """An answer passed as an input is refused, but saved: from then on the thread refuses
    everything, until it is taken up at the checkpoint before."""
    graph = begun([])
    asked, waiting = question(graph), graph.get_state(R7).config
    for value in ("yes", None, Command(resume="yes")):
        with pytest.raises(InvalidUpdateError, match="Expected dict, got yes"):
            graph.invoke(value, R7)
    assert graph.get_state(R7).interrupts == ()
    graph.invoke(Command(resume={asked: "yes"}), waiting)
    assert (graph.get_state(R7).values, graph.get_state(R7).next) == ({"plan": "yes"}, ("ask",))


@claim("desk-no-deadline", "09")
def test_interrupt_knows_no_deadline() -> None:
    """interrupt() has no deadline: its parameters are the value and a schema for the answer."""
    assert list(inspect.signature(interrupt).parameters) == ["value", "response_schema"]


# Lost nodes


@claim("desk-orphans", "09")
def test_a_renamed_node_ends_its_threads() -> None:
    """A thread that waits at a node which the graph does not have counts as finished, an answer
    does nothing, and no error says so; the newest checkpoint still has a channel branch:to:NODE."""

    def graph(name: str):
        builder = StateGraph(Asked).add_node(name, lambda state: {"answer": interrupt("?")})
        return builder.add_edge(START, name).compile(saver)

    saver = InMemorySaver()
    graph("gate").invoke({}, R7)
    state = graph("approval").get_state(R7)
    assert (state.next, state.tasks, state.interrupts) == ((), (), ())
    assert graph("approval").invoke(Command(resume="yes"), R7) == {}
    newest, *older = saver.list(None)
    assert list(newest.checkpoint["channel_values"]) == ["branch:to:gate"]
    assert [each.metadata["step"] for each in (newest, *older)] == [0, -1]


@claim("desk-list-order", "09")
def test_a_saver_lists_the_newest_of_a_thread_first(tmp_path: Path) -> None:
    """saver.list(None) gives the checkpoints of all threads, of each the newest first."""
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as on_disk:
        for saver in (InMemorySaver(), on_disk):
            graph = asking([], saver)
            for name in ("T-1", "T-2"):
                graph.invoke({}, {"configurable": {"thread_id": name}})
            found: dict[str, list[int]] = {}
            for each in saver.list(None):
                steps = found.setdefault(each.config["configurable"]["thread_id"], [])
                steps.append(each.metadata["step"])
            assert found == {"T-1": [0, -1], "T-2": [0, -1]}


# The desk


NOTEBOOK = ROOT / "solutions" / "2_langgraph" / "09_approval_desk.py"
PROOF = """
import json
from crashlab.pairs import explore_pairs

def first(desk):
    return press(desk, "approve", why="I have seen the parcel")

def again(desk):
    return recover(desk, NOW)

pairs = explore_pairs(
    first, again, paused_desk, table_and_thread, inside=DESK, harmless=good, most=60
)
reports = {
    "carry": report_carry, "cancelled": report_cancelled,
    "approve": report_approve, "reject": report_reject,
}
print(json.dumps({name: [each.verdict(), dict(each.counts)] for name, each in reports.items()}))
print(pairs)
assert pairs.clean, str(pairs)
"""


@pytest.mark.heavy
def test_the_desk_survives_a_kill_at_every_line_and_one_in_its_recovery() -> None:
    """The notebook's own exploration, with its solutions, in a kernel; then pairs of kills."""
    author = read(NOTEBOOK)
    stop = next(n for n, cell in enumerate(author.notebook_cells) if cell.id == "deliver_kills")
    cells = [
        nbformat.v4.new_code_cell(without_markers(cell.source))
        for cell in author.notebook_cells[: stop + 1]
        if cell.kind != "prose"
    ]
    notebook = nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_code_cell(PROOF)])
    ran = asyncio.run(run_async(notebook))
    assert [str(each.failure) for each in ran if each.failure] == []
    said = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    assert '"approve": ["press_approve: ' in said
    assert "none did harm" in said.splitlines()[-2]
