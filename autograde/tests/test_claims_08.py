"""What 08_interrupt states about LangGraph: a pause, what runs again, and what an answer does."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest
from claims import claim
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import ValidationError

from crashlab import WorkFolder, launch

RUN = {"configurable": {"thread_id": "run-217"}}
YES, NO = Command(resume="yes"), Command(resume="no")
SAID = ["no", False, 0, "", [], {}, None]


class State(TypedDict, total=False):
    patch: str
    first: Any
    second: Any
    applied: bool


def line(*nodes: Callable[[State], dict | None]) -> StateGraph:
    """Make a graph of these nodes, one after the other."""
    builder = StateGraph(State).add_sequence([*nodes])
    return builder.add_edge(START, nodes[0].__name__)


def in_memory(*nodes: Callable[[State], dict | None]):
    return line(*nodes).compile(checkpointer=InMemorySaver())


def questions(app) -> list[object]:
    return [question.value for question in app.get_state(RUN).interrupts]


def patching(ran: list[str]) -> StateGraph:
    """The graph of the notebook's experiment; `ran` gets the nodes as they are entered."""

    def propose(state: State) -> dict:
        ran.append("propose")
        return {"patch": "CMakeLists.txt"}

    def approve(state: State) -> dict:
        ran.append("approve")
        return {"first": interrupt({"patch": state["patch"]})}

    def apply(state: State) -> dict:
        ran.append("apply")
        return {"applied": True}

    builder = StateGraph(State).add_node(propose).add_node(approve).add_node(apply)
    builder.add_edge(START, "propose").add_edge("propose", "approve")
    choose = lambda state: "apply" if state["first"] == "yes" else END  # noqa: E731
    return builder.add_conditional_edges("approve", choose, ["apply", END])


def ask(state: State) -> dict:
    return {"first": interrupt("first?")}


def ask_more(state: State) -> dict:
    return {"second": interrupt("second?")}


def ask_both(state: State) -> dict:
    return {"first": interrupt("first?"), "second": interrupt("second?")}


# What a pause saves


@claim("pause-checkpoints", "08 09")
def test_checkpoints() -> None:
    """While a run waits its newest checkpoint is the one before the node that asked, which is
    next; the pause makes no checkpoint, and the answered run of three nodes has five."""
    app = patching([]).compile(checkpointer=InMemorySaver())
    app.invoke({}, RUN)
    steps = [each.metadata["step"] for each in app.get_state_history(RUN)]
    assert (steps, app.get_state(RUN).next) == ([1, 0, -1], ("approve",))
    app.invoke(YES, RUN)
    following = [each.next for each in app.get_state_history(RUN)][::-1]
    assert following == [("__start__",), ("propose",), ("approve",), ("apply",), ()]


@claim("pause-question-saved", "08 09")
def test_the_question_outlives_the_graph(tmp_path: Path) -> None:
    """The question is saved as a pending write, with a value and an id, and a graph that is built
    anew on the file answers it."""
    path = tmp_path / "threads.sqlite"
    ran: list[str] = []
    with SqliteSaver.from_conn_string(str(path)) as saver:
        [asked] = patching(ran).compile(checkpointer=saver).invoke({}, RUN)["__interrupt__"]
    with closing(sqlite3.connect(path)) as db:
        [(count,)] = db.execute("SELECT count(*) FROM writes WHERE channel = '__interrupt__'")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        app = patching(ran).compile(checkpointer=saver)
        [found] = app.get_state(RUN).interrupts
        assert app.invoke(YES, RUN)["applied"]
    assert (count, found.id, found.value) == (1, asked.id, {"patch": "CMakeLists.txt"})
    assert ran == ["propose", "approve", "approve", "apply"]


# What runs again


def counts(wire: Callable[[int, list], StateGraph], n: int) -> int:
    counted: list[int] = []
    app = wire(n, counted).compile(checkpointer=InMemorySaver())
    app.invoke({}, RUN)
    for number in range(1, n + 1):
        app.invoke(Command(resume="good" if number == n else "bad"), RUN)
    assert app.get_state(RUN).tasks == ()
    return len(counted)


def one_node(n: int, counted: list) -> StateGraph:
    def node(state: State) -> dict:
        counted.append(1)
        return {"first": [interrupt(number) for number in range(n)]}

    return line(node)


def many_nodes(n: int, counted: list) -> StateGraph:
    def node(state: State) -> dict:
        counted.append(1)
        return {"first": interrupt("?")}

    builder = StateGraph(State).add_sequence([(f"node {number}", node) for number in range(n)])
    return builder.add_edge(START, "node 0")


def loop(n: int, counted: list) -> StateGraph:
    def node(state: State) -> dict:
        while interrupt("?") != "good":
            counted.append(1)
        counted.append(1)
        return {}

    return line(node)


@claim("pause-entries", "08")
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_entries(n: int) -> None:
    """A node with n pauses is entered n + 1 times, n nodes with one pause each 2n times; the line
    below the pause of a loop runs n(n + 1)/2 times for n answers."""
    found = [counts(wire, n) for wire in (one_node, many_nodes, loop)]
    assert found == [n + 1, 2 * n, n * (n + 1) // 2]


@claim("pause-is-an-exception", "08")
def test_a_broad_except() -> None:
    """The pause is an Exception: a broad except swallows it and the run goes on unasked, one that
    first raises GraphBubbleUp again does not; finally runs at the pause and at the end."""
    ended: list[int] = []

    def swallows(state: State) -> dict:
        try:
            return {"first": interrupt("?")}
        except Exception:
            return {"first": "by default"}

    def hands_on(state: State) -> dict:
        try:
            return {"first": interrupt("?")}
        except GraphBubbleUp:
            raise
        except Exception:
            return {"first": "by default"}
        finally:
            ended.append(1)

    assert issubclass(GraphInterrupt, GraphBubbleUp)
    app = in_memory(swallows)
    assert app.invoke({}, RUN)["first"] == "by default"
    assert app.get_state(RUN).tasks == ()
    app = in_memory(hands_on)
    assert "__interrupt__" in app.invoke({}, RUN)
    assert (app.invoke(YES, RUN)["first"], len(ended)) == ("yes", 2)


@claim("pause-by-position", "08")
def test_position() -> None:
    """Answers are matched to the pauses of a node by position: when another pause comes first in
    the second run, it takes the answer."""
    full: list[int] = []

    def node(state: State) -> dict:
        wipe = interrupt("wipe?") if full else "no"
        return {"first": wipe, "second": interrupt("mail?")}

    app = in_memory(node)
    app.invoke({}, RUN)
    asked = questions(app)
    full.append(1)
    app.invoke(YES, RUN)
    assert (asked, questions(app)) == (["mail?"], ["mail?"])
    assert app.invoke(NO, RUN) == {"first": "yes", "second": "no"}


@claim("pause-in-a-called-graph", "08")
def test_a_graph_that_a_node_calls() -> None:
    """When a graph that a node calls pauses, the node runs again from its first line, and the inner
    nodes that had ended do not."""
    ran: list[str] = []

    def build(state: State) -> None:
        ran.append("build")

    def confirm(state: State) -> dict:
        ran.append("confirm")
        return {"first": interrupt("?")}

    inner = line(build, confirm).compile()

    def release(state: State) -> dict:
        ran.append("release")
        return {"first": inner.invoke({"patch": "p"})["first"]}

    app = in_memory(release)
    app.invoke({}, RUN)
    app.invoke(YES, RUN)
    assert ran == ["release", "build", "confirm", "release", "confirm"]


# Which question an answer goes to


def after_the_first(nodes: tuple, by_id: bool, event: str) -> tuple[object, list]:
    """Answer the first question, let something happen; return the second and what is open."""
    app = in_memory(*nodes)
    [question] = app.invoke({}, RUN)["__interrupt__"]
    named = Command(resume={question.id: "yes"})
    click = named if by_id else YES
    app.invoke(click, RUN)
    assert questions(app) == ["second?"]
    app.invoke({"no answer": None, "click": click, "old id": named}[event], RUN)
    return app.get_state(RUN).values.get("second"), questions(app)


ANSWERED, OPEN = ("yes", []), (None, ["second?"])


@claim("pause-none-answers", "08")
def test_a_call_without_an_answer() -> None:
    """After a plain answer, invoke(None) hands that answer to the next pause of the same node; it
    does not if the answer named its question, or if the next pause is in another node."""
    assert after_the_first((ask_both,), False, "no answer") == ANSWERED
    assert after_the_first((ask_both,), True, "no answer") == OPEN
    assert after_the_first((ask, ask_more), False, "no answer") == OPEN
    assert after_the_first((ask, ask_more), True, "no answer") == OPEN


@claim("pause-double-click", "08 09")
def test_the_same_answer_twice() -> None:
    """A plain answer that is given twice answers the next question too; one that names its question
    does not, if the next one is in another node."""
    assert after_the_first((ask, ask_more), False, "click") == ANSWERED
    assert after_the_first((ask, ask_more), True, "click") == OPEN
    assert after_the_first((ask_both,), True, "click") == ANSWERED


@claim("pause-old-id", "08 09")
def test_an_old_id() -> None:
    """The id of an answered question answers the next one of the same node, and not one of another
    node."""
    for by_id in (False, True):
        assert after_the_first((ask_both,), by_id, "old id") == ANSWERED
        assert after_the_first((ask, ask_more), by_id, "old id") == OPEN


def at_once(ran: list[str]):
    def one(state: State) -> dict:
        ran.append("one")
        return {"first": interrupt("first?")}

    def other(state: State) -> dict:
        ran.append("other")
        return {"second": interrupt("second?")}

    builder = StateGraph(State).add_node(one).add_node(other)
    builder.add_edge(START, "one").add_edge(START, "other")
    return builder.compile(checkpointer=InMemorySaver())


@claim("pause-parallel", "08 09")
def test_two_questions_at_once() -> None:
    """With several open questions one plain answer raises a RuntimeError; by id each gets its own,
    the rest stay open, and their nodes are entered again too."""
    ran: list[str] = []
    app = at_once(ran)
    ids = {question.value: question.id for question in app.invoke({}, RUN)["__interrupt__"]}
    with pytest.raises(RuntimeError, match="multiple pending interrupts"):
        app.invoke(YES, RUN)
    ran.clear()
    app.invoke(Command(resume={ids["second?"]: "b"}), RUN)
    assert (sorted(ran), questions(app)) == (["one", "other"], ["first?"])
    found = app.invoke(Command(resume={ids["first?"]: "a"}), RUN)
    assert (found["first"], found["second"]) == ("a", "b")


# What can be an answer, and for how long


@claim("pause-plain-values", "08 09")
def test_plain_answers() -> None:
    """As a plain answer False, 0, "" and [] arrive, {} leaves the question open, and None raises an
    UnboundLocalError."""
    for said in SAID[:-2]:
        app = in_memory(ask)
        app.invoke({}, RUN)
        assert repr(app.invoke(Command(resume=said), RUN)["first"]) == repr(said)
    app = in_memory(ask)
    app.invoke({}, RUN)
    app.invoke(Command(resume={}), RUN)
    assert questions(app) == ["first?"]
    with pytest.raises(UnboundLocalError):
        app.invoke(Command(resume=None), RUN)


@claim("pause-values-by-id", "08 09")
@pytest.mark.parametrize("said", SAID, ids=repr)
def test_answers_by_id(said: object) -> None:
    """An answer that names its question can be any value, None and {} too."""
    app = in_memory(ask)
    [question] = app.invoke({}, RUN)["__interrupt__"]
    found = app.invoke(Command(resume={question.id: said}), RUN)
    assert repr(found["first"]) == repr(said)


@claim("pause-dict-without-ids", "08")
def test_a_dict_that_is_no_map() -> None:
    """A dict whose keys are no ids of questions is one plain answer."""
    app = in_memory(ask)
    app.invoke({}, RUN)
    assert app.invoke(Command(resume={"re2": "no"}), RUN)["first"] == {"re2": "no"}


def strict(state: State) -> dict:
    answer = interrupt("well?")
    if answer not in ("yes", "no"):
        raise ValueError(answer)
    return {"first": answer}


@claim("pause-answer-is-final", "08 09")
@pytest.mark.parametrize("by_id", [False, True])
def test_an_answer_is_final(by_id: bool) -> None:
    """When the node fails after an answer, plain or by id, that answer stays: later ones are
    ignored, by id too, and the question is still listed as open."""
    app = in_memory(strict)
    [question] = app.invoke({}, RUN)["__interrupt__"]
    with pytest.raises(ValueError, match="perhaps"):
        app.invoke(Command(resume={question.id: "perhaps"} if by_id else "perhaps"), RUN)
    for given in (YES, NO, Command(resume={question.id: "no"}), None):
        with pytest.raises(ValueError, match="perhaps"):
            app.invoke(given, RUN)
        assert questions(app) == ["well?"]


@claim("pause-update-hides", "08 09")
@pytest.mark.parametrize("failed", [False, True])
def test_an_update_hides_the_question(failed: bool) -> None:
    """update_state on a thread that waits leaves question and answer behind: interrupts is empty,
    the node is still next, invoke(None) asks again, and a plain answer is taken all the same."""
    app = in_memory(strict)
    app.invoke({}, RUN)
    if failed:
        with pytest.raises(ValueError):
            app.invoke(Command(resume="perhaps"), RUN)
    app.update_state(RUN, {"patch": "p"})
    assert (app.get_state(RUN).next, questions(app)) == (("strict",), [])
    app.invoke(None, RUN)
    assert questions(app) == ["well?"]
    app.update_state(RUN, {"patch": "q"})
    assert questions(app) == []
    assert app.invoke(NO, RUN)["first"] == "no"


@claim("pause-late-no", "08 10")
def test_a_no_after_the_end() -> None:
    """An answer to a finished thread does nothing; one to the checkpoint where the question was
    asked is ignored for the old answer, and what follows runs again."""
    ran: list[str] = []
    app = patching(ran).compile(checkpointer=InMemorySaver())
    app.invoke({}, RUN)
    app.invoke(YES, RUN)
    ran.clear()
    app.invoke(NO, RUN)
    assert ran == []
    [asked_at] = [each for each in app.get_state_history(RUN) if each.next == ("approve",)]
    assert app.invoke(NO, asked_at.config)["first"] == "yes"
    assert ran == ["approve", "apply"]


def typed(schema: object):
    def node(state: State) -> dict:
        return {"first": interrupt("?", response_schema=schema)}

    app = in_memory(node)
    [question] = app.invoke({}, RUN)["__interrupt__"]
    return app, question.id


@claim("pause-schema", "08 09")
@pytest.mark.parametrize("by_id", [False, True])
def test_response_schema(by_id: bool) -> None:
    """With a response_schema an answer that does not fit raises a ValidationError. Given plain it
    stays, and invoke(None) raises again; given by id it is not kept, and invoke(None) asks again.
    Either way another plain answer is taken."""
    app, name = typed(Literal["yes", "no"])
    with pytest.raises(ValidationError):
        app.invoke(Command(resume={name: "perhaps"} if by_id else "perhaps"), RUN)
    for _ in range(2):
        if by_id:
            assert "__interrupt__" in app.invoke(None, RUN)
        else:
            with pytest.raises(ValidationError):
                app.invoke(None, RUN)
        assert questions(app) == ["?"]
    assert app.invoke(NO, RUN)["first"] == "no"


@claim("pause-schema-converts", "08")
def test_a_schema_converts() -> None:
    """A response_schema converts what it can: bool makes True of "y", "on" and 1; a Literal of
    texts takes neither another case nor a number nor True."""
    for said in ("y", "on", 1):
        app, _ = typed(bool)
        assert app.invoke(Command(resume=said), RUN)["first"] is True
    for said in ("YES", " yes", 1, True):
        app, _ = typed(Literal["yes", "no"])
        with pytest.raises(ValidationError):
            app.invoke(Command(resume=said), RUN)


class Telling(SqliteSaver):
    """Says when an answer is on disk."""

    def put_writes(self, config: dict, writes: list, *rest: str) -> None:
        super().put_writes(config, writes, *rest)
        if any(channel == "__resume__" for channel, _ in writes):
            self.told.set()


def node_of_a_process(folder: WorkFolder, given: object, wait: bool) -> tuple[list, dict]:
    """Give something to a thread whose node asks; return what was open, and what came out."""
    with Telling.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        saver.told = threading.Event()

        def node(state: State) -> dict:
            answer = interrupt("?")
            if wait:
                assert saver.told.wait(5)
            return {"first": answer}

        app = line(node).compile(checkpointer=saver)
        return questions(app), app.invoke(given, RUN, durability="sync")


@claim("pause-killed", "08 09")
@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("then", [None, "no"])
def test_killed_after_the_answer(by_id: bool, then: str | None) -> None:
    """After a kill below the pause the question is listed as open. A plain answer that was on disk
    counts for a call without an answer, and another plain answer replaces it; an answer by id is
    lost, and the question is asked again."""
    with WorkFolder.fresh() as folder:
        _, out = launch(node_of_a_process, folder, {}, False).result()
        name = {out["__interrupt__"][0].id: "yes"}
        yes = Command(resume=name if by_id else "yes")
        kill = {"kill_before": 'return {"first": answer}'}
        assert launch(node_of_a_process, folder, yes, not by_id, **kill).end == "killed"
        given = None if then is None else Command(resume=then)
        listed, out = launch(node_of_a_process, folder, given, False).result()
    found = "asked again" if "__interrupt__" in out else out["first"]
    assert listed == ["?"]
    assert found == (then or ("asked again" if by_id else "yes"))
