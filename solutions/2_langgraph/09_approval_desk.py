# %% [markdown]
# # 09 · Approval desk
#
# **Who may approve, what exactly, and once?**
#
# 180 minutes · 23 points · before this: `08_interrupt`
#
# In July 2026 two calls resumed the same waiting workflow at the same moment. Both were accepted, and the steps after
# the pause ran twice. It takes no attack: a double click does it, a repeated request, two browser tabs, two servers.
# To look before you press is no help, since both see the workflow waiting. (Reported as mastra-ai/mastra issue 20443.)
#
# A framework gives you the pause. Who may end it, what exactly they agreed to, and that it counts once: that you build.
# You will build it around a refund that waits overnight, with a table beside the thread, and then kill it at every
# line.

# %%
import hashlib
import html
import inspect
import json
import operator
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypedDict

import psutil
from IPython.display import HTML, display
from ipywidgets import Button, HBox, Label, Text, VBox
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from crashlab import Journal, WorkFolder, explore, launch
from crashlab.figures import histories, history, outcome_matrix
from crashlab.history import read_history
from crashlab.quiz import differs
from crashlab.world.desk import Bank, Shop, at_once

print("Python", sys.version.split()[0], "on", sys.platform)
for package in ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"):
    print(package, version(package))

# %% [markdown]
# ## A purchase that stops
#
# First a smaller case, as tutorials have it. An agent plans a purchase, a person approves it, then it is ordered. The
# graph is compiled with a **breakpoint**: `interrupt_before=["human_approval"]` stops the run before that node. The
# node itself stands for the click of the person.


# %%
class Purchase(TypedDict, total=False):
    item: str
    plan: str
    approval: str
    order: str


def make_purchase(book, human_approval, after_approval=None, saver=None):
    """The graph of a purchase. `book` keeps what was really ordered."""

    def plan(state):
        return {"plan": f"order {state['item']} from the cheapest supplier"}

    def order(state):
        book.effect(f"order {state['item']}")
        return {"order": f"PO-{state['item']}"}

    builder = StateGraph(Purchase)
    builder.add_node("plan", plan).add_edge(START, "plan")
    builder.add_node("human_approval", human_approval).add_edge("plan", "human_approval")
    builder.add_node("order", order).add_edge("order", END)
    if after_approval is None:
        builder.add_edge("human_approval", "order")
    else:
        ways = ["order", "human_approval", END]
        builder.add_conditional_edges("human_approval", after_approval, ways)
    return builder.compile(saver or InMemorySaver(), interrupt_before=["human_approval"])


# %% [markdown]
# Run it to the breakpoint. Some tutorials print an `__interrupt__` in the result here. There is none. What says that
# the thread waits is `next`. Then somebody calls `invoke(None)`.

# %%
PURCHASE = {"configurable": {"thread_id": "purchase-1"}}


def click(state):
    return {"approval": "approved"}


with WorkFolder.fresh() as folder:
    book = Journal(folder.path / "orders.jsonl")
    graph = make_purchase(book, click)
    print("result:    ", graph.invoke({"item": "cable"}, PURCHASE))
    state = graph.get_state(PURCHASE)
    print("next:      ", state.next)
    print("interrupts:", state.interrupts)
    graph.invoke(None, PURCHASE)
    print("ordered:   ", book.count("order cable"))

# %% [markdown]
# ## Predict: the person says no
#
# `graph.update_state(config, values)` changes the state of a thread from outside. With `as_node` it does so as if that
# node had just returned the values. Five ways to say no, or nothing:


# %%
@contextmanager
def stopped_purchase(human_approval=click, after_approval=None):
    """A book of orders, and the graph of a purchase that has run to its breakpoint."""
    with WorkFolder.fresh() as folder:
        book = Journal(folder.path / "orders.jsonl")
        graph = make_purchase(book, human_approval, after_approval)
        graph.invoke({"item": "cable"}, PURCHASE)
        yield book, graph


NO = {"approval": "denied"}


def no_then_go_on(graph):
    graph.update_state(PURCHASE, NO)
    graph.invoke(None, PURCHASE)


def no_as_the_node(graph):
    graph.update_state(PURCHASE, NO, as_node="human_approval")
    graph.invoke(None, PURCHASE)


def no_as_an_answer(graph):
    graph.invoke(Command(resume="denied"), PURCHASE)


def nothing_but_a_restart(graph):
    graph.invoke(None, PURCHASE)


def no_as_the_order(graph):
    graph.update_state(PURCHASE, NO, as_node="order")
    graph.invoke(None, PURCHASE)


WAYS = [no_then_go_on, no_as_the_node, no_as_an_answer, nothing_but_a_restart, no_as_the_order]

# %% [markdown]
# How many cables are ordered in each? The purchase is new each time and stands at its breakpoint. Assign a list of five
# numbers, in the order of `WAYS`, to `predicted_orders`.

# %% answer id="predict_orders"
### BEGIN SOLUTION
predicted_orders = [1, 1, 1, 1, 0]
### END SOLUTION

# %% wrong loses="predict_orders_check" why="denied is denied"
predicted_orders = [0, 0, 0, 1, 0]

# %% wrong loses="predict_orders_check" why="with as_node it counts as the word of the node"
predicted_orders = [1, 0, 1, 1, 0]

# %% wrong loses="predict_orders_check" why="a breakpoint waits until somebody approves"
predicted_orders = [1, 1, 1, 0, 0]

# %% wrong loses="predict_orders_check" why="an answer reaches whoever waits"
predicted_orders = [1, 1, 0, 1, 0]

# %% wrong loses="predict_orders_check" why="one number for all"
predicted_orders = 1

# %% right why="a tuple, put together"
predicted_orders = (1,) * 4 + (0,)

# %% test id="predict_orders_check" points=1
measured = []
for way in WAYS:
    with stopped_purchase() as (book, graph):
        way(graph)
        measured.append(book.count("order cable"))
problem = differs(predicted_orders, measured, [way.__name__ for way in WAYS])
assert not problem, f"{problem}. Which node runs next, what does it return, where does its edge go?"

# %% [markdown]
# ## See it

# %%
with stopped_purchase() as (book, graph):
    no_then_go_on(graph)
    drawn = history(graph, PURCHASE, "Denied, and ordered")
drawn

# %% [markdown]
# ## Why
#
# A breakpoint stops a run. It asks nothing, so there is nothing to answer. Whoever goes on, by whatever call, lets the
# node run.
#
# * `update_state` wrote "denied". Then the node ran and wrote "approved" over it.
# * `as_node="human_approval"` stands for the node, so the node does not run and "denied" stays. But one edge leads from
#   it, to the order.
# * `Command(resume=…)` answers a question, and no node of this graph asks one. So here the value goes nowhere. (A node
#   behind the breakpoint that called `interrupt` would take it.)
# * A restart that means well and calls `invoke(None)` approves.
# * The last one pretends that the order was made. Nothing is ordered, and the thread says it is finished. That is no
#   denial either, that is a lie that helps.
#
# Nobody ever looks at the field. The check has to be in the graph, on the way to the order.
#
# ## Fix it: the purchase
#
# Write the node and its edge. The person decides by `update_state(config, {"approval": …})`, with or without `as_node`,
# and then somebody calls `invoke(None)`.
#
# * `human_approval(state)` is the node. It leaves the decision as it is.
# * `after_approval(state)` says what comes next: `"order"`, `"human_approval"` (wait again) or `END`.
#
# An order is made if the approval is exactly `"approved"`, and not in any other case. `"denied"` ends the purchase. As
# long as nobody has decided, the field is not in the state at all, and the purchase waits again.
#
# The checks record a decision, go on, and then go on twice more, as a nervous operator would. The last case does each
# of these in a process of its own.


# %%
def orders_after(approval, **as_node):
    """Decide, go on three times; return the orders, the approval, and what is next."""
    with stopped_purchase(human_approval, after_approval) as (book, graph):
        try:
            if approval is not ...:
                graph.update_state(PURCHASE, {"approval": approval}, **as_node)
            for _ in range(3):
                graph.invoke(None, PURCHASE)
        except NotImplementedError:
            raise
        except Exception as error:
            raise AssertionError(
                f"the approval is {'open' if approval is ... else repr(approval)}, and the graph "
                f"raised {type(error).__name__}: {error}. Any value may stand in that field, or "
                "none, and none may raise an exception"
            ) from None
        state = graph.get_state(PURCHASE)
        return book.count("order cable"), state.values.get("approval", "open"), state.next


def one_life(folder, value, approval=None):
    with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        book = Journal(folder.path / "orders.jsonl")
        graph = make_purchase(book, human_approval, after_approval, saver)
        if approval:
            graph.update_state(PURCHASE, {"approval": approval})
        else:
            graph.invoke(value, PURCHASE)
        return book.count("order cable")


def orders_in_four_lives(approval):
    with WorkFolder.fresh() as folder:
        launch(one_life, folder, {"item": "cable"}, echo=False).result()
        launch(one_life, folder, None, approval, echo=False).result()
        return [launch(one_life, folder, None, echo=False).result() for _ in range(2)]


# %% answer id="purchase"
def human_approval(state):
    """Return what the node changes."""
    ### BEGIN SOLUTION
    return {}
    ### END SOLUTION


def after_approval(state):
    """Say what comes after the node: "order", "human_approval" or END."""
    ### BEGIN SOLUTION
    if "approval" not in state:
        return "human_approval"
    return "order" if state["approval"] == "approved" else END
    ### END SOLUTION


# %% wrong loses="purchase_denied" why="adds the edge, and lets the node approve as before"
def human_approval(state):
    return {"approval": "approved"}


def after_approval(state):
    return "order" if state.get("approval") == "approved" else END


# %% wrong loses="purchase_denied" why="stops what was denied, so whatever is not a no is a yes"
def human_approval(state):
    return {}


def after_approval(state):
    return END if state.get("approval") == "denied" else "order"


# %% wrong loses="purchase_denied" why="is generous with spelling"
def human_approval(state):
    return {}


def after_approval(state):
    return "order" if str(state.get("approval")).strip().lower() == "approved" else END


# %% wrong loses="purchase_denied" why="any answer that is not empty is an approval"
def human_approval(state):
    return {}


def after_approval(state):
    return "order" if state.get("approval") else END


# %% wrong loses="purchase_denied" why="the field is always there"
def human_approval(state):
    return {"approval": state["approval"]}


def after_approval(state):
    return "order" if state["approval"] == "approved" else END


# %% wrong loses="purchase_approved" why="a purchase that is never made is safe"
def human_approval(state):
    return {}


def after_approval(state):
    return END if "approval" in state else "human_approval"


# %% wrong loses="purchase_denied" why="whatever is no approval waits, a denial too"
def human_approval(state):
    return {}


def after_approval(state):
    return "order" if state.get("approval") == "approved" else "human_approval"


# %% wrong loses="purchase_denied" why="whatever is no approval ends, no decision too"
def human_approval(state):
    return {}


def after_approval(state):
    return "order" if state.get("approval") == "approved" else END


# %% wrong loses="purchase_denied" why="as long as nobody has agreed, it is denied"
def human_approval(state):
    return {"approval": state.get("approval", "denied")}


def after_approval(state):
    return "order" if state["approval"] == "approved" else END


# %% wrong loses="purchase_approved purchase_denied" why="the node sends it on, so the edge has nothing to do"
def human_approval(state):
    return Command(goto="order" if state.get("approval") == "approved" else END)


def after_approval(state):
    return END


# %% right why="waits for a decision as long as there is none, and looks in the node"
def human_approval(state):
    known = state.get("approval") in ("approved", "denied")
    return {"plan": state["plan"] + (", decided" if known else ", open")}


def after_approval(state):
    match state.get("approval"):
        case "approved":
            return "order"
        case None:
            return "human_approval"
    return END


# %% test id="purchase_approved" points=1
for as_node in ({}, {"as_node": "human_approval"}):
    found = orders_after("approved", **as_node)
    assert found == (1, "approved", ()), (
        f"approved by update_state{as_node or ''}: {found[0]} orders, approval {found[1]!r}, next "
        f"{found[2]}; expected 1, 'approved' and ()"
    )
found = orders_in_four_lives("approved")
assert found == [1, 1], (
    f"approved in a process of its own: after each of two restarts there were {found} orders; "
    "expected [1, 1]. What does a new process know?"
)

# %% test id="purchase_denied" points=1
for word in ("denied", ..., None, "Approved ", "approve", "not approved", "", True, ["approved"]):
    found, left, after = orders_after(word)
    said = "nobody has decided" if word is ... else f"the approval is {word!r}"
    assert found == 0, f"{said}: {found} orders; expected 0"
    right = "open" if word is ... else word
    assert left == right, f"{said}: afterwards it is {left!r}; expected that it stays as it was"
    waits = {"denied": (), ...: ("human_approval",)}.get(word if word in ("denied", ...) else 0)
    assert waits in (None, after), f"{said}: next is {after}; expected {waits}"
found = orders_after("denied", as_node="human_approval")
assert found == (0, "denied", ()), (
    f"denied as the node human_approval: orders, approval and next are {found}; expected 0, "
    "'denied' and (). Look at the edge"
)
found = orders_in_four_lives("denied")
assert found == [0, 0], f"denied, then two restarts: {found} orders; expected [0, 0]"

# %% [markdown]
# ## A refund that waits overnight
#
# Now the desk. A customer wants 800 back for order A-17. An agent proposes a refund, ben has to approve it, and he
# comes in tomorrow. Bank and shop are the outside, with records of their own. The bank honours an idempotency key.


# %%
@dataclass(frozen=True)
class Desk:
    path: Path

    @property
    def bank(self):
        return Bank(self.path / "bank.sqlite")

    @property
    def shop(self):
        return Shop(self.path / "shop.sqlite")

    def table(self):
        return sqlite3.connect(self.path / "desk.sqlite")


# %% [markdown]
# The state of the agent is in a thread. But a list of all that waits, a reminder, a report: those want a **business
# table**, with a row for each refund and a word for where it stands. So there are two truths, and they have to be kept
# in step. Here is the table, and which word may follow which.

# %%
TABLE = """
    CREATE TABLE refunds (
        id TEXT PRIMARY KEY,
        status TEXT,
        generation INTEGER,  -- how many questions were asked so far
        question TEXT,       -- the id of the newest question
        call TEXT,           -- the call that it asks to approve
        decision TEXT,       -- what was decided on it, by whom and why
        due REAL,            -- when it is overdue
        note TEXT            -- the receipt, or why nothing was paid
    )
"""

MOVES = {
    "new": ["classified"],
    "classified": ["waiting_approval"],
    "waiting_approval": ["approved", "rejected", "classified", "expired"],
    "rejected": ["waiting_approval"],
    "approved": ["sent", "failed"],
}

# %% [markdown]
# Each move is one conditional `UPDATE`. If the refund is no longer where the caller believes it to be, no row matches
# and nothing changes. `rowcount` tells.


# %%
def move(desk, refund, old, new, **fields):
    """Move a refund from one status to another, if it is there; say whether it was."""
    if new not in MOVES.get(old, []):
        raise ValueError(f"no refund goes from {old} to {new}")
    fields |= {"status": new}
    names = ", ".join(f"{name} = ?" for name in fields)
    change = f"UPDATE refunds SET {names} WHERE id = ? AND status = ?"
    with closing(desk.table()) as db, db:
        return db.execute(change, (*fields.values(), refund, old)).rowcount == 1


def look(desk, refund):
    """The row of a refund, as a dict."""
    with closing(desk.table()) as db:
        db.row_factory = sqlite3.Row
        row = dict(db.execute("SELECT * FROM refunds WHERE id = ?", (refund,)).fetchone())
    return row | {name: json.loads(row[name] or "null") for name in ("call", "decision")}


# %% [markdown]
# The agent's tools. A model sends its arguments as it likes, often as text, and leaves some out. `as_it_runs` gives the
# call as it will run: each argument in the tool's own type, defaults filled in. A call that does not fit raises.


# %%
def refund(order: str, amount: int, currency: str = "EUR"):
    """Pay money back for an order."""


def voucher(order: str, amount: int, days: int = 90):
    """Give a voucher for an order."""


def credit(order: str, amount: int, currency: str = "EUR"):
    """Put money on the customer's account for an order."""


TOOLS = {"refund": refund, "voucher": voucher, "credit": credit}


def as_it_runs(call):
    tool = TOOLS[call["tool"]]
    bound = inspect.signature(tool).bind(**call["args"])
    bound.apply_defaults()
    args = {name: tool.__annotations__[name](value) for name, value in bound.arguments.items()}
    return {"tool": call["tool"], "args": args}


print(as_it_runs({"tool": "refund", "args": {"amount": "800", "order": "A-17"}}))


# %% [markdown]
# `model` stands for a chat model: it reads the messages and proposes a call, or nothing.


# %%
class Case(TypedDict, total=False):
    refund: str
    order: str
    amount: int
    messages: Annotated[list[str], operator.add]
    call: dict
    decision: dict


def model(state):
    heard = [message.split(":")[0] for message in state["messages"]]
    args = {"order": state["order"], "amount": str(state["amount"])}
    if heard[-1] == "customer":
        return {"tool": "refund", "args": args, "why": "the parcel came empty"}
    if heard[-1] == "ask":
        return {"tool": "refund", "args": args, "why": "empty: the carrier weighed it at 0.1 kg"}
    if heard[-1] == "reject" and heard.count("reject") == 1:
        return {"tool": "voucher", "args": args | {"amount": "100"}, "why": "no refund, so this"}
    return None


# %% [markdown]
# And the graph. `ask` only asks, as in `08_interrupt`. `act` is the only node that acts; what it calls, `carry_out`,
# you will write. After a no, or when the person wants to know more, it is the agent's turn again.


# %%
def ask(state):
    made = interrupt(as_it_runs(state["call"]) | {"why": state["call"]["why"]})
    call = made.get("call", state["call"])
    return {"decision": made, "call": call, "messages": [f"{made['do']}: {made['why']}"]}


def make_graph(desk):
    def classify(state):
        move(desk, state["refund"], "new", "classified")
        return {}

    def agent(state):
        return {"call": model(state)}

    def act(state):
        return {"messages": [f"tool: {carry_out(desk, state['refund'], state['call'])}"]}

    def after_ask(state):
        where = {"reject": "agent", "ask": "agent", "expire": END}
        return where.get(state["decision"]["do"], "act")

    builder = StateGraph(Case)
    builder.add_node("classify", classify).add_edge(START, "classify")
    builder.add_node("agent", agent).add_edge("classify", "agent")
    builder.add_node("ask", ask).add_node("act", act).add_edge("act", END)
    builder.add_conditional_edges("agent", lambda s: "ask" if s["call"] else END, ["ask", END])
    builder.add_conditional_edges("ask", after_ask, ["agent", "act", END])
    return builder


# %% [markdown]
# When the thread asks, the table has to hear of it. `keep_in_step` does that: a question that the table does not know
# opens a new **generation** of the refund. It is called after each run, and again after a crash.
#
# Time is always passed in. A desk that looks at the clock by itself cannot be tested.

# %%
NOW, DAY = 1_000_000, 24 * 3600


def thread(refund):
    return {"configurable": {"thread_id": refund}}


@contextmanager
def opened(desk):
    with SqliteSaver.from_conn_string(str(desk.path / "threads.sqlite")) as saver:
        yield make_graph(desk).compile(checkpointer=saver)


def keep_in_step(desk, graph, refund, now):
    """If the thread asks what the table does not know, open a new generation of the refund."""
    for question in graph.get_state(thread(refund)).interrupts:
        row = look(desk, refund)
        if row["question"] != question.id:
            new = {"question": question.id, "call": json.dumps(question.value), "decision": None}
            new |= {"generation": row["generation"] + 1, "due": now + DAY}
            move(desk, refund, row["status"], "waiting_approval", **new)


def submit(desk, refund, order, amount, now):
    with closing(desk.table()) as db, db:
        db.execute("INSERT INTO refunds (id, status, generation) VALUES (?, 'new', 0)", (refund,))
    begin = {"refund": refund, "order": order, "amount": amount}
    begin["messages"] = ["customer: I want my money back"]
    with opened(desk) as graph:
        graph.invoke(begin, thread(refund), durability="sync")
        keep_in_step(desk, graph, refund, now)
    return os.getpid()


# %% [markdown]
# `new_desk` makes a desk in an empty folder. Ben may approve up to 1000, ana up to 100.


# %%
@contextmanager
def new_desk():
    with WorkFolder.fresh() as folder:
        desk = Desk(folder.path)
        with closing(desk.table()) as db:
            db.execute(TABLE)
        desk.shop.set_order("A-17", "returned", 800)
        desk.shop.set_limit("ben", 1000)
        desk.shop.set_limit("ana", 100)
        yield desk


with new_desk() as desk:
    life = launch(submit, desk, "R-1", "A-17", 800, NOW, echo=False)
    there = psutil.pid_exists(life.result())
    print(f"process {life.value} has ended; it is {'still there' if there else 'gone'}")
    for name, value in look(desk, "R-1").items():
        print(f"  {name:11}{value}")
    with opened(desk) as graph:
        drawn = history(graph, thread("R-1"), "The thread of R-1 waits")

# %%
drawn

# %% [markdown]
# The thread waits in one file, the row in another. No process waits. It may stay like that for a day or for a month.
#
# ## Predict: somebody presses
#
# Tomorrow somebody presses "yes" or "no", and a program calls `invoke(Command(resume=answer), config)`. Five things may
# be wrong about that call. To see them clearly, take a smaller graph: it asks twice, first about the plan, then about
# the money, and it pays if the second answer is "yes". (With `one_node` both questions are in one node. That is for
# later.)


# %%
class Small(TypedDict, total=False):
    plan: str
    answer: str


def small_graph(book, one_node=False, ready=lambda: None):
    def plan(state):
        return {"plan": interrupt("Is the plan right?")}

    def ask(state):
        answer = interrupt("Pay 800?")
        ready()
        return {"answer": answer}

    def both(state):
        return {"plan": interrupt("Is the plan right?"), "answer": interrupt("Pay 800?")}

    def pay(state):
        book.effect("pay 800")

    def after(state):
        return "pay" if state["answer"] == "yes" else END

    nodes = [both] if one_node else [plan, ask]
    builder = StateGraph(Small).add_sequence(nodes).add_node(pay)
    builder.add_edge(START, nodes[0].__name__)
    return builder.add_conditional_edges(nodes[-1].__name__, after, ["pay", END])


# %% [markdown]
# Five presses, each on a new thread R-7:
#
# 1. `mistyped_thread`: the thread asks about the plan. "yes" is pressed, with a thread id that has a typing error.
# 2. `double_click`: "yes" to the plan, and then the same click once more.
# 3. `killed_after_yes`: "yes" to the plan, "yes" to the money. The node `ask` has returned, and its result is on disk
#    as a pending write. The process is killed before the checkpoint is. Then somebody presses "no".
# 4. `no_at_an_old_checkpoint`: "yes" and "yes", and 800 are paid. Then somebody presses "no", with the config of the
#    checkpoint that asked.
# 5. `goto_pay`: "yes" to the plan. A colleague's script calls `invoke(Command(goto="pay"))` on the waiting thread. Then
#    somebody presses "no".
#
# The next three cells make them. You may run them without reading.


# %%
class Saver(SqliteSaver):
    """On a file. The checkpoint of the step `late` waits until the answer of a node is on disk.

    (LangGraph hands both to threads of its own, which is a race. Here the order is forced.)
    """

    def __init__(self, path, late=None):
        super().__init__(sqlite3.connect(path, check_same_thread=False))
        self.late, self.answer_saved = late, threading.Event()

    def put_writes(self, config, writes, task_id, task_path=""):
        super().put_writes(config, writes, task_id, task_path)
        if any(channel == "__resume__" and isinstance(value, list) for channel, value in writes):
            self.answer_saved.set()

    def put(self, config, checkpoint, metadata, versions):
        if metadata["step"] == self.late:
            self.answer_saved.wait()
            self.late = None
        return super().put(config, checkpoint, metadata, versions)


@contextmanager
def small(folder, one_node=False, ready=lambda: None, late=None):
    saver = Saver(folder.path / "small.sqlite", late)
    with closing(saver.conn):
        yield small_graph(journal(folder), one_node, ready).compile(checkpointer=saver)


def journal(folder):
    return Journal(folder.path / "book.jsonl")


# %%
R7, TYPO = thread("R-7"), thread("R-T")


def question(graph, config):
    """The id of the open question."""
    [asked] = graph.get_state(config).interrupts
    return asked.id


def answered(graph, answer):
    """Answer the open question as it should be; return its id."""
    asked = question(graph, R7)
    graph.invoke(Command(resume={asked: answer}), R7, durability="sync")
    return asked


def say_yes(folder, late=None):
    with small(folder, late=late) as graph:
        answered(graph, "yes")


def asked_for_money(folder):
    """A thread that asks about the money; return the id of that question."""
    with small(folder) as graph:
        graph.invoke({}, R7)
        answered(graph, "yes")
        return question(graph, R7)


def press_plainly(graph, config, question_id, answer):
    graph.invoke(Command(resume=answer), config, durability="sync")


def press_by_id(graph, config, question_id, answer):
    graph.invoke(Command(resume={question_id: answer}), config, durability="sync")


# %%
def mistyped_thread(folder, press):
    with small(folder) as graph:
        graph.invoke({}, R7)
        press(graph, TYPO, question(graph, R7), "yes")


def double_click(folder, press, one_node=False):
    with small(folder, one_node) as graph:
        graph.invoke({}, R7)
        first = answered(graph, "yes")
        press(graph, R7, first, "yes")


def killed_after_yes(folder, press):
    asked = asked_for_money(folder)
    launch(say_yes, folder, 2, kill_before="self.late = None", echo=False)
    with small(folder) as graph:
        press(graph, R7, asked, "no")


def no_at_an_old_checkpoint(folder, press):
    with small(folder) as graph:
        graph.invoke({}, R7)
        answered(graph, "yes")
        old, asked = graph.get_state(R7).config, question(graph, R7)
        answered(graph, "yes")
        press(graph, old, asked, "no")


def goto_pay(folder, press):
    with small(folder) as graph:
        graph.invoke({}, R7)
        answered(graph, "yes")
        graph.invoke(Command(goto="pay"), R7, durability="sync")
        press(graph, R7, question(graph, R7), "no")


PRESSES = [mistyped_thread, double_click, killed_after_yes, no_at_an_old_checkpoint, goto_pay]

# %% [markdown]
# How often are 800 paid in each, pressed as most programs do, by `press_plainly`? Assign a list of five numbers to
# `predicted_payments`.

# %% answer id="predict_payments"
### BEGIN SOLUTION
predicted_payments = [0, 1, 1, 2, 1]
### END SOLUTION

# %% wrong loses="predict_payments_check" why="a no is a no"
predicted_payments = [0, 1, 0, 1, 1]

# %% wrong loses="predict_payments_check" why="a question that is answered cannot be answered again"
predicted_payments = [0, 0, 1, 1, 1]

# %% wrong loses="predict_payments_check" why="a waiting thread lets nobody past the question"
predicted_payments = [0, 1, 1, 2, 0]

# %% wrong loses="predict_payments_check" why="the newest answer wins"
predicted_payments = [0, 1, 0, 1, 0]

# %% wrong loses="predict_payments_check" why="one number for all"
predicted_payments = 1

# %% right why="a tuple"
predicted_payments = (0, 1, 1, 2, 1)

# %% test id="predict_payments_check" points=1
measured = []
for situation in PRESSES:
    with WorkFolder.fresh() as folder:
        situation(folder, press_plainly)
        measured.append(journal(folder).count("pay 800"))
problem = differs(predicted_payments, measured, [situation.__name__ for situation in PRESSES])
assert not problem, f"{problem}. Ask which question the answer meets, and what is saved for it."

# %% [markdown]
# ## See it
#
# Two ways to press: the answer alone, and the answer under the id of its question. And two situations more: a double
# click where both questions are in one node, and a node that raises an exception after its answer, before somebody
# presses "no". Each row says in brackets what was pressed, first on the plan, then on the money.
#
# * "over": 800 were paid, and the last word on the money was "no", or nobody had said a word on it.
# * "again": another run was started.
# * "kept": neither.


# %%
def double_click_in_one_node(folder, press):
    double_click(folder, press, one_node=True)


def no_network():
    raise ConnectionError("no network")


def failed_after_yes(folder, press):
    asked = asked_for_money(folder)
    with small(folder, ready=no_network) as graph, suppress(ConnectionError):
        answered(graph, "yes")
    with small(folder) as graph:
        press(graph, R7, asked, "no")


# %%
AGREED = {no_at_an_old_checkpoint: 1}  # payments that somebody did agree to
SITUATIONS = {
    mistyped_thread: "yes to the plan",
    double_click: "yes to the plan, twice",
    double_click_in_one_node: "yes to the plan, twice",
    failed_after_yes: "yes, yes, then no",
    killed_after_yes: "yes, yes, then no",
    no_at_an_old_checkpoint: "yes, yes, then no",
    goto_pay: "yes to the plan, then no",
}


def outcome(situation, press):
    with WorkFolder.fresh() as folder:
        situation(folder, press)
        with small(folder) as graph:
            if graph.get_state(TYPO).created_at:
                return "again"
        paid = journal(folder).count("pay 800")
        return "over" if paid > AGREED.get(situation, 0) else "kept"


def outcomes(presses):
    found = {}
    for situation, pressed in SITUATIONS.items():
        words = f"({pressed})".replace(" ", "\N{NO-BREAK SPACE}")
        name = f"{situation.__name__.replace('_', ' ')} {words}"
        found[name] = {way: outcome(situation, press) for way, press in presses.items()}
    return found


PRESSED = {"plain answer": press_plainly, "by id": press_by_id}
outcome_matrix(outcomes(PRESSED), "What a wrong press did")

# %% [markdown]
# ## Why
#
# * A thread id that nobody knows is a new thread. `Command` brings no input, and the run starts at the first node.
# * A plain answer is given to the thread, not to a question. It meets whatever is open.
# * The id helps against that, as long as each question has a node of its own. In one node, the id of the first question
#   answers the second too.
# * An answer is saved for its node when the node ends, with a result or with an exception. From then on it is final,
#   and a "no" that comes later is dropped without a word. After an exception the question is still listed as open.
#   After the kill it is not: the node has returned.
# * A checkpoint that asked keeps the answer it got. Resumed there, the graph goes on from it again, with the old "yes".
# * `goto` does not pass the question, it goes round it. No press can help; the node that pays has to.
#
# One value more that you met in `08_interrupt`: `resume=None` raises an error that speaks of something else, and
# `resume={}` answers nothing. By id both arrive.
#
# ## Fix it: `answer_once`
#
# Write `answer_once(graph, config, question_id, answer)`. It answers that question, if it is open now, and goes on to
# the next stop. Of the config only the thread counts. The question is looked for, and answered, at the *newest*
# checkpoint of that thread, also where the config names an older one. Use `durability="sync"`: what comes after the
# answer must not run before its checkpoint is on disk.
#
# In all other cases it raises `Refused`, which runs no node and changes nothing:
#
# * No such thread, no such question, or the question is not open: another one is, or none.
# * `None` and `{}` are no decision.
# * The question is open, but *another* answer is saved for it, as in `failed_after_yes`.
#
# The *same* answer as the saved one is no mistake. Whoever gives it wants the work to go on that an exception
# interrupted. So it goes on.
#
# In `killed_after_yes` no question is open. So each answer is refused there, "yes" as well as "no". The yes that is
# saved is final, and `invoke(None)` goes on with it.
#
# All other values arrive as they are, `False`, `0` and `""` too. Where several questions are open at once, the others
# stay open. A node that asks twice is not supported: the id of its first question answers the second too, and the first
# answer is listed under the id of the second.
#
# About ten lines. The state says what is open. `saved_answers` says what is saved, for a question that is open or not:


# %%
class Refused(Exception):
    """The answer is not given, and nothing has changed. The message says why."""


def saved_answers(graph, config):
    """For each question, open or not, the answers that are saved for its node, oldest first.

    The questions are those that the nodes of this checkpoint have asked.
    """
    writes = graph.checkpointer.get_tuple(config).pending_writes
    answers = {task: value for task, channel, value in writes if channel == "__resume__"}
    asked = [(task, value) for task, channel, value in writes if channel == "__interrupt__"]
    return {each.id: answers.get(task, []) for task, questions in asked for each in questions}


def tell(graph, config, asked, answer):
    is_open = asked in [each.id for each in graph.get_state(config).interrupts]
    print("open" if is_open else "not open", "| saved:", saved_answers(graph, config))


for situation in (failed_after_yes, killed_after_yes):
    with WorkFolder.fresh() as folder:
        print(situation.__name__, end=": ")
        situation(folder, tell)

# %% [markdown]
# The checks let `answer_once` press in each situation, and in three more.


# %%
def finished_thread(folder, press):
    with small(folder) as graph:
        graph.invoke({}, R7)
        answered(graph, "yes")
        asked = question(graph, R7)
        answered(graph, "yes")
        press(graph, R7, asked, "yes")


def asked_anew(folder, press):
    with small(folder) as graph:
        graph.invoke({}, R7)
        answered(graph, "yes")
        asked = question(graph, R7)
        graph.invoke({"plan": "pay 9999"}, R7)
        answered(graph, "yes")
        press(graph, R7, asked, "yes")


def open_question_and_old_config(folder, press):
    """800 were paid, and a new input asks anew. "no" to that, with the config of the old one."""
    with small(folder) as graph:
        graph.invoke({}, R7)
        answered(graph, "yes")
        old = graph.get_state(R7).config
        answered(graph, "yes")
        graph.invoke({"plan": "pay again"}, R7)
        answered(graph, "yes")
        press(graph, old, question(graph, R7), "no")


# %% [markdown]
# `pressing` notes what `answer_once` did. In the last check two nodes ask at the same time. And a disk is full at the
# moment when the checkpoint after the answer is to be written.


# %%
def pressing(*args):
    """What `answer_once` did, in a word, and what it said."""
    try:
        return "returned", repr(answer_once(*args))
    except NotImplementedError:
        raise
    except Refused as refusal:
        return "refused", str(refusal)
    except Exception as error:
        return "raised", f"{type(error).__name__}: {error}"


def two_questions(answer):
    """Answer one of two questions that are open at once; return what was done, got and is open."""
    given = []

    def node(state):
        given.append(interrupt("?"))

    builder = StateGraph(Small)
    for name in ("one", "other"):
        builder.add_node(name, node).add_edge(START, name)
    graph = builder.compile(InMemorySaver())
    asked = graph.invoke({}, R7)["__interrupt__"][-1]
    did, said = pressing(graph, R7, asked.id, answer)
    return f"{did} {said}", given, len(graph.get_state(R7).interrupts)


# %%
class FullDisk(InMemorySaver):
    def put(self, config, checkpoint, metadata, versions):
        if metadata["step"] == 2:
            raise OSError("the disk is full")
        return super().put(config, checkpoint, metadata, versions)


def paid_on_a_full_disk():
    """Say yes to the money; return what was done, and the number of payments."""
    with WorkFolder.fresh() as folder:
        graph = small_graph(journal(folder)).compile(FullDisk())
        graph.invoke({}, R7)
        answered(graph, "yes")
        did = " ".join(pressing(graph, R7, question(graph, R7), "yes"))
        return did, journal(folder).count("pay 800")


# %% [markdown]
# Such a press must be refused, and the thread must be as before.


# %%
def rows_of(folder):
    """All that is saved: the number of checkpoints and of writes."""
    with closing(sqlite3.connect(folder.path / "small.sqlite")) as db:
        tables = ("checkpoints", "writes")
        return [db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables]


def wrongly_pressed(situation, instead=None):
    """One sentence on what `answer_once` did in a situation that it should refuse, or ""."""
    told = {}

    def press(graph, config, asked, answer):
        told["pressed"] = instead or answer
        told["before"] = rows_of(folder), journal(folder).count("pay 800")
        told["did"], told["said"] = pressing(graph, config, asked, told["pressed"])
        told["after"] = rows_of(folder), journal(folder).count("pay 800")

    with WorkFolder.fresh() as folder:
        situation(folder, press)
    name = f"{situation.__name__}, then {told['pressed']!r}"
    if told["before"][1] != told["after"][1]:
        return f"{name}: 800 were paid; expected Refused"
    if told["did"] != "refused":
        return f"{name}: answer_once {told['did']} {told['said']}; expected Refused"
    if told["before"] != told["after"]:
        return f"{name}: it was refused, and yet the thread has new rows; expected it as before"
    return "" if told["said"] else f"{name}: refused without a word; expected a message"


# %% answer id="answer_once"
def answer_once(graph, config, question_id, answer):
    """Give the answer to that open question and go on, or raise Refused."""
    ### BEGIN SOLUTION
    if answer is None or answer == {}:
        raise Refused(f"{answer!r} is no decision")
    newest = thread(config["configurable"]["thread_id"])
    waiting = [each.id for each in graph.get_state(newest).interrupts]
    if question_id not in waiting:
        raise Refused(f"this question is not open; open are {waiting}")
    saved = saved_answers(graph, newest).get(question_id, [])
    if saved and saved != [answer]:
        raise Refused(f"it was answered by {saved[-1]!r}")
    return graph.invoke(Command(resume={question_id: answer}), newest, durability="sync")
    ### END SOLUTION


# %% wrong loses="answer_thread answer_question answer_saved answer_values" carries="deliver_kills" why="as most programs do"
def answer_once(graph, config, question_id, answer):
    return graph.invoke(Command(resume=answer), config, durability="sync")


# %% wrong loses="answer_thread answer_question answer_saved answer_values" why="the id is enough"
def answer_once(graph, config, question_id, answer):
    return graph.invoke(Command(resume={question_id: answer}), config, durability="sync")


# %% wrong loses="answer_thread" carries="deliver_kills" why="looks at the state that the config names"
def answer_once(graph, config, question_id, answer):
    if answer is None or answer == {}:
        raise Refused("no decision")
    if question_id not in [each.id for each in graph.get_state(config).interrupts]:
        raise Refused("not open")
    saved = saved_answers(graph, thread("R-7")).get(question_id, [])
    if saved not in ([], [answer]):
        raise Refused("answered")
    return graph.invoke(Command(resume={question_id: answer}), config, durability="sync")


# %% wrong loses="answer_thread" why="looks at the newest checkpoint, and answers at the one that the config names"
def answer_once(graph, config, question_id, answer):
    newest = thread(config["configurable"]["thread_id"])
    if answer is None or answer == {}:
        raise Refused("no decision")
    if question_id not in [each.id for each in graph.get_state(newest).interrupts]:
        raise Refused("not open")
    if saved_answers(graph, newest).get(question_id, []) not in ([], [answer]):
        raise Refused("answered")
    return graph.invoke(Command(resume={question_id: answer}), config, durability="sync")


# %% wrong loses="answer_saved" why="what has a saved answer is open, so the same answer goes on"
def answer_once(graph, config, question_id, answer):
    config = thread(config["configurable"]["thread_id"])
    if answer is None or answer == {}:
        raise Refused("no decision")
    if graph.get_state(config).created_at is None:
        raise Refused("no such thread")
    if question_id not in saved_answers(graph, config):
        raise Refused("not open")
    if saved_answers(graph, config)[question_id] not in ([], [answer]):
        raise Refused("answered")
    return graph.invoke(Command(resume={question_id: answer}), config, durability="sync")


# %% wrong loses="answer_saved" why="when it is written is the business of LangGraph"
def answer_once(graph, config, question_id, answer):
    config = thread(config["configurable"]["thread_id"])
    if answer is None or answer == {}:
        raise Refused("no decision")
    if question_id not in [each.id for each in graph.get_state(config).interrupts]:
        raise Refused("not open")
    if saved_answers(graph, config).get(question_id, []) not in ([], [answer]):
        raise Refused("answered")
    return graph.invoke(Command(resume={question_id: answer}), config)


# %% wrong loses="answer_question" why="something is open, so the answer is for that"
def answer_once(graph, config, question_id, answer):
    config = thread(config["configurable"]["thread_id"])
    if answer is None or answer == {}:
        raise Refused("no decision")
    state = graph.get_state(config)
    if not state.interrupts:
        raise Refused("nothing is open")
    asked = question_id if len(state.interrupts) > 1 else state.interrupts[0].id
    if saved_answers(graph, config).get(asked, []) not in ([], [answer]):
        raise Refused("answered")
    return graph.invoke(Command(resume={asked: answer}), config, durability="sync")


# %% wrong loses="answer_saved" why="a question that is listed has no answer yet"
def answer_once(graph, config, question_id, answer):
    config = thread(config["configurable"]["thread_id"])
    if answer is None or answer == {}:
        raise Refused("no decision")
    if question_id not in [each.id for each in graph.get_state(config).interrupts]:
        raise Refused("not open")
    return graph.invoke(Command(resume={question_id: answer}), config, durability="sync")


# %% wrong loses="answer_saved" why="a saved answer closes the question, whatever comes now"
def answer_once(graph, config, question_id, answer):
    config = thread(config["configurable"]["thread_id"])
    if answer is None or answer == {}:
        raise Refused("no decision")
    if question_id not in [each.id for each in graph.get_state(config).interrupts]:
        raise Refused("not open")
    if saved_answers(graph, config).get(question_id):
        raise Refused("answered")
    return graph.invoke(Command(resume={question_id: answer}), config, durability="sync")


# %% wrong loses="answer_values" why="what is false is no decision"
def answer_once(graph, config, question_id, answer):
    config = thread(config["configurable"]["thread_id"])
    if not answer:
        raise Refused("no decision")
    if question_id not in [each.id for each in graph.get_state(config).interrupts]:
        raise Refused("not open")
    if saved_answers(graph, config).get(question_id, []) not in ([], [answer]):
        raise Refused("answered")
    return graph.invoke(Command(resume={question_id: answer}), config, durability="sync")


# %% wrong loses="answer_values" carries="deliver_kills" why="the question is open, so the plain answer will meet it"
def answer_once(graph, config, question_id, answer):
    config = thread(config["configurable"]["thread_id"])
    if question_id not in [each.id for each in graph.get_state(config).interrupts]:
        raise Refused("not open")
    if saved_answers(graph, config).get(question_id, []) not in ([], [answer]):
        raise Refused("answered")
    return graph.invoke(Command(resume=answer), config, durability="sync")


# %% wrong loses="answer_thread answer_question answer_saved answer_values" carries="deliver_kills" why="refuses everything"
def answer_once(graph, config, question_id, answer):
    raise Refused("not open")


# %% wrong loses="answer_thread answer_question answer_saved" why="tries, and looks afterwards whether it went well"
def answer_once(graph, config, question_id, answer):
    config = thread(config["configurable"]["thread_id"])
    if answer is None or answer == {}:
        raise Refused("no decision")
    state = graph.get_state(config)
    if state.interrupts and saved_answers(graph, config).get(question_id, []) not in ([], [answer]):
        raise Refused("answered")
    result = graph.invoke(Command(resume={question_id: answer}), config, durability="sync")
    if question_id not in [each.id for each in state.interrupts]:
        raise Refused("not open")
    return result


# %% right why="reads the history of the thread in one go"
def answer_once(graph, config, question_id, answer):
    if answer in (None, {}):
        raise Refused("this is no decision")
    config = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
    newest = read_history(graph, config).newest
    tasks = graph.get_state(config).tasks
    open_ids = {each.id for task in tasks if not task.result for each in task.interrupts}
    if newest is None or question_id not in open_ids:
        raise Refused("this question is not open")
    match saved_answers(graph, config)[question_id]:
        case [known] if known != answer:
            raise Refused(f"the answer is {known!r} already")
    graph.invoke(Command(resume={question_id: answer}), config, durability="sync")


# %% [markdown]
# First the thread: an id with a typing error, a thread that has finished, an old checkpoint. Then a question that is
# open, with a config that names an old checkpoint. Then an honest press.

# %% test id="answer_thread" points=1
for situation in (mistyped_thread, finished_thread, no_at_an_old_checkpoint):
    problem = wrongly_pressed(situation)
    assert not problem, f"{problem}. Look at the newest state of the thread, before you answer."
with WorkFolder.fresh() as folder:
    did = []
    open_question_and_old_config(folder, lambda *press: did.extend(pressing(*press)))
    paid = journal(folder).count("pay 800")
    with small(folder) as graph:
        found = graph.get_state(R7).values.get("answer")
assert (did[0], found, paid) == ("returned", "no", 1), (
    f"paid once, asked anew, and 'no' to the open question with an older config: answer_once "
    f"{' '.join(did)}, the newest answer is {found!r}, payments: {paid}; expected that the 'no' is "
    "given at the newest checkpoint, and one payment. Which config does invoke get?"
)
with WorkFolder.fresh() as folder, small(folder) as graph:
    graph.invoke({}, R7)
    did = [pressing(graph, R7, question(graph, R7), "yes")[0]]
    did += [pressing(graph, R7, question(graph, R7), "yes")[0]] if did == ["returned"] else []
    paid = journal(folder).count("pay 800")
assert did == ["returned", "returned"] and paid == 1, (
    f"both questions answered by yes: answer_once {' and '.join(did)}, and there are {paid} "
    "payments; expected that both are given, and one payment"
)

# %% [markdown]
# The question: a double click, the same where one node asks both, and a question that a new input has replaced.

# %% test id="answer_question" points=1
for situation in (double_click, double_click_in_one_node, asked_anew):
    problem = wrongly_pressed(situation)
    assert not problem, f"{problem}. Is the question that was answered the one that is open?"
with WorkFolder.fresh() as folder, small(folder) as graph:
    graph.invoke({}, R7)
    did, said = pressing(graph, graph.get_state(R7).config, question(graph, R7), "yes")
    found = graph.get_state(R7).values
assert did == "returned" and found == {"plan": "yes"}, (
    f"the open question, with the config of the newest checkpoint: answer_once {did} {said}, and "
    f"the state is {found}; expected that the answer is given"
)


# %% [markdown]
# The saved answer: a node has ended with a "yes", and now somebody says "no". Or "yes" again. Then the full disk.


# %% test id="answer_saved" points=1
problem = wrongly_pressed(failed_after_yes)
assert not problem, f"{problem}. The question is open, and saved_answers says what is saved for it."
for answer in ("no", "yes"):
    problem = wrongly_pressed(killed_after_yes, answer)
    assert not problem, f"{problem}. No question is open there: ask get_state, not saved_answers."
did = []
with WorkFolder.fresh() as folder:
    failed_after_yes(
        folder, lambda graph, config, asked, no: did.extend(pressing(graph, config, asked, "yes"))
    )
    paid = journal(folder).count("pay 800")
assert did[0] == "returned" and paid == 1, (
    f"failed after yes, and the same yes again: answer_once {' '.join(did)}, and there are {paid} "
    "payments; expected that the thread goes on, and one payment"
)
did, paid = paid_on_a_full_disk()
assert paid == 0, (
    f"the disk is full at the checkpoint after the answer: answer_once {did}, and 800 were paid; "
    'expected no payment. With durability="sync" nothing runs before that checkpoint is on disk'
)

# %% [markdown]
# Last the values. Two nodes ask at once; one of them is answered.


# %% test id="answer_values" points=1
for answer in ("no", False, 0, "", [], {"do": "reject"}):
    did, given, still_open = two_questions(answer)
    assert (given, still_open) == ([answer], 1) and type(given[0]) is type(answer), (
        f"{answer!r} to one of two questions: answer_once {did}; given were {given}, and "
        f"{still_open} questions are open; expected [{answer!r}], and one"
    )
for answer in (None, {}):
    did, given, still_open = two_questions(answer)
    assert did.startswith("refused") and (given, still_open) == ([], 2), (
        f"{answer!r} to one of two questions: answer_once {did}; given were {given}; expected "
        "Refused, and both questions open"
    )

# %% [markdown]
# The matrix again, with yours beside the other two. In `killed_after_yes` the "no" is refused aloud, and that press
# pays nothing. The yes stays final: whoever goes on by `invoke(None)` pays. One row stays as it was.


# %%
def press_once(*args):
    try:
        answer_once(*args)
    except Refused as refusal:
        print("refused:", refusal)


outcome_matrix(outcomes(PRESSED | {"answer_once": press_once}), "What a wrong press did")

# %% [markdown]
# Two more things that people do to a waiting thread. Somebody changes the state by `update_state`, and the question is
# no longer listed, though `next` still names the node. Or somebody passes an answer as if it were an input. That is
# saved before it is checked: it is refused, and so is everything that comes after it.

# %%
with WorkFolder.fresh() as folder, small(folder) as graph:
    graph.invoke({}, R7)
    first = question(graph, R7)
    graph.update_state(R7, {"plan": "looked at by hand"})
    print("updated:     ", graph.get_state(R7).next, graph.get_state(R7).interrupts)
    print("answer_once: ", pressing(graph, R7, first, "yes"))
    graph.invoke(None, R7)
    again = question(graph, R7)
    print("asked again: ", "under a new id" if again != first else "under the old id")
    waiting = graph.get_state(R7).config
    for value in ("yes", None):
        try:
            graph.invoke(value, R7)
        except InvalidUpdateError as error:
            print(f"invoke({value!r}):", str(error).splitlines()[0])
    print("answer_once: ", pressing(graph, R7, question(graph, waiting), "yes"))
    graph.invoke(Command(resume={question(graph, waiting): "yes"}), waiting)
    print("taken up:    ", graph.get_state(R7).values, graph.get_state(R7).next)

# %% [markdown]
# In both cases the guard refuses, and it is right to: it is not clear what a "yes" would mean now. After an update,
# `invoke(None)` asks again. After a bad input, the thread has to be taken up at the checkpoint before it, as the last
# line shows.

# %% [markdown]
# ## Two at the same moment
#
# `answer_once` looks, then acts. Between the two somebody else can look. LangGraph has no lock for a thread. Here this
# process answers "yes", and while it is in the node `ask`, another process answers "yes" as well:

# %%
with WorkFolder.fresh() as folder:
    asked = asked_for_money(folder)

    def meanwhile():
        print("another process:", launch(say_yes, folder, echo=False).end)

    with small(folder, ready=meanwhile) as graph:
        print("this process:   ", pressing(graph, R7, asked, "yes")[0])
        print("payments:       ", journal(folder).count("pay 800"))

# %% [markdown]
# Both were told that all is well, and 1600 are gone. So one press has to *win*, in one step, before anybody touches the
# thread. That step is in the table: a conditional `UPDATE`. SQLite lets one process write at a time, so of two that try
# to take a row out of `waiting_approval`, one finds it there.
#
# And which question does the press mean? The screen that ben sees may be an hour old, and the agent may have asked
# something else since. The **generation** number says it: the screen sends the number that it showed.
#
# ## Fix it: `claim`
#
# Write `claim(db, refund, generation, status, decision)`. `db` is a connection to the table; `decision` is a text. If
# the refund waits for approval, in that generation, the row gets the `status` and the `decision`, for good, and
# `claim` returns `True`. If not, it returns `False` and changes nothing. About six lines.


# %%
def waiting_row(desk, refund="R-1", generation=1, status="waiting_approval", due=NOW + DAY, **more):
    """Put a refund into the table as if its thread had asked."""
    call = {"tool": "refund", "args": {"order": "A-17", "amount": 50, "currency": "EUR"}}
    row = {"id": refund, "status": status, "generation": generation, "due": due, "question": "q"}
    row |= {"call": json.dumps(call | {"why": "broken"})} | more
    with closing(desk.table()) as db, db:
        marks = ", ".join("?" for _ in row)
        db.execute(f"INSERT INTO refunds ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def all_rows(desk):
    with closing(desk.table()) as db:
        return db.execute("SELECT * FROM refunds ORDER BY id").fetchall()


def claim_by(desk, name, wait=5.0):
    """Claim in a process of its own. An error means that somebody else was writing all the time."""
    with closing(desk.table()) as db:
        db.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")
        try:
            return claim(db, "R-1", 1, "approved", json.dumps({"do": "approve", "by": name}))
        except sqlite3.OperationalError as error:
            return str(error)


# %% [markdown]
# The check forces the order, by two real processes. This one claims, and just before its first SQL statement another
# one claims, whole. Then again before the second statement, and so on, and at last after it. Where this process holds
# the lock, the other one has to wait until it is done.


# %%
def claim_against_another(moment):
    """Claim, and let another process claim before the statement with this number."""
    lives, statements = [], []

    def other(wait):
        lives.append(launch(claim_by, desk, "ben", wait, echo=False))

    def on_statement(sql):
        statements.append(sql)
        if len(statements) == moment:
            other(0.05)

    with new_desk() as desk:
        waiting_row(desk)
        with closing(desk.table()) as db:
            db.set_trace_callback(on_statement)
            mine = claim(db, "R-1", 1, "approved", '{"do": "approve", "by": "ana"}')
            db.set_trace_callback(None)
        if not lives or lives[-1].result() == "database is locked":
            other(5.0)
        row = look(desk, "R-1")
        won = {"ana": mine, "ben": lives[-1].result()}
        return won, row["decision"] and row["decision"]["by"], len(statements)


# %% [markdown]
# And two judges: one for a claim that was killed, one for several that were made.


# %%
@contextmanager
def one_waits():
    with new_desk() as desk:
        waiting_row(desk)
        yield desk


def claim_by_ben(desk):
    return claim_by(desk, "ben")


def both_or_neither(desk):
    row = look(desk, "R-1")
    known = {("approved", True): "new", ("waiting_approval", False): "old"}
    return known.get((row["status"], bool(row["decision"])), "torn")


def wrong_winner(won, holder):
    """One sentence on how two or more who press came out of it, or ""."""
    if not all(isinstance(each, bool | int) for each in won.values()):
        return f"claim returned {won}; expected True or False"
    winners = [name for name, each in won.items() if each]
    if len(winners) != 1:
        return f"{len(winners)} of {len(won)} were told that they have won; expected one"
    return "" if holder == winners[0] else f"{winners[0]} was told so, and the row holds {holder}'s"


# %% answer id="claim"
def claim(db, refund, generation, status, decision):
    """Take a refund out of waiting_approval, if it is there in this generation; say whether."""
    ### BEGIN SOLUTION
    with db:
        taken = db.execute(
            "UPDATE refunds SET status = ?, decision = ?"
            " WHERE id = ? AND status = 'waiting_approval' AND generation = ?",
            (status, decision, refund, generation),
        )
    return taken.rowcount == 1
    ### END SOLUTION


# %% wrong loses="claim_race" why="looks whether it waits, then writes"
def claim(db, refund, generation, status, decision):
    row = db.execute("SELECT status, generation FROM refunds WHERE id = ?", (refund,)).fetchone()
    if row != ("waiting_approval", generation):
        return False
    with db:
        db.execute(
            "UPDATE refunds SET status = ?, decision = ? WHERE id = ?", (status, decision, refund)
        )
    return True


# %% wrong loses="claim_race" why="a transaction keeps others out, so look and write in one"
def claim(db, refund, generation, status, decision):
    with db:
        row = db.execute(
            "SELECT 1 FROM refunds WHERE id = ? AND status = 'waiting_approval' AND generation = ?",
            (refund, generation),
        ).fetchone()
        if row:
            change = "UPDATE refunds SET status = ?, decision = ? WHERE id = ?"
            db.execute(change, (status, decision, refund))
    return bool(row)


# %% wrong loses="claim_race claim_stale" why="the update is conditional, so whoever gets here has it"
def claim(db, refund, generation, status, decision):
    with db:
        db.execute(
            "UPDATE refunds SET status = ?, decision = ?"
            " WHERE id = ? AND status = 'waiting_approval' AND generation = ?",
            (status, decision, refund, generation),
        )
    return True


# %% wrong loses="claim_race claim_stale" carries="expire_due deliver_kills" why="forgets to commit"
def claim(db, refund, generation, status, decision):
    taken = db.execute(
        "UPDATE refunds SET status = ?, decision = ?"
        " WHERE id = ? AND status = 'waiting_approval' AND generation = ?",
        (status, decision, refund, generation),
    )
    return taken.rowcount == 1


# %% wrong loses="claim_stale" why="whatever waits now is meant"
def claim(db, refund, generation, status, decision):
    with db:
        taken = db.execute(
            "UPDATE refunds SET status = ?, decision = ?"
            " WHERE id = ? AND status = 'waiting_approval'",
            (status, decision, refund),
        )
    return taken.rowcount == 1


# %% wrong loses="claim_race claim_stale" why="the generation says which question, so it is enough"
def claim(db, refund, generation, status, decision):
    with db:
        taken = db.execute(
            "UPDATE refunds SET status = ?, decision = ? WHERE id = ? AND generation = ?",
            (status, decision, refund, generation),
        )
    return taken.rowcount == 1


# %% wrong loses="claim_stale" why="forgets whose row it is"
def claim(db, refund, generation, status, decision):
    with db:
        taken = db.execute(
            "UPDATE refunds SET status = ?, decision = ?"
            " WHERE status = 'waiting_approval' AND generation = ?",
            (status, decision, generation),
        )
    return taken.rowcount >= 1


# %% wrong loses="claim_stale" carries="deliver_kills" why="whoever claims approves"
def claim(db, refund, generation, status, decision):
    with db:
        taken = db.execute(
            "UPDATE refunds SET status = 'approved', decision = ?"
            " WHERE id = ? AND status = 'waiting_approval' AND generation = ?",
            (decision, refund, generation),
        )
    return taken.rowcount == 1


# %% wrong loses="claim_race" carries="deliver_kills" why="takes it first, and writes down the decision afterwards"
def claim(db, refund, generation, status, decision):
    with db:
        taken = db.execute(
            "UPDATE refunds SET status = ?"
            " WHERE id = ? AND status = 'waiting_approval' AND generation = ?",
            (status, refund, generation),
        ).rowcount
    if taken:
        with db:
            db.execute("UPDATE refunds SET decision = ? WHERE id = ?", (decision, refund))
    return taken == 1


# %% right why="RETURNING"
def claim(db, refund, generation, status, decision):
    values = {"id": refund, "old": generation, "new": status, "what": decision}
    with db:
        rows = db.execute(
            """UPDATE refunds SET status = :new, decision = :what
               WHERE (id, status, generation) = (:id, 'waiting_approval', :old) RETURNING id""",
            values,
        ).fetchall()
    return len(rows) > 0


# %% right why="takes the lock before it looks"
def claim(db, refund, generation, status, decision):
    db.execute("BEGIN IMMEDIATE")
    with db:
        row = db.execute(
            "SELECT status, generation FROM refunds WHERE id = ?", (refund,)
        ).fetchone()
        waits = row == ("waiting_approval", generation)
        if waits:
            change = "UPDATE refunds SET status = ?, decision = ? WHERE id = ?"
            db.execute(change, (status, decision, refund))
    return waits


# %% [markdown]
# After the forced orders four processes press truly at the same moment, and one of them must have won.

# %% test id="claim_race" points=1
moment, statements = 1, 1
while moment <= statements + 1:
    won, holder, statements = claim_against_another(moment)
    problem = wrong_winner(won, holder)
    when = f"before statement {moment} of claim" if moment <= statements else "after claim"
    assert not problem, (
        f"another process claims {when}: {problem}. Which single statement decides who has won?"
    )
    moment += 1
report_claim = explore(claim_by_ben, one_waits, both_or_neither, inside=[claim], restart=False)
assert report_claim.clean, (
    f'{report_claim.verdict()}. "torn" is a status without its decision, or the other way round; '
    "expected both in one step"
)
with one_waits() as desk:
    names = ["ana", "ben", "cleo", "dora"]
    told = at_once(claim_by, [(desk, name) for name in names])
    won = {
        name: each != "database is locked" and each for name, each in zip(names, told, strict=True)
    }
    problem = wrong_winner(won, look(desk, "R-1")["decision"]["by"])
    assert not problem, f"four processes at once: {problem}. Which statement decides?"

# %% [markdown]
# Then presses that come too late or mean something else: a question that is no longer open, an older or newer
# generation, a refund that does not exist. The rest of the table is looked at too.

# %% test id="claim_stale" points=1
others = [
    status for status in (*MOVES, "sent", "failed", "expired") if status != "waiting_approval"
]
for status, asked, pressed, right in (
    ("waiting_approval", 1, 1, True),
    ("waiting_approval", 2, 1, False),
    ("waiting_approval", 1, 2, False),
    *((status, 1, 1, False) for status in others),
):
    with new_desk() as desk:
        waiting_row(desk, generation=asked, status=status)
        waiting_row(desk, "R-2", generation=1)
        before = all_rows(desk)
        with closing(desk.table()) as db:
            found = claim(db, "R-1", pressed, "rejected", '{"do": "reject"}')
        after, row = all_rows(desk), look(desk, "R-1")
    changed = [old[0] for old, new in zip(before, after, strict=True) if old != new]
    assert found == right and changed == (["R-1"] if right else []), (
        f"R-1 is {status}, generation {asked}; pressed in generation {pressed}: claim returned "
        f"{found!r} and changed {changed}; expected {right}, and a change of R-1 only if it is True"
    )
    now = (row["status"], row["decision"], row["generation"])
    assert not right or now == ("rejected", {"do": "reject"}, 1), (
        f"claimed as rejected, in generation 1: the row holds {now}; expected that status, the "
        "decision as it was given, and the generation as it was"
    )
with new_desk() as desk, closing(desk.table()) as db:
    found = claim(db, "R-9", 1, "approved", "{}")
assert not found, f"a refund that does not exist: claim returned {found!r}; expected False"

# %% [markdown]
# ## What exactly was approved
#
# In September 2026 a person approved one set of arguments, and another set ran. The node that asked the person also
# asked the model. After the answer it ran again from its first line, the model proposed something else, and the
# approval was taken for that. (Reported as extra-org/extra issue 139.)
#
# So the approval is tied to the **content**: tool and arguments, as they will run. A **fingerprint** is a short text
# made from them. It is computed when the screen is shown, kept with the decision, and compared before the money moves.
#
# The same content can be written in many ways. `"50"` is `50` once the tool has it. An argument left out is its
# default. The order of keys means nothing. And the model's reason is shown, but it does not run.
#
# ## Fix it: `fingerprint`
#
# Write `fingerprint(call)`. It returns a text: the same for calls that run alike, in every process, and another for
# calls that do not. `as_it_runs(call)` helps. About two lines.
#
# Calls that run alike, fingerprinted here and in a new interpreter:


# %%
def a_call(tool="refund", why="broken", **args):
    return {"tool": tool, "args": {"order": "A-17", "amount": 50} | args, "why": why}


ALIKE = [
    a_call(),
    a_call(amount="50"),
    a_call(currency="EUR"),
    a_call(why="it came broken, the customer says"),
    {"args": {"amount": " 50", "currency": "EUR", "order": "A-17"}, "tool": "refund"},
]


DIFFERENT = [
    a_call(),
    a_call(amount=5000),
    a_call(amount=-50),
    a_call(currency="eur"),
    a_call(currency="USD"),
    a_call(order="a-17"),
    a_call("voucher"),
    a_call("voucher", days=30),
    a_call("credit"),
    a_call(order="A-1", amount=750),
    a_call(order="A-175", amount=0),
    *(a_call(order=f"B-{n}", amount=m) for n in range(200) for m in range(100)),
]


def fingerprints(calls):
    return [fingerprint(call) for call in calls]


# %% [markdown]
# An order or a currency may hold any character. These calls run differently in pairs, and yet the values of a pair, or
# `name=value` for each, give the same text where some separator joins them.

# %%
for mark in (" ", ",", ", ", ":", ";", "|", "-", "_", "/", "\n", "\t", "\0"):
    amount, currency = f"{mark}amount=", f"{mark}currency="
    DIFFERENT += [
        a_call(order="A-17", amount=5, currency=f"0{mark}EUR"),
        a_call(order=f"A-17{mark}5", amount=0),
        a_call(order=f"A{mark}B"),
        a_call(order="B", currency=f"EUR{mark}A"),
        a_call(order="A-17", amount=5, currency=f"X{amount}0{currency}EUR"),
        a_call(order=f"A-17{amount}5{currency}X", amount=0),
        a_call(order=f"A{mark}order=B"),
        a_call(order="B", currency=f"EUR{mark}order=A"),
    ]


# %% answer id="fingerprint"
def fingerprint(call):
    """A text that names what a call will do."""
    ### BEGIN SOLUTION
    canonical = json.dumps(as_it_runs(call), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
    ### END SOLUTION


# %% wrong loses="fingerprint_same" carries="check_content check_world deliver_kills" why="what the model sent is what was approved"
def fingerprint(call):
    return hashlib.sha256(json.dumps([call["tool"], call["args"]]).encode()).hexdigest()


# %% wrong loses="fingerprint_same" carries="check_content check_world deliver_kills" why="sorts the keys, and believes that this makes it canonical"
def fingerprint(call):
    text = json.dumps([call["tool"], call["args"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# %% wrong loses="fingerprint_same" carries="check_content" why="everything about the call belongs to it, the reason too"
def fingerprint(call):
    text = json.dumps(as_it_runs(call) | {"why": call.get("why")}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# %% wrong loses="fingerprint_same" carries="carry_once" why="hash() makes a fingerprint of anything"
def fingerprint(call):
    return str(hash(json.dumps(as_it_runs(call), sort_keys=True)))


# %% wrong loses="fingerprint_other" carries="check_content" why="the amount is what matters"
def fingerprint(call):
    args = as_it_runs(call)["args"]
    return f"{args['order']}:{args['amount']}"


# %% wrong loses="fingerprint_other" carries="check_content" why="the arguments say enough: each tool has its own"
def fingerprint(call):
    text = json.dumps(as_it_runs(call)["args"], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# %% wrong loses="fingerprint_other" carries="check_content" why="an approval is for a tool"
def fingerprint(call):
    return hashlib.sha256(call["tool"].encode()).hexdigest()


# %% wrong loses="fingerprint_other" why="puts the values one behind the other"
def fingerprint(call):
    runs = as_it_runs(call)
    return runs["tool"] + "".join(map(str, runs["args"].values()))


# %% wrong loses="fingerprint_other" why="puts a space between the values, so that they stay apart"
def fingerprint(call):
    runs = as_it_runs(call)
    return " ".join([runs["tool"], *map(str, runs["args"].values())])


# %% wrong loses="fingerprint_other" why="sorts name and value of each, and joins them by commas"
def fingerprint(call):
    runs = as_it_runs(call)
    return runs["tool"] + "," + ",".join(f"{k}={v}" for k, v in sorted(runs["args"].items()))


# %% wrong loses="fingerprint_other" why="a short one is easier to read"
def fingerprint(call):
    text = json.dumps(as_it_runs(call), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:6]


# %% wrong loses="fingerprint_other" carries="check_content" why="upper and lower case are the same to a person"
def fingerprint(call):
    return json.dumps(as_it_runs(call), sort_keys=True).lower()


# %% right why="readable, without a hash"
def fingerprint(call):
    runs = as_it_runs(call)
    return f"{runs['tool']} {sorted(runs['args'].items())!r}"


# %% test id="fingerprint_same" points=1
stranger = a_call("voucher", order="B-4", amount=7)
here = fingerprints(ALIKE)
new = {"fresh": True, "echo": False, "deadline": 20}
elsewhere = launch(fingerprints, [stranger, *ALIKE], **new).result()[1:]
assert all(isinstance(each, str) and each for each in here), f"{here[0]!r} is no text"
for call, one, other in zip(ALIKE, here, elsewhere, strict=True):
    assert one == here[0], f"{call} runs like {ALIKE[0]}, and has another fingerprint"
    assert one == other, f"in a new interpreter {call} has another fingerprint; expected the same"

# %% [markdown]
# And calls that do not. Another amount, another currency, the same arguments for another tool, text that holds a
# separator, and twenty thousand more.

# %% test id="fingerprint_other" points=1
seen = {}
for call in DIFFERENT:
    other = seen.setdefault(fingerprint(call), call)
    assert other is call, (
        f"{call} and {other} run differently, and have one fingerprint. Look at the whole text "
        "that it is made from: is each value told apart from the next?"
    )

# %% [markdown]
# ## Check again before the money moves
#
# Between the question and the answer lies a night. The customer may have withdrawn the return. Half of the money may
# have been paid back by somebody else. Ben may have lost his rights. An approval says that a person agreed. It does not
# say that what they agreed to is still possible, nor that they are the one to ask.
#
# A decision is kept in the row as a dict. Here is the one that the approve button makes:


# %%
def decision(row, do, by, why="", call=None):
    """What a button records. An edit has a call of its own, with a fingerprint of its own."""
    made = {"do": do, "by": by, "why": why, "fingerprint": fingerprint(call or row["call"])}
    return made | ({"call": call} if call else {})


with new_desk() as desk:
    waiting_row(desk)
    print(decision(look(desk, "R-1"), "approve", "ben"))

# %% [markdown]
# ## Fix it: `check_again`
#
# Write `check_again(desk, refund, call)`. It is called in the node that pays, on each way there, and it only looks. It
# returns `""` if the call may run, else a sentence that says why not. It may run if
#
# * the row of the refund is `approved`. Waiting, rejected, expired, or sent already: it may not. (That catches `goto`.)
# * the fingerprint of the call is the one that is stored in the decision. (It was made when the person saw the call.
#   Should a deploy change the default of a tool in the night, the same arguments run as something else.)
# * the amount is at least 1, and the shop says: the order is `"returned"`, and that much is `refundable`.
# * whoever decided may approve that amount, by the limit that the shop knows now.
#
# You have `look(desk, refund)`, `desk.shop.order(name)` and `desk.shop.limit(person)`. The amount is the one that will
# run. About eight lines.


# %%
@contextmanager
def decided_desk(do="approve", approved=None, status="approved", by="ben"):
    """A desk where R-1 was decided on. `approved` is the call that the person agreed to."""
    with new_desk() as desk:
        call = approved or a_call()
        made = decision({"call": call}, do, by, call=call if do == "edit" else None)
        waiting_row(desk, status=status, call=json.dumps(call), decision=json.dumps(made))
        yield desk


def said_by_check(desk, call):
    """What `check_again` says; it must not change anything."""
    before = all_rows(desk)
    try:
        found = check_again(desk, "R-1", call)
    except (TypeError, KeyError, ValueError) as error:
        raise AssertionError(
            f"check_again raised {type(error).__name__}: {error}, for {call}; expected a text. A "
            "model sends its arguments as it likes: as_it_runs makes an amount a number. And "
            "before somebody decides, there is no decision in the row"
        ) from None
    assert isinstance(found, str), f"check_again returned {found!r}; expected a text, '' for yes"
    assert all_rows(desk) == before and not desk.bank.payments(), (
        "check_again changed the table or paid; expected it only to look"
    )
    return found


# %% answer id="check_again"
def check_again(desk, refund, call):
    """Say in a sentence why the call must not run, or return "" if it may."""
    ### BEGIN SOLUTION
    row, args = look(desk, refund), as_it_runs(call)["args"]
    if row["status"] != "approved":
        return f"{refund} is {row['status']}, not approved"
    if fingerprint(call) != row["decision"]["fingerprint"]:
        return "this is not the call that was approved"
    order = desk.shop.order(args["order"])
    if order["status"] != "returned" or not 1 <= args["amount"] <= order["refundable"]:
        return f"{args} does not fit, the order is {order}"
    if desk.shop.limit(row["decision"]["by"]) < args["amount"]:
        return f"{row['decision']['by']} may not approve {args['amount']}"
    return ""
    ### END SOLUTION


# %% wrong loses="check_content" why="whoever has come this far runs what was approved"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order = desk.shop.order(args["order"])
    if row["status"] != "approved":
        return "not approved"
    if order["status"] != "returned" or not 1 <= args["amount"] <= order["refundable"]:
        return "not refundable"
    return "" if desk.shop.limit(row["decision"]["by"]) >= args["amount"] else "not allowed"


# %% wrong loses="check_content" carries="deliver_kills" why="compares with the call that was asked about, which an edit replaces"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order = desk.shop.order(args["order"])
    if row["status"] != "approved" or fingerprint(call) != fingerprint(row["call"]):
        return "not approved"
    if order["status"] != "returned" or not 1 <= args["amount"] <= order["refundable"]:
        return "not refundable"
    return "" if desk.shop.limit(row["decision"]["by"]) >= args["amount"] else "not allowed"


# %% wrong loses="check_content" why="makes the fingerprint of what was approved when it is needed"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order, made = desk.shop.order(args["order"]), row["decision"]
    if row["status"] != "approved":
        return "not approved"
    if fingerprint(call) != fingerprint(made.get("call") or row["call"]):
        return "another call"
    if order["status"] != "returned" or not 1 <= args["amount"] <= order["refundable"]:
        return "not refundable"
    return "" if desk.shop.limit(made["by"]) >= args["amount"] else "not allowed"


# %% wrong loses="check_content check_world" carries="deliver_kills" why="the amount as the model sent it"
def check_again(desk, refund, call):
    row, args = look(desk, refund), call["args"]
    order = desk.shop.order(args["order"])
    if row["status"] != "approved" or fingerprint(call) != row["decision"]["fingerprint"]:
        return "not approved"
    if order["status"] != "returned" or not 1 <= args["amount"] <= order["refundable"]:
        return "not refundable"
    return "" if desk.shop.limit(row["decision"]["by"]) >= args["amount"] else "not allowed"


# %% wrong loses="check_world" why="lists the words for an order that must not be refunded"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order = desk.shop.order(args["order"])
    if row["status"] != "approved" or fingerprint(call) != row["decision"]["fingerprint"]:
        return "not approved"
    if order["status"] in ("cancelled", "refunded", "unknown"):
        return f"the order is {order['status']}"
    if not 1 <= args["amount"] <= order["refundable"]:
        return "not refundable"
    return "" if desk.shop.limit(row["decision"]["by"]) >= args["amount"] else "not allowed"


# %% wrong loses="check_approved" carries="carry_refused" why="a fingerprint in the row is an approval"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order = desk.shop.order(args["order"])
    if not row["decision"] or fingerprint(call) != row["decision"]["fingerprint"]:
        return "not approved"
    if order["status"] != "returned" or not 1 <= args["amount"] <= order["refundable"]:
        return "not refundable"
    return "" if desk.shop.limit(row["decision"]["by"]) >= args["amount"] else "not allowed"


# %% wrong loses="check_approved" why="only what was rejected or is overdue must not run"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order = desk.shop.order(args["order"])
    if row["status"] in ("rejected", "expired", "failed", "waiting_approval", "classified", "new"):
        return row["status"]
    if fingerprint(call) != row["decision"]["fingerprint"]:
        return "another call"
    if order["status"] != "returned" or not 1 <= args["amount"] <= order["refundable"]:
        return "not refundable"
    return "" if desk.shop.limit(row["decision"]["by"]) >= args["amount"] else "not allowed"


# %% wrong loses="check_world" why="it is ben who approves"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order = desk.shop.order(args["order"])
    if row["status"] != "approved" or fingerprint(call) != row["decision"]["fingerprint"]:
        return "not approved"
    if order["status"] != "returned" or not 1 <= args["amount"] <= order["refundable"]:
        return "not refundable"
    return "" if desk.shop.limit("ben") >= args["amount"] else "not allowed"


# %% wrong loses="check_world" why="less than is refundable is fine"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order = desk.shop.order(args["order"])
    if row["status"] != "approved" or fingerprint(call) != row["decision"]["fingerprint"]:
        return "not approved"
    if order["status"] != "returned" or order["refundable"] < args["amount"]:
        return "not refundable"
    return "" if desk.shop.limit(row["decision"]["by"]) >= args["amount"] else "not allowed"


# %% wrong loses="check_world" carries="carry_refused" why="an approval is an approval"
def check_again(desk, refund, call):
    row = look(desk, refund)
    if row["status"] != "approved":
        return "not approved"
    return "" if fingerprint(call) == row["decision"]["fingerprint"] else "another call"


# %% wrong loses="check_world" why="the approver was known when they pressed"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order = desk.shop.order(args["order"])
    if row["status"] != "approved" or fingerprint(call) != row["decision"]["fingerprint"]:
        return "not approved"
    return "" if order["status"] == "returned" and order["refundable"] >= args["amount"] else "no"


# %% wrong loses="check_world" why="looks whether the order was cancelled, and not at the amount"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    if row["status"] != "approved" or fingerprint(call) != row["decision"]["fingerprint"]:
        return "not approved"
    if desk.shop.order(args["order"])["status"] != "returned":
        return "no longer returned"
    return "" if desk.shop.limit(row["decision"]["by"]) >= args["amount"] else "not allowed"


# %% wrong loses="check_content check_world" carries="carry_once deliver_kills" why="all of the money must be asked for"
def check_again(desk, refund, call):
    row, args = look(desk, refund), as_it_runs(call)["args"]
    order = desk.shop.order(args["order"])
    if row["status"] != "approved" or fingerprint(call) != row["decision"]["fingerprint"]:
        return "not approved"
    if order != {"status": "returned", "refundable": args["amount"]}:
        return "not as it was"
    return "" if desk.shop.limit(row["decision"]["by"]) >= args["amount"] else "not allowed"


# %% right why="a list of rules, the first that is broken speaks"
def check_again(desk, refund, call):
    runs, row = as_it_runs(call), look(desk, refund)
    made = row["decision"] or {}
    order, amount = desk.shop.order(runs["args"]["order"]), runs["args"]["amount"]
    rules = {
        f"the refund is {row['status']}": row["status"] == "approved",
        "another call was approved": made.get("fingerprint") == fingerprint(call),
        f"the order is {order['status']}": order["status"] == "returned",
        f"{order['refundable']} can be refunded": 1 <= amount <= order["refundable"],
        "the approver may not": amount <= desk.shop.limit(made.get("by", "")),
    }
    return next((why for why, kept in rules.items() if not kept), "")


# %% [markdown]
# The content: 50 were approved, and what comes is something else, or the same in other words. Then an edit. Then a
# deploy in the night, after which a refund without a currency is one in dollars.

# %% test id="check_content" points=1
for do, did in (("approve", "approved was"), ("edit", "edited to")):
    with decided_desk(do) as desk:
        for call in ALIKE:
            found = said_by_check(desk, call)
            assert not found, f"{did} {ALIKE[0]}; {call} was refused ({found}); expected ''"
        for call in DIFFERENT[1:10]:
            found = said_by_check(desk, call)
            assert found, f"{did} {ALIKE[0]}; {call} was let through; expected a refusal"
with new_desk() as desk:
    made = decision({"call": a_call(amount=800)}, "edit", "ben", call=a_call(amount=300))
    asked = json.dumps(a_call(amount=800))
    waiting_row(desk, status="approved", call=asked, decision=json.dumps(made))
    found = [bool(said_by_check(desk, a_call(amount=amount))) for amount in (300, 800)]
assert found == [False, True], (
    f"asked for 800, edited to 300: refused are, in this order, 300: {found[0]}, 800: {found[1]}; "
    "expected only 800. What did the person agree to in the end?"
)


def refund_in_dollars(order: str, amount: int, currency: str = "USD"): ...


normal = TOOLS["refund"]
for do in ("approve", "edit"):
    with decided_desk(do) as desk:
        TOOLS["refund"] = refund_in_dollars
        try:
            found = said_by_check(desk, a_call())
        finally:
            TOOLS["refund"] = normal
    assert found, (
        f"{do}: 50 EUR, and since a deploy the same arguments run as 50 USD: the call was let "
        "through; expected a refusal. Which fingerprint was made before the deploy?"
    )

# %% [markdown]
# The approval: the row in any other status, with and without a decision in it.

# %% test id="check_approved" points=1
for status in ("new", "classified", "waiting_approval", "rejected", "expired", "sent", "failed"):
    with decided_desk(status=status) as desk:
        found = said_by_check(desk, a_call())
        assert found, f"R-1 is {status}: the call was let through; expected a refusal"
with new_desk() as desk:
    waiting_row(desk)
    found = said_by_check(desk, a_call())
    assert found, "nothing is decided: the call was let through; expected a refusal"

# %% [markdown]
# The world: the order and the rights, as they are in the morning.

# %% test id="check_world" points=1
for status, refundable, limit, may in (
    ("returned", 800, 1000, True),
    ("returned", 50, 50, True),
    ("cancelled", 800, 1000, False),
    ("in dispute", 800, 1000, False),
    ("refunded", 0, 1000, False),
    ("returned", 49, 1000, False),
    ("returned", 800, 49, False),
    ("returned", 800, 0, False),
):
    for by, other in (("ben", "ana"), ("ana", "ben")):
        with decided_desk(by=by) as desk:
            desk.shop.set_order("A-17", status, refundable)
            desk.shop.set_limit(by, limit)
            desk.shop.set_limit(other, 1000 if limit < 50 else 0)
            found = said_by_check(desk, a_call(amount="50"))
        assert (not found) == may, (
            f"{by} approved 50; the order is {status}, refundable {refundable}, the limit {limit}: "
            f"check_again said {found!r}; expected {'an empty text' if may else 'a refusal'}"
        )
for amount in (0, -50):
    with decided_desk(approved=a_call(amount=amount)) as desk:
        found = said_by_check(desk, a_call(amount=amount))
    assert found, f"{amount} approved: the call was let through; expected a refusal"
with decided_desk(approved=a_call(order="B-9")) as desk:
    assert said_by_check(desk, a_call(order="B-9")), "an order that the shop does not know passed"

# %% [markdown]
# ## Fix it: `carry_out`
#
# Two more pieces, which are given. The bank's key is the refund itself: one refund, one payment.


# %%
def pay(desk, refund, call):
    """Move the money, and return the receipt."""
    runs = as_it_runs(call)
    return desk.bank.pay(refund, {"tool": runs["tool"]} | runs["args"])


def record(desk, refund, status, note):
    """Write down how an approved refund ended; say whether it was still approved."""
    return move(desk, refund, "approved", status, note=note)


# %% [markdown]
# Write `carry_out(desk, refund, call)`, which the node `act` calls.
#
# * If `check_again` lets the call run, it is paid, and recorded as `"sent"` with the receipt as note.
# * If not, nothing is paid, and it is recorded as `"failed"` with the reason as note.
# * It returns a sentence for the model that is true, with the receipt or with the reason in it.
#
# The node may be killed at any line, and then `carry_out` is called again with the same call. In the end there is one
# payment and the row is `sent`, or there is none and the row is `failed`. Bank and table must never tell two stories.
#
# One case is easy to miss. The process dies when the bank has paid. Before it is back, the customer withdraws the
# return. What does `check_again` say now, and what is true? `desk.bank.find(refund)` gives the receipt of an earlier
# payment, or `None`.
#
# <details><summary>Hint</summary>
#
# Three cures stand in `03_crash_window`. The key makes the repetition harmless. Another one finds out, before anything
# else, whether it is a repetition.
# </details>


# %%
def bank_and_table(desk):
    """What became of R-1: the judge. "old": no money has moved, and the row says failed."""
    paid, status = len(desk.bank.payments()), look(desk, "R-1")["status"]
    if paid > 1:
        return "twice"
    if paid == 1:
        return "once" if status == "sent" else "torn"
    return {"failed": "old", "sent": "lost", "approved": "stuck"}.get(status, "torn")


def carry_out_50(desk):
    return carry_out(desk, "R-1", a_call())


def cancelled_meanwhile(desk):
    """As above. But if this is a second process, the return was withdrawn before it came."""
    if (desk.path / "begun").exists():
        desk.shop.set_order("A-17", "cancelled", 0)
    (desk.path / "begun").touch()
    return carry_out(desk, "R-1", a_call())


# %% answer id="carry_out"
def carry_out(desk, refund, call):
    """Pay an approved refund, once, and record how it ended; return a sentence on it."""
    ### BEGIN SOLUTION
    receipt = desk.bank.find(refund)
    if receipt is None:
        problem = check_again(desk, refund, call)
        if problem:
            record(desk, refund, "failed", problem)
            return f"not paid: {problem}"
        receipt = pay(desk, refund, call)
    record(desk, refund, "sent", receipt)
    return f"paid, {receipt}"
    ### END SOLUTION


# %% wrong loses="carry_once carry_cancelled" why="checks, pays, records, and leaves repetitions to the key"
def carry_out(desk, refund, call):
    problem = check_again(desk, refund, call)
    if problem:
        record(desk, refund, "failed", problem)
        return f"not paid: {problem}"
    receipt = pay(desk, refund, call)
    record(desk, refund, "sent", receipt)
    return f"paid, {receipt}"


# %% wrong loses="carry_cancelled" why="asks the table whether it is done, which knows only what was recorded"
def carry_out(desk, refund, call):
    if look(desk, refund)["status"] == "sent":
        return f"paid before, {look(desk, refund)['note']}"
    problem = check_again(desk, refund, call)
    if problem:
        record(desk, refund, "failed", problem)
        return f"not paid: {problem}"
    receipt = pay(desk, refund, call)
    record(desk, refund, "sent", receipt)
    return f"paid, {receipt}"


# %% wrong loses="carry_once carry_cancelled" carries="deliver_kills" why="records first, so that nobody pays again"
def carry_out(desk, refund, call):
    if desk.bank.find(refund):
        return "paid before"
    problem = check_again(desk, refund, call)
    if problem:
        record(desk, refund, "failed", problem)
        return f"not paid: {problem}"
    record(desk, refund, "sent", "on its way")
    return f"paid, {pay(desk, refund, call)}"


# %% wrong loses="carry_once carry_cancelled" carries="deliver_kills" why="what the bank has paid needs nothing more"
def carry_out(desk, refund, call):
    if desk.bank.find(refund):
        return "paid before"
    problem = check_again(desk, refund, call)
    if problem:
        record(desk, refund, "failed", problem)
        return f"not paid: {problem}"
    receipt = pay(desk, refund, call)
    record(desk, refund, "sent", receipt)
    return f"paid, {receipt}"


# %% wrong loses="carry_once carry_cancelled" carries="deliver_kills" why="each attempt at paying has a key of its own"
def carry_out(desk, refund, call):
    problem = check_again(desk, refund, call)
    if problem:
        record(desk, refund, "failed", problem)
        return f"not paid: {problem}"
    receipt = desk.bank.pay(f"{refund}-{time.time_ns()}", as_it_runs(call)["args"])
    record(desk, refund, "sent", receipt)
    return f"paid, {receipt}"


# %% wrong loses="carry_refused" why="the graph leads here only when it was approved"
def carry_out(desk, refund, call):
    receipt = desk.bank.find(refund) or pay(desk, refund, call)
    record(desk, refund, "sent", receipt)
    return f"paid, {receipt}"


# %% wrong loses="carry_refused carry_cancelled" why="what was not paid needs no record"
def carry_out(desk, refund, call):
    receipt = desk.bank.find(refund)
    if receipt is None:
        problem = check_again(desk, refund, call)
        if problem:
            return f"not paid: {problem}"
        receipt = pay(desk, refund, call)
    record(desk, refund, "sent", receipt)
    return f"paid, {receipt}"


# %% wrong loses="carry_refused carry_once" why="asks the bank when it has paid, and tells nobody why not"
def carry_out(desk, refund, call):
    if desk.bank.find(refund) is None and check_again(desk, refund, call):
        record(desk, refund, "failed", "")
        return "failed"
    record(desk, refund, "sent", pay(desk, refund, call))
    return "sent"


# %% wrong loses="carry_once" why="the bank has the receipt, so the table need not keep it"
def carry_out(desk, refund, call):
    receipt = desk.bank.find(refund)
    problem = "" if receipt else check_again(desk, refund, call)
    if problem:
        record(desk, refund, "failed", problem)
        return problem
    receipt = receipt or pay(desk, refund, call)
    record(desk, refund, "sent", "")
    return receipt


# %% wrong loses="carry_refused carry_once" why="the model need not know how it went"
def carry_out(desk, refund, call):
    receipt = desk.bank.find(refund)
    problem = "" if receipt else check_again(desk, refund, call)
    if problem:
        record(desk, refund, "failed", problem)
    else:
        record(desk, refund, "sent", receipt or pay(desk, refund, call))
    return "ok"


# %% right why="asks the bank only when the check says no"
def carry_out(desk, refund, call):
    problem = check_again(desk, refund, call)
    known = desk.bank.find(refund)
    if problem and not known:
        done = ("failed", problem)
    else:
        done = ("sent", known or pay(desk, refund, call))
    record(desk, refund, *done)
    return ": ".join(done)


# %% [markdown]
# First what must not be paid, with the row afterwards. No process dies here.

# %% test id="carry_refused" points=1
for told, call, order, status in (
    ("5000 in place of 50", a_call(amount=5000), "returned", "approved"),
    ("the order is cancelled", a_call(), "cancelled", "approved"),
    ("it still waits, and somebody called goto", a_call(), "returned", "waiting_approval"),
):
    with decided_desk(status=status) as desk:
        desk.shop.set_order("A-17", order, 800)
        reason = check_again(desk, "R-1", call)
        said = carry_out(desk, "R-1", call)
        row, paid = look(desk, "R-1"), len(desk.bank.payments())
    right = "failed" if status == "approved" else status
    assert (paid, row["status"]) == (0, right), (
        f"{told}: {paid} payments, and the row is {row['status']}; expected 0 and {right}"
    )
    assert right != "failed" or reason in (row["note"] or ""), (
        f"{told}: failed, and the note is {row['note']!r}; expected the reason, {reason!r}"
    )
    assert isinstance(said, str) and reason in said, (
        f"{told}: carry_out returned {said!r}; expected a text with the reason, {reason!r}"
    )

# %% [markdown]
# Then the kills: before every line of `carry_out`, `check_again`, `pay` and `record`, and then the same call again.
# Twice called without a kill, it pays once too.

# %% test id="carry_once" points=1
INSIDE = [carry_out, check_again, pay, record]
with decided_desk() as desk:
    said = [carry_out_50(desk) for _ in range(2)]
    found, note, receipt = bank_and_table(desk), look(desk, "R-1")["note"], desk.bank.find("R-1")
assert found == "once", f"called twice, nobody killed: {found!r}; expected 'once'"
assert str(receipt) in str(note) and all(str(receipt) in str(each) for each in said), (
    f"called twice: the note is {note!r}, and carry_out returned {said}; expected {receipt!r} in "
    "each of them. After a kill the model hears the second sentence only"
)
report_carry = explore(
    carry_out_50, decided_desk, bank_and_table, inside=INSIDE, harmless=("once",)
)
assert report_carry.clean, (
    f'{report_carry.verdict()}. "torn": bank and table tell two stories. "lost": the row says '
    "sent, and nothing was paid. To see all kills, run report_carry in a cell of its own."
)

# %% [markdown]
# And the case that is easy to miss: whoever comes second finds the order cancelled. "old", with
# nothing paid and the row `failed`, is as good as "once" here.

# %% test id="carry_cancelled" points=1
report_cancelled = explore(
    cancelled_meanwhile, decided_desk, bank_and_table, inside=INSIDE, harmless=("once", "old")
)
assert report_cancelled.clean, (
    f"{report_cancelled.verdict()}. The order was cancelled while the process was dead. "
    '"torn": bank and table tell two stories. Who knows whether it was paid before?'
)

# %% [markdown]
# The line between "old" and "once" is the line where the money moves, and nowhere else. A line that is reached several
# times has a mark for each time: a `with` on the way in and out, a comprehension in each round, a call that is written
# over several lines whenever the work comes back to its first.

# %%
report_cancelled

# %% [markdown]
# ## Nobody answers
#
# `interrupt` knows no deadline. A question that nobody answers is open for ever, and so is its thread. The table knows
# when it is due.
#
# ## Fix it: `expire`
#
# Write `expire(db, now)`. Each refund that waits for approval and whose `due` is `now` or earlier becomes `expired`.
# Its decision becomes a JSON text with `"do": "expire"`, `"by": "nobody"` and under `"why"` a reason. It returns the
# list of the ids that it closed, and only those: what an earlier sweep has closed is not among them. Somebody may press
# in the very moment in which you sweep: then one of you has it, not both. About eight lines.


# %%
def overdue_desk(desk):
    for refund, due in (("R-1", NOW - 1), ("R-2", NOW), ("R-3", NOW + 1), ("R-4", NOW - DAY)):
        waiting_row(desk, refund, due=due)
    for status in ("approved", "rejected", "sent", "classified", "expired"):
        waiting_row(desk, status, due=NOW - DAY, status=status, decision='{"do": "approve"}')


def sweep_against_another(moment):
    """Sweep; before the statement with this number ben claims R-1 in a process of his own."""
    lives, statements = [], []

    def on_statement(sql):
        statements.append(sql)
        if len(statements) == moment:
            lives.append(launch(claim_by, desk, "ben", 0.05, echo=False))

    with new_desk() as desk:
        overdue_desk(desk)
        with closing(desk.table()) as db:
            db.set_trace_callback(on_statement)
            closed = expire(db, NOW)
            db.set_trace_callback(None)
        won = bool(lives) and lives[0].result() is True
        return closed, won, look(desk, "R-1"), len(statements)


# %% answer id="expire"
def expire(db, now):
    """Close what is overdue, and return the ids."""
    ### BEGIN SOLUTION
    reason = json.dumps({"do": "expire", "by": "nobody", "why": "no answer in time"})
    with db:
        closed = db.execute(
            "UPDATE refunds SET status = 'expired', decision = ?"
            " WHERE status = 'waiting_approval' AND due <= ? RETURNING id",
            (reason, now),
        ).fetchall()
    return [refund for (refund,) in closed]
    ### END SOLUTION


# %% wrong loses="expire_due" why="takes the list, then closes what is on it"
def expire(db, now):
    reason = json.dumps({"do": "expire", "by": "nobody", "why": "too late"})
    overdue = "SELECT id FROM refunds WHERE status = 'waiting_approval' AND due <= ?"
    ids = [refund for (refund,) in db.execute(overdue, (now,)).fetchall()]
    with db:
        change = "UPDATE refunds SET status = 'expired', decision = ? WHERE id = ?"
        db.executemany(change, [(reason, refund) for refund in ids])
    return ids


# %% wrong loses="expire_due" why="the clock knows the time better than the caller"
def expire(db, now):
    reason = json.dumps({"do": "expire", "by": "nobody", "why": "too late"})
    with db:
        closed = db.execute(
            "UPDATE refunds SET status = 'expired', decision = ?"
            " WHERE status = 'waiting_approval' AND due <= ? RETURNING id",
            (reason, time.time()),
        ).fetchall()
    return [refund for (refund,) in closed]


# %% wrong loses="expire_due" why="closes everything that is overdue, whatever became of it"
def expire(db, now):
    reason = json.dumps({"do": "expire", "by": "nobody", "why": "too late"})
    with db:
        closed = db.execute(
            "UPDATE refunds SET status = 'expired', decision = ? WHERE due <= ? RETURNING id",
            (reason, now),
        ).fetchall()
    return [refund for (refund,) in closed]


# %% wrong loses="expire_due" why="closes, and then looks which are closed"
def expire(db, now):
    reason = json.dumps({"do": "expire", "by": "nobody", "why": "too late"})
    with db:
        db.execute(
            "UPDATE refunds SET status = 'expired', decision = ?"
            " WHERE status = 'waiting_approval' AND due <= ?",
            (reason, now),
        )
    rows = db.execute("SELECT id FROM refunds WHERE status = 'expired' AND due <= ?", (now,))
    return [refund for (refund,) in rows.fetchall()]


# %% wrong loses="expire_due" why="counts, and the caller wants to know which"
def expire(db, now):
    reason = json.dumps({"do": "expire", "by": "nobody", "why": "too late"})
    with db:
        return db.execute(
            "UPDATE refunds SET status = 'expired', decision = ?"
            " WHERE status = 'waiting_approval' AND due <= ?",
            (reason, now),
        ).rowcount


# %% wrong loses="expire_due" why="one conditional update for each, and believes that all went through"
def expire(db, now):
    reason = json.dumps({"do": "expire", "by": "nobody", "why": "too late"})
    overdue = "SELECT id FROM refunds WHERE status = 'waiting_approval' AND due <= ?"
    ids = [refund for (refund,) in db.execute(overdue, (now,)).fetchall()]
    with db:
        for refund in ids:
            db.execute(
                "UPDATE refunds SET status = 'expired', decision = ?"
                " WHERE id = ? AND status = 'waiting_approval'",
                (reason, refund),
            )
    return ids


# %% wrong loses="expire_due" carries="deliver_kills" why="closes without a word"
def expire(db, now):
    with db:
        closed = db.execute(
            "UPDATE refunds SET status = 'expired'"
            " WHERE status = 'waiting_approval' AND due <= ? RETURNING id",
            (now,),
        ).fetchall()
    return [refund for (refund,) in closed]


# %% right why="one conditional update for each, counted"
def expire(db, now):
    rows = db.execute("SELECT id, due FROM refunds WHERE status = 'waiting_approval'").fetchall()
    closed = []
    for refund, due in rows:
        made = {"do": "expire", "by": "nobody", "why": f"it was due at {due}"}
        if due <= now:
            with db:
                change = """UPDATE refunds SET decision = ?, status = 'expired'
                            WHERE id = ? AND status = 'waiting_approval'"""
                if db.execute(change, (json.dumps(made), refund)).rowcount:
                    closed.append(refund)
    return closed


# %% test id="expire_due" points=1
with new_desk() as desk:
    overdue_desk(desk)
    before = all_rows(desk)
    with closing(desk.table()) as db:
        closed, later = expire(db, NOW), expire(db, NOW)
    changed = [old[0] for old, new in zip(before, all_rows(desk), strict=True) if old != new]
    rows = [look(desk, name) for name in changed]
assert isinstance(closed, list) and sorted(closed) == changed == ["R-1", "R-2", "R-4"], (
    f"due are R-1, R-2 and R-4: expire returned {closed!r}, and changed {changed}; expected those"
)
assert later == [], f"swept a second time: expire returned {later!r}; expected []"
for row in rows:
    made = row["decision"] or {}
    kind = made.get("do"), made.get("by"), bool(made.get("why"))
    assert (row["status"], *kind) == ("expired", "expire", "nobody", True), (
        f"{row['id']} is {row['status']} with the decision {made}; expected expired, by nobody, "
        "with a reason"
    )
moment, statements = 1, 1
while moment <= statements:
    closed, won, row, statements = sweep_against_another(moment)
    right = (True, "approved") if won else (False, "expired")
    assert ("R-1" not in closed, row["status"]) == right, (
        f"before statement {moment} of expire, ben {'won' if won else 'did not get'} R-1: expire "
        f"returned {closed}, and R-1 is {row['status']}; expected a list "
        f"{'without' if won else 'with'} R-1, and {right[1]}"
    )
    moment += 1

# %% [markdown]
# ## From the table to the thread
#
# Now the desk as a whole. `decide` is what a button does, whichever it is. Whoever has no limit has no part in it, and
# a yes needs a limit that is high enough. What is overdue cannot be decided any more, also before it is swept. Then
# `decide` records the decision in the table by your `claim`, and carries it to the thread by `deliver`.

# %%
STATUS_AFTER = {
    "approve": "approved",
    "edit": "approved",
    "reject": "rejected",
    "ask": "classified",  # the agent has to say more, then asks again
}


def decide(desk, refund, generation, made, now):
    """Record a decision, and carry it to the thread; return a sentence on it."""
    row, limit, status = look(desk, refund), desk.shop.limit(made["by"]), STATUS_AFTER[made["do"]]
    if not limit:
        return f"{made['by']} has no part in this"
    if status == "approved":
        amount = as_it_runs(made.get("call") or row["call"])["args"]["amount"]
        if amount > limit:
            return f"{made['by']} may not approve {amount}"
    if row["status"] == "waiting_approval" and row["due"] <= now:
        return f"too late: it was due {(now - row['due']) / 3600:.0f} hours ago"
    with closing(desk.table()) as db:
        won = claim(db, refund, generation, status, json.dumps(made))
    if won:
        deliver(desk, refund, now)
    row, told = look(desk, refund), "done" if won else "too late"
    return f"{told}: now it is {row['status']}, question {row['generation']}"


# %% [markdown]
# From the moment when `claim` has committed, the decision is made. If the process dies now, nobody will press again:
# for ben it is done. And the thread is a bad place to keep an answer. Here the process is killed in the node `ask`,
# when it has its answer and has not returned:

# %%
with WorkFolder.fresh() as folder:
    asked_for_money(folder)
    print(launch(say_yes, folder, kill_before='return {"answer": answer}', echo=False))
    with small(folder) as graph:
        print("saved answers:", list(saved_answers(graph, R7).values()))
        print("going on:     ", graph.invoke(None, R7)["__interrupt__"][0].value)

# %% [markdown]
# The "yes" died with the process, and the thread asks again. (A plain `resume` might have left it on the thread, for
# whatever comes.) In the table it would still be there. So after a restart the desk looks through its table and
# delivers what is not delivered:


# %%
def recover(desk, now):
    """What the desk does when it starts."""
    with closing(desk.table()) as db:
        ids = [refund for (refund,) in db.execute("SELECT id FROM refunds ORDER BY id").fetchall()]
    for each in ids:
        deliver(desk, each, now)


# %% [markdown]
# ## Fix it: `deliver`
#
# Write `deliver(desk, refund, now)`. It brings thread and table together, wherever they stand:
#
# * The thread still waits at the question of the row, and the row has a decision: the decision is the answer to that
#   question, by its id. The whole dict, as it is in the row: an edit has its call in it.
# * The thread has work left and waits for nobody: it goes on. `tasks` of its state says whether work is left. `next`
#   does not: when a node has returned and the checkpoint is not yet written, it is `()`, with one task.
# * The thread waits and nothing is decided, or it is finished: nothing to do.
# * At the end, always: `keep_in_step(desk, graph, refund, now)`.
#
# `with opened(desk) as graph:` gives you the graph. Called twice, the second time does nothing. About nine lines.
#
# The checks start at a desk where R-1 waits for ben. It is made once and copied for each kill.

# %%
kept = tempfile.TemporaryDirectory(prefix="crashlab-")  # goes when the kernel does
PAUSED = Path(kept.name) / "paused"
with new_desk() as desk:
    launch(submit, desk, "R-1", "A-17", 800, NOW, echo=False).result()
    shutil.copytree(desk.path, PAUSED)


@contextmanager
def paused_desk():
    with WorkFolder.fresh() as folder:
        shutil.copytree(PAUSED, folder.path, dirs_exist_ok=True)
        yield Desk(folder.path)


def press(desk, do, by="ben", why="", call=None):
    """What the screen sends: the generation that it shows, and the decision."""
    row = look(desk, "R-1")
    return decide(desk, "R-1", row["generation"], decision(row, do, by, why, call), NOW)


def press_or_recover(do):
    """The first process presses a button. Each one after it is a restart of the desk."""

    def run(desk):
        if (desk.path / "pressed").exists():
            return recover(desk, NOW)
        (desk.path / "pressed").touch()
        return press(desk, do, why="I have seen the parcel")

    run.__name__ = f"press_{do}"
    return run


# %% [markdown]
# The judge looks at table, bank and thread. "once": paid, sent, finished. "new": the agent heard the no, and
# asks about a voucher, in generation 2. "old": nothing was decided and nothing was done, and ben sees it waiting.
# Those are harmless. "lost": the thread never heard of the decision in the table. "stuck": it has heard, and has work
# left or asks what the table does not know. "torn": any other disagreement.


# %%
def table_and_thread(desk):
    paid, row = len(desk.bank.payments()), look(desk, "R-1")
    with opened(desk) as graph:
        state = graph.get_state(thread("R-1"))
    waits = [each.id for each in state.interrupts] == [row["question"]]
    if paid > 1:
        return "twice"
    if row["status"] == "sent" and paid == 1 and not state.tasks:
        return "once"
    if waits and row["decision"]:
        return "lost"
    if row["status"] == "waiting_approval" and paid == 0 and waits:
        return {1: "old", 2: "new"}.get(row["generation"], "torn")
    return "stuck" if state.tasks else "torn"


# %% [markdown]
# A kill in the one moment that no line of yours marks, four more cases without a kill of your lines, and an edit.


# %%
def killed_after_ask(desk):
    """ben's yes is in the table, and `ask` has returned; to be killed before the checkpoint."""
    row = look(desk, "R-1")
    made = decision(row, "approve", "ben", "I have seen the parcel")
    with closing(desk.table()) as db:
        claim(db, "R-1", 1, "approved", json.dumps(made))
    saver = Saver(desk.path / "threads.sqlite", late=3)
    graph = make_graph(desk).compile(checkpointer=saver)
    graph.invoke(Command(resume={row["question"]: made}), thread("R-1"), durability="sync")


def rows_of_thread(desk, what="rowid, *", where="1"):
    with closing(sqlite3.connect(desk.path / "threads.sqlite")) as db:
        return db.execute(f"SELECT {what} FROM writes WHERE {where}").fetchall()


def wrongly_delivered():
    """One sentence on what `deliver` did without a kill of its own lines, or ""."""
    with paused_desk() as desk:
        for case in ("R-1 waits and nothing is decided", "R-1 is finished"):
            before = rows_of_thread(desk)
            deliver(desk, "R-1", NOW)
            if rows_of_thread(desk) != before:
                return f"{case}: deliver ran a node; expected it to do nothing"
            press(desk, "approve")
        if rows_of_thread(desk, "1", "channel = '__resume__' AND task_id LIKE '00000000-%'"):
            return "the answer was given to the thread; expected it under the id of its question"
    with new_desk() as desk:
        launch(
            submit, desk, "R-1", "A-17", 800, NOW, kill_before="for question in graph", echo=False
        )
        deliver(desk, "R-1", NOW)
        if look(desk, "R-1")["status"] != "waiting_approval":
            return "submit was killed before the table heard of the question, and it still has not"
    with paused_desk() as desk:
        launch(killed_after_ask, desk, kill_before="self.late = None", echo=False)
        launch(recover, desk, NOW, echo=False).result()
        found = table_and_thread(desk)
    told = "killed when ask had returned, before the checkpoint, and recovered"
    return "" if found == "once" else f"{told}: {found}; expected once. Is work left?"


# %%
LESS = {"tool": "refund", "args": {"order": "A-17", "amount": 300}}


def wrongly_edited():
    """One sentence on what `deliver` made of an edit, or ""."""
    with paused_desk() as desk:
        press(desk, "edit", why="only the cable was missing", call=LESS)
        made, paid = (
            look(desk, "R-1")["decision"],
            [each["amount"] for each in desk.bank.payments()],
        )
        with opened(desk) as graph:
            heard = graph.get_state(thread("R-1")).values.get("decision")
    if paid != [300]:
        return f"ben edited 800 to 300: paid were {paid}; expected [300]. Did his call arrive?"
    return "" if heard == made else f"the row has {made}, the thread got {heard}; expected the same"


# %% answer id="deliver"
def deliver(desk, refund, now):
    """Bring the thread to where the table says, and the table to where the thread is then."""
    ### BEGIN SOLUTION
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        waiting = [each.id for each in state.interrupts]
        if row["decision"] and row["question"] in waiting:
            answer_once(graph, thread(refund), row["question"], row["decision"])
        elif state.tasks and not waiting:
            graph.invoke(None, thread(refund), durability="sync")
        keep_in_step(desk, graph, refund, now)
    ### END SOLUTION


# %% wrong loses="deliver_kills" why="gives the answer, and a thread that died on the way is not its business"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row = look(desk, refund)
        waiting = [each.id for each in graph.get_state(thread(refund)).interrupts]
        if row["decision"] and row["question"] in waiting:
            answer_once(graph, thread(refund), row["question"], row["decision"])
        keep_in_step(desk, graph, refund, now)


# %% wrong loses="deliver_kills" why="whoever goes on calls invoke(None)"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        graph.invoke(None, thread(refund), durability="sync")
        keep_in_step(desk, graph, refund, now)


# %% wrong loses="deliver_kills" why="a thread that has a next node has work left, any other has none"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        if row["decision"] and state.next:
            graph.invoke(Command(resume=row["decision"]), thread(refund), durability="sync")
            keep_in_step(desk, graph, refund, now)


# %% wrong loses="deliver_kills" why="the table is told by whoever presses"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        waiting = [each.id for each in state.interrupts]
        if row["decision"] and row["question"] in waiting:
            answer_once(graph, thread(refund), row["question"], row["decision"])
        elif state.tasks and not waiting:
            graph.invoke(None, thread(refund), durability="sync")


# %% wrong loses="deliver_kills" why="only an approval has to be carried anywhere"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        if row["status"] == "approved" and state.interrupts:
            answer_once(graph, thread(refund), row["question"], row["decision"])
        elif state.tasks and not state.interrupts:
            graph.invoke(None, thread(refund), durability="sync")
        keep_in_step(desk, graph, refund, now)


# %% wrong loses="deliver_kills" why="next says whether work is left"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        waiting = [each.id for each in state.interrupts]
        if row["decision"] and row["question"] in waiting:
            answer_once(graph, thread(refund), row["question"], row["decision"])
        elif state.next and not waiting:
            graph.invoke(None, thread(refund), durability="sync")
        keep_in_step(desk, graph, refund, now)


# %% wrong loses="deliver_kills" why="the question is open, so the plain answer will meet it"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        waiting = [each.id for each in state.interrupts]
        if row["decision"] and row["question"] in waiting:
            graph.invoke(Command(resume=row["decision"]), thread(refund), durability="sync")
        elif state.tasks and not waiting:
            graph.invoke(None, thread(refund), durability="sync")
        keep_in_step(desk, graph, refund, now)


# %% wrong loses="deliver_kills" why="without a decision there is nothing to keep in step"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        waiting = [each.id for each in state.interrupts]
        if row["decision"] and row["question"] in waiting:
            answer_once(graph, thread(refund), row["question"], row["decision"])
        elif state.tasks and not waiting:
            graph.invoke(None, thread(refund), durability="sync")
        if row["decision"]:
            keep_in_step(desk, graph, refund, now)


# %% wrong loses="deliver_kills" why="going on does no harm to a thread that waits"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        waiting = [each.id for each in state.interrupts]
        if row["decision"] and row["question"] in waiting:
            answer_once(graph, thread(refund), row["question"], row["decision"])
        elif state.tasks:
            graph.invoke(None, thread(refund), durability="sync")
        keep_in_step(desk, graph, refund, now)


# %% wrong loses="deliver_kills" why="the agent needs to know what to do and why, and nothing else"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        waiting = [each.id for each in state.interrupts]
        if row["decision"] and row["question"] in waiting:
            answer = {name: row["decision"][name] for name in ("do", "why")}
            answer_once(graph, thread(refund), row["question"], answer)
        elif state.tasks and not waiting:
            graph.invoke(None, thread(refund), durability="sync")
        keep_in_step(desk, graph, refund, now)


# %% right why="has looked whether the question is open, so the id is enough here"
def deliver(desk, refund, now):
    with opened(desk) as graph:
        row, state = look(desk, refund), graph.get_state(thread(refund))
        waiting = [each.id for each in state.interrupts]
        value = None
        if row["decision"] and row["question"] in waiting:
            value = Command(resume={row["question"]: row["decision"]})
        if value or (state.tasks and not waiting):
            graph.invoke(value, thread(refund), durability="sync")
        keep_in_step(desk, graph, refund, now)


# %% right why="tries to answer, and goes on if there is nothing to answer"
def deliver(desk, refund, now):
    config = thread(refund)
    with opened(desk) as graph:
        row = look(desk, refund)
        try:
            answer_once(graph, config, row["question"], row["decision"])
        except Refused:
            state = graph.get_state(config)
            if state.tasks and not state.interrupts:
                graph.invoke(None, config, durability="sync")
        keep_in_step(desk, graph, refund, now)


# %% [markdown]
# An approval is killed before every line of `decide`, `claim`, `deliver`, `ask`, `carry_out`, `check_again`, `pay` and
# `record`, a rejection in `deliver` and `ask`. After each kill the desk is restarted and recovers. Then an edit. Last,
# a thread whose refund has expired must come to its end.

# %% test id="deliver_kills" points=1
DESK = [decide, claim, deliver, ask, carry_out, check_again, pay, record]
good = ("once", "old", "new")
report_approve = explore(
    press_or_recover("approve"), paused_desk, table_and_thread, inside=DESK, harmless=good
)
assert report_approve.clean and report_approve.uninterrupted == "once", (
    f"{report_approve.verdict()}, and without a kill it is {report_approve.uninterrupted!r}; "
    'expected "once". To see all kills, run report_approve in a cell of its own.'
)
report_reject = explore(
    press_or_recover("reject"), paused_desk, table_and_thread, inside=[deliver, ask], harmless=good
)
assert report_reject.clean and report_reject.uninterrupted == "new", (
    f"{report_reject.verdict()}, and without a kill it is {report_reject.uninterrupted!r}; "
    'expected "new". To see all kills, run report_reject in a cell of its own.'
)
problem = wrongly_delivered() or wrongly_edited()
assert not problem, problem
with paused_desk() as desk:
    with closing(desk.table()) as db:
        expire(db, NOW + 2 * DAY)
    launch(recover, desk, NOW + 2 * DAY, echo=False).result()
    launch(recover, desk, NOW + 2 * DAY, echo=False).result()
    with opened(desk) as graph:
        left = graph.get_state(thread("R-1")).tasks
    found = look(desk, "R-1")["status"], len(desk.bank.payments())
assert not left and found == ("expired", 0), (
    f"R-1 has expired, then the desk recovered: the row is {found[0]}, there are {found[1]} "
    f"payments, and the thread has {len(left)} tasks left; expected expired, 0 and 0"
)

# %% [markdown]
# ## Prove it
#
# Your desk, killed at every line, and restarted. "old" is a press that never reached the table: nobody was told that it
# did, and ben sees the refund waiting. From the line where `claim` commits, it is "once". Some lines have several
# marks, as above: the `with` of `decide` is reached before the claim ("old") and after it ("once").

# %%
report_approve

# %% [markdown]
# And two who press truly at once, in two processes. One of them is told that it is too late.

# %%
with paused_desk() as desk:
    desk.shop.set_limit("cleo", 1000)
    told = at_once(press, [(desk, "approve", "ben"), (desk, "approve", "cleo")])
    print(sorted(each.split(":")[0] for each in told))
    print("row:", look(desk, "R-1")["status"], "| payments:", desk.bank.payments())

# %% [markdown]
# ## Four buttons
#
# Approve and reject are the least that a desk needs. An approver may also **edit**: 300, not 800. What runs then is
# the edited call, so the decision has its fingerprint, and the limit holds for it. Or **ask** for more: the agent
# says more, and asks again, in a new generation. A no goes back to the model with its reason, as the result of its
# call, and the agent goes another way. Ana, who may approve up to 100, tries as well, and eve, of whom the shop knows
# nothing.

# %%
BUTTONS = {
    "eve says no": [("reject", "eve", "I do not like it")],
    "ana approves": [("approve", "ana")],
    "ben approves": [("approve", "ben")],
    "ben edits to 300": [("edit", "ben", "only the cable was missing", LESS)],
    "ben says no, then yes to the voucher": [("reject", "ben", "weighed"), ("approve", "ben")],
    "ben says no twice": [("reject", "ben", "weighed"), ("reject", "ben", "no")],
    "ben asks, then says yes": [("ask", "ben", "who weighed it?"), ("approve", "ben")],
}
for name, presses in BUTTONS.items():
    with paused_desk() as desk:
        told = [press(desk, *each) for each in presses]
        row = look(desk, "R-1")
        print(f"{name}:\n    told {told}, paid {[each['amount'] for each in desk.bank.payments()]}")
        with opened(desk) as graph:
            print("   ", graph.get_state(thread("R-1")).values["messages"])

# %% [markdown]
# And somebody who goes round the question by `goto`. No press of yours could stop that. `check_again` does:

# %%
with paused_desk() as desk, opened(desk) as graph:
    for update in graph.stream(Command(goto="act"), thread("R-1"), stream_mode="updates"):
        print(update.get("act") or "and the thread still waits")
    print("payments:", desk.bank.payments(), "| row:", look(desk, "R-1")["status"])

# %% [markdown]
# ## A node has a new name
#
# While R-1 waits, you deploy. A thread keeps names of nodes, no code. So what happens to a thread that waits at a node
# which the new graph does not have?


# %%
def deployed(saver, *names):
    """A graph that asks a question in each of these nodes, then pays."""

    def pay(state):
        print("paid")

    builder = StateGraph(Small).add_node("pay", pay)
    for earlier, name in zip((START, *names), (*names, "pay"), strict=True):
        if name != "pay":
            builder.add_node(name, lambda state, name=name: {"answer": interrupt(f"{name}?")})
        builder.add_edge(earlier, name)
    return builder.compile(saver)


saver = InMemorySaver()
deployed(saver, "gate").invoke({}, R7)
renamed = deployed(saver, "approval")
state = renamed.get_state(R7)
print("waits:", state.next, "questions:", state.interrupts, "left to do:", state.tasks)
print("answered:", renamed.invoke(Command(resume="yes"), R7))
histories(
    {"As the old graph sees it": (deployed(saver, "gate"), R7), "As the new one": (renamed, R7)}
)

# %% [markdown]
# To the new graph the thread is finished. The "yes" was taken, nothing was paid, and there was no error. (The figure
# knows better, because it reads the saved checkpoint.) It need not be a deploy: a graph whose nodes depend on a
# setting was resumed under another setting. (Reported as TauricResearch/TradingAgents issue 1089.)
#
# ## Fix it: `refuse_orphans`
#
# Write `refuse_orphans(graph, saver)`, to be run before a deploy. It raises `Refused` if a thread of the saver has work
# left at a node that `graph` does not have, and names each such thread and node in its message, as in `T-3 at gate`,
# and no others. Otherwise it returns `None`. It runs nothing.
#
# `saver.list(None)` gives the saved checkpoints of all threads, for each thread the newest first. Each has a `config`
# with the `thread_id` (and a `checkpoint_ns`, which is `""` except in subgraphs). What it goes on with is in
# `checkpoint["channel_values"]`: a channel `branch:to:gate` says that `gate` is to run. `graph.nodes` has the names.


# %% answer id="refuse_orphans"
def refuse_orphans(graph, saver):
    """Raise Refused if a thread is to go on at a node that the graph does not have."""
    ### BEGIN SOLUTION
    newest = {}
    for each in saver.list(None):
        where = each.config["configurable"]
        if where["checkpoint_ns"] == "":
            newest.setdefault(where["thread_id"], each.checkpoint["channel_values"])
    lost = [
        f"{name} at {channel.removeprefix('branch:to:')}"
        for name, channels in newest.items()
        for channel in channels
        if channel.startswith("branch:to:")
        and channel.removeprefix("branch:to:") not in graph.nodes
    ]
    if lost:
        raise Refused(f"these threads wait at a node that is gone: {', '.join(lost)}")
    ### END SOLUTION


# %% wrong loses="orphans_found" why="asks the new graph what is next"
def refuse_orphans(graph, saver):
    for each in list(saver.list(None)):
        config = thread(each.config["configurable"]["thread_id"])
        for node in graph.get_state(config).next:
            if node not in graph.nodes:
                raise Refused(f"{config} at {node}")


# %% wrong loses="orphans_found" why="looks at every checkpoint, those long passed too"
def refuse_orphans(graph, saver):
    for each in saver.list(None):
        for channel in each.checkpoint["channel_values"]:
            node = channel.removeprefix("branch:to:")
            if channel != node and node not in graph.nodes:
                raise Refused(f"{each.config['configurable']['thread_id']} at {node}")


# %% wrong loses="orphans_found" why="stops at the first"
def refuse_orphans(graph, saver):
    seen = set()
    for each in saver.list(None):
        name = each.config["configurable"]["thread_id"]
        if name in seen:
            continue
        seen.add(name)
        for channel in each.checkpoint["channel_values"]:
            node = channel.removeprefix("branch:to:")
            if channel != node and node not in graph.nodes:
                raise Refused(f"{name} at {node}")


# %% wrong loses="orphans_found" why="a thread that ever ran a node needs it"
def refuse_orphans(graph, saver):
    lost = set()
    for each in saver.list(None):
        for node in each.checkpoint["versions_seen"]:
            if not node.startswith("__") and node not in graph.nodes:
                lost.add(f"{each.config['configurable']['thread_id']} at {node}")
    if lost:
        raise Refused(", ".join(lost))


# %% wrong loses="orphans_found" why="each thread once, by its newest checkpoint, whichever graph it is of"
def refuse_orphans(graph, saver):
    newest = {}
    for each in saver.list(None):
        newest.setdefault(each.config["configurable"]["thread_id"], each)
    lost = [
        f"{name} at {channel.removeprefix('branch:to:')}"
        for name, each in newest.items()
        for channel in each.checkpoint["channel_values"]
        if channel.startswith("branch:to:") and channel[10:] not in graph.nodes
    ]
    if lost:
        raise Refused(", ".join(lost))


# %% wrong loses="orphans_found" why="names all nodes of a lost thread, one of them will be it"
def refuse_orphans(graph, saver):
    newest = {}
    for each in saver.list(None):
        if not each.config["configurable"]["checkpoint_ns"]:
            newest.setdefault(each.config["configurable"]["thread_id"], each.checkpoint)
    lost = [
        f"{name} at {node}"
        for name, checkpoint in newest.items()
        if any(
            channel.startswith("branch:to:") and channel[10:] not in graph.nodes
            for channel in checkpoint["channel_values"]
        )
        for node in ("gate", "second", "third")
    ]
    if lost:
        raise Refused(", ".join(lost))


# %% wrong loses="orphans_found" why="no thread may be open during a deploy"
def refuse_orphans(graph, saver):
    newest = {}
    for each in saver.list(None):
        newest.setdefault(each.config["configurable"]["thread_id"], each)
    waiting = [
        f"{name} at {channel.removeprefix('branch:to:')}"
        for name, each in newest.items()
        for channel in each.checkpoint["channel_values"]
        if channel.startswith("branch:to:")
    ]
    if waiting:
        raise Refused(", ".join(waiting))


# %% right why="by the bench, which reads the history of a thread"
def refuse_orphans(graph, saver):
    names = dict.fromkeys(each.config["configurable"]["thread_id"] for each in saver.list(None))
    lost = {name: read_history(graph, thread(name)).newest.missing for name in names}
    words = [f"{name} at {node}" for name, missing in lost.items() for node in missing]
    if words:
        raise Refused("; ".join(words))


# %% test id="orphans_found" points=1
def orphans_by(graph, saver):
    """What `refuse_orphans` says; "" if it lets the deploy through."""
    before = len(list(saver.list(None)))
    try:
        refuse_orphans(graph, saver)
        said = ""
    except Refused as refusal:
        said = str(refusal) or "Refused, without a word"
    assert len(list(saver.list(None))) == before, "refuse_orphans changed a thread"
    return said


saver = SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False))
old = deployed(saver, "gate", "second", "third")
for name, answers in {"T-1": [], "T-2": ["yes"], "T-3": ["yes", "yes"], "T-4": ["yes"]}.items():
    for value in ({}, *(Command(resume=answer) for answer in answers)):
        old.invoke(value, thread(name))
deployed(saver, "gate").invoke({}, thread("T-5"))
deployed(InMemorySaver(), "gate").invoke({}, thread("T-6"))
outer = StateGraph(Small).add_node("gate", deployed(None, "inner")).add_edge(START, "gate")
outer.compile(saver).invoke({}, thread("T-7"))  # waits in a subgraph
for names, lost in (
    (("gate", "second", "third"), {}),
    (("gate", "second", "third", "fourth"), {}),
    (("gate", "second"), {"T-3": "third"}),
    (("check", "second", "third"), {"T-1": "gate", "T-5": "gate", "T-7": "gate"}),
    (("second",), {"T-1": "gate", "T-3": "third", "T-5": "gate", "T-7": "gate"}),
    (("gate", "third"), {"T-2": "second", "T-4": "second"}),
):
    said = orphans_by(deployed(saver, *names), saver)
    named = [f"T-{n}" for n in range(1, 8) if f"T-{n}" in said]
    nodes = {node for node in ("gate", "second", "third", "inner") if node in said}
    right = named == list(lost) and nodes == set(lost.values()) and bool(said) == bool(lost)
    pairs = [f"{name} at {node}" for name in lost for node in nodes if f"{name} at {node}" in said]
    wanted = [f"{name} at {node}" for name, node in lost.items()]
    assert right and pairs == wanted, (
        f"the new graph has {names}: refuse_orphans said {said or 'nothing'!r}; expected it to "
        f"name {', '.join(wanted) or 'nothing'}, and no other"
    )

# %% [markdown]
# ## Which calls need a person
#
# An agent that asks about everything teaches people to press yes. So most calls must run without a person. Here are the
# tools of the shop's agent, each with the **effect** that those who wrote it gave it.


# %%
def read_order(order: str): ...
def run_sql(statement: str, connection: str = "main"): ...
def set_label(order: str, label: str): ...
def draft_mail(order: str, text: str): ...
def send_mail(to: str, text: str): ...
def post_reply(review: str, text: str): ...
def delete_customer(customer: str): ...


EFFECTS = {
    "read_order": "read",
    "set_label": "reversible",
    "draft_mail": "reversible",
    "send_mail": "outside",
    "post_reply": "outside",
    "refund": "money",
    "voucher": "money",
    "credit": "money",
    "run_sql": "irreversible",
    "delete_customer": "irreversible",
}
TOOLS |= {
    tool.__name__: tool
    for tool in (read_order, run_sql, set_label, draft_mail, send_mail, post_reply, delete_customer)
}

# %% [markdown]
# ## Fix it: `needs_approval`
#
# Write `needs_approval(call, spent=0)`. It returns `True` if a person has to agree, by these rules:
#
# 1. `"read"` and `"reversible"` need nobody.
# 2. `"outside"` needs a person. One exception: a mail whose recipients are all at `shop.example`. Recipients are
#    separated by commas, and by nothing else. What stands between two commas and is not *one* address at `shop.example`
#    needs a person.
# 3. `"money"` needs a person. One exception: an amount of at least 1, if the order has then got no more than 20 today
#    without a person. `spent` is what it has got so far.
# 4. `"irreversible"` needs a person. One exception: `run_sql` on the connection `"replica"`, which cannot write.
# 5. A tool without an entry in `EFFECTS` needs a person, and so do arguments that do not fit their tool.
# 6. What counts is what will run. What the model says about its call counts for nothing.


# %%
def wrongly_asked(calls, right):
    """One sentence on the first call where `needs_approval` is wrong, or ""."""
    for call, *spent in calls:
        try:
            found = needs_approval(call, *spent)
        except NotImplementedError:
            raise
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found is not right:
            had = f", when {spent[0]} were spent" if spent else ""
            return f"{call}{had}: needs_approval gave {found!r}, expected {right}"
    return ""


def asks(tool, **args):
    return {"tool": tool, "args": args, "why": "routine", "risk": "low"}


# %% answer id="needs_approval"
def needs_approval(call, spent=0):
    """Say whether a person has to agree to a call."""
    ### BEGIN SOLUTION
    try:
        args = as_it_runs(call)["args"]
    except (KeyError, TypeError, ValueError):
        return True
    effect = EFFECTS.get(call["tool"])
    if effect in ("read", "reversible"):
        return False
    if call["tool"] == "send_mail":
        one = r"\s*[\w.+-]+@shop\.example\s*"
        return not all(re.fullmatch(one, to) for to in args["to"].split(","))
    if call["tool"] == "run_sql":
        return args["connection"] != "replica"
    if effect == "money":
        return args["amount"] < 1 or spent + args["amount"] > 20
    return True
    ### END SOLUTION


# %% wrong loses="needs_nobody" why="everything, to be safe"
def needs_approval(call, spent=0):
    return True


# %% wrong loses="needs_nobody needs_person" why="by the effect alone"
def needs_approval(call, spent=0):
    return EFFECTS.get(call["tool"]) not in ("read", "reversible")


# %% wrong loses="needs_person" why="the model says how risky it is"
def needs_approval(call, spent=0):
    return call.get("risk") != "low"


# %% wrong loses="needs_person" why="what is not listed as dangerous is harmless"
def needs_approval(call, spent=0):
    if call["tool"] not in EFFECTS or EFFECTS[call["tool"]] in ("read", "reversible"):
        return False
    args = as_it_runs(call)["args"]
    if call["tool"] == "send_mail":
        parts = args["to"].split(",")
        return any(each.strip().partition("@")[2] != "shop.example" for each in parts)
    if call["tool"] == "run_sql":
        return args["connection"] != "replica"
    return EFFECTS[call["tool"]] != "money" or not 1 <= args["amount"] <= 20 - spent


# %% wrong loses="needs_person" why="a small amount is small, each time"
def needs_approval(call, spent=0):
    try:
        args = as_it_runs(call)["args"]
    except (KeyError, TypeError, ValueError):
        return True
    effect = EFFECTS.get(call["tool"])
    if call["tool"] == "send_mail":
        parts = args["to"].split(",")
        return any(each.strip().partition("@")[2] != "shop.example" for each in parts)
    if call["tool"] == "run_sql":
        return args["connection"] != "replica"
    if effect == "money":
        return not 1 <= args["amount"] <= 20
    return effect not in ("read", "reversible")


# %% wrong loses="needs_person" why="a SELECT only reads"
def needs_approval(call, spent=0):
    try:
        args = as_it_runs(call)["args"]
    except (KeyError, TypeError, ValueError):
        return True
    effect = EFFECTS.get(call["tool"])
    if call["tool"] == "send_mail":
        parts = args["to"].split(",")
        return any(each.strip().partition("@")[2] != "shop.example" for each in parts)
    if call["tool"] == "run_sql":
        return args["connection"] != "replica" and not args["statement"].startswith("SELECT")
    if effect == "money":
        return args["amount"] < 1 or spent + args["amount"] > 20
    return effect not in ("read", "reversible")


# %% wrong loses="needs_person" why="looks for the shop's domain in the recipients"
def needs_approval(call, spent=0):
    try:
        args = as_it_runs(call)["args"]
    except (KeyError, TypeError, ValueError):
        return True
    effect = EFFECTS.get(call["tool"])
    if call["tool"] == "send_mail":
        return "@shop.example" not in args["to"]
    if call["tool"] == "run_sql":
        return args["connection"] != "replica"
    if effect == "money":
        return args["amount"] < 1 or spent + args["amount"] > 20
    return effect not in ("read", "reversible")


# %% wrong loses="needs_person" why="looks how the list of recipients ends"
def needs_approval(call, spent=0):
    effect = EFFECTS.get(call["tool"])
    try:
        args = as_it_runs(call)["args"]
    except (KeyError, TypeError, ValueError):
        return True
    if call["tool"] == "send_mail":
        return not args["to"].endswith("@shop.example")
    if call["tool"] == "run_sql":
        return args["connection"] != "replica"
    if effect == "money":
        return args["amount"] < 1 or spent + args["amount"] > 20
    return effect not in ("read", "reversible")


# %% wrong loses="needs_person" why="splits at the commas, and looks how each part ends"
def needs_approval(call, spent=0):
    effect = EFFECTS.get(call["tool"])
    try:
        args = as_it_runs(call)["args"]
    except (KeyError, TypeError, ValueError):
        return True
    if call["tool"] == "send_mail":
        return not all(to.strip().endswith("@shop.example") for to in args["to"].split(","))
    if call["tool"] == "run_sql":
        return args["connection"] != "replica"
    if effect == "money":
        return args["amount"] < 1 or spent + args["amount"] > 20
    return effect not in ("read", "reversible")


# %% wrong loses="needs_person" why="nothing is a small amount"
def needs_approval(call, spent=0):
    effect = EFFECTS.get(call["tool"])
    try:
        args = as_it_runs(call)["args"]
    except (KeyError, TypeError, ValueError):
        return True
    if call["tool"] == "send_mail":
        parts = args["to"].split(",")
        return any(each.strip().partition("@")[2] != "shop.example" for each in parts)
    if call["tool"] == "run_sql":
        return args["connection"] != "replica"
    if effect == "money":
        return args["amount"] < 0 or spent + args["amount"] > 20
    return effect not in ("read", "reversible")


# %% wrong loses="needs_person" why="who only reads may pass what they like"
def needs_approval(call, spent=0):
    effect = EFFECTS.get(call["tool"])
    if effect == "read":
        return False
    try:
        args = as_it_runs(call)["args"]
    except (KeyError, TypeError, ValueError):
        return True
    if call["tool"] == "send_mail":
        parts = args["to"].split(",")
        return any(each.strip().partition("@")[2] != "shop.example" for each in parts)
    if call["tool"] == "run_sql":
        return args["connection"] != "replica"
    if effect == "money":
        return args["amount"] < 1 or spent + args["amount"] > 20
    return effect not in ("read", "reversible")


# %% right why="a list of what is free"
def needs_approval(call, spent=0):
    try:
        runs = as_it_runs(call)
    except Exception:
        return True
    match runs, EFFECTS.get(call["tool"]):
        case _, "read" | "reversible":
            free = True
        case {"args": {"amount": amount}}, "money":
            free = amount in range(1, 21 - spent)
        case {"tool": "send_mail", "args": {"to": to}}, _:
            free = {each.strip().partition("@")[2] for each in to.split(",")} == {"shop.example"}
        case {"tool": "run_sql", "args": {"connection": "replica"}}, _:
            free = True
        case _:
            free = False
    return not free


# %% test id="needs_nobody" points=1
problem = wrongly_asked(
    [
        (asks("read_order", order="A-17"),),
        (asks("set_label", order="A-17", label="empty parcel"),),
        (asks("draft_mail", order="A-17", text="We are sorry"),),
        (asks("send_mail", to="ben@shop.example", text="Look at A-17"),),
        (asks("send_mail", to="ben@shop.example, ana@shop.example", text="Look at A-17"),),
        (asks("refund", order="A-17", amount=20),),
        (asks("refund", order="A-17", amount="19"), 1),
        (asks("voucher", order="A-17", amount="5"), 10),
        (asks("run_sql", statement="SELECT * FROM orders", connection="replica"),),
        (asks("run_sql", statement="WITH x AS (SELECT 1) SELECT * FROM x", connection="replica"),),
    ],
    False,
)
assert not problem, f"{problem}. Whoever is asked about everything stops reading."

# %% test id="needs_person" points=1
problem = wrongly_asked(
    [
        (asks("refund", order="A-17", amount=800),),
        (asks("refund", order="A-17", amount="21"),),
        (asks("refund", order="A-17", amount=19), 2),
        (asks("voucher", order="A-17", amount=1), 20),
        (asks("refund", order="A-17", amount=0),),
        (asks("refund", order="A-17", amount=-5),),
        (asks("read_order"),),
        (asks("read_order", order="A-17", column="name"),),
        (asks("refund", order="A-17", amount="a few"),),
        (asks("refund", order="A-17"),),
        (asks("send_mail", to="customer@mail.example", text="Sorry"),),
        (asks("send_mail", to="ben@shop.example, press@news.example", text="Sorry"),),
        (asks("send_mail", to="press@news.example, ben@shop.example", text="Sorry"),),
        (asks("send_mail", to="press@news.example;ben@shop.example", text="Sorry"),),
        (asks("send_mail", to="press@news.example ben@shop.example", text="Sorry"),),
        (asks("send_mail", to="ben@shop.example.org", text="Sorry"),),
        (asks("send_mail", to="ben@my-shop.example", text="Sorry"),),
        (asks("post_reply", review="9", text="Sorry"),),
        (asks("run_sql", statement="DROP TABLE orders"),),
        (asks("run_sql", statement="SELECT 1; DROP TABLE orders"),),
        (asks("delete_customer", customer="C-3"),),
        (asks("read_and_forward", order="A-17", to="press@news.example"),),
    ],
    True,
)
assert not problem, f"{problem}. Which of the six rules speaks of it?"

# %% [markdown]
# ## What the screen must show
#
# "The agent wants to call refund. Approve?" can only be answered by yes. A person who is to decide needs what will run,
# with all arguments as they will run; the model's reason, as the model's; what it touches and whether there is a way
# back; and what happens if nobody answers. The reason is text from outside, so it is escaped: else it could draw a
# button of its own.


# %%
class Card:
    """An approval as a person sees it. `clock()` says what time it is."""

    def __init__(self, desk, refund, by, clock):
        self.desk, self.refund, self.by, self.clock = desk, refund, by, clock
        self.row = look(desk, refund)

    def fields(self):
        runs = as_it_runs(self.row["call"])
        order = self.desk.shop.order(runs["args"]["order"])
        hours = (self.row["due"] - self.clock()) / 3600
        return {
            "operation": f"{runs['tool']}, for {self.refund}",
            "arguments": ", ".join(f"{name} = {value}" for name, value in runs["args"].items()),
            "the model's reason": self.row["call"]["why"],
            "scope": f"order is {order['status']}, {order['refundable']} refundable; no way back",
            "if nobody answers": f"closed in {max(hours, 0):.0f} hours, nothing is paid",
            "question": f"number {self.row['generation']} on this refund",
        }

    def page(self):
        cell = "padding: 4px 12px; border: 1px solid #8888; text-align: left"
        rows = "".join(
            f'<tr><th style="{cell}">{name}</th><td style="{cell}">{html.escape(text)}</td></tr>'
            for name, text in self.fields().items()
        )
        return f"<table>{rows}</table>"

    def decide(self, do, why="", call=None):
        made = decision(self.row, do, self.by, why, call)
        return decide(self.desk, self.refund, self.row["generation"], made, self.clock())


# %% [markdown]
# A button collects what was typed, builds the call of an edit from it, and calls `decide` of the card. The rest is done
# there, so what a test calls is what a button does.
#
# The card does not reload itself. If it did, the second click of a double click would answer a new question that nobody
# has read. It says that there is one.


# %%
class CardWithButtons(Card):
    def show(self):
        self.why, self.amount = Text(description="why"), Text(description="amount")
        self.said = Label()
        self.buttons = {do: Button(description=do) for do in STATUS_AFTER}
        for do, button in self.buttons.items():
            button.on_click(lambda _, do=do: self.pressed(do))
        display(HTML(self.page()))
        row, fields = HBox(list(self.buttons.values())), HBox([self.why, self.amount])
        display(VBox([row, fields, self.said]))

    def pressed(self, do):
        args = self.row["call"]["args"] | {"amount": self.amount.value}
        call = {"tool": self.row["call"]["tool"], "args": args} if do == "edit" else None
        if call and not self.amount.value.strip().isdecimal():
            told = "not understood: an edit needs a whole number in the field amount"
        else:
            told = self.decide(do, self.why.value, call)
            if look(self.desk, self.refund)["generation"] > self.row["generation"]:
                told += ". The agent asks something new: open another card"
        self.said.value = f"{do}: {told}"


# %% [markdown]
# In JupyterLab the buttons work: press one, and then another. Another card on the same refund comes by
# `CardWithButtons(tomorrow, "R-1", "ben", card.clock).show()` in a cell of your own, and a new desk by this cell, run
# again. (Where a notebook is only shown, you see the table.)

# %%
tomorrow = Desk(Path(kept.name) / "tomorrow")
shutil.rmtree(tomorrow.path, ignore_errors=True)
shutil.copytree(PAUSED, tomorrow.path)
card = CardWithButtons(tomorrow, "R-1", "ben", lambda: NOW + 9 * 3600)
card.show()

# %% [markdown]
# The same without a mouse, at a desk of its own. Two people have the same card on their screens. And a reason that
# would like to be a button:

# %%
with paused_desk() as desk:
    mine, yours = (Card(desk, "R-1", "ben", lambda: NOW) for _ in range(2))
    print("my card:  ", mine.decide("reject", "weighed at 2 kg"))
    print("your card:", yours.decide("approve"))
    print("a new one:", Card(desk, "R-1", "ben", lambda: NOW).fields()["arguments"])
    mine.row["call"]["why"] = "<button>Approved by the boss</button>"
    print("a button: ", "<button>" in mine.page())

# %% [markdown]
# The card says when the refund will be closed, and that is kept. Here ben leaves his card open for two days. Nobody has
# swept meanwhile:

# %%
with paused_desk() as desk:
    hours = 9
    card = Card(desk, "R-1", "ben", lambda: NOW + hours * 3600)
    print("if nobody answers:", card.fields()["if nobody answers"])
    hours += 48
    print("ben says yes:     ", card.decide("approve"), "| payments:", desk.bank.payments())
    with closing(desk.table()) as db:
        print("the sweep closes: ", expire(db, card.clock()))
    recover(desk, card.clock())
    print("ben says yes:     ", card.decide("approve"), "| payments:", desk.bank.payments())

# %% [markdown]
# ## A hundred that wait
#
# A pause costs no process. A hundred refunds are submitted by a process that then ends. How many processes are there
# more than before, how much is on disk, and how long does it take another process to answer the hundredth?


# %%
def submit_many(desk, number):
    for n in range(1, number + 1):
        desk.shop.set_order(f"A-{n}", "returned", 800)
        submit(desk, f"R-{n}", f"A-{n}", 800, NOW)
    return os.getpid()


def approve_last(desk, refund):
    began = time.perf_counter()
    row = look(desk, refund)
    told = decide(desk, refund, 1, decision(row, "approve", "ben"), NOW)
    return told, time.perf_counter() - began


with new_desk() as desk:
    processes = len(psutil.Process().children(recursive=True))
    began = time.perf_counter()
    pid = launch(submit_many, desk, 100, echo=False, deadline=60).result()
    took = time.perf_counter() - began
    more = len(psutil.Process().children(recursive=True)) - processes
    size = sum(file.stat().st_size for file in desk.path.iterdir())
    with closing(desk.table()) as db:
        [[waiting]] = db.execute("SELECT count(*) FROM refunds WHERE status = 'waiting_approval'")
    print(f"{waiting} wait; they were submitted in {took:.1f} s by process {pid}")
    print(
        "that process is", "there" if psutil.pid_exists(pid) else "gone", "| more processes:", more
    )
    print(f"on disk: {size / 1000:.0f} kB, {size / 100_000:.1f} kB each")
    told, seconds = launch(approve_last, desk, "R-100", echo=False).result()
    paid = desk.bank.payments()
    print(f"the hundredth was answered in {seconds * 1000:.0f} ms: {told}, paid {paid}")

# %% [markdown]
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"A refund waits overnight for approval. What can go wrong,
# and what do you build?"*
#
# <details><summary>One way to say it</summary>
#
# "The pause is the easy part: the thread is on disk, no process waits. What I build is the desk around it. A business
# table has a row for each refund, its status, a generation number for the question that is open, and when it is due.
# Every move of a row is one conditional update. A press is a claim: it takes the row out of waiting, in the
# generation that the screen showed, together with the decision, so that of two who press one wins and the other is
# told. Only then is the thread answered, by the id of its question and only if that is open at the newest checkpoint.
# An answer to a mistyped thread starts a new run, by id as well, and a plain one that is clicked twice answers the next
# question too. The approval is bound to a fingerprint
# of tool and arguments as they will run. The node that pays checks again, since a night has passed: is it approved,
# is it that call, is the order still there, may this person still. It asks the bank first whether it has paid, and it
# sends a key, so a restart pays once. A restart delivers each decision that the thread has not heard of. A no goes
# back to the model with its reason. What is overdue is closed with a reason, in the table and in the thread. And
# before a deploy I look for threads that wait at a node that is gone, since they end without an error."
# </details>
#
# **Often confused:** *approval* and *authorisation*. An approval is a decision about one call: go ahead with this. An
# authorisation is a right: this person may decide that. Ana's yes is an approval, and it counts for nothing above 100.
# Also *claim* and *lock*: a claim is a fact in a row that outlives the process which made it; a lock ends with its
# holder, or worse, does not.
#
# **They may ask next:**
#
# * The process that has claimed is slow, not dead, and the desk restarts and recovers. Two processes now deliver the
#   same decision. What is repeated, and what keeps it harmless?
# * `submit` is killed after its row is in the table and before the thread has begun. What does `recover` find, and what
#   must be in the row so that it can go on?
# * Your approvers want "always allow this". To what do you bind it, and when does it end?
