# %% [markdown]
# # 07 · Kill the agent
#
# **Where does a killed agent really go on?**
#
# 120 minutes · 20 points · before this: `06_checkpointer`
#
# Somebody wrote a LangGraph program that kills itself while a step is being saved, and is then resumed. It asks for
# the safest way of saving, `durability="sync"`. On one machine the effect of that step happened once, on another
# twice, with the same code. What a finished step leaves is saved by two background jobs, and no rule says which comes
# first. (Reported as langchain-ai/langgraph issue 8039.)
#
# "It goes on from the last checkpoint" is true, and it is not yet an answer. You will kill an agent that really
# compiles, between its steps and inside them, and say which of its calls run again. Then you will make those that had
# finished stay finished.

# %%
import ast
import inspect
import itertools
import json
import linecache
import operator
import os
import shutil
import smtplib
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing, contextmanager, suppress
from email.message import EmailMessage
from functools import cache, partial, wraps
from importlib.metadata import version
from typing import Annotated, TypedDict

from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.func import task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import get_runtime
from langgraph.types import Send

from crashlab import DATA, Journal, SoundStore, WorkFolder, explore, launch
from crashlab.figures import graph_lives, outcome_matrix
from crashlab.figures.history import history
from crashlab.quiz import differs
from crashlab.world import mail_service
from crashlab.world.script import ScriptedModel, read_script
from crashlab.world.toolchain import Toolchain, ToolError, tools

print("Python", sys.version.split()[0], "on", sys.platform)
for package in ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"):
    print(package, version(package))

# %% [markdown]
# ## The experiment
#
# Run 217 has a task. A model was asked to do it, and its replies were written down, so that you need no key:

# %%
RUN = DATA / "agents" / "run-217.json"
SCRIPT = read_script(RUN)
BUDGET = 18  # steps: as many as the recorded run took

print(SCRIPT.task)
for step, reply in enumerate(SCRIPT.replies[:5], 1):
    print(f"step {step}:", reply.content or "(no words)")
    for call in reply.tool_calls:
        print("         ", call["id"], call["name"], *call["args"].values())

# %% [markdown]
# One **step** of an agent is one reply of the model and the calls that the reply asks for. The tools are real: they
# fetch C sources into a work folder and compile them by Zig, for the machine that the environment variable
# `ZIG_TARGET` names.

# %%
CALLS = [[call["id"] for call in reply.tool_calls] for reply in SCRIPT.replies]
STEP_OF = {call: step for step, calls in enumerate(CALLS, 1) for call in calls}

print("calls in each step:       ", *map(len, CALLS))
print("calls from the first step:", *itertools.accumulate(map(len, CALLS)))

# %% [markdown]
# After step 12 there have been 24 calls.
#
# Both agents below use the same tools, and write each call that was performed into a **run record**. That is a
# database of the agent's own, beside the checkpoints. `runs` has a row for each run, `calls` one for each call.


# %%
def open_record(home, **options):
    db = sqlite3.connect(home / "runs.sqlite", isolation_level=None, **options)  # each is committed
    db.execute("PRAGMA synchronous = OFF")  # a kill takes nothing back from the operating system
    db.execute("CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, name, result)")
    db.execute("CREATE TABLE IF NOT EXISTS calls (run, id, tool, target, status)")
    return db


def compiler_kit(work):
    """The real tools: `use` performs a call, `accept` says what is wrong with the build."""
    by_name = {tool.name: tool for tool in tools(work)}

    def use(call):
        return by_name[call["name"]].invoke(call)

    def accept():
        try:
            print("accepted:", Toolchain(work).check("out/libre2.so", SCRIPT.target))
        except ToolError as error:
            return f"Not accepted: {error}"

    return use, accept


def recorded(use, record, row, journal):
    """Perform a call by `use`, then note it in the journal and in the record."""

    def use_and_record(call):
        answer = use(call)
        journal.effect(call["id"])
        values = (row, call["id"], call["name"], os.environ.get("ZIG_TARGET"), answer.status)
        record.execute("INSERT INTO calls VALUES (?, ?, ?, ?, ?)", values)
        return answer

    return use_and_record


# %% [markdown]
# The **acceptance** step does not believe the model. `check` reads the header of the built file, which says for which
# machine it is. The journal is the bench's: what really happened, for the judges and the figures.
#
# ## The agent as a plain loop
#
# It looks at what is saved, does the *one* thing that comes next, and saves. `SoundStore` is a save that no kill can
# tear, as you wrote it in `02_checkpoint`.


# %%
def unanswered(messages):
    """The calls that have no result yet, in order."""
    results = {message.tool_call_id for message in messages if message.type == "tool"}
    calls = [call for message in messages if message.type == "ai" for call in message.tool_calls]
    return [call for call in calls if call["id"] not in results]


def loop_agent(path, model, use, accept):
    """Model and tools in turn until the build is accepted; saved after each reply and each call."""
    store = SoundStore({"messages": messages_to_dict([HumanMessage(SCRIPT.task)]), "step": 0})
    while True:
        state = store.load(path)
        messages, step = messages_from_dict(state["messages"]), state["step"]
        calls = unanswered(messages)
        if calls:
            messages.append(use(calls[0]))
        elif messages[-1].type == "ai":  # it asks for nothing more: it says that it is done
            complaint = accept()
            if not complaint:
                return "accepted"
            messages.append(HumanMessage(complaint))
        elif step == BUDGET:
            return "budget_exceeded"
        else:
            messages.append(model.invoke(messages))
            step += 1
        store.save(path, {"messages": messages_to_dict(messages), "step": step})


# %% [markdown]
# ## The agent as a graph
#
# Three nodes: model, tools, accept. The state holds the messages, the steps used and the budget, and what a new
# process needs to set again. The tools node and its edges stand by themselves, because you will rewrite them.


# %%
class State(TypedDict):
    messages: Annotated[list, add_messages]
    step: int
    budget: int
    env: dict
    result: str


def where_next(state):
    if state["result"]:
        return END
    return "tools" if state["messages"][-1].tool_calls else "accept"


def tools_in_one_node(builder, use):
    def run_tools(state):
        return {"messages": [use(call) for call in state["messages"][-1].tool_calls]}

    builder.add_node("tools", run_tools)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


def agent_graph(builder, model, use, accept, add_tools):
    def ask_model(state):
        if state["step"] == state["budget"]:
            return {"result": "budget_exceeded"}
        reply = model.invoke(state["messages"])
        print(f"step {state['step'] + 1}: {reply.content or '(no words)'}", flush=True)
        return {"messages": [reply], "step": state["step"] + 1}

    def judge_build(state):
        complaint = accept()
        return {"messages": [HumanMessage(complaint)]} if complaint else {"result": "accepted"}

    builder.add_node("model", ask_model)
    builder.add_node("accept", judge_build)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("accept", lambda state: END if state["result"] else "model")
    add_tools(builder, use)


# %% [markdown]
# `open_agent` puts a run together: model, tools, record, checkpointer. If you have a key, change one line, that of
# `model` (`init_chat_model` is in `langchain.chat_models`). `WatchedGraph` is a `StateGraph` that also writes into
# the journal when a node is entered and left.


# %%
class WatchedGraph(StateGraph):
    def __init__(self, schema, journal):
        super().__init__(schema)
        self.journal = journal

    def add_node(self, name, node=None, **options):
        name, node = (name.__name__, name) if callable(name) else (name, node)

        @wraps(node)
        def watched(*args, **more):
            with self.journal.node(name):
                return node(*args, **more)

        return super().add_node(name, watched, **options)


@contextmanager
def open_agent(
    home, run_id, row, kit=compiler_kit, add_tools=tools_in_one_node, replies=SCRIPT.replies
):
    """The graph of a run; `row` is the number of the run in the record."""
    journal = Journal(home / "journal.jsonl")
    use, accept = kit(home / run_id)
    # With a key: model = init_chat_model("PROVIDER:MODEL").bind_tools(tools(home / run_id))
    model = ScriptedModel(responses=replies)
    builder = WatchedGraph(State, journal)
    with (
        closing(open_record(home, check_same_thread=False)) as record,
        SqliteSaver.from_conn_string(str(home / "threads.sqlite")) as saver,
    ):
        agent_graph(builder, model, recorded(use, record, row, journal), accept, add_tools)
        yield builder.compile(checkpointer=saver)


# %% [markdown]
# `start` begins a run. The run id is the thread id (a **thread** is one saved run, found by its name).
# `durability="sync"` waits for each checkpoint before the next super-step begins.


# %%
# Two super-steps for each step, one for the model to find the budget used up, and one more: a graph
# that ends after 37 super-steps needs a limit of 38.
LIMIT = 2 * BUDGET + 2
ENV = {"ZIG_TARGET": SCRIPT.target}  # the variables that the tools need


def settings(run_id, limit=LIMIT):
    return {"configurable": {"thread_id": run_id}, "recursion_limit": limit}


def start(home, run_id, agent=open_agent, budget=BUDGET, env=ENV, limit=LIMIT):
    """Begin a run and bring it to its end."""
    os.environ.update(env)
    (home / run_id).mkdir()
    record = open_record(home)
    values = (run_id, "running")
    row = record.execute("INSERT INTO runs (name, result) VALUES (?, ?)", values).lastrowid
    first = {"messages": [HumanMessage(SCRIPT.task)], "step": 0, "budget": budget, "result": ""}
    first["env"] = env
    with agent(home, run_id, row) as graph:
        result = graph.invoke(first, settings(run_id, limit), durability="sync")["result"]
    record.execute("UPDATE runs SET result = ? WHERE id = ?", (result, row))
    return result


def start_loop(home, run_id, kit=compiler_kit, replies=SCRIPT.replies):
    """The same for the plain loop. Called again, it goes on."""
    os.environ["ZIG_TARGET"] = SCRIPT.target
    use, accept = kit(home / run_id)
    use = recorded(use, open_record(home), 1, Journal(home / "journal.jsonl"))
    return loop_agent(home / f"{run_id}.json", ScriptedModel(responses=replies), use, accept)


@contextmanager
def new_home():
    """An empty folder for runs, their record and their checkpoints."""
    with WorkFolder.fresh() as folder:
        yield folder.path


# %% [markdown]
# The loop, once, to its end. `launch` runs a function in a process of its own.

# %%
with new_home() as home:
    loop_life = launch(start_loop, home, "run-217", deadline=60)
    loop_bytes = sum(path.stat().st_size for path in home.glob("run-217.*"))
print(loop_life)

# %% [markdown]
# And the graph:

# %%
with new_home() as home:
    graph_life = launch(start, home, "run-217", deadline=60)
    graph_bytes = sum(path.stat().st_size for path in home.glob("threads.*"))
    with open_agent(home, "run-217", 1) as graph:
        checkpoints = list(graph.get_state_history(settings("run-217")))
    nodes = [
        record.node
        for life in Journal(home / "journal.jsonl").lives()
        for record in life
        if record.what == "entered"
    ]
print(graph_life)

# %% [markdown]
# ## What each costs
#
# Lines of code, without comments, docstrings and the wiring that both have; and steps.


# %%
def code_lines(thing):
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(each):
            each.body = each.body[1:]
    return sum(bool(line.strip()) for line in ast.unparse(tree).splitlines())


loop_lines = sum(map(code_lines, [unanswered, loop_agent]))
graph_lines = sum(map(code_lines, [where_next, tools_in_one_node, agent_graph]))
graph_lines += 1 + len(State.__annotations__)
calls = sum(map(len, CALLS))
print(f"{'':28} {'loop':>6} {'graph':>6}")
print(f"{'lines of the agent':28} {loop_lines:6} {graph_lines:6}")
print(f"{'lines of its save':28} {code_lines(SoundStore):6} {'–':>6}")
print(f"{'steps':28} {len(CALLS):6} {nodes.count('model'):6}")
print(f"{'calls':28} {calls:6} {calls:6}")
print(f"{'super-steps':28} {'–':>6} {len(nodes):6}")
print(f"{'saves, or checkpoints':28} {len(CALLS) + calls:6} {len(checkpoints):6}")
print(f"{'bytes on disk':28} {loop_bytes:6} {graph_bytes:6}")

# %% [markdown]
# A **super-step** is one round of the graph: all nodes whose turn it is. A step of this agent takes two super-steps:
# model and tools, or in the end model and accept. Two checkpoints come before the first node: the input, and the
# input put into the state.
#
# * **The loop** has fewer lines, until you count its save. You read it from top to bottom. It saves after each single
#   call, because its author put the save there. It keeps the newest state only, and can do nothing but this.
# * **The graph** leaves the saving to a library. It has more places to look at. In return it keeps every checkpoint,
#   and can pause for a person, go back, and run nodes side by side. When it saves is not for its author to choose:
#   once a super-step.

# %% [markdown]
# ## Two traps of the wiring
#
# **The recursion limit.** The budget counts saved replies of the model, and a wrong route need not pass the model. Here
# a build that was not accepted leads back to the acceptance step, for ever. The recursion limit ends that. But it
# counts anew in each `invoke`, and when it goes on it even allows two steps more. So it is no budget. That is in the
# state.


# %%
def never_accepted(state):
    return {"step": state["step"] + 1, "result": ""}


wrong_route = StateGraph(State).add_node("accept", never_accepted).add_edge(START, "accept")
wrong_route.add_conditional_edges("accept", lambda state: END if state["result"] else "accept")
with SqliteSaver.from_conn_string(":memory:") as saver:
    graph = wrong_route.compile(checkpointer=saver)
    for given in ({"step": 0}, None):
        with suppress(GraphRecursionError):
            graph.invoke(given, settings("run-217"))
        print("accept ran", graph.get_state(settings("run-217")).values["step"], "times")

# %% [markdown]
# **The thread of the record.** A connection of `sqlite3` serves only the thread that made it, unless you say
# `check_same_thread=False`. A node that is alone in its super-step runs in the thread that called the graph. If you
# stream tokens (`stream_mode="messages"`), or if several tasks run at once, nodes run in a pool of threads. So the
# graph above would do without, until the day somebody streams it. `open_agent` says it for the record.
#
# ## Predict: killed after step 12
#
# `start` is killed when step 12 is over: its calls have run, its checkpoint is on disk, and the model is about to be
# asked again. A new process sets `ZIG_TARGET`, opens the graph and passes `None`, which means "go on". This is all it
# does:


# %%
def go_on(home, run_id, agent=open_agent):
    os.environ["ZIG_TARGET"] = SCRIPT.target
    with agent(home, run_id, 1) as graph:
        return graph.invoke(None, settings(run_id), durability="sync")["result"]


BEFORE_MODEL = 'reply = model.invoke(state["messages"])'


# %% [markdown]
# The check plays run 217 with tools that only say that they ran. For where the graph goes on it makes no difference,
# and it is quick.


# %%
def quick_kit(work):
    def use(call):
        return ToolMessage("done", tool_call_id=call["id"], name=call["name"])

    return use, lambda: ""


@contextmanager
def quick_agent(home, run_id, row, **parts):
    with open_agent(home, run_id, row, quick_kit, **parts) as graph:
        yield graph


# %%
def table(home, query, *values):
    """What a query finds in the run record; `values` stand for the ? in it."""
    with closing(open_record(home)) as record:
        return record.execute(query, values).fetchall()


def calls_of(home):
    """The calls of the run record, in the order in which they were performed."""
    return [call for (call,) in table(home, "SELECT id FROM calls ORDER BY rowid")]


# %% [markdown]
# Assign to `predicted_217` a pair: the step to which the first call of the new process belongs, and how many of the
# 33 calls are performed twice.

# %% answer id="predict_217"
### BEGIN SOLUTION
predicted_217 = (13, 0)
### END SOLUTION

# %% wrong loses="predict_217_check" why="the step that was killed is repeated"
predicted_217 = (12, 2)

# %% wrong loses="predict_217_check" why="a new process starts from the beginning"
predicted_217 = (1, 24)

# %% wrong loses="predict_217_check" why="the checkpoint lags one step behind"
predicted_217 = (13, 2)

# %% wrong loses="predict_217_check" why="only the step, not how many calls"
predicted_217 = 13

# %% right why="a list"
predicted_217 = [12 + 1, 0]


# %% test id="predict_217_check" points=2
with new_home() as home:
    launch(start, home, "run-217", quick_agent, kill_before=BEFORE_MODEL, visit=13, echo=False)
    done_before = len(calls_of(home))
    launch(go_on, home, "run-217", quick_agent, echo=False).result()
    done = calls_of(home)
    measured = (STEP_OF[done[done_before]], len(done) - len(set(done)))
problem = differs(predicted_217, measured, ["the step", "calls performed twice"])
assert not problem, f"{problem}. Ask which checkpoint was the newest, and what it says is next."

# %% [markdown]
# ## See it
#
# Now with the compiler, first life 1, then life 2:

# %%
with new_home() as home:
    lives_217 = [launch(start, home, "run-217", kill_before=BEFORE_MODEL, visit=13, deadline=60)]
    print(lives_217[0], "\ncalls in the record:", len(calls_of(home)), "\n")
    lives_217 += [launch(go_on, home, "run-217", deadline=60)]
    print(lives_217[1], "\ncalls in the record:", len(calls_of(home)))
    journal_217 = Journal(home / "journal.jsonl").lives()
    print(
        "the header of out/libre2.so:", (home / "run-217/out/libre2.so").read_bytes()[:20].hex(" ")
    )

# %%
graph_lives(journal_217, lives_217, "Run 217, killed after step 12")

# %% [markdown]
# abseil was installed by the first process. The second one configured re2 with it. In the header, the last two bytes
# are the number 183, which stands for AArch64.
#
# What is left of a kill in the thread itself? The same with a budget of three steps, killed after step 2, so that the
# whole history fits into a figure. (Its numbers count super-steps: step 2 of the agent ends in checkpoint 4.)

# %%
with new_home() as home:
    begin = partial(start, budget=3)
    launch(begin, home, "run-217", quick_agent, kill_before=BEFORE_MODEL, visit=3, echo=False)
    launch(go_on, home, "run-217", quick_agent, echo=False).result()
    with quick_agent(home, "run-217", 1) as graph:
        short_history = history(graph, settings("run-217"), "Killed after step 2, and resumed")
short_history

# %% [markdown]
# The first process wrote the checkpoints up to 4, the second those from 5 on. A checkpoint does not
# know which process wrote it.

# %% [markdown]
# That was a kill *between* two super-steps, in the quietest moment there is.
#
# ## Predict: killed inside the tools node
#
# Step 14 compiles three sources: `call_26`, `call_27`, `call_28`, in one node. Now the process is killed inside it,
# and a new process goes on. The calls go through `use_and_record`, and the kill falls
#
# 1. just before `call_27` is performed (`answer = use(call)`, visit 27),
# 2. just before `call_28` is performed,
# 3. when all three have been performed and recorded, just before `return answer`, visit 28.
#
# How many calls are performed a second time, in each case? Assign a list of three numbers to `predicted_inside`.


# %% answer id="predict_inside"
### BEGIN SOLUTION
predicted_inside = [1, 2, 3]
### END SOLUTION

# %% wrong loses="predict_inside_check" why="a call that was performed is known to be performed"
predicted_inside = [0, 0, 0]

# %% wrong loses="predict_inside_check" why="when all calls are recorded the step is over"
predicted_inside = [1, 2, 0]

# %% wrong loses="predict_inside_check" why="only the call that was under way is repeated"
predicted_inside = [1, 1, 1]

# %% wrong loses="predict_inside_check" why="the whole step is performed a second time, wherever the kill falls"
predicted_inside = [3, 3, 3]

# %% wrong loses="predict_inside_check" why="the sum"
predicted_inside = 6

# %% right why="a tuple"
predicted_inside = tuple(range(1, 4))


# %% test id="predict_inside_check" points=2
INSIDE = {
    "before call_27": ("answer = use(call)", 27),
    "before call_28": ("answer = use(call)", 28),
    "after call_28": ("return answer", 28),
}


def killed_inside(place, agent=quick_agent):
    """Run 217 killed in that place and resumed: the journal, and how both lives ended."""
    line, visit = INSIDE[place]
    kill = {"kill_before": line, "visit": visit, "echo": False, "deadline": 60}
    with new_home() as home:
        ends = [launch(start, home, "run-217", agent, **kill)]
        ends += [launch(go_on, home, "run-217", agent, echo=False, deadline=60)]
        ends[1].result()
        return Journal(home / "journal.jsonl").lives(), ends


def performed_again(lives):
    done = [record.word for life in lives for record in life if record.what == "effect"]
    return len(done) - len(set(done))


measured = [performed_again(killed_inside(place)[0]) for place in INSIDE]
problem = differs(predicted_inside, measured, list(INSIDE))
assert not problem, (
    f"{problem}. Ask what the newest checkpoint holds at that moment, and which node is next in it."
)

# %% [markdown]
# ## See it
#
# The second case, this time with the compiler. What was done before is red:

# %%
lives_inside, ends_inside = killed_inside("before call_28", open_agent)
last, first = lives_inside[0][-1].entry, lives_inside[1][0].entry
around = [
    [record for record in lives_inside[0] if record.entry > last - 2],
    [record for record in lives_inside[1] if record.entry < first + 2],
]
graph_lives(around, [ends_inside[0], None], "The end of life 1 and the beginning of life 2")

# %% [markdown]
# ## Why
#
# * The newest checkpoint was written when the *model* had replied. It says: next is `tools`.
# * What a node did lives in its local variables until it returns. `call_26` and `call_27` had results. They died with
#   the process.
# * So the new process runs the node from its first line.
#
# The **grain** of a checkpoint is the super-step: one that was not finished is done again from its first line. Your
# run record did know about both calls. Nobody asked it.
#
# To compile a file twice does no harm: a second call makes the same bytes (it is **idempotent**). Not every tool is
# like that.
#
# ## Break it: the boss is told
#
# A short run with a tool that is not idempotent. Step 2 installs re2, mails the boss and reads the folder. The mail
# goes to a real SMTP server, in a process of its own.


# %%
def script(*steps):
    """Replies that ask for these tools, step by step. The calls are numbered through."""
    numbers = itertools.count(1)
    return [
        AIMessage(
            "",
            tool_calls=[{"name": name, "args": {}, "id": f"call_{next(numbers)}"} for name in step],
        )
        for step in steps
    ]


MAIL_RUN = script(["link"], ["install", "mail", "read"], [])


def mail_the_boss(mail):
    letter = EmailMessage()
    letter["To"], letter["Subject"] = "boss@example.com", "re2 is installed"
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(letter, "agent@example.com")


def mail_kit(mail, work):
    def use(call):
        if call["name"] == "mail":
            mail_the_boss(mail)
        return ToolMessage("done", tool_call_id=call["id"], name=call["name"])

    return use, lambda: ""


# %%
@contextmanager
def mailing_agent(mail, home, run_id, row):
    with open_agent(home, run_id, row, partial(mail_kit, mail), replies=MAIL_RUN) as graph:
        yield graph


with mail_service("plain") as mail, new_home() as home:
    agent = partial(mailing_agent, mail)
    kill = {"kill_before": "answer = use(call)", "visit": 4, "echo": False}
    ends = [launch(start, home, "run-218", agent, **kill)]
    ends += [launch(go_on, home, "run-218", agent, echo=False)]
    print("mails to the boss:", [letter.subject for letter in mail.inbox()])
    lives_mail = Journal(home / "journal.jsonl").lives()
graph_lives(lives_mail, ends, "call_3 is the mail")

# %% [markdown]
# Nothing failed here. The run was accepted, the checkpoints are sound, and the boss has two mails.
#
# ## A task of its own
#
# What LangGraph runs and remembers is not a node but a **task**: one execution of a node, or of a function that is
# marked as a task. What a task returned is saved as its **pending writes**, by a background job that does not wait for
# the other tasks. A task that has its writes on disk is not run again. So give each call a task of its own, in one of
# two ways:
#
# * **`Send(node, input)`.** A route may return a list of them instead of a name. Each becomes a task: the node runs
#   once for each `Send`, with that input, all in one super-step, side by side.
# * **`@task`.** A function marked so returns a future when it is called. The node waits for `.result()`. If the node
#   runs again, a call whose result is saved returns it and runs nothing.
#
# Try them on a graph that greets three people:


# %%
class Party(TypedDict):
    names: list
    greeted: Annotated[list, operator.add]


def plain_loop(builder, greet):
    builder.add_node("greet_all", lambda state: {"greeted": [greet(n) for n in state["names"]]})
    builder.add_edge(START, "greet_all")


def one_send_each(builder, greet):
    builder.add_node("greet_one", lambda name: {"greeted": [greet(name)]})
    builder.add_conditional_edges(
        START, lambda state: [Send("greet_one", name) for name in state["names"]], ["greet_one"]
    )


def one_task_each(builder, greet):
    @task
    def greet_one(name):
        return greet(name)

    def greet_all(state):
        return {"greeted": [greet_one(name).result() for name in state["names"]]}

    builder.add_node("greet_all", greet_all)
    builder.add_edge(START, "greet_all")


# %% [markdown]
# Now kill it while the third is greeted. "While" needs care. Pending writes are saved by a background job, and nobody
# waits for it, in `sync` either. A kill right after a call has finished may come before its write. (See the report at
# the top, and `06_checkpointer`.) To make the order certain, `SureSaver` can wait: `settle(calls)` returns when those
# calls have finished, and when the disk has the writes of every task of this process that finished a call. You
# need not read the next cell.


# %%
def task_id():
    """The id of the task that runs here; None in a thread that LangGraph does not know."""
    with suppress(RuntimeError):
        return get_runtime().execution_info.task_id


class SureSaver(SqliteSaver):
    def __init__(self, connection):
        super().__init__(connection)
        connection.execute("PRAGMA synchronous = OFF")  # quicker, and enough for kills
        self.finished, self.on_disk, self.news = {}, set(), threading.Condition()

    def put_writes(self, config, writes, task, task_path=""):
        super().put_writes(config, writes, task, task_path)
        with self.news:
            self.on_disk.add(task)
            self.news.notify_all()

    def finish(self, call):
        """Note that a call has finished, and in which task; return the task."""
        with self.news:
            self.finished[call] = task_id()
            self.news.notify_all()
            return self.finished[call]

    def settle(self, calls):
        """Wait; return False if it was in vain."""
        mine = task_id()

        def settled():
            known = self.on_disk | {mine}  # the writes of a task that still runs cannot be there
            return self.finished.keys() >= set(calls) and known >= set(self.finished.values())

        with self.news:
            return self.news.wait_for(settled, timeout=5)


# %% [markdown]
# `greet` waits before it greets the last person, until the others have been greeted and saved.


# %%
NAMES = ["Ann", "Bo", "Cy"]


def party(home, build):
    config = settings("party")
    journal = Journal(home / "journal.jsonl")
    with SureSaver.from_conn_string(str(home / "threads.sqlite")) as saver:

        def greet(name):
            if name == "Cy" and not begun:
                saver.settle(["Ann", "Bo"])
            journal.effect(name)
            saver.finish(name)
            return f"hello {name}"

        builder = StateGraph(Party)
        build(builder, greet)
        graph = builder.compile(checkpointer=saver)
        begun = graph.get_state(config).created_at
        value = None if begun else {"names": NAMES, "greeted": []}
        return graph.invoke(value, config, durability="sync")["greeted"]


# %% [markdown]
# Killed before Cy is greeted, and just after.

# %%
TIMES = ["never", "once", "twice"]


def times_greeted(build, line):
    """Killed before the third visit of a line, and resumed: how often was each greeted?"""
    with new_home() as home:
        life = launch(party, home, build, kill_before=line, visit=3, echo=False, deadline=15)
        assert life.end == "killed"
        launch(party, home, build, echo=False).result()
        journal = Journal(home / "journal.jsonl")
        return {name: TIMES[journal.count(name)] for name in NAMES}


moments = {"before Cy": "journal.effect(name)", "just after Cy": "saver.finish(name)"}
ways = {"plain loop": plain_loop, "one Send each": one_send_each, "one @task each": one_task_each}
greeted = {}
for moment, line in moments.items():
    for way, build in ways.items():
        times = times_greeted(build, line)
        greeted.setdefault(f"Bo, killed {moment}", {})[way] = times["Bo"]
        greeted.setdefault(f"Cy, killed {moment}", {})[way] = times["Cy"]
outcome_matrix(greeted, "How often is somebody greeted?")

# %% [markdown]
# Bo had been greeted when the kill came. The plain loop greets him again, the two others do not. For Cy, whom the
# kill caught, nothing is gained: the effect was there and its write was not. That window you know from
# `03_crash_window`, and no graph closes it.
#
# ## Two traps
#
# **Results are matched by position.** What a node gets back from a `@task` is the result of its first, second, third
# call, whatever you ask for. So a node has to ask in the same order each time. Here it depends on an
# environment variable that only the second process has:


# %%
def in_another_order(builder, greet):
    @task
    def greet_one(name):
        return greet(name)

    def greet_all(state):
        order = state["names"][:: -1 if os.environ.get("AT_NIGHT") else 1]
        return {"greeted": [f"for {name}: {greet_one(name).result()}" for name in order]}

    builder.add_node("greet_all", greet_all)
    builder.add_edge(START, "greet_all")


def party_at_night(home):
    os.environ["AT_NIGHT"] = "yes"
    return party(home, in_another_order)


with new_home() as home:
    launch(party, home, in_another_order, kill_before="journal.effect(name)", visit=3, echo=False)
    print(launch(party_at_night, home).result())
    journal = Journal(home / "journal.jsonl")
    print({name: TIMES[journal.count(name)] for name in NAMES})

# %% [markdown]
# Nobody greeted Cy: he got what was saved for Ann. She was greeted twice. And no error was raised. (The name of the
# function counts as well. If it is renamed between two lives, all calls run again.)
#
# **Side by side is not one after the other.** All `Send`s of a super-step begin at once. A call that needs what an
# earlier call of the same reply makes may come too early. `.result()` after each `@task` keeps the order, and is
# slower.

# %% [markdown]
# ## Fix it: `add_tools`
#
# Write `add_tools(builder, use)`, to take the place of `tools_in_one_node`.
#
# * From `"model"` the graph goes where `where_next` says. Where that is the tools, each call of the last reply is
#   performed by `use(call)`, in a task of its own. Then it is the model's turn again.
# * The calls are begun in their order, be it one after the other or side by side. The answers are added to the
#   messages in the same order.
# * A call that has finished, and whose pending writes are on disk, is never performed again, wherever the kill falls.
#   The checkpointer keeps what is kept; you write no file.
#
# How many nodes and super-steps you make is up to you. About ten lines.
#
# <details><summary>Hint 1</summary>
#
# Which of the functions of the party fits into `tools_in_one_node` with the least change? What is a name there is a
# call here.
# </details>
#
# <details><summary>Hint 2</summary>
#
# With `Send` the route has two jobs: to say what `where_next` says, and where that is the tools, to spread the calls
# instead.
# </details>
#
# The checks run a small agent with your tools and the model, the saver and the journal of the bench. In its first life
# the last call of each reply waits for the others. You need not read the next two cells.


# %%
def append(path, *words):
    with open(path, "a", encoding="utf-8") as file:
        file.write(" ".join(map(str, words)) + "\n")


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


class Use:
    """Performs a call. A call in `hold` first waits for those named there to finish."""

    def __init__(self, home, saver, hold):
        self.home, self.saver, self.hold = home, saver, hold
        self.journal = Journal(home / "journal.jsonl")

    def __call__(self, call):
        others = self.hold.get(call["id"], [])
        if not self.saver.settle(others):
            late = " and ".join(each for each in others if each not in self.saver.finished)
            raise TimeoutError(
                f"{call['id']} waited in vain for {late}: begin calls in their order"
                if late
                else f"before {call['id']} a call ran without a task of its own: it is not saved"
            )
        return self.perform(call)

    def perform(self, call):
        self.journal.effect(call["id"])
        self.finish(call["id"])
        return answer_to(call["id"])

    def finish(self, call):
        append(self.home / "finished", call, self.saver.finish(call))


def answer_to(call):
    return ToolMessage(f"result of {call}", tool_call_id=call)


# %%
SMALL = script(["fetch"], ["compile", "fetch", "compile"], [])
SMALLER = script(["fetch"], ["compile", "fetch"], [])


class Replies:
    """A model, as far as the checks need one."""

    def __init__(self, replies):
        self.replies = replies

    def invoke(self, messages):
        return self.replies[sum(message.type == "ai" for message in messages)]


def small_run(home, add_tools, replies=SMALL, use=Use, budget=BUDGET):
    """One life of that agent: it starts, or goes on where it was."""
    with SureSaver.from_conn_string(str(home / "threads.sqlite")) as saver:
        config = settings("small", limit=99)
        goes_on = saver.get(config) is not None
        append(home / "kept", *kept_calls(home))
        steps = [[call["id"] for call in reply.tool_calls] for reply in replies]
        hold = {} if goes_on else {ids[-1]: ids[:-1] for ids in steps if ids}
        builder = WatchedGraph(State, Journal(home / "journal.jsonl"))
        agent_graph(builder, Replies(replies), use(home, saver, hold), lambda: "", add_tools)
        graph = builder.compile(checkpointer=saver)
        first = {"messages": [HumanMessage("build it")], "step": 0, "budget": budget, "result": ""}
        end = graph.invoke(None if goes_on else first, config, durability="sync")
    answers = [(m.tool_call_id, m.content) for m in end["messages"] if m.type == "tool"]
    (home / "answers").write_text(json.dumps(answers), encoding="utf-8")
    return end["result"]


# %% [markdown]
# `judge` looks at what all lives of `small_run` did.


# %%
def performed(home, replies=SMALL):
    """How often each call was performed."""
    journal = Journal(home / "journal.jsonl")
    return {call["id"]: journal.count(call["id"]) for reply in replies for call in reply.tool_calls}


def wrong_answers(home, replies=SMALL):
    """One sentence on what the model was told in the end, or ""."""
    expected = [[call, f"result of {call}"] for call in performed(home, replies)]
    found = json.loads("".join(lines_of(home / "answers")) or "[]")
    return "" if found == expected else f"the answers in the messages are {found}"


def kept_calls(home):
    """The finished calls of which the checkpointer's file has the pending writes."""
    with closing(sqlite3.connect(home / "threads.sqlite")) as db:
        on_disk = {task for (task,) in db.execute("SELECT task_id FROM writes")}
    finished = [line.split() for line in lines_of(home / "finished")]
    return {call for call, task in finished if task in on_disk}


def judge(home):
    times = performed(home, SMALLER)
    if not all(times.values()) or wrong_answers(home, SMALLER):
        return "lost"
    if any(times[call] > 1 for line in lines_of(home / "kept") for call in line.split()):
        return "again"
    return "twice" if max(times.values()) > 1 else "once"


# %% answer id="add_tools"
def add_tools(builder, use):
    """Put the tools between "model" and "model"; no call that has finished runs again."""

    ### BEGIN SOLUTION
    @task
    def one_call(call):
        return use(call)

    def every_call(state):
        calls = state["messages"][-1].tool_calls
        return {"messages": [one_call(call).result() for call in calls]}

    builder.add_node("tools", every_call)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")
    ### END SOLUTION


# %% wrong loses="tools_finished tools_every_line" why="a retry policy makes the node safe"
def add_tools(builder, use):
    from langgraph.types import RetryPolicy

    def run_all(state):
        return {"messages": [use(call) for call in state["messages"][-1].tool_calls]}

    builder.add_node("tools", run_all, retry_policy=RetryPolicy(max_attempts=3))
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


# %% wrong loses="tools_finished tools_every_line" why="a cache policy keeps the results"
def add_tools(builder, use):
    from langgraph.types import CachePolicy

    def run_all(state):
        return {"messages": [use(call) for call in state["messages"][-1].tool_calls]}

    builder.add_node("tools", run_all, cache_policy=CachePolicy())
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


# %% wrong loses="tools_finished tools_every_line" why="one task for all the calls of a step"
def add_tools(builder, use):
    @task
    def all_calls(calls):
        return [use(call) for call in calls]

    def run_all(state):
        return {"messages": all_calls(state["messages"][-1].tool_calls).result()}

    builder.add_node("tools", run_all)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


# %% wrong loses="tools_finished tools_every_line" why="a thread for each call is a task for each call"
def add_tools(builder, use):
    from concurrent.futures import ThreadPoolExecutor

    def run_all(state):
        with ThreadPoolExecutor() as pool:
            return {"messages": list(pool.map(use, state["messages"][-1].tool_calls))}

    builder.add_node("tools", run_all)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


# %% wrong loses="tools_finished tools_every_line" why="remembers results, in the memory of the process"
def add_tools(builder, use):
    known = {}

    def once(call):
        if call["id"] not in known:
            known[call["id"]] = use(call)
        return known[call["id"]]

    def run_all(state):
        return {"messages": [once(call) for call in state["messages"][-1].tool_calls]}

    builder.add_node("tools", run_all)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


# %% wrong loses="tools_finished" why="a ledger in a file of its own, and no task for a call"
def add_tools(builder, use):
    ledger = builder.journal.path.with_name("ledger")

    def once(call):
        kept = [json.loads(line) for line in lines_of(ledger)]
        for answer in messages_from_dict(kept):
            if answer.tool_call_id == call["id"]:
                return answer
        answer = use(call)
        append(ledger, json.dumps(*messages_to_dict([answer])))
        return answer

    def run_all(state):
        return {"messages": [once(call) for call in state["messages"][-1].tool_calls]}

    builder.add_node("tools", run_all)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


# %% wrong loses="tools_results tools_finished tools_every_line" why="a task each, from the last to the first"
def add_tools(builder, use):
    one_call = task(lambda call: use(call))

    def every_call(state):
        calls = state["messages"][-1].tool_calls
        return {"messages": [one_call(call).result() for call in reversed(calls)][::-1]}

    builder.add_node("tools", every_call)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


# %% wrong loses="tools_finished tools_every_line" why="a task each, first those whose tool this process has warmed up"
def add_tools(builder, use):
    warm = set()

    @task
    def one_call(call):
        warm.add(call["name"])
        return use(call)

    def every_call(state):
        calls = state["messages"][-1].tool_calls
        order = sorted(calls, key=lambda call: call["name"] not in warm)
        answers = {call["id"]: one_call(call).result() for call in order}
        return {"messages": [answers[call["id"]] for call in calls]}

    builder.add_node("tools", every_call)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


# %% wrong loses="tools_results" why="the run ends when the model asks for nothing more, unaccepted"
def add_tools(builder, use):
    def spread(state):
        return [Send("tool", call) for call in state["messages"][-1].tool_calls] or END

    builder.add_node("tool", lambda call: {"messages": [use(call)]})
    builder.add_conditional_edges("model", spread, ["tool", "accept", END])
    builder.add_edge("tool", "model")


# %% wrong loses="tools_results" why="without calls it is the acceptance step, also when the budget is spent"
def add_tools(builder, use):
    def spread(state):
        calls = getattr(state["messages"][-1], "tool_calls", [])
        return [Send("tool", call) for call in calls] or "accept"

    builder.add_node("tool", lambda call: {"messages": [use(call)]})
    builder.add_conditional_edges("model", spread, ["tool", "accept"])
    builder.add_edge("tool", "model")


# %% wrong loses="tools_results" why="the calls first: when the budget is spent the last message has none"
def add_tools(builder, use):
    def spread(state):
        calls = state["messages"][-1].tool_calls
        return [Send("tool", call) for call in calls] or where_next(state)

    builder.add_node("tool", lambda call: {"messages": [use(call)]})
    builder.add_conditional_edges("model", spread, ["tool", "accept", END])
    builder.add_edge("tool", "model")


# %% wrong loses="tools_results tools_finished tools_every_line" why="only the text of each answer"
def add_tools(builder, use):
    def spread(state):
        calls = state["messages"][-1].tool_calls
        return [Send("tool", call) for call in calls] or where_next(state)

    builder.add_node("tool", lambda call: {"messages": [use(call).content]})
    builder.add_conditional_edges("model", spread, ["tool", "accept", END])
    builder.add_edge("tool", "model")


# %% right why="one Send per call"
def add_tools(builder, use):
    def spread(state):
        place = where_next(state)
        if place != "tools":
            return place
        return [Send("tool", call) for call in state["messages"][-1].tool_calls]

    builder.add_node("tool", lambda call: {"messages": [use(call)]})
    builder.add_conditional_edges("model", spread, ["tool", "accept", END])
    builder.add_edge("tool", "model")


# %% right why="a super-step for each call: the checkpoint is the record"
def add_tools(builder, use):
    def next_call(state):
        return {"messages": [use(unanswered(state["messages"])[0])]}

    def on(state):
        return "tools" if unanswered(state["messages"]) else "model"

    builder.add_node("tools", next_call)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_conditional_edges("tools", on, ["tools", "model"])


# %% right why="all tasks at once, then their results"
def add_tools(builder, use):
    single = task(use)

    def every_call(state):
        futures = [single(call) for call in state["messages"][-1].tool_calls]
        return {"messages": [future.result() for future in futures]}

    builder.add_node("tools", every_call)
    builder.add_conditional_edges("model", where_next, ["tools", "accept", END])
    builder.add_edge("tools", "model")


# %% [markdown]
# First, does it work at all, with nobody killed? And does it end when the budget is spent?


# %% test id="tools_results" points=1
def with_yours(home):
    return small_run(home, add_tools)


with new_home() as home:
    found = launch(with_yours, home, echo=False, deadline=15).result()
    times, problem = performed(home), wrong_answers(home)
assert set(times.values()) == {1}, (
    f"with no kill the calls were performed {times} times, expected once each"
)
assert not problem, (
    f"with no kill {problem}; expected the ToolMessage of use(call), for each call in order"
)
assert found == "accepted", (
    f"the run ended with {found!r}, expected 'accepted': where does where_next lead without calls?"
)
with new_home() as home:
    life = launch(partial(small_run, budget=1), home, add_tools, echo=False, deadline=15)
assert life.value == "budget_exceeded", (
    f"with a budget of one step the run ended with {life.value or life.reason!r}, expected "
    "'budget_exceeded': where does where_next lead then?"
)

# %% [markdown]
# Step 2 has three calls. The last of them waits until the others have finished and are on disk. Then comes the kill:
# once before it is performed, once just after.


# %% test id="tools_finished" points=3
EFFECT, FINISH = "self.journal.effect(call", "self.finish(call"
for place, expected in {EFFECT: [1, 1, 1, 1], FINISH: [1, 1, 1, 2]}.items():
    with new_home() as home:
        life = launch(with_yours, home, kill_before=place, visit=4, echo=False, deadline=15)
        assert life.end == "killed", f"{life}; expected that it performs a fourth call"
        tasks = dict(line.split() for line in lines_of(home / "finished"))
        launch(with_yours, home, echo=False).result()
        times, problem = performed(home), wrong_answers(home)
    assert list(times.values()) == expected, (
        f"killed {life.point}, when call_2 and call_3 had finished, then resumed: performed "
        f"{times} times, expected {expected}. Has each call a task of its own, saved when it is done?"
    )
    assert not problem, (
        f"killed {life.point} and resumed, {problem}; expected each call's own result"
    )
    assert len(set(tasks.values())) == len(tasks), (
        f"{', '.join(tasks)} ran in {len(set(tasks.values()))} tasks; expected one for each call, so "
        "that LangGraph keeps what it returned"
    )

# %% [markdown]
# Then a step of two calls, killed before every line of `add_tools` and of `Use.perform`. The judge reads in the
# checkpointer's file which results were there when the second process began. "again": one of *those* calls was
# performed again. "twice": a call ran again whose result was not there yet, and that is allowed.


# %% test id="tools_every_line" points=2
def with_your_tools(home):
    return small_run(home, add_tools, SMALLER)


assert inspect.isfunction(add_tools), f"add_tools must be a function, and it is {add_tools!r}"
lines, allowed = [add_tools, Use.perform], ("once", "twice")
report_tools = explore(
    with_your_tools, new_home, judge, inside=lines, harmless=allowed, deadline=15
)
assert report_tools.clean, (
    f'{report_tools.verdict()}. "again": a call ran again whose result was on disk. "lost": a call '
    "was never performed, or has the answer of another. Are results always asked for in one order?"
)
assert report_tools.at(EFFECT) == {"once"}, (
    "killed just before call_3 is performed, when call_2 had finished, then resumed: call_2 was "
    "performed again. Has each call a task of its own?"
)

# %% [markdown]
# All kills of this check. In the lines of `perform` the three marks are the calls 1, 2 and 3:

# %%
report_tools

# %% [markdown]
# ## See it: run 217 with your tools
#
# The real tools again. The kill falls in step 14, when the last call (`call_28`, or with `Send` perhaps another) was
# compiled and noted in the journal, and before it was noted in the run record. First with the old node, then yours.


# %%
@contextmanager
def your_agent(home, run_id, row):
    with open_agent(home, run_id, row, add_tools=add_tools) as graph:
        yield graph


at_record = {"kill_before": 'record.execute("INSERT INTO calls', "visit": 28}
quietly = {"echo": False, "deadline": 60}
for name, agent in (("tools_in_one_node", open_agent), ("your add_tools", your_agent)):
    with new_home() as home:
        begin = partial(start, limit=200)  # enough for any number of super-steps that you make
        launch(begin, home, "run-217", agent, **at_record, **quietly)
        print(f"{name}: {launch(go_on, home, 'run-217', agent, **quietly).value}")
        journal = Journal(home / "journal.jsonl")
        for call in CALLS[13]:
            really, noted = TIMES[journal.count(call)], TIMES[calls_of(home).count(call)]
            print(f"   {call} was performed {really}, and is in the record {noted}")

# %% [markdown]
# With a task each, only the call that the kill caught is repeated. (If yours run one after the
# other, that is `call_28`. Side by side, it is the one that was done last, and a second one if its writes were still
# on their way.) And the *run record* is no witness either: it says "once" of a call that was performed twice, since
# the first time nobody lived to write it down. A record of effects is written after the effect. It has the crash
# window of `03_crash_window`.
#
# And the boss? Here is the short run with the mail, killed in the next call, and killed when the mail
# has just been accepted:


# %%
class MailUse(Use):
    def __init__(self, mail, *rest):
        super().__init__(*rest)
        self.mail = mail

    def perform(self, call):
        if call["name"] == "mail":
            mail_the_boss(self.mail)
            print("the mail is out")
        return super().perform(call)


def mail_run(home, mail, add_tools):
    return small_run(home, add_tools, MAIL_RUN, partial(MailUse, mail))


with mail_service("plain") as mail:
    for line, visit in ((EFFECT, 4), ('print("the mail is out")', 1)):
        for tools_step in (tools_in_one_node, add_tools):
            mail.clear()
            with new_home() as home:
                kill = {"kill_before": line, "visit": visit, "echo": False, "deadline": 15}
                launch(mail_run, home, mail, tools_step, **kill)
                launch(mail_run, home, mail, tools_step, echo=False).result()
            where = "just after the mail" if visit == 1 else "in the next call"
            print(f"{tools_step.__name__}, killed {where}: {len(mail.inbox())} to the boss")

# %% [markdown]
# What remains, whatever you do inside the graph:
#
# * the call that is under way at the kill,
# * a call that has finished, but whose pending writes have not reached the disk. The threads that run the tasks also
#   save what they return. In a small pool the writes wait behind the calls: with `max_concurrency=1` and one `Send`
#   each, none is saved before the last call has run.
#
# For a compiler that is nothing. For a mail it takes an idempotency key, as in `04_email`.

# %% [markdown]
# ## What `go_on` does not do
#
# `go_on` sets `ZIG_TARGET` by hand, takes the run to be number 1, and believes that whatever it needs is there. Leave
# each of these out, once.
#
# **The environment.** Variables belong to a process and die with it. The checkpoint of step 12, resumed without:


# %%
def go_on_and_tell(home, run_id, target):
    """Go on, and print what the tools complain of."""
    os.environ.pop("ZIG_TARGET", None)
    os.environ.update({"ZIG_TARGET": target} if target else {})
    with open_agent(home, run_id, 1) as graph:
        end = graph.invoke(None, settings(run_id), durability="sync")
    for message in end["messages"][1 + 12 + 24 :]:
        if message.type == "human" or getattr(message, "status", "") == "error":
            print("        ", message.content.strip().splitlines()[0][:98])
    return end["result"]


with new_home() as home:
    launch(start, home, "run-217", kill_before=BEFORE_MODEL, visit=13, deadline=60, echo=False)
    print(launch(go_on_and_tell, home, "run-217", None, deadline=60))

# %% [markdown]
# Without the variable Zig builds for the machine it runs on and says nothing. Three objects went wrong in step 14.
# The first to notice was a check that the model happened to ask for. The acceptance step noticed at the end, when the
# budget was spent. (On an AArch64 Linux nothing goes wrong here, and nobody learns of the
# mistake.)
#
# **The run id.** `None` on an unknown thread raises. But the message does not say what was wrong, and the attempt to
# help it along starts a second run under the mistyped name:

# %%
with new_home() as home:
    launch(start, home, "run-217", quick_agent, kill_before=BEFORE_MODEL, visit=13, echo=False)
    print(launch(go_on, home, "run-271", quick_agent, echo=False).reason)
    print(launch(start, home, "run-271", quick_agent, echo=False))
    print(table(home, "SELECT * FROM runs"))

# %% [markdown]
# **The work folder.** A run of the project that this course comes from, number 208, had crashed in step 28 when the
# money for the model ran out. Its state was saved. Its work folder was not: the script that ran the projects had
# tidied up. Here is what the real tools say to that:

# %%
with new_home() as home:
    launch(start, home, "run-217", kill_before=BEFORE_MODEL, visit=13, deadline=60, echo=False)
    shutil.rmtree(home / "run-217")
    print(launch(go_on_and_tell, home, "run-217", SCRIPT.target, deadline=60))

# %% [markdown]
# The tools made a new, empty folder without a word, and the model spent the rest of the budget on it.
#
# ## Fix it: `resume`
#
# Write `resume(run_id, home, agent)`, which goes on with a run by its id, in a new process.
#
# * A run that the record does not know, or of which nothing is saved: it raises `LookupError`, and the message names
#   the run id. Nothing is changed: no new run, no new checkpoint.
# * The work folder `home / run_id` is gone: it raises `FileNotFoundError`, and the message names the run id or the
#   folder. No call is performed, and no folder made. That goes for a finished run, too.
# * Otherwise it sets the environment variables that are saved in the state under `"env"`, and goes on where the run
#   was, with `durability="sync"`.
# * It uses the row that the run has in the record, for its calls, and in the end for its result. It returns the
#   result. Of a finished run it returns the result, and nothing runs. (Its row may still say "running".)
# * What the record says of other runs stays as it is.
#
# `agent(home, run_id, row)` opens the graph, as `open_agent` does. `graph.get_state(config).values` is empty where
# nothing is saved. About fourteen lines.
#
# <details><summary>Hint</summary>
#
# In which order do you look, so that a refusal leaves no trace? Which of these looks need the graph?
# </details>
#
# The checks use a short run, which is killed when step 2 is over. You need not read the next two cells.

# %%
SHORT = script(["fetch"], ["configure", "compile"], ["link", "check"], [])
VARIABLES = ("ZIG_TARGET", "BUILD_LABEL")


@contextmanager
def short_agent(home, run_id, row):
    """Notes with which durability and which variables the graph is set going."""
    with quick_agent(home, run_id, row, replies=SHORT) as graph:
        stream = graph.stream  # `invoke` calls it, too

        def noted(*args, **options):
            append(home / "going", options.get("durability"), *map(os.environ.get, VARIABLES))
            return stream(*args, **options)

        graph.stream = noted
        yield graph


def resume_short(home, run_id="run-217"):
    os.environ.update(dict.fromkeys(VARIABLES, "other"))
    return resume(run_id, home, short_agent)


def started(home, run_id="run-217", line=BEFORE_MODEL, visit=3, **options):
    """A run that is killed, or with `line=None` goes to its end."""
    begin, kill = partial(start, **options), {"kill_before": line, "visit": visit, "echo": False}
    life = launch(begin, home, run_id, short_agent, **kill)
    assert life.end == ("killed" if line else "finished"), f"{life}; run all cells above again"


@contextmanager
def killed_home(**options):
    with new_home() as home:
        started(home, **options)
        yield home


# %%
def traces(home):
    """All that a refused resume must leave as it is: rows, checkpoints, calls, folders."""
    threads = []
    with (
        closing(sqlite3.connect(home / "threads.sqlite")) as db,
        suppress(sqlite3.OperationalError),
    ):
        threads = db.execute("SELECT thread_id, count(*) FROM checkpoints GROUP BY 1").fetchall()
    folders = sorted(path.name for path in home.iterdir() if path.is_dir())
    rows = table(home, "SELECT * FROM runs")
    return {"runs": rows, "checkpoints": threads, "calls": len(calls_of(home)), "folders": folders}


# %% answer id="resume"
def resume(run_id, home, agent):
    """Go on with a run, or refuse by name; return its result."""
    ### BEGIN SOLUTION
    with closing(open_record(home)) as record:
        known = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if known is None:
            raise LookupError(f"the record has no run {run_id}")
        if not (home / run_id).is_dir():
            raise FileNotFoundError(f"the work folder of {run_id} is gone: {home / run_id}")
        with agent(home, run_id, known[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(f"nothing is saved of run {run_id}")
            os.environ.update(saved["env"])
            result = graph.invoke(None, settings(run_id), durability="sync")["result"]
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (result, known[0]))
        return result
    ### END SOLUTION


# %% wrong loses="resume_unknown resume_folder resume_env resume_record" why="the thread id is all that LangGraph needs"
def resume(run_id, home, agent):
    with agent(home, run_id, 1) as graph:
        return graph.invoke(None, settings(run_id), durability="sync")["result"]


# %% wrong loses="resume_unknown" why="what is not there yet is begun"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            return start(home, run_id, agent)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(f"{run_id} has no work folder")
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_goes_on resume_record" why="the run is known, so it is run again from its task"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            first = {"messages": [HumanMessage(SCRIPT.task)], "result": ""}
            end = graph.invoke(first, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_env" why="the target of this project is known"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        os.environ["ZIG_TARGET"] = "aarch64-linux-musl"
        with agent(home, run_id, row[0]) as graph:
            if not graph.get_state(settings(run_id)).values:
                raise LookupError(run_id)
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_env" why="restores the variables when the run is over"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            if not graph.get_state(settings(run_id)).values:
                raise LookupError(run_id)
            end = graph.invoke(None, settings(run_id), durability="sync")
            os.environ.update(end["env"])
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_record" why="a new process is a new row in the record"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        if not table(home, "SELECT id FROM runs WHERE name = ?", run_id):
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, len(table(home, "SELECT * FROM runs")) + 1) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("INSERT INTO runs (name, result) VALUES (?, ?)", (run_id, end["result"]))
        return end["result"]


# %% wrong loses="resume_record" why="there is only one run, and it is number 1; its result is returned, not recorded"
def resume(run_id, home, agent):
    if not table(home, "SELECT id FROM runs WHERE name = ?", run_id):
        raise LookupError(run_id)
    if not (home / run_id).is_dir():
        raise FileNotFoundError(run_id)
    with agent(home, run_id, 1) as graph:
        saved = graph.get_state(settings(run_id)).values
        if not saved:
            raise LookupError(run_id)
        os.environ.update(saved["env"])
        return graph.invoke(None, settings(run_id), durability="sync")["result"]


# %% wrong loses="resume_folder" why="makes the folder when it is gone"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        (home / run_id).mkdir(exist_ok=True)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_folder" why="looks for the folder when the run is over"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_unknown resume_folder" why="a refusal is a word"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None or not (home / run_id).is_dir():
            return f"cannot resume {run_id}"
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                return f"cannot resume {run_id}"
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_goes_on" why="no durability: the default does not wait for the disk"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id))
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_goes_on" why="saves once, in the end"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="exit")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_env" why="the one variable that this course has set so far"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ["ZIG_TARGET"] = saved["env"]["ZIG_TARGET"]
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_record" why="the newest run is the one that was killed"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT max(id) FROM runs").fetchone()
        if not table(home, "SELECT 1 FROM runs WHERE name = ?", run_id):
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_record" why="the result of every run"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ?", (end["result"],))
        return end["result"]


# %% wrong loses="resume_record" why="the run that is running is this one"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE result = 'running'", (end["result"],))
        return end["result"]


# %% wrong loses="resume_record" why="a run that comes to its end is accepted"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = 'accepted' WHERE id = ?", row)
        return "accepted"


# %% wrong loses="resume_unknown" why="a missing value is refused by itself, without the id"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_record" why="what is finished was recorded when it finished"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            if saved["result"]:
                return saved["result"]
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% right why="a finished run is not opened again, but recorded"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            end = graph.get_state(settings(run_id)).values
            if not end:
                raise LookupError(run_id)
            os.environ.update(end["env"])
            if not end["result"]:
                end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_env" why="what the process has set already is left as it is"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            for name, value in saved["env"].items():
                os.environ.setdefault(name, value)
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% wrong loses="resume_folder" why="a finished run needs no folder"
def resume(run_id, home, agent):
    with closing(open_record(home)) as record:
        row = record.execute("SELECT id, result FROM runs WHERE name = ?", (run_id,)).fetchone()
        if row is None:
            raise LookupError(run_id)
        if row[1] != "running":
            return row[1]
        if not (home / run_id).is_dir():
            raise FileNotFoundError(run_id)
        with agent(home, run_id, row[0]) as graph:
            saved = graph.get_state(settings(run_id)).values
            if not saved:
                raise LookupError(run_id)
            os.environ.update(saved["env"])
            end = graph.invoke(None, settings(run_id), durability="sync")
        record.execute("UPDATE runs SET result = ? WHERE id = ?", (end["result"], row[0]))
        return end["result"]


# %% right why="looks at the checkpoint first, streams instead of invoking, updates by name"
def resume(run_id, home, agent):
    rows = dict(table(home, "SELECT name, id FROM runs"))
    if run_id not in rows:
        raise LookupError(f"{run_id}: not one of {sorted(rows)}")
    with agent(home, run_id, rows[run_id]) as graph:
        state = graph.get_state(settings(run_id))
        if state.created_at is None:
            raise LookupError(f"{run_id}: no checkpoint")
        if not (home / run_id).exists():
            raise FileNotFoundError(str(home / run_id))
        for name, value in state.values["env"].items():
            os.environ[name] = value
        for _ in graph.stream(None, settings(run_id), durability="sync"):
            pass
        result = graph.get_state(settings(run_id)).values["result"]
    with closing(open_record(home)) as record:
        record.execute("UPDATE runs SET result = ? WHERE name = ?", (result, run_id))
    return result


# %% [markdown]
# First, does it go on? Killed between two steps, inside a step, and a finished run.


# %% test id="resume_goes_on" points=2
ALL_SHORT = [call["id"] for reply in SHORT for call in reply.tool_calls]
moments = {
    "killed between two steps": ((BEFORE_MODEL, 3), ALL_SHORT),
    "killed inside a step": (("answer = use(call)", 3), [*ALL_SHORT[:2], *ALL_SHORT[1:]]),
    "finished": ((None, 1), ALL_SHORT),
}
for moment, ((line, visit), expected) in moments.items():
    with killed_home(line=line, visit=visit) as home:
        found = launch(resume_short, home, echo=False).result()
        performed_calls, last_start = calls_of(home), lines_of(home / "going")[-1].split()
    assert (found, performed_calls) == ("accepted", expected), (
        f"{moment}, then resumed: it returned {found!r} and the calls of both lives were "
        f"{performed_calls}; expected 'accepted' and {expected}. What does None say to invoke?"
    )
    assert last_start[0] == "sync", (
        f"{moment}, then resumed: it went on with durability={last_start[0]}; expected 'sync'"
    )


# %% [markdown]
# Refusals: a mistyped id, a run that was killed before its first checkpoint.


# %% test id="resume_unknown" points=1
def attempt(home, run_id):
    """What came of it, in words, and the kinds of the refusal."""
    try:
        return f"returned {resume_short(home, run_id)!r}", []
    except (LookupError, FileNotFoundError) as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return f"raised {kinds[0]}: {error}", kinds


def refused(home, kind, run_id="run-217"):
    """One sentence on what is wrong with the refusal of `run_id`, or ""."""
    before = traces(home)
    life = launch(attempt, home, run_id, echo=False)
    if life.stub:
        life.result()
    found, kinds = life.value or (life.reason, [])
    changed = {
        what: (was, traces(home)[what]) for what, was in before.items() if was != traces(home)[what]
    }
    if changed:
        return f"it changed {changed}; expected that it leaves all as it was"
    if kind not in kinds:
        return f"it {found}; expected a {kind} that names {run_id}"
    if run_id not in found:
        return f"it {found}; that is a {kind}, but its message does not name {run_id}"
    return ""


with killed_home() as home:
    problem = refused(home, "LookupError", "run-271")
assert not problem, f"There is a run-217 and no run-271. resume of run-271: {problem}."
with killed_home(line="with agent(home, run_id, row) as graph", visit=1) as home:
    problem = refused(home, "LookupError")
assert not problem, f"run-217 is in the record and has no checkpoint. resume of run-217: {problem}."

# %% [markdown]
# The folder:

# %% test id="resume_folder" points=1
for which, line in (("killed", BEFORE_MODEL), ("finished", None)):
    with killed_home(line=line) as home:
        shutil.rmtree(home / "run-217")
        problem = refused(home, "FileNotFoundError")
    assert not problem, f"The work folder of run-217, a {which} run, is gone. resume: {problem}."

# %% [markdown]
# The environment, of a run for another machine, with a second variable; the new process has others:

# %% test id="resume_env" points=1
saved = dict(zip(VARIABLES, ["riscv64-linux-musl", "nightly"], strict=True))
with killed_home(env=saved) as home:
    launch(resume_short, home, echo=False).result()
    targets = [target for (target,) in table(home, "SELECT DISTINCT target FROM calls")]
    found = lines_of(home / "going")[-1].split()[1:]
assert targets == [saved["ZIG_TARGET"]] and found == [*saved.values()], (
    f"a run with {saved} in its state, resumed where both are 'other': when the graph went on "
    f"they were {found}, and the calls of both lives ran for {targets}"
)

# %% [markdown]
# The record, with a finished run before this one, another killed run after it, and a budget of three steps. A
# process that resumes can be killed too, and the next one then leaves the result in the record.


# %% test id="resume_record" points=1
def in_the_end(home):
    found, calls = table(home, "SELECT name, result FROM runs"), calls_of(home)
    if calls != ALL_SHORT:
        return "lost" if set(calls) < set(ALL_SHORT) else "again"
    return "once" if found == [("run-217", "accepted")] else "not recorded"


with new_home() as home:
    started(home, "run-216", line=None)
    started(home, budget=3)
    started(home, "run-218")
    found = launch(resume_short, home, echo=False).result()
    rows = table(home, "SELECT id, name, result FROM runs")
    each = dict(table(home, "SELECT run, count(*) FROM calls GROUP BY run"))
over = "budget_exceeded"
expected = [(1, "run-216", "accepted"), (2, "run-217", over), (3, "run-218", "running")]
assert found == over, f"run-217 spent its budget when it was resumed, and resume returned {found!r}"
assert rows == expected, f"after resume the record has the runs {rows}; expected {expected}"
assert each == {1: 5, 2: 5, 3: 3}, (
    f"the calls by row of the run are {each}; expected 5 for 1 and 2, and 3 for 3"
)
report_resume = explore(resume_short, killed_home, in_the_end, inside=[resume])
assert report_resume.clean, (
    f"{report_resume.verdict()}. Who records the result when the graph had ended before the kill?"
)

# %% [markdown]
# All kills before the lines of your `resume`:

# %%
report_resume

# %% [markdown]
# ## From a terminal
#
# Now the agent is a program of its own, made of cells of this notebook, your `resume` among them. It is killed from
# outside, at no chosen line.


# %%
HEAD = """
import sqlite3, sys, os
from contextlib import closing, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Annotated, TypedDict
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from crashlab import DATA, Journal
from crashlab.world.script import ScriptedModel, read_script
from crashlab.world.toolchain import Toolchain, ToolError, tools

SCRIPT = read_script(DATA / "agents" / "run-217.json")
BUDGET = 18
"""
MAIN = """
home, run_id = Path.cwd(), sys.argv[-1]
print(resume(run_id, home, open_agent) if sys.argv[1] == "--resume" else start(home, run_id))
"""


def cell_of(function):
    """The source of the cell in which a function is defined."""
    return "".join(linecache.getlines(inspect.unwrap(function).__code__.co_filename))


def write_program(path):
    cells = [cell_of(each) for each in (open_record, agent_graph, open_agent, start, table, resume)]
    path.write_text("\n\n".join([HEAD, *cells, MAIN]), encoding="utf-8")


# %%
def agent_py(home, *words):
    """Start `python agent.py WORDS` in that folder."""
    command = [sys.executable, "agent.py", *words]
    return subprocess.Popen(
        command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )


with new_home() as home:
    write_program(home / "agent.py")
    with agent_py(home, "run-217") as process:
        for line in process.stdout:
            if line.startswith("step 8"):
                process.kill()
                print("killed in or after:", line.strip())
                break
    for words in (["--resume", "run-271"], ["--resume", "run-217"]):
        out, err = agent_py(home, *words).communicate()
        print("\npython agent.py", *words)
        print("\n".join([*out.splitlines()[:1], *(out + err).splitlines()[-1:]]))
    performed_calls = calls_of(home)
print(
    "\ncalls in the record:", len(performed_calls), "of which different:", len(set(performed_calls))
)

# %% [markdown]
# Nobody decided where that kill fell. If it fell inside a tools step that had recorded a call, the first
# number is larger: that call was performed twice.

# %% [markdown]
# ## What does the experiment prove?
#
# Back to run 217: killed after step 12, resumed, accepted at step 18, each call once. Here are
# eight statements about the agent with one tools node and `durability="sync"`.
#
# 1. No call of the finished steps ran again.
# 2. What the second process knew of the messages and the steps, it had from the disk.
# 3. The count of steps goes on after a kill.
# 4. The count of steps never goes beyond the budget, however often the agent is killed.
# 5. A call that has finished does not run again, wherever the kill falls.
# 6. `durability="async"` would have done as well.
# 7. The environment variables come back with the checkpoint.
# 8. The work folder comes back with the checkpoint.
#
# An experiment **shows** a statement if it would have come out differently, had the statement been false. To decide
# that, take a **rival**: an agent or a world in which the statement *is* false. Do the experiment with it. If it
# comes out the same, the experiment cannot tell the two apart, and so it does not show the statement, be it true or
# false.
#
# Assign to `shown` a list of eight `True` or `False`: does *this experiment* show it?
#
# Run the next cells without reading: they make the rivals, which give the answers away. They play the experiment on a
# short run, killed after step 2 of 4.


# %%
class HungDisk(SqliteSaver):
    """A disk that has the checkpoints up to step 1, and hangs when the next one comes."""

    def __init__(self, connection):
        super().__init__(connection)
        self.hangs = threading.Event()

    def put(self, config, checkpoint, metadata, versions):
        if metadata["step"] > 2:
            self.hangs.set()
            threading.Event().wait()  # for ever
        return super().put(config, checkpoint, metadata, versions)


def hung_kit(saver):
    """Tools of which `call_3` ends only when the disk hangs, so that the order is certain."""
    quick, accept = quick_kit(None)

    def use(call):
        if call["id"] == "call_3":
            saver.hangs.wait(5)
        return quick(call)

    return use, accept


# %%
def one_life(home, mode="sync", slow_disk=False, file=None, resumed=None, env=True, budget=BUDGET):
    """An agent begins or goes on. `resumed` is written into its state when it goes on."""
    os.environ.pop("ZIG_TARGET", None)
    os.environ.update({"ZIG_TARGET": SCRIPT.target} if env else {})
    # Who waits for a slow disk gets what he waits for. It hangs for him who does not wait.
    hung = slow_disk and mode == "async"
    disk = HungDisk if hung else SqliteSaver
    with disk.from_conn_string(file or str(home / "threads.sqlite")) as saver:
        use, accept = hung_kit(saver) if hung else quick_kit(None)
        use = recorded(use, open_record(home), 1, Journal(home / "journal.jsonl"))
        builder = StateGraph(State)
        agent_graph(builder, Replies(SHORT), use, accept, tools_in_one_node)
        graph = builder.compile(checkpointer=saver)
        goes_on = (home / "begun").exists()
        (home / "begun").touch()
        if goes_on and resumed:
            graph.update_state(settings("run-3"), resumed)
        first = {"messages": [HumanMessage("go")], "step": 0, "budget": budget, "result": ""}
        end = graph.invoke(None if goes_on else first, settings("run-3"), durability=mode)
        return end["result"], end["step"]


def experiment(kill=(BEFORE_MODEL, 3), between=None, first=None, **agent):
    """Kill and resume: how it ended, how often each call ran and for which targets, the folder."""
    with new_home() as home:
        (home / "work").mkdir()
        begin, again = partial(one_life, **agent | (first or {})), partial(one_life, **agent)
        launch(begin, home, kill_before=kill[0], visit=kill[1], echo=False, deadline=15)
        if between:
            between(home)
        life = launch(again, home, echo=False)
        journal = Journal(home / "journal.jsonl")
        times = [journal.count(call) for call in ALL_SHORT]
        targets = table(home, "SELECT DISTINCT target FROM calls")
        return life.value or life.reason.split(":")[0], times, targets, (home / "work").exists()


# %% [markdown]
# For each statement: is it false in the rival, and does the experiment notice?


# %%
def lose_the_folder(home):
    shutil.rmtree(home / "work")


@cache
def usual():
    return experiment()


def weigh(number):
    """Whether the rival makes the statement false, and whether the experiment then differs."""
    this = usual()
    runs_ahead = {"first": {"mode": "async", "slow_disk": True}}
    new_budget = {"resumed": {"budget": 99}}
    if number == 1:  # the rival saves later than it runs
        rival = experiment(**runs_ahead)
        return max(rival[1]) > 1, rival != this
    if number == 2:  # the rival keeps its checkpoints in memory
        rival = experiment(file=":memory:")
        return "raised" in rival[0], rival != this
    if number == 3:  # the rival counts from 0 in each process
        rival = experiment(resumed={"step": 0})
        return rival[0][1] < len(SHORT), rival != this
    if number == 4:  # the rival gives each process a new budget
        beyond = experiment(budget=3, **new_budget)[0][0] == "accepted"
        return beyond, experiment(**new_budget) != this
    if number == 5:  # this very agent, killed elsewhere
        return max(experiment(("answer = use(call)", 3))[1]) > 1, experiment() != this
    if number == 6:  # this agent on a slow disk
        return experiment(**runs_ahead) != this, experiment(slow_disk=True) != this
    if number == 7:  # this very agent, resumed without setting the variable by hand
        return experiment(first={"env": True}, env=False)[2] != this[2], experiment() != this
    # this very agent, and somebody tidies up
    return not experiment(between=lose_the_folder)[3], experiment() != this


# %% answer id="shown"
### BEGIN SOLUTION
shown = [True, True, True, False, False, False, False, False]
### END SOLUTION

# %% wrong loses="shown_1_to_4 shown_5_to_8" why="it worked, so all of it is proved"
shown = [True] * 8

# %% wrong loses="shown_1_to_4" why="the count went on, so the budget holds"
shown = [True, True, True, True, False, False, False, False]

# %% wrong loses="shown_1_to_4" why="one run shows nothing"
shown = [False, False, False, False, False, False, False, False]

# %% wrong loses="shown_5_to_8" why="each call was in the record once"
shown = [True, True, True, False, True, False, False, False]

# %% wrong loses="shown_5_to_8" why="re2 was built for AArch64, so the variables were there"
shown = [True, True, True, False, False, False, True, False]

# %% wrong loses="shown_5_to_8" why="abseil was still installed, so the folder is saved"
shown = [True, True, True, False, False, False, False, True]

# %% wrong loses="shown_1_to_4 shown_5_to_8" why="the numbers of those that are shown"
shown = [1, 2, 3]

# %% right why="a tuple, put together"
shown = (True,) * 3 + (False,) * 5


# %% test id="shown_1_to_4" points=2
def wrong_about(numbers):
    """One sentence on the first of these statements about which `shown` is wrong, or ""."""
    if not isinstance(shown, list | tuple) or [type(each) for each in shown] != [bool] * 8:
        return f"shown must be a list of eight True or False, and it is {shown!r}"
    for number in numbers:
        false_in_rival, noticed = weigh(number)
        assert false_in_rival, f"the rival of statement {number} is none; run all cells above again"
        if shown[number - 1] and not noticed:
            return (
                f"statement {number}: you say that the experiment shows it. There is a rival in "
                "which it is false, and the experiment comes out the same"
            )
        if noticed and not shown[number - 1]:
            return (
                f"statement {number}: you say that the experiment does not show it. Were it false, "
                "the experiment would have come out differently"
            )
    return ""


problem = wrong_about([1, 2, 3, 4])
assert not problem, f"{problem}. What was looked at after the resume, and what was never reached?"

# %% test id="shown_5_to_8" points=2
problem = wrong_about([5, 6, 7, 8])
assert not problem, f"{problem}. Where did the kill fall, and what did go_on do by hand?"

# %% [markdown]
# Here is what decided:
#
# | | the rival, in which it is false | the experiment then |
# |---|---|---|
# | 1 | saves later than it runs (`async`, a slow disk) | notices: calls ran twice |
# | 2 | keeps its checkpoints in memory | notices: it cannot go on |
# | 3 | counts from 0 in each process | notices: it ends at another step |
# | 4 | gives each process a new budget | comes out the same: the budget was never reached |
# | 5 | this very agent: killed inside a step it repeats calls | comes out the same: it was killed elsewhere |
# | 6 | this agent on a slow disk | comes out the same: `sync` waits for the disk |
# | 7 | this very agent: `go_on` set the variable by hand | comes out the same |
# | 8 | this very agent: the folder had simply not been touched | comes out the same |
#
# Statement 4 is *true* of this agent. The experiment does not show it all the same: for that you need a run that is
# killed and then reaches its budget. (A reply that was lost in a kill is not counted: it was paid for all the same.)
#
# ## Prove it
#
# All three agents of this notebook, and a step of the calls 2, 3 and 4.


# %%
class NoSaver:
    def settle(self, calls):
        return True  # the loop saves before it goes on

    def finish(self, call):
        return "saved"


def loop_run(home):
    use = Use(home, NoSaver(), {})
    return loop_agent(home / "loop.json", Replies(SMALL), use, lambda: "")


def one_node_run(home):
    return small_run(home, tools_in_one_node)


agents = {
    "plain loop": loop_run,
    "one node": one_node_run,
    "your add_tools": with_yours,
}
found = {}
for where, line in (("before call_4", EFFECT), ("just after call_4", FINISH)):
    for name, run in agents.items():
        with new_home() as home:
            launch(run, home, kill_before=line, visit=4, echo=False, deadline=15)
            launch(run, home, echo=False).result()
            times = performed(home)
        for call in ("call_2", "call_3", "call_4"):
            found.setdefault(f"{call}, {where}", {})[name] = TIMES[times[call]]
outcome_matrix(found, "Killed before or just after call_4: how often was each performed?")

# %% [markdown]
# The plain loop is as good as the repaired graph here. Its author chose the grain. And both repeat the call that was
# performed and not yet saved, as everything does that saves after it acts.
#
# ## What a kill costs
#
# Each kill was a real process, forked from a server that has LangGraph loaded. What would a new interpreter cost?


# %%
def kills_per_second(number, **options):
    began = time.perf_counter()
    for _ in range(number):
        with new_home() as home:
            kill = {"kill_before": "journal.effect(name)", "echo": False, "deadline": 60}
            assert launch(party, home, plain_loop, **kill, **options).end == "killed"
    return number / (time.perf_counter() - began)


forked, fresh = kills_per_second(20), kills_per_second(3, fresh=True)
print(f"kills a second of a LangGraph node: {forked:.0f} forked, {fresh:.1f} in a new interpreter")
print(f"ratio: {forked / fresh:.0f}")

# %% [markdown]
# That is why you could kill at every line.
#
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"Your agent was killed in step 12. Where does it go on,
# and what may happen twice?"*
#
# <details><summary>One way to say it</summary>
#
# "That depends on where in step 12. The grain of a checkpoint is the super-step, and a step of my agent is two of
# them, model and tools. Under sync each is saved before the next begins. Killed between them, it goes on with the
# next one and repeats nothing. Killed inside the tools node, it goes on at the beginning of that node, and all calls of
# the step that had finished run again: their results were in memory. So each call gets a task of its own, by Send or
# by @task. What a task returns is saved as pending writes, and a task with writes on disk does not run again. Then
# two things may still happen twice: the call under way, and a call whose writes have not reached the disk, because
# they are saved in the background. For a compiler that is harmless, for a mail it takes an idempotency key. To
# resume, I look the run id up and refuse an unknown one, check that the work folder is there, restore the environment
# from the state, and use the row that the run has in the record. My kill experiment fell between two super-steps. It
# shows that finished steps are not repeated and that the count goes on. It shows nothing about a kill inside a step."
# </details>
#
# **Often confused:** *checkpoint of the state* and *record of the effects*. A checkpoint says where the graph goes
# on. A record says what was done outside. The graph never reads your record, and neither of the two is written in the
# same moment as the effect. Also: a *node* and a *task*. One node can be many tasks, one for each `Send`, and it is
# tasks that are remembered.
#
# **They may ask next:**
#
# * Your tools step has forty calls, and the pool has six threads. When are the writes of the first finished call on
#   disk, and what does a kill cost?
# * A new version of the agent performs the calls of a step in another order. What happens to runs that were killed
#   under the old version?
