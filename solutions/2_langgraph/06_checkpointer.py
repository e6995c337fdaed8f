# %% [markdown]
# # 06 · Checkpointer
#
# **What exactly does LangGraph save, when, and where?**
#
# 100 minutes · 22 points · before this: `03_crash_window`
#
# In April 2026 a server that runs LangGraph agents behind an HTTP API was asked to go on from a saved point. Such a
# request has no input. The server turned the missing input into an empty one: `None` became `{}`, in two places. The
# graph took `{}` for a new input and ran from its first node again. Nobody was told. (Reported as aegra/aegra issue
# 320.)
#
# In part 1 you saved by hand. Here LangGraph saves for you. You will read a saved thread, kill processes before,
# between and after its saves, and say of a thread that you find whether it is finished.

# %%
import operator
import os
import signal
import sqlite3
import sys
import threading
from contextlib import closing, contextmanager, suppress
from functools import cache
from importlib.metadata import version
from itertools import pairwise, zip_longest
from typing import Annotated, TypedDict

import httpx
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import EmptyInputError, GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.managed import RemainingSteps
from langgraph.types import Command, RetryPolicy, interrupt

from crashlab import WorkFolder, explore, launch
from crashlab.figures import graph_lives
from crashlab.figures.history import history, rows
from crashlab.figures.matrix import outcome_matrix
from crashlab.journal import Journal
from crashlab.quiz import differs

print("Python", sys.version.split()[0], "on", sys.platform)
for package in ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"):
    print(package, version(package))

# %% [markdown]
# ## The experiment
#
# Run 217 builds re2, which needs abseil. In LangGraph such a run is a **graph**. Its **nodes** are functions: each
# reads the state and returns what it changes. Its edges say which node follows which. All nodes that may run at the
# same time form one **super-step**.
#
# Each field of the state lives in a **channel**. What a node returns replaces the value, unless the field names a
# reducer: here `operator.add` makes `built` grow.


# %%
class Build(TypedDict, total=False):
    target: str
    built: Annotated[list[str], operator.add]
    answer: str


# %% [markdown]
# Three plans make all graphs of this notebook. A plan says for each node which nodes it follows. In `WIDE` two nodes
# run side by side. In `ASK` one node asks a person.

# %%
LINE = {"fetch": [START], "abseil": ["fetch"], "re2": ["abseil"]}
WIDE = {"fetch": [START], "abseil": ["fetch"], "gtest": ["fetch"], "re2": ["abseil", "gtest"]}
ASK = {"fetch": [START], "ask": ["fetch"], "re2": ["ask"]}


def make_node(name, journal, ready):
    def node(state):
        with journal.node(name):
            journal.effect(name)
            ready(name)
            if name in ("ask", "review"):
                answer = interrupt("May I patch the CMakeLists.txt of re2?")
                return {"answer": answer}
            return {"built": [name]}

    return node


def make_graph(plan, journal, ready=lambda name: None):
    """Make the graph of a plan. `ready` is called in each node, when its work is done."""
    builder = StateGraph(Build)
    for name, earlier in plan.items():
        builder.add_node(name, make_node(name, journal, ready))
        for each in earlier:
            builder.add_edge(each, name)
    return builder


# %% [markdown]
# The journal is the outside world: a file that keeps what the nodes really did, whoever dies.
#
# A graph saves nothing unless it is compiled with a **checkpointer**, an object that writes to some storage.
# `SqliteSaver` writes to a SQLite file. All that is saved under one name is a **thread**, and the name is its
# `thread_id`. A run and its restarts share a thread.

# %%
RUN = {"configurable": {"thread_id": "run-217"}}
INPUT = {"target": "re2"}


@contextmanager
def opened(folder, plan=LINE, ready=lambda name: None, **settings):
    """The graph of `plan`, on the threads that are saved in `folder`."""
    with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        journal = Journal(folder.path / "journal.jsonl")
        yield make_graph(plan, journal, ready).compile(checkpointer=saver, **settings)


# %% [markdown]
# Run it once, and look at the thread.

# %%
with WorkFolder.fresh() as folder:
    with opened(folder) as graph:
        print(graph.invoke(INPUT, RUN))
        drawn = history(graph, RUN)
        one = list(graph.get_state_history(RUN))[1]
        saved = graph.checkpointer.get_tuple(one.config).checkpoint
    file = folder.path / "threads.sqlite"
    drawn_rows = rows(file, "run-217")
    content = file.read_bytes()

drawn

# %% [markdown]
# Each mark is a **checkpoint**: the whole state at one moment. What is to run next stands above it. The first was made
# when the input arrived, the second when the input had gone into the channels (by a node of LangGraph's own,
# `__start__`), then one after each super-step. Each knows the one before it, its **parent**. The steps count from -1.
#
# The same thread as it lies in the file:

# %%
drawn_rows

# %% [markdown]
# Two tables. `checkpoints` has one row for each checkpoint. `writes` has the **pending writes**: what a node
# returned, handed to the saver when it returned, under the checkpoint that the node started from. They are called
# pending because the checkpoint that holds their sum comes later. The hollow squares `branch:to:…` are channels too.
# LangGraph keeps the edges in them.
#
# These are the channels in the row before re2. And what is *not* in the file? Look for some words in its bytes.

# %%
print("before re2:", saved["channel_values"])
for word in ("target", "abseil", "branch:to:abseil", "operator", "make_node", "interrupt"):
    print(f"{word:17} {'in the file' if word.encode() in content else '-'}")

# %% [markdown]
# Names of fields, values, and names of nodes in their channels. No code: which function `abseil` stands for is
# decided by the graph that opens the thread next, not by the one that saved it.
#
# What is next is not saved either. The graph works it out: a node is next when its channel holds a value that the
# node has not seen. Before re2, `branch:to:re2` holds one (it is `None`). `branch:to:abseil` has been read, and reading
# empties such a channel.
#
# ## Predict: how many checkpoints
#
# `LINE` has three nodes and left five checkpoints. `WIDE` has four nodes. How many checkpoints does one run of `WIDE`
# leave? Assign a number to `predicted_checkpoints`.

# %% answer id="predict_checkpoints"
### BEGIN SOLUTION
predicted_checkpoints = 5
### END SOLUTION

# %% wrong loses="predict_checkpoints_check" why="one for each node, and the two before"
predicted_checkpoints = 6

# %% wrong loses="predict_checkpoints_check" why="one for each node"
predicted_checkpoints = 4

# %% wrong loses="predict_checkpoints_check" why="one for each super-step, and none before the first"
predicted_checkpoints = 3

# %% wrong loses="predict_checkpoints_check" why="only the newest is kept"
predicted_checkpoints = 1

# %% right why="counted out"
predicted_checkpoints = len(["input", "start", "fetch", "abseil and gtest", "re2"])

# %% test id="predict_checkpoints_check" points=1
with WorkFolder.fresh() as folder, opened(folder, WIDE) as graph:
    graph.invoke(INPUT, RUN)
    measured = len(list(graph.checkpointer.list(RUN)))
problem = differs(predicted_checkpoints, measured)
assert not problem, f"{problem}. Ask what a checkpoint closes: a node, or a super-step?"

# %% [markdown]
# ## Read a thread
#
# You will meet threads that you have not seen run. `graph.get_state_history(config)` gives a snapshot for each
# checkpoint, the newest first.

# %%
with WorkFolder.fresh() as folder, opened(folder, WIDE) as graph:
    graph.invoke(INPUT, RUN)
    for each in graph.get_state_history(RUN):
        print(each.metadata["step"], each.metadata["source"], each.next, each.values)
    print("\nconfig:", each.config)
    print("parent_config:", each.parent_config)

# %% [markdown]
# Write `read_thread(graph, config)`. It returns a list of tuples `(ran, changed, next)`, one for each checkpoint that
# has a parent, on the way from the first checkpoint to the newest, oldest first:
#
# * `ran`: the nodes that ran in the super-step which this checkpoint closed. Only one whose `source` is `"loop"` closes
#   a step. For the others `ran` is empty: an input makes one (`"input"`), a change from outside by
#   `graph.update_state(config, values)` (`"update"`), and a run that goes on from an old checkpoint (`"fork"`).
# * `changed`: the fields of the state whose value is not that of the parent.
# * `next`: what the snapshot in the history calls `next`.
#
# Each of the three is a list or tuple of names, in any order. `__start__` counts as a node. `update_state` and `invoke`
# with the config of an *old* snapshot begin a new branch there. What was left behind is not on the way to the newest
# checkpoint.
#
# <details><summary>Hint</summary>
#
# What ran on the way from a checkpoint to its child? The parent knew it beforehand. To find the parent of a snapshot,
# look for the one whose `config` holds the `checkpoint_id` of its `parent_config`.
# </details>
#
# The next cell is for the checks. You may run it unread.

# %%
BEGUN = [(["__start__"], ["target"], ["fetch"])]  # how each thread begins


def first_difference(found, expected):
    """One sentence on the first checkpoint where `read_thread` is wrong, or ""."""
    try:
        found = [[sorted(ran), sorted(changed), sorted(then)] for ran, changed, then in found]
    except (TypeError, ValueError):
        return f"expected a list of (ran, changed, next), each a list of names, and got {found!r}"
    expected = [list(map(sorted, row)) for row in expected]
    for number, (row, right) in enumerate(zip_longest(found, expected), 2):
        if row != right:
            got, wanted = row or "nothing", right or "nothing, for the way ends before"
            return f"checkpoint {number}: (ran, changed, next) is {got}, expected {wanted}"
    return ""


# %% answer id="read_thread"
def read_thread(graph, config):
    """Say for each checkpoint with a parent: what ran, what changed, what is next."""
    ### BEGIN SOLUTION
    snapshots = {
        snapshot.config["configurable"]["checkpoint_id"]: snapshot
        for snapshot in graph.get_state_history(config)
    }
    found = []
    child = next(iter(snapshots.values()))
    while child.parent_config:
        parent = snapshots[child.parent_config["configurable"]["checkpoint_id"]]
        ran = parent.next if child.metadata["source"] == "loop" else ()
        changed = [name for name, value in child.values.items() if value != parent.values.get(name)]
        found.insert(0, (ran, changed, child.next))
        child = parent
    return found
    ### END SOLUTION


# %% wrong loses="read_branches" why="the checkpoint before in time is the parent"
def read_thread(graph, config):
    snapshots = list(graph.get_state_history(config))[::-1]
    found = []
    for parent, child in pairwise(snapshots):
        ran = parent.next if child.metadata["source"] == "loop" else ()
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.append((ran, changed, child.next))
    return found


# %% wrong loses="read_inputs read_branches" why="what was next is what ran, always"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.insert(0, (parent.next, changed, child.next))
        child = parent
    return found


# %% wrong loses="read_inputs read_branches" why="knows of updates, and takes an input for a step"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        ran = () if child.metadata["source"] == "update" else parent.next
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.insert(0, (ran, changed, child.next))
        child = parent
    return found


# %% wrong loses="read_branches" why="the newest is the one of the highest step"
def read_thread(graph, config):
    found, child = [], max(graph.get_state_history(config), key=lambda s: s.metadata["step"])
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        ran = parent.next if child.metadata["source"] == "loop" else ()
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.insert(0, (ran, changed, child.next))
        child = parent
    return found


# %% wrong loses="read_branches" why="the newest of each step, up to the last"
def read_thread(graph, config):
    snapshots = list(graph.get_state_history(config))[::-1]
    best = {snapshot.metadata["step"]: snapshot for snapshot in snapshots}
    last = snapshots[-1].metadata["step"]
    found = []
    for parent, child in pairwise([best[step] for step in sorted(best) if step <= last]):
        ran = parent.next if child.metadata["source"] == "loop" else ()
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.append((ran, changed, child.next))
    return found


# %% wrong loses="read_inputs" why="where nothing changed, nothing ran"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        ran = [] if not changed or child.metadata["source"] == "update" else parent.next
        found.insert(0, (ran, changed, child.next))
        child = parent
    return found


# %% wrong loses="read_branches" why="an update runs what was next"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        ran = parent.next if child.metadata["source"] in ("loop", "update") else ()
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.insert(0, (ran, changed, child.next))
        child = parent
    return found


# %% wrong loses="read_branches" why="knows of inputs and updates, and of no replay"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        ran = () if child.metadata["source"] in ("input", "update") else parent.next
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.insert(0, (ran, changed, child.next))
        child = parent
    return found


# %% wrong loses="read_steps" why="who has run has left a result"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        done = [task.name for task in parent.tasks if task.result is not None]
        ran = done if child.metadata["source"] == "loop" else ()
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.insert(0, (ran, changed, child.next))
        child = parent
    return found


# %% wrong loses="read_steps read_inputs read_branches" why="leaves the newest first"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        ran = parent.next if child.metadata["source"] == "loop" else ()
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.append((ran, changed, child.next))
        child = parent
    return found


# %% wrong loses="read_steps read_inputs read_branches" why="what a checkpoint calls next is what it has run"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.insert(0, (child.next, changed, child.next))
        child = parent
    return found


# %% wrong loses="read_steps read_inputs read_branches" why="the metadata says which nodes wrote, as in old versions"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        changed = [k for k in child.values if child.values[k] != parent.values.get(k)]
        found.insert(0, (list(child.metadata.get("writes") or {}), changed, child.next))
        child = parent
    return found


# %% wrong loses="read_steps read_inputs read_branches" why="a checkpoint holds the whole state, so all of it changed"
def read_thread(graph, config):
    found, child = [], next(graph.get_state_history(config))
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        ran = parent.next if child.metadata["source"] == "loop" else ()
        found.insert(0, (ran, list(child.values), child.next))
        child = parent
    return found


# %% right why="asks for one parent after the other"
def read_thread(graph, config):
    child = next(graph.get_state_history(config))
    way = []
    while child.parent_config:
        parent = graph.get_state(child.parent_config)
        closes = child.metadata["source"] not in ("input", "update", "fork")
        fields = set(child.values) | set(parent.values)
        changed = {k for k in fields if child.values.get(k) != parent.values.get(k)}
        way += [({task.name for task in parent.tasks} if closes else set(), changed, child.next)]
        child = parent
    return way[::-1]


# %% [markdown]
# First, `LINE` and `WIDE`, and `WIDE` on a disk that no pending write ever reached.

# %% test id="read_steps" points=1
with WorkFolder.fresh() as folder, opened(folder, LINE) as graph:
    graph.invoke(INPUT, RUN)
    of_line = [
        *BEGUN,
        (["fetch"], ["built"], ["abseil"]),
        (["abseil"], ["built"], ["re2"]),
        (["re2"], ["built"], []),
    ]
    problem = first_difference(read_thread(graph, RUN), of_line)
assert not problem, f"one run of LINE: {problem}. Compare it with the picture of LINE."

both = ["abseil", "gtest"]
of_wide = [*BEGUN, (["fetch"], ["built"], both), (both, ["built"], ["re2"]), of_line[-1]]
for which in ("one run of WIDE", "a run of WIDE without its pending writes"):
    with WorkFolder.fresh() as folder, opened(folder, WIDE) as graph:
        if "without" in which:
            graph.checkpointer.put_writes = lambda *given: None
        graph.invoke(INPUT, RUN)
        problem = first_difference(read_thread(graph, RUN), of_wide)
    assert not problem, f"{which}: {problem}. Two nodes ran in one super-step."

# %% [markdown]
# Then `ASK` with three inputs, the second in place of an answer, and twice the same answer. And a thread whose `abseil`
# is a graph of its own, a **subgraph**.

# %% test id="read_inputs" points=1
asked = [*BEGUN, (["fetch"], ["built"], ["ask"])]
another, last = ([], [], ["__start__"]), (["re2"], ["built"], [])
with WorkFolder.fresh() as folder, opened(folder, ASK) as graph:
    for value in (INPUT, {"target": "gtest"}, Command(resume="yes"), INPUT, Command(resume="yes")):
        graph.invoke(value, RUN)
    answered, again = (["ask"], ["answer"], ["re2"]), (["ask"], [], ["re2"])
    way = [*asked, another, *asked, answered, last, another, *asked, again, last]
    problem = first_difference(read_thread(graph, RUN), way)
assert not problem, (
    f"ASK with three inputs and the same answer twice: {problem}. "
    "An input runs nothing, and a node may run and change nothing."
)

with WorkFolder.fresh() as folder, opened(folder) as outside:
    journal = Journal(folder.path / "journal.jsonl")
    inner = make_graph({"configure": [START], "compile": ["configure"]}, journal).compile()
    builder = make_graph({"fetch": [START]}, journal)
    builder.add_node("abseil", inner).add_edge("fetch", "abseil")
    graph = builder.compile(checkpointer=outside.checkpointer)
    graph.invoke(INPUT, RUN)
    problem = first_difference(
        read_thread(graph, RUN),
        [*BEGUN, (["fetch"], ["built"], ["abseil"]), (["abseil"], ["built"], [])],
    )
assert not problem, f"a thread with a subgraph: {problem}. To the graph the subgraph is one node."

# %% [markdown]
# Last, somebody goes back, twice: to the checkpoint before `abseil`, and on from there; then to the first checkpoint
# before `re2`, where the target is changed and nothing runs on.

# %% test id="read_branches" points=1
look = "Follow parent_config from the newest, not the order of the list; what is the source there?"
with WorkFolder.fresh() as folder, opened(folder) as graph:
    graph.invoke(INPUT, RUN)
    old = {name: each.config for each in graph.get_state_history(RUN) for name in each.next}
    graph.invoke(None, old["abseil"])
    begun, abseil = [*BEGUN, (["fetch"], ["built"], ["abseil"])], (["abseil"], ["built"], ["re2"])
    way = [*begun, ([], [], ["abseil"]), abseil, (["re2"], ["built"], [])]
    problem = first_difference(read_thread(graph, RUN), way)
    assert not problem, f"LINE, gone on from before abseil: {problem}. {look}"
    graph.update_state(old["re2"], {"target": "re2 for arm64"})
    way = [*begun, abseil, ([], ["target"], ["re2"])]
    problem = first_difference(read_thread(graph, RUN), way)
    drawn = history(graph, RUN)
assert not problem, f"LINE, changed before the old re2: {problem}. {look}"

# %% [markdown]
# That thread, drawn. Two ends are left behind.

# %%
drawn

# %% [markdown]
# ## When it saves: three durability modes
#
# `invoke` takes a `durability`. The documentation says:
#
# * `"sync"`: a checkpoint is written before the next super-step starts.
# * `"async"`, the default: it is written while the next super-step runs.
# * `"exit"`: it is written when the run ends.
#
# What that means under a kill depends on the disk, so you need a disk that you control. `Disk` is a `SqliteSaver` that
# does what it is told before it writes, and tells what it has written. You may run the next two cells unread.

# %%
KILL, FOREVER = "KILL", "the end of time"


def writer(writes):
    """The node that wrote this, or what else it is, such as "__resume__" for an answer."""
    return dict(writes)["built"][0] if "built" in dict(writes) else writes[0][0]


class Disk(SqliteSaver):
    def __init__(self, path, todo):
        super().__init__(sqlite3.connect(path, check_same_thread=False))
        self.todo, self.known, self.news = todo, set(), threading.Condition()

    def put(self, config, checkpoint, metadata, versions):
        self.before(metadata["step"])
        saved = super().put(config, checkpoint, metadata, versions)
        self.tell(metadata["step"])
        return saved

    def put_writes(self, config, writes, task_id, task_path=""):
        name = writer(writes)
        self.before(f"write {name}")
        super().put_writes(config, writes, task_id, task_path)
        self.tell(name)

    def before(self, name):
        for what in self.todo.get(name, []):
            if what == KILL:
                raise SystemError("the process is killed before this line")
            what() if callable(what) else self.wait_for(what)

    def tell(self, name):
        with self.news:
            self.known.add(name)
            self.news.notify_all()

    def wait_for(self, name):
        with self.news:
            self.news.wait_for(lambda: name in self.known)


# %%
def agent(folder, value=INPUT, plan=LINE, mode="sync", todo=None, stops=None):
    disk = Disk(folder.path / "threads.sqlite", todo or {})
    graph = make_graph(plan, Journal(folder.path / "journal.jsonl"), disk.before)
    app = graph.compile(checkpointer=disk, interrupt_before=stops)
    return app.invoke(value, RUN, durability=mode)


def live(folder, kill_before="raise SystemError", deadline=None, **how):
    """Run `agent` in a process of its own, which dies where `todo` says KILL."""

    def run():
        return agent(folder, **how)

    life = launch(run, kill_before=kill_before, deadline=deadline or 5, echo=False)
    assert deadline or life.end != "stuck", f"{life}. Run all cells above again"
    return life


def go_on(folder, plan=LINE, value=None):
    """Take a thread over in this process: the nodes that run, or the name of the error."""
    ran = []
    with opened(folder, plan, ran.append) as graph:
        try:
            graph.invoke(value, RUN, durability="sync")
        except Exception as error:
            return type(error).__name__
    return ran


def told(ran):
    return ran if isinstance(ran, str) else ", ".join(ran) or "nothing"


def on_disk(folder):
    """The number of checkpoints in the file."""
    with closing(sqlite3.connect(folder.path / "threads.sqlite")) as db:
        return db.execute("SELECT count(*) FROM checkpoints").fetchone()[0]


# %% [markdown]
# `live` runs the graph on such a disk, in a process of its own. `todo` says what comes before a node returns, or before
# the checkpoint of a step is written: what must be on disk (the checkpoint of a step, by its number, or the pending
# write of a node), or `KILL`. Here the process dies in `abseil`, when its work is done.

# %%
with WorkFolder.fresh() as folder:
    print(live(folder, todo={"abseil": [KILL]}))
    print("checkpoints on disk:", on_disk(folder))
    with opened(folder) as graph:
        drawn = history(graph, RUN)
drawn

# %% [markdown]
# **Predict.** Now the kill comes one node later, in `re2`, just before it returns. Four settings:
#
# 1. `"sync"`
# 2. `"async"`, and the disk keeps up: what was written before `re2` began is on disk
# 3. `"async"`, and the disk hangs: the checkpoint of the input gets there, and no other
# 4. `"exit"`
#
# First, how many checkpoints are on disk when the process is dead? Assign a list of four numbers to `predicted_disk`.

# %%
IN_TIME = {"fetch": [0], "abseil": [1], "re2": [2, KILL]}
SETTINGS = {
    "sync": {"mode": "sync", "todo": IN_TIME},
    "async, the disk keeps up": {"mode": "async", "todo": IN_TIME},
    "async, the disk hangs": {"mode": "async", "todo": {0: [FOREVER], "re2": [-1, KILL]}},
    "exit": {"mode": "exit", "todo": {"re2": [KILL]}},
}

# %% answer id="predict_disk"
### BEGIN SOLUTION
predicted_disk = [4, 4, 1, 0]
### END SOLUTION

# %% wrong loses="predict_disk_check" why="one for each node that ran"
predicted_disk = [3, 3, 1, 0]

# %% wrong loses="predict_disk_check" why="re2 has done its work, so its checkpoint is there"
predicted_disk = [5, 5, 1, 0]

# %% wrong loses="predict_disk_check" why="async may lose the last checkpoint, and no more"
predicted_disk = [4, 3, 3, 0]

# %% wrong loses="predict_disk_check" why="a killed process exits too, so exit saves"
predicted_disk = [4, 4, 1, 1]

# %% wrong loses="predict_disk_check" why="one number for all"
predicted_disk = 4

# %% right why="a tuple, put together"
predicted_disk = (4,) * 2 + (1, 0)

# %% test id="predict_disk_check" points=1
measured = []
for setting in SETTINGS.values():
    with WorkFolder.fresh() as folder:
        live(folder, **setting)
        measured.append(on_disk(folder))
problem = differs(predicted_disk, measured, list(SETTINGS))
assert not problem, f"{problem}. Count from step -1, and ask which checkpoint the kill came before."

# %% [markdown]
# Second, the thread is taken over with `invoke(None)`. `None` means: no input, go on. Which nodes run? Assign to
# `predicted_again` a list of four. Each is a list of node names in order (`__start__` does not count) or, if it raises,
# the name of the error: `"EmptyInputError"` (there is nothing to go on from), `"ValueError"` or `"KeyError"`.

# %% answer id="predict_again"
### BEGIN SOLUTION
predicted_again = [["re2"], ["re2"], ["fetch", "abseil", "re2"], "EmptyInputError"]
### END SOLUTION

# %% wrong loses="predict_again_check" why="re2 has done its work and does not run again"
predicted_again = [[], [], ["fetch", "abseil", "re2"], "EmptyInputError"]

# %% wrong loses="predict_again_check" why="async goes back one step and no further"
predicted_again = [["re2"], ["re2"], ["abseil", "re2"], "EmptyInputError"]

# %% wrong loses="predict_again_check" why="with nothing on disk it starts from the beginning"
predicted_again = [["re2"], ["re2"], ["fetch", "abseil", "re2"], ["fetch", "abseil", "re2"]]

# %% wrong loses="predict_again_check" why="only the input is on disk, so the input is missing"
predicted_again = [["re2"], ["re2"], "EmptyInputError", "EmptyInputError"]

# %% wrong loses="predict_again_check" why="sync protects, async never does"
predicted_again = [["re2"], ["abseil", "re2"], ["fetch", "abseil", "re2"], "EmptyInputError"]

# %% right why="tuples and slices of the plan"
predicted_again = (("re2",), ("re2",), tuple(LINE), "EmptyInputError")

# %% test id="predict_again_check" points=1
measured = []
for setting in SETTINGS.values():
    with WorkFolder.fresh() as folder:
        live(folder, **setting)
        measured.append(go_on(folder))
problem = differs(predicted_again, measured, list(SETTINGS))
assert not problem, f"{problem}. It goes on from the newest checkpoint on disk: which one is that?"

# %% [markdown]
# ## See it
#
# How often was the work of each node done, in both lives together? One row more: a disk that hangs before the first
# write. (A thread with nothing on disk cannot go on: its work is lost.)


# %%
def work_done(setting):
    with WorkFolder.fresh() as folder:
        live(folder, **setting)
        if go_on(folder) == "EmptyInputError":
            return dict.fromkeys(LINE, "lost")
        journal = Journal(folder.path / "journal.jsonl")
        return {name: ["once", "twice"][journal.count(name) - 1] for name in LINE}


dead_disk = {"todo": {-1: [FOREVER], "re2": [KILL]}}
all_settings = SETTINGS | {"async, the disk hangs from the start": {"mode": "async"} | dead_disk}
outcome_matrix(
    {name: work_done(setting) for name, setting in all_settings.items()},
    "Killed in re2, then invoke(None)",
)

# %% [markdown]
# ## Why
#
# * `sync` waits for each checkpoint. A kill costs the super-step under way.
# * `async` does not wait, however far the disk is behind. A kill costs as many super-steps as the disk had not
#   written: one, all three, or the thread itself. And this is what you get if you say nothing.
# * `exit` keeps everything in the process until the run ends.
#
# The disk that hangs still takes pending writes. Without their checkpoint they are worth nothing.
#
# Ends differ. `exit` saves when an exception ends the run. SIGTERM is how a container is stopped, and unless you
# handle it a Python process dies of it as of SIGKILL. (`launch` calls only its own SIGKILL "killed", and this death
# "exited".)


# %%
def fail():
    raise OSError("no space left")


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


for end in (fail, terminate):
    with WorkFolder.fresh() as folder:
        life = live(folder, mode="exit", todo={"re2": [end]})
        print(f"{end.__name__}: {life.end}, checkpoints on disk: {on_disk(folder)},", end=" ")
        print("then", told(go_on(folder)))

# %% [markdown]
# Two traps. `sync` without a checkpointer raises an `AttributeError` that does not say why. And a mode that does not
# exist is accepted, and works like `async`: on a disk that hangs from the start, re2 is reached and nothing is saved.

# %%
with WorkFolder.fresh() as folder:
    life = live(folder, mode="snyc", **dead_disk)
    print("snyc:", life.end, "in re2, checkpoints on disk:", on_disk(folder))

# %% [markdown]
# ## Choose: three jobs
#
# * `"release"`: its nodes publish packages. After a kill the work of one node at most may be done twice, however slow
#   the disk is.
# * `"chat"`: a person waits. No node may wait for the disk. And as long as the disk keeps up, the work of one node at
#   most may be done twice.
# * `"nightly"`: a rerun from the start costs nothing. It should put as few bytes on disk as it can.
#
# Assign to `modes` a dict with a mode for each. The check kills in `re2`, on a disk that hangs and on one that keeps
# up, and goes on (from the input, if nothing is saved). You may run the next cell unread.


# %%
@cache
def bytes_of_a_run(mode):
    with WorkFolder.fresh() as folder:
        live(folder, mode=mode).result()
        with closing(sqlite3.connect(folder.path / "threads.sqlite")) as db:
            saved = db.execute("SELECT sum(length(checkpoint)) FROM checkpoints").fetchone()[0]
            pending = db.execute("SELECT sum(length(value)) FROM writes").fetchone()[0]
            return saved + (pending or 0)


def twice(folder):
    """Go on, from the input if need be: the nodes whose work was done twice."""
    if go_on(folder) == "EmptyInputError":
        go_on(folder, value=INPUT)
    journal = Journal(folder.path / "journal.jsonl")
    return [name for name in LINE if journal.count(name) > 1]


@cache
def measure(mode):
    """Whether nodes wait for a disk that hangs; what is done twice there, and on a quick disk."""
    hangs = {0: [FOREVER], "re2": [KILL] if mode == "exit" else [-1, KILL]}
    patience = 1 if mode == "sync" else 30  # who waits for this disk waits for ever
    with WorkFolder.fresh() as folder:
        waits = live(folder, mode=mode, todo=hangs, deadline=patience).end == "stuck"
        slow = twice(folder)
    with WorkFolder.fresh() as folder:
        live(folder, mode=mode, todo={"re2": [KILL]} if mode == "exit" else IN_TIME)
        return waits, slow, twice(folder)


def chosen(modes, job):
    assert isinstance(modes, dict) and job in modes, f"modes must be a dict with a mode for {job!r}"
    assert modes[job] in ("sync", "async", "exit"), (
        f"{job}: {modes[job]!r} is no durability mode; LangGraph would take it without a word"
    )
    return modes[job]


# %% answer id="modes"
### BEGIN SOLUTION
modes = {"release": "sync", "chat": "async", "nightly": "exit"}
### END SOLUTION

# %% wrong loses="mode_release" why="async is the default, so it will do"
modes = {"release": "async", "chat": "async", "nightly": "exit"}

# %% wrong loses="mode_chat mode_nightly" why="sync is the safe one, so always sync"
modes = {"release": "sync", "chat": "sync", "nightly": "sync"}

# %% wrong loses="mode_chat" why="exit delays nothing"
modes = {"release": "sync", "chat": "exit", "nightly": "exit"}

# %% wrong loses="mode_nightly" why="async writes less than sync"
modes = {"release": "sync", "chat": "async", "nightly": "async"}

# %% wrong loses="mode_release" why="exit saves when the process exits, however it does"
modes = {"release": "exit", "chat": "async", "nightly": "exit"}

# %% wrong loses="mode_release mode_chat mode_nightly" why="the modes as a list"
modes = ["sync", "async", "exit"]

# %% wrong loses="mode_release" why="a mode that does not exist"
modes = {"release": "snyc", "chat": "async", "nightly": "exit"}

# %% right why="put together"
modes = dict(zip(("release", "chat", "nightly"), ("sync", "async", "exit"), strict=True))

# %% test id="mode_release" points=1
_, slow, _ = measure(chosen(modes, "release"))
assert len(slow) <= 1, (
    f"release with {modes['release']!r}: killed on a disk that hangs, gone on, and the work of "
    f"{told(slow)} was done twice; expected one node at most. Which mode waits for the disk?"
)

# %% test id="mode_chat" points=1
waits, _, quick = measure(chosen(modes, "chat"))
assert not waits, (
    f"chat with {modes['chat']!r}: on a disk that hangs, no node began; "
    "expected that no node waits. Which modes do not wait?"
)
assert len(quick) <= 1, (
    f"chat with {modes['chat']!r}: killed on a disk that keeps up, gone on, and the work of "
    f"{told(quick)} was done twice; expected one node at most. Which mode writes during the run?"
)

# %% test id="mode_nightly" points=1
sizes = {mode: bytes_of_a_run(mode) for mode in ("sync", "async", "exit")}
size = sizes[chosen(modes, "nightly")]
assert size == min(sizes.values()), (
    f"nightly with {modes['nightly']!r}: a run puts {size} bytes on disk; expected "
    f"{min(sizes.values())}. Which mode writes a single checkpoint?"
)

# %% [markdown]
# All three, measured:

# %%
print("       nodes wait  twice, disk hangs    twice, disk keeps up  on disk")
for mode in ("sync", "async", "exit"):
    waits, slow, quick = measure(mode)
    kilobytes = f"{bytes_of_a_run(mode) / 1000:.1f} kB"
    print(f"{mode:6} {waits!s:11} {told(slow):20} {told(quick):21} {kilobytes}")

# %% [markdown]
# ## A finished sibling does not run again
#
# So far a super-step had one node. In `WIDE`, `abseil` and `gtest` run side by side. This time `gtest` returns, and
# its pending write reaches the disk. `abseil` waits for that, and is then killed.
#
# **Predict.** Which nodes run after `invoke(None)`? Assign a list of names, in order, to `predicted_sibling`.

# %% answer id="predict_sibling"
### BEGIN SOLUTION
predicted_sibling = ["abseil", "re2"]
### END SOLUTION

# %% wrong loses="predict_sibling_check" why="a super-step is repeated as a whole"
predicted_sibling = ["abseil", "gtest", "re2"]

# %% wrong loses="predict_sibling_check" why="the work of abseil was done too"
predicted_sibling = ["re2"]

# %% wrong loses="predict_sibling_check" why="a pending write without its checkpoint counts for nothing"
predicted_sibling = ["fetch", "abseil", "gtest", "re2"]

# %% right why="a tuple"
predicted_sibling = ("abseil", "re2")

# %% test id="predict_sibling_check" points=1
with WorkFolder.fresh() as folder:
    half = live(folder, plan=WIDE, todo={"abseil": ["gtest", KILL]})
    with opened(folder, WIDE) as graph:
        drawn = history(graph, RUN)
        now = graph.get_state(RUN)
        newest = next(graph.get_state_history(RUN))
    measured = go_on(folder, WIDE)
    lives_drawn = graph_lives(Journal(folder.path / "journal.jsonl"), [half, None])
problem = differs(predicted_sibling, measured)
assert not problem, f"{problem}. Look at what the table writes holds at the kill."

# %% [markdown]
# The thread as the kill left it, and then the two lives.

# %%
drawn

# %%
lives_drawn

# %% [markdown]
# A pending write is what makes the difference. `get_state` puts it on top of the checkpoint, `get_state_history` gives
# the checkpoint as it is. (The figure has the values from the history, and `next` at its last mark from `get_state`.)

# %%
print("get_state:  ", now.values["built"], "next", now.next)
print("checkpoint: ", newest.values["built"], "next", newest.next)

# %% [markdown]
# When is it on disk? LangGraph hands the pending write and then the next checkpoint to background threads. `sync` waits
# for the checkpoint, nobody for the pending write, and which of them arrives first is a race. Here the order is
# forced, both ways, and the kill falls while the checkpoint of `abseil` is being written.

# %%
SAVING = {
    "its write was on disk": {2: ["abseil", KILL]},
    "its write was not": {2: [KILL], "write abseil": [FOREVER]},
}
found = {}
for name, todo in SAVING.items():
    with WorkFolder.fresh() as folder:
        live(folder, todo=todo)
        go_on(folder)
        journal = Journal(folder.path / "journal.jsonl")
        found[name] = {node: ["once", "twice"][journal.count(node) - 1] for node in LINE}
outcome_matrix(found, "Killed when abseil had returned, before its checkpoint was on disk")

# %% [markdown]
# So even under `sync` a node that has returned may run again. Do not build on the race: give its effect a key, as in
# `03_crash_window`.
#
# ## "Finished?" is not `next == ()`
#
# The first row of that matrix leaves a strange thread:

# %%
with WorkFolder.fresh() as folder:
    live(folder, todo=SAVING["its write was on disk"])
    with opened(folder) as graph:
        state = graph.get_state(RUN)
        drawn = history(graph, RUN)
    print("next:", state.next)
    print("tasks:", [(task.name, task.result) for task in state.tasks])
    print("invoke(None) runs", go_on(folder))
drawn

# %% [markdown]
# `next` lists what has to run and has no result. `abseil` has one, so `next` is empty. But the step is not closed,
# and `re2` is still to come. A **task** is one run of a node in a super-step. `tasks` lists all of the open step,
# with their results.
#
# Two more threads, which cannot be told apart. One graph was compiled with a **breakpoint**,
# `interrupt_before=["abseil"]`, and stopped there. The other was killed in `abseil`.

# %%
for how in ({"stops": ["abseil"]}, {"todo": {"abseil": [KILL]}}):
    with WorkFolder.fresh() as folder:
        life = live(folder, **how)
        with opened(folder) as graph:
            state = graph.get_state(RUN)
            tasks = [(t.name, t.result, t.error, t.interrupts) for t in state.tasks]
            print(f"{life.end:9}", state.next, tasks, state.metadata)

# %% [markdown]
# A breakpoint leaves nothing on disk. `interrupt()` does: in the node `ask` it stops the run, and its question is
# saved with the task. The run goes on with `Command(resume=answer)`. (`08_interrupt` is about that.)
#
# Write `status(graph, config)`. It only looks, and returns one word. The first line of the table that fits counts:
#
# | word | when | what the caller does |
# |---|---|---|
# | `"new"` | nothing is saved under this thread | gives it its input |
# | `"failed"` | a task of the open step has an error and no result | looks into it, then `invoke(None)` |
# | `"waiting"` | a task of the open step has asked by `interrupt()`, and has no result | asks a person |
# | `"unfinished"` | there is work left for any other reason, a breakpoint too | `invoke(None)` |
# | `"finished"` | there is no work left | nothing |
#
# All you need is in `graph.get_state(config)`: `created_at`, `next`, `tasks` with `result`, `error` and `interrupts`.
# An error stays until the step is closed, also beside the result of a second try. A node that failed after its answer,
# or failed and asks now, shows error and question: `"failed"`. A saved answer is not shown: if the process died in the
# node then, it is `"waiting"`, and a new answer replaces the saved one, which `invoke(None)` would give to the node.
#
# The next two cells make the threads that the checks look at, by real kills. You may run them unread.

# %%
ASKED, YES = {"plan": ASK}, {"plan": ASK, "value": Command(resume="yes")}
SIDE = {"fetch": [START], "abseil": ["fetch"], "review": ["fetch"]}
FAILED = {"todo": {"re2": [fail]}}
FAILED_BESIDE = {"plan": SIDE, "todo": {"abseil": ["__interrupt__", fail]}}
IN_ABSEIL = {"todo": {"abseil": [KILL]}}
THREADS = {
    "never begun": [],
    "finished": [{}],
    "killed in abseil": [IN_ABSEIL],
    "finished, begun anew, killed in abseil": [{}, IN_ABSEIL],
    "killed while abseil is saved": [{"todo": SAVING["its write was on disk"]}],
    "killed while re2 is saved": [{"todo": {3: ["re2", KILL]}}],
    "killed, and only the input on disk": [SETTINGS["async, the disk hangs"]],
    "killed in ask, before its question": [ASKED | {"todo": {"ask": [KILL]}}],
    "stopped before abseil": [{"stops": ["abseil"]}],
    "ask has asked": [ASKED],
    "killed in ask, when the answer was on disk": [
        ASKED,
        YES | {"todo": {"ask": ["__resume__"]}, "kill_before": 'return {"answer"'},
    ],
    "ask was answered, and failed": [ASKED, YES | {"todo": {"ask": ["__resume__", fail]}}],
    "failed in re2": [FAILED],
    "failed in re2, gone on, killed": [FAILED, {"value": None, "todo": {3: ["re2", KILL]}}],
    "failed in gtest, beside abseil": [{"plan": WIDE, "todo": {"gtest": ["abseil", fail]}}],
    "failed in abseil, beside a question": [FAILED_BESIDE],
    "failed in abseil, gone on, and a question": [FAILED_BESIDE, {"plan": SIDE, "value": None}],
}


# %%
def leave(folder, lives):
    """Make a thread; return the plan of its graph."""
    for how in lives:
        live(folder, **how)
    return lives[-1].get("plan", LINE) if lives else LINE


def wrong_status(threads):
    """One sentence on the first thread of which `status` says the wrong word, or ""."""
    for name, right in threads.items():
        ran = []
        with WorkFolder.fresh() as folder:
            plan = leave(folder, THREADS[name])
            with opened(folder, plan, ran.append) as graph:
                before = len(list(graph.checkpointer.list(RUN)))
                word = status(graph, RUN)
                new = len(list(graph.checkpointer.list(RUN))) - before
        if ran or new:
            return f"{name}: status ran {ran} and left {new} new checkpoints; it must only look"
        if word != right:
            return f"{name}: status said {word!r}, expected {right!r}"
    return ""


# %% answer id="status"
def status(graph, config):
    """Say in a word where a thread stands: new, waiting, failed, unfinished or finished."""
    ### BEGIN SOLUTION
    state = graph.get_state(config)
    if state.created_at is None:
        return "new"
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    if state.interrupts:
        return "waiting"
    return "unfinished" if state.tasks else "finished"
    ### END SOLUTION


# %% wrong loses="status_killed" why="nothing is next, so it is finished"
def status(graph, config):
    state = graph.get_state(config)
    if state.created_at is None:
        return "new"
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    if state.interrupts:
        return "waiting"
    return "unfinished" if state.next else "finished"


# %% wrong loses="status_killed" why="ask is next, so it asks"
def status(graph, config):
    state = graph.get_state(config)
    if state.created_at is None:
        return "new"
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    if "ask" in state.next or "review" in state.next:
        return "waiting"
    return "unfinished" if state.tasks else "finished"


# %% wrong loses="status_waiting" why="looks at the first task only"
def status(graph, config):
    state = graph.get_state(config)
    if state.created_at is None:
        return "new"
    if not state.tasks:
        return "finished"
    first = state.tasks[0]
    if first.error and first.result is None:
        return "failed"
    return "waiting" if first.interrupts else "unfinished"


# %% wrong loses="status_still" why="a thread without values is new"
def status(graph, config):
    state = graph.get_state(config)
    if not state.values:
        return "new"
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    if state.interrupts:
        return "waiting"
    return "unfinished" if state.tasks else "finished"


# %% wrong loses="status_killed status_waiting" why="an error is an error, whatever came after"
def status(graph, config):
    state = graph.get_state(config)
    if state.created_at is None:
        return "new"
    if any(task.error for task in state.tasks):
        return "failed"
    if state.interrupts:
        return "waiting"
    return "unfinished" if state.tasks else "finished"


# %% wrong loses="status_waiting" why="who waits for a person has not failed"
def status(graph, config):
    state = graph.get_state(config)
    if state.created_at is None:
        return "new"
    if state.interrupts:
        return "waiting"
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    return "unfinished" if state.tasks else "finished"


# %% wrong loses="status_waiting" why="only the node ask can ask"
def status(graph, config):
    state = graph.get_state(config)
    if state.created_at is None:
        return "new"
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    if any(task.name == "ask" and task.interrupts for task in state.tasks):
        return "waiting"
    return "unfinished" if state.tasks else "finished"


# %% wrong loses="status_waiting" why="an answer that is saved is an answer"
def status(graph, config):
    saved, state = graph.checkpointer.get_tuple(config), graph.get_state(config)
    if saved is None:
        return "new"
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    if state.interrupts and "__resume__" not in [write[1] for write in saved.pending_writes]:
        return "waiting"
    return "unfinished" if state.tasks else "finished"


# %% wrong loses="status_still status_killed status_waiting" why="something is next, so it waits"
def status(graph, config):
    state = graph.get_state(config)
    if not state.metadata:
        return "new"
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    if state.next:
        return "waiting"
    return "unfinished" if state.tasks else "finished"


# %% wrong loses="status_killed" why="re2 is built, so it is finished"
def status(graph, config):
    state = graph.get_state(config)
    if not state.metadata:
        return "new"
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    if state.interrupts:
        return "waiting"
    return "finished" if "re2" in state.values.get("built", []) else "unfinished"


# %% wrong loses="status_waiting" why="an error is work left like any other"
def status(graph, config):
    state = graph.get_state(config)
    if not state.created_at:
        return "new"
    if state.interrupts:
        return "waiting"
    return "unfinished" if state.tasks else "finished"


# %% wrong loses="status_still status_killed status_waiting" why="runs it and sees"
def status(graph, config):
    try:
        found = graph.invoke(None, config)
    except Exception as error:
        return "new" if "Received no input" in str(error) else "failed"
    return "waiting" if "__interrupt__" in found else "finished"


# %% wrong loses="status_still" why="a thread that was never begun has nothing left to do"
def status(graph, config):
    state = graph.get_state(config)
    if any(task.error and task.result is None for task in state.tasks):
        return "failed"
    if state.interrupts:
        return "waiting"
    return "unfinished" if state.tasks else "finished"


# %% wrong loses="status_still status_killed status_waiting" why="the answer is True or False"
def status(graph, config):
    state = graph.get_state(config)
    return not state.next and not state.tasks


# %% right why="the newest of the history, by the tasks alone"
def status(graph, config):
    newest = next(graph.get_state_history(config), None)
    if newest is None:
        return "new"
    if not newest.tasks:
        return "finished"
    unsettled = [task for task in newest.tasks if task.result is None]
    if {task.error for task in unsettled} - {None}:
        return "failed"
    return "waiting" if any(task.interrupts for task in unsettled) else "unfinished"


# %% test id="status_still" points=1
problem = wrong_status({"never begun": "new", "finished": "finished"})
assert not problem, f"{problem}. What does get_state give for a thread that does not exist?"


class Bare(TypedDict, total=False):
    target: str


bare = StateGraph(Bare).add_node("fetch", lambda state: None).add_edge(START, "fetch")
bare = bare.compile(InMemorySaver(), interrupt_before=["fetch"])
bare.invoke({}, RUN)
word = status(bare, RUN)
assert word == "unfinished", (
    f"a thread that has no values and is stopped before its first node: status said {word!r}, "
    "expected 'unfinished'. Which part of get_state says whether a checkpoint is there?"
)

# %% test id="status_killed" points=2
killed = (
    "killed in abseil",
    "killed while abseil is saved",
    "killed while re2 is saved",
    "killed, and only the input on disk",
    "finished, begun anew, killed in abseil",
    "killed in ask, before its question",
    "failed in re2, gone on, killed",
)
problem = wrong_status(dict.fromkeys(killed, "unfinished"))
assert not problem, f"{problem}. Look at next and tasks of that thread: has each its result?"

# %% test id="status_waiting" points=1
problem = wrong_status(
    {
        "ask has asked": "waiting",
        "killed in ask, when the answer was on disk": "waiting",
        "ask was answered, and failed": "failed",
        "failed in re2": "failed",
        "failed in gtest, beside abseil": "failed",
        "failed in abseil, beside a question": "failed",
        "failed in abseil, gone on, and a question": "waiting",
        "stopped before abseil": "unfinished",
    }
)
assert not problem, f"{problem}. The first line of the table that fits counts: look at all tasks."

# %% [markdown]
# ## Prove it
#
# A runner that finds a thread asks your `status` and does what the table says. It is killed before every line of the
# nodes and of the two functions of `Disk` that write, is restarted, and must bring the build to its end. "twice" is
# allowed: the step under way may be repeated.


# %%
def run_to_the_end(folder):
    disk = Disk(folder.path / "threads.sqlite", {})
    journal = Journal(folder.path / "journal.jsonl")
    graph = make_graph(LINE, journal).compile(checkpointer=disk)
    word = status(graph, RUN)
    if word != "finished":
        graph.invoke(INPUT if word == "new" else None, RUN, durability="sync")


def builds(folder):
    counts = [Journal(folder.path / "journal.jsonl").count(name) for name in LINE]
    if 0 in counts:
        return "lost"
    return {3: "once", 4: "twice"}.get(sum(counts), "again")


explore(
    run_to_the_end,
    WorkFolder.fresh,
    builds,
    inside=[make_node, Disk.put, Disk.put_writes],
    harmless=("once", "twice"),
)

# %% [markdown]
# ## What you pass decides what runs
#
# The server of the first cell passed `{}` where it meant `None`. Take `ASK`, and four threads: a new one, one paused
# at `ask`, one that was answered and then killed in `re2`, and a finished one. To each you may pass `None`, `{}` or
# `Command(resume="yes")`.
#
# **Predict.** Which nodes run? Assign to `predicted_runs` a dict with the keys `"None"`, `"{}"` and `"Command"`. Each
# holds a list of four, in the order new, paused, killed, finished: a list of the nodes that are entered, in order (one
# that pauses counts), or the name of the error. One of the twelve is given, as nobody guesses it: `Command` on a new
# thread begins a run, `["fetch", "ask"]`.

# %%
STATES = {
    "new": [],
    "paused": [ASKED],
    "killed": [ASKED, YES | {"todo": {"re2": [KILL]}}],
    "finished": [ASKED, YES],
}
VALUES = {"None": None, "{}": {}, "Command": Command(resume="yes")}


def what_runs(value):
    found = []
    for lives in STATES.values():
        with WorkFolder.fresh() as folder:
            leave(folder, lives)
            found.append(go_on(folder, ASK, value))
    return found


def wrong_runs(predicted, name):
    """One sentence on the first thread for which the prediction is wrong, or ""."""
    if not isinstance(predicted, dict) or name not in predicted:
        return f"predicted_runs must be a dict with the keys {list(VALUES)}, not {predicted!r}"
    problem = differs(predicted[name], what_runs(VALUES[name]), list(STATES))
    return problem and f"passing {name} to each thread: {problem}"


# %% answer id="predict_runs"
### BEGIN SOLUTION
predicted_runs = {
    "None": ["EmptyInputError", ["ask"], ["re2"], []],
    "{}": [["fetch", "ask"], ["fetch", "ask"], ["fetch", "ask"], ["fetch", "ask"]],
    "Command": [["fetch", "ask"], ["ask", "re2"], ["re2"], []],
}
### END SOLUTION

# %% wrong loses="predict_runs_empty" why="{} has nothing in it, so it is None"
predicted_runs = {
    "None": ["EmptyInputError", ["ask"], ["re2"], []],
    "{}": ["EmptyInputError", ["ask"], ["re2"], []],
    "Command": [["fetch", "ask"], ["ask", "re2"], ["re2"], []],
}

# %% wrong loses="predict_runs_none" why="None passes a pause, as after a breakpoint"
predicted_runs = {
    "None": ["EmptyInputError", ["ask", "re2"], ["re2"], []],
    "{}": [["fetch", "ask"]] * 4,
    "Command": [["fetch", "ask"], ["ask", "re2"], ["re2"], []],
}

# %% wrong loses="predict_runs_none" why="None begins a new thread"
predicted_runs = {
    "None": [["fetch", "ask"], ["ask"], ["re2"], []],
    "{}": [["fetch", "ask"]] * 4,
    "Command": [["fetch", "ask"], ["ask", "re2"], ["re2"], []],
}

# %% wrong loses="predict_runs_empty" why="an answer to a thread that asks nothing is an input"
predicted_runs = {
    "None": ["EmptyInputError", ["ask"], ["re2"], []],
    "{}": [["fetch", "ask"]] * 4,
    "Command": [["fetch", "ask"], ["ask", "re2"], ["fetch", "ask"], ["fetch", "ask"]],
}

# %% wrong loses="predict_runs_empty" why="after an answer the node goes on behind its question"
predicted_runs = {
    "None": ["EmptyInputError", ["ask"], ["re2"], []],
    "{}": [["fetch", "ask"]] * 4,
    "Command": [["fetch", "ask"], ["re2"], ["re2"], []],
}

# %% wrong loses="predict_runs_none predict_runs_empty" why="a list without the names"
predicted_runs = [["EmptyInputError", ["ask"], ["re2"], []]]

# %% right why="tuples, put together"
anew = ("fetch", "ask")
predicted_runs = {
    "{}": (anew,) * 4,
    "Command": (anew, ("ask", "re2"), ("re2",), ()),
    "None": ("EmptyInputError", ("ask",), ("re2",), ()),
}

# %% test id="predict_runs_none" points=1
problem = wrong_runs(predicted_runs, "None")
assert not problem, f"{problem}. None means: go on from the newest checkpoint, and answer nothing."

# %% test id="predict_runs_empty" points=1
problem = wrong_runs(predicted_runs, "{}")
assert not problem, f"{problem}. Is {{}} an input, and what does an input do to a thread?"
problem = wrong_runs(predicted_runs, "Command")
assert not problem, f"{problem}. Where is a question open, and where does a node that asked begin?"

# %% [markdown]
# All of them, with a real new input as well:

# %%
print(" " * 12, *(f"{state:16}" for state in STATES))
for name, value in (VALUES | {"a new input": {"target": "gtest"}}).items():
    print(f"{name:12}", *(f"{told(ran):16}" for ran in what_runs(value)))

# %% [markdown]
# `{}` is an input. An input begins at the first node, whatever the thread was doing: the open question, the work left
# to do and pending writes are gone, and the values of the checkpoint stay. `None` begins nothing and goes on. And a
# `Command(resume=…)` that reaches a thread which asks nothing is no error.
#
# ## Which thread?
#
# The `thread_id` is all that ties a run to its past. What may it be? Each line below is one run of `LINE`, which
# builds three things.

# %%
with WorkFolder.fresh() as folder, opened(folder) as graph:
    for thread_id in (None, "None", "", "", 1, "1", True, "True"):
        built = graph.invoke(INPUT, {"configurable": {"thread_id": thread_id}})["built"]
        print(f"{thread_id!r:7} found {len(built) - 3} things built before")

# %% [markdown]
# Only a config without a `thread_id` is refused. All else is turned into text: all who pass `None` share one thread,
# and 1 and "1" are one thread.
#
# Write `thread(run_id)`. It returns the config of the thread that is named `run_id`, letter by letter. It raises
# `ValueError` or `TypeError` if `run_id` is not a text or is blank, and the message shows the id that was refused, as
# `repr` writes it.


# %% answer id="thread"
def thread(run_id):
    """Return the config of the thread of a run."""
    ### BEGIN SOLUTION
    if not isinstance(run_id, str) or not run_id.strip():
        raise ValueError(f"a thread needs a run id that is a text and not blank, not {run_id!r}")
    return {"configurable": {"thread_id": run_id}}
    ### END SOLUTION


# %% wrong loses="thread_refuses" why="turns all into text"
def thread(run_id):
    return {"configurable": {"thread_id": str(run_id)}}


# %% wrong loses="thread_refuses" why="refuses only what is missing"
def thread(run_id):
    if run_id is None or run_id == "":
        raise ValueError(f"no run id: {run_id!r}")
    return {"configurable": {"thread_id": run_id}}


# %% wrong loses="thread_refuses" why="knows two ways to be blank"
def thread(run_id):
    if not isinstance(run_id, str) or run_id in ("", "  "):
        raise ValueError(f"no run id: {run_id!r}")
    return {"configurable": {"thread_id": run_id}}


# %% wrong loses="thread_refuses" why="only spaces are blank"
def thread(run_id):
    if not isinstance(run_id, str) or not run_id.strip(" "):
        raise ValueError(f"no run id: {run_id!r}")
    return {"configurable": {"thread_id": run_id}}


# %% wrong loses="thread_refuses" why="lists what is blank, and not all of it"
def thread(run_id):
    if not isinstance(run_id, str) or not run_id.strip(" \t\n"):
        raise ValueError(f"no run id: {run_id!r}")
    return {"configurable": {"thread_id": run_id}}


# %% wrong loses="thread_refuses" why="refuses, and does not say what"
def thread(run_id):
    if not isinstance(run_id, str) or not run_id.strip():
        raise ValueError("bad run id")
    return {"configurable": {"thread_id": run_id}}


# %% wrong loses="thread_named" why="tidies the id up"
def thread(run_id):
    if not isinstance(run_id, str) or not run_id.strip():
        raise ValueError(f"bad run id: {run_id!r}")
    return {"configurable": {"thread_id": run_id.strip().lower()}}


# %% wrong loses="thread_refuses" why="invents an id where there is none"
def thread(run_id):
    if isinstance(run_id, str) and run_id.strip():
        return {"configurable": {"thread_id": run_id}}
    return {"configurable": {"thread_id": f"run-{id(run_id)}"}}


# %% wrong loses="thread_named" why="returns the id and not the config"
def thread(run_id):
    if not isinstance(run_id, str) or not run_id.strip():
        raise TypeError(f"bad run id: {run_id!r}")
    return {"thread_id": run_id}


# %% right why="one error for each reason"
def thread(run_id):
    if type(run_id) is not str:
        raise TypeError(f"the run id {run_id!r} is no text")
    if run_id.isspace() or not run_id:
        raise ValueError(f"the run id {run_id!r} is blank")
    return dict(configurable=dict(thread_id=run_id))


# %% test id="thread_named" points=1
for run_id in ("run-217", "run-21", "RUN-217", "run-217 ", "217", "编译-217"):
    found = thread(run_id)
    expected = {"configurable": {"thread_id": run_id}}
    assert found == expected, f"thread({run_id!r}) gave {found!r}; expected {expected!r}"

# %% test id="thread_refuses" points=1
for run_id in (None, "", "  ", *" \t\n\r\xa0", 1, 217, True, 1.0, b"run-217", ["run-217"]):
    try:
        found = f"gave {thread(run_id)!r}"
    except (ValueError, TypeError) as error:
        shown = repr(run_id) in str(error)
        found = "refused" if shown else f"was refused with {str(error)!r}, which does not show it"
    except (AttributeError, AssertionError, KeyError) as error:
        found = f"raised {type(error).__name__}"
    assert found == "refused", (
        f"thread({run_id!r}) {found}; expected a ValueError or TypeError that shows {run_id!r}. "
        "LangGraph would turn it into a text, or share it with all who send the same."
    )

# %% [markdown]
# ## The recursion limit is no budget
#
# A graph may loop, so LangGraph counts super-steps and raises `GraphRecursionError` at a limit: `recursion_limit` in
# the config, else the environment variable `LANGGRAPH_DEFAULT_RECURSION_LIMIT`, else 10007 (in old versions 25). A
# field of the type `RemainingSteps` tells a node how many are left after its own.


# %%
class Loop(TypedDict, total=False):
    tries: Annotated[int, operator.add]
    left: RemainingSteps


left = []


def try_to_link(state):
    left.append(state["left"])
    return {"tries": 1}


def looped(state):
    return "try_to_link" if state["tries"] < 12 else END


linker = StateGraph(Loop).add_node(try_to_link).add_edge(START, "try_to_link")
linker.add_conditional_edges("try_to_link", looped)
print(linker.compile(checkpointer=InMemorySaver()).invoke({"tries": 0}, RUN))
print("left after the first step:", left[0])

# %% [markdown]
# **Predict.** Twelve tries are needed, and the limit is 5. The first `invoke` raises. Then `invoke(None)`, again and
# again, until it raises no more. Assign a pair to `predicted_limit`: the tries in the saved state after the first
# `invoke`, and at the end.

# %% answer id="predict_limit"
### BEGIN SOLUTION
predicted_limit = (5, 12)
### END SOLUTION

# %% wrong loses="predict_limit_check" why="an error loses the work"
predicted_limit = (0, 12)

# %% wrong loses="predict_limit_check" why="the limit holds for the whole thread"
predicted_limit = (5, 5)

# %% wrong loses="predict_limit_check" why="the next invoke starts over"
predicted_limit = (5, 17)

# %% right why="a list"
predicted_limit = [5, 5 + 7]

# %% test id="predict_limit_check" points=1
limited = linker.compile(checkpointer=InMemorySaver())
limit = RUN | {"recursion_limit": 5}
seen, value = [], {"tries": 0}
while value is not None or limited.get_state(RUN).tasks:
    with suppress(GraphRecursionError):
        limited.invoke(value, limit)
    seen.append(limited.get_state(RUN).values["tries"])
    value = None
problem = differs(predicted_limit, (seen[0], seen[-1]), ["after the first", "at the end"])
assert not problem, f"{problem}. Is the state saved when the limit is hit, and what does None do?"

# %% [markdown]
# The steps were saved, and each `invoke` counts from zero. So the limit stops a loop that went wrong, and is no
# budget: that has to be in the state, as in `02_checkpoint`. When the limit is used up it raises, even if no step is
# left: twelve tries in one `invoke` need a limit of 13.
#
# ## Retry what may succeed
#
# A node may have a retry policy: when it raises, LangGraph runs it again. First, what does that repeat?

# %%
REQUEST = httpx.Request("POST", "http://farm/machines")


def attempts(error, **policy):
    """Run a node that raises `error`, with a policy of three attempts; return how many it took."""
    made = []

    def order(state):
        made.append("arm64")
        raise error

    quick = RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False, **policy)
    builder = StateGraph(Build).add_node(order, retry_policy=quick).add_edge(START, "order")
    try:
        builder.compile().invoke(INPUT)
    except Exception as raised:
        assert raised is error, f"retry_on was asked about {error!r} and raised {raised!r} itself"
    return len(made)


print("machines ordered:", attempts(httpx.ReadTimeout("no answer", request=REQUEST)))

# %% [markdown]
# The node runs whole, effects included: three machines were ordered. So what is retried by default?


# %%
def response(code, method="POST", **headers):
    request = httpx.Request(method, "http://farm/machines", headers=headers)
    return httpx.HTTPStatusError(f"{code}", request=request, response=httpx.Response(code))


class ToolchainMissing(Exception):
    pass


class BadTarget(ValueError):
    pass


for error in (
    response(503),
    response(429),
    response(404),
    httpx.ReadTimeout("no answer", request=REQUEST),
    TimeoutError(),
    ConnectionResetError(),
    ValueError(),
    AssertionError(),
    ToolchainMissing(),
    BadTarget(),
):
    print(f"{type(error).__name__} {error}".ljust(24), attempts(error), "attempts")

# %% [markdown]
# All is retried except what a list names. "Come later" (429) is not, Python's own timeout is not. A failed assertion
# is, and so is an exception of yours, unless it is derived from one on the list, such as `ValueError`.
#
# Write `retry_on(error)`. It returns `True` if the node should run again. The node sends one request to the build
# farm, by httpx. The farm answers 429 and 503 before it has done anything, and it honours an `Idempotency-Key`
# header. That a `PUT` or a `DELETE` without a key may be repeated it does not promise.
#
# * Retry what was surely not carried out and may go better next time: there was no connection to send on
#   (`httpx.ConnectError`, `httpx.ConnectTimeout`, `httpx.PoolTimeout`), or the farm said 429 or 503.
# * Where nobody knows whether it was carried out, retry only what is harmless to repeat: a `GET`, or a request with a
#   key. That is any other `httpx.TimeoutException` or `httpx.NetworkError`, an `httpx.RemoteProtocolError`, and any
#   other answer of 500 or more. `error.request` has the `method` and the `headers`.
# * Everything else is not retried: a refusal stays one, a mistake too, and Python's own errors say nothing of the farm.
#
# The checks count the attempts: three if it is retried, one if not.

# %%
get = httpx.Request("GET", "http://farm/machines")
keyed = httpx.Request("POST", "http://farm/machines", headers={"Idempotency-Key": "run-217:9"})


def wrong_attempts(errors, expected):
    """One sentence on the first error that is not retried as it should be, or ""."""
    for error in errors:
        found = attempts(error, retry_on=retry_on)
        if found != expected:
            what = f"{type(error).__name__} {error}"
            if sent := getattr(error, "request", None):
                key = "with" if "Idempotency-Key" in sent.headers else "without"
                what += f", after a {sent.method} {key} a key"
            return f"{what}: {found} attempts, expected {expected}"
    return ""


# %% answer id="retry_on"
def retry_on(error):
    """Say whether a node that raised `error` should run again."""
    ### BEGIN SOLUTION
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code in (429, 503) or code < 500:
            return code in (429, 503)
    elif not isinstance(
        error, httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError
    ):
        return False
    return error.request.method == "GET" or "Idempotency-Key" in error.request.headers
    ### END SOLUTION


# %% wrong loses="retry_later retry_never retry_unknown" why="the default"
def retry_on(error):
    return RetryPolicy().retry_on(error)


# %% wrong loses="retry_never retry_unknown" why="everything deserves a second chance"
def retry_on(error):
    return True


# %% wrong loses="retry_unknown" why="a timeout means that nothing happened"
def retry_on(error):
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in (429, 503)
    return isinstance(error, httpx.TimeoutException | httpx.NetworkError)


# %% wrong loses="retry_later" why="429 is a refusal like any 4xx"
def retry_on(error):
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    unsure = httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError
    harmless = isinstance(error, unsure | httpx.HTTPStatusError) and (
        error.request.method == "GET" or "Idempotency-Key" in error.request.headers
    )
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        return code == 503 or (code >= 500 and harmless)
    return harmless


# %% wrong loses="retry_never" why="whatever is harmless to repeat is repeated"
def retry_on(error):
    if not isinstance(error, httpx.HTTPError):
        return False
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    if isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (429, 503):
        return True
    return error.request.method == "GET" or "Idempotency-Key" in error.request.headers


# %% wrong loses="retry_later retry_unknown" why="only what is harmless to repeat is repeated"
def retry_on(error):
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        return error.request.method == "GET" and (code == 429 or code >= 500)
    unsure = httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError
    return isinstance(error, unsure) and error.request.method == "GET"


# %% wrong loses="retry_unknown" why="never repeats when in doubt"
def retry_on(error):
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in (429, 503)
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


# %% wrong loses="retry_unknown" why="of the transport errors only those that it has met"
def retry_on(error):
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code in (429, 503) or code < 500:
            return code in (429, 503)
    elif not isinstance(error, httpx.ReadTimeout | httpx.RemoteProtocolError):
        return False
    return error.request.method == "GET" or "Idempotency-Key" in error.request.headers


# %% wrong loses="retry_unknown" why="only a POST does harm twice"
def retry_on(error):
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    unsure = httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code in (429, 503) or code < 500:
            return code in (429, 503)
    elif not isinstance(error, unsure):
        return False
    return error.request.method != "POST" or "Idempotency-Key" in error.request.headers


# %% wrong loses="retry_unknown" why="of the 5xx the well-known ones"
def retry_on(error):
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    unsure = httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code not in (500, 502, 504):
            return code in (429, 503)
    elif not isinstance(error, unsure):
        return False
    return error.request.method == "GET" or "Idempotency-Key" in error.request.headers


# %% wrong loses="retry_never" why="of the 4xx those that sound temporary"
def retry_on(error):
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    unsure = httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code in (429, 503) or (code < 500 and code not in (408, 409, 425)):
            return code in (429, 503)
    elif not isinstance(error, unsure):
        return False
    return error.request.method == "GET" or "Idempotency-Key" in error.request.headers


# %% wrong loses="retry_never" why="Python's own errors of the network are the same"
def retry_on(error):
    if isinstance(
        error,
        httpx.ConnectError
        | httpx.ConnectTimeout
        | httpx.PoolTimeout
        | TimeoutError
        | ConnectionError,
    ):
        return True
    unsure = httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code in (429, 503) or code < 500:
            return code in (429, 503)
    elif not isinstance(error, unsure):
        return False
    return error.request.method == "GET" or "Idempotency-Key" in error.request.headers


# %% wrong loses="retry_never" why="a proxy and a redirect are the network too"
def retry_on(error):
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    unsure = (
        httpx.TimeoutException
        | httpx.NetworkError
        | httpx.RemoteProtocolError
        | httpx.ProxyError
        | httpx.TooManyRedirects
    )
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code in (429, 503) or code < 500:
            return code in (429, 503)
    elif not isinstance(error, unsure):
        return False
    return error.request.method == "GET" or "Idempotency-Key" in error.request.headers


# %% wrong loses="retry_unknown" why="a dict keeps the names as they were"
def retry_on(error):
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    unsure = httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code in (429, 503) or code < 500:
            return code in (429, 503)
    elif not isinstance(error, unsure):
        return False
    return error.request.method == "GET" or "Idempotency-Key" in dict(error.request.headers)


# %% wrong loses="retry_never" why="all that httpx raises about a request, so also a mistake"
def retry_on(error):
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code in (429, 503) or code < 500:
            return code in (429, 503)
    elif not isinstance(error, httpx.RequestError):
        return False
    return error.request.method == "GET" or "Idempotency-Key" in error.request.headers


# %% wrong loses="retry_later" why="a full pool may have sent it"
def retry_on(error):
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return True
    unsure = httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        if code in (429, 503) or code < 500:
            return code in (429, 503)
    elif not isinstance(error, unsure):
        return False
    return error.request.method == "GET" or "Idempotency-Key" in error.request.headers


# %% right why="by a table"
def retry_on(error):
    surely_not_done = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    match error:
        case httpx.HTTPStatusError(response=answer):
            if answer.status_code in {429, 503}:
                return True
            unknown = answer.status_code // 100 == 5
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError() | httpx.ProxyError():
            unknown = False
        case _:
            unknown = isinstance(error, httpx.TransportError)
    if isinstance(error, surely_not_done):
        return True
    return unknown and bool(
        error.request.method == "GET" or error.request.headers.get("idempotency-key")
    )


# %% test id="retry_later" points=1
problem = wrong_attempts(
    [
        httpx.ConnectError("refused", request=REQUEST),
        httpx.ConnectTimeout("no route", request=REQUEST),
        httpx.PoolTimeout("no connection is free", request=REQUEST),
        httpx.ConnectError("refused", request=get),
        response(429),
        response(503),
        response(429, "GET"),
    ],
    3,
)
assert not problem, f"{problem}. It was surely not carried out, and may go better next time."

# %% test id="retry_never" points=1
other = (httpx.UnsupportedProtocol, httpx.DecodingError, httpx.TooManyRedirects, httpx.ProxyError)
plain = (TimeoutError, ConnectionResetError, FileNotFoundError, AssertionError, KeyError, BadTarget)
problem = wrong_attempts(
    [
        *(response(code, "GET") for code in (401, 404, 408, 409, 425)),
        response(422, "POST", **{"Idempotency-Key": "run-217:9"}),
        httpx.LocalProtocolError("bad header", request=keyed),
        *(error("no answer", request=get) for error in other),
        *(error() for error in (*plain, ToolchainMissing)),
    ],
    1,
)
assert not problem, f"{problem}. None of the rules says that it is retried."

# %% test id="retry_unknown" points=1
timeouts, broken = (httpx.ReadTimeout, httpx.WriteTimeout), (httpx.ReadError, httpx.WriteError)
unsure = (*timeouts, *broken, httpx.CloseError, httpx.RemoteProtocolError)
problem = wrong_attempts(
    [
        *(error("no answer", request=REQUEST) for error in unsure),
        *(response(code, "POST") for code in (500, 501, 502, 504, 599)),
        httpx.ReadTimeout("no answer", request=httpx.Request("PUT", "http://farm/machines/9")),
        response(500, "DELETE"),
    ],
    1,
)
problem = problem or wrong_attempts(
    [
        *(error("no answer", request=get) for error in unsure),
        *(response(code, "GET") for code in (500, 501, 502, 504, 599)),
        httpx.ReadError("no answer", request=keyed),
        response(504, "PUT", **{"Idempotency-Key": "run-217:9"}),
    ],
    3,
)
problem = problem and f"{problem}. It may have been carried out: is it harmless to repeat?"
assert not problem, f"{problem} (In dict(headers) the names of httpx are in lower case.)"

# %% [markdown]
# ## Four symptoms
#
# * `ProgrammingError: SQLite objects created in a thread …`: the saver works in background threads. Open your own
#   connection with `check_same_thread=False`.
# * A `dict` where an object was saved: its class has moved, and only the log says so. Save `dict`s yourself.
# * A copy of the `.sqlite` without the newest rows: in WAL mode they are in a second file, `-wal`. Copy with SQLite's
#   own backup.
# * `TypeError: Type is not msgpack serializable`: a state is saved when the node has acted. The thread stays before
#   the node, so that going on acts again, as here. Keep plain data in the state.


# %%
class Held(TypedDict, total=False):
    thing: object


ordered = []


def hold(state):
    ordered.append("arm64")
    return {"thing": threading.Lock()}


graph = StateGraph(Held).add_node(hold).add_edge(START, "hold").compile(InMemorySaver())
for value in ({}, None):
    try:
        graph.invoke(value, RUN, durability="sync")
    except TypeError as error:
        print(error, "| ordered:", ordered, "| next:", graph.get_state(RUN).next)

# %% [markdown]
# ## Two things make a graph resumable
#
# A checkpointer whose storage outlives the process, and the same `thread_id`. Go on without the first, without the
# second, and with both:

# %%
with WorkFolder.fresh() as folder, opened(folder) as graph:
    live(folder, **IN_ABSEIL)
    bare = make_graph(LINE, Journal(folder.path / "journal.jsonl")).compile()
    other = {"configurable": {"thread_id": "run-218"}}
    for name, compiled, config in (
        ("no checkpointer", bare, RUN),
        ("another thread", graph, other),
        ("both", graph, RUN),
    ):
        try:
            print(f"{name:16}", compiled.invoke(None, config)["built"])
        except EmptyInputError as error:
            print(f"{name:16}", type(error).__name__, error)

# %% [markdown]
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"What two things make a LangGraph run resumable, and
# what exactly is saved when?"*
#
# <details><summary>One way to say it</summary>
#
# "A checkpointer with storage that outlives the process, and the same thread id. Without the first nothing is saved,
# without the second nothing is found. It saves a checkpoint when the input arrives and after each super-step: the
# values of all channels with their versions, from which the graph works out what is next, and the parent. Besides,
# what each node returned, as pending writes, so that a finished sibling does not run again. No code, only names of
# nodes. When depends on the durability mode: sync waits for each checkpoint, async, the default, may be any number of
# steps behind, exit writes at the end and loses all on SIGTERM and SIGKILL. To go on I pass None; an empty dict is a
# new input and starts over. An empty next does not mean finished: a step may have its results and not be closed. Nodes
# are repeated whole, also by a retry, so an effect needs its key."
# </details>
#
# **Often confused:** *checkpoint* and *pending write*. A checkpoint is the whole state after a super-step. A pending
# write is what one node returned, saved beside the checkpoint that it started from, until the next one holds it.
#
# **They may ask next:**
#
# * A run has 2000 steps and a state of 1 MB. What does each of the three modes put on disk, and what would you
#   change?
# * Two processes call `invoke(None)` on one unfinished thread at the same time. What do you expect, and what stops
#   it?
