# %% [markdown]
# # 10 · Time travel
#
# **Can you go back? What does that repeat?**
#
# 120 minutes · 21 points · before this: `04_email`, `08_interrupt`
#
# In January 2026 somebody tried both answers to one question. A run had paused at `Allow to add?`. They kept the
# saved pause and answered True, and the number in the state went from 1 to 2. Then they went back to the same pause
# and answered False. The number was 2 again: the first answer was still stored with the pause, and nobody looked at
# the second. (Reported as langchain-ai/langgraph issue 6663.)
#
# A thread keeps all its checkpoints, so you can go back to any of them. The world does not come along. You will go
# back and count what happens twice, find the step that went wrong, and decide whether going back is allowed at all.
# Then you will measure what the past costs on disk, and throw it away without harm to the present.

# %%
import json
import operator
import os
import random
import smtplib
import sqlite3
import sys
import threading
from contextlib import closing, contextmanager, suppress
from email.message import EmailMessage
from functools import cache, wraps
from importlib.metadata import version
from math import log2
from typing import Annotated, TypedDict

from langgraph.channels import BinaryOperatorAggregate, DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command, Overwrite, interrupt

from crashlab import Journal, WorkFolder, explore, launch
from crashlab.figures import growth, history, outcome_matrix
from crashlab.quiz import differs
from crashlab.world import mail_service

print("Python", sys.version.split()[0], "on", sys.platform)
for package in ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"):
    print(package, version(package))

# %% [markdown]
# ## The experiment
#
# A customer writes to a shop: *The adapter broke after a day. Great work.* An agent answers in four steps: classify,
# draft, send, close. It knows no irony, and takes this for praise.


# %%
class Ticket(TypedDict, total=False):
    text: str
    kind: str
    letter: str
    sent: Annotated[list[str], operator.add]
    status: str


TICKET = {"configurable": {"thread_id": "ticket-41"}}
TEXT = {"text": "The adapter broke after a day. Great work."}
LETTERS = {
    "praise": "Thank you for your kind words.",
    "complaint": "We are sorry. A new adapter is on its way.",
    "correction": "Please disregard our letter '{last}' We are sorry. A new adapter is on its way.",
}


def classify(state):
    return {"kind": "praise" if "Great" in state["text"] else "complaint"}


def draft(state):
    [*_, last] = ["", *state.get("sent", [])]
    return {"letter": LETTERS[state["kind"]].format(last=last)}


def close(state):
    return {"status": "closed"}


# %% [markdown]
# `make_desk` makes the graph. What `send` does to the outside world is given to it: `act(letter, state, info)`. The
# list `ran` collects the nodes that are really entered.


# %%
def make_desk(act, ran=None):
    def send(state):
        act(state["letter"], state, get_runtime().execution_info)
        return {"sent": [state["letter"]]}

    def noting(node):
        @wraps(node)
        def noted(state):
            if ran is not None:
                ran.append(node.__name__)
            return node(state)

        return noted

    builder, last = StateGraph(Ticket), START
    for node in (classify, draft, send, close):
        builder.add_node(noting(node)).add_edge(last, node.__name__)
        last = node.__name__
    return builder


def deliver(mail, letter, key=""):
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "shop@example.com", "c@example.com", "41"
    if key:
        message["Idempotency-Key"] = key
    message.set_content(letter)
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(message)


# %% [markdown]
# The mail goes to a real SMTP server, as in `04_email`. Nothing is killed at first, so the thread lies in memory.

# %%
with mail_service("plain") as mail:
    desk = make_desk(lambda letter, state, info: deliver(mail, letter)).compile(InMemorySaver())
    print(desk.invoke(TEXT, TICKET))
    print([each.body for each in mail.inbox()])
history(desk, TICKET)

# %% [markdown]
# ## Two ways back
#
# Every checkpoint has an id, and a config may name one. `get_state_history` gives you such configs. Here is the one
# of the checkpoint from which `draft` ran:


# %%
def before(graph, node, config=TICKET):
    """The config of the oldest checkpoint from which `node` was to run."""
    return [each.config for each in graph.get_state_history(config) if each.next == (node,)][-1]


print(before(desk, "draft"))

# %% [markdown]
# * A **replay** runs the thread from there again, as it was: `desk.invoke(None, old)`.
# * A **fork** changes the state there first. `fork = desk.update_state(old, {"kind": "complaint"})` makes a new
#   checkpoint whose parent is the old one, and `desk.invoke(None, fork)` runs on from it.
#
# **Predict.** The ticket is closed, and the customer has one mail. `old` is `before(desk, "draft")`.
#
# 1. `desk.invoke(None, old)`: which nodes run, in order?
# 2. How many mails has the customer then?
# 3. Now `fork = desk.update_state(old, {"kind": "complaint"})`, and nothing more. `desk.get_state(TICKET)` names no
#    checkpoint. What does its `next` hold?
# 4. `desk.invoke(None, fork)`: how many mails has the customer then, all in all?
#
# Assign a list of four to `predicted_back`. The first and the third are lists of names.

# %% answer id="predict_back"
### BEGIN SOLUTION
predicted_back = [["draft", "send", "close"], 2, ["draft"], 3]
### END SOLUTION

# %% wrong loses="back_replay back_fork" why="what is done is done, so nothing runs twice"
predicted_back = [[], 1, [], 1]

# %% wrong loses="back_replay back_fork" why="a replay shows what was, as a recording does"
predicted_back = [["draft", "send", "close"], 1, ["draft"], 2]

# %% wrong loses="back_replay" why="a replay begins at the first node"
predicted_back = [["classify", "draft", "send", "close"], 2, ["draft"], 3]

# %% wrong loses="back_replay" why="the node of the checkpoint itself runs again too"
predicted_back = [["classify", "draft", "send"], 2, ["draft"], 3]

# %% wrong loses="back_fork" why="the thread stays closed until the fork has run to its end"
predicted_back = [["draft", "send", "close"], 2, [], 3]

# %% wrong loses="back_fork" why="going back undoes what came after"
predicted_back = [["draft", "send", "close"], 2, ["draft"], 1]

# %% wrong loses="back_replay back_fork" why="one number for all"
predicted_back = 2

# %% right why="tuples"
predicted_back = (("draft", "send", "close"), 1 + 1, ("draft",), 1 + 1 + 1)

# %% test id="back_replay" points=1
with mail_service("plain") as mail:
    ran = []
    desk = make_desk(lambda letter, state, info: deliver(mail, letter), ran).compile(
        InMemorySaver()
    )
    desk.invoke(TEXT, TICKET)
    old = before(desk, "draft")
    ran.clear()
    desk.invoke(None, old)
    measured = [list(ran), len(mail.inbox())]
    fork = desk.update_state(old, {"kind": "complaint"})
    measured.append(list(desk.get_state(TICKET).next))
    desk.invoke(None, fork)
    measured.append(len(mail.inbox()))
    mails = [each.body for each in mail.inbox()]
drawn = history(desk, TICKET)
four = isinstance(predicted_back, list | tuple) and len(predicted_back) == 4
assert four, f"predicted_back must be a list of four, and it is {predicted_back!r}"
problem = differs(predicted_back[:2], measured[:2], ["the nodes", "the mails"])
assert not problem, f"{problem}. What does the state at `old` say of the letter that went out?"

# %% test id="back_fork" points=1
assert four, f"predicted_back must be a list of four, and it is {predicted_back!r}"
problem = differs(predicted_back[2:], measured[2:], ["next, after update_state", "the mails"])
assert not problem, (
    f"{problem}. Without an id, get_state takes the newest checkpoint of the thread."
)

# %% [markdown]
# ## See it

# %%
drawn

# %%
for number, body in enumerate(mails, 1):
    print(number, body)

# %% [markdown]
# ## Why
#
# * A node runs from the state at its checkpoint. At `old` its `sent` is `[]`, so for `send` no letter has gone out.
#   Everything after the point runs again, whole, with all that it does.
# * Nothing is deleted or overwritten. The three branches are there, and the customer has three letters.
# * The **head** of a thread, where it goes on, is always its newest checkpoint. `update_state` made one, and from that
#   moment the closed ticket was open: who called `invoke(None, TICKET)` then, ran on from the fork. A replay makes one
#   too, of the source `"fork"`.
#
# So `update_state` on an old config is no rollback and no trial. It moves the thread at once.
#
# One trap more. A config with an id in it goes back *each time*. Who keeps such a config as the name of the thread
# runs every new message from the same old point:

# %%
outbox = []
desk = make_desk(lambda letter, state, info: outbox.append(letter)).compile(InMemorySaver())
desk.invoke(TEXT, TICKET)
for name, config in (("without an id", TICKET), ("with an id", desk.get_state(TICKET).config)):
    for _ in range(3):
        desk.invoke({"text": "And where is my cable?"}, config)
    known = desk.get_state(TICKET).values["sent"]
    print(f"three more messages, {name}: the state knows {len(known)} letters")
print("really sent:", len(outbox))

# %% [markdown]
# ## The old yes
#
# A refund is asked for, approved and paid. Then somebody wants to know what would have become of a "no".


# %%
REFUND = {"configurable": {"thread_id": "refund-17"}}


class Refund(TypedDict, total=False):
    answer: str


def answered_yes():
    """A thread that asked and got its yes; what its nodes did; and the config of its question."""
    done = []

    def ask(state):
        done.append("ask")
        return {"answer": interrupt("Refund 800?")}

    def pay(state):
        if state["answer"] == "yes":
            done.append("800 paid")

    builder = StateGraph(Refund).add_node(ask).add_node(pay)
    graph = builder.add_edge(START, "ask").add_edge("ask", "pay").compile(InMemorySaver())
    graph.invoke({}, REFUND)
    old = graph.get_state(REFUND).config
    graph.invoke(Command(resume="yes"), REFUND)
    return graph, done, old


# %% [markdown]
# **Predict.** 800 have been paid, once. `old` is the checkpoint at which the question was asked. Three ways to say
# no, each on a new thread like that:
#
# 1. `graph.invoke(Command(resume="no"), old)`
# 2. `graph.invoke(None, old)`, then `graph.invoke(Command(resume="no"), REFUND)`
# 3. `fork = graph.update_state(old, {})`, then `graph.invoke(Command(resume="no"), fork)`
#
# How often has the 800 been paid in the end, the first time included? Assign a list of three numbers to
# `predicted_paid`.

# %% answer id="predict_paid"
### BEGIN SOLUTION
predicted_paid = [2, 1, 1]
### END SOLUTION

# %% wrong loses="predict_paid_check" why="a no is a no"
predicted_paid = [1, 1, 1]

# %% wrong loses="predict_paid_check" why="whatever goes back to the question finds the old answer"
predicted_paid = [2, 2, 2]

# %% wrong loses="predict_paid_check" why="a replay gives the old answer again, as old versions did"
predicted_paid = [1, 2, 1]

# %% wrong loses="predict_paid_check" why="a fork is a copy, with the answer in it"
predicted_paid = [2, 1, 2]

# %% wrong loses="predict_paid_check" why="going back undoes the payment"
predicted_paid = [0, 0, 0]

# %% right why="counted out"
predicted_paid = (len(["then", "now"]), len(["then"]), 1)

# %% test id="predict_paid_check" points=1
measured = []
for way in (1, 2, 3):
    graph, done, old = answered_yes()
    if way == 1:
        graph.invoke(Command(resume="no"), old)
        stored = graph.checkpointer.get_tuple(old).pending_writes
        state_after_no, done_after_no = graph.get_state(REFUND).values, done
    elif way == 2:
        asked_again = graph.invoke(None, old)
        graph.invoke(Command(resume="no"), REFUND)
        drawn = history(graph, REFUND)
    else:
        graph.invoke(Command(resume="no"), graph.update_state(old, {}))
    measured.append(done.count("800 paid"))
problem = differs(
    predicted_paid, measured, ["resume, old", "None, old, then resume", "fork, resume"]
)
assert not problem, f"{problem}. At which checkpoint does the yes lie? Which way makes a new one?"

# %% [markdown]
# The first way, looked at closely: what was done, what the state says afterwards, and what is stored with the question.

# %%
print("done:", done_after_no)
print("the state after the no:", state_after_no)
for task, channel, value in stored:
    if channel == "__resume__":
        whose = "the thread" if set(task) <= set("0-") else "the task ask"
        print("stored with the question:", value, "for", whose)

# %% [markdown]
# `ask` was entered three times: to ask, with the yes, and with the no. The third time `interrupt()` looked up the
# answers that are stored for this task. The first is "yes". The "no" was stored beside it and never read. Then `pay`
# ran, from a state that says yes.
#
# A replay and a fork make a checkpoint of their own, and to that nobody has given an answer yet. So a replay asks
# again, which is the safe behaviour:

# %%
print("invoke(None, old):", asked_again)
drawn

# %% [markdown]
# The rule: an answer belongs to the open question at the head. Never send a `Command(resume=…)` to an old config.
# (LangGraph 1.0.5 did not even ask again at a replay, and paid. The repair was langchain-ai/langgraph pull request
# 7038.)

# %% [markdown]
# ## `update_state` in four facts
#
# **One.** It writes as if a node had just returned the values: the last one that ran, or the one you name with
# `as_node`. What is next follows from that node's edges.

# %%
desk = make_desk(lambda *_: None).compile(InMemorySaver())
desk.invoke(TEXT, TICKET)
closed, old = desk.get_state(TICKET).config, before(desk, "draft")
for as_node in (None, "__start__", "draft", "close"):
    fork = desk.update_state(old, {"kind": "complaint"}, as_node=as_node)
    print(f"as_node={as_node!r:12} next: {desk.get_state(fork).next}")

# %% [markdown]
# With `as_node="draft"` the draft is skipped, and the letter is missing when `send` wants it.
#
# **Two.** Values pass through the reducers, so a list grows. `Overwrite` goes past the reducer. But only where there
# is one: a plain field keeps the wrapper.

# %%
for values in (
    {"sent": ["second letter"]},
    {"sent": Overwrite(["second letter"])},
    {"status": Overwrite("open")},
):
    state = desk.get_state(desk.update_state(closed, values)).values
    print({name: state[name] for name in values})

# %% [markdown]
# **Three.** A field that the state does not have is ignored without a word. The checkpoint is made all the same, and
# nothing in it has changed.

# %%
fork = desk.update_state(old, {"knid": "complaint"})
print(desk.get_state(fork).values["kind"], desk.get_state(TICKET).next)

# %% [markdown]
# **Four.** On a thread that waits for an answer, the question is gone from `interrupts`, as the new checkpoint has
# not asked yet. It still waits: `next` says so, and `invoke(None)` asks again.

# %%
graph, _, old = answered_yes()
fork = graph.update_state(old, {})
print("waiting for", graph.get_state(fork).next, "questions", graph.get_state(fork).interrupts)
graph.invoke(None, fork)
print("after invoke(None):", [question.value for question in graph.get_state(REFUND).interrupts])

# %% [markdown]
# ### Repair: `amend`
#
# Write `amend(graph, config, values)`. It makes a new checkpoint after the one that `config` names, and returns its
# config.
#
# * In it, each field of `values` holds exactly the given value. All other fields are as they were.
# * If a name in `values` is no field of the state, it raises `ValueError` with that name, and writes nothing.
#
# `fields` tells you which fields a graph has, and which of them have a reducer.


# %%
def fields(graph):
    """The fields of the state: for each, whether it has a reducer."""
    return {
        name: isinstance(graph.channels[name], BinaryOperatorAggregate)
        for name in graph.output_channels
    }


print(fields(desk))


# %% answer id="amend"
def amend(graph, config, values):
    """Make a new checkpoint in which the fields hold exactly these values; return its config."""
    ### BEGIN SOLUTION
    known = fields(graph)
    strange = [name for name in values if name not in known]
    if strange:
        raise ValueError(f"the state has no field {', '.join(map(repr, strange))}")
    exact = {name: Overwrite(v) if known[name] else v for name, v in values.items()}
    return graph.update_state(config, exact)
    ### END SOLUTION


# %% wrong loses="amend_exact amend_refuses" why="update_state does that"
def amend(graph, config, values):
    return graph.update_state(config, values)


# %% wrong loses="amend_exact" why="Overwrite for everything"
def amend(graph, config, values):
    for name in values:
        if name not in fields(graph):
            raise ValueError(name)
    return graph.update_state(config, {name: Overwrite(v) for name, v in values.items()})


# %% wrong loses="amend_exact" why="a field that has no value yet is no field"
def amend(graph, config, values):
    for name in values:
        if name not in graph.get_state(config).values:
            raise ValueError(name)
    reduced = {name for name, reducer in fields(graph).items() if reducer}
    exact = {name: Overwrite(v) if name in reduced else v for name, v in values.items()}
    return graph.update_state(config, exact)


# %% wrong loses="amend_refuses" why="writes first and looks afterwards"
def amend(graph, config, values):
    reduced = {name for name, reducer in fields(graph).items() if reducer}
    exact = {name: Overwrite(v) if name in reduced else v for name, v in values.items()}
    found = graph.update_state(config, exact)
    for name in values:
        if name not in fields(graph):
            raise ValueError(name)
    return found


# %% wrong loses="amend_refuses" why="leaves out what the state does not have"
def amend(graph, config, values):
    known = fields(graph)
    exact = {n: Overwrite(v) if known[n] else v for n, v in values.items() if n in known}
    return graph.update_state(config, exact)


# %% wrong loses="amend_exact" why="amends the head, whatever the config names"
def amend(graph, config, values):
    known = fields(graph)
    for name in values:
        if name not in known:
            raise ValueError(name)
    exact = {name: Overwrite(v) if known[name] else v for name, v in values.items()}
    return graph.update_state(TICKET, exact)


# %% wrong loses="amend_exact" why="the field with a reducer is sent"
def amend(graph, config, values):
    for name in values:
        if name not in fields(graph):
            raise ValueError(name)
    exact = {name: Overwrite(v) if name == "sent" else v for name, v in values.items()}
    return graph.update_state(config, exact)


# %% wrong loses="amend_exact" why="a list has a reducer, all else has none"
def amend(graph, config, values):
    for name in values:
        if name not in fields(graph):
            raise ValueError(name)
    exact = {name: Overwrite(v) if isinstance(v, list) else v for name, v in values.items()}
    return graph.update_state(config, exact)


# %% right why="the difference of two sets, and only those with a reducer wrapped"
def amend(graph, config, values):
    missing = set(values) - set(graph.output_channels)
    if missing:
        raise ValueError(f"no such field: {sorted(missing)}")
    changes = dict(values)
    for name in changes:
        if isinstance(graph.channels[name], BinaryOperatorAggregate):
            changes[name] = Overwrite(changes[name])
    return graph.update_state(config, changes)


# %% test id="amend_exact" points=1
def closed_desk():
    desk = make_desk(lambda *_: None).compile(InMemorySaver())
    desk.invoke(TEXT, TICKET)
    return desk


class Parcel(TypedDict, total=False):
    items: Annotated[list[str], operator.add]
    weight: Annotated[int, operator.add]
    sent: list[str]


def packed_parcel():
    graph = StateGraph(Parcel).add_node("pack", lambda state: {"items": ["adapter"], "weight": 3})
    graph.add_node("close", lambda state: {}).add_edge(START, "pack").add_edge("pack", "close")
    graph = graph.compile(InMemorySaver())
    graph.invoke({}, TICKET)
    return graph


for make, node, values in (
    (closed_desk, "draft", {"kind": "complaint"}),
    (closed_desk, "draft", {"status": "in doubt"}),
    (closed_desk, "close", {"sent": []}),
    (closed_desk, "close", {"sent": ["by hand"], "letter": "by hand"}),
    (packed_parcel, "close", {"items": ["cable"], "weight": 1, "sent": ["41"]}),
):
    desk = make()
    config = before(desk, node)
    expected = desk.get_state(config).values | values
    try:
        made = amend(desk, config, values)
    except ValueError as refused:
        raise AssertionError(f"amend with {values} before {node}: {refused!r}") from None
    assert isinstance(made, dict), f"amend must return the new config, and it returned {made!r}"
    found = desk.get_state(made)
    assert found.values == expected and found.next == (node,), (
        f"amend with {values} before {node}: the state is {found.values}, next {found.next}; "
        f"expected {expected}, next {(node,)}. Look at facts one and two."
    )

# %% test id="amend_refuses" points=1
for values in ({"knid": "complaint"}, {"kind": "complaint", "staus": "open"}):
    desk = closed_desk()
    saved = len(list(desk.get_state_history(TICKET)))
    strange = next(name for name in values if name not in Ticket.__annotations__)
    try:
        outcome = f"returned {amend(desk, before(desk, 'draft'), values)}"
    except ValueError as refused:
        named = strange in str(refused)
        outcome = "refused" if named else f"raised {refused!r} without the name"
    written = len(list(desk.get_state_history(TICKET))) - saved
    assert outcome == "refused" and not written, (
        f"amend with {values}: it {outcome} and wrote {written} checkpoints; "
        f"expected a ValueError that names {strange!r}, and nothing written. Look at fact three."
    )

# %% [markdown]
# ## Find the step that went wrong
#
# A run of 20 steps cross-compiles re2. At one step the toolchain file is forgotten, and from there on everything is
# built for the wrong machine. The acceptance at the end notices. Which step was it?


# %%
class Build(TypedDict, total=False):
    step: int
    target: str


BUILD = {"configurable": {"thread_id": "run-217"}}
RIGHT, WRONG = "aarch64", "x86_64"


def builds_for(targets, saver):
    """A graph whose step n builds for the n-th of `targets`."""

    def work(state):
        step = state.get("step", 0)
        return {"step": step + 1, "target": targets[step]}

    builder = StateGraph(Build).add_node(work).add_edge(START, "work")
    done = {True: END, False: "work"}
    builder.add_conditional_edges("work", lambda state: state["step"] == len(targets), done)
    return builder.compile(saver)


def forgets(*steps, of=20):
    """The targets of a run in which the toolchain file is forgotten at these steps."""
    return [WRONG if step in steps else RIGHT for step in range(1, of + 1)]


# %% [markdown]
# Write `first_bad(graph, config, check)`. `check(values)` returns true as long as the state is all right. The
# function returns the config of the oldest checkpoint, *on the way from the first checkpoint to the head*, whose state
# fails the check, and `None` if none does.
#
# Branches that were left behind are not on the way. And do not suppose that what went wrong stays wrong: the state may
# be right again in between. The first checkpoint has no values yet, and is checked too: `check({})`.


# %% answer id="first_bad"
def first_bad(graph, config, check):
    """Return the config of the first checkpoint on the way to the head that fails `check`."""
    ### BEGIN SOLUTION
    found, snapshot = None, graph.get_state(config)
    while snapshot.created_at:
        if not check(snapshot.values):
            found = snapshot.config
        if snapshot.parent_config is None:
            break
        snapshot = graph.get_state(snapshot.parent_config)
    return found
    ### END SOLUTION


# %% wrong loses="bad_line bad_way" why="the first in the list, which is the newest"
def first_bad(graph, config, check):
    for snapshot in graph.get_state_history(config):
        if not check(snapshot.values):
            return snapshot.config


# %% wrong loses="bad_way" why="the oldest of all checkpoints, whatever branch"
def first_bad(graph, config, check):
    bad = [each.config for each in graph.get_state_history(config) if not check(each.values)]
    return bad[-1] if bad else None


# %% wrong loses="bad_line bad_way" why="returns the last good one"
def first_bad(graph, config, check):
    snapshot, found = graph.get_state(config), None
    while snapshot.parent_config:
        if not check(snapshot.values):
            found = snapshot.parent_config
        snapshot = graph.get_state(snapshot.parent_config)
    return found


# %% wrong loses="bad_way" why="goes back from the head as long as it is wrong"
def first_bad(graph, config, check):
    snapshot, found = graph.get_state(config), None
    while not check(snapshot.values):
        found = snapshot.config
        if not snapshot.parent_config:
            break
        snapshot = graph.get_state(snapshot.parent_config)
    return found


# %% wrong loses="bad_way" why="halves the way, as git bisect does"
def first_bad(graph, config, check):
    way = [graph.get_state(config)]
    while way[-1].parent_config:
        way.append(graph.get_state(way[-1].parent_config))
    way.reverse()
    low, high = 0, len(way)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if check(way[middle].values) else (low, middle)
    return way[low].config if low < len(way) else None


# %% wrong loses="bad_line bad_way" why="the number of the step"
def first_bad(graph, config, check):
    for snapshot in list(graph.get_state_history(config))[::-1]:
        if not check(snapshot.values):
            return snapshot.metadata["step"]


# %% right why="by ids, from the history"
def first_bad(graph, config, check):
    def name(config):
        return config["configurable"]["checkpoint_id"]

    snapshots = {name(each.config): each for each in graph.get_state_history(config)}
    way, at = [], next(iter(snapshots), None)
    while at:
        way.append(snapshots[at])
        parent = snapshots[at].parent_config
        at = parent and name(parent)
    return next((each.config for each in reversed(way) if not check(each.values)), None)


# %% test id="bad_line" points=1
def on_target(values):
    return values.get("target", RIGHT) == RIGHT


def not_found(graph, expected, check=on_target):
    """One sentence if `first_bad` does not find the checkpoint with these values, or ""."""
    found = first_bad(graph, BUILD, check)
    if expected is None:
        return "" if found is None else f"expected None, and got {found!r}"
    if not isinstance(found, dict) or "checkpoint_id" not in found.get("configurable", {}):
        hint = " (does it return what it finds?)" if found is None else ""
        return f"expected a config with a checkpoint_id, and got {found!r}{hint}"
    values = graph.get_state(found).values
    return "" if values == expected else f"it found {values}, expected {expected}"


for first in (7, 1, 20, None):
    graph = builds_for(forgets(*range(first or 21, 21)), InMemorySaver())
    graph.invoke({}, BUILD)
    problem = not_found(graph, first and {"step": first, "target": WRONG})
    assert not problem, f"20 steps, wrong from step {first} on: {problem}. Which end is the newest?"

# %% test id="bad_way" points=1
saver = InMemorySaver()
graph = builds_for(forgets(3, 4, 5, of=5), saver)
graph.invoke({}, BUILD)
[good] = [each for each in graph.get_state_history(BUILD) if each.values.get("step") == 2]
graph = builds_for(forgets(8, 9, of=10), saver)
graph.invoke(None, good.config)
problem = not_found(graph, {"step": 8, "target": WRONG})
assert not problem, f"wrong at 3, replayed from 2, wrong again at 8: {problem}. Follow the parents."

[at_9] = [each for each in graph.get_state_history(BUILD) if each.values.get("step") == 9]
builds_for(forgets(of=12), saver).invoke(None, at_9.config)
problem = not_found(graph, {"step": 8, "target": WRONG})
assert not problem, (
    f"the same thread, forked at 9 and right since: {problem}. Look at the whole way."
)

graph = builds_for(forgets(4, 9, 10, of=10), InMemorySaver())
graph.invoke({}, BUILD)
problem = not_found(graph, {"step": 4, "target": WRONG})
assert not problem, f"wrong at 4, right from 5 on, wrong at 9 and 10: {problem}. The first counts."
problem = not_found(graph, {}, lambda values: "step" in values)
assert not problem, f"a check that fails for the first checkpoint: {problem}"

# %% [markdown]
# Use it on the 20 steps. What ran on the way to a checkpoint is what its parent had as `next`.

# %%
graph = builds_for(forgets(*range(7, 21)), InMemorySaver())
graph.invoke({}, BUILD)
bad = graph.get_state(first_bad(graph, BUILD, on_target))
good = graph.get_state(bad.parent_config)
print(good.values, "then", good.next, "then", bad.values)

# %% [markdown]
# ## The red line
#
# So you know the step. May you go back to it? For the build you may: compiling again harms nobody. For the ticket you
# have seen what happens.
#
# The line is drawn by effects. A node that acts on the outside world first writes a note, with the checkpoint from
# which it runs: `get_runtime().execution_info.checkpoint_id`. All notes of a thread are its **ledger of effects**. It
# lies outside the checkpoints, so that a kill and a step back leave it as it is.
#
# In this section the bench's journal is both: a letter is sent when it is noted.


# %%
def noting_in(folder):
    journal = Journal(folder.path / "effects.jsonl")

    def act(letter, state, info):
        journal.effect(json.dumps([info.checkpoint_id, letter]))

    return act


def ledger(folder):
    """The effects of the thread, oldest first: pairs of a checkpoint id and a letter."""
    lives = Journal(folder.path / "effects.jsonl").lives()
    return [
        tuple(json.loads(each.word)) for life in lives for each in life if each.what == "effect"
    ]


@contextmanager
def open_desk(folder, **settings):
    with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        yield make_desk(noting_in(folder)).compile(saver, **settings)


with WorkFolder.fresh() as folder, open_desk(folder) as desk:
    desk.invoke(TEXT, TICKET)
    sent_from = before(desk, "send")["configurable"]["checkpoint_id"]
    for checkpoint_id, letter in ledger(folder):
        print(letter, "| from the checkpoint before send:", checkpoint_id == sent_from)


# %% [markdown]
# The state at a point **knows** an effect if the step that did it has come to its end on the way to that point. The
# way is the point, its parent, the parent's parent, and so on. The effect's checkpoint must be on it, and the next
# checkpoint on the way must be one that a step made: `metadata["source"] == "loop"`. A fork, a replay, `update_state`
# and a new input leave a checkpoint without running its node; their source is another. A step here has one effect: if
# there are two notes of one checkpoint, the step that ended knows the last, and the other is of a killed attempt.
#
# Any other effect of the thread has happened in the world, and a run that goes on from the point may do it again, or
# contradict it. Hence the **red line**: *go back only to a point that knows all effects of the thread.*
#
# Three lists look like the same and are not: the effects *noted before* the point (another branch may have done them),
# those of its *parents* (the way may have left a parent without running its node), and those of nodes *that have run*
# (a node that was killed when it had acted is in no checkpoint).
#
# Write `fork_safely(graph, config, values, effects)`. `effects` is what `ledger` returns. If the point that `config`
# names knows all of them, it makes the fork with `values` and returns its config. If not, it writes nothing and raises
# `RedLine`, with a message that quotes the letter of each effect which the point does not know, and no other.


# %%
class RedLine(Exception):
    """The state there does not know all that has been done."""


# %% [markdown]
# The checks use the next cell.


# %%
def tried(desk, config, values, effects):
    """What `fork_safely` does: the fork's config, or the message of its refusal."""
    saved = len(list(desk.checkpointer.list(TICKET)))
    try:
        fork = fork_safely(desk, config, values, effects)
    except RedLine as refusal:
        written = len(list(desk.checkpointer.list(TICKET))) - saved
        return str(refusal) + (f" (and wrote {written} checkpoints)" if written else "")
    known = isinstance(fork, dict) and "checkpoint_id" in fork.get("configurable", {})
    assert known, f"fork_safely must return the fork's config, and it returned {fork!r}"
    return fork


def check_allowed(desk, config, values, effects, where):
    fork = tried(desk, config, values, effects)
    assert isinstance(fork, dict), (
        f"{where}: refused with {fork!r}; expected a fork. What is known?"
    )
    found = desk.get_state(fork)
    right = found.values == desk.get_state(config).values | values and found.parent_config == config
    assert right, (
        f"{where}: the fork has {found.values}; expected a child of the point with {values}"
    )
    return fork


def check_refused(desk, config, effects, unknown, where):
    said = tried(desk, config, {"kind": "complaint"}, effects)
    assert not isinstance(said, dict), f"{where}: it forked; expected RedLine with {unknown}"
    named = {letter for _, letter in effects if letter in said}
    assert named == unknown and "(and wrote" not in said, (
        f"{where}: refused with {said!r}; expected a refusal that quotes {unknown}, "
        "no other letter, and writes nothing"
    )


# %% answer id="fork_safely"
def fork_safely(graph, config, values, effects):
    """Fork at a point that knows all effects, or raise RedLine."""
    ### BEGIN SOLUTION
    finished, at = set(), graph.get_state(config)
    while at.parent_config:
        if at.metadata["source"] == "loop":
            finished.add(at.parent_config["configurable"]["checkpoint_id"])
        at = graph.get_state(at.parent_config)
    unknown = []
    for checkpoint_id, effect in reversed(effects):
        if checkpoint_id in finished:
            finished.remove(checkpoint_id)  # each step knows one effect: that of its last attempt
        else:
            unknown.append(effect)
    if unknown:
        raise RedLine(f"the state there does not know that this was done: {'; '.join(unknown)}")
    return graph.update_state(config, values)
    ### END SOLUTION


# %% wrong loses="fork_refuses fork_lost" why="a fork leaves the old branch alone, so it harms nobody"
def fork_safely(graph, config, values, effects):
    return graph.update_state(config, values)


# %% wrong loses="fork_lost" why="all that hangs on a parent of the point is known there"
def fork_safely(graph, config, values, effects):
    known, above = set(), graph.get_state(config).parent_config
    while above:
        known.add(above["configurable"]["checkpoint_id"])
        above = graph.get_state(above).parent_config
    unknown = [effect for checkpoint_id, effect in effects if checkpoint_id not in known]
    if unknown:
        raise RedLine("; ".join(unknown))
    return graph.update_state(config, values)


# %% wrong loses="fork_lost" why="only an update and a fork leave a checkpoint without running its node"
def fork_safely(graph, config, values, effects):
    known, at = set(), graph.get_state(config)
    while at.parent_config:
        if at.metadata["source"] not in ("update", "fork"):
            known.add(at.parent_config["configurable"]["checkpoint_id"])
        at = graph.get_state(at.parent_config)
    last = {where: number for number, (where, _) in enumerate(effects)}
    unknown = [
        what
        for number, (where, what) in enumerate(effects)
        if where not in known or number != last[where]
    ]
    if unknown:
        raise RedLine("; ".join(unknown))
    return graph.update_state(config, values)


# %% wrong loses="fork_lost" why="two notes of one checkpoint are one effect"
def fork_safely(graph, config, values, effects):
    known, at = set(), graph.get_state(config)
    while at.parent_config:
        if at.metadata["source"] == "loop":
            known.add(at.parent_config["configurable"]["checkpoint_id"])
        at = graph.get_state(at.parent_config)
    unknown = [letter for where, letter in effects if where not in known]
    if unknown:
        raise RedLine("; ".join(unknown))
    return graph.update_state(config, values)


# %% wrong loses="fork_lost" why="counts: the state knows so many letters, so it knows the first ones"
def fork_safely(graph, config, values, effects):
    sent = graph.get_state(config).values.get("sent", [])
    unknown = [letter for _, letter in effects][len(sent) :]
    if unknown:
        raise RedLine("; ".join(unknown))
    return graph.update_state(config, values)


# %% wrong loses="fork_allows fork_refuses fork_lost" why="whoever has sent a letter may never go back"
def fork_safely(graph, config, values, effects):
    if effects:
        raise RedLine("; ".join(letter for _, letter in effects))
    return graph.update_state(config, values)


# %% wrong loses="fork_lost" why="later than the point is after the point"
def fork_safely(graph, config, values, effects):
    point = graph.get_state(config).config["configurable"]["checkpoint_id"]
    later = [letter for checkpoint_id, letter in effects if checkpoint_id >= point]
    if later:
        raise RedLine("; ".join(later))
    return graph.update_state(config, values)


# %% wrong loses="fork_lost" why="looks for the letter in the state, where another with the same words may be"
def fork_safely(graph, config, values, effects):
    sent = graph.get_state(config).values.get("sent", [])
    unknown = [letter for _, letter in effects if letter not in sent]
    if unknown:
        raise RedLine("; ".join(unknown))
    return graph.update_state(config, values)


# %% wrong loses="fork_lost" why="asks which nodes have run since, and so misses the one that was killed"
def fork_safely(graph, config, values, effects):
    point = graph.get_state(config).config["configurable"]["checkpoint_id"]
    ran = {
        each.parent_config["configurable"]["checkpoint_id"]
        for each in graph.get_state_history({"configurable": {"thread_id": "ticket-41"}})
        if each.parent_config and each.metadata["source"] == "loop"
    }
    later = [letter for where, letter in effects if where in ran and where >= point]
    if later:
        raise RedLine("; ".join(later))
    return graph.update_state(config, values)


# %% wrong loses="fork_allows fork_lost" why="takes the point itself for one of its parents, the wrong way round"
def fork_safely(graph, config, values, effects):
    known, at = set(), graph.get_state(config)
    if at.parent_config:
        at = graph.get_state(at.parent_config)
    while at.parent_config:
        known.add(at.parent_config["configurable"]["checkpoint_id"])
        at = graph.get_state(at.parent_config)
    unknown = [letter for where, letter in effects if where not in known]
    if unknown:
        raise RedLine("; ".join(unknown))
    return graph.update_state(config, values)


# %% wrong loses="fork_refuses fork_lost" why="counts the point among what lies before it"
def fork_safely(graph, config, values, effects):
    known, at = set(), graph.get_state(config)
    while at:
        known.add(at.config["configurable"]["checkpoint_id"])
        at = at.parent_config and graph.get_state(at.parent_config)
    unknown = [letter for where, letter in effects if where not in known]
    if unknown:
        raise RedLine("; ".join(unknown))
    return graph.update_state(config, values)


# %% wrong loses="fork_refuses fork_lost" why="forks first and looks afterwards"
def fork_safely(graph, config, values, effects):
    fork = graph.update_state(config, values)
    known, at = set(), graph.get_state(config)
    while at.parent_config:
        known.add(at.parent_config["configurable"]["checkpoint_id"])
        at = graph.get_state(at.parent_config)
    unknown = [letter for where, letter in effects if where not in known]
    if unknown:
        raise RedLine("; ".join(unknown))
    return fork


# %% wrong loses="fork_refuses fork_lost" why="refuses without a name"
def fork_safely(graph, config, values, effects):
    known, at = set(), graph.get_state(config)
    while at.parent_config:
        known.add(at.parent_config["configurable"]["checkpoint_id"])
        at = graph.get_state(at.parent_config)
    if any(where not in known for where, _ in effects):
        raise RedLine("not safe")
    return graph.update_state(config, values)


# %% right why="recursively, and the last note of each checkpoint by a dict"
def fork_safely(graph, config, values, effects):
    def way_to(config):
        state = graph.get_state(config)
        return [*(way_to(state.parent_config) if state.parent_config else []), state]

    way = way_to(config)
    stepped = {
        state.parent_config["configurable"]["checkpoint_id"]
        for state in way
        if state.metadata["source"] == "loop"
    }
    last = {where: number for number, (where, _) in enumerate(effects)}
    known = {last.get(where) for where in stepped}
    unknown = [what for number, (_, what) in enumerate(effects) if number not in known]
    if unknown:
        raise RedLine(f"unknown there: {unknown}")
    return graph.update_state(config, values)


# %% [markdown]
# First the points to which one may go back: a ticket that stopped before `send` was to run, and a closed one, to a
# point after the letter.


# %% test id="fork_allows" points=1
with WorkFolder.fresh() as folder:
    with open_desk(folder, interrupt_before=["send"]) as desk:
        desk.invoke(TEXT, TICKET)
        old = before(desk, "draft")
        fork = check_allowed(desk, old, {"kind": "complaint"}, ledger(folder), "nothing sent yet")
    with open_desk(folder) as desk:
        desk.invoke(None, fork)
        letters = [letter for _, letter in ledger(folder)]
        wanted = [LETTERS["complaint"]]
        assert letters == wanted, f"the fork sent {letters}; expected {wanted}"
        old = before(desk, "close")
        check_allowed(
            desk,
            old,
            {"status": "in doubt"},
            ledger(folder),
            "closed, at the checkpoint after send",
        )
        head = desk.get_state(TICKET).config
        check_allowed(desk, head, {"status": "open"}, ledger(folder), "at the head of the thread")

# %% [markdown]
# Then the points before a letter. One thread has two letters, and the point lies between them.


# %% test id="fork_refuses" points=1
with WorkFolder.fresh() as folder, open_desk(folder) as desk:
    desk.invoke(TEXT, TICKET)
    both = {LETTERS["praise"], LETTERS["complaint"]}
    for node in ("classify", "draft", "send"):
        old = before(desk, node)
        check_refused(desk, old, ledger(folder), {LETTERS["praise"]}, f"closed, before {node}")
    desk.invoke({"text": "Where is my new adapter?"}, TICKET)
    check_refused(desk, old, ledger(folder), both, "two letters, before the first")
    [between, *_] = [each for each in desk.get_state_history(TICKET) if each.next == ("draft",)]
    unknown = {LETTERS["complaint"]}
    check_refused(desk, between.config, ledger(folder), unknown, "two letters, between them")

# %% [markdown]
# Last those that are easily missed, always at the head. Each line of `LOST` says what has become of the ticket; its
# process was killed in `send`, when the letter was out, or the ticket was closed.


# %% test id="fork_lost" points=1
def write_letter(folder):
    with open_desk(folder) as desk:
        desk.invoke(TEXT, TICKET, durability="sync")


def other_text(desk):
    return desk.update_state(before(desk, "classify"), {"text": "The adapter broke."})


LOST = [
    ("killed", lambda desk: None),
    ("killed, then resumed: two letters", lambda desk: desk.invoke(None, TICKET)),
    ("killed, then an empty update_state", lambda desk: desk.update_state(TICKET, {})),
    ("killed, then a new input", lambda desk: desk.invoke({"text": "Hello?"}, TICKET)),
    ("closed, forked before send", lambda desk: desk.update_state(before(desk, "send"), {})),
    ("closed, replayed from draft", lambda desk: desk.invoke(None, before(desk, "draft"))),
    ("closed, replayed from send", lambda desk: desk.invoke(None, before(desk, "send"))),
    (
        "closed, a branch before its own send",
        lambda desk: desk.invoke(None, other_text(desk), interrupt_before=["send"]),
    ),
    (
        "closed, a branch that sent its own letter",
        lambda desk: desk.invoke(None, other_text(desk)),
    ),
]
for story, travel in LOST:
    with WorkFolder.fresh() as folder:
        if story.startswith("killed"):
            life = launch(write_letter, folder, kill_before='return {"sent"', echo=False)
            assert life.end == "killed", f"{life}; expected a kill. Run all cells above again"
        else:
            write_letter(folder)
        with open_desk(folder) as desk:
            travel(desk)
            head = desk.get_state(TICKET).config
            check_refused(desk, head, ledger(folder), {LETTERS["praise"]}, f"{story}, at the head")

# %% [markdown]
# ## The way forward
#
# Where the red line forbids to go back, the customer still has a wrong letter. You **compensate**: a new step at the
# head puts it right by another effect. A second letter takes the first one back, a refund takes back a payment. The
# history then says what happened, in the order in which it happened.
#
# The new letter quotes what the state says was sent. So go forward only from a head that knows all effects. One that
# does not (or a graph without such a step): close the thread with the reason, and let a new thread compensate by the
# ledger. Here the head knows all.
#
# Write `go_forward(graph, config, values)`. `config` names the checkpoint at which the state first was wrong, as
# `first_bad` returns it. One node made that checkpoint. The function makes a new checkpoint at the *head* of the
# thread, as if that node had just returned `values`, and returns its config.
#
# For the ticket, `classify` was wrong, and `values` is `{"kind": "correction"}`. Look at `draft` and `LETTERS` at the
# top: the letter of a correction quotes the last one that went out.


# %% answer id="go_forward"
def go_forward(graph, config, values):
    """Go on from the head as if the node that made the wrong checkpoint had returned `values`."""
    ### BEGIN SOLUTION
    wrong = graph.get_state(config)
    [culprit] = graph.get_state(wrong.parent_config).next
    head = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
    return graph.update_state(head, values, as_node=culprit)
    ### END SOLUTION


# %% wrong loses="forward_kind forward_letter" why="goes back to the wrong checkpoint and corrects it there"
def go_forward(graph, config, values):
    return graph.update_state(config, values)


# %% wrong loses="forward_kind forward_letter" why="at the head, as the last node that ran there"
def go_forward(graph, config, values):
    return graph.update_state(TICKET, values)


# %% wrong loses="forward_letter" why="always as classify"
def go_forward(graph, config, values):
    return graph.update_state(TICKET, values, as_node="classify")


# %% wrong loses="forward_kind" why="whoever returned a letter is draft"
def go_forward(graph, config, values):
    return graph.update_state(TICKET, values, as_node="draft" if "letter" in values else "classify")


# %% wrong loses="forward_kind" why="whoever returned a letter with words in it is draft"
def go_forward(graph, config, values):
    node = "draft" if values.get("letter") else "classify"
    return graph.update_state(TICKET, values, as_node=node)


# %% wrong loses="forward_letter" why="the first field tells the node"
def go_forward(graph, config, values):
    node = {"kind": "classify", "letter": "draft"}[next(iter(values))]
    return graph.update_state(TICKET, values, as_node=node)


# %% wrong loses="forward_kind forward_letter" why="the node that is next after the wrong checkpoint"
def go_forward(graph, config, values):
    [node] = graph.get_state(config).next
    return graph.update_state(TICKET, values, as_node=node)


# %% wrong loses="forward_kind forward_letter" why="a new input"
def go_forward(graph, config, values):
    graph.invoke(values, TICKET)
    return graph.get_state(TICKET).config


# %% wrong loses="forward_kind forward_letter" why="goes back to the parent, as the node that ran there"
def go_forward(graph, config, values):
    parent = graph.get_state(config).parent_config
    [node] = graph.get_state(parent).next
    return graph.update_state(parent, values, as_node=node)


# %% right why="by the history"
def go_forward(graph, config, values):
    thread = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
    history = {
        each.config["configurable"]["checkpoint_id"]: each
        for each in graph.get_state_history(thread)
    }
    wrong = history[config["configurable"]["checkpoint_id"]]
    culprit = history[wrong.parent_config["configurable"]["checkpoint_id"]].tasks[0].name
    return graph.update_state(thread, dict(values), culprit)


# %% test id="forward_kind" points=1
def forward(node, values):
    """What becomes of a closed ticket whose `node` was wrong: next, forks, letters, the thread."""
    with WorkFolder.fresh() as folder, open_desk(folder) as desk:
        desk.invoke(TEXT, TICKET)
        after = {"classify": "draft", "draft": "send"}[node]
        step = go_forward(desk, before(desk, after), values)
        assert isinstance(step, dict), f"go_forward must return a config, and it returned {step!r}"
        where = desk.get_state(step).next
        if where == (after,):
            desk.invoke(None, step)
        thread = list(desk.get_state_history(TICKET))
        parents = [
            each.parent_config["configurable"]["checkpoint_id"]
            for each in thread
            if each.parent_config
        ]
        forks = len(parents) - len(set(parents))
        return where, forks, [letter for _, letter in ledger(folder)], history(desk, TICKET)


def check_forward(node, values, after, letter):
    where, forks, letters, drawn = forward(node, values)
    expected = [LETTERS["praise"], letter]
    assert (where, forks, letters) == ((after,), 0, expected), (
        f"{node} was wrong, and {values} is right: the new step has next {where}, the thread has "
        f"{forks} forks, and the letters are {letters}; expected next {(after,)}, no fork, and "
        f"{expected}. Which node made the wrong checkpoint?"
    )
    return drawn


CORRECTION = LETTERS["correction"].format(last=LETTERS["praise"])
check_forward("classify", {"kind": "correction", "letter": "Hello."}, "draft", CORRECTION)
drawn = check_forward("classify", {"kind": "correction"}, "draft", CORRECTION)

# %% test id="forward_letter" points=1
CALL = {"letter": "We are sorry. Call us."}
for values in (CALL, {"kind": "complaint"} | CALL):
    check_forward("draft", values, "send", CALL["letter"])

# %% [markdown]
# One line, no branch, and the state knows both letters:

# %%
drawn

# %% [markdown]
# ## With a key a replay is harmless
#
# The red line is for effects that cannot bear a repetition. An effect with an idempotency key can, if the key is the
# same at each repetition. Three ways to make one:
#
# * none
# * `info.task_id`, LangGraph's own id of the task
# * from the state: the ticket, the node, and the number of the letter


# %%
KEYS = {
    "no key": lambda state, info: "",
    "task id": lambda state, info: info.task_id,
    "from the state": lambda state, info: f"ticket-41:send:{len(state.get('sent', [])) + 1}",
}


def replay_draft(desk):
    desk.invoke(None, before(desk, "draft"))


def fork_draft(desk):
    desk.invoke(None, desk.update_state(before(desk, "draft"), {"kind": "complaint"}))


def second_message(desk):
    desk.invoke({"text": "Where is my new adapter?"}, TICKET)


def mails_after(travel, key):
    """The number of mails when a closed ticket has travelled, or "refused"."""
    with mail_service("keyed") as mail:

        def act(letter, state, info):
            deliver(mail, letter, KEYS[key](state, info))

        desk = make_desk(act).compile(InMemorySaver())
        desk.invoke(TEXT, TICKET)
        try:
            travel(desk)
        except smtplib.SMTPDataError:
            return "refused"
        return len(mail.inbox())


# %% [markdown]
# The service honours keys: the same mail under a known key is not delivered again, and another mail under it is
# refused.
#
# **Predict.** The ticket is closed, with one mail. How many mails are there afterwards, or is it `"refused"`?
#
# 1. replay, no key
# 2. replay, the task id as key
# 3. replay, the key from the state
# 4. fork with another letter, the key from the state
# 5. no step back: a second message comes and is answered, the key from the state
#
# Assign a list of five to `predicted_keys`.

# %% answer id="predict_keys"
### BEGIN SOLUTION
predicted_keys = [2, 2, 1, "refused", 2]
### END SOLUTION

# %% wrong loses="predict_keys_check" why="the framework's own id is the same at each repetition"
predicted_keys = [2, 1, 1, "refused", 2]

# %% wrong loses="predict_keys_check" why="a key lets a letter through if it differs"
predicted_keys = [2, 2, 1, 2, 2]

# %% wrong loses="predict_keys_check" why="the key is the same for all letters of the ticket"
predicted_keys = [2, 2, 1, "refused", "refused"]

# %% wrong loses="predict_keys_check" why="a service with keys never delivers twice"
predicted_keys = [1, 1, 1, 1, 1]

# %% wrong loses="predict_keys_check" why="a known key swallows the other letter"
predicted_keys = [2, 2, 1, 1, 2]

# %% right why="a tuple, put together"
predicted_keys = (2,) * 2 + (1, "refused") + (2,)

# %% test id="predict_keys_check" points=1
trips = [(replay_draft, key) for key in KEYS]
trips += [(fork_draft, "from the state"), (second_message, "from the state")]
measured = [mails_after(*trip) for trip in trips]
labels = [f"{travel.__name__}, {key}" for travel, key in trips]
problem = differs(predicted_keys, measured, labels)
hints = {
    "replay": ". A replay makes a checkpoint of its own, and tasks belong to checkpoints.",
    "fork": ". Which number has its letter, by the state at the fork? Is that key known?",
    "second": ". Which number has its letter?",
}
assert not problem, problem + hints.get(problem.split("_")[0], ".")

# %% [markdown]
# All of them:

# %%
print("".ljust(16), *(key.ljust(16) for key in KEYS))
for travel in (replay_draft, fork_draft, second_message):
    print(travel.__name__.ljust(16), *(str(mails_after(travel, key)).ljust(16) for key in KEYS))

# %% [markdown]
# The task id is the same at a retry and after a crash. A replay runs the node as another task. The key from the state
# goes back with the state: a replay finds the key it had, and a second letter gets a new one. And the fork that
# would contradict the first letter is stopped by the service: the red line, drawn by the other side.

# %% [markdown]
# ## The bill
#
# Going back is possible because every step keeps the whole state. An agent reads a document of 10 kB in each step, and
# needs all of them at the end. Five designs:
#
# * *one document*: it reads only one, at the start, and never touches it again
# * *list*: the documents are a list in the state, with `operator.add`
# * *ids*: the state has the list of their ids; the documents lie in a table of their own, which is counted too
# * *delta*: the list in a **`DeltaChannel`** (beta), which stores what is added in place of the whole
# * *delta, often*: the same, with the whole list every 10 updates (the default is 100)


# %%
STEPS = 50


def document(n):
    return random.Random(n).randbytes(5000).hex()


def joined(old, writes):
    return old + [item for write in writes for item in write]


def state_with(field):
    return TypedDict("State", {"step": int, "read": field})


def whole(n, table):
    return {"read": [document(n)]}


def by_id(n, table):
    return {"read": [table(n)]}


LIST = state_with(Annotated[list, operator.add])
DELTA = state_with(Annotated[list, DeltaChannel(joined)])
OFTEN = state_with(Annotated[list, DeltaChannel(joined, snapshot_frequency=10)])
DESIGNS = {  # for each the state, what is in it at first, and what a step returns
    "one document": (state_with(str), document(0), lambda n, table: {}),
    "list": (LIST, [], whole),
    "ids": (LIST, [], by_id),
    "delta": (DELTA, [], whole),
    "delta, often": (OFTEN, [], whole),
}

# %% [markdown]
# `bytes_by_step` runs a design and adds up, from the rows of the file, what was on disk after each step. You may run it
# without reading it.


# %%
@cache
def bytes_by_step(name):
    schema, first, change = DESIGNS[name]
    with (
        WorkFolder.fresh() as folder,
        SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver,
        closing(sqlite3.connect(folder.path / "documents.sqlite", isolation_level=None)) as db,
    ):
        db.execute("CREATE TABLE documents (id TEXT, step INTEGER, text TEXT)")

        def table(n):
            db.execute("INSERT INTO documents VALUES (?, ?, ?)", (f"document-{n}", n, document(n)))
            return f"document-{n}"

        def work(state):
            return {"step": state["step"] + 1} | change(state["step"] + 1, table)

        builder = StateGraph(schema).add_node(work).add_edge(START, "work")
        ends = {True: END, False: "work"}
        builder.add_conditional_edges("work", lambda state: state["step"] == STEPS, ends)
        builder.compile(saver).invoke({"step": 0, "read": first}, BUILD)
        found = [
            (json.loads(metadata)["step"], size)
            for metadata, size in saver.conn.execute(
                "SELECT metadata, length(checkpoint) + length(metadata) + (SELECT coalesce("
                "sum(length(value)), 0) FROM writes WHERE writes.checkpoint_id = c.checkpoint_id)"
                " FROM checkpoints c"
            )
        ]
        found += db.execute("SELECT step, length(text) FROM documents").fetchall()
    return {step: sum(size for at, size in found if at <= step) for step in range(STEPS + 1)}


# %% [markdown]
# **Predict.** How do the bytes on disk grow with the number of steps: `"constant"`, `"linear"` or `"quadratic"`?
# Assign a list of four words to `predicted_shapes`, for one document, list, ids and delta. The check compares 20 steps
# with 40: about the same, about twice as much, or about four times. (What is small at 40 may win at 40,000: a list of
# ids is a list too, and a delta is stored whole from time to time.)

# %% answer id="predict_shapes"
### BEGIN SOLUTION
predicted_shapes = ["linear", "quadratic", "linear", "linear"]
### END SOLUTION

# %% wrong loses="predict_shapes_check" why="what is not touched is stored once"
predicted_shapes = ["constant", "quadratic", "linear", "linear"]

# %% wrong loses="predict_shapes_check" why="10 kB more in each step is linear"
predicted_shapes = ["linear", "linear", "linear", "linear"]

# %% wrong loses="predict_shapes_check" why="ids are so small that they cost nothing, and the table counts for nothing"
predicted_shapes = ["linear", "quadratic", "constant", "linear"]

# %% wrong loses="predict_shapes_check" why="a delta channel saves half of it"
predicted_shapes = ["linear", "quadratic", "linear", "quadratic"]

# %% wrong loses="predict_shapes_check" why="one word for all"
predicted_shapes = "linear"

# %% right why="a tuple, put together"
predicted_shapes = ("linear", "quadratic") + ("linear",) * 2


# %% test id="predict_shapes_check" points=1
def shape(name):
    grown = log2(bytes_by_step(name)[40] / bytes_by_step(name)[20])
    return "constant" if grown < 0.5 else "linear" if grown < 1.5 else "quadratic"


names = list(DESIGNS)[:4]
problem = differs(predicted_shapes, [shape(name) for name in names], names)
assert not problem, (
    f"{problem}. What does one more step add: to the checkpoints, the writes, the table?"
)

# %%
growth({name: bytes_by_step(name) for name in DESIGNS}, "An agent that reads 10 kB in each step")

# %% [markdown]
# * *One document*: never touched, and stored again with every checkpoint.
# * *List*: step 50 stores 50 documents, and all steps before it have stored theirs. Half a megabyte was read, and more
#   than ten lie on disk. (Reported as langchain-ai/langgraphjs issue 1138 and bytedance/deer-flow issue 4138.)
# * *Ids* and *delta* store each document once. The ids are the oldest cure, and need nothing from LangGraph. But the
#   table does not go back with the thread: whoever goes back has an old list of ids, and all documents.
# * *Delta, often* shows the other side: every tenth checkpoint holds the whole list again. With the default that
#   happens too, every hundred updates. And all checkpoints in between are worth nothing without those before them.
#
# ## Throw the past away
#
# LangGraph deletes nothing by itself. A saver may have a method `prune` for it. That of `SqliteSaver` only raises:

# %%
try:
    SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False)).prune(["run-217"])
except NotImplementedError as error:
    print(type(error).__name__)

# %% [markdown]
# `delete_thread` deletes a thread whole, which is right for one that is over. This section is about those that are not.
# To **prune** a thread is to delete its old checkpoints so that it can go on.
#
# What can go wrong? In June 2025 somebody asked just that: a timer of the database deletes some checkpoints of a
# thread and leaves others, what becomes of it? (langchain-ai/langchain-mongodb issue 151.) Try it, on a build that
# compiles abseil and gtest side by side, then asks:


# %%
class Patch(TypedDict, total=False):
    built: Annotated[list[str], operator.add]
    source: str
    answer: str


def make_build(ran, nested=False, in_abseil=lambda: None):
    def node(name, changes):
        def work(state):
            ran.append(name)
            if name == "abseil":
                in_abseil()
            return {"built": [name]} | changes

        return name, work

    def ask(state):
        ran.append("ask")
        return {"answer": interrupt("May I patch re2?")}

    inner = StateGraph(Patch).add_node(*node("look", {})).add_node("put", ask)
    inner = inner.add_edge(START, "look").add_edge("look", "put").compile()
    builder = StateGraph(Patch).add_node(*node("fetch", {"source": document(0)}))
    builder.add_node(*node("abseil", {})).add_node(*node("gtest", {})).add_node(*node("re2", {}))
    builder.add_node("ask", inner if nested else ask)
    builder.add_edge(START, "fetch").add_edge("fetch", "abseil").add_edge("fetch", "gtest")
    return builder.add_edge(["abseil", "gtest"], "ask").add_edge("ask", "re2")


# %% [markdown]
# `opened` opens a file of threads, `look` returns all that can be seen of one. `Telling` is a saver that tells when the
# pending write of gtest is on disk: `abseil` waits for it, and then its process is killed.


# %%
@contextmanager
def opened(folder, ran=None, **kind):
    with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        yield make_build([] if ran is None else ran, **kind).compile(saver)


def look(graph, config=BUILD):
    def short(value):
        return f"{len(value)} letters" if isinstance(value, str) and len(value) > 99 else value

    def seen(state):
        values = {name: short(value) for name, value in state.values.items()}
        within = [seen(task.state) if task.state else None for task in state.tasks]
        tasks = [(task.name, task.result) for task in state.tasks]
        questions = [(each.id, each.value) for each in state.interrupts]
        return values, state.next, list(zip(tasks, within, strict=True)), questions

    return seen(graph.get_state(config, subgraphs=True))


class Telling(SqliteSaver):
    def put_writes(self, config, writes, task_id, task_path=""):
        super().put_writes(config, writes, task_id, task_path)
        if ("built", ["gtest"]) in writes:
            self.told.set()


def killed_in_abseil(folder):
    def wait():
        told.wait(10)
        print("gtest is on disk")

    told = threading.Event()
    with Telling.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        saver.told = told
        make_build([], in_abseil=wait).compile(saver).invoke({}, BUILD, durability="sync")


# %%
def pause(folder):
    with opened(folder) as graph:
        graph.invoke({}, BUILD)


def pause_inside(folder):
    with opened(folder, nested=True) as graph:
        graph.invoke({}, BUILD)


def finish(folder):
    with opened(folder) as graph:
        graph.invoke({}, BUILD)
        graph.invoke(Command(resume="yes"), BUILD)


def crash(folder):
    life = launch(killed_in_abseil, folder, kill_before='print("gtest', echo=False)
    assert life.end == "killed", f"{life}; it should have been killed. Run all cells above again"


def went_on(folder, value, **kind):
    """The nodes that run when the thread goes on."""
    ran = []
    with opened(folder, ran, **kind) as graph:
        graph.invoke(value, BUILD)
    return ran


# %%
YES = Command(resume="yes")
DELETIONS = {
    "nothing": "SELECT 1",
    "all pending writes": "DELETE FROM writes",
    "the newest checkpoint": "DELETE FROM checkpoints WHERE checkpoint_id IN "
    "(SELECT max(checkpoint_id) FROM checkpoints GROUP BY checkpoint_ns)",
}


def after_deleting(statement):
    found = {}
    for make, value in ((pause, YES), (crash, None)):
        with WorkFolder.fresh() as folder:
            make(folder)
            with closing(sqlite3.connect(folder.path / "threads.sqlite")) as db, db:
                db.execute(statement)
            with opened(folder) as graph:
                questions = graph.get_state(BUILD).interrupts
            ran = went_on(folder, value)
        if make is pause:
            found["paused: the question"] = "kept" if questions else "lost"
            found["paused: the yes"] = "kept" if "re2" in ran else "lost"
        else:
            found["crashed: gtest"] = "twice" if "gtest" in ran else "once"
    return found


outcome_matrix(
    {name: after_deleting(statement) for name, statement in DELETIONS.items()},
    "Some rows were deleted, then the thread went on",
)

# %% [markdown]
# A thread consists of its newest checkpoint *and* that checkpoint's pending writes. Without the writes the question
# is no longer seen, and after a crash the finished gtest runs again. Without the newest checkpoint the thread stands
# where it stood before: what had finished runs again, or the "yes" is lost and the question asked anew.
#
# Two things more can be lost. Each run of a subgraph keeps its checkpoints under the same thread, in a **namespace** of
# its own (the column `checkpoint_ns`). And a DeltaChannel:


# %%
def with_delta(folder, value=None, thread=BUILD, name="notes"):
    """The state of the delta thread, after an input if there is one, and its newest metadata."""
    kept = Annotated[list, DeltaChannel(joined, snapshot_frequency=4)]
    builder = StateGraph(TypedDict("Notes", {"step": int, name: kept})).add_edge(START, "work")
    builder.add_node("work", lambda s: {"step": s["step"] + 1, name: [s["step"]]})
    builder.add_conditional_edges(
        "work", lambda s: END if s["step"] == 5 else "work", ["work", END]
    )
    with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        graph = builder.compile(saver)
        if value:
            graph.invoke(value, thread)
        state = graph.get_state(thread)
        return state.values, state.metadata


NO_NOTES = {"step": 0, "notes": []}

with WorkFolder.fresh() as folder:
    print("before:", *with_delta(folder, NO_NOTES))
    with closing(sqlite3.connect(folder.path / "threads.sqlite")) as db, db:
        head = "(SELECT max(checkpoint_id) FROM checkpoints)"
        for name in ("checkpoints", "writes"):
            db.execute(f"DELETE FROM {name} WHERE checkpoint_id < {head}")
    print("after: ", with_delta(folder)[0])

# %% [markdown]
# The list is empty, and there is no error. The newest checkpoint said so beforehand, in its metadata: since the last
# whole list, `notes` has had so many updates, in so many steps.
#
# ### Fix it: `prune`
#
# Write `prune(path, thread_id)` for a SQLite file that nobody has open.
#
# * Of each namespace of the thread, the newest checkpoint stays, with its writes, and nothing else. Newest is the
#   largest `checkpoint_id`. Branches left behind go. (A finished run of a subgraph leaves its namespace behind too, as
#   `ask:…`, and of that one checkpoint stays for good: harmless, and not yours to tell from one that waits.)
# * All that can be seen of the thread is as before, and it goes on as it would have.
# * Other threads are not touched.
# * The file becomes smaller. SQLite keeps emptied pages for later, until it is told `VACUUM`, outside a transaction.
# * A thread with a DeltaChannel: keep what its list needs and no more, or raise `ValueError` that names the field, and
#   delete nothing. Look for `counters_since_delta_snapshot` in the metadata (JSON) of its newest checkpoints. Where it
#   is missing, the newest checkpoint has the whole list, and can be pruned like any other.
# * A kill at any line does the thread no harm.
#
# <details><summary>Hint</summary>
#
# Two `DELETE`s in one transaction. `(checkpoint_ns, checkpoint_id) NOT IN (SELECT …)` compares pairs. With
# `closing(sqlite3.connect(path)) as db`, an inner `with db:` is a transaction.
# </details>


# %% [markdown]
# The next cell is for the last check: a copy of the crashed thread, and a look at it. `in_sqlite` is called by SQLite
# itself after each 20 instructions of its own work, so that a kill can fall within a statement.


# %%
def all_rows(folder):
    with closing(sqlite3.connect(folder.path / "threads.sqlite")) as db:
        return [
            db.execute(f"SELECT * FROM {name}").fetchall() for name in ("checkpoints", "writes")
        ]


def same_as_before(folder):
    with opened(folder) as graph:
        return "kept" if look(graph) == seen_before else "lost"


@contextmanager
def crashed_copy():
    with WorkFolder.fresh() as copy:
        (copy.path / "threads.sqlite").write_bytes(crashed_file)
        yield copy


def in_sqlite():
    return 0  # go on


def prune_it(folder):
    def connect(*args, **settings):
        db = plain(*args, **settings)
        db.set_progress_handler(in_sqlite, 20)
        return db

    plain, sqlite3.connect = sqlite3.connect, connect  # in a process of its own
    prune(folder.path / "threads.sqlite", "run-217")


with WorkFolder.fresh() as folder:
    crash(folder)
    with opened(folder) as graph:
        seen_before = look(graph)
    crashed_file = (folder.path / "threads.sqlite").read_bytes()


# %% answer id="prune"
def prune(path, thread_id):
    """Delete the past of a thread."""
    ### BEGIN SOLUTION
    of_thread = "thread_id = :thread"
    heads = (
        f"SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE {of_thread} GROUP BY 1"
    )
    is_head = f"(checkpoint_ns, checkpoint_id) IN ({heads})"
    names = {"thread": thread_id}
    with closing(sqlite3.connect(str(path))) as db:
        select = f"SELECT metadata FROM checkpoints WHERE {of_thread} AND {is_head}"
        for (metadata,) in db.execute(select, names):
            deltas = json.loads(metadata).get("counters_since_delta_snapshot")
            if deltas:
                raise ValueError(f"the past of {thread_id} is needed by {', '.join(deltas)}")
        with db:
            for table in ("writes", "checkpoints"):
                db.execute(f"DELETE FROM {table} WHERE {of_thread} AND NOT {is_head}", names)
        db.execute("VACUUM")
    ### END SOLUTION


# %% wrong loses="prune_open prune_around prune_killed prune_delta" why="deletes all pending writes"
def prune(path, thread_id):
    with closing(sqlite3.connect(path)) as db:
        with db:
            db.execute("DELETE FROM writes WHERE thread_id = ?", (thread_id,))
            db.execute(
                "DELETE FROM checkpoints WHERE thread_id = ?"
                " AND (checkpoint_ns, checkpoint_id) NOT IN (SELECT checkpoint_ns,"
                " max(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
                " GROUP BY checkpoint_ns)",
                (thread_id, thread_id),
            )
        db.execute("VACUUM")


# %% wrong loses="prune_around prune_delta" why="one newest checkpoint for the thread, whatever the namespace"
def prune(path, thread_id):
    with closing(sqlite3.connect(path)) as db:
        with db:
            [newest] = db.execute(
                "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?", (thread_id,)
            ).fetchone()
            for table in ("writes", "checkpoints"):
                db.execute(
                    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id <> ?",
                    (thread_id, newest),
                )
        db.execute("VACUUM")


# %% wrong loses="prune_around prune_delta" why="forgets that a file holds many threads"
def prune(path, thread_id):
    newest = (
        "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY 1"
    )
    with closing(sqlite3.connect(path)) as db:
        with db:
            for table in ("writes", "checkpoints"):
                db.execute(
                    f"DELETE FROM {table} WHERE (checkpoint_ns, checkpoint_id) NOT IN ({newest})",
                    (thread_id,),
                )
        db.execute("VACUUM")


# %% wrong loses="prune_small" why="deleted rows make the file smaller"
def prune(path, thread_id):
    newest = (
        "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY 1"
    )
    with closing(sqlite3.connect(path)) as db, db:
        for _, ns, row in db.execute(
            f"SELECT thread_id, checkpoint_ns, metadata FROM checkpoints WHERE thread_id = ?"
            f" AND (checkpoint_ns, checkpoint_id) IN ({newest})",
            (thread_id, thread_id),
        ):
            if b"counters_since_delta_snapshot" in row:
                raise ValueError(f"notes: {row} {ns}")
        for table in ("writes", "checkpoints"):
            db.execute(
                f"DELETE FROM {table} WHERE thread_id = ? AND"
                f" (checkpoint_ns, checkpoint_id) NOT IN ({newest})",
                (thread_id, thread_id),
            )


# %% wrong loses="prune_delta" why="the newest checkpoint holds the whole state"
def prune(path, thread_id):
    newest = (
        "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY 1"
    )
    with closing(sqlite3.connect(path)) as db:
        with db:
            for table in ("writes", "checkpoints"):
                db.execute(
                    f"DELETE FROM {table} WHERE thread_id = ? AND"
                    f" (checkpoint_ns, checkpoint_id) NOT IN ({newest})",
                    (thread_id, thread_id),
                )
        db.execute("VACUUM")


# %% wrong loses="prune_around prune_delta" why="the highest step is the newest"
def prune(path, thread_id):
    with closing(sqlite3.connect(path)) as db:
        newest = {}
        for ns, name, metadata in db.execute(
            "SELECT checkpoint_ns, checkpoint_id, metadata FROM checkpoints WHERE thread_id = ?"
            " ORDER BY checkpoint_id",
            (thread_id,),
        ):
            step = json.loads(metadata)["step"]
            newest[ns] = max(newest.get(ns, (-2, "")), (step, name))
        with db:
            for table in ("writes", "checkpoints"):
                for ns, (_, name) in newest.items():
                    db.execute(
                        f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ?"
                        " AND checkpoint_id <> ?",
                        (thread_id, ns, name),
                    )
        db.execute("VACUUM")


# %% wrong loses="prune_killed prune_delta" why="takes the newest out, deletes the thread and puts it back"
def prune(path, thread_id):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        kept = {}
        for table in ("checkpoints", "writes"):
            kept[table] = db.execute(
                f"SELECT * FROM {table} WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id) IN"
                " (SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
                " GROUP BY 1)",
                (thread_id, thread_id),
            ).fetchall()
        for table in kept:
            db.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,))
        for table, rows in kept.items():
            for row in rows:
                db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        db.execute("VACUUM")


# %% wrong loses="prune_delta" why="one delta thread in the file, and nothing is pruned"
def prune(path, thread_id):
    named = {"id": thread_id}
    with closing(sqlite3.connect(path)) as db:
        heads = (
            "(checkpoint_ns, checkpoint_id) IN (SELECT checkpoint_ns, max(checkpoint_id)"
            " FROM checkpoints WHERE thread_id = :id GROUP BY 1)"
        )
        select = "SELECT metadata FROM checkpoints WHERE checkpoint_ns = ''"
        deltas = [row for row in db.execute(select, named) if b"counters_since" in row[0]]
        if deltas:
            raise ValueError(deltas)
        with db:
            for table in ("writes", "checkpoints"):
                db.execute(f"DELETE FROM {table} WHERE thread_id = :id AND NOT {heads}", named)
        db.execute("VACUUM")


# %% wrong loses="prune_delta" why="a delta field that once had counters has them for ever"
def prune(path, thread_id):
    named = {"id": thread_id}
    with closing(sqlite3.connect(path)) as db:
        heads = (
            "(checkpoint_ns, checkpoint_id) IN (SELECT checkpoint_ns, max(checkpoint_id)"
            " FROM checkpoints WHERE thread_id = :id GROUP BY 1)"
        )
        select = "SELECT metadata FROM checkpoints WHERE thread_id = :id"
        deltas = [row for row in db.execute(select, named) if b"counters_since" in row[0]]
        if deltas:
            raise ValueError(deltas)
        with db:
            for table in ("writes", "checkpoints"):
                db.execute(f"DELETE FROM {table} WHERE thread_id = :id AND NOT {heads}", named)
        db.execute("VACUUM")


# %% wrong loses="prune_delta" why="the field is always called notes"
def prune(path, thread_id):
    named = {"id": thread_id}
    with closing(sqlite3.connect(path)) as db:
        heads = (
            "(checkpoint_ns, checkpoint_id) IN (SELECT checkpoint_ns, max(checkpoint_id)"
            " FROM checkpoints WHERE thread_id = :id GROUP BY 1)"
        )
        select = "SELECT metadata FROM checkpoints WHERE thread_id = :id AND " + heads
        if any(b"counters_since" in row[0] for row in db.execute(select, named)):
            raise ValueError("notes")
        with db:
            for table in ("writes", "checkpoints"):
                db.execute(f"DELETE FROM {table} WHERE thread_id = :id AND NOT {heads}", named)
        db.execute("VACUUM")


# %% wrong loses="prune_delta" why="leaves a delta thread alone and says nothing"
def prune(path, thread_id):
    named = {"id": thread_id}
    with closing(sqlite3.connect(path)) as db:
        heads = (
            "(checkpoint_ns, checkpoint_id) IN (SELECT checkpoint_ns, max(checkpoint_id)"
            " FROM checkpoints WHERE thread_id = :id GROUP BY 1)"
        )
        select = "SELECT metadata FROM checkpoints WHERE thread_id = :id AND " + heads
        deltas = [row for row in db.execute(select, named) if b"counters_since" in row[0]]
        if deltas:
            return
        with db:
            for table in ("writes", "checkpoints"):
                db.execute(f"DELETE FROM {table} WHERE thread_id = :id AND NOT {heads}", named)
        db.execute("VACUUM")


# %% wrong loses="prune_delta" why="deletes first and refuses afterwards"
def prune(path, thread_id):
    named = {"id": thread_id}
    with closing(sqlite3.connect(path)) as db:
        heads = (
            "(checkpoint_ns, checkpoint_id) IN (SELECT checkpoint_ns, max(checkpoint_id)"
            " FROM checkpoints WHERE thread_id = :id GROUP BY 1)"
        )
        select = "SELECT metadata FROM checkpoints WHERE thread_id = :id AND " + heads
        deltas = [row for row in db.execute(select, named) if b"counters_since" in row[0]]
        with db:
            for table in ("writes", "checkpoints"):
                db.execute(f"DELETE FROM {table} WHERE thread_id = :id AND NOT {heads}", named)
        if deltas:
            raise ValueError(deltas)
        db.execute("VACUUM")


# %% wrong loses="prune_around" why="namespaces of subgraphs are none of its business"
def prune(path, thread_id):
    named = {"id": thread_id}
    with closing(sqlite3.connect(path)) as db:
        heads = (
            "(checkpoint_ns, checkpoint_id) IN (SELECT checkpoint_ns, max(checkpoint_id)"
            " FROM checkpoints WHERE thread_id = :id GROUP BY 1)"
        )
        select = "SELECT metadata FROM checkpoints WHERE thread_id = :id AND " + heads
        deltas = [row for row in db.execute(select, named) if b"counters_since" in row[0]]
        if deltas:
            raise ValueError(deltas)
        with db:
            for table in ("writes", "checkpoints"):
                db.execute(
                    f"DELETE FROM {table} WHERE thread_id = :id AND checkpoint_ns = '' AND NOT {heads}",
                    named,
                )
        db.execute("VACUUM")


# %% wrong loses="prune_killed" why="takes the writes out and puts them back in one line, which nobody can kill"
def prune(path, thread_id):
    named = {"id": thread_id}
    with closing(sqlite3.connect(path)) as db:
        heads = (
            "(checkpoint_ns, checkpoint_id) IN (SELECT checkpoint_ns, max(checkpoint_id)"
            " FROM checkpoints WHERE thread_id = :id GROUP BY 1)"
        )
        select = "SELECT metadata FROM checkpoints WHERE thread_id = :id AND " + heads
        deltas = [row for row in db.execute(select, named) if b"counters_since" in row[0]]
        if deltas:
            raise ValueError(deltas)
        # in one executescript, so that no line of Python comes between
        thread = "thread_id = '" + thread_id + "'"
        heads = heads.replace("thread_id = :id", thread)
        db.executescript(
            f"CREATE TEMP TABLE kept AS SELECT * FROM writes WHERE {thread} AND {heads};"
            f"DELETE FROM writes WHERE {thread}; INSERT INTO writes SELECT * FROM kept;"
            f"DELETE FROM checkpoints WHERE {thread} AND NOT {heads}"
        )
        db.execute("VACUUM")


# %% wrong loses="prune_open prune_around prune_small prune_killed prune_delta" why="deletes the thread"
def prune(path, thread_id):
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.delete_thread(thread_id)
    with closing(sqlite3.connect(path)) as db:
        db.execute("VACUUM")


# %% wrong loses="prune_around prune_small prune_delta" why="keeps the past, to be on the safe side"
def prune(path, thread_id):
    with closing(sqlite3.connect(path)) as db:
        db.execute("VACUUM")


# %% right why="row by row, and a delta thread keeps the way to its head"
def prune(path, thread_id):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        saved = db.execute(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints"
            " WHERE thread_id = ? ORDER BY checkpoint_id",
            (thread_id,),
        ).fetchall()
        heads = {ns: name for ns, name, _, _ in saved}
        kept = set(heads.items())
        for ns, name, parent, metadata in reversed(saved):
            if (ns, name) in kept and "counters_since_delta_snapshot" in json.loads(metadata):
                kept.add((ns, parent))
        db.execute("BEGIN IMMEDIATE")
        for ns, name, _, _ in saved:
            if (ns, name) not in kept:
                for table in ("checkpoints", "writes"):
                    db.execute(
                        f"DELETE FROM {table}"
                        " WHERE (thread_id, checkpoint_ns, checkpoint_id) = (?, ?, ?)",
                        (thread_id, ns, name),
                    )
        db.execute("COMMIT")
        db.execute("VACUUM")


# %% [markdown]
# The threads that are open: one waits for an answer, one was killed with gtest on disk.


# %% test id="prune_open" points=1
def saved_rows(folder):
    """The number of rows, by thread and namespace."""
    with closing(sqlite3.connect(folder.path / "threads.sqlite")) as db:
        select = "SELECT thread_id, checkpoint_ns, count(*) FROM checkpoints GROUP BY 1, 2"
        return {(thread, ns): n for thread, ns, n in db.execute(select)}


def pruned(folder, **kind):
    """Prune, and say in one sentence what became of the thread, or ""."""
    with opened(folder, **kind) as graph:
        seen = look(graph)
    prune(folder.path / "threads.sqlite", "run-217")
    with opened(folder, **kind) as graph:
        now = look(graph)
    names = ["the values", "the next nodes", "the tasks", "the questions"]
    for name, before_it, after_it in zip(names, seen, now, strict=True):
        if before_it != after_it:
            return f"{name} were {before_it}, and are {after_it}"
    return ""


for make, value, expected in ((pause, YES, ["ask", "re2"]), (crash, None, ["abseil", "ask"])):
    with WorkFolder.fresh() as folder:
        make(folder)
        problem = pruned(folder)
        assert not problem, (
            f"{make.__name__}, then pruned: {problem}. Which rows did that come from?"
        )
        ran = went_on(folder, value)
        assert ran == expected, (
            f"{make.__name__}, then pruned, then gone on: {ran} ran, expected {expected}. "
            "Whose writes are gone?"
        )

# %% [markdown]
# Then what lies around it: a question inside a subgraph, a thread that has gone back, so that its head is not its
# highest step, a finished one that gets a new input, and the neighbour in the same file.


# %% test id="prune_around" points=1
def go_back(folder):
    finish(folder)
    with opened(folder) as graph:
        graph.invoke(None, before(graph, "ask", BUILD))


kinds = [(pause_inside, YES, ["ask", "re2"], {"nested": True}), (go_back, YES, ["ask", "re2"], {})]
kinds += [(finish, {}, ["fetch", "abseil", "gtest", "ask"], {})]
for make, value, expected, kind in kinds:
    with WorkFolder.fresh() as folder:
        make(folder)
        neighbour = {"configurable": {"thread_id": "run-218"}}
        with opened(folder) as graph:
            graph.invoke({}, neighbour)
            seen = look(graph, neighbour)
        problem = pruned(folder, **kind)
        assert not problem, (
            f"{make.__name__}, then pruned: {problem}. Which is the newest checkpoint?"
        )
        rows = {name: n for name, n in saved_rows(folder).items() if name[0] == "run-217"}
        assert set(rows.values()) == {1}, (
            f"{make.__name__}, then pruned: {rows}; expected one checkpoint in each namespace"
        )
        ran = went_on(folder, value, **kind)
        assert sorted(ran) == sorted(expected), (
            f"{make.__name__}, then pruned, then gone on: {ran} ran, expected {expected}."
        )
        with opened(folder) as graph:
            untouched = look(graph, neighbour) == seen
        left = saved_rows(folder).get(("run-218", ""))
        assert untouched and left == 4, f"pruning run-217 left {left} checkpoints of 4 of run-218"

# %% test id="prune_small" points=1
with WorkFolder.fresh() as folder:
    for _ in range(5):
        finish(folder)
    file = folder.path / "threads.sqlite"
    size = file.stat().st_size
    prune(file, "run-217")
    rows = saved_rows(folder)
    assert rows == {("run-217", ""): 1}, (
        f"a finished thread, pruned: {rows}; expected one checkpoint"
    )
    with closing(sqlite3.connect(file)) as db:
        [left] = db.execute("SELECT count(*) FROM writes").fetchone()
    assert not left, (
        f"a finished thread, pruned: {left} writes are left; its newest checkpoint has none"
    )
    now = file.stat().st_size
    assert now < size / 3, (
        f"the file had {size} bytes and has {now}. Who gives the empty pages back?"
    )

# %% [markdown]
# And DeltaChannels: in the newest checkpoint, in older ones only, and in a neighbour.


# %% test id="prune_delta" points=1
def try_prune(folder):
    try:
        prune(folder.path / "threads.sqlite", "run-217")
    except ValueError as refusal:
        return f"refused with {str(refusal)!r}"
    return "pruned"


for name in ("notes", "errata"):
    with WorkFolder.fresh() as folder:
        seen, _ = with_delta(folder, {"step": 0, name: []}, BUILD, name)
        rows = all_rows(folder)
        said = try_prune(folder)
        assert (all_rows(folder) == rows) == (said != "pruned"), (
            f"a delta thread: {said}; expected fewer rows, or a ValueError and the same rows"
        )
        assert said == "pruned" or name in said, f"{said} does not name {name!r}"
        now, _ = with_delta(folder, None, BUILD, name)
        assert now == seen, f"a delta thread, {said}: before {seen}, after {now}. See its metadata"

neighbour = {"configurable": {"thread_id": "run-218"}}
for story, start in (("two more steps, the last with the whole list", -2), ("finished", None)):
    with WorkFolder.fresh() as folder:
        seen = [with_delta(folder, NO_NOTES, neighbour)[0]]
        if start is None:
            finish(folder)
        else:
            seen.append(with_delta(folder, {"step": start, "notes": []})[0])
        said, rows = try_prune(folder), saved_rows(folder).get(("run-217", ""))
        assert (said, rows) == ("pruned", 1), (
            f"{story}, beside a delta thread: {said}, {rows} checkpoints left; expected one"
        )
        now = [with_delta(folder, None, thread)[0] for thread in (neighbour, BUILD)[: len(seen)]]
        assert now == seen, f"{story}, beside a delta thread: before {seen}, after {now}"

# %% [markdown]
# ## Prove it
#
# `prune` is killed before each of its lines, and within its statements by `in_sqlite`, each time on a new copy of the
# thread that was killed in abseil. What can be seen of the thread must be the same after each kill.

# %% test id="prune_killed" points=1
report = explore(prune_it, crashed_copy, same_as_before, restart=False)
assert report.clean, f"{report.verdict()}. When does each of the deletions become true?"

# %%
report

# %% [markdown]
# After pruning there is nothing to go back to. Prune threads that nobody is running, and only when you are sure that
# nobody will ask how it came to this. The thread is then no evidence of anything, which leads to the last question.
#
# ## What belongs where
#
# A shop's agent has five places for a fact:
#
# * **variable**: in the process
# * **checkpointer**: a field of the thread's state
# * **store**: LangGraph's key-value store beside the threads, `store.put(namespace, key, value)`
# * **session ledger**: a file for each thread to which the application appends what was said and done
# * **business table**: a table of the shop's database, one row for each key
#
# First a look at the store, as it lies between the two worlds. A node counts visits in it, and the thread goes back:

# %%
shelf = InMemoryStore()


def count_visit(state):
    store = get_runtime().store
    item = store.get(("customers",), "c-7")
    store.put(("customers",), "c-7", {"visits": item.value["visits"] + 1 if item else 1})


visits = StateGraph(Ticket).add_node(count_visit).add_node(close).add_edge(START, "count_visit")
visits = visits.add_edge("count_visit", "close").compile(InMemorySaver(), store=shelf)
visits.invoke({}, TICKET)
print("after one visit:", shelf.get(("customers",), "c-7").value)
visits.invoke(None, before(visits, "count_visit"))
print("after a replay: ", shelf.get(("customers",), "c-7").value)

# %% [markdown]
# A `put` is an effect, like a mail. It does not go back, and a replay repeats it.
#
# The machine tries each place in the same way. You may run the next three cells without reading them. Each place can
# `put` a value under a key, `get` the present one, list the `past` ones, and `find` the keys that have a value: by one
# plain query, without the graph. Checkpoints hold values in blobs, in a form of LangGraph's own, with no field to
# compare.


# %%
HELD = {}  # each process has its own


class Variable:
    def __init__(self, path, thread):
        self.path, self.thread = path, thread
        self.mine = HELD.setdefault((os.getpid(), path), {})

    def put(self, key, value):
        self.mine[key] = value

    def get(self, key):
        return self.mine.get(key)

    def past(self, key):
        return [self.get(key)]

    def find(self, value):
        return [key for key, held in self.mine.items() if held == value]


class Ledger(Variable):
    def put(self, key, value):
        with open(self.path / f"{self.thread}.session", "a", encoding="utf-8") as file:
            print(json.dumps([key, value]), file=file)

    def lines(self, name):
        texts = [file.read_text("utf-8") for file in sorted(self.path.glob(f"{name}.session"))]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    def get(self, key):
        return dict(self.lines(self.thread)).get(key)

    def past(self, key):
        return [value for name, value in self.lines(self.thread) if name == key]

    def find(self, wanted):
        return [key for key, value in self.lines("*") if value == wanted]


# %%
class Table(Variable):
    def sql(self, statement, *values):
        with closing(sqlite3.connect(self.path / "shop.sqlite")) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT)")
            return [row[0] for row in db.execute(statement, values)]

    def put(self, key, value):
        changed = "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        self.sql(f"INSERT INTO facts VALUES (?, ?) {changed}", key, value)

    def record(self, key, value):
        self.sql("INSERT INTO facts VALUES (?, ?)", key, value)

    def get(self, key):
        return next(iter(self.sql("SELECT value FROM facts WHERE key = ?", key)), None)

    def find(self, value):
        return self.sql("SELECT key FROM facts WHERE value = ?", value)


class Shelf(Variable):
    @contextmanager
    def store(self):
        with SqliteStore.from_conn_string(str(self.path / "store.sqlite")) as store:
            store.setup()
            yield store

    def put(self, key, value):
        with self.store() as store:
            store.put(("facts",), key, {"is": value})

    def get(self, key):
        with self.store() as store:
            item = store.get(("facts",), key)
        return item and item.value["is"]

    def find(self, value):
        with self.store() as store:
            return [item.key for item in store.search(("facts",), filter={"is": value})]


# %%
class Facts(TypedDict, total=False):
    facts: Annotated[dict, operator.or_]


class Checkpoints(Variable):
    @contextmanager
    def graph(self):
        with SqliteSaver.from_conn_string(str(self.path / "threads.sqlite")) as saver:
            builder = StateGraph(Facts).add_node("work", lambda state: {}).add_edge(START, "work")
            yield builder.compile(saver), {"configurable": {"thread_id": self.thread}}

    def put(self, key, value):
        with self.graph() as (graph, config):
            graph.invoke({"facts": {key: value}}, config)

    def get(self, key):
        with self.graph() as (graph, config):
            return graph.get_state(config).values.get("facts", {}).get(key)

    def past(self, key):
        with self.graph() as (graph, config):
            states = [each.values.get("facts", {}) for each in graph.get_state_history(config)]
        return list(dict.fromkeys(state[key] for state in states[::-1] if key in state))

    def find(self, value):
        with closing(sqlite3.connect(self.path / "threads.sqlite")) as db:
            select = "SELECT DISTINCT thread_id FROM checkpoints WHERE instr(checkpoint, ?)"
            return [thread for (thread,) in db.execute(select, (value.encode(),))]


PLACES = {
    "variable": Variable,
    "checkpointer": Checkpoints,
    "store": Shelf,
    "session ledger": Ledger,
    "business table": Table,
}

# %% [markdown]
# And this is what is tried. `path` is a new folder for each trial. "Another thread" is worked on by another process.


# %%
def put_in_process(place, path, thread, pairs):
    for key, value in pairs:
        place(path, thread).put(key, value)
    print("written")


def get_in_process(place, path, thread, key):
    return place(path, thread).get(key)


def outlives_the_process(place, path):
    pairs = [("k", "v")]
    launch(put_in_process, place, path, "41", pairs, kill_before='print("written")', echo=False)
    return launch(get_in_process, place, path, "41", "k", echo=False).value == "v"


def outlives_the_thread(place, path):
    place(path, "41").put("k", "v")
    with Checkpoints(path, "41").graph() as (graph, _):
        graph.checkpointer.delete_thread("41")
    return place(path, "41").get("k") == "v"


def is_seen_from_another_thread(place, path):
    place(path, "41").put("k", "v")
    return launch(get_in_process, place, path, "42", "k", echo=False).value == "v"


def answers_a_query(place, path):
    for thread, value in (("41", "waiting"), ("42", "waiting"), ("41", "approved")):
        place(path, thread).put(thread, value)
    return place(path, "43").find("waiting") == ["42"]


# %%
def keeps_every_value_when_pruned(place, path):
    for value in ("a", "b", "c"):
        place(path, "41").put("k", value)
    with closing(sqlite3.connect(path / "threads.sqlite")) as db, db, suppress(sqlite3.Error):
        newest = "(SELECT max(checkpoint_id) FROM checkpoints)"
        db.execute(f"DELETE FROM checkpoints WHERE checkpoint_id < {newest}")
    return place(path, "41").past("k") == ["a", "b", "c"]


def refuses_a_second(place, path):
    record = getattr(place, "record", place.put)  # the strictest way to write that the place has
    for thread in ("41", "42"):
        try:
            record(place(path, thread), "payment-17", "paid")
        except sqlite3.IntegrityError:
            return thread == "42"
    return False


def goes_back_with_the_thread(place, path):
    for value in ("a", "b"):
        place(path, "41").put("k", value)
        Checkpoints(path, "41").put("version", value)
    with Checkpoints(path, "41").graph() as (graph, config):
        [*_, old] = [
            each.config
            for each in graph.get_state_history(config)
            if each.values.get("facts", {}).get("version") == "a" and each.next == ("work",)
        ]
        graph.invoke(None, old)
    return place(path, "41").get("k") == "a"


TRIALS = [outlives_the_process, outlives_the_thread, is_seen_from_another_thread, answers_a_query]
TRIALS += [keeps_every_value_when_pruned, refuses_a_second, goes_back_with_the_thread]


@cache
def passes(place, trial):
    with WorkFolder.fresh() as folder:
        return trial(PLACES[place], folder.path)


# %% [markdown]
# Six facts:
#
# * `"language"`: the customer's preferred language. She writes again next month, in a new thread; the old one has been
#   deleted by then.
# * `"next node"`: which node runs next. It must be there after a kill, and at an old checkpoint it must be what it was.
# * `"payment"`: that payment 17 was made. Two workers may try to write it down, and the second must be refused.
# * `"audit"`: what was said, every version in order. An auditor asks in a year; threads are pruned at night.
# * `"status"`: waiting or approved, for a screen that lists all tickets which wait, and no other. Its query
#   compares a field; it knows no graphs and no blobs.
# * `"draft"`: a letter in the making. Only this run needs it, also after a kill; who goes back before an edit wants it
#   unedited.
#
# Assign to `places` a dict that gives for each fact the name of a place, one of `PLACES`. The check takes what each
# fact needs and tries whether your place can do it. Where two places can, both are right.

# %% answer id="places"
### BEGIN SOLUTION
places = {
    "language": "store",
    "next node": "checkpointer",
    "payment": "business table",
    "audit": "session ledger",
    "status": "business table",
    "draft": "checkpointer",
}
### END SOLUTION

# %% wrong loses="places_world" why="the checkpointer keeps everything"
places = dict.fromkeys(
    ["language", "next node", "payment", "audit", "status", "draft"], "checkpointer"
)

# %% wrong loses="places_thread places_world" why="all that is durable belongs in the database"
places = dict.fromkeys(
    ["language", "next node", "payment", "audit", "status", "draft"], "business table"
)

# %% wrong loses="places_thread" why="a draft is long-term memory"
places = {"language": "store", "next node": "checkpointer", "payment": "business table"}
places |= {"audit": "session ledger", "status": "business table", "draft": "store"}

# %% wrong loses="places_thread" why="a draft is needed in this run only, so a variable will do"
places = {"language": "store", "next node": "checkpointer", "payment": "business table"}
places |= {"audit": "session ledger", "status": "business table", "draft": "variable"}

# %% wrong loses="places_world" why="checkpoints are the audit log"
places = {"language": "store", "next node": "checkpointer", "payment": "business table"}
places |= {"audit": "checkpointer", "status": "business table", "draft": "checkpointer"}

# %% wrong loses="places_world" why="the ledger says what was done, so it refuses what was done already"
places = {"language": "store", "next node": "checkpointer", "payment": "session ledger"}
places |= {"audit": "session ledger", "status": "business table", "draft": "checkpointer"}

# %% wrong loses="places_world" why="a payment is a fact about the customer, so it goes into the store"
places = {"language": "store", "next node": "checkpointer", "payment": "store"}
places |= {"audit": "session ledger", "status": "store", "draft": "checkpointer"}

# %% wrong loses="places_world" why="the status is a field of the state"
places = {"language": "store", "next node": "checkpointer", "payment": "business table"}
places |= {"audit": "session ledger", "status": "checkpointer", "draft": "checkpointer"}

# %% wrong loses="places_thread places_world" why="the names of the places only"
places = ["store", "checkpointer", "business table", "session ledger"]

# %% right why="the store for all that is looked up by key"
places = dict.fromkeys(["next node", "draft"], "checkpointer")
places |= dict(
    language="business table", payment="business table", status="store", audit="session ledger"
)

# %% test id="places_thread" points=1
NEEDS = {
    "next node": [outlives_the_process, goes_back_with_the_thread],
    "draft": [outlives_the_process, goes_back_with_the_thread],
    "language": [outlives_the_process, outlives_the_thread, is_seen_from_another_thread],
    "payment": [outlives_the_process, outlives_the_thread, refuses_a_second],
    "audit": [outlives_the_process, outlives_the_thread, keeps_every_value_when_pruned],
    "status": [outlives_the_process, answers_a_query],
}


def misplaced(facts):
    """One sentence on the first fact whose place cannot do what the fact needs, or ""."""
    if not isinstance(places, dict):
        return f"places must be a dict with a place for each fact, and it is {places!r}"
    for fact in facts:
        place = places.get(fact)
        if place not in list(PLACES):
            return f"{fact}: {place!r} is none of {list(PLACES)}"
        for trial in NEEDS[fact]:
            if not passes(place, trial):
                need = trial.__name__.replace("_", " ")
                return f"{fact} needs a place that {need}; it was tried, and the {place} does not"
    return ""


problem = misplaced(["next node", "draft"])
assert not problem, f"{problem}."

# %% test id="places_world" points=1
problem = misplaced(["language", "payment", "audit", "status"])
assert not problem, f"{problem}."

# %% [markdown]
# All that was tried:

# %%
print("".ljust(30), *PLACES)
for trial in TRIALS:
    words = [("yes" if passes(place, trial) else "-").ljust(len(place)) for place in PLACES]
    print(trial.__name__.replace("_", " ").ljust(30), *words)

# %% [markdown]
# * The checkpointer is the only place that goes back with the thread. So what the *run* needs to go on belongs there,
#   and what the *world* has done does not.
# * The query of a screen finds the old "waiting" among the checkpoints and in the ledger: both keep the past. Bytes
#   in the newest checkpoints would do, until LangGraph's form or your other fields change.
# * Only the table refuses, and only by `record`: its `put` overwrites, as the store's does. So for the status the store
#   does as well. When two people may approve at once, you want `record`.
# * The ledger is evidence because nobody can change it by going on. Nobody can go on from it either.
#
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"The agent took a wrong turn at step 7 of 20. Can you go
# back?"*
#
# <details><summary>One way to say it</summary>
#
# "The state can go back, the world cannot. I find the step by following the parents from the head, for the first
# state that is wrong. From the checkpoint before it I can replay, or fork with update_state, and everything after it
# runs again, effects too. The fork is the head of the thread at once. So I first ask the ledger of effects: is there
# one that no finished step on the way to step 6 has done, so one of another branch, or of a step that was killed? If
# there is none, I fork. If there is one, I go forward: if the head knows all effects, a new step there corrects by a
# second effect; if it does not, a new thread does, by the ledger. Keys that the state determines make a replay
# harmless, and let the other side refuse a fork that contradicts. An approval I never answer at the old checkpoint,
# as the stored yes would win; I let it be asked anew. All this works only as long as the checkpoints are there. Each
# holds the whole state, so big things go into a table by id, and threads get pruned: the newest checkpoint of each
# namespace and its pending writes stay."
# </details>
#
# **Often confused:** *replay* and *fork*. Both run again what lies after an old checkpoint. A replay takes the state as
# it was, a fork changes it first. A *retry* is neither: the same task runs again, from the newest checkpoint.
#
# **They may ask next:**
#
# * Your effects have keys made from run, step and call. You fork before step 7, and the model calls other tools this
#   time. What do the keys do?
# * The thread is pruned every night, and on Friday somebody asks why the agent decided so on Monday. What do you show?
