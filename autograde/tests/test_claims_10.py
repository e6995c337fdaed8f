"""What 10_time_travel states about LangGraph: going back, what the past costs, and pruning it."""

import operator
import random
import sqlite3
import threading
from collections.abc import Callable
from typing import Annotated, TypedDict

import pytest
from claims import claim
from langgraph.channels import BinaryOperatorAggregate, DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command, Overwrite, RetryPolicy, interrupt

RUN = {"configurable": {"thread_id": "ticket-41"}}
OTHER = {"configurable": {"thread_id": "ticket-42"}}


class Ticket(TypedDict, total=False):
    kind: str
    sent: Annotated[list[str], operator.add]
    answer: str


def desk(ran: list[str], act: Callable[[], None] = lambda: None, **settings: object):
    """Compile classify, send, close; `act` is called in send."""

    def classify(state: Ticket) -> dict:
        ran.append("classify")
        return {"kind": state.get("kind", "praise")}

    def send(state: Ticket) -> dict:
        ran.append("send")
        act()
        return {"sent": [state["kind"]]}

    def close(state: Ticket) -> dict:
        ran.append("close")
        return {}

    builder = StateGraph(Ticket).add_node(classify).add_node(send).add_node(close)
    builder.add_edge(START, "classify").add_edge("classify", "send").add_edge("send", "close")
    return builder.compile(**{"checkpointer": InMemorySaver()} | settings)


def before(graph, node: str) -> dict:
    return [each.config for each in graph.get_state_history(RUN) if each.next == (node,)][-1]


def asking(saver, paid: list[str], asked: list[str] | None = None):
    def ask(state: Ticket) -> dict:
        if asked is not None:
            asked.append("ask")
        return {"answer": interrupt("Refund 800?")}

    def pay(state: Ticket) -> None:
        paid.append(state["answer"])

    builder = StateGraph(Ticket).add_node(ask).add_node(pay)
    builder.add_edge(START, "ask").add_edge("ask", "pay")
    return builder.compile(saver)


def answered_yes() -> tuple:
    paid: list[str] = []
    graph = asking(InMemorySaver(), paid)
    graph.invoke({}, RUN)
    old = graph.get_state(RUN).config
    graph.invoke(Command(resume="yes"), RUN)
    return graph, paid, old


# Going back


@claim("travel-replay-repeats", "10")
def test_a_replay_repeats() -> None:
    """invoke(None, config of an old checkpoint) runs every node after it again, from the state at
    that checkpoint, and makes a checkpoint of its own, of the source "fork"; what was saved
    before stays."""
    ran: list[str] = []
    graph = desk(ran)
    graph.invoke({}, RUN)
    saved = [each.config for each in graph.get_state_history(RUN)]
    ran.clear()
    result = graph.invoke(None, before(graph, "send"))
    assert ran == ["send", "close"]
    assert result["sent"] == ["praise"]
    history = list(graph.get_state_history(RUN))
    assert [each.metadata["source"] for each in history[:3]] == ["loop", "loop", "fork"]
    assert [each.config for each in history[3:]] == saved


@claim("travel-fork-is-the-head", "10")
def test_a_fork_is_the_head_at_once() -> None:
    """update_state on an old config makes a checkpoint beside the old branch, and this is at once
    where the thread stands, before anything has run."""
    graph = desk([])
    graph.invoke({}, RUN)
    old = before(graph, "send")
    fork = graph.update_state(old, {"kind": "complaint"})
    head = graph.get_state(RUN)
    assert head.config == fork
    assert head.next == ("send",)
    assert head.parent_config == old
    assert graph.invoke(None, RUN)["sent"] == ["complaint"]


@claim("travel-source", "10")
def test_only_a_step_makes_a_checkpoint_of_the_source_loop() -> None:
    """The checkpoint that follows a step on its way has the source "loop"; one that an input, a
    replay or update_state made has another, also when the node before it was to run."""
    graph = desk([])
    graph.invoke({}, RUN)
    old = before(graph, "send")
    for travel, source in (
        (lambda: graph.invoke({}, old, interrupt_before=["classify"]), "input"),
        (lambda: graph.invoke(None, old), "fork"),
        (lambda: graph.update_state(old, {}), "update"),
    ):
        travel()
        made = [each for each in graph.get_state_history(RUN) if each.parent_config == old]
        assert made[0].metadata["source"] == source
        assert made[-1].metadata["source"] == "loop"


@claim("travel-id-goes-back-each-time", "10")
def test_a_config_with_an_id_goes_back_each_time() -> None:
    """A new input on a config with a checkpoint id starts from that checkpoint, each time."""
    graph = desk([])
    graph.invoke({}, RUN)
    pinned = graph.get_state(RUN).config
    for _ in range(3):
        graph.invoke({}, pinned)
    assert len(graph.get_state(RUN).values["sent"]) == 2
    for _ in range(3):
        graph.invoke({}, RUN)
    assert len(graph.get_state(RUN).values["sent"]) == 5


@claim("travel-old-yes-wins", "10")
def test_the_old_yes_wins() -> None:
    """Command(resume="no") on the config of a question that was answered yes enters its node again,
    and runs on with the stored yes."""
    paid: list[str] = []
    asked: list[str] = []
    graph = asking(InMemorySaver(), paid, asked)
    graph.invoke({}, RUN)
    old = graph.get_state(RUN).config
    graph.invoke(Command(resume="yes"), RUN)
    assert (asked, paid) == (["ask"] * 2, ["yes"])
    assert graph.invoke(Command(resume="no"), old)["answer"] == "yes"
    assert (asked, paid) == (["ask"] * 3, ["yes", "yes"])
    stored = graph.checkpointer.get_tuple(old).pending_writes
    resumes = [
        (value, set(task) <= set("0-")) for task, name, value in stored if name == "__resume__"
    ]
    assert sorted(resumes, key=str) == [("no", True), (["yes"], False)]


@claim("travel-replay-asks-again", "10")
def test_a_replay_asks_again() -> None:
    """A replay of a checkpoint at which a question was answered asks again, and then a no is a
    no."""
    graph, paid, old = answered_yes()
    [question] = graph.invoke(None, old)["__interrupt__"]
    assert question.value == "Refund 800?"
    assert graph.invoke(Command(resume="no"), RUN)["answer"] == "no"
    assert paid == ["yes", "no"]


@claim("travel-fork-takes-the-answer", "10")
def test_a_fork_of_the_question_takes_the_new_answer() -> None:
    """After update_state(old, {}) on an answered question, a no is a no."""
    graph, paid, old = answered_yes()
    fork = graph.update_state(old, {})
    assert graph.invoke(Command(resume="no"), fork)["answer"] == "no"
    assert paid == ["yes", "no"]


# update_state


@claim("travel-as-node", "10")
def test_as_node() -> None:
    """update_state writes as if the last node, or the one named by as_node, had just returned the
    values: what is next are that node's successors."""
    graph = desk([])
    graph.invoke({}, RUN)
    old = before(graph, "send")
    expected = {None: ("send",), "__start__": ("classify",), "send": ("close",), "close": ()}
    for as_node, following in expected.items():
        fork = graph.update_state(old, {"kind": "complaint"}, as_node=as_node)
        assert graph.get_state(fork).next == following
    head = graph.update_state(RUN, {"kind": "complaint"}, as_node="classify")
    assert graph.get_state(head).next == ("send",)


@claim("travel-update-reduces", "10")
def test_update_state_goes_through_the_reducers() -> None:
    """update_state adds to a field that has a reducer, Overwrite replaces it there, and a field
    without a reducer keeps the wrapper itself."""
    graph = desk([])
    graph.invoke({}, RUN)
    closed = graph.get_state(RUN).config

    def after(values: dict) -> dict:
        return graph.get_state(graph.update_state(closed, values)).values

    assert after({"sent": ["x"]})["sent"] == ["praise", "x"]
    assert after({"sent": Overwrite(["x"])})["sent"] == ["x"]
    assert after({"kind": Overwrite("x")})["kind"] == Overwrite("x")


@claim("travel-fields", "10")
def test_the_fields_of_a_graph() -> None:
    """output_channels are the fields of the state, and a field with a reducer is a
    BinaryOperatorAggregate."""
    graph = desk([])
    assert set(graph.output_channels) == set(Ticket.__annotations__)
    reduced = [
        name
        for name in graph.output_channels
        if isinstance(graph.channels[name], BinaryOperatorAggregate)
    ]
    assert reduced == ["sent"]


@claim("travel-unknown-field", "10")
def test_an_unknown_field_is_ignored() -> None:
    """update_state with a field that the state does not have makes a checkpoint with the old
    values, and no error."""
    graph = desk([])
    graph.invoke({}, RUN)
    old = graph.get_state(before(graph, "send"))
    fork = graph.get_state(graph.update_state(old.config, {"knid": "complaint"}))
    assert (fork.values, fork.next) == (old.values, old.next)
    assert fork.config == graph.get_state(RUN).config != old.config


@claim("travel-update-hides-the-question", "10")
def test_update_state_hides_a_question() -> None:
    """After update_state on a waiting thread its question is gone from interrupts, while next still
    names the node, and invoke(None) asks again."""
    graph = asking(InMemorySaver(), [])
    graph.invoke({}, RUN)
    assert graph.get_state(RUN).interrupts
    graph.update_state(RUN, {"kind": "refund"})
    assert (graph.get_state(RUN).next, graph.get_state(RUN).interrupts) == (("ask",), ())
    graph.invoke(None, RUN)
    assert [each.value for each in graph.get_state(RUN).interrupts] == ["Refund 800?"]


# Effects and keys


@claim("travel-effect-knows-its-checkpoint", "10")
def test_a_node_knows_its_checkpoint() -> None:
    """get_runtime().execution_info.checkpoint_id is the id of the checkpoint that the node runs
    from, in a replay that of the replay's own."""
    ids: list[str] = []
    graph = desk([], lambda: ids.append(get_runtime().execution_info.checkpoint_id))
    graph.invoke({}, RUN)
    graph.invoke(None, before(graph, "classify"))
    saved = [each for each in graph.get_state_history(RUN) if each.next == ("send",)]
    assert ids == [each.config["configurable"]["checkpoint_id"] for each in saved[::-1]]
    assert len(set(ids)) == 2


@claim("travel-task-id", "10")
def test_the_task_id_changes_under_replay() -> None:
    """execution_info.task_id is the same at a retry and when a failed run goes on, and another in a
    replay."""
    seen: list[str] = []

    def pay(state: Ticket) -> None:
        seen.append(get_runtime().execution_info.task_id)
        if len(seen) < 3:
            raise ConnectionError

    twice = RetryPolicy(max_attempts=2, initial_interval=0.001)
    builder = StateGraph(Ticket).add_node(pay, retry_policy=twice).add_edge(START, "pay")
    graph = builder.compile(InMemorySaver())
    with pytest.raises(ConnectionError):
        graph.invoke({}, RUN)
    graph.invoke(None, RUN)
    graph.invoke(None, before(graph, "pay"))
    assert seen[0] == seen[1] == seen[2] != seen[3]


# The bill


def joined(old: list, writes: list) -> list:
    return old + [item for write in writes for item in write]


def size_after(steps: int, field: object, first: object, read: Callable[[int], dict]) -> int:
    """Return the bytes in the rows after so many steps."""

    class Read(TypedDict):
        step: int
        read: field

    builder = StateGraph(Read).add_edge(START, "work")
    builder.add_node("work", lambda state: {"step": state["step"] + 1} | read(state["step"]))
    ends = {True: END, False: "work"}
    builder.add_conditional_edges("work", lambda state: state["step"] == steps, ends)
    with SqliteSaver.from_conn_string(":memory:") as saver:
        builder.compile(saver).invoke({"step": 0, "read": first}, RUN)
        tables = {"checkpoints": "checkpoint", "writes": "value"}
        selects = [f"SELECT sum(length({column})) FROM {table}" for table, column in tables.items()]
        return sum(saver.conn.execute(select).fetchone()[0] for select in selects)


def document(step: int) -> str:
    return random.Random(step).randbytes(2500).hex()


def growth_of(field: object, first: object, read: Callable[[int], dict]) -> float:
    return size_after(40, field, first, read) / size_after(20, field, first, read)


@claim("bill-untouched-field", "10")
def test_an_untouched_field_is_stored_in_every_checkpoint() -> None:
    """SqliteSaver stores a field that nobody touches again with every checkpoint."""
    assert size_after(20, str, document(0), lambda step: {}) > 20 * len(document(0))
    assert 1.7 < growth_of(str, document(0), lambda step: {}) < 2.2


@claim("bill-list-is-quadratic", "10")
def test_a_list_grows_with_the_square() -> None:
    """A list that grows by the same amount in each step takes bytes that grow with the square of
    the steps."""
    field = Annotated[list, operator.add]
    assert 3.2 < growth_of(field, [], lambda step: {"read": [document(step)]}) < 4.2


@claim("bill-delta-is-linear", "10")
def test_a_delta_channel_grows_linearly() -> None:
    """With a DeltaChannel a growing list takes bytes that grow linearly between two snapshots;
    snapshot_frequency=10 stores the whole list every tenth update."""

    def read(step: int) -> dict:
        return {"read": [document(step)]}

    assert 1.7 < growth_of(Annotated[list, DeltaChannel(joined)], [], read) < 2.2
    rare = size_after(40, Annotated[list, DeltaChannel(joined)], [], read)
    often = Annotated[list, DeltaChannel(joined, snapshot_frequency=10)]
    assert size_after(40, often, [], read) > rare + (10 + 20 + 30) * len(document(0))
    assert DeltaChannel(joined).snapshot_frequency == 100


# Pruning

OLD_ROWS = (
    "DELETE FROM {} WHERE thread_id = 'ticket-41' AND (checkpoint_ns, checkpoint_id) NOT IN "
    "(SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = 'ticket-41' "
    "GROUP BY checkpoint_ns)"
)


def saver_in_memory() -> SqliteSaver:
    return SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False))


def prune(saver: SqliteSaver) -> None:
    for table in ("writes", "checkpoints"):
        saver.conn.execute(OLD_ROWS.format(table))


class Telling(SqliteSaver):
    """Says when the pending write of gtest is saved."""

    def put_writes(self, config, writes, task_id, task_path=""):
        super().put_writes(config, writes, task_id, task_path)
        if ("sent", ["gtest"]) in writes:
            self.told.set()


def crashed(ran: list[str]):
    """A thread in whose step gtest has finished, its write is saved, and abseil has failed."""
    saver = Telling(sqlite3.connect(":memory:", check_same_thread=False))
    saver.told = threading.Event()

    def abseil(state: Ticket) -> dict:
        ran.append("abseil")
        assert saver.told.wait(5)
        if ran.count("abseil") == 1:
            raise ConnectionError
        return {"sent": ["abseil"]}

    def gtest(state: Ticket) -> dict:
        ran.append("gtest")
        return {"sent": ["gtest"]}

    builder = StateGraph(Ticket).add_node(abseil).add_node(gtest)
    graph = builder.add_edge(START, "abseil").add_edge(START, "gtest").compile(saver)
    with pytest.raises(ConnectionError):
        graph.invoke({}, RUN, durability="sync")
    return graph


@claim("prune-not-in-sqlite", "10")
def test_sqlite_saver_cannot_prune() -> None:
    """SqliteSaver has delete_thread, and its prune raises NotImplementedError."""
    saver = saver_in_memory()
    graph = desk([], checkpointer=saver)
    graph.invoke({}, RUN)
    with pytest.raises(NotImplementedError):
        saver.prune(["ticket-41"])
    saver.delete_thread("ticket-41")
    assert not list(graph.get_state_history(RUN))


@claim("prune-keeps-newest-and-writes", "10")
def test_the_newest_checkpoint_and_its_writes_are_the_thread() -> None:
    """A paused thread of which only the newest checkpoint and its writes are left still shows its
    question and takes the answer."""
    saver, paid = saver_in_memory(), []
    graph = asking(saver, paid)
    graph.invoke({}, RUN)
    question = graph.get_state(RUN).interrupts
    prune(saver)
    assert len(list(graph.get_state_history(RUN))) == 1
    assert graph.get_state(RUN).interrupts == question
    graph.invoke(Command(resume="yes"), RUN)
    assert paid == ["yes"]


@claim("prune-writes-are-needed", "10")
def test_without_its_writes_a_thread_forgets() -> None:
    """Without its pending writes a paused thread hides its question and still takes the answer, and
    after a crash the finished sibling runs again."""
    saver, paid = saver_in_memory(), []
    graph = asking(saver, paid)
    graph.invoke({}, RUN)
    saver.conn.execute("DELETE FROM writes")
    assert not graph.get_state(RUN).interrupts
    graph.invoke(Command(resume="yes"), RUN)
    assert paid == ["yes"]

    for delete, again in ((False, 1), (True, 2)):
        ran: list[str] = []
        graph = crashed(ran)
        if delete:
            graph.checkpointer.conn.execute("DELETE FROM writes")
        graph.invoke(None, RUN)
        assert ran.count("gtest") == again


@claim("prune-newest-is-needed", "10")
def test_without_its_newest_checkpoint_a_thread_stands_where_it_stood_before() -> None:
    """A paused thread without its newest checkpoint takes no answer: it asks anew."""
    saver, paid = saver_in_memory(), []
    graph = asking(saver, paid)
    graph.invoke({}, RUN)
    saver.conn.execute(
        "DELETE FROM checkpoints WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)"
    )
    assert "__interrupt__" in graph.invoke(Command(resume="yes"), RUN)
    assert not paid


@claim("prune-by-namespace", "10")
def test_a_subgraph_has_a_namespace_of_its_own() -> None:
    """A paused subgraph has checkpoints in a namespace of its own under the same thread; with the
    newest of each namespace the thread goes on, without those of the graph itself it is new."""
    for statement, left in ((OLD_ROWS, ("ask",)), ("DELETE FROM {} WHERE checkpoint_ns = ''", ())):
        saver = saver_in_memory()
        builder = StateGraph(Ticket).add_node("ask", asking(None, [])).add_edge(START, "ask")
        graph = builder.compile(saver)
        graph.invoke({}, RUN)
        names = saver.conn.execute("SELECT DISTINCT checkpoint_ns FROM checkpoints").fetchall()
        assert len(names) == 2
        assert max(
            saver.conn.execute("SELECT checkpoint_id, checkpoint_ns FROM checkpoints").fetchall()
        )[1].startswith("ask:")
        for table in ("writes", "checkpoints"):
            saver.conn.execute(statement.format(table))
        assert graph.get_state(RUN).next == left


@claim("prune-dead-namespaces", "10")
def test_a_finished_subgraph_leaves_its_namespace() -> None:
    """Each finished run of a subgraph leaves a namespace of its own, and the newest of each
    namespace stays when a thread is pruned so."""
    saver = saver_in_memory()
    builder = StateGraph(Ticket).add_node("ask", asking(None, [])).add_edge(START, "ask")
    graph = builder.compile(saver)
    for _ in range(4):
        graph.invoke({}, RUN)
        graph.invoke(Command(resume="yes"), RUN)
    prune(saver)
    names = [name for (name,) in saver.conn.execute("SELECT checkpoint_ns FROM checkpoints")]
    assert len(names) == len(set(names)) == 5
    assert sum(name.startswith("ask:") for name in names) == 4


@claim("prune-fork-head", "10")
def test_the_head_is_the_largest_id_and_not_the_highest_step() -> None:
    """After a step back the head of a thread is the checkpoint with the largest id, although others
    have a higher step."""
    graph = desk([], interrupt_before=["close"])
    graph.invoke({}, RUN)
    graph.invoke(None, RUN)
    graph.update_state(before(graph, "classify"), {"kind": "complaint"})
    history = list(graph.get_state_history(RUN))
    ids = [each.config["configurable"]["checkpoint_id"] for each in history]
    assert ids == sorted(ids, reverse=True)
    assert graph.get_state(RUN).config == history[0].config
    assert history[0].metadata["step"] < max(each.metadata["step"] for each in history)


@claim("prune-delta-loses-the-list", "10")
def test_a_delta_thread_needs_its_past() -> None:
    """With only the newest checkpoint a DeltaChannel's list is empty, without an error; before, the
    metadata of that checkpoint names the field under counters_since_delta_snapshot, and a
    checkpoint that holds the whole list does not."""

    class Notes(TypedDict):
        step: int
        notes: Annotated[list, DeltaChannel(joined, snapshot_frequency=4)]

    for steps, kept in ((5, []), (7, [0, 1, 2, 3, 4, 5, 6])):
        saver = saver_in_memory()
        builder = StateGraph(Notes).add_edge(START, "work")
        builder.add_node("work", lambda s: {"step": s["step"] + 1, "notes": [s["step"]]})
        builder.add_conditional_edges(
            "work", lambda s, n=steps: END if s["step"] == n else "work", ["work", END]
        )
        graph = builder.compile(saver)
        graph.invoke({"step": 0, "notes": []}, RUN)
        state = graph.get_state(RUN)
        assert state.values["notes"] == list(range(steps))
        counters = state.metadata.get("counters_since_delta_snapshot", {})
        assert ("notes" in counters) == (not kept)
        prune(saver)
        assert graph.get_state(RUN).values["notes"] == kept


# The store


@claim("store-put-is-an-effect", "10")
def test_a_put_is_repeated_by_a_replay() -> None:
    """What a node puts into the store does not go back with the thread, and a replay puts it
    again."""
    store = InMemoryStore()

    def count() -> None:
        shelf = get_runtime().store
        item = shelf.get(("customers",), "c-7")
        shelf.put(("customers",), "c-7", {"visits": item.value["visits"] + 1 if item else 1})

    graph = desk([], count, store=store)
    graph.invoke({}, RUN)
    graph.invoke(None, before(graph, "send"))
    assert store.get(("customers",), "c-7").value == {"visits": 2}


@claim("store-beside-the-threads", "10")
def test_the_store_is_beside_the_threads() -> None:
    """What one thread puts into a SqliteStore another one reads; it can be searched by a field
    without any graph, survives the deletion of the thread, and a second put replaces the first
    without an error."""
    with SqliteStore.from_conn_string(":memory:") as store:
        store.setup()
        seen: list[object] = []

        def visit() -> None:
            shelf = get_runtime().store
            seen.append(shelf.get(("facts",), "c-7"))
            shelf.put(("facts",), "c-7", {"is": "waiting"})

        graph = desk([], visit, store=store)
        graph.invoke({}, RUN)
        graph.checkpointer.delete_thread("ticket-41")
        graph.invoke({}, OTHER)
        assert [item and item.value for item in seen] == [None, {"is": "waiting"}]
        assert [item.key for item in store.search(("facts",), filter={"is": "waiting"})] == ["c-7"]
        store.put(("facts",), "c-7", {"is": "approved"})
        assert store.search(("facts",), filter={"is": "waiting"}) == []
