# %% [markdown]
# # 08 · Interrupt
#
# **Why did `approve` run twice?**
#
# 110 minutes · 21 points · before this: `06_checkpointer`
#
# In May 2026 somebody asked for an age inside a `while` loop, until a number came. Each answer was printed, and printed
# again with every answer that came after it. Another team wrote below the report what that means when the loop is a
# review by a person: each answer repeats calls and database writes that were made before.
# (Reported as langchain-ai/langgraph issue 7780.)
#
# It is not about loops. An agent that asks a person and waits is ended, and begun again when the answer comes. You will
# see what begins again, and turn that into six rules for code that asks.

# %%
import json
import sys
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, repeat
from threading import Event
from typing import Literal, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from crashlab import Journal, WorkFolder, explore, launch
from crashlab.figures import graph_lives, histories, history, outcome_matrix
from crashlab.history import read_history
from crashlab.quiz import differs
from crashlab.world.script import ScriptedModel

print("Python", sys.version.split()[0], "on", sys.platform)
for package in ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"):
    print(package, version(package))

# %% [markdown]
# ## The experiment
#
# Run 217 wants to patch a build file of re2, and a person has to agree. First the bench of this notebook: `World` is
# the outside. What was done there stays done, whoever dies. Some services honour an **idempotency key**, a name for
# one intended effect: when they get a key again, they do nothing. `do` is such a service, if you give it a key.


# %%
def journal_of(folder):
    """The record of what was done outside, for the judges. An agent cannot look there."""
    return Journal(folder.path / "journal.jsonl")


class World:
    """The outside, as the nodes of a graph see it."""

    def __init__(self, folder):
        self._journal = journal_of(folder)
        self._full = folder.path / "full"

    def do(self, what, key=None):
        """Do something, for good; with a key that was used before, do nothing."""
        mark = f" [{key}]"
        if key is None or not any(done.endswith(mark) for done in effects(self._journal.lives())):
            self._journal.effect(what if key is None else what + mark)

    def disk_full(self):
        """Whether the disk of the build machine is full at this moment."""
        return self._full.exists()

    def set_disk_full(self, full):
        self._full.touch() if full else self._full.unlink(missing_ok=True)


def effects(lives):
    """What was done, in order, in all lives of a journal."""
    return [record.word for life in lives for record in life if record.what == "effect"]


# %% [markdown]
# `Flow` is a `StateGraph` of LangGraph with two extras. Its nodes get the world beside the state. And each entry into a
# node is written into the journal, a file outside the graph. You need not read its code.


# %%
class Flow(StateGraph):
    """A StateGraph whose nodes are called with the state and the world."""

    def __init__(self, world, schema):
        super().__init__(schema)
        self.world = world

    def add_node(self, name, node, **options):
        world = self.world

        def watched(state):
            with world._journal.node(name):
                return node(state, world)

        return super().add_node(name, watched, **options)


# %% [markdown]
# And this is the agent. `propose` writes a patch, `approve` asks for consent, `apply` applies the patch.
#
# `interrupt(question)` asks. The run stops there, and `invoke` returns with the question. When somebody calls
# `invoke(Command(resume=answer))`, `interrupt` returns that answer.


# %%
class State(TypedDict, total=False):
    run: str
    patch: str
    approved: bool
    applied: bool


def propose(state, world):
    print("  [propose] writes a patch")
    return {"patch": "re2: tests off"}


def approve(state, world):
    print("  [approve] begins")
    answer = interrupt({"patch": state["patch"]})
    print(f"  [approve] the answer is {answer}")
    return {"approved": answer == "yes"}


def apply(state, world):
    print("  [apply] applies the patch")
    world.do("apply the patch")
    return {"applied": True}


# %% [markdown]
# `patch_graph` puts three such nodes together. It returns a function, because each new process has to build the
# graph anew: what is saved is the state, not the code. `opened` compiles it with a checkpointer on a file.
# A **thread** is one saved run, found by its `thread_id`.


# %%
def patch_graph(propose, approve, apply):
    def make(world):
        flow = Flow(world, State)
        flow.add_node("propose", propose)
        flow.add_node("approve", approve)
        flow.add_node("apply", apply)
        flow.add_edge(START, "propose")
        flow.add_edge("propose", "approve")
        flow.add_conditional_edges("approve", if_approved, ["apply", END])
        flow.add_edge("apply", END)
        return flow

    return make


def if_approved(state):
    return "apply" if state["approved"] else END


@contextmanager
def opened(folder, make):
    """The graph that `make` makes, on the threads that are saved in `folder`."""
    with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        yield make(World(folder)).compile(checkpointer=saver)


INPUT = {"run": "run-217"}
RUN = {"configurable": {"thread_id": "run-217"}}
YES, NO = Command(resume="yes"), Command(resume="no")
EXPERIMENT = patch_graph(propose, approve, apply)

# %% [markdown]
# ## Predict
#
# The graph is invoked with `INPUT`, waits, and is invoked with `YES`. A **checkpoint** is the whole state as it is
# saved once for the input, once before the first node, and after each **super-step**: here that is each node that has
# *ended*. (`06_checkpointer` tells it in full.) Assign to `predicted_run` a list of four:
#
# 1. how often `approve` is entered in all,
# 2. how many checkpoints there are while it waits,
# 3. how many there are at the end,
# 4. the name of the node that is next while it waits.

# %% answer id="predict_run"
### BEGIN SOLUTION
predicted_run = [2, 3, 5, "approve"]
### END SOLUTION

# %% wrong loses="predict_run_check" why="the node goes on from the line where it asked"
predicted_run = [1, 3, 5, "approve"]

# %% wrong loses="predict_run_check" why="the pause is saved as a checkpoint of its own"
predicted_run = [2, 4, 6, "approve"]

# %% wrong loses="predict_run_check" why="approve has run, so apply is next"
predicted_run = [2, 3, 5, "apply"]

# %% wrong loses="predict_run_check" why="each entry into a node leaves a checkpoint"
predicted_run = [2, 4, 6, "apply"]

# %% wrong loses="predict_run_check" why="one number for all"
predicted_run = 2

# %% right why="a tuple, counted out"
predicted_run = (len(["asks", "gets the answer"]), 3, 3 + len(["approve", "apply"]), "approve")


# %% test id="predict_run_check" points=2
def measure_run(folder):
    with opened(folder, EXPERIMENT) as graph:
        graph.invoke(INPUT, RUN, durability="sync")
        paused, [following] = len([*graph.get_state_history(RUN)]), graph.get_state(RUN).next
        graph.invoke(YES, RUN, durability="sync")
        entered = journal_of(folder).entered("approve")
        return [entered, paused, len([*graph.get_state_history(RUN)]), following]


with WorkFolder.fresh() as folder:
    measured = launch(measure_run, folder, echo=False).result()
places = ["entries into approve", "checkpoints while it waits", "checkpoints at the end", "next"]
problem = differs(predicted_run, measured, places)
assert not problem, f"{problem}. Ask whether approve has ended when it waits."

# %% [markdown]
# ## See it
#
# Run it, and look at what it prints.

# %%
with WorkFolder.fresh() as folder, opened(folder, EXPERIMENT) as graph:
    print("first call")
    out = graph.invoke(INPUT, RUN, durability="sync")
    [question] = graph.get_state(RUN).interrupts
    print("  it waits:", out["__interrupt__"][0].value)
    print("  next:", graph.get_state(RUN).next)
    waiting = read_history(graph, RUN)
    print("the person agrees")
    out = graph.invoke(YES, RUN, durability="sync")
    print("  state:", out)
    print("  checkpoints:", len(list(graph.get_state_history(RUN))))
    answered = read_history(graph, RUN)

# %% [markdown]
# "[approve] begins" stands there twice. Here is the thread, first while it waits, then at the end.

# %%
histories({"While it waits": waiting, "At the end": answered})

# %% [markdown]
# While it waits, the newest checkpoint is the one *before* `approve`, and `approve` is next. The question is no
# checkpoint. It is a **pending write**, saved beside the checkpoint that the node started from. `invoke` returned it
# under `__interrupt__`; any process that opens the thread finds it by `get_state(config).interrupts`, with an id:

# %%
print(question.id, question.value)

# %% [markdown]
# ## Nobody waits
#
# Why not just `input()`? A person may answer in an hour or on Monday. A process that waits in `input()` has to live all
# that time; a restart of the machine ends it, and a hundred open questions are a hundred processes. Here an event
# that never comes stands for the person:


# %%
def approve_by_waiting(state, world):
    print("  [approve] asks, and waits")
    Event().wait()


def one_process(folder, make, given, run="run-217"):
    """Open the thread of a run, give it something, and return what came out."""
    with opened(folder, make) as graph:
        config = {"configurable": {"thread_id": run}}
        return graph.invoke(given, config, durability="sync")


with WorkFolder.fresh() as folder:
    blocking = patch_graph(propose, approve_by_waiting, apply)
    print(launch(one_process, folder, blocking, INPUT, deadline=0.5))

# %% [markdown]
# `launch` runs a function in a process of its own and says how that process ended. This one had to be killed.
#
# With `interrupt` the process that asks *ends*. Then nothing runs. Another process, later, gives the answer.

# %%
with WorkFolder.fresh() as folder:
    print("today")
    asks = launch(one_process, folder, EXPERIMENT, INPUT)
    print("  the process", asks.end, "and left in the folder:", end=" ")
    print(*sorted(path.name for path in folder.path.iterdir()))
    print("on Monday")
    answers = launch(one_process, folder, EXPERIMENT, YES)
    print("  the process", answers.end)
    lives = journal_of(folder).lives()

graph_lives(lives, title="One asks, another answers")

# %% [markdown]
# The same two entries. A pause costs some rows in a file, and no process.
#
# ## Why
#
# * `interrupt` has to stop your function in its middle. It raises an exception, `GraphInterrupt`. LangGraph catches
#   it, saves the question, and returns from `invoke`.
# * With the exception the node is over. Only the question is saved: no local variables, no line number.
# * When the answer comes, the node is called again, **from its first line**. This time `interrupt` finds an answer and
#   returns it.
# * Which answer? A node's answers are a list. The first `interrupt` that the node reaches takes the first, the second
#   takes the second: by **position**. When none is left, `interrupt` raises.
#
# So what stands above a pause runs once for the question and once more for the answer. The rest of this notebook is
# about what that does to your code.


# %% [markdown]
# ## Break it: an effect above the pause
#
# One judge will do for all that follows. `through(make, YES, …)` runs a graph from its input, and gives it one thing
# after the other, **each in a process of its own**. It returns the questions that were open when each process had
# ended, the lives in the journal, the state. With `runs=TWO` a second run follows in the same world.


# %%
@dataclass
class Story:
    asked: list  # for each process of the last run: what it left open, a list of questions
    lives: list  # of the journal, all runs
    state: dict  # what the last process returned

    @property
    def done(self):
        """How often each effect was done, whether with a key or without."""
        return Counter(word.split(" [")[0] for word in effects(self.lives))

    @property
    def entered(self):
        """How often each node was entered."""
        return Counter(r.node for life in self.lives for r in life if r.what == "entered")

    @property
    def waits(self):
        return bool(self.asked[-1])


# %%
ONE, TWO = ("run-217",), ("run-217", "run-218")


def through(make, *given, disk=(), runs=ONE):
    """Run a graph, each step in a new process; `disk` says for each whether the disk is full."""
    with WorkFolder.fresh() as folder:
        for run in runs:
            asked, questions = [], []
            for each, full in zip([{"run": run}, *given], chain(disk, repeat(False)), strict=False):
                World(folder).set_disk_full(full)
                each = each(questions) if callable(each) else each
                state = launch(one_process, folder, make, each, run, echo=False).result()
                questions = state.pop("__interrupt__", [])
                asked.append([question.value for question in questions])
        return Story(asked, journal_of(folder).lives(), state)


# %%
def not_done(story, **expected):
    """One sentence on the first effect whose count is not as expected, or ""."""
    for word, number in expected.items():
        what = word.replace("_", " ")
        if story.done[what] != number:
            return f"the count of {what!r} is {story.done[what]}, expected {number}"
    return ""


def tried(function, *args):
    """What a function returns, or the exception that it raises."""
    try:
        return function(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        return error


# %% [markdown]
# Here somebody has extended the agent. The reviewer gets a mail, else nobody would know of the question. And a
# machine is reserved for the build that follows.


# %%
def approve_with_mail(state, world):
    world.do("mail to the reviewer")
    world.do("reserve a machine")
    answer = interrupt({"patch": state["patch"]})
    return {"approved": answer == "yes"}


with_mail = patch_graph(propose, approve_with_mail, apply)
for name, given in {"it waits": [], "yes": [YES], "no": [NO]}.items():
    print(f"{name:9}", dict(through(with_mail, *given).done))

# %%
graph_lives(through(with_mail, YES).lives, title="Two mails, two machines")

# %% [markdown]
# ## Fix it: an effect above the pause
#
# Write the three nodes anew, as `propose_once`, `approve_once` and `apply_once`. They are put together like the three
# above, and the graph asks one question. No kills yet, only the pause. In the end, for each run:
#
# | | while it waits | after "yes" | after "no" |
# |---|---|---|---|
# | `mail to the reviewer` | 1 | 1 | 1 |
# | `reserve a machine` | 0 | 1 | 0 |
# | `apply the patch` | 0 | 1 | 0 |
#
# The question is a dict that shows the patch, as above.
#
# <details><summary>Hint</summary>
#
# The two effects need different cures. One has to come before the answer: which node ends before the pause? Or what
# does `world.do` offer? The other has no business above the pause at all.
# </details>


# %% answer id="effect_once"
def propose_once(state, world):
    """Write the patch."""
    ### BEGIN SOLUTION
    world.do("mail to the reviewer")
    return {"patch": "re2: tests off"}
    ### END SOLUTION


def approve_once(state, world):
    """Ask for consent."""
    ### BEGIN SOLUTION
    question = {"patch": state["patch"]}
    return {"approved": interrupt(question) == "yes"}
    ### END SOLUTION


def apply_once(state, world):
    """Apply the patch."""
    ### BEGIN SOLUTION
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}
    ### END SOLUTION


# %% wrong loses="effect_before effect_after" why="leaves it as it was"
propose_once, approve_once, apply_once = propose, approve_with_mail, apply


# %% wrong loses="effect_before" why="below the pause everything is done once"
def propose_once(state, world):
    return {"patch": "re2: tests off"}


def approve_once(state, world):
    answer = interrupt({"patch": state["patch"]})
    world.do("mail to the reviewer")
    if answer == "yes":
        world.do("reserve a machine")
    return {"approved": answer == "yes"}


apply_once = apply


# %% wrong loses="effect_after" why="once is enough, asked or not"
def propose_once(state, world):
    world.do("mail to the reviewer")
    world.do("reserve a machine")
    return {"patch": "re2: tests off"}


approve_once, apply_once = approve, apply

# %% wrong loses="effect_before" why="remembers in the process that the mail was sent"
sent = []


def propose_once(state, world):
    return {"patch": "re2: tests off"}


def approve_once(state, world):
    if not sent:
        world.do("mail to the reviewer")
        sent.append(True)
    answer = interrupt({"patch": state["patch"]})
    return {"approved": answer == "yes"}


def apply_once(state, world):
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}


# %% wrong loses="effect_before" why="a key that is made anew is no key"
def propose_once(state, world):
    return {"patch": "re2: tests off"}


def approve_once(state, world):
    world.do("mail to the reviewer", key=str(uuid.uuid4()))
    answer = interrupt({"patch": state["patch"]})
    return {"approved": answer == "yes"}


def apply_once(state, world):
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}


# %% wrong loses="effect_before" why="a key above the pause, the same for all runs"
def propose_once(state, world):
    return {"patch": "re2: tests off"}


def approve_once(state, world):
    world.do("mail to the reviewer", key="mail")
    return {"approved": interrupt({"patch": state["patch"]}) == "yes"}


def apply_once(state, world):
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}


# %% wrong loses="effect_after" why="a key for the machine, the same for all runs"
def propose_once(state, world):
    world.do("mail to the reviewer")
    return {"patch": "re2: tests off"}


approve_once = approve


def apply_once(state, world):
    world.do("reserve a machine", key="machine")
    world.do("apply the patch")
    return {"applied": True}


# %% wrong loses="effect_before" why="writes no patch, and asks about none"
def propose_once(state, world):
    world.do("mail to the reviewer")
    return {}


def approve_once(state, world):
    return {"approved": interrupt({"patch": state.get("patch")}) == "yes"}


def apply_once(state, world):
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}


# %% wrong loses="effect_after" why="reserves below the pause, but for any answer"
def propose_once(state, world):
    world.do("mail to the reviewer")
    return {"patch": "re2: tests off"}


def approve_once(state, world):
    answer = interrupt({"patch": state["patch"]})
    world.do("reserve a machine")
    return {"approved": answer == "yes"}


apply_once = apply


# %% wrong loses="effect_after" why="asks again, when all is done"
def propose_once(state, world):
    world.do("mail to the reviewer")
    return {"patch": "re2: tests off"}


approve_once = approve


def apply_once(state, world):
    world.do("reserve a machine", key=f"{state['run']}: machine")
    world.do("apply the patch", key=f"{state['run']}: patch")
    return {"applied": interrupt("really?") == "yes"}


# %% wrong loses="effect_after" why="asks on after a no"
def propose_once(state, world):
    world.do("mail to the reviewer")
    return {"patch": "re2: tests off"}


def approve_once(state, world):
    approved = interrupt({"patch": state["patch"]}) == "yes"
    return {"approved": approved or interrupt("really not?") == "no"}


def apply_once(state, world):
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}


# %% wrong loses="effect_after" why="one key for all that a run does"
def propose_once(state, world):
    world.do("mail to the reviewer", key=state["run"])
    return {"patch": "re2: tests off"}


approve_once = approve


def apply_once(state, world):
    world.do("reserve a machine", key=state["run"])
    world.do("apply the patch", key=state["run"])
    return {"applied": True}


# %% wrong loses="effect_before effect_after" why="does not ask any more"
def propose_once(state, world):
    world.do("mail to the reviewer")
    return {"patch": "re2: tests off"}


def approve_once(state, world):
    return {"approved": True}


def apply_once(state, world):
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}


# %% wrong loses="effect_before" why="asks without showing the patch"
def propose_once(state, world):
    world.do("mail to the reviewer")
    return {"patch": "re2: tests off"}


def approve_once(state, world):
    return {"approved": interrupt("Apply it?") == "yes"}


def apply_once(state, world):
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}


# %% right why="a key for the mail, and the machine below the pause"
def propose_once(state, world):
    return {"patch": "re2: tests off"}


def approve_once(state, world):
    world.do("mail to the reviewer", key=f"{state['run']}: mail")
    answer = interrupt({"question": "May I?", "patch": state["patch"]})
    if answer != "yes":
        return {"approved": False}
    world.do("reserve a machine")
    return {"approved": True}


apply_once = apply


# %% test id="effect_before" points=1
once = patch_graph(propose_once, approve_once, apply_once)
for when, given in (("while they wait", []), ("after yes", [YES])):
    story = through(once, *given, runs=TWO)
    problem = not_done(story, mail_to_the_reviewer=2)
    assert not problem, (
        f"two runs, {when}: {problem}. Which node ends before the pause? A key: whose is it?"
    )
asked, patch = story.asked[0], story.state.get("patch")
assert (
    patch and len(asked) == 1 and isinstance(asked[0], dict) and asked[0].get("patch") == patch
), (
    f"the state holds the patch {patch!r}, and it asked {asked}; expected one question, a dict "
    "with that patch."
)

# %% test id="effect_after" points=1
once = patch_graph(propose_once, approve_once, apply_once)
for name, given, number in (("while they wait", [], 0), ("yes", [YES], 2), ("no", [NO], 0)):
    story = through(once, *given, runs=TWO)
    problem = not_done(story, reserve_a_machine=number, apply_the_patch=number)
    assert not problem, (
        f"two runs, {name}: {problem}. Who has agreed at that moment? (A known key blocks whatever "
        "comes under it.)"
    )
    assert not given or not story.waits, f"two runs, {name}: it still asks {story.asked[-1]}"

# %% [markdown]
# **Rule 1: nothing happens above a pause that may not happen again.** What has to come before the answer goes into an
# earlier node, or gets a key. What needs the answer goes below, best into a later node.
#
# ## Break it: who catches the pause
#
# `interrupt` raises an exception. Of which kind?

# %%
print(*(kind.__name__ for kind in GraphInterrupt.__mro__), sep=" < ")

# %% [markdown]
# It is an `Exception`, so `except Exception` catches it, and LangGraph never hears of it. (Reported as
# langchain-ai/langgraph issue 8217: a tool that was to pause went ahead.)
#
# Here a linter looks at the patch first. It is not always up, and that must not hold up a build, thought the author:


# %%
def lint(patch):
    """Say what the linter says; a patch of abseil finds it down."""
    if "abseil" in patch:
        raise ConnectionError("the linter does not answer")
    return "no complaints"


def approve_in_a_hurry(state, world):
    approved = True
    try:
        said = lint(state["patch"])
        approved = interrupt({"patch": state["patch"], "linter": said}) == "yes"
    except Exception:
        pass  # whatever goes wrong here, the build goes on
    return {"approved": approved}


def approve_and_close(state, world):
    try:
        return {"approved": interrupt({"patch": state["patch"]}) == "yes"}
    finally:
        world.do("close the review")


def propose_for_abseil(state, world):
    return {"patch": "abseil: tests off"}


for first, node in (
    (propose, approve_in_a_hurry),
    (propose_for_abseil, approve_in_a_hurry),
    (propose, approve_and_close),
):
    story = through(patch_graph(first, node, apply))
    print(f"{story.state['patch']}, {node.__name__}: asked {story.asked[0]}, {dict(story.done)}")

# %% [markdown]
# In a hurry nobody is asked and the patch is applied, whether the linter is up or down.
#
# `finally` is a trap of its own, also without an `except`: it runs at *every* end of the `try` block, and the pause
# is one. In the third line the question is asked, and the review is closed before anybody can answer.
#
# ## Fix it: who catches the pause
#
# Write `careful_approve(state, world)`:
#
# * It asks one question, a dict with `patch` and `linter`. `linter` is what `lint` says, or `"down"` if the linter
#   raises a `ConnectionError`. Whether it is up or down, nothing is approved unasked.
# * "close the review" is done once: when the answer is there, whatever it is. Not at the pause.
#
# <details><summary>Hint</summary>
#
# Which of these lines can raise a `ConnectionError`? How much has to be inside the `try`?
# </details>


# %% answer id="careful_approve"
def careful_approve(state, world):
    """Ask for consent, with what the linter says; close the review when it is answered."""
    ### BEGIN SOLUTION
    try:
        said = lint(state["patch"])
    except ConnectionError:
        said = "down"
    answer = interrupt({"patch": state["patch"], "linter": said})
    world.do("close the review")
    return {"approved": answer == "yes"}
    ### END SOLUTION


# %% wrong loses="except_asks except_closes" why="nothing is approved by default, so nobody needs to be asked"
def careful_approve(state, world):
    approved = False
    try:
        answer = interrupt({"patch": state["patch"], "linter": lint(state["patch"])})
        approved = answer == "yes"
    except Exception:
        world.do("close the review")
    return {"approved": approved}


# %% wrong loses="except_closes" why="finally runs once, at the end"
def careful_approve(state, world):
    try:
        try:
            said = lint(state["patch"])
        except ConnectionError:
            said = "down"
        answer = interrupt({"patch": state["patch"], "linter": said})
    finally:
        world.do("close the review")
    return {"approved": answer == "yes"}


# %% wrong loses="except_asks except_closes" why="lets the pause through, and fails when the linter is down"
def careful_approve(state, world):
    try:
        answer = interrupt({"patch": state["patch"], "linter": lint(state["patch"])})
    except GraphBubbleUp:
        raise
    except Exception:
        return {"approved": False}
    world.do("close the review")
    return {"approved": answer == "yes"}


# %% wrong loses="except_asks except_closes" why="no try at all"
def careful_approve(state, world):
    answer = interrupt({"patch": state["patch"], "linter": lint(state["patch"])})
    world.do("close the review")
    return {"approved": answer == "yes"}


# %% wrong loses="except_closes" why="closes only what was approved"
def careful_approve(state, world):
    try:
        said = lint(state["patch"])
    except ConnectionError:
        said = "down"
    answer = interrupt({"patch": state["patch"], "linter": said})
    if answer == "yes":
        world.do("close the review")
    return {"approved": answer == "yes"}


# %% wrong loses="except_asks" why="says nothing of a linter that is down"
def careful_approve(state, world):
    try:
        question = {"patch": state["patch"], "linter": lint(state["patch"])}
    except ConnectionError:
        question = {"patch": state["patch"]}
    answer = interrupt(question)
    world.do("close the review")
    return {"approved": answer == "yes"}


# %% wrong loses="except_asks except_closes" why="catches BaseException, to be safe"
def careful_approve(state, world):
    try:
        said = lint(state["patch"])
        answer = interrupt({"patch": state["patch"], "linter": said})
    except BaseException:
        answer = interrupt({"patch": state["patch"], "linter": "down"})
        world.do("close the review")
    return {"approved": answer == "yes"}


# %% right why="a question that shows more than it has to"
def careful_approve(state, world):
    question = {"question": "May I?", "patch": state["patch"], "linter": "down"}
    try:
        question |= {"linter": lint(state["patch"])}
    except ConnectionError:
        question["hint"] = "look twice"
    approved = interrupt(question) == "yes"
    world.do("close the review")
    return {"approved": approved}


# %% right why="keeps the broad except, and hands the pause on; closes in else"
def careful_approve(state, world):
    said = "down"
    try:
        said = lint(state["patch"])
        answer = interrupt({"patch": state["patch"], "linter": said})
    except GraphBubbleUp:
        raise
    except Exception:
        answer = interrupt({"patch": state["patch"], "linter": said})
    world.do("close the review")
    return {"approved": answer == "yes"}


# %% test id="except_asks" points=1
for first, said in ((propose, "no complaints"), (propose_for_abseil, "down")):
    story = through(patch_graph(first, careful_approve, apply))
    [asked], expected = story.asked, {"patch": story.state["patch"], "linter": said}
    assert asked, f"the linter says {said!r}: nobody is asked. What catches what interrupt raises?"
    assert len(asked) == 1 and isinstance(asked[0], dict) and asked[0] | expected == asked[0], (
        f"the linter says {said!r}: it asked {asked}; expected one dict with {expected}."
    )

# %% test id="except_closes" points=1
for first, said in ((propose, "no complaints"), (propose_for_abseil, "down")):
    for answer, given, closed, applied in (
        ("none", [], 0, 0),
        ("yes", [YES], 1, 1),
        ("no", [NO], 1, 0),
    ):
        story = through(patch_graph(first, careful_approve, apply), *given)
        problem = not_done(story, close_the_review=closed, apply_the_patch=applied)
        assert not problem, (
            f"the linter says {said!r}, answer {answer}: {problem}. When is it over?"
        )

# %% [markdown]
# **Rule 2: let the pause pass.** No broad `except` and no `finally` around `interrupt`. Where you cannot avoid the
# `except`, catch `GraphBubbleUp` before it and raise it again.

# %% [markdown]
# ## Break it: the world above the pause
#
# Not only effects stand above a pause. What is *read* there is read again, and what is *made* there is made again.
#
# The next node asks before it mails a report. If the disk is full it asks first whether it may wipe the cache. And it
# makes a number, so that the person can tell which report is meant.


# %%
class Report(TypedDict, total=False):
    run: str
    full: bool
    ticket: str
    wipe: str
    mail: str


def look_at_nothing(state, world):
    return {}


def ask_live(state, world):
    ticket, wipe = uuid.uuid4().hex[:6], "no"
    if world.disk_full():
        wipe = interrupt({"question": "Wipe the cache?", "ticket": ticket})
    mail = interrupt({"question": "Mail the report?", "ticket": ticket})
    return {"wipe": wipe, "mail": mail, "ticket": ticket}


def act(state, world):
    if state.get("wipe") == "yes":
        world.do("wipe the cache")
    if state.get("mail") == "yes":
        world.do("mail the report")


def report_graph(look, ask):
    def make(world):
        flow = Flow(world, Report)
        flow.add_node("look", look)
        flow.add_node("ask", ask)
        flow.add_node("act", act)
        for before, after in ((START, "look"), ("look", "ask"), ("ask", "act"), ("act", END)):
            flow.add_edge(before, after)
        return flow

    return make


# %% [markdown]
# At first the disk is not full, and one question is asked: may the report be mailed? While the person thinks it over,
# the disk fills up. The person says yes to the mail.

# %%
story = through(report_graph(look_at_nothing, ask_live), YES, NO, disk=(False, True, True))
for questions, answer in zip(story.asked, ["yes", "no"], strict=False):
    print("asked:", *questions, "| answer:", answer)
print("done: ", dict(story.done))
print("ticket in the state:", story.state["ticket"])

# %% [markdown]
# The yes to the mail wiped the cache. In the second run of the node the first pause was another one, and it took the
# first answer: answers are matched by position. Then the mail was asked again.
#
# And look at the tickets. None that the person saw is the one in the state.
#
# ## Fix it: the world above the pause
#
# A node that is saved does not run again. Write `look(state, world)`, the node before, and `ask(state, world)`:
#
# * The questions are those from above. Whether the cache is asked about depends on the disk as it was at `look`.
# * Each question shows a `ticket`, the same that is in the state in the end. Another run has another ticket.
# * `ask` puts `wipe` and `mail` into the state: "yes" or "no".


# %% answer id="look_and_ask"
def look(state, world):
    """Keep what the questions depend on."""
    ### BEGIN SOLUTION
    return {"full": world.disk_full(), "ticket": uuid.uuid4().hex[:6]}
    ### END SOLUTION


def ask(state, world):
    """Ask about the cache, if the disk was full, and about the mail."""
    ### BEGIN SOLUTION
    ticket, wipe = state["ticket"], "no"
    if state["full"]:
        wipe = interrupt({"question": "Wipe the cache?", "ticket": ticket})
    mail = interrupt({"question": "Mail the report?", "ticket": ticket})
    return {"wipe": wipe, "mail": mail}
    ### END SOLUTION


# %% wrong loses="order_kept ticket_shown" why="leaves it as it was"
look, ask = look_at_nothing, ask_live


# %% wrong loses="order_kept" why="the ticket is kept, the disk is looked at where it is needed"
def look(state, world):
    return {"ticket": uuid.uuid4().hex[:6]}


def ask(state, world):
    wipe = "no"
    if world.disk_full():
        wipe = interrupt({"question": "Wipe the cache?", "ticket": state["ticket"]})
    mail = interrupt({"question": "Mail the report?", "ticket": state["ticket"]})
    return {"wipe": wipe, "mail": mail}


# %% wrong loses="ticket_shown" why="the disk is kept, the ticket made where it is shown"
def look(state, world):
    return {"full": world.disk_full()}


def ask(state, world):
    ticket, wipe = uuid.uuid4().hex[:6], "no"
    if state["full"]:
        wipe = interrupt({"question": "Wipe the cache?", "ticket": ticket})
    mail = interrupt({"question": "Mail the report?", "ticket": ticket})
    return {"wipe": wipe, "mail": mail, "ticket": ticket}


# %% wrong loses="order_kept" why="asks about the mail first, so that the first answer is the mail's"
def look(state, world):
    return {"ticket": uuid.uuid4().hex[:6]}


def ask(state, world):
    mail = interrupt({"question": "Mail the report?", "ticket": state["ticket"]})
    wipe = "no"
    if world.disk_full():
        wipe = interrupt({"question": "Wipe the cache?", "ticket": state["ticket"]})
    return {"wipe": wipe, "mail": mail}


# %% wrong loses="order_kept" why="always asks both"
def look(state, world):
    return {"full": world.disk_full(), "ticket": uuid.uuid4().hex[:6]}


def ask(state, world):
    wipe = interrupt({"question": "Wipe the cache?", "ticket": state["ticket"]})
    mail = interrupt({"question": "Mail the report?", "ticket": state["ticket"]})
    return {"wipe": wipe if state["full"] else "no", "mail": mail}


# %% wrong loses="order_kept ticket_shown" why="keeps both in a variable of the process"
kept = {}


def look(state, world):
    kept.update(full=world.disk_full(), ticket=uuid.uuid4().hex[:6])
    return {}


def ask(state, world):
    wipe = "no"
    kept.setdefault("ticket", uuid.uuid4().hex[:6])
    if kept.setdefault("full", world.disk_full()):
        wipe = interrupt({"question": "Wipe the cache?", "ticket": kept["ticket"]})
    mail = interrupt({"question": "Mail the report?", "ticket": kept["ticket"]})
    return {"wipe": wipe, "mail": mail, "ticket": kept["ticket"]}


# %% wrong loses="ticket_shown" why="a ticket that is always the same"
def look(state, world):
    return {"full": world.disk_full(), "ticket": "ticket-1"}


def ask(state, world):
    wipe = "no"
    if state["full"]:
        wipe = interrupt({"question": "Wipe the cache?", "ticket": "ticket-1"})
    mail = interrupt({"question": "Mail the report?", "ticket": "ticket-1"})
    return {"wipe": wipe, "mail": mail}


# %% wrong loses="order_kept" why="never wipes, then nothing can go wrong"
def look(state, world):
    return {"ticket": uuid.uuid4().hex[:6]}


def ask(state, world):
    mail = interrupt({"question": "Mail the report?", "ticket": state["ticket"]})
    return {"wipe": "no", "mail": mail}


# % wrong loses="order_kept" why="a word of its own for what was not asked"
def look(state, world):
    return {"full": world.disk_full(), "ticket": uuid.uuid4().hex[:6]}


def ask(state, world):
    wipe = "not asked"
    if state["full"]:
        wipe = interrupt({"question": "Wipe the cache?", "ticket": state["ticket"]})
    mail = interrupt({"question": "Mail the report?", "ticket": state["ticket"]})
    return {"wipe": wipe, "mail": mail}


# % wrong loses="order_kept" why="leaves out what was not asked"
def look(state, world):
    return {"full": world.disk_full(), "ticket": uuid.uuid4().hex[:6]}


def ask(state, world):
    answers = {}
    if state["full"]:
        answers["wipe"] = interrupt({"question": "Wipe the cache?", "ticket": state["ticket"]})
    answers["mail"] = interrupt({"question": "Mail the report?", "ticket": state["ticket"]})
    return answers


# % wrong loses="order_kept" why="the mail first, the cache after it"
def look(state, world):
    return {"full": world.disk_full(), "ticket": uuid.uuid4().hex[:6]}


def ask(state, world):
    wipe, mail = "no", interrupt({"question": "Mail the report?", "ticket": state["ticket"]})
    if state["full"]:
        wipe = interrupt({"question": "Wipe the cache?", "ticket": state["ticket"]})
    return {"wipe": wipe, "mail": mail}


# %% right why="keeps the questions themselves; the run is the ticket"
def look(state, world):
    return {"ticket": state["run"], "full": bool(world.disk_full())}


def ask(state, world):
    questions = {"wipe": "Wipe the cache?", "mail": "Mail the report?"}
    if not state["full"]:
        del questions["wipe"]
    answers = {"wipe": "no"}
    for name, text in questions.items():
        answers[name] = interrupt({"question": text, "ticket": state["ticket"]})
    return answers


# %% test id="order_kept" points=1
def texts(story):
    """The questions of each process, without what else they show."""
    return [
        [each.get("question") if isinstance(each, dict) else each for each in open_ones]
        for open_ones in story.asked
    ]


WIPE, MAIL = "Wipe the cache?", "Mail the report?"
CASES = [
    ("full only later", (False, True, True), [YES], [[MAIL], []], 0, 1),
    ("full only at first", (True, False, False), [YES, NO], [[WIPE], [MAIL], []], 1, 0),
    ("full all the time", (True, True, True), [NO, YES], [[WIPE], [MAIL], []], 0, 1),
    ("never full", (False, False, False), [NO], [[MAIL], []], 0, 0),
]
for name, disk, given, expected, wiped, mailed in CASES:
    story = through(report_graph(look, ask), *given, disk=disk)
    assert texts(story) == expected, (
        f"the disk is {name}: after each process the open questions were {texts(story)}, expected "
        f"{expected}, the cache first. On what does ask decide, and can that change meanwhile?"
    )
    problem = not_done(story, wipe_the_cache=wiped, mail_the_report=mailed)
    answers = ", ".join(each.resume for each in given)
    found = [story.state.get("wipe"), story.state.get("mail")]
    if not all(each in ("yes", "no") for each in found):
        problem = problem or f'wipe and mail are {found}, expected "yes" or "no"'
    assert not problem, f"the disk is {name}, the answers are {answers}: {problem}"


# %% test id="ticket_shown" points=1
made = []
for run in TWO:
    story = through(report_graph(look, ask), YES, YES, disk=(True, True, True), runs=[run])
    asked = chain.from_iterable(story.asked)
    shown = [each.get("ticket") if isinstance(each, dict) else None for each in asked]
    made.append(story.state.get("ticket"))
    assert shown and made[-1] and all(each == made[-1] for each in shown), (
        f"{run}: the person saw the tickets {shown}, and the state holds {made[-1]!r}; expected "
        "one and the same. Which node makes it, and is that node run again?"
    )
assert made[0] != made[1], f"two runs have the ticket {made[0]!r}; expected one for each."

# %% [markdown]
# **Rule 3: what is shown is what runs, and questions depend on nothing but the state.** Times, random numbers, files,
# prices, the free space of a disk: read or make them in an earlier node. Its result is saved, and the node that asks
# reads it from there. (`careful_approve` breaks this rule: `lint` runs again when the answer comes, and may then say
# what nobody saw. It belongs into a node of its own.)
#
# ## Predict: how often
#
# Now give formulas. Three graphs, each with `n` questions, all of them answered, one after the other.
#
# * `one_node(n)`: one node with `n` pauses. How often is the node entered in all?
# * `many_nodes(n)`: `n` nodes in a row with one pause each. How many entries are there in all nodes together?
# * `in_a_loop(n)`: one node with a `while` loop that asks until the answer is good, and the `n`th is. How often does
#   the line below the pause run?


# %%
class Answers(TypedDict, total=False):
    last: str


def counted(ask_all, n):
    """Give a graph its n answers, in memory; return how often `count` was called."""
    counts = []
    flow = ask_all(n, lambda: counts.append(1))
    graph = flow.compile(checkpointer=InMemorySaver())
    graph.invoke({"last": ""}, RUN)
    for number in range(1, n + 1):
        assert graph.get_state(RUN).interrupts
        graph.invoke(Command(resume="good" if number == n else "bad"), RUN)
    assert not graph.get_state(RUN).next
    return len(counts)


# %%
def ask_in_one_node(n, count):
    def node(state):
        count()
        return {"last": [interrupt(f"question {number}") for number in range(n)][-1]}

    return StateGraph(Answers).add_node("node", node).add_edge(START, "node")


def ask_in_many_nodes(n, count):
    def node(state):
        count()
        return {"last": interrupt("?")}

    flow = StateGraph(Answers).add_sequence([(f"node {number}", node) for number in range(n)])
    return flow.add_edge(START, "node 0")


def ask_in_a_loop(n, count):
    def node(state):
        answer = ""
        while answer != "good":
            answer = interrupt("?")
            count()
        return {"last": answer}

    return StateGraph(Answers).add_node("node", node).add_edge(START, "node")


# %%
def first_wrong(name, formula, ask_all):
    """One sentence on the first n, from 1 to 4, for which a formula is wrong, or ""."""
    for n in range(1, 5):
        said, measured = tried(formula, n), counted(ask_all, n)
        if type(said) not in (int, float) or said != measured:
            return f"{name}({n}) gave {said!r}, the run {measured}"
    return ""


# %% answer id="formulas"
def one_node(n):
    ### BEGIN SOLUTION
    return n + 1
    ### END SOLUTION


def many_nodes(n):
    ### BEGIN SOLUTION
    return 2 * n
    ### END SOLUTION


def in_a_loop(n):
    ### BEGIN SOLUTION
    return n * (n + 1) // 2
    ### END SOLUTION


# %% wrong loses="formula_nodes formula_loop" why="a node goes on where it was"
def one_node(n):
    return 1


def many_nodes(n):
    return n


def in_a_loop(n):
    return n


# %% wrong loses="formula_nodes" why="each pause is entered twice"
def one_node(n):
    return 2 * n


def many_nodes(n):
    return 2 * n


def in_a_loop(n):
    return sum(range(n + 1))


# %% wrong loses="formula_nodes" why="n nodes are entered like one"
def one_node(n):
    return n + 1


def many_nodes(n):
    return n + 1


def in_a_loop(n):
    return n * (n + 1) / 2


# %% wrong loses="formula_loop" why="the line below a pause runs once for each answer"
def one_node(n):
    return n + 1


def many_nodes(n):
    return 2 * n


def in_a_loop(n):
    return n


# %% wrong loses="formula_loop" why="counts the run that ends at the first pause, too"
def one_node(n):
    return n + 1


def many_nodes(n):
    return 2 * n


def in_a_loop(n):
    return (n + 1) * (n + 2) // 2


# %% wrong loses="formula_nodes formula_loop" why="fits one answer, and no more"
def one_node(n):
    return 2


def many_nodes(n):
    return 2


def in_a_loop(n):
    return 1


# %% wrong loses="formula_nodes formula_loop" why="three lambdas, and all count one"
one_node = many_nodes = in_a_loop = lambda n: 1


# %% right why="counted by going through it"
def one_node(n):
    return len(["to the first question", *range(n)])


def many_nodes(n):
    return sum(one_node(1) for _ in range(n))


def in_a_loop(n):
    return sum(answers for answers in range(1, n + 1))


# %% test id="formula_nodes" points=1
problem = first_wrong("one_node", one_node, ask_in_one_node)
problem = problem or first_wrong("many_nodes", many_nodes, ask_in_many_nodes)
assert not problem, f"{problem}. When does a run of the node end, and how many begin?"

# %% test id="formula_loop" points=1
problem = first_wrong("in_a_loop", in_a_loop, ask_in_a_loop)
assert not problem, f"{problem}. Go through the loop once for each answer, from the first line on."

# %% [markdown]
# All of them grow. The bug report of the first cell is `in_a_loop`: 1, then 2 more, then 3 more.
#
# ## Break it: a call without an answer
#
# Two pauses in one node, the harmless question first:


# %%
class Logs(TypedDict, total=False):
    run: str
    read: str
    delete: str


def read_and_delete(state, world):
    read = interrupt("Read the log?")
    if read == "yes":
        world.do("read the log")
    delete = interrupt("Delete the folder?")
    if delete == "yes":
        world.do("delete the folder")
    return {"read": read, "delete": delete}


def in_one_node(world):
    return Flow(world, Logs).add_node("logs", read_and_delete).add_edge(START, "logs")


# %% [markdown]
# The first question gets its yes. Then somebody calls `invoke(None)`, which carries no answer. That is how a run is
# continued after a kill, and what a retry or a health check may do with a thread that is not finished.

# %%
story = through(in_one_node, YES, None)
for number, questions in enumerate(story.asked, 1):
    print(f"process {number} left open:", *questions)
print("done:", dict(story.done))

# %% [markdown]
# The folder is gone, and nobody was asked. A plain answer is given "to the thread" and stays there. The next call finds
# it and hands it to the next pause of the same node. (Reported as langchain-ai/langgraph issue 8837.)
#
# And "read the log" was done twice, as rule 1 says: it stands above the second pause.
#
# Each question has an id, and an answer can name the one it is for: `Command(resume={id: answer})`. Does that help?
# Three trials, each after the first question got its yes: a call without an answer; the same answer again, as from a
# double click; and an answer that names the *first* question.


# %%
def named(answer, place=0):
    """Answer the first open question by its id."""
    return lambda questions: Command(resume={questions[place].id: answer})


def second_answer(make, first, event):
    """What becomes of the folder, when only the first question was answered by a person."""
    with WorkFolder.fresh() as folder:
        [question] = launch(one_process, folder, make, INPUT, echo=False).result()["__interrupt__"]
        click = YES if first == "plain" else named("yes")([question])
        old_id = Command(resume={question.id: "yes"})
        launch(one_process, folder, make, click, echo=False)
        given = {"no answer": None, "the click again": click, "the old id": old_id}[event]
        launch(one_process, folder, make, given, echo=False)
        return effects(journal_of(folder).lives()).count("delete the folder")


EVENTS = ("no answer", "the click again", "the old id")


def trials(make):
    """The three trials, for a first answer that was plain, and for one that named its question."""
    return {
        event: {
            f"answered {how}": "lost" if second_answer(make, how, event) else "kept"
            for how in ("plain", "by id")
        }
        for event in EVENTS
    }


outcome_matrix(trials(in_one_node), "Two pauses in one node: what became of the folder")

# %% [markdown]
# By id is better, and not good: in one node the id of an old question is taken for the new one.
#
# ## Fix it: a call without an answer
#
# Write `gates(world)`. It asks the same two questions, one after the other, and does the same, and:
#
# * no call without an answer, and no answer that names the first question, answers the second;
# * "read the log" is done once, before the second question is asked. (Its answer may depend on what was read.)
#
# In the end `read` and `delete` are in the state. The second question is asked even if the first gets a no.
#
# <details><summary>Hint</summary>
#
# `flow.add_node(name, function)`, `flow.add_edge(START, name)`, `flow.add_edge(name, other)`. How many pauses has each
# node, and what stands above them?
# </details>


# %% answer id="gates"
def gates(world):
    """Make the graph that asks twice."""
    flow = Flow(world, Logs)
    ### BEGIN SOLUTION

    def read(state, world):
        answer = interrupt("Read the log?")
        if answer == "yes":
            world.do("read the log")
        return {"read": answer}

    def delete(state, world):
        answer = interrupt("Delete the folder?")
        if answer == "yes":
            world.do("delete the folder")
        return {"delete": answer}

    flow.add_node("ask to read", read)
    flow.add_node("ask to delete", delete)
    flow.add_edge(START, "ask to read")
    flow.add_edge("ask to read", "ask to delete")
    ### END SOLUTION
    return flow


# %% wrong loses="gates_silent gates_once" why="leaves it as it was"
def gates(world):
    return in_one_node(world)


# %% wrong loses="gates_silent" why="a key for what is repeated, and still one node"
def gates(world):
    def both(state, world):
        read = interrupt("Read the log?")
        if read == "yes":
            world.do("read the log", key=state["run"])
        delete = interrupt("Delete the folder?")
        if delete == "yes":
            world.do("delete the folder")
        return {"read": read, "delete": delete}

    return Flow(world, Logs).add_node("both", both).add_edge(START, "both")


# %% wrong loses="gates_once" why="two nodes, and the reading in the second, above its pause"
def gates(world):
    def delete(state, world):
        if state["read"] == "yes":
            world.do("read the log")
        answer = interrupt("Delete the folder?")
        if answer == "yes":
            world.do("delete the folder")
        return {"delete": answer}

    flow = Flow(world, Logs)
    flow.add_node("one", lambda state, world: {"read": interrupt("Read the log?")})
    flow.add_node("two", delete)
    return flow.add_edge(START, "one").add_edge("one", "two")


# %% wrong loses="gates_silent gates_once" why="asks both at the same time"
def gates(world):
    def make(name, text, deed):
        def node(state, world):
            answer = interrupt(text)
            if answer == "yes":
                world.do(deed)
            return {name: answer}

        return node

    flow = Flow(world, Logs)
    flow.add_node("one", make("read", "Read the log?", "read the log"))
    flow.add_node("two", make("delete", "Delete the folder?", "delete the folder"))
    return flow.add_edge(START, "one").add_edge(START, "two")


# %% wrong loses="gates_once" why="reads above the second pause, with a key that is the same for all runs"
def gates(world):
    def delete(state, world):
        if state["read"] == "yes":
            world.do("read the log", key="k")
        answer = interrupt("Delete the folder?")
        if answer == "yes":
            world.do("delete the folder")
        return {"delete": answer}

    flow = Flow(world, Logs)
    flow.add_node("one", lambda state, world: {"read": interrupt("Read the log?")})
    flow.add_node("two", delete)
    return flow.add_edge(START, "one").add_edge("one", "two")


# %% wrong loses="gates_once" why="reads when everything is answered"
def gates(world):
    def act(state, world):
        for name, deed in (("read", "read the log"), ("delete", "delete the folder")):
            if state[name] == "yes":
                world.do(deed)

    flow = Flow(world, Logs)
    flow.add_node("one", lambda state, world: {"read": interrupt("Read the log?")})
    flow.add_node("two", lambda state, world: {"delete": interrupt("Delete the folder?")})
    flow.add_node("act", act)
    flow.add_edge(START, "one").add_edge("one", "two")
    return flow.add_edge("two", "act")


# %% wrong loses="gates_silent gates_once" why="one pause for both questions"
def gates(world):
    def both(state, world):
        answer = interrupt("Read the log?")
        if answer == "yes":
            world.do("read the log")
            world.do("delete the folder")
        return {"read": answer, "delete": answer}

    return Flow(world, Logs).add_node("both", both).add_edge(START, "both")


# %% wrong loses="gates_once" why="skips the second question after a no"
def gates(world):
    def first(state, world):
        answer = interrupt("Read the log?")
        if answer == "yes":
            world.do("read the log")
        return {"read": answer}

    def second(state, world):
        answer = interrupt("Delete the folder?")
        if answer == "yes":
            world.do("delete the folder")
        return {"delete": answer}

    flow = Flow(world, Logs).add_node("first", first).add_node("second", second)
    flow.add_edge(START, "first")
    flow.add_conditional_edges("first", lambda state: "second" if state["read"] == "yes" else END)
    return flow


# %% right why="four nodes: ask, read, ask, delete"
def gates(world):
    def asks(name, text):
        return lambda state, world: {name: interrupt(text)}

    def does(name, deed):
        return lambda state, world: world.do(deed) if state[name] == "yes" else None

    flow = Flow(world, Logs)
    steps = {
        "ask 1": asks("read", "Read the log?"),
        "do 1": does("read", "read the log"),
        "ask 2": asks("delete", "Delete the folder?"),
        "do 2": does("delete", "delete the folder"),
    }
    last = START
    for name, step in steps.items():
        flow.add_node(name, step)
        flow.add_edge(last, name)
        last = name
    return flow


# %% test id="gates_silent" points=1
story = through(gates, YES, None)
assert story.asked == [["Read the log?"], ["Delete the folder?"], ["Delete the folder?"]], (
    "answered once, then called without an answer: after each process the open questions were "
    f"{story.asked}; expected the first, then the second, and the second again. Two pauses in one "
    "node share their answers."
)
found = second_answer(gates, "by id", "the old id")
assert not found, (
    "an answer that named the first question deleted the folder; expected that it is kept"
)


# %% test id="gates_once" points=1
problem = not_done(through(gates, YES), read_the_log=1, delete_the_folder=0)
assert not problem, f"when the first answer was yes: {problem}. Where does it stand?"
asked = [["Read the log?"], ["Delete the folder?"], []]
for said in (("yes", "yes"), ("yes", "no"), ("no", "yes")):
    story = through(gates, *(Command(resume=each) for each in said), runs=TWO)
    assert story.asked == asked, (
        f"answers {said}: after each process the open questions were {story.asked}, expected "
        f"{asked}. Does the first answer decide whether the second question is asked?"
    )
    read, deleted = (2 * (each == "yes") for each in said)
    problem = not_done(story, read_the_log=read, delete_the_folder=deleted)
    assert not problem, (
        f"two runs in one world, answers {said}: {problem}. What stands above a pause, and whose "
        "is a key?"
    )
    found = story.state.get("read"), story.state.get("delete")
    assert found == said, f"answers {said}: read and delete in the state are {found}"

# %% [markdown]
# The three trials with your graph:

# %%
outcome_matrix(trials(gates), "Your gates: what became of the folder")

# %% [markdown]
# One is left, the plain double click. A plain answer goes to whatever is open at that moment, and a double click is
# two answers. So give both: **rule 4: one pause for each run of a node, and answers that name their question.** (The
# `ask` of rule 3 has two pauses, as the exercise wanted. In earnest it would be two nodes.)
#
# ## Fix it: a loop of pauses
#
# The report of the first cell is about a loop. The node below is such a one: it asks how many jobs a build may use,
# until the answer is a number from 1 to 64. It also notes each answer in a log.


# %%
class Jobs(TypedDict, total=False):
    run: str
    said: object
    jobs: int


def is_good(said):
    return type(said) is int and 1 <= said <= 64


def question_after(said):
    """The first question, or what is asked after an answer that is not good."""
    return "How many jobs?" if said is None else f"{said!r} is no number from 1 to 64. How many?"


def ask_until_good(state, world):
    said = None
    while not is_good(said):
        said = interrupt(question_after(said))
        world.do(f"note {said!r}")
    return {"jobs": said}


def form_with_a_loop(world):
    return Flow(world, Jobs).add_node("form", ask_until_good).add_edge(START, "form")


WORDS = [Command(resume=said) for said in ("many", 0, "8", 8)]
story = through(form_with_a_loop, *WORDS)
print(dict(story.done))

# %%
graph_lives(story.lives, title="A form in a loop")

# %% [markdown]
# By rule 4 a run of the node may have one pause. So the loop has to go through the graph: an edge that leads back to
# the node. What the loop carried in a variable, the state carries.
#
# Write `form(world)`. It asks with `question_after`, and notes each answer once, as above. A call without an answer
# changes nothing: the same question stays open. In the end `jobs` is in the state.
#
# <details><summary>Hint</summary>
#
# `flow.add_conditional_edges(name, choose)`: `choose(state)` returns the name of the next node, or `END`.
# </details>


# %% answer id="form"
def form(world):
    """Make the graph that asks until the answer is good."""
    flow = Flow(world, Jobs)
    ### BEGIN SOLUTION

    def ask_once(state, world):
        said = interrupt(question_after(state.get("said")))
        world.do(f"note {said!r}")
        return {"said": said, "jobs": said} if is_good(said) else {"said": said}

    flow.add_node("ask", ask_once)
    flow.add_edge(START, "ask")
    flow.add_conditional_edges("ask", lambda state: END if "jobs" in state else "ask")
    ### END SOLUTION
    return flow


# %% wrong loses="form_notes form_silent" why="leaves it as it was"
def form(world):
    return form_with_a_loop(world)


# %% wrong loses="form_notes" why="leaves the loop, and gives each note a key made of the answer"
def form(world):
    def keyed(state, world):
        said = None
        while not is_good(said):
            said = interrupt(question_after(said))
            world.do(f"note {said!r}", key=f"{state['run']} {said!r}")
        return {"jobs": said}

    return Flow(world, Jobs).add_node("form", keyed).add_edge(START, "form")


# %% wrong loses="form_silent" why="leaves the loop, and gives each note a key with its number"
def form(world):
    def keyed(state, world):
        said, number = None, 0
        while not is_good(said):
            said, number = interrupt(question_after(said)), number + 1
            world.do(f"note {said!r}", key=f"{state['run']} {number}")
        return {"jobs": said}

    return Flow(world, Jobs).add_node("form", keyed).add_edge(START, "form")


# %% wrong loses="form_silent" why="notes all at the end"
def form(world):
    def at_the_end(state, world):
        notes, said = [], None
        while not is_good(said):
            said = interrupt(question_after(said))
            notes.append(said)
        for each in notes:
            world.do(f"note {each!r}")
        return {"jobs": said}

    return Flow(world, Jobs).add_node("form", at_the_end).add_edge(START, "form")


# %% wrong loses="form_notes form_silent" why="an edge back, and the note above the pause"
def form(world):
    def ask_again(state, world):
        if "said" in state:
            world.do(f"note {state['said']!r}")
        said = interrupt(question_after(state.get("said")))
        return {"said": said, "jobs": said} if is_good(said) else {"said": said}

    flow = Flow(world, Jobs).add_node("ask", ask_again).add_edge(START, "ask")
    flow.add_conditional_edges("ask", lambda state: END if "jobs" in state else "ask")
    return flow


# %% wrong loses="form_notes form_silent" why="forgets what was said, so always asks the first question"
def form(world):
    def forgetful(state, world):
        said = interrupt("How many jobs?")
        world.do(f"note {said!r}")
        return {"jobs": said} if is_good(said) else {}

    flow = Flow(world, Jobs).add_node("ask", forgetful).add_edge(START, "ask")
    flow.add_conditional_edges("ask", lambda state: END if "jobs" in state else "ask")
    return flow


# %% wrong loses="form_notes" why="asks twice and then gives up"
def form(world):
    def ask_again(state, world):
        said = interrupt(question_after(state.get("said")))
        world.do(f"note {said!r}")
        return {"said": said, "jobs": said if is_good(said) else 1}

    flow = Flow(world, Jobs).add_node("ask", ask_again).add_node("again", ask_again)
    return flow.add_edge(START, "ask").add_edge("ask", "again")


# %% right why="two nodes: one asks, one checks and leads back"
def form(world):
    def check(state, world):
        world.do(f"note {state['said']!r}")
        good = is_good(state["said"])
        return Command(goto=END if good else "ask", update={"jobs": state["said"]} if good else {})

    flow = Flow(world, Jobs)
    flow.add_node(
        "ask", lambda state, world: {"said": interrupt(question_after(state.get("said")))}
    )
    flow.add_node("check", check, destinations=("ask", END))
    return flow.add_edge(START, "ask").add_edge("ask", "check")


# %% test id="form_notes" points=1
def wrong_form(said, expected, notes):
    """One sentence on what `form` did wrong (None in `said`: a call without an answer), or ""."""
    given = [None if each is None else Command(resume=each) for each in said]
    story = through(form, *given)
    if [open_ones[:1] for open_ones in story.asked] != expected:
        return (
            f"after {said} the questions were {story.asked}, expected {expected}: at first, and "
            "after each answer, what question_after makes of it"
        )
    noted = [word.split(" [")[0] for word in effects(story.lives)]
    if noted != [f"note {each!r}" for each in notes]:
        return (
            f"after {said} it had noted {noted}, expected each of {notes} once, in order. What is "
            "repeated when an answer comes?"
        )
    jobs = story.state.get("jobs")
    return "" if jobs == 8 else f"after {said} jobs was {jobs}, expected 8"


FIRST, MANY, TEXT = ([question_after(said)] for said in (None, "many", "8"))
said = ["many", "many", "8", 8]
problem = wrong_form(said, [FIRST, MANY, MANY, TEXT, []], said)
assert not problem, problem

# %% test id="form_silent" points=1
problem = wrong_form(["many", None, 8, None], [["How many jobs?"], MANY, MANY, [], []], ["many", 8])
assert not problem, f"{problem} (None is a call without an answer). How many pauses has a run?"

# %% [markdown]
# ## Break it: two questions at the same time
#
# Nodes that may run at the same time form one super-step, and each of them may ask. Here a node for each patch asks
# about it, and applies it.


# %%
class Patches(TypedDict, total=False):
    run: str
    re2: str
    abseil: str
    gtest: str


def asks_about(patch):
    def node(state, world):
        answer = interrupt({"patch": patch})
        if answer == "yes":
            world.do(f"patch {patch}")
        return {patch: answer}

    return node


def review(*patches):
    """A graph that asks about all these patches at the same time."""

    def make(world):
        flow = Flow(world, Patches)
        for patch in patches:
            flow.add_node(f"ask about {patch}", asks_about(patch))
            flow.add_edge(START, f"ask about {patch}")
        return flow

    return make


with WorkFolder.fresh() as folder:
    out = launch(one_process, folder, review("re2", "abseil"), INPUT).value
    for question in out["__interrupt__"]:
        print(question.id[:8], question.value)
    print(launch(one_process, folder, review("re2", "abseil"), YES, echo=False).reason)

# %% [markdown]
# Two questions are open, and one plain answer is refused. By id each gets its own. Here only one of
# the two is answered, the second in the list.

# %%
with WorkFolder.fresh() as folder:
    for given in (INPUT, named("yes", place=1)):
        given = given(out["__interrupt__"]) if callable(given) else given
        out = launch(one_process, folder, review("re2", "abseil"), given).result()
    with opened(folder, review("re2", "abseil")) as graph:
        drawn = history(graph, RUN, "One of two is answered")
    print(dict(Story([], journal_of(folder).lives(), {}).entered))

drawn

# %% [markdown]
# The other question stays open. Its node was entered a second time too, up to its pause: rule 1 again.
#
# There is a trap: a dict whose keys are no ids is no map of answers. It is one plain answer, and if just one
# question is open, it arrives there:

# %%
story = through(review("re2"), Command(resume={"re2": "no", "abseil": "yes"}))
print("open:", story.asked[-1], "| the answer about re2:", story.state["re2"])

# %% [markdown]
# ## Fix it: two questions at the same time
#
# A desk has collected decisions: a dict from the name of a patch to "yes" or "no". Write `answers_for(questions,
# decisions)`. `questions` is the list under `__interrupt__`, in any order: each has an `id` and a `value` like those
# above. Return what goes into `Command(resume=…)`, so that each question gets the decision on its patch. Questions
# without a decision stay open. If there is a decision on a patch that nobody asks about, raise a `ValueError`:
# somebody decided on something else than what is asked.


# %% answer id="answers_for"
def answers_for(questions, decisions):
    """Address each decision to the question about its patch."""
    ### BEGIN SOLUTION
    ids = {question.value["patch"]: question.id for question in questions}
    if unknown := set(decisions) - set(ids):
        raise ValueError(f"nobody asks about {sorted(unknown)}")
    return {ids[patch]: decision for patch, decision in decisions.items()}
    ### END SOLUTION


# %% wrong loses="ids_each ids_unknown" why="the decisions are the answer"
def answers_for(questions, decisions):
    return decisions


# %% wrong loses="ids_each" why="a Command, where what goes into it is wanted"
def answers_for(questions, decisions):
    ids = {q.value["patch"]: q.id for q in questions}
    if not set(decisions) <= set(ids):
        raise ValueError(decisions)
    return Command(resume={ids[patch]: said for patch, said in decisions.items()})


# %% wrong loses="ids_each ids_unknown" why="in the order of the questions and of the decisions"
def answers_for(questions, decisions):
    return {q.id: decision for q, decision in zip(questions, decisions.values(), strict=False)}


# %% wrong loses="ids_unknown" why="drops what nobody asks about"
def answers_for(questions, decisions):
    return {q.id: decisions[q.value["patch"]] for q in questions if q.value["patch"] in decisions}


# %% wrong loses="ids_unknown" why="counts them: more decisions than questions"
def answers_for(questions, decisions):
    if len(decisions) > len(questions):
        raise ValueError("too many")
    return {q.id: decisions[q.value["patch"]] for q in questions if q.value["patch"] in decisions}


# %% wrong loses="ids_each ids_unknown" why="an answer for each, no is the default"
def answers_for(questions, decisions):
    return {q.id: decisions.get(q.value["patch"], "no") for q in questions}


# %% wrong loses="ids_each ids_unknown" why="wants a decision for each question"
def answers_for(questions, decisions):
    if set(decisions) != {q.value["patch"] for q in questions}:
        raise ValueError("not all are decided")
    return {q.id: decisions[q.value["patch"]] for q in questions}


# %% wrong loses="ids_unknown" why="raises what happens to come out, a KeyError"
def answers_for(questions, decisions):
    ids = {q.value["patch"]: q.id for q in questions}
    return {ids[patch]: said for patch, said in decisions.items()}


# %% right why="a loop"
def answers_for(questions, decisions):
    left, found = dict(decisions), {}
    for question in questions:
        if question.value["patch"] in left:
            found[question.id] = left.pop(question.value["patch"])
    if left:
        raise ValueError(left)
    return found


# %% test id="ids_each" points=1
NAMES = ("re2", "abseil", "gtest")


def addressed(decisions):
    def step(questions):
        gone = set(decisions) - {question.value["patch"] for question in questions}
        assert not gone, (
            f"{rounds}: when {decisions} came, nobody asked about {sorted(gone)} any more. "
            "Round one answered too much: what is not decided stays open."
        )
        answers = tried(answers_for, questions[::-1], decisions)
        assert isinstance(answers, dict) and set(answers) <= {each.id for each in questions}, (
            f"asked about {[q.value['patch'] for q in questions]}, decided {decisions}: answers_for "
            f"gave {answers!r}; expected a dict, whose keys are ids of these questions."
        )
        return Command(resume=answers)

    return step


for rounds in (
    [{"re2": "yes", "abseil": "no", "gtest": "yes"}],
    [{"gtest": "no"}, {"abseil": "yes"}],
    [{"abseil": "no"}, {"re2": "no", "gtest": "yes"}],
):
    story = through(review(*NAMES), *map(addressed, rounds))
    found = {patch: story.state.get(patch, "open") for patch in NAMES}
    expected = dict.fromkeys(NAMES, "open")
    for each in rounds:
        expected |= each
    assert found == expected, f"decisions {rounds}: got {found}, expected {expected}."

# %% test id="ids_unknown" points=1
with WorkFolder.fresh() as folder:
    questions = launch(one_process, folder, review("abseil", "gtest"), INPUT).value["__interrupt__"]
for known in ([], ["abseil"], ["abseil", "gtest"]):
    decisions = dict.fromkeys([*known, "re2"], "yes")
    found = tried(answers_for, questions, decisions)
    assert isinstance(found, ValueError), (
        f"abseil and gtest are asked about, the decisions are {decisions}: answers_for gave "
        f"{found!r}; expected a ValueError."
    )
found = tried(answers_for, questions, {"abseil": "no"})
assert not isinstance(found, Exception), f"a decision on what is asked was refused: {found!r}"

# %% [markdown]
# ## Predict: a pause inside a subgraph
#
# A node may call a whole graph, and a node in there may ask. `release` announces the release and calls a graph of two
# nodes: `build` builds, `confirm` asks.


# %%
def nested(world):
    inner = Flow(world, State)
    inner.add_node("build", lambda state, world: world.do("build"))
    inner.add_node("confirm", lambda state, world: {"approved": interrupt("Release?") == "yes"})
    inner.add_edge(START, "build").add_edge("build", "confirm")
    inside = inner.compile()

    def release(state, world):
        world.do("announce the release")
        return {"approved": inside.invoke({"run": state["run"]})["approved"]}

    return Flow(world, State).add_node("release", release).add_edge(START, "release")


# %% [markdown]
# It asks, and the answer is yes. Assign to `predicted_nested` a list of three numbers: how often are `release`,
# `build` and `confirm` entered in all?

# %% answer id="predict_nested"
### BEGIN SOLUTION
predicted_nested = [2, 1, 2]
### END SOLUTION

# %% wrong loses="predict_nested_check" why="all that the node calls runs again with it"
predicted_nested = [2, 2, 2]

# %% wrong loses="predict_nested_check" why="only the node that asked runs again"
predicted_nested = [1, 1, 2]

# %% wrong loses="predict_nested_check" why="nothing runs again, confirm goes on"
predicted_nested = [1, 1, 1]

# %% wrong loses="predict_nested_check" why="one number"
predicted_nested = 2

# %% right why="a tuple"
predicted_nested = tuple([2, 1, 2])

# %% test id="predict_nested_check" points=1
story = through(nested, YES)
names = ["release", "build", "confirm"]
problem = differs(predicted_nested, [story.entered[name] for name in names], names)
assert not problem, f"{problem}. Which of the three had ended when the process ended?"

# %%
graph_lives(story.lives, title="A pause inside a graph that a node calls")

# %% [markdown]
# `release` had not ended, so it runs again, and the announcement goes out twice. `build` had ended, and the
# checkpointer kept that, also inside. Rule 1 holds for every function from which a pause can be reached.

# %% [markdown]
# ## Predict: answers that do not arrive
#
# What can be an answer? The node below takes anything. Seven values are given as `Command(resume=value)`, each to a
# run of its own.


# %%
class Anything(TypedDict, total=False):
    run: str
    answer: object


def takes_anything(state):
    return {"answer": [interrupt("Well?")]}


def alone(node):
    flow = StateGraph(Anything).add_node("node", node).add_edge(START, "node")
    return flow.compile(checkpointer=InMemorySaver())


SAID = ["no", False, 0, "", [], {}, None]

# %% [markdown]
# Assign to `predicted_arrives` a list of seven words, in the order of `SAID`: `"arrives"` if `interrupt` returns just
# that value, `"asked again"` if the question stays open, `"error"` if `invoke` raises.

# %% answer id="predict_arrives"
### BEGIN SOLUTION
predicted_arrives = ["arrives"] * 5 + ["asked again", "error"]
### END SOLUTION

# %% wrong loses="predict_arrives_check" why="what is false or empty counts as no answer"
predicted_arrives = ["arrives"] + ["asked again"] * 6

# %% wrong loses="predict_arrives_check" why="every value can be an answer"
predicted_arrives = ["arrives"] * 7

# %% wrong loses="predict_arrives_check" why="only None is no answer"
predicted_arrives = ["arrives"] * 6 + ["asked again"]

# %% wrong loses="predict_arrives_check" why="None and {} are both no answer"
predicted_arrives = ["arrives"] * 5 + ["asked again"] * 2

# %% wrong loses="predict_arrives_check" why="one word"
predicted_arrives = "arrives"

# %% right why="a tuple"
predicted_arrives = (*["arrives" for _ in SAID[:-2]], "asked again", "error")


# %% test id="predict_arrives_check" points=1
def what_becomes_of(said):
    graph = alone(takes_anything)
    graph.invoke(INPUT, RUN)
    state = tried(graph.invoke, Command(resume=said), RUN)
    if isinstance(state, Exception):
        return "error"
    return "arrives" if repr(state.get("answer")) == repr([said]) else "asked again"


measured = [what_becomes_of(said) for said in SAID]
problem = differs(predicted_arrives, measured, [repr(said) for said in SAID])
assert not problem, f"{problem}. What else could LangGraph take that value for?"

# %% [markdown]
# `{}` is taken for a map from ids to answers, with no entry. `None` is what a `Command` holds when it has no answer at
# all, and the error is not even one about that. (Reported as langchain-ai/langgraph issue 7034.) By id, where the value
# stands inside a map, all seven arrive:

# %%
for said in SAID:
    graph = alone(takes_anything)
    asked = graph.invoke(INPUT, RUN)["__interrupt__"]
    print(graph.invoke(named(said)(asked), RUN)["answer"], end=" ")
graph = alone(takes_anything)
graph.invoke(INPUT, RUN)
print("\nplain None:", tried(graph.invoke, Command(resume=None), RUN))

# %% [markdown]
# So a form that sends `null` for "rejected" rejects nothing, unless it sends it by id. The opposite mistake is in the
# node: `if answer:` takes "no" for a yes, because the text is not empty.
#
# ## Answers that stay
#
# A node that gets an answer it cannot use could raise an error, and then one would answer again. Try it:


# %%
def strict(state):
    answer = interrupt("Apply it?")
    if answer not in ("yes", "no"):
        raise ValueError(f"{answer!r} is no answer")
    return {"answer": answer}


def tell(graph, given):
    """Give a graph an input or an answer, and print what comes of it."""
    try:
        out = graph.invoke(given, RUN)
    except ValueError as raised:
        out = f"{type(raised).__name__}: {str(raised).splitlines()[0]}"
    given = getattr(given, "resume", given)
    print(f"{given!s:20}", "asked" if "__interrupt__" in out else out)


graph = alone(strict)
tell(graph, INPUT)
for said in ("yes please", "yes", "no"):
    tell(graph, Command(resume=said))
[question] = graph.get_state(RUN).interrupts
print("still listed as open:", question.value)
tell(graph, Command(resume={question.id: "no"}))

# %% [markdown]
# When a node fails, the answers that it has had are saved with it. They have their positions, and no later answer takes
# one of these, not even by id. The question is still listed as open. It need not be the answer's fault: a "yes" whose
# mail server was down is still a yes when the person has long said no.
#
# A kill is another matter, since a killed node saves nothing. A plain answer is written beside the node, so a kill
# directly below the pause may come first; once on disk it stays, until the next plain answer replaces it. An answer by
# id is saved when its node ends, and lost by the kill: the question is asked again. In both cases it is still listed
# as open. (The test `pause-killed` in `autograde/tests/test_claims_08.py` does these kills.)
#
# For a node that failed there is a way out. `update_state` makes a new checkpoint, even if it changes nothing, and
# leaves question and answer behind with the old one. Then nothing is listed as open, although the node is `next`. An
# answer by the old id is dropped, and the question asked again, as by a call without an answer (`None`):

# %%
graph.update_state(RUN, {})
state = graph.get_state(RUN)
print("updated: next", state.next, "interrupts", state.interrupts)
tell(graph, Command(resume={question.id: "no"}))
tell(graph, None)
tell(graph, YES)
history(graph, RUN)

# %% [markdown]
# So `update_state` on a thread that waits hides its question from a desk that lists `interrupts`.
# A plain yes is accepted nevertheless.
#
# And when all is over? The person has said yes, the patch is applied, and now the person says no. First to the
# thread, then to the checkpoint at which the question was asked, by its config:

# %%
with WorkFolder.fresh() as folder, opened(folder, EXPERIMENT) as graph:
    for given in (INPUT, YES):
        graph.invoke(given, RUN, durability="sync")
    [asked_at] = [each for each in graph.get_state_history(RUN) if each.next == ("approve",)]
    for where, config in (("to the thread", RUN), ("to that checkpoint", asked_at.config)):
        print(f"no, {where}")
        graph.invoke(NO, config)
        print("  the patch was applied", journal_of(folder).count("apply the patch"), "times")

# %% [markdown]
# To the thread it is nothing: no question is open. To the old checkpoint it is worse. The old yes is saved there and
# wins, the new no is ignored, and what follows runs again. An answer cannot be taken back by another answer.
#
# So check an answer *before* it is given. As a second line, tell `interrupt` what it may be. A value that does not fit
# raises. Given plain, it stays and raises at every call, until another answer comes; given by id, it is not kept:


# %%
def typed(state):
    return {"answer": interrupt("Apply it?", response_schema=Literal["yes", "no"])}


graph = alone(typed)
tell(graph, INPUT)
tell(graph, Command(resume="yes please"))
tell(graph, None)
tell(graph, NO)

# %% [markdown]
# A schema converts what it can: with `bool`, "y", "on" and 1 all arrive as `True`. A `Literal` takes a text as it is.
#
# **Rule 5: an answer that a node has had stays. Check it before you give it.**
#
# The next check tries answers that look like yours. You need not read how.


# %%
def like(answer):
    """What somebody could take for this answer, and what is another one."""
    text = str(answer)
    others = [f"{text}, but not this one", f"not {text}", f" {text}", text.upper(), text.title()]
    others += [f"{text} ", f"{text}\n", f"{text}!", [answer], {text: answer}, text[:1], True, 1, 2]
    others += ["1", "y", "yes", "ok", "on", "true", "nope", "approve", "approve ", ["approve"]]
    if isinstance(answer, dict):
        others += [answer | {"but": "not this one"}]
        for key, value in answer.items():
            others += [answer | {key: other} for other in like(value) if other != value]
    return [other for other in others if repr(other) != repr(answer)]


def mistaken(folder, make, others, no):
    """The first of these answers that does more than a no, and what it does; or None."""
    graph = make(World(folder)).compile(checkpointer=InMemorySaver())
    for run, other in enumerate(others):
        config = {"configurable": {"thread_id": str(run)}}
        graph.invoke({"run": str(run)}, config)
        asked_at = graph.get_state(config).config
        failed = isinstance(tried(graph.invoke, Command(resume=other), config), Exception)
        if not failed and graph.get_state(config).config == asked_at:
            return other, "the same run of the node asked again, against rule 4"
        tried(graph.invoke, no, config)
        if done := effects(journal_of(folder).lives()):
            return other, f"it led to {done}"
        if graph.get_state(config).next:
            return other, "it stays: the node failed, and failed again when the rejection came"
    return None


# %% [markdown]
# ## Fix it: a "no" that stays a no
#
# A web form sends what was clicked: "approve" or "reject", or, when something is wrong with it, anything else. Write
#
# * `to_command(clicked)`: it returns the `Command` for "approve" and for "reject", and raises a `ValueError` for
#   everything else, so that nothing else reaches the thread.
# * `approve_clicked(state, world)`: the node that asks once, shows `state["patch"]` and sets `approved`. It approves
#   just what your `to_command` makes of "approve" (`1` is not `True`), whatever else somebody may put into a `Command`.
#   Such an answer must not block the thread either: it counts as a no, or a "reject" after it still does.
#
# Which value stands for yes and which for no is up to you.


# %% answer id="no_stays"
def to_command(clicked):
    """Turn a click into an answer, or refuse it."""
    ### BEGIN SOLUTION
    if clicked not in ("approve", "reject"):
        raise ValueError(f"{clicked!r} is no decision")
    return Command(resume={"decision": clicked})
    ### END SOLUTION


def approve_clicked(state, world):
    """Ask about the patch."""
    ### BEGIN SOLUTION
    decision = interrupt({"patch": state["patch"]})
    return {"approved": decision == {"decision": "approve"}}
    ### END SOLUTION


# %% wrong loses="no_stays_no" why="looks for the word in the answer"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume="yes" if clicked == "approve" else "no")


def approve_clicked(state, world):
    return {"approved": "yes" in str(interrupt(state["patch"]))}


# %% wrong loses="no_stays_no" why="the first letter will do"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume="yes" if clicked == "approve" else "no")


def approve_clicked(state, world):
    return {"approved": str(interrupt(state["patch"])).startswith("y")}


# %% wrong loses="no_stays_no" why="several words for yes"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume="yes" if clicked == "approve" else "no")


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) in ("yes", "y", "ok", True)}


# %% wrong loses="no_stays_no" why="1 equals True"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=clicked == "approve")


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) == True}  # noqa: E712


# %% wrong loses="no_stays_no" why="a schema of bool, which makes True of a y"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=clicked == "approve")


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"], response_schema=bool) is True}


# %% wrong loses="no_stays_no" why="raises at any other answer, and that answer stays"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=clicked)


def approve_clicked(state, world):
    said = interrupt(state["patch"])
    if said not in ("approve", "reject"):
        raise ValueError(said)
    return {"approved": said == "approve"}


# %% wrong loses="no_stays_no" why="asks in a loop until the answer fits"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=clicked)


def approve_clicked(state, world):
    said = None
    while said not in ("approve", "reject"):
        said = interrupt(state["patch"])
    return {"approved": said == "approve"}


# %% wrong loses="no_stays_no" why="looks at one field of the answer"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume={"ok": clicked == "approve"})


def approve_clicked(state, world):
    said = interrupt({"patch": state["patch"]})
    return {"approved": isinstance(said, dict) and bool(said.get("ok"))}


# %% wrong loses="no_stays_no" why="shows no patch"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=clicked)


def approve_clicked(state, world):
    return {"approved": interrupt("May I?") == "approve"}


# %% wrong loses="no_stays_no" why="the node forgives what stands behind the word"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=clicked)


def approve_clicked(state, world):
    return {"approved": str(interrupt(state["patch"])).rstrip() == "approve"}


# %% wrong loses="no_stays_no" why="the node forgives an exclamation mark"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=clicked)


def approve_clicked(state, world):
    return {"approved": str(interrupt(state["patch"])).rstrip("!") == "approve"}


# %% wrong loses="no_refuses" why="takes what begins with approve"
def to_command(clicked):
    if isinstance(clicked, str) and clicked.startswith(("approve", "reject")):
        return Command(resume=clicked.startswith("approve"))
    raise ValueError(clicked)


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) is True}


# %% wrong loses="no_refuses" why="takes synonyms"
def to_command(clicked):
    if clicked in ("approve", "accept", "ok"):
        return Command(resume="approve")
    if clicked in ("reject", "deny"):
        return Command(resume="reject")
    raise ValueError(clicked)


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) == "approve"}


# %% wrong loses="no_stays_no" why="None stands for a rejection"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=True if clicked == "approve" else None)


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) is True}


# %% wrong loses="no_stays_no no_refuses" why="an answer that is not empty is a yes"
def to_command(clicked):
    return Command(resume={"approve": "yes", "reject": "no"}.get(clicked, ""))


def approve_clicked(state, world):
    return {"approved": bool(interrupt(state["patch"]))}


# %% wrong loses="no_stays_no" why="what is not a no is a yes"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=clicked)


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) != "reject"}


# %% wrong loses="no_refuses" why="everything else is a rejection"
def to_command(clicked):
    return Command(resume="yes" if clicked == "approve" else "no")


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) == "yes"}


# %% wrong loses="no_stays_no no_refuses" why="the node refuses what is neither"
def to_command(clicked):
    return Command(resume=clicked)


def approve_clicked(state, world):
    said = interrupt(state["patch"])
    if said not in ("approve", "reject"):
        raise ValueError(said)
    return {"approved": said == "approve"}


# %% wrong loses="no_stays_no" why="an empty map stands for no"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume={"ok": True} if clicked == "approve" else {})


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) == {"ok": True}}


# %% wrong loses="no_stays_no" why="numbers, and 1 is as good as True and 1.0"
def to_command(clicked):
    if clicked not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=int(clicked == "approve"))


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) > 0}


# %% wrong loses="no_refuses" why="takes an Approve in capitals and with spaces too"
def to_command(clicked):
    word = str(clicked).strip().lower()
    if word not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=word)


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) == "approve"}


# %% wrong loses="no_refuses" why="forgives what stands behind the word"
def to_command(clicked):
    word = clicked.rstrip(" \n!") if isinstance(clicked, str) else None
    if word not in ("approve", "reject"):
        raise ValueError(clicked)
    return Command(resume=word)


def approve_clicked(state, world):
    return {"approved": interrupt(state["patch"]) == "approve"}


# %% right why="True and False"
def to_command(clicked):
    return {"approve": Command(resume=True), "reject": Command(resume=False)}[check(clicked)]


def check(clicked):
    if clicked == "approve" or clicked == "reject":
        return clicked
    raise ValueError("neither")


def approve_clicked(state, world):
    return {"approved": interrupt({"patch": state["patch"]}) is True}


# %% right why="a schema, which lets nothing else through, and another answer can follow"
def to_command(clicked):
    if isinstance(clicked, str) and clicked in ("approve", "reject"):
        return Command(resume=clicked)
    raise ValueError("approve or reject")


def approve_clicked(state, world):
    said = interrupt(f"{state['patch']}?", response_schema=Literal["approve", "reject"])
    return {"approved": said == "approve"}


# %% right why="True and False in a map"
def to_command(clicked):
    for known, answer in (("approve", True), ("reject", False)):
        if clicked == known:
            return Command(resume={"ok": answer})
    raise ValueError(f"{clicked!r}")


def approve_clicked(state, world):
    said = interrupt({"ask": "Is this right?", "patch": state["patch"]})
    return {"approved": said == {"ok": True}}


# %% right why="leads back to the node after an answer that does not fit"
def to_command(clicked):
    if isinstance(clicked, str) and clicked in ("approve", "reject"):
        return Command(resume=[clicked, "by form"])
    raise ValueError("approve or reject")


def approve_clicked(state, world):
    said = interrupt({"show": state["patch"]})
    if said in (["approve", "by form"], ["reject", "by form"]):
        return {"approved": said[0] == "approve"}
    return Command(goto="approve", update={"approved": False})


# %% test id="no_stays_no" points=1
clicked_graph = patch_graph(propose, approve_clicked, apply)
for clicked, number in (("reject", 0), ("approve", 1)):
    command = tried(to_command, clicked)
    assert isinstance(command, Command), f"to_command({clicked!r}) gave {command!r}, not a Command"
    story = through(clicked_graph, command)
    assert len(story.asked[0]) == 1 and not story.waits, (
        f"{clicked}: after each process the open questions were {story.asked}; expected one, then "
        "none. Does the answer arrive?"
    )
    problem = not_done(story, apply_the_patch=number)
    assert not problem, f"{clicked}: {problem}. What does the node take for a yes?"
    assert story.state["patch"] in str(story.asked[0][0]), (
        f"the question was {story.asked[0][0]!r}; expected that it shows {story.state['patch']!r}."
    )

yes, no = to_command("approve"), to_command("reject")
with WorkFolder.fresh() as folder:
    trial = launch(mistaken, folder, clicked_graph, like(yes.resume), no, echo=False, deadline=60)
wrong = trial.result()
assert not wrong, (
    f"somebody else gave Command(resume={wrong[0]!r}), which to_command does not make, and "
    f"{wrong[1]}. The answer that approves is {yes.resume!r}."
)

# %% test id="no_refuses" points=1
CLICKS = [None, {}, "", [], 0, 1, True, False, "yes", "no", "Approve", " approve", ["approve"]]
WORDS_LIKE = ["approved", "approve, but", "rejected", "accept", "ok", "deny", "cancel", "a", "1"]
WORDS_LIKE += ["approve ", "approve\n", "approve!", "reject ", "reject\n"]
for other in CLICKS + WORDS_LIKE:
    found = tried(to_command, other)
    assert isinstance(found, ValueError), (
        f"to_command({other!r}) gave {found!r}; expected a ValueError."
    )

# %% [markdown]
# ## Prove it
#
# Until now processes ended in peace. Now kill them: before every line of your three nodes, before the pause,
# between question and answer, and after it. `with_a_person` makes a run that looks where its thread stands, like any
# runner: a new one gets the input, an open question its yes, anything else `None`.


# %%
def with_a_person(make):
    """A run that goes to its end, with a person who says yes to all that is asked."""

    def ask_and_apply(folder):
        with opened(folder, make) as graph:
            while (state := graph.get_state(RUN)).tasks or state.created_at is None:
                given = YES if state.interrupts else None if state.created_at else INPUT
                graph.invoke(given, RUN, durability="sync")

    return ask_and_apply


def judge_effects(*words):
    """A judge: was each of these effects done once?"""

    def judge(folder):
        counts = [Story([], journal_of(folder).lives(), {}).done[word] for word in words]
        return "lost" if 0 in counts else "once" if set(counts) == {1} else "twice"

    return judge


explore(
    with_a_person(patch_graph(propose_once, approve_once, apply_once)),
    WorkFolder.fresh,
    judge_effects("mail to the reviewer", "reserve a machine", "apply the patch"),
    inside=[propose_once, approve_once, apply_once],
)

# %% [markdown]
# Read your map. A node that asks and does nothing else may be killed anywhere. So may an effect with a key of its run:
# if all of yours have one, the map is clean. If not, the lines that harm are those after an effect, as long as the
# node has not ended: a kill makes it run again, pause or no pause.
#
# (After a kill in `approve` a person may be asked twice, and the second answer may be another one.)
#
# What protects is what `03_crash_window` gave you, a key. Write `certain_apply(state, world)`. It
# reserves a machine and applies the patch, each once a run, wherever a kill falls, and whichever process goes on;
# another run does both again. A service that gets a key that it knows does nothing, whatever else it was asked to do.


# %% answer id="certain_apply"
def certain_apply(state, world):
    """Reserve a machine and apply the patch, each once a run."""
    ### BEGIN SOLUTION
    world.do("reserve a machine", key=f"{state['run']}: machine")
    world.do("apply the patch", key=f"{state['run']}: patch")
    return {"applied": True}
    ### END SOLUTION


# %% wrong loses="certain_kills" why="what is in a later node is done once"
def certain_apply(state, world):
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}


# %% wrong loses="certain_kills" why="one key for the node"
def certain_apply(state, world):
    world.do("reserve a machine", key=state["run"])
    world.do("apply the patch", key=state["run"])
    return {"applied": True}


# %% wrong loses="certain_kills" why="a key that is new each time"
def certain_apply(state, world):
    world.do("reserve a machine", key=f"machine {uuid.uuid4()}")
    world.do("apply the patch", key=f"patch {uuid.uuid4()}")
    return {"applied": True}


# %% wrong loses="certain_kills" why="the same keys for all runs"
def certain_apply(state, world):
    world.do("reserve a machine", key="machine")
    world.do("apply the patch", key="patch")
    return {"applied": True}


# %% wrong loses="certain_kills" why="a hash of the run, which another interpreter makes anew"
def certain_apply(state, world):
    world.do("reserve a machine", key=hash(state["run"] + "a"))
    world.do("apply the patch", key=hash(state["run"] + "b"))
    return {"applied": True}


# %% wrong loses="certain_kills" why="a flag in the state, which is saved when the node ends"
def certain_apply(state, world):
    if state.get("applied"):
        return {}
    world.do("reserve a machine")
    world.do("apply the patch")
    return {"applied": True}


# %% wrong loses="certain_kills" why="a key for the patch alone"
def certain_apply(state, world):
    world.do("reserve a machine")
    world.do("apply the patch", key=f"{state['run']}: patch")
    return {"applied": True}


# %% right why="keys made of the run and the effect, in a loop"
def certain_apply(state, world):
    for effect in ("reserve a machine", "apply the patch"):
        world.do(effect, key="/".join([effect, state["run"]]))
    return {"applied": True}


# %% test id="certain_kills" points=1
certain = patch_graph(propose, approve, certain_apply)
report = explore(
    with_a_person(certain),
    WorkFolder.fresh,
    judge_effects("reserve a machine", "apply the patch"),
    inside=[approve, certain_apply, World.do],
)
assert report.clean, (
    f"{report.verdict()}. Each effect has to be done once, with a key of its own that stays the "
    "same when the node runs again. To see all kills, run report in a cell of its own."
)
found = through(certain, YES, runs=TWO).done
assert found == {"reserve a machine": 2, "apply the patch": 2}, (
    f"two runs in one world did {dict(found)}; expected both effects twice. Whose key is it?"
)


def certain_then_killed(state, world):
    certain_apply(state, world)
    return {"applied": True}  # not reached


with WorkFolder.fresh() as folder:
    first = patch_graph(propose, approve, certain_then_killed)
    launch(one_process, folder, first, INPUT, echo=False).result()
    launch(one_process, folder, first, YES, kill_before="# not reached", echo=False)
    launch(one_process, folder, certain, None, echo=False, fresh=True, deadline=60).result()
    found = Story([], journal_of(folder).lives(), {}).done
assert found == {"reserve a machine": 1, "apply the patch": 1}, (
    f"killed at the end of the node, then continued in a new interpreter: {dict(found)}; expected "
    "each once. Is the key the same in every process?"
)

# %%
report

# %% [markdown]
# The map also kills inside `do`. **Rule 6: consent is no key.** What happens below a pause can be killed, too.
#
# ## A no is an answer to the model, too
#
# So far a "no" ended the run. For an agent it need not. A model asked for a tool; give it the refusal as the result of
# its call, with the reason, and it may find another way. The replies of this model were written down beforehand.


# %%
def calls(text, name, **args):
    return AIMessage(text, tool_calls=[{"name": name, "args": args, "id": f"call of {name}"}])


REPLIES = [
    calls("I switch the tests off in the file.", "patch", file="CMakeLists.txt"),
    calls("Then on the command line.", "configure", flag="-DRE2_BUILD_TESTING=OFF"),
    AIMessage("re2 is configured, and no file was patched."),
]


def model(state, world):
    return {"messages": [ScriptedModel(responses=REPLIES).invoke(state["messages"])]}


def tool(state, world):
    [call] = state["messages"][-1].tool_calls
    answer = interrupt({"may I": call["name"], **call["args"]})
    if answer == "yes":
        world.do(f"{call['name']} {json.dumps(call['args'])}", key=call["id"])
        return {"messages": [ToolMessage("done", tool_call_id=call["id"])]}
    said = f"The reviewer refused: {answer}"
    return {"messages": [ToolMessage(said, tool_call_id=call["id"], status="error")]}


def agent(world):
    flow = Flow(world, MessagesState)
    flow.add_node("model", model).add_node("tool", tool)
    flow.add_edge(START, "model").add_edge("tool", "model")
    flow.add_conditional_edges("model", lambda s: "tool" if s["messages"][-1].tool_calls else END)
    return flow


# %%
REFUSED = Command(resume="do not touch that file, it is upstream's")

with WorkFolder.fresh() as folder:
    task = {"messages": [HumanMessage("Configure re2 for arm64.")]}
    for given in (task, REFUSED, YES):
        state = launch(one_process, folder, agent, given).result()
    for message in state["messages"]:
        print(f"{message.type:6}", message.content)
    print("done: ", effects(journal_of(folder).lives()))

# %% [markdown]
# The call has its result, so the conversation is whole, and the reason is in it. (`09_approval_desk` goes on from
# here.)
#
# ## The six rules
#
# 1. Nothing happens above a pause that may not happen again.
# 2. Let the pause pass: no broad `except` and no `finally` around it.
# 3. What is shown is what runs, and questions depend on nothing but the state.
# 4. One pause for each run of a node, and answers that name their question.
# 5. An answer that a node has had stays: check it before you give it. A no is a value of its own, and no plain answer
#    is `None` or `{}`.
# 6. Consent is no key: what happens below a pause can be killed like everything else.

# %% [markdown]
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"Why did `approve` run twice, and what does that demand of
# your code? And why not just wait with `input()`?"*
#
# <details><summary>One way to say it</summary>
#
# "interrupt stops the node by an exception. The question is saved, the process may end, and local variables are gone.
# When the answer comes, the whole node runs again from its first line, and this time interrupt returns the answer. So
# it is entered once for the question and once for the answer: n pauses in one node are n plus one entries. That demands
# that nothing above a pause may hurt when it is repeated: effects go below, or into another node, or get a key; times
# and random numbers are made in an earlier node. I do not catch the pause with a broad except. Answers are matched by
# position, so I have one pause per node, loop through an edge, and answer by id. I check an answer before I give it,
# because it stays. input() would hold a process for as long as a person thinks, and a restart would end it. interrupt
# holds none: the question is a row in a database, and any process can give the answer."
# </details>
#
# **Often confused:** *pause* and *crash*. After both the node runs again from its first line. But a pause is saved, as
# a question, and its run goes on with an answer. A crash saves nothing of the node, and `invoke(None)` makes it run:
# to its end, or to a pause whose answer was not saved. Also *resume* and *replay*: a resume gives an answer to a
# question that is open, at the newest checkpoint; a replay goes back to an older one, and what came after it runs
# again.
#
# **They may ask next:**
#
# * The person says yes, and the process is killed: in `approve` below the pause, or in `apply`. Is the person asked
#   again?
# * A hundred questions are open for a week. What do they cost, and how do you find the ones nobody will answer?
