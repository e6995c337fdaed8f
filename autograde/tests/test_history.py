"""The history of a thread: what is read from the saver, and what the figure shows of it."""

import operator
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send, interrupt
from matplotlib.figure import Figure
from matplotlib.path import Path as Curve

from crashlab import launch
from crashlab.figures import histories, history, rows
from crashlab.figures.fit import SMALL
from crashlab.figures.history import track, tracks
from crashlab.figures.history_places import WIDTH
from crashlab.figures.history_steps import columns
from crashlab.figures.history_text import ROWS, words
from crashlab.figures.style import AMBER, BLUE, GREY, INK, PURPLE, RED, points
from crashlab.history import Checkpoint, History, read_history, read_rows

THREAD = {"configurable": {"thread_id": "run-1"}}


class State(TypedDict, total=False):
    patch: str
    approved: bool
    applied: bool
    log: Annotated[list, operator.add]


class Inner(TypedDict, total=False):
    seen: str
    approved: bool


def chain(saver: BaseCheckpointSaver | None, **nodes: Callable) -> CompiledStateGraph:
    """A graph whose nodes run one after the other."""
    graph = StateGraph(State)
    before = START
    for name, node in nodes.items():
        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    return graph.compile(checkpointer=saver)


def straight(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = chain(
        saver,
        clone=lambda state: {"patch": "a"},
        build=lambda state: {"log": ["built"]},
        install=lambda state: {"applied": True, "log": ["installed", "checked"]},
    )
    graph.invoke({"patch": ""}, THREAD)
    return graph


def desk(saver: BaseCheckpointSaver, broken: bool = False) -> CompiledStateGraph:
    """A graph that asks before it applies a patch."""

    def approve(state: State) -> dict:
        answer = interrupt("apply this patch?")
        if broken:
            raise ConnectionError("the network is gone, and with it the reply that was on its way")
        return {"approved": answer}

    return chain(
        saver,
        propose=lambda state: {"patch": "CMakeLists"},
        approve=approve,
        apply=lambda state: {"applied": state["approved"], "log": ["applied"]},
    )


def paused(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = desk(saver)
    graph.invoke({"patch": ""}, THREAD)
    return graph


def answered(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = paused(saver)
    graph.invoke(Command(resume=True), THREAD)
    return graph


def answered_and_failed(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = desk(saver, broken=True)
    graph.invoke({"patch": ""}, THREAD)
    with pytest.raises(ConnectionError):
        graph.invoke(Command(resume="yes"), THREAD)
    return graph


def two_builds(saver: BaseCheckpointSaver, fail: bool = False) -> CompiledStateGraph:
    """Two nodes side by side; the second one fails when the result of the first is saved."""
    failures = [ConnectionError("no route to libpng.org")] if fail else []

    def libpng(state: State) -> dict:
        if failures:
            wait_for(lambda: any(w[2] == ["zlib"] for w in saver.get_tuple(THREAD).pending_writes))
            raise failures.pop()
        return {"log": ["libpng"]}

    graph = StateGraph(State)
    graph.add_node("zlib", lambda state: {"log": ["zlib"]})
    graph.add_node("libpng", libpng)
    graph.add_node("link", lambda state: {"applied": True})
    graph.add_edge(START, "zlib")
    graph.add_edge(START, "libpng")
    graph.add_edge(["zlib", "libpng"], "link")
    return graph.compile(checkpointer=saver)


def wait_for(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 4
    while not done() and time.monotonic() < until:
        time.sleep(0.005)


def parallel(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = two_builds(saver)
    graph.invoke({"patch": ""}, THREAD)
    return graph


def failed(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = two_builds(saver, fail=True)
    with pytest.raises(ConnectionError):
        graph.invoke({"patch": ""}, THREAD)
    return graph


def failed_and_resumed(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = failed(saver)
    graph.invoke(None, THREAD)
    return graph


def before_approve(graph: CompiledStateGraph) -> dict:
    """The config of the oldest checkpoint from which `approve` is next."""
    return [s for s in graph.get_state_history(THREAD) if s.next == ("approve",)][-1].config


def forked(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = answered(saver)
    graph.update_state(before_approve(graph), {"approved": False}, as_node="approve")
    return graph


def fork_of_fork(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = forked(saver)
    update = graph.get_state(THREAD).config
    graph.invoke(None, THREAD)
    graph.update_state(update, {"patch": "another"}, as_node="approve")
    return graph


def replayed(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = answered(saver)
    graph.invoke(None, before_approve(graph))
    return graph


def inner() -> CompiledStateGraph:
    graph = StateGraph(Inner)
    graph.add_node("look", lambda state: {"seen": "libpng 1.6"})
    graph.add_node("ask", lambda state: {"approved": interrupt("is libpng fine?")})
    graph.add_edge(START, "look")
    graph.add_edge("look", "ask")
    return graph.compile()


def subgraph(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = chain(saver, review=inner(), apply=lambda state: {"applied": True})
    graph.invoke({"patch": ""}, THREAD)
    graph.invoke(Command(resume=True), THREAD)
    return graph


def hidden_subgraph(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    """A graph called in a node from where LangGraph cannot see it."""
    box = {"inner": inner()}

    def review(state: State) -> dict:
        return {"approved": box["inner"].invoke({"seen": ""})["approved"]}

    graph = chain(saver, review=review)
    graph.invoke({"patch": ""}, THREAD)
    graph.invoke(Command(resume=True), THREAD)
    return graph


def long(saver: BaseCheckpointSaver, nodes: int = 200) -> CompiledStateGraph:
    """A thread that pauses once, after 40 nodes."""

    def work(state: State) -> dict:
        done = len(state["log"])
        if done == 40:
            interrupt("go on?")
        return {"log": [done]}

    graph = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges(
        "work", lambda state: "work" if len(state["log"]) < nodes else END, ["work", END]
    )
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"log": []}, THREAD)
    compiled.invoke(Command(resume="yes"), THREAD)
    return compiled


def thirteen(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    """A thread too long for one row and too short to be folded."""
    graph = chain(
        saver,
        **{f"a_rather_long_node_{i}": lambda state, i=i: {"patch": f"p{i}"} for i in range(11)},
    )
    graph.invoke({"patch": ""}, THREAD)
    return graph


def sends(saver: BaseCheckpointSaver) -> CompiledStateGraph:
    graph = StateGraph(State)
    graph.add_node("agent", lambda state: {"patch": "x"})
    graph.add_node("call", lambda state: {"log": [state["number"]]})
    graph.add_edge(START, "agent")
    graph.add_conditional_edges(
        "agent", lambda state: [Send("call", {"number": n}) for n in range(3)], ["call"]
    )
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"patch": ""}, THREAD)
    return compiled


CASES = [
    straight,
    paused,
    answered,
    answered_and_failed,
    parallel,
    failed,
    failed_and_resumed,
    forked,
    fork_of_fork,
    replayed,
    subgraph,
    hidden_subgraph,
    long,
    thirteen,
    sends,
]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(tmp_path / "agent.db")) as saver:
        yield saver


@cache
def read(case: Callable) -> History:
    return read_history(case(InMemorySaver()), THREAD)


def picture(case: Callable) -> Figure:
    return track(read(case), "A thread")


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def marks(figure: Figure, marker: str, colour: str, size: float = 13) -> int:
    """How many marks of a kind and size are in the figure; a diamond is measured by its side."""
    size = points(size * 0.78 if marker == "D" else size)
    return sum(
        line.get_marker() == marker
        and line.get_markeredgecolor() == colour
        and line.get_markersize() == pytest.approx(size)
        for line in figure.axes[0].lines
    )


def place(figure: Figure) -> dict[str, tuple[float, float]]:
    return {text.get_text(): text.get_position() for text in figure.axes[0].texts}


def filled(figure: Figure) -> int:
    """How many cells of the table are filled because their value changed."""
    return cells(figure, BLUE, 0.26)


def cells(figure: Figure, colour: str, alpha: float) -> int:
    return sum(
        patch.get_alpha() == alpha and patch.get_facecolor()[:3] == pytest.approx(rgb(colour))
        for patch in figure.axes[0].patches
    )


def dashed(figure: Figure, colour: str) -> int:
    return sum(
        patch.get_linestyle() not in ("solid", "-")
        and patch.get_edgecolor()[:3] == pytest.approx(rgb(colour))
        for patch in figure.axes[0].patches
    )


def rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def told(checkpoints: list[Checkpoint]) -> list[tuple]:
    """What must not depend on the saver."""
    return [
        (c.step, c.source, c.lane, c.values, c.ran, c.next, c.tasks, c.changed) for c in checkpoints
    ]


def test_a_straight_thread() -> None:
    thread = read(straight)
    assert [(c.step, c.source) for c in thread.checkpoints] == [
        (-1, "input"),
        (0, "loop"),
        (1, "loop"),
        (2, "loop"),
        (3, "loop"),
    ]
    assert [c.ran for c in thread.checkpoints] == [
        (),
        ("__start__",),
        ("clone",),
        ("build",),
        ("install",),
    ]
    assert [c.next for c in thread.checkpoints] == [
        ("__start__",),
        ("clone",),
        ("build",),
        ("install",),
        (),
    ]
    assert [c.changed for c in thread.checkpoints][2:] == [["patch"], ["log"], ["applied", "log"]]
    ids = [c.id for c in thread.checkpoints]
    assert [c.parent for c in thread.checkpoints] == [None, *ids[:-1]]
    assert thread.checkpoints[-1].finished
    assert not thread.checkpoints[-2].finished


def test_a_straight_thread_is_drawn_with_its_nodes_and_what_each_changed() -> None:
    figure = picture(straight)
    shown = texts(figure)
    assert {"clone", "build", "install", "next: clone", "end", "step -1", "step 3"} <= set(shown)
    assert marks(figure, "s", GREY) == 1 + 1  # the input, and one in the legend
    assert marks(figure, "o", BLUE) == 4 + 2  # and two in the legend
    assert marks(figure, "o", BLUE, 20) == 1  # the ring of the end
    assert cells(figure, GREY, 0.1) == 4  # values that stay; there is no cell before the first
    assert filled(figure) == sum(len(c.changed) for c in read(straight).checkpoints) == 6
    assert shown.count("+2 → 3 items") == 1
    assert shown.count("'a'") == 3


def test_the_picture_has_alternative_text_and_takes_the_ink_of_the_page() -> None:
    drawn = history(straight(InMemorySaver()), THREAD)
    label = re.search('aria-label="([^"]*)"', drawn._repr_html_())[1]
    assert "Thread run-1: 5 checkpoints" in label
    assert "step 2, loop: ran build; log = 1 item; next: install." in label
    assert repr(drawn).splitlines()[:2] == ["Thread run-1: 5 checkpoints", "Finished."]
    assert INK not in drawn._repr_html_()
    assert "currentColor" in drawn._repr_html_()


def test_a_narrow_page_scrolls_so_that_type_hardly_shrinks() -> None:
    for drawn in (
        history(straight(InMemorySaver()), THREAD),
        histories({"short": read(paused), "long": read(long)}),
    ):
        markup = drawn._repr_html_()
        assert markup.startswith('<div style="overflow-x:auto"><div style="min-width:')
        widths = [
            float(width) * 96 / 72 for width in re.findall(r'<svg [^>]*width="([\d.]+)pt"', markup)
        ]
        least = int(re.search(r"min-width:(\d+)px", markup)[1])
        assert 0.9 * max(widths) <= least < 0.9 * max(widths) + 1


def test_nodes_side_by_side_are_on_one_edge() -> None:
    thread = read(parallel)
    assert [c.ran for c in thread.checkpoints][1:] == [
        ("__start__",),
        ("zlib", "libpng"),
        ("link",),
    ]
    figure = picture(parallel)
    assert {"zlib", "libpng", "link"} <= set(texts(figure))
    paths = [patch.get_path() for patch in figure.axes[0].patches]
    strands = [path for path in paths if path.codes is not None and Curve.CURVE4 in path.codes]
    assert len(strands) == 2


def test_tasks_of_one_node_are_counted() -> None:
    assert read(sends).checkpoints[-1].ran == ("call", "call", "call")
    assert {"call ×3", "next: call ×3"} <= set(texts(picture(sends)))


def test_a_pause_shows_what_was_asked() -> None:
    thread = read(paused)
    (question,) = thread.newest.tasks[0].questions
    assert (question.asked, question.answers, question.answered) == ("apply this patch?", (), False)
    drawn = repr(history(paused(InMemorySaver()), THREAD))
    assert "Paused: approve asks 'apply this patch?'." in drawn
    assert "asks: apply this patch?; no answer yet; next: approve." in drawn
    assert "end" not in texts(picture(paused))
    assert bars(picture(paused)) == 2 * 2  # at the checkpoint and in the legend


def bars(figure: Figure) -> int:
    return sum(
        patch.get_facecolor()[:3] == pytest.approx(rgb(AMBER)) and patch.get_alpha() is None
        for patch in figure.axes[0].patches
    )


def test_an_answered_pause_shows_the_answer() -> None:
    thread = read(answered)
    (question,) = thread.checkpoints[2].tasks[0].questions
    assert (question.answers, question.answered) == ((True,), True)
    assert "answered: True" in texts(picture(answered))
    assert "no answer yet" not in texts(picture(answered))
    assert bars(picture(answered)) == 2 * 2


def test_a_saved_answer_is_not_yet_an_answered_question() -> None:
    (question,) = read(answered_and_failed).newest.tasks[0].questions
    assert (question.answers, question.answered) == (("yes",), False)
    assert "answer saved: yes" in texts(picture(answered_and_failed))


def test_two_pauses_in_one_node_keep_the_newest_question_and_all_answers() -> None:
    def ask_twice(state: State) -> dict:
        return {"log": [interrupt("which?"), interrupt("sure?")]}

    graph = chain(InMemorySaver(), ask=ask_twice)
    graph.invoke({"patch": ""}, THREAD)
    graph.invoke(Command(resume="1.6"), THREAD)
    (question,) = read_history(graph, THREAD).newest.tasks[0].questions
    assert (question.asked, question.answers, question.answered) == ("sure?", ("1.6",), False)
    graph.invoke(Command(resume="yes"), THREAD)
    (question,) = read_history(graph, THREAD).checkpoints[1].tasks[0].questions
    assert (question.answers, question.answered) == (("1.6", "yes"), True)


def test_a_step_that_failed_shows_the_result_saved_and_the_error() -> None:
    graph = failed(InMemorySaver())
    newest = read_history(graph, THREAD).newest
    assert newest.next == ("zlib", "libpng")
    assert newest.waiting == graph.get_state(THREAD).next == ("libpng",)
    assert [(t.name, t.finished, t.error) for t in newest.tasks] == [
        ("zlib", True, None),
        ("libpng", False, "ConnectionError('no route to libpng.org')"),
    ]
    assert newest.pending
    figure = picture(failed)
    assert "zlib: saved" in texts(figure)
    assert "ConnectionError('no route to" in " ".join(texts(figure))
    assert "next: libpng" in texts(figure)
    assert marks(figure, "o", BLUE, 11) == 2  # half a mark for zlib, and one in the legend
    assert marks(figure, "X", RED, 10) == 2
    half = [line for line in figure.axes[0].lines if line.get_fillstyle() == "left"]
    assert len(half) == 2


def test_an_error_stays_to_be_seen_when_the_step_was_completed_later() -> None:
    thread = read(failed_and_resumed)
    assert thread.newest.finished
    assert not any(c.pending for c in thread.checkpoints)
    assert "libpng failed: ConnectionError('no route to libpng.org')" in words(thread, "")
    assert "libpng failed:" in " ".join(texts(picture(failed_and_resumed)))
    assert not any(line.get_fillstyle() == "left" for line in picture(straight).axes[0].lines)


def build_until_killed(path: str) -> None:
    with SqliteSaver.from_conn_string(path) as saver:

        def libpng(state: State) -> dict:
            wait_for(lambda: any(w[1] == "log" for w in saver.get_tuple(THREAD).pending_writes))
            return {"log": ["never saved"]}

        graph = StateGraph(State)
        graph.add_node("zlib", lambda state: {"log": ["zlib"]})
        graph.add_node("libpng", libpng)
        graph.add_edge(START, "zlib")
        graph.add_edge(START, "libpng")
        graph.compile(checkpointer=saver).invoke({"patch": ""}, THREAD, durability="sync")


def test_a_killed_process_leaves_the_result_of_the_task_that_had_finished(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    life = launch(build_until_killed, str(path), kill_before='return {"log": ["never saved"]}')
    assert life.end == "killed"
    before = {each.name: each.read_bytes() for each in tmp_path.glob("agent.db")}
    (newest,) = [c for c in read_rows(path, "run-1").checkpoints if not c.children]
    assert {(t.name, t.finished, t.error) for t in newest.tasks} == {
        ("zlib", True, None),
        ("libpng", False, None),
    }
    assert {each.name: each.read_bytes() for each in tmp_path.glob("agent.db")} == before
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = two_builds(saver)
        drawn = repr(history(graph, THREAD))
        assert "Not finished. Step 1 has begun: zlib saved, libpng without a result." in drawn
        assert graph.get_state(THREAD).next == ("libpng",)


def test_a_thread_that_waits_for_nothing_and_has_a_task_is_not_finished() -> None:
    class Dies(InMemorySaver):
        def put(self, config, checkpoint, metadata, versions):
            if metadata["step"] == 1:
                raise OSError("disk full")
            return super().put(config, checkpoint, metadata, versions)

    graph = chain(Dies(), a=lambda state: {"patch": "a"}, b=lambda state: {"patch": "b"})
    with pytest.raises(OSError, match="disk full"):
        graph.invoke({"patch": ""}, THREAD, durability="sync")
    assert graph.get_state(THREAD).next == ()
    thread = read_history(graph, THREAD)
    assert not thread.newest.finished
    shown = texts(track(thread, "A thread"))
    assert {"next: none", "a: saved"} <= set(shown)
    assert "end" not in shown


def test_a_fork_by_update_state_has_a_lane_of_its_own() -> None:
    thread = read(forked)
    assert thread.forks == 1
    assert [(c.step, c.lane) for c in thread.checkpoints] == [
        (-1, 0),
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 1),
        (2, 0),
    ]
    assert (thread.newest.source, thread.newest.ran) == ("update", ("approve",))
    assert thread.newest.changed == ["approved"]
    drawn = repr(history(forked(InMemorySaver()), THREAD))
    assert "Thread run-1: 6 checkpoints, one fork" in drawn
    assert "step 2, update: update_state as approve; approved = False; next: apply." in drawn
    assert "Branch, from step 1" in drawn
    figure = picture(forked)
    assert marks(figure, "D", PURPLE) == 2  # and one in the legend
    assert (dashed(figure, PURPLE), dashed(figure, BLUE)) == (1, 0)  # no node ran
    assert {"update_state", "as approve", "approved = True"} <= set(texts(figure))
    at = place(figure)  # what would be above a checkpoint is below it where a branch goes up
    assert at["next: propose"][1] < at["propose"][1] < at["next: approve"][1]


def test_a_node_that_cannot_be_known_is_not_named() -> None:
    graph = paused(InMemorySaver())
    graph.update_state(THREAD, {"approved": False})  # as propose, which had run before
    newest = read_history(graph, THREAD).newest
    assert (newest.source, newest.ran, newest.next) == (
        "update",
        ("update_state",),
        ("approve",),
    )
    wrote = {write.name for write in read_history(graph, THREAD).checkpoints[2].writes}
    assert wrote == {"approve", "update_state"}
    assert [task.name for task in read_history(graph, THREAD).checkpoints[2].tasks] == ["approve"]
    graph.update_state(THREAD, None, as_node=END)
    newest = read_history(graph, THREAD).newest
    assert (newest.ran, newest.next, newest.finished) == (("__end__",), (), True)


def test_forks_of_forks_do_not_cross() -> None:
    thread = read(fork_of_fork)
    assert thread.forks == 2
    branch = {c.lane: c for c in reversed(thread.checkpoints)}
    by_id = {c.id: c for c in thread.checkpoints}
    # the newest checkpoint forks from the first fork; so that one is in the main lane
    assert [(by_id[branch[lane].parent].step, branch[lane].step) for lane in (1, 2)] == [
        (1, 2),
        (2, 3),
    ]
    assert [c.source for c in thread.of("") if c.lane == 0][-2:] == ["update", "update"]
    figure = track(thread, "A thread")
    at = place(figure)
    assert at["approved = True"][1] < at["applied = False"][1] < at["step 0"][1]


def test_a_replay_is_a_branch_that_begins_with_a_copy() -> None:
    thread = read(replayed)
    assert (thread.newest.source, thread.newest.ran) == ("fork", ())
    assert thread.newest.next == ("approve",)
    assert thread.newest.lane == 0
    figure = track(thread, "A thread")
    assert marks(figure, ">", PURPLE) == 2
    assert {"replay", "no answer yet", "answered: True"} <= set(texts(figure))


@pytest.mark.parametrize("case", [subgraph, hidden_subgraph])
def test_a_subgraph_has_a_track_of_its_own(case: Callable) -> None:
    thread = read(case)
    own, inside = thread.of(""), thread.of(thread.namespaces[1])
    assert len(thread.namespaces) == 2
    assert [c.ran for c in inside] == [(), ("__start__",), ("look",), ("ask",)]
    assert inside[2].values["seen"] == "libpng 1.6"
    assert [c.owner for c in inside] == [own[1].id] * 4  # the one before review
    assert own[1].tasks[0].questions == inside[2].tasks[0].questions
    assert own[1].tasks[0].questions[0].answers == (True,)
    drawn = history(case(InMemorySaver()), THREAD)
    assert f"Thread run-1: {len(own)} checkpoints and 4 of subgraphs" in repr(drawn)
    assert "Subgraph review in step 1" in repr(drawn)
    figure = track(thread, "A thread")
    at = place(figure)
    assert at["next: review"][1] < at["next: look"][1] < at["step 0"][1]


def test_the_newest_checkpoint_is_one_of_the_graph_itself() -> None:
    graph = chain(InMemorySaver(), review=inner())
    graph.invoke({"patch": ""}, THREAD)
    thread = read_history(graph, THREAD)
    assert thread.checkpoints[-1].namespace  # the subgraph's is younger
    assert thread.newest.next == ("review",)
    assert "Paused: review asks 'is libpng fine?'." in repr(history(graph, THREAD))


def test_a_long_thread_is_folded() -> None:
    thread = read(long)
    assert len(thread.checkpoints) == 202
    steps = columns(thread.of(""))
    assert sum(map(len, steps)) == 202
    assert [(part[0], len(part)) for part in steps if len(part) > 1] == [(2, 38), (41, 157)]
    shown = texts(track(thread, "A thread"))
    assert {"… 38 steps …", "… 157 steps …", "step 40", "step 200", "41 … 197"} <= set(shown)
    assert "step 39" not in shown
    said = words(thread, "A thread").splitlines()
    assert [line for line in said if "…" in line] == ["  … 38 steps …", "  … 157 steps …"]
    assert sum(line.startswith("  step") for line in said) + 38 + 157 == 202
    assert "Thread run-1: 202 checkpoints" in repr(history(long(InMemorySaver()), THREAD))


def test_a_thread_too_wide_for_the_page_goes_on_in_a_second_row() -> None:
    figure = picture(thirteen)
    assert figure.get_size_inches()[0] * figure.dpi <= WIDTH
    at = place(figure)
    assert sum(text.startswith("step") for text in at) == 13
    assert at["step -1"][1] < at["step 5"][1] < at["step 11"][1]
    assert texts(figure).count("patch") == 3  # the table has its names in each row


def test_a_branch_that_begins_in_another_row_says_from_where() -> None:
    graph = thirteen(InMemorySaver())
    last = [s for s in graph.get_state_history(THREAD) if s.metadata["step"] == 3]
    graph.update_state(last[0].config, {"patch": "other"}, as_node="a_rather_long_node_3")
    figure = track(read_history(graph, THREAD), "A thread")
    at = place(figure)
    assert at["step 3"][1] < at["step 4"][1]
    assert at["step 3"][1] < at["from step 3"][1] < at["step 4"][1]


@pytest.mark.filterwarnings("error")
def test_any_language_can_be_asked_in() -> None:
    graph = chain(InMemorySaver(), ask=lambda state: {"approved": interrupt("批准吗? 🚀")})
    graph.invoke({"patch": ""}, THREAD)
    drawn = history(graph, THREAD)
    assert "asks: 批准吗? 🚀" in repr(drawn)
    assert "批准吗" in drawn._repr_html_()


def test_an_empty_thread_is_a_sentence() -> None:
    graph = desk(InMemorySaver())
    assert read_history(graph, THREAD).checkpoints == ()
    drawn = history(graph, THREAD)
    assert repr(drawn) == "Thread run-1: 0 checkpoints\nNothing saved under thread run-1."
    assert drawn._repr_html_().count("<svg") == 1


def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no checkpointer"):
        history(desk(None), THREAD)
    with pytest.raises(ValueError, match="names no thread"):
        history(desk(InMemorySaver()), {})
    with pytest.raises(FileNotFoundError, match=r"no file .*agent\.db"):
        rows(tmp_path / "agent.db", "run-1")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE writes (a)").connection.close()
    with pytest.raises(ValueError, match="no tables checkpoints and writes"):
        rows(tmp_path / "other.db", "run-1")


def test_a_node_that_was_renamed_is_missed() -> None:
    saver = InMemorySaver()
    paused(saver)
    graph = chain(saver, propose=lambda state: {}, review=lambda state: {})
    assert graph.get_state(THREAD).next == ()
    newest = read_history(graph, THREAD).newest
    assert (newest.missing, newest.finished) == (("approve",), False)
    assert "next is approve, which this graph does not have" in repr(history(graph, THREAD))


def test_what_a_command_sent_to_a_node_is_a_task_too() -> None:
    graph = paused(InMemorySaver())
    graph.invoke(Command(goto="apply", update={"approved": True}), THREAD)
    newest = read_history(graph, THREAD).newest
    assert {(t.name, t.finished) for t in newest.tasks} == {("approve", False), ("apply", True)}
    graph.invoke(Command(resume=True), THREAD)
    assert set(read_history(graph, THREAD).checkpoints[3].ran) == {"approve", "apply"}


def test_calls_of_tasks_are_shown_in_a_step_that_is_not_complete() -> None:
    @task
    def build(library: str) -> str:
        if library == "abseil":
            raise ConnectionError("no route")
        return library

    @entrypoint(checkpointer=InMemorySaver())
    def flow(libraries: list[str]) -> list[str]:
        return [build(library).result() for library in libraries]

    with pytest.raises(ConnectionError):
        flow.invoke(["zlib", "libpng", "abseil"], THREAD)
    newest = read_history(flow, THREAD).newest
    assert sorted((t.name, t.finished) for t in newest.tasks) == [
        ("@task", False),
        ("@task", True),
        ("@task", True),
        ("flow", False),
    ]
    assert newest.waiting == flow.get_state(THREAD).next == ("flow",)


@pytest.mark.parametrize("case", CASES)
def test_savers_agree_and_so_does_the_file(
    case: Callable, file: SqliteSaver, tmp_path: Path
) -> None:
    asked = read_history(case(file), THREAD)
    assert told(read(case).checkpoints) == told(asked.checkpoints)
    found = read_rows(tmp_path / "agent.db", "run-1")
    for mine, theirs in zip(found.checkpoints, asked.checkpoints, strict=True):
        for name in ("id", "parent", "namespace", "owner", "lane", "step", "source", "children"):
            assert getattr(mine, name) == getattr(theirs, name), name
        assert sorted(mine.ran) == sorted(theirs.ran)
        assert sorted(mine.next) == sorted(theirs.next)
        key = operator.attrgetter("name", "finished")
        assert sorted(mine.tasks, key=key) == sorted(theirs.tasks, key=key)
        written = {name: value for name, value in theirs.values.items() if value != []}
        assert {name: value for name, value in mine.values.items() if value != []} == written
        assert sorted((w.task, w.channel) for w in mine.writes) == sorted(
            (w.task, w.channel) for w in theirs.writes
        )


def test_the_file_is_drawn_row_by_row(file: SqliteSaver, tmp_path: Path) -> None:
    answered(file)
    path = tmp_path / "agent.db"
    count = {
        table: file.conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("checkpoints", "writes")
    }
    drawn = rows(path, "run-1")
    title = f"{count['checkpoints']} rows in checkpoints, {count['writes']} in writes"
    assert title in repr(drawn)
    assert repr(drawn).count(" wrote ") == count["writes"]
    figure = track(read_rows(path, "run-1"), "A file", ROWS)
    small = [line for line in figure.axes[0].lines if line.get_markersize() == points(7)]
    kinds = 3  # in the legend: the state's channels, LangGraph's own, question or answer
    assert len(small) == count["writes"] + kinds
    shown = texts(figure)
    for row in read_rows(path, "run-1").checkpoints:
        assert f"…{row.id[-6:]}" in shown
        assert (f"parent …{row.parent[-6:]}" if row.parent else "no parent") in shown
    assert {"__interrupt__", "branch:to:apply", "approve:", "Command:"} <= set(shown)


def test_looking_changes_nothing(file: SqliteSaver, tmp_path: Path) -> None:
    def seen() -> dict[str, tuple[int, bytes]]:
        files = sorted(tmp_path.iterdir())
        return {
            f.name: (f.stat().st_mtime_ns, f.read_bytes()) for f in files if "shm" not in f.name
        }

    answered(file)
    before = seen()
    assert "agent.db-wal" in before  # the rows are still in there
    assert len(read_rows(tmp_path / "agent.db", "run-1").checkpoints) == 5
    assert seen() == before
    file.conn.close()
    before = seen()
    assert list(before) == ["agent.db"]
    assert len(read_rows(tmp_path / "agent.db", "run-1").checkpoints) == 5
    assert seen() == before
    assert [f.name for f in tmp_path.iterdir()] == ["agent.db"]


def test_threads_below_each_other_have_their_steps_below_each_other() -> None:
    graph = failed(InMemorySaver())
    before = read_history(graph, THREAD)
    graph.invoke(None, THREAD)
    after = read_history(graph, THREAD)
    pair = histories({"before": before, "after": (graph, THREAD)})
    assert pair._repr_html_().count("<svg") == 2
    assert "before\nNot finished." in repr(pair)
    assert "after\nFinished." in repr(pair)
    figures = tracks({"before": before, "after": after}, columns([*before.of(""), *after.of("")]))
    assert place(figures["before"])["step 0"][0] == place(figures["after"])["step 0"][0]
    assert place(track(before, ""))["step 0"][0] != place(track(after, ""))["step 0"][0]


def test_threads_below_each_other_are_folded_alike() -> None:
    assert "…" not in words(read(thirteen), "short")
    pair = histories({"short": read(thirteen), "long": read(long)})
    short, long_ = repr(pair).split("\n\n")
    assert "  … 9 steps …" in short
    assert "  … 28 steps …" in long_


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_cut_off_and_no_two_texts_meet(
    case: Callable, file: SqliteSaver, tmp_path: Path
) -> None:
    case(file)
    for figure in (picture(case), track(read_rows(tmp_path / "agent.db", "run-1"), "A file", ROWS)):
        width, height = figure.get_size_inches() * figure.dpi
        assert width <= WIDTH + 1
        shown = [text for text in figure.axes[0].texts if text.get_text()]
        boxes = [text.get_window_extent() for text in shown]
        for text, box in zip(shown, boxes, strict=True):
            assert text.get_size() >= points(SMALL)
            assert box.x0 >= 0
            assert box.x1 <= width, text.get_text()
            assert box.y0 >= 0
            assert box.y1 <= height
        for i, box in enumerate(boxes):
            for other, at in zip(shown[:i], boxes[:i], strict=True):
                # letters of neighbouring lines may touch by a pixel
                deep = min(box.y1, at.y1) - max(box.y0, at.y0)
                wide = min(box.x1, at.x1) - max(box.x0, at.x0)
                assert deep < 3 or wide < 1, (shown[i].get_text(), other.get_text())
