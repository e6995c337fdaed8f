# %% [markdown]
# # 15 · Self-test
#
# **Can you say what happens at every line, with the book closed?**
#
# 240 minutes · 100 points · before this: all notebooks of parts 1 and 2, closed
#
# Fourteen questions. Each has a part that the machine decides, for 5 points: you predict, or write a few lines, and the
# check runs the thing and compares. And each has a part that you say: aloud, in a minute, as to somebody who asks. Then
# write down what you said, 60 to 150 words. A person gives the points: 2 if you said all that must be said, 1 for half
# of it. Two questions have a third one for depth. Begin with the answer, then say why, then where it ends.
#
# In a class that person is your instructor. On your own, say it to `crashlab drill`, which has the same questions and
# shows what must be said. Be strict.
#
# The book is closed. All that a question refers to is on this page, but for what a method of LangGraph is called.
# A check that fails shows what was measured, and what measures it can be called. So what counts is your first answer.
# The questions do not need each other: run the imports, take them in any order, a few on each day. One takes a quarter
# of an hour.

# %%
import contextlib
import hashlib
import inspect
import json
import operator
import os
import random
import shutil
import smtplib
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from email.message import EmailMessage
from functools import cache, partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer
from threading import Thread
from types import SimpleNamespace
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Command, Send, interrupt

from crashlab import Journal, WorkFolder, explore, launch
from crashlab.figures import side_by_side
from crashlab.quiz import differs
from crashlab.source import line_text
from crashlab.watch import renames
from crashlab.world import mail_service

print("Python", sys.version.split()[0], "on", sys.platform)
for package in ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"):
    print(package, version(package))

# %% [markdown]
# ## 1 · Messages only

# %% question id="messages-only"

# %% [markdown]
# Here is an agent that publishes a library, and the state it keeps. It saves the whole state at the start of each
# turn. Its deeds are recorded outside (`folder.perform`). A call works only over a connection that its process has
# opened. Publishing needs the consent of a person: one turn asks, and the reply is there in the next.


# %%
def q1_new_run():
    return {
        "connected": False,
        "done": {},
        "files": [],
        "left": 0,
        "messages": [],
        "position": 0,
        "question": None,
        "retries": 0,
        "spent": 0,
        "status": "",
    }


def q1_outside(folder, connections, call, busy):
    answer = "ok"
    if not connections:
        answer = "error: no connection"
    elif call.startswith("publish") and busy:
        answer = "error: busy"
    elif call == "tag":
        answer = "ok v7"
    elif call.startswith("build"):
        (folder.path / "lib.whl").write_text(call)
    folder.perform(f"{call} -> {answer}")
    return answer


def q1_call_for(task, state):
    words = [task]
    if task == "build":
        words.append(state["done"]["tag"])
    elif task == "announce":
        words += state["files"] + [text for text in state["messages"] if "beta" in text][:1]
    return " ".join(words)


# %%
Q1_TASKS = ["tag", "build", "publish", "announce"]
Q1_YES = "person: yes, as a beta"


def q1_save(folder, state):
    new = folder.path / "new.json"
    new.write_text(json.dumps(state))
    os.replace(new, folder.checkpoint)


def q1_agent(folder, state, budget, busy):
    connections = []
    while True:
        messages = state["messages"]
        ok = [n for n, text in enumerate(messages, 1) if not text.startswith("error")]
        state["retries"] = len(messages) - max(ok, default=0)
        state["position"] = len(state["done"])
        state["left"] = budget - state["spent"]
        state["files"] = sorted(path.name for path in folder.path.glob("*.whl"))
        state["status"] = f"{state['position']} of 4 done"
        q1_save(folder, state)
        if state["position"] == 4 or state["left"] == 0 or state["retries"] == 3:
            folder.perform(f"stop: {state['status']}")
            return
        if not state["connected"]:
            connections.append("open")
            state["connected"] = True
        task = Q1_TASKS[state["position"]]
        if task == "publish" and Q1_YES not in messages:
            if state["question"] is None:
                folder.perform("ask a person: may I publish?")
                state["question"] = "may I publish?"
                continue
            messages.append(Q1_YES)
            state["question"] = None
        answer = q1_outside(folder, connections, q1_call_for(task, state), busy)
        state["spent"] += 1
        if answer.startswith("ok"):
            state["done"][task] = answer.removeprefix("ok ")
        messages.append(answer)


# %% [markdown]
# Three runs. Each is repeated with a kill at the start of its first turn, of its second, and so on: just after the
# save, before anything else in that turn. There are no other kills, so none falls within a turn. After each of them a
# new process starts from `q1_new_run()` and takes over from the save the fields that you name, and no others.
#
# Write the **smallest** set of fields with which what is left of each run goes as it would have gone without the kill,
# in whichever turn the kill falls. Smallest for this code as it stands: a field that could be taken over or not, with
# no difference to what happens outside, is one too many.

# %%
Q1_RUNS = {"plain": (9, False), "small budget": (3, False), "busy": (9, True)}
Q1_KILLED = {}
q1_attic = tempfile.TemporaryDirectory(prefix="crashlab-")


def q1_first(folder, *run):
    q1_agent(folder, q1_new_run(), *run)


def q1_resume(folder, fields, *run):
    saved = json.loads(folder.checkpoint.read_text())
    q1_agent(folder, q1_new_run() | {field: saved[field] for field in fields}, *run)


for q1_name, q1_run in Q1_RUNS.items():
    with WorkFolder.fresh() as folder:
        launch(q1_first, folder, *q1_run).result()
        q1_deeds = folder.performed()
    for q1_turn in range(1, len(q1_deeds) + 1):
        folder = WorkFolder(Path(tempfile.mkdtemp(dir=q1_attic.name)))
        q1_life = launch(
            q1_first, folder, *q1_run, kill_before='if state["position"]', visit=q1_turn
        )
        assert q1_life.end == "killed", q1_life
        Q1_KILLED[q1_name, q1_turn] = (folder, q1_deeds[len(folder.performed()) :])

print(len(Q1_KILLED), "runs killed")


@cache
def q1_damage(fields, *runs):
    """Say in a sentence where a resume with exactly these fields first goes another way, or ""."""
    for (name, turn), (left, expected) in Q1_KILLED.items():
        if name not in runs:
            continue
        with WorkFolder.fresh() as folder:
            shutil.copytree(left.path, folder.path, dirs_exist_ok=True)
            life = launch(q1_resume, folder, sorted(fields), *Q1_RUNS[name], echo=False)
            rest = folder.performed()[len(left.performed()) :]
        rest += [] if life.end == "finished" else [str(life)]
        for seen, right in zip([*rest, "nothing"], [*expected, "nothing"], strict=False):
            if seen != right:
                return (
                    f"the run '{name}', killed at the start of turn {turn} and resumed, went on with "
                    f"{seen!r}; expected, as without a kill, {right!r}"
                )
    return ""


def q1_wrong_form():
    """Say in a sentence why q1_fields is no set of names of fields, or ""."""
    if "q1_fields" not in globals():
        return "there is no q1_fields yet: run the cell s1_fields with your set in it"
    known = list(q1_new_run())
    if not isinstance(q1_fields, list | tuple | set | frozenset):
        return f"q1_fields is {q1_fields!r}; expected a set of names of fields"
    unknown = [name for name in q1_fields if name not in known]
    return f"q1_fields holds {unknown[0]!r}, which is no field of q1_new_run()" if unknown else ""


# %% answer id="s1_fields"
# A set of names of fields, such as {"status", "files"}
### BEGIN SOLUTION
q1_fields = {"messages", "done", "question", "spent"}
### END SOLUTION

# %% wrong loses="s1_runs s1_budget s1_smallest" why="the history is the state"
q1_fields = {"messages"}

# %% wrong loses="s1_runs s1_budget s1_smallest" why="what is saved is safe, so save it all"
q1_fields = set(q1_new_run())

# %% wrong loses="s1_runs s1_budget s1_smallest" why="progress is the position"
q1_fields = {"messages", "position", "question", "spent"}

# %% wrong loses="s1_budget s1_smallest" why="what is left of the budget is the budget"
q1_fields = {"messages", "done", "question", "left"}

# %% wrong loses="s1_runs s1_budget s1_smallest" why="the question stands in the messages"
q1_fields = {"messages", "done", "spent"}

# %% wrong loses="s1_runs s1_budget s1_smallest" why="a connection that was opened is open"
q1_fields = {"messages", "done", "question", "spent", "connected"}

# %% wrong loses="s1_runs s1_smallest" why="what was done, with its results, makes the messages needless"
q1_fields = {"done", "question", "spent", "retries"}

# %% wrong loses="s1_smallest" why="the files are not in the messages, so they must be saved"
q1_fields = {"messages", "done", "question", "spent", "files"}

# %% wrong loses="s1_runs s1_budget s1_smallest" why="one name as a text"
q1_fields = "messages"

# %% right why="a list, by taking away"
q1_fields = [
    name
    for name in q1_new_run()
    if name not in ("connected", "files", "left", "position", "retries", "status")
]

# %% [markdown]
# The first two checks resume the killed runs with exactly your fields. The third one also leaves out one of them at a
# time: each must be missed somewhere.

# %% test id="s1_runs" points=2
problem = q1_wrong_form()
assert not problem, f"{problem}."
problem = q1_damage(frozenset(q1_fields), "plain", "busy")
assert not problem, (
    f"{problem}. Which field decides that: one that you left out, or one that says what is no longer so?"
)

# %% test id="s1_budget" points=1
problem = q1_wrong_form()
assert not problem, f"{problem}."
problem = q1_damage(frozenset(q1_fields), "small budget")
assert not problem, (
    f"{problem}. Which field decides that: one that you left out, or one that says what is no longer so?"
)

# %% test id="s1_smallest" points=2
problem = q1_wrong_form()
assert not problem, f"{problem}."
problem = q1_damage(frozenset(q1_fields), *Q1_RUNS)
assert not problem, f"{problem}. First make the set sufficient."
q1_missed = {}
for q1_name in sorted(q1_fields):
    q1_missed[q1_name] = q1_damage(frozenset(q1_fields) - {q1_name}, *Q1_RUNS)
    assert q1_missed[q1_name], (
        f"at least one of your fields is not missed: without it all {len(Q1_KILLED)} killed runs "
        "go on as without a kill; expected that each is missed in one. For each of them: who reads "
        "it, and what was written to it just before?"
    )
for q1_name, q1_sentence in q1_missed.items():
    print(f"without {q1_name}: {q1_sentence}\n")

# %% spoken id="s1_say" question="messages-only" points=2

# %% [markdown]
# ## 2 · First a temporary file, then replace

# %% question id="temp-then-replace"

# %% [markdown]
# Four saves that somebody wrote to be safe. All four put `state` at `path`, as JSON. Here `path` holds `Q2_OLD`,
# whole, and `Q2_NEW` is saved. Afterwards a new process reads the file at `path`, and looks nowhere else.

# %%
Q2_OLD = {"done": ["clone zlib", "build zlib"], "note": "waiting for a free builder"}
Q2_NEW = {"done": ["clone zlib", "build zlib", "install zlib"]}


# %%
def q2_aside(path, state):
    text = json.dumps(state)
    aside = path.with_name("aside.json")
    if path.exists():
        os.replace(path, aside)
    file = path.open("w")
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
    file.close()
    aside.unlink(missing_ok=True)


# %%
def q2_over(path, state):
    text = json.dumps(state)
    with path.open("r+") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        file.truncate(len(text))
        os.fsync(file.fileno())


# %%
def q2_copy(path, state):
    new = path.with_name("new.json")
    new.write_text(json.dumps(state))
    data = new.read_bytes()
    file = path.open("wb", buffering=0)
    file.write(data)
    file.close()
    new.unlink()


# %%
def q2_backup(path, state):
    new = path.with_name("new.json")
    kept = path.with_name("kept.json")
    with new.open("w") as file:
        json.dump(state, file)
    if path.exists():
        shutil.copy(path, kept)
    os.replace(new, path)
    kept.unlink(missing_ok=True)


# %%
Q2_SAVES = {"aside": q2_aside, "over": q2_over, "copy": q2_copy, "backup": q2_backup}


def q2_lines(save):
    lines, first = inspect.getsourcelines(save)
    return {number: line.rstrip() for number, line in enumerate(lines, first)}


for q2_save in Q2_SAVES.values():
    print(*[f"{number:>4} {line}" for number, line in q2_lines(q2_save).items()], "", sep="\n")

# %% [markdown]
# For each save, list the numbers of the lines before which a kill leaves at `path` neither the old save whole nor the
# new one whole. The process dies by SIGKILL; the machine runs on. Only kills *before* a line count, not those within
# one. A line that comes up twice, such as a `with` (to enter and to leave), is listed if one of its kills does harm. A
# list may be empty.


# %%
@contextmanager
def q2_folder():
    with WorkFolder.fresh() as folder:
        folder.checkpoint.write_text(json.dumps(Q2_OLD), encoding="utf-8")
        yield folder


def q2_left(folder):
    if not folder.checkpoint.exists():
        return "lost"
    try:
        state = json.loads(folder.checkpoint.read_bytes())
    except ValueError:
        return "torn"
    return "old" if state == Q2_OLD else "new" if state == Q2_NEW else "torn"


@cache
def q2_map(save):
    def q2_one_save(folder):
        save(folder.checkpoint, Q2_NEW)

    return explore(q2_one_save, q2_folder, q2_left, inside=[save], restart=False)


def q2_problem(name, hint=""):
    """A sentence on the first line of one save that was listed wrongly, or ""."""
    if "q2_windows" not in globals():
        return "there is no q2_windows yet: run the cell s2_windows with your dict in it."
    if not isinstance(q2_windows, dict):
        return f"q2_windows is {q2_windows!r}; expected a dict of four lists of line numbers."
    save, numbers = Q2_SAVES[name], q2_windows.get(name)
    if not isinstance(numbers, list | tuple | set):
        return f"q2_windows holds {numbers!r} for {name!r}; expected a list of line numbers."
    strange = [number for number in numbers if number not in list(q2_lines(save))]
    if strange:
        return f"{name}: there is no line {strange[0]!r} in it."

    window = {line for _, line in q2_map(save).window}
    for number, text in q2_lines(save).items():
        if (number in window) != (number in numbers):
            kills = [kill for kill in q2_map(save).kills if kill.point.line == number]
            found = " or ".join(sorted({repr(kill.outcome) for kill in kills}))
            seen = f"a kill before it left {found}" if found else "nothing runs there"
            said = "you listed it" if number in numbers else "you did not list it"
            return f"{name}, line {number} `{text.strip()}`: {said}, and {seen}. {hint}"
    return ""


# %% answer id="s2_windows"
# A dict of four lists of line numbers, such as {"aside": [2, 3], "over": [], "copy": [4], "backup": [2]}
### BEGIN SOLUTION
q2_windows = {"aside": [6, 7, 8], "over": [6, 7], "copy": [6], "backup": []}
### END SOLUTION

# %% wrong loses="s2_aside s2_over s2_copy" why="all four are safe: each has another file, or an fsync"
q2_windows = {"aside": [], "over": [], "copy": [], "backup": []}

# %% wrong loses="s2_aside" why="the old save is still there, under another name"
q2_windows = {"aside": [7, 8], "over": [6, 7], "copy": [6], "backup": []}

# %% wrong loses="s2_aside" why="only fsync makes a write outlive a kill"
q2_windows = {"aside": [6, 7, 8, 9], "over": [6, 7], "copy": [6], "backup": []}

# %% wrong loses="s2_over" why="opening a file for writing empties it, in whatever mode"
q2_windows = {"aside": [6, 7, 8], "over": [4, 5, 6, 7], "copy": [6], "backup": []}

# %% wrong loses="s2_copy" why="data waits in a buffer until the close, with no buffer too"
q2_windows = {"aside": [6, 7, 8], "over": [6, 7], "copy": [6, 7], "backup": []}

# %% wrong loses="s2_backup" why="a replace leaves a moment with no file"
q2_windows = {"aside": [6, 7, 8], "over": [6, 7], "copy": [6], "backup": [8, 9]}

# %% wrong loses="s2_aside s2_over s2_copy s2_backup" why="one list for all four"
q2_windows = [6, 7, 8]

# %% right why="sets and tuples"
q2_windows = {
    "backup": set(),
    "copy": (6,),
    "over": {6, 7},
    "aside": tuple(range(6, 9)),
}

# %% [markdown]
# The checks kill each save before every line. The last one draws the crash maps of those that you have right.

# %% test id="s2_aside" points=2
problem = q2_problem(
    "aside", "Which file has the name at that moment, and how much of the text is in it?"
)
assert not problem, problem

# %% test id="s2_over" points=1
problem = q2_problem("over", "What does 'r+' leave in the file, and how long are the two texts?")
assert not problem, problem

# %% test id="s2_copy" points=1
problem = q2_problem("copy", "When is the file at path emptied, and when is it filled?")
assert not problem, problem

# %% test id="s2_backup" points=1
problem = q2_problem("backup", "Which lines change the file at path?")
assert not problem, problem
side_by_side({name: q2_map(save) for name, save in Q2_SAVES.items() if not q2_problem(name)})

# %% spoken id="s2_say" question="temp-then-replace" points=2

# %% [markdown]
# ## 3 · After the effect, before the save

# %% question id="after-effect-before-save"

# %% [markdown]
# Step 9 of a run has one effect: a line in a file, or an order at a service. The service keeps its orders whatever
# becomes of the agent. An order that comes with a **key** (a name for one intended effect) is taken once for each key.


# %%
class Q3Service:
    def __init__(self, folder):
        self.file = folder.path / "orders.txt"

    def orders(self):
        return self.file.read_text().splitlines() if self.file.exists() else []

    def order(self, key="no key"):
        if key == "no key" or key not in self.orders():
            with self.file.open("a") as file:
                file.write(f"{key}\n")

    def slow_list(self):
        """All orders but the newest: this list is always one order behind."""
        return self.orders()[:-1]


def q3_save(folder, state):
    new = folder.path / "new.json"
    new.write_text(json.dumps(state))
    os.replace(new, folder.checkpoint)


def q3_agent(folder, way):
    saved = folder.checkpoint.exists()
    state = json.loads(folder.checkpoint.read_text()) if saved else {"done": []}
    if "step-9" not in state["done"]:
        Q3_WAYS[way](folder, state)
        state["done"].append("step-9")
        q3_save(folder, state)


# %% [markdown]
# The effect is done in one of these ways. The first four write to `built.txt`, the others order.


# %%
def q3_built(folder):
    file = folder.path / "built.txt"
    return file.read_text() if file.exists() else ""


def q3_append(folder, state):
    with (folder.path / "built.txt").open("a") as file:
        file.write("zlib\n")


def q3_whole(folder, state):
    (folder.path / "built.txt").write_text("zlib\n")


def q3_whole_longer(folder, state):
    (folder.path / "built.txt").write_text(q3_built(folder) + "zlib\n")


def q3_longer_noted(folder, state):
    if "text" not in state:
        state["text"] = q3_built(folder) + "zlib\n"
        q3_save(folder, state)
    (folder.path / "built.txt").write_text(state["text"])


# %%
def q3_step_key(folder, state):
    Q3Service(folder).order("run-217/step-9")


def q3_attempt_key(folder, state):
    state["attempt"] = state.get("attempt", 0) + 1
    q3_save(folder, state)
    Q3Service(folder).order(f"run-217/step-9/{state['attempt']}")


def q3_drawn_key(folder, state):
    state["key"] = state.get("key") or uuid.uuid4().hex
    Q3Service(folder).order(state["key"])


def q3_drawn_key_saved(folder, state):
    state["key"] = state.get("key") or uuid.uuid4().hex
    q3_save(folder, state)
    Q3Service(folder).order(state["key"])


def q3_ask(folder, state):
    if not Q3Service(folder).orders():
        Q3Service(folder).order()


def q3_ask_slow(folder, state):
    if not Q3Service(folder).slow_list():
        Q3Service(folder).order()


def q3_done_first(folder, state):
    q3_save(folder, {"done": ["step-9"]})
    service = Q3Service(folder)
    service.order()


# %% [markdown]
# For each way, the agent is started three times. The first two processes are to be killed when the effect is done and
# `q3_agent` has not yet saved the step: just before `state["done"].append("step-9")`. The third runs to its end. Only
# for the last way the place is another one: just before `service.order()`. A process that never comes to its line is
# not killed.

# %%
Q3_FILES = {
    "append a line": q3_append,
    "write the whole file": q3_whole,
    "write the whole file, one line longer": q3_whole_longer,
    "the same, the text saved before": q3_longer_noted,
}
Q3_ORDERS = {
    "key of the step": q3_step_key,
    "key of the attempt": q3_attempt_key,
    "key drawn": q3_drawn_key,
    "key drawn, saved before": q3_drawn_key_saved,
    "ask first": q3_ask,
    "ask first, in the slow list": q3_ask_slow,
    "saved as done first": q3_done_first,
    "saved as done first, killed before the order": q3_done_first,
}
Q3_WAYS = Q3_FILES | Q3_ORDERS


def q3_count(way):
    """Two processes that are killed, one that is not; how many lines or orders are there then?"""
    before = "service.order()" if "killed before" in way else 'state["done"].append("step-9")'
    with WorkFolder.fresh() as folder:
        for _ in range(2):
            launch(q3_agent, folder, way, kill_before=before, echo=False)
        launch(q3_agent, folder, way, echo=False).result()
        return len(q3_built(folder).splitlines()) + len(Q3Service(folder).orders())


def q3_problem(ways, hint):
    """One sentence on the first way whose count was predicted wrongly, or ""."""
    if "q3_counts" not in globals():
        return "there is no q3_counts yet: run the cell s3_counts with your dict in it."
    if not isinstance(q3_counts, dict):
        return f"q3_counts is {q3_counts!r}; expected a dict of twelve names and numbers."
    for way in ways:
        predicted = q3_counts.get(way)
        if type(predicted) is not int:
            return f"{way}: expected a number, and q3_counts holds {predicted!r} for it."
        problem = differs(predicted, q3_count(way))
        if problem:
            return f"{way}: {problem}. {hint}"
    return ""


# %% answer id="s3_counts"
# How many lines or orders are there at the end? Copy this to the right of q3_counts =
# and put a number in place of each "...":
#
# {
#     "append a line": ...,
#     "write the whole file": ...,
#     "write the whole file, one line longer": ...,
#     "the same, the text saved before": ...,
#     "key of the step": ...,
#     "key of the attempt": ...,
#     "key drawn": ...,
#     "key drawn, saved before": ...,
#     "ask first": ...,
#     "ask first, in the slow list": ...,
#     "saved as done first": ...,
#     "saved as done first, killed before the order": ...,
# }
### BEGIN SOLUTION
q3_counts = {
    "append a line": 3,
    "write the whole file": 1,
    "write the whole file, one line longer": 3,
    "the same, the text saved before": 1,
    "key of the step": 1,
    "key of the attempt": 3,
    "key drawn": 3,
    "key drawn, saved before": 1,
    "ask first": 1,
    "ask first, in the slow list": 2,
    "saved as done first": 1,
    "saved as done first, killed before the order": 0,
}
### END SOLUTION

# %% wrong loses="s3_files s3_orders" why="a resumed agent does each step once"
q3_counts = dict.fromkeys(Q3_WAYS, 1)

# %% wrong loses="s3_files s3_orders" why="every repetition acts again"
q3_counts = dict.fromkeys(Q3_WAYS, 3)

# %% wrong loses="s3_files" why="a whole write is harmless, wherever its text comes from"
q3_counts = dict.fromkeys(Q3_WAYS, 1) | {"append a line": 3, "key of the attempt": 3}
q3_counts |= {"key drawn": 3, "ask first, in the slow list": 2}
q3_counts |= {"saved as done first, killed before the order": 0}

# %% wrong loses="s3_files" why="a text that was saved before is written again, and longer each time"
q3_counts = dict.fromkeys([*list(Q3_WAYS)[:4], "key of the attempt", "key drawn"], 3)
q3_counts |= dict.fromkeys(list(Q3_WAYS)[4:9:4], 1) | {"write the whole file": 1}
q3_counts |= {"key drawn, saved before": 1, "saved as done first": 1}
q3_counts |= {"ask first, in the slow list": 2, "saved as done first, killed before the order": 0}

# %% wrong loses="s3_orders" why="a key is a key, whatever it is made of"
q3_counts = dict.fromkeys(Q3_WAYS, 1) | dict.fromkeys(list(Q3_WAYS)[0:3:2], 3)
q3_counts |= {"ask first, in the slow list": 2, "saved as done first, killed before the order": 0}

# %% wrong loses="s3_orders" why="a drawn key is worthless, saved or not"
q3_counts = dict.fromkeys(Q3_WAYS, 1) | dict.fromkeys(list(Q3_WAYS)[0:3:2], 3)
q3_counts |= dict.fromkeys(list(Q3_WAYS)[5:8], 3)
q3_counts |= {"ask first, in the slow list": 2, "saved as done first, killed before the order": 0}

# %% wrong loses="s3_orders" why="asking first is safe, whatever the list shows"
q3_counts = dict.fromkeys(Q3_WAYS, 1) | dict.fromkeys(list(Q3_WAYS)[0:3:2], 3)
q3_counts |= dict.fromkeys(list(Q3_WAYS)[5:7], 3)
q3_counts |= {"saved as done first, killed before the order": 0}

# %% wrong loses="s3_orders" why="what is saved as done will be done"
q3_counts = dict.fromkeys(Q3_WAYS, 1) | dict.fromkeys(list(Q3_WAYS)[0:3:2], 3)
q3_counts |= dict.fromkeys(list(Q3_WAYS)[5:7], 3) | {"ask first, in the slow list": 2}

# %% wrong loses="s3_files s3_orders" why="a list in place of a dict"
q3_counts = [3, 1, 3, 1, 1, 3, 3, 1, 1, 2, 1, 0]

# %% right why="a list, put together with the names"
q3_counts = dict(zip(Q3_WAYS, [3, 1, 3, 1, 1, 3, 3, 1, 1, 2, 1, 0], strict=True))

# %% [markdown]
# The check starts and kills for real, and counts.

# %% test id="s3_files" points=2
problem = q3_problem(Q3_FILES, "Ask what the next process finds in its save, and what in the file.")
assert not problem, problem

# %% test id="s3_orders" points=3
problem = q3_problem(Q3_ORDERS, "Ask what the next process sends, and what the service knows then.")
assert not problem, problem

# %% spoken id="s3_say" question="after-effect-before-save" points=2

# %% [markdown]
# ## 4 · Done twice

# %% question id="which-are-idempotent"

# %% [markdown]
# Twelve operations, each of them tried in new worlds. A world is a folder with files, a database, and a telephone
# service that keeps every message it has accepted. What counts is what can be seen there afterwards: the names and
# contents of the files, all columns of the two tables, the messages. What an operation returns or raises is no part of
# the world.
#
# The next cell makes the worlds. You may run it without reading it.


# %%
class Q4Telephone(StreamRequestHandler):
    def handle(self):
        self.server.accepted.append(self.rfile.readline().decode().strip())
        self.wfile.write(b"accepted\n")


class Q4World:
    def __init__(self, path, telephone):
        self.path, self.telephone = path, telephone

    def sql(self, statement):
        with closing(sqlite3.connect(self.path / "builds.sqlite")) as db, db:
            db.execute("PRAGMA synchronous = OFF")
            return db.execute(statement).fetchall()

    def text(self, message):
        with socket.create_connection(self.telephone.server_address, 5) as line:
            line.sendall(f"{message}\n".encode())
            line.makefile().readline()

    def seen(self):
        files = [path for path in sorted(self.path.iterdir()) if path.suffix != ".sqlite"]
        return {
            "files": {path.name: path.is_file() and path.read_text() for path in files},
            "libraries": self.sql("SELECT * FROM libraries ORDER BY id"),
            "jobs": self.sql("SELECT * FROM jobs ORDER BY id"),
            "messages": list(self.telephone.accepted),
        }


@contextmanager
def q4_world():
    with WorkFolder.fresh() as folder, TCPServer(("127.0.0.1", 0), Q4Telephone) as telephone:
        telephone.accepted = []
        Thread(target=telephone.serve_forever, args=(0.005,), daemon=True).start()
        world = Q4World(folder.path, telephone)
        (world.path / "main.c").write_text("int main() {}")
        (world.path / "report.txt").write_text("configured")
        with closing(sqlite3.connect(world.path / "builds.sqlite")) as db:
            db.executescript("""
                PRAGMA synchronous = OFF;
                BEGIN;
                CREATE TABLE libraries (id INTEGER PRIMARY KEY AUTOINCREMENT,
                                        name TEXT UNIQUE, builds INTEGER);
                INSERT INTO libraries (name, builds) VALUES ('zlib', 4), ('abseil', 1);
                CREATE TABLE jobs (id INTEGER PRIMARY KEY, target TEXT);
                INSERT INTO jobs VALUES (1, 'arm64'), (2, 'x86_64'), (3, 'riscv64');
                COMMIT;
            """)
        try:
            yield world
        finally:
            telephone.shutdown()


# %% [markdown]
# And these are the operations. In the table `libraries` the column `id` is numbered by the database (AUTOINCREMENT) and
# `name` is unique. It begins with `(1, 'zlib', 4)` and `(2, 'abseil', 1)`, the table `jobs` with three jobs, and
# `report.txt` with the word "configured".


# %%
def q4_append(world):
    with open(world.path / "build.log", "a") as file:
        file.write("re2 is built\n")


def q4_build(world):
    """Compile what is not compiled yet, or has changed since; this is how make and cmake work."""
    source, output = world.path / "main.c", world.path / "main.o"
    if not output.exists() or output.stat().st_mtime < source.stat().st_mtime:
        output.write_text(f"object code of {source.read_text()}")
        q4_append(world)


def q4_rotate(world):
    report = world.path / "report.txt"
    os.replace(report, world.path / "report.old")
    report.write_text("built")


Q4_INTO = "INTO libraries (name, builds) VALUES"
Q4_OPERATIONS = {
    "whole file": lambda world: (world.path / "report.txt").write_text("built"),
    "appended line": q4_append,
    "upsert": lambda world: world.sql(
        f"INSERT {Q4_INTO} ('re2', 1) ON CONFLICT (name) DO UPDATE SET builds = excluded.builds"
    ),
    "text message": lambda world: world.text("re2 is built"),
    "build": q4_build,
    "upsert that adds": lambda world: world.sql(
        f"INSERT {Q4_INTO} ('re2', 1) ON CONFLICT (name) DO UPDATE SET builds = builds + 1"
    ),
    "insert or replace": lambda world: world.sql(f"INSERT OR REPLACE {Q4_INTO} ('zlib', 5)"),
    "update from 4": lambda world: world.sql(
        "UPDATE libraries SET builds = builds + 1 WHERE name = 'zlib' AND builds = 4"
    ),
    "delete by name": lambda world: world.sql("DELETE FROM libraries WHERE name = 'abseil'"),
    "delete the first": lambda world: world.sql(
        "DELETE FROM jobs WHERE id = (SELECT min(id) FROM jobs)"
    ),
    "mkdir": lambda world: (world.path / "out").mkdir(),
    "rotate": q4_rotate,
}

# %% [markdown]
# Does doing it twice, the second time right after the first, leave the same world as doing it once? Assign a dict to
# `same_after_two`. The check does each operation once in one new world and twice in another, and compares the two.


# %% answer id="s4_same_after_two"
# Copy this to the right of same_after_two = and put True or False in place of each "...":
#
# {
#     "whole file": ...,
#     "appended line": ...,
#     "upsert": ...,
#     "text message": ...,
#     "build": ...,
#     "upsert that adds": ...,
#     "insert or replace": ...,
#     "update from 4": ...,
#     "delete by name": ...,
#     "delete the first": ...,
#     "mkdir": ...,
#     "rotate": ...,
# }
### BEGIN SOLUTION
same_after_two = {
    "whole file": True,
    "appended line": False,
    "upsert": True,
    "text message": False,
    "build": True,
    "upsert that adds": False,
    "insert or replace": False,
    "update from 4": True,
    "delete by name": True,
    "delete the first": False,
    "mkdir": True,
    "rotate": False,
}
### END SOLUTION

# %% wrong loses="s4_same_five" why="a build does its work again, and logs it again"
same_after_two = dict.fromkeys(Q4_OPERATIONS, False)
for name in ("whole file", "upsert", "update from 4", "delete by name", "mkdir"):
    same_after_two[name] = True

# %% wrong loses="s4_same_five" why="the telephone service notices that the same text comes twice"
same_after_two = dict.fromkeys(Q4_OPERATIONS, False)
for name in ("whole file", "upsert", "text message", "build", "update from 4", "delete by name"):
    same_after_two[name] = True
same_after_two["mkdir"] = True

# %% wrong loses="s4_same_seven" why="what raises the second time is not idempotent"
same_after_two = dict.fromkeys(Q4_OPERATIONS, False)
for name in ("whole file", "upsert", "build", "update from 4", "delete by name"):
    same_after_two[name] = True

# %% wrong loses="s4_same_seven" why="an upsert is idempotent whatever it sets"
same_after_two = dict.fromkeys(Q4_OPERATIONS, True)
for name in ("appended line", "text message", "insert or replace", "delete the first", "rotate"):
    same_after_two[name] = False

# %% wrong loses="s4_same_seven" why="builds + 1 counts up each time"
same_after_two = dict.fromkeys(Q4_OPERATIONS, False)
for name in ("whole file", "upsert", "build", "delete by name", "mkdir"):
    same_after_two[name] = True

# %% wrong loses="s4_same_seven" why="a DELETE is idempotent, and so is writing whole files"
same_after_two = dict.fromkeys(Q4_OPERATIONS, True)
for name in ("appended line", "text message", "upsert that adds", "insert or replace"):
    same_after_two[name] = False

# %% wrong loses="s4_same_five s4_same_seven" why="a list of those that are"
same_after_two = ["whole file", "upsert", "build", "update from 4", "delete by name", "mkdir"]

# %% right why="sorted by what each does"
same_after_two = {name: True for name in ("mkdir", "whole file", "upsert", "build")}
same_after_two |= {name: True for name in ("delete by name", "update from 4")}
same_after_two |= {name: False for name in ("text message", "appended line", "delete the first")}
same_after_two |= {name: False for name in ("rotate", "insert or replace", "upsert that adds")}

# %% [markdown]
# First the five of the question, then the other seven.


# %% test id="s4_same_five" points=2
def q4_after(operation, times):
    with q4_world() as world:
        for _ in range(times):
            with contextlib.suppress(OSError):
                operation(world)
        return world.seen()


def q4_first_wrong(names, hint):
    """One sentence on the first name whose answer the experiment does not bear out, or ""."""
    if "same_after_two" not in globals():
        return "there is no same_after_two yet: run the cell s4_same_after_two with your dict."
    answers = same_after_two
    if not isinstance(answers, dict):
        return f"same_after_two is {answers!r}; expected a dict of twelve names."
    for name in names:
        if not isinstance(answers.get(name), bool):
            return f"{name}: same_after_two holds {answers.get(name)!r}; expected True or False."
    for name in names:
        once, twice = (q4_after(Q4_OPERATIONS[name], times) for times in (1, 2))
        if answers[name] != (once == twice):
            part = next((part for part in once if once[part] != twice[part]), "")
            found = f"once: {part} {once[part]}; twice: {twice[part]}" if part else "no difference"
            return f"{name}: you said {answers[name]}, and the two worlds show {found}. {hint}"
    return ""


q4_problem = q4_first_wrong(list(Q4_OPERATIONS)[:5], "Compare the worlds, not the work.")
assert not q4_problem, q4_problem

# %% test id="s4_same_seven" points=3
q4_problem = q4_first_wrong(list(Q4_OPERATIONS)[5:], "What does the second one find there?")
assert not q4_problem, q4_problem

# %% spoken id="s4_say" question="which-are-idempotent" points=2

# %% [markdown]
# ## 5 · The key of a mail

# %% question id="uuid-as-key"

# %% [markdown]
# The mail service of an agent honours an **idempotency key**: a mail with a key that it has not seen is delivered. The
# same mail with a known key is accepted and not delivered again. Another text with a known key is refused.
#
# The agent makes the key for each attempt, from what it knows of the call. From the plan come `run`, `step` and
# `number`, which say where the call stands in it, `intent`, which says in words what the call is for, and `in_plan`, a
# uuid4 that was drawn when the plan was written. From the model come `tool_call_id`, the id that it gave the call, and
# `text`. The plan was saved before anything was sent. Eight ways to make the key:


# %%
def q5_digest(*parts):
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


Q5_KEYS = {
    "uuid4()": lambda call: str(uuid.uuid4()),
    "time": lambda call: str(time.time_ns()),
    "hash()": lambda call: str(hash((call.run, call.step, call.number))),
    "tool_call_id": lambda call: call.tool_call_id,
    "sha256 of text": lambda call: q5_digest(call.run, call.text),
    "sha256 of intent": lambda call: q5_digest(call.run, call.intent),
    "place in plan": lambda call: f"{call.run}:{call.step}:{call.number}",
    "uuid4 in plan": lambda call: call.in_plan,
}

# %% [markdown]
# Three pairs of attempts. The first is made by one process, which is killed when the service has accepted its mail. The
# second is made by another process, in an interpreter of its own.
#
# * **retry**: the call was saved before the first attempt, and the second process reads it.
# * **reworded**: the plan was saved and the call was not. The model is asked again, with the same plan. It gives its
#   call a new id, and finds other words.
# * **two mails**: two steps of the plan are to report two builds. For both the model writes the same text.

# %%
Q5_CALL = {
    "run": "run-305",
    "step": 6,
    "number": 1,
    "intent": "report that grpc is built",
    "in_plan": str(uuid.uuid4()),
    "tool_call_id": "call_3fa1",
    "text": "The build is green.",
}
Q5_NEXT = {"step": 14, "intent": "report that protobuf is built", "in_plan": str(uuid.uuid4())}
Q5_PAIRS = {
    "retry": [Q5_CALL, Q5_CALL],
    "reworded": [Q5_CALL, Q5_CALL | {"tool_call_id": "call_9d07", "text": "Good news: all green."}],
    "two mails": [Q5_CALL, Q5_CALL | Q5_NEXT | {"tool_call_id": "call_c2e4"}],
}

# %% [markdown]
# How many mails are delivered, for each key and each pair? Assign a dict to `mails_for_key`. The check makes all
# attempts, in two new interpreters, and counts what the service has delivered.

# %% answer id="s5_mails_for_key"
# Copy this to the right of mails_for_key = and put a number of mails, 1 or 2, in place of
# each "...". The three are retry, reworded, two mails.
#
# {
#     "uuid4()": [..., ..., ...],
#     "time": [..., ..., ...],
#     "hash()": [..., ..., ...],
#     "tool_call_id": [..., ..., ...],
#     "sha256 of text": [..., ..., ...],
#     "sha256 of intent": [..., ..., ...],
#     "place in plan": [..., ..., ...],
#     "uuid4 in plan": [..., ..., ...],
# }
### BEGIN SOLUTION
mails_for_key = {
    "uuid4()": [2, 2, 2],
    "time": [2, 2, 2],
    "hash()": [2, 2, 2],
    "tool_call_id": [1, 2, 2],
    "sha256 of text": [1, 2, 1],
    "sha256 of intent": [1, 1, 2],
    "place in plan": [1, 1, 2],
    "uuid4 in plan": [1, 1, 2],
}
### END SOLUTION

# %% wrong loses="s5_key_retry s5_key_reworded" why="the hash of equal values is equal everywhere"
mails_for_key = {
    "uuid4()": [2, 2, 2],
    "time": [2, 2, 2],
    "hash()": [1, 1, 2],
    "tool_call_id": [1, 2, 2],
    "sha256 of text": [1, 2, 1],
    "sha256 of intent": [1, 1, 2],
    "place in plan": [1, 1, 2],
    "uuid4 in plan": [1, 1, 2],
}

# %% wrong loses="s5_key_retry s5_key_reworded" why="no uuid4 is ever the same, wherever it was drawn"
mails_for_key = {
    "uuid4()": [2, 2, 2],
    "time": [2, 2, 2],
    "hash()": [2, 2, 2],
    "tool_call_id": [1, 2, 2],
    "sha256 of text": [1, 2, 1],
    "sha256 of intent": [1, 1, 2],
    "place in plan": [1, 1, 2],
    "uuid4 in plan": [2, 2, 2],
}

# %% wrong loses="s5_key_reworded" why="the model gives the same call the same id when asked again"
mails_for_key = {
    "uuid4()": [2, 2, 2],
    "time": [2, 2, 2],
    "hash()": [2, 2, 2],
    "tool_call_id": [1, 1, 2],
    "sha256 of text": [1, 2, 1],
    "sha256 of intent": [1, 1, 2],
    "place in plan": [1, 1, 2],
    "uuid4 in plan": [1, 1, 2],
}

# %% wrong loses="s5_key_two" why="two mails are two, whatever they say"
mails_for_key = {
    "uuid4()": [2, 2, 2],
    "time": [2, 2, 2],
    "hash()": [2, 2, 2],
    "tool_call_id": [1, 2, 2],
    "sha256 of text": [1, 2, 2],
    "sha256 of intent": [1, 1, 2],
    "place in plan": [1, 1, 2],
    "uuid4 in plan": [1, 1, 2],
}

# %% wrong loses="s5_key_retry s5_key_reworded s5_key_two" why="one list for all"
mails_for_key = [1, 1, 2]

# %% right why="tuples, put together"
mails_for_key = dict.fromkeys(["uuid4()", "time", "hash()"], (2, 2, 2))
mails_for_key |= dict.fromkeys(["sha256 of intent", "place in plan", "uuid4 in plan"], (1, 1, 2))
mails_for_key |= {"tool_call_id": (1, 2, 2), "sha256 of text": (1, 2, 1)}


# %% test id="s5_key_retry" points=2
def q5_attempts(mail, which):
    """Make the first (0) or the second (1) attempt of each pair, with each of the eight keys."""
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        for way, pair in product(Q5_KEYS, Q5_PAIRS):
            call = SimpleNamespace(**Q5_PAIRS[pair][which])
            message = EmailMessage()
            message["From"], message["To"] = "agent@example.com", "boss@example.com"
            message["Idempotency-Key"] = f"{way}/{pair}/{Q5_KEYS[way](call)}"
            message.set_content(call.text)
            with contextlib.suppress(smtplib.SMTPDataError):  # refused
                smtp.send_message(message)
        return "all were made"


@cache
def q5_delivered():
    """How many mails the service delivered: by pair, and in it by the way to make the key."""
    before = os.environ.get("PYTHONHASHSEED")
    new = {"fresh": True, "echo": False, "deadline": 30}
    with mail_service("keyed") as mail:
        try:
            os.environ["PYTHONHASHSEED"] = "1"
            first = launch(q5_attempts, mail, 0, kill_before='return "all were made"', **new)
            os.environ["PYTHONHASHSEED"] = "2"
            launch(q5_attempts, mail, 1, **new).result()
        finally:
            os.environ.pop("PYTHONHASHSEED")
            if before is not None:
                os.environ["PYTHONHASHSEED"] = before
        assert first.end == "killed", first
        keys = [letter.key.split("/")[:2] for letter in mail.inbox()]
    return {pair: [keys.count([way, pair]) for way in Q5_KEYS] for pair in Q5_PAIRS}


def q5_first_wrong(pair, hint):
    """One sentence on the first number of a pair that the service does not bear out, or ""."""
    if "mails_for_key" not in globals():
        return "there is no mails_for_key yet: run the cell s5_mails_for_key with your dict in it."
    if not isinstance(mails_for_key, dict):
        return f"mails_for_key is {mails_for_key!r}; expected a dict of eight lists."
    column = list(Q5_PAIRS).index(pair)
    for way in Q5_KEYS:
        numbers = mails_for_key.get(way)
        if not isinstance(numbers, list | tuple) or len(numbers) != len(Q5_PAIRS):
            return f"{way}: mails_for_key holds {numbers!r}; expected three numbers."
        if type(numbers[column]) is not int:
            return f"{way}, {pair}: mails_for_key holds {numbers[column]!r}; expected a number."
    predicted = [mails_for_key[way][column] for way in Q5_KEYS]
    labels = [f"mails delivered, {pair}, {way}" for way in Q5_KEYS]
    problem = differs(predicted, q5_delivered()[pair], labels)
    return f"{problem}. {hint}" if problem else ""


q5_problem = q5_first_wrong("retry", "What of the key does the second process make anew?")
assert not q5_problem, q5_problem

# %% test id="s5_key_reworded" points=2
q5_problem = q5_first_wrong("reworded", "What of the key was saved with the plan?")
assert not q5_problem, q5_problem

# %% test id="s5_key_two" points=1
q5_problem = q5_first_wrong("two mails", "What tells the two apart, and is it in the key?")
assert not q5_problem, q5_problem

# %% spoken id="s5_say" question="uuid-as-key" points=2

# %% [markdown]
# ## 6 · Asked first, and sent twice

# %% question id="safe-still-twice"

# %% [markdown]
# Here is a `send_email_safe`. Its table is in a file. What `execute` changes there is in the file once `commit` has
# returned. A process that dies before takes the change with it.


# %%
def q6_message(text, key=""):
    message = EmailMessage()
    message["From"], message["To"] = "agent@example.com", "boss@example.com"
    message["Idempotency-Key"] = key
    message.set_content(text)
    return message


# %%
def send_email_safe(mail, table, key, text):
    question = "SELECT state FROM letters WHERE key = ?"  # 2
    if table.execute(question, (key,)).fetchone() == ("sent",):  # 3
        return "was sent before"  # 4
    message = q6_message(text)  # 5
    table.execute("INSERT INTO letters VALUES (?, 'sent')", (key,))  # 6
    smtp = smtplib.SMTP(mail.host, mail.port, "localhost")  # 7
    smtp.send_message(message)  # 8
    smtp.quit()  # 9
    table.commit()  # 10
    table.close()  # 11
    return "sent"  # 12


# %% [markdown]
# A process is killed just before one of the numbered lines. Then a new process calls `send_email_safe` with the same
# arguments, undisturbed. Before which lines does a kill give the boss two mails? Assign the set of their numbers to
# `lines_send_twice`. The check kills before every line that runs, and counts the mails at a service that delivers
# whatever it gets.
#
# The next two cells serve this check and those below. You may run them without reading.


# %%
@contextmanager
def q6_office(mail):
    """A mail service with nothing in its inbox, and a new table."""
    mail.clear()
    with WorkFolder.fresh() as folder:
        file = folder.path / "letters.sqlite"
        with closing(sqlite3.connect(file)) as db:
            db.execute("CREATE TABLE letters (key TEXT PRIMARY KEY, state TEXT)")
        yield SimpleNamespace(mail=mail, file=file)


def q6_calling(send, key="run-305:step-6:call-1", text="grpc is built."):
    assert hasattr(send, "__code__"), f"expected a function that sends, and it is {send!r}"

    def call(place):
        mail = replace(place.mail, file=None)  # the inbox is for the judge
        return send(mail, sqlite3.connect(place.file), key, text)

    call.__name__ = send.__name__
    return call


def q6_mails(place):
    return {0: "lost", 1: "once", 2: "twice"}.get(len(place.mail.inbox()), "again")


# %%
class Q6Dropping(StreamRequestHandler):
    """A mail service that drops the connection when a mail has come in, and accepts none."""

    def handle(self):
        with suppress(OSError):
            self.wfile.write(b"220 localhost\r\n")
            for line in self.rfile:
                if line.lower() == b"data\r\n":
                    self.wfile.write(b"354 go on\r\n")
                    while self.rfile.readline() not in (b".\r\n", b""):
                        pass
                    return
                self.wfile.write(b"250 ok\r\n")


@contextmanager
def q6_bad_ports():
    """Two ports: nobody listens at the first, and the second drops the connection."""
    with socket.socket() as silent, TCPServer(("127.0.0.1", 0), Q6Dropping) as dropping:
        silent.bind(("127.0.0.1", 0))
        Thread(target=dropping.serve_forever, args=(0.005,), daemon=True).start()
        try:
            yield silent.getsockname()[1], dropping.server_address[1]
        finally:
            dropping.shutdown()


# %% answer id="s6_lines_send_twice"
# A set of numbers between 2 and 12, such as {2, 3}; set() if there is none
### BEGIN SOLUTION
lines_send_twice = {9, 10}
### END SOLUTION

# %% wrong loses="s6_lines_check" why="the row is there from line 6 on"
lines_send_twice = set()

# %% wrong loses="s6_lines_check" why="accepted means that quit has returned"
lines_send_twice = {10}

# %% wrong loses="s6_lines_check" why="whatever comes after the row and before the commit"
lines_send_twice = {7, 8, 9, 10}

# %% wrong loses="s6_lines_check" why="the text of a line"
lines_send_twice = "smtp.quit()"

# %% right why="a list, put together"
lines_send_twice = list(range(9, 11))

# %% test id="s6_lines_check" points=2
assert "lines_send_twice" in globals(), (
    "there is no lines_send_twice yet: run the cell s6_lines_send_twice with your set in it."
)
assert isinstance(lines_send_twice, set | frozenset | list | tuple | range) and all(
    type(number) is int and 2 <= number <= 12 for number in lines_send_twice
), f"lines_send_twice is {lines_send_twice!r}; expected a set of numbers from 2 to 12."
with mail_service("plain") as q6_mail:
    q6_report = explore(
        q6_calling(send_email_safe), lambda: q6_office(q6_mail), q6_mails, inside=[send_email_safe]
    )
for (q6_file, q6_line), q6_kills in q6_report.lines.items():
    q6_number = int(line_text(q6_file, q6_line).rpartition("# ")[2])
    q6_twice = any(kill.outcome == "twice" for kill in q6_kills)
    q6_said = "is" if q6_number in lines_send_twice else "is not"
    assert q6_twice == (q6_number in lines_send_twice), (
        f"line {q6_number} {q6_said} in your set, and a kill before it gave "
        f"{q6_kills[0].outcome!r}. "
        "Ask what the service has accepted by then, and what is in the file."
    )
assert 4 not in lines_send_twice, "line 4 is not reached in a first run, so no kill falls there."
display(q6_report)

# %% [markdown]
# Now the cure. Write `send_email_once(mail, table, key, text)` for two kinds of service; `mail.character` says which
# one it is:
#
# * A `"keyed"` service knows the `Idempotency-Key` of each mail it has accepted. The same mail with the same key is
#   accepted and not delivered again.
# * An `"asked"` service delivers all it gets. `mail.ask(key)` says whether it has accepted a mail with that
#   `Idempotency-Key`. It raises an exception while this service does not answer, and always at another service.
#
# Whatever went wrong before, by kills, lost replies or lost connections: when a call has returned, the mail is in the
# inbox, and it is there once. A call that cannot see to that raises, and a refusal comes out as the exception it is.
# One key comes with one text, and one process sends at a time. You may use the table or leave it. Helpers go into the
# same cell.


# %% answer id="s6_email_once"
def send_email_once(mail, table, key, text):
    """Have `text` delivered once, by a service that is "keyed" or "asked"."""
    ### BEGIN SOLUTION
    if mail.character == "keyed" or not mail.ask(key):
        with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
            smtp.send_message(q6_message(text, key))
    ### END SOLUTION


# %% wrong loses="s6_once_asked" why="every service honours a key"
def send_email_once(mail, table, key, text):
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(q6_message(text, key))
    return "sent"


# %% wrong loses="s6_once_asked" why="asks about a key that its mail does not carry"
def send_email_once(mail, table, key, text):
    if mail.character == "asked" and mail.ask(key):
        return "was sent before"
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(q6_message(text, key if mail.character == "keyed" else ""))
    return "sent"


# %% wrong loses="s6_once_keyed" why="a key must be unique, so each attempt gets its own"
def send_email_once(mail, table, key, text):
    if mail.character == "asked":
        if mail.ask(key):
            return "was sent before"
    else:
        key = str(uuid.uuid4())
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(q6_message(text, key))
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="the commit first, then the mail"
def send_email_once(mail, table, key, text):
    row = table.execute("SELECT state FROM letters WHERE key = ?", (key,)).fetchone()
    if row == ("sent",):
        return "was sent before"
    table.execute("INSERT INTO letters VALUES (?, 'sent')", (key,))
    table.commit()
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(q6_message(text, key))
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="one key for the whole program"
def send_email_once(mail, table, key, text):
    if mail.character == "asked" and mail.ask("agent-305"):
        return "was sent before"
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(q6_message(text, "agent-305"))
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="after an error the next call will send it"
def send_email_once(mail, table, key, text):
    if mail.character == "asked" and mail.ask(key):
        return "was sent before"
    try:
        with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
            smtp.send_message(q6_message(text, key))
    except smtplib.SMTPResponseException as error:
        print(error)
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="when the connection is lost, the mail was accepted"
def send_email_once(mail, table, key, text):
    if mail.character == "asked" and mail.ask(key):
        return "was sent before"
    smtp = smtplib.SMTP(mail.host, mail.port, "localhost")
    with suppress(smtplib.SMTPServerDisconnected):
        smtp.send_message(q6_message(text, key))
        smtp.quit()
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="no connection, no mail: nothing to worry about"
def send_email_once(mail, table, key, text):
    if mail.character == "asked" and mail.ask(key):
        return "was sent before"
    try:
        smtp = smtplib.SMTP(mail.host, mail.port, "localhost")
    except ConnectionError as error:
        return f"not sent now: {error}"
    smtp.send_message(q6_message(text, key))
    smtp.quit()
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="the row first, taken back after an error, in a helper"
def send_with_row(mail, table, key, text):
    table.execute("INSERT INTO letters VALUES (?, 'sent')", (key,))
    table.commit()
    try:
        with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
            smtp.send_message(q6_message(text, key))
    except Exception:
        table.execute("DELETE FROM letters WHERE key = ?", (key,))
        table.commit()
        raise


def send_email_once(mail, table, key, text):
    if table.execute("SELECT state FROM letters WHERE key = ?", (key,)).fetchone() is None:
        send_with_row(mail, table, key, text)


# %% wrong loses="s6_once_keyed s6_once_asked" why="the row first, taken back after an error, and all in one line"
def send_email_once(mail, table, key, text):
    if table.execute("SELECT state FROM letters WHERE key = ?", (key,)).fetchone():
        return "was sent before"
    row, message = ("INSERT INTO letters VALUES (?, 'sent')", (key,)), q6_message(text, key)
    smtp = smtplib.SMTP(mail.host, mail.port, "localhost")
    try:
        table.execute(*row), table.commit(), smtp.send_message(message), smtp.quit()
    except Exception:
        table.execute("DELETE FROM letters WHERE key = ?", (key,))
        table.commit()
        raise
    return "sent"


# %% wrong loses="s6_once_asked" why="a service that does not answer has not got the mail"
def send_email_once(mail, table, key, text):
    with suppress(Exception):
        if mail.ask(key):
            return "was sent before"
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(q6_message(text, key))
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="a short key, made of the long one by hash()"
def send_email_once(mail, table, key, text):
    short = str(hash(key))
    if mail.character == "asked" and mail.ask(short):
        return "was sent before"
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(q6_message(text, short))
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="the step says which mail it is"
def send_email_once(mail, table, key, text):
    step = key.split(":")[1]
    if mail.character == "asked" and mail.ask(step):
        return "was sent before"
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(q6_message(text, step))
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="what this process has tried, it need not try again"
TRIED = []


def send_email_once(mail, table, key, text):
    if key in TRIED or (mail.character == "asked" and mail.ask(key)):
        return "was sent before"
    TRIED.append(key)
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(q6_message(text, key))
    return "sent"


# %% wrong loses="s6_once_keyed s6_once_asked" why="one kind of error for whatever went wrong"
def send_email_once(mail, table, key, text):
    try:
        if mail.character == "asked" and mail.ask(key):
            return "was sent before"
        with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
            smtp.send_message(q6_message(text, key))
    except Exception:
        raise RuntimeError("the mail could not be sent") from None
    return "sent"


# %% right why="asks only where the table is in doubt, and sends in a helper"
def post_with_key(mail, key, text):
    smtp = smtplib.SMTP(mail.host, mail.port, "localhost")
    smtp.send_message(q6_message(text, key))
    smtp.quit()


def send_email_once(mail, table, key, text):
    row = table.execute("SELECT state FROM letters WHERE key = ?", (key,)).fetchone()
    if row == ("sent",):
        return "was sent before"
    with table:
        table.execute("INSERT OR REPLACE INTO letters VALUES (?, 'open')", (key,))
    if row is None or mail.character == "keyed" or not mail.ask(key):
        post_with_key(mail, key, text)
    with table:
        table.execute("UPDATE letters SET state = 'sent' WHERE key = ?", (key,))
    return "sent"


# %% [markdown]
# One check for each service. It kills before every line of your cell that runs, and inside smtplib, just before the
# mail goes out and just after it was accepted. It loses a reply, lets nobody listen, drops the connection before the
# mail is accepted, refuses a mail, and sends another mail under a key of its own. The `"asked"` service also fails to
# answer a question.


# %% test id="s6_once_keyed" points=1
def q6_own(send):
    """The functions whose code stands in the same cell as this one."""
    codes = [(each, getattr(each, "__code__", None)) for each in list(globals().values())]
    cell = send.__code__.co_filename
    return [send, *(each for each, code in codes if code and code.co_filename == cell)]


def q6_after(send, mail, lost, troubles):
    """What is wrong after calls in such troubles and one without, in a sentence, or ""."""
    before = ""
    with q6_office(mail) as place:
        mail.lose_reply(lost)
        for what, ports, line in [*troubles, ("no trouble", {}, None)]:
            there = SimpleNamespace(mail=replace(mail, **ports), file=place.file)
            life = launch(
                q6_calling(send), there, kill_before=line, inside=[smtplib.SMTP.data], echo=False
            )
            found = len(mail.inbox())
            may_fail = what != "no trouble" and found < 2 and life.end in ("killed", "raised")
            if not may_fail and (life.end, found) != ("finished", 1):
                expected = "1" if found > 1 or what == "no trouble" else "1, or an exception"
                return f"{what}{before}: {life}, mails in the inbox: {found}; expected {expected}"
            before = f", before that {what}{before}"
    return ""


def q6_fresh(send, place, seed, line=None):
    """One call in a new interpreter, whose hash() has another seed."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = seed
    try:
        new = {"fresh": True, "echo": False, "deadline": 30, "inside": [smtplib.SMTP.data]}
        return launch(q6_calling(send), place, kill_before=line, **new)
    finally:
        os.environ.pop("PYTHONHASHSEED")
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


def q6_twice_in_one(send, silent):
    """Two calls in one process; when the first is made, nobody listens."""
    call = q6_calling(send)

    def both(place):
        with suppress(OSError, smtplib.SMTPException):
            call(SimpleNamespace(mail=replace(place.mail, port=silent), file=place.file))
        return call(place)

    return both


Q6_LETTERS = {
    "run-305:step-6:call-1": "grpc is built.",
    "run-305:step-14:call-1": "grpc is built.",
    "run-306:step-6:call-1": "protobuf is built.",
    "run-305:step-6:call-2": "grpc is tested.",
}


def q6_harm(send, character):
    """What kills, faults, a refusal and a second mail bring out, in a sentence, or ""."""
    hint = {
        "keyed": "Which key does the service see in each attempt? What does an error leave open?",
        "asked": "What can the service know about this mail? What does an error leave open?",
    }[character]
    with mail_service(character) as mail, q6_bad_ports() as (silent, dropping):
        report = explore(q6_calling(send), lambda: q6_office(mail), q6_mails, inside=q6_own(send))
        if not report.clean:
            return f"{report.verdict()}; expected one mail after each kill. {hint}"
        deaf = [("the service did not answer a question", {"query_port": silent}, None)]
        deaf = deaf if character == "asked" else []
        troubles = [
            ("nobody listened", {"port": silent}, None),
            ("the connection was lost before the mail was accepted", {"port": dropping}, None),
            ("a kill just before the mail went out", {}, 'self.putcmd("data")'),
            *deaf,
            ("a kill just after it was accepted", {}, "return (code, msg)"),
        ]
        for lost, calls in ((0, troubles), (1, [("a reply was lost", {}, None), *deaf])):
            if problem := q6_after(send, mail, lost, calls):
                return f"{problem}. {hint}"
        with q6_office(mail) as place:
            life = launch(q6_twice_in_one(send, silent), place, echo=False)
            if (life.end, len(mail.inbox())) != ("finished", 1):
                found = f"{life}, mails in the inbox: {len(mail.inbox())}"
                return f"nobody listened, then a call in the same process: {found}; expected 1"
        with q6_office(mail) as place:
            q6_fresh(send, place, "1", "return (code, msg)")
            q6_fresh(send, place, "2").result()
            if (found := len(mail.inbox())) != 1:
                return f"a kill, then another interpreter: {found} mails; expected 1. {hint}"
        with q6_office(mail) as place:
            mail.refuse()
            life = launch(q6_calling(send), place, echo=False)
            if life.end != "raised" or "SMTPDataError" not in life.reason:
                hint = "Look at what follows an error of send_message."
                return f"refused by a 451, {life}; expected the SMTPDataError to come out. {hint}"
            for key, text in Q6_LETTERS.items():
                launch(q6_calling(send, key, text), place, echo=False).result()
            found = [(each.to, each.body) for each in mail.inbox()]
    expected = [("boss@example.com", text) for text in Q6_LETTERS.values()]
    said = f"after a refusal and four calls with a key each, {list(Q6_LETTERS)}, the inbox has"
    if found == expected:
        return ""
    return f"{said} {found}; expected {expected}. Which key does each mail carry, and which text?"


q6_missing = "there is no send_email_once yet: run the cell s6_email_once with your function in it."
assert "send_email_once" in globals(), q6_missing
q6_problem = q6_harm(send_email_once, "keyed")
assert not q6_problem, f"keyed service: {q6_problem}"

# %% test id="s6_once_asked" points=2
assert "send_email_once" in globals(), q6_missing
q6_problem = q6_harm(send_email_once, "asked")
assert not q6_problem, f"asked service: {q6_problem}"

# %% spoken id="s6_say" question="safe-still-twice" points=3

# %% [markdown]
# ## 7 · Two things to resume

# %% question id="two-things-to-resume"

# %% [markdown]
# A release has three nodes in a row: `tag`, `build`, `publish`. The first process passes it an input and is killed
# inside `build`, which has done its work and not returned. Then a second process opens the graph and calls `invoke`.


# %%
class Q7State(TypedDict, total=False):
    target: str
    done: Annotated[list[str], operator.add]


def q7_builder(folder):
    """The graph of a release. The journal keeps which nodes were entered, whoever dies."""
    journal = Journal(folder.path / "journal.jsonl")
    full = folder.path / "full"  # where this file is, build removes it and raises

    def node_called(name):
        def node(state):
            with journal.node(name):
                if name == "build" and full.exists():
                    full.unlink()
                    raise OSError("no space left")
                return {"done": [name]}  # the kill falls here, in build

        return node

    names = ["tag", "build", "publish"]
    builder = StateGraph(Q7State).add_sequence([(name, node_called(name)) for name in names])
    return builder.add_edge(START, "tag")


def q7_entered(folder):
    """The nodes that were entered, in order, in all processes together."""
    lives = Journal(folder.path / "journal.jsonl").lives()
    return [record.node for life in lives for record in life if record.what == "entered"]


# %% [markdown]
# Both processes do this, in the same folder, unless a case below says otherwise:
#
# * `graph = q7_builder(folder).compile(checkpointer=saver)`, where `saver` is
#   `SqliteSaver.from_conn_string("threads.sqlite")`
# * `graph.invoke(given, {"configurable": {"thread_id": "run-7"}}, durability="sync")`, where `given` is
#   `{"target": "re2"}` in the first process, and `None` in the second.
#
# What does the second call do? `"goes on"`: the first node that it enters is `build`. `"starts over"`: that node is
# `tag`. `"raises"`: an error, and no node is entered. `"nothing"`: no node is entered, and no error. As it stands, for
# example, it goes on.
#
# | case | what is different |
# |---|---|
# | `memory` | both compile with `InMemorySaver()` |
# | `no kill` | `InMemorySaver()`; `build` raises an `OSError`; the same process catches it and makes the second call |
# | `folder` | the second process was started in another folder |
# | `bare` | neither has a checkpointer or passes `durability`, and the second passes `{"target": "re2"}` again |
# | `number` | the `thread_id` of the first is `7`, that of the second `"7"` |
# | `space` | the `thread_id` of the second is `"run-7 "`, with a space at its end |
# | `missing` | the config of the second is `{}` |
# | `run-6` | the second has the `thread_id` `"run-6"`, of a release that came to its end before, in the same file |
# | `again` | the second passes `{"target": "re2"}` again |
# | `empty` | the second passes `{}` |
# | `update` | the second passes `Command(update={"target": "gtest"})` |
#
# The next three cells kill the first processes and play the second ones. You may run them unread.


# %%
def q7_thread(name):
    return {"configurable": {"thread_id": name}}


Q7_RUN, Q7_INPUT = q7_thread("run-7"), {"target": "re2"}


def q7_life(folder, given=None, config=Q7_RUN, saver="file", place=".", mode="sync"):
    """One process: open the graph and call invoke."""
    (folder.path / place).mkdir(exist_ok=True)
    os.chdir(folder.path / place)
    with SqliteSaver.from_conn_string("threads.sqlite") as file:
        checkpointer = {"file": file, "memory": InMemorySaver(), "none": None}[saver]
        graph = q7_builder(folder).compile(checkpointer=checkpointer)
        graph.invoke(given, config, durability=mode)


def q7_no_kill(folder):
    """One process: build raises, and the graph is called again."""
    saver = InMemorySaver()
    graph = q7_builder(folder).compile(checkpointer=saver)
    (folder.path / "full").touch()
    with suppress(OSError):
        graph.invoke(Q7_INPUT, Q7_RUN, durability="sync")
    known = len(q7_entered(folder))
    graph.invoke(None, Q7_RUN, durability="sync")
    return q7_entered(folder)[known:]


# %%
Q7_BARE = {"saver": "none", "mode": None}
Q7_CASES = {  # what the first process does differently, and what the second one does
    "memory": ({"saver": "memory"}, {"saver": "memory"}),
    "folder": ({"place": "a"}, {"place": "b"}),
    "bare": (Q7_BARE, Q7_BARE | {"given": Q7_INPUT}),
    "number": ({"config": q7_thread(7)}, {"config": q7_thread("7")}),
    "space": ({}, {"config": q7_thread("run-7 ")}),
    "missing": ({}, {"config": {}}),
    "run-6": ({}, {"config": q7_thread("run-6")}),
    "again": ({}, {"given": Q7_INPUT}),
    "empty": ({}, {"given": {}}),
    "update": ({}, {"given": Command(update={"target": "gtest"})}),
}


def q7_kill(first):
    """End run-6, then kill the first process of run-7 in build; return the files left."""
    with WorkFolder.fresh() as folder:
        launch(q7_life, folder, Q7_INPUT, q7_thread("run-6"), echo=False).result()
        begin = partial(q7_life, folder, Q7_INPUT, **first)
        life = launch(begin, kill_before='return {"done": [name]}', visit=2, echo=False)
        assert life.end == "killed", f"{life}; run all cells above again"
        files = [path for path in folder.path.rglob("*") if path.is_file()]
        return {path.relative_to(folder.path): path.read_bytes() for path in files}


Q7_KILLED = {name: q7_kill(first) for name, (first, _) in Q7_CASES.items() if first}
Q7_KILLED["as it stands"] = q7_kill({})


# %%
@cache
def q7_measure(name):
    """What the second call does in a case, in a word."""
    with WorkFolder.fresh() as folder:
        if name == "no kill":
            life = launch(q7_no_kill, folder, echo=False)
            entered = life.result()
        else:
            for path, content in Q7_KILLED.get(name, Q7_KILLED["as it stands"]).items():
                (folder.path / path).parent.mkdir(exist_ok=True)
                (folder.path / path).write_bytes(content)
            known = len(q7_entered(folder))
            life = launch(partial(q7_life, folder, **Q7_CASES[name][1]), echo=False)
            entered = q7_entered(folder)[known:]
    if entered:
        return {"build": "goes on", "tag": "starts over"}[entered[0]]
    return "raises" if life.end == "raised" else "nothing"


def q7_wrong(names, hint):
    """One sentence on the first of these cases that was predicted wrongly, or ""."""
    if "q7_predicted" not in globals():
        return "there is no q7_predicted yet: run the cell s7_predicted with your dict in it."
    words, predicted = ["goes on", "starts over", "raises", "nothing"], q7_predicted
    if not isinstance(predicted, dict):
        return f"q7_predicted is {predicted!r}; expected a dict of case and word."
    for name in names:
        if predicted.get(name) not in words:
            return (
                f"{name}: expected one of the words {words}, and you gave {predicted.get(name)!r}."
            )
        if problem := differs(predicted[name], q7_measure(name)):
            return f"{name}: {problem}. {hint}"
    return ""


# %% answer id="s7_predicted"
# Copy this to the right of q7_predicted = and put one of the four words in place of each "...":
# "goes on", "starts over", "raises", "nothing".
#
# {
#     "memory": ...,
#     "no kill": ...,
#     "folder": ...,
#     "bare": ...,
#     "number": ...,
#     "space": ...,
#     "missing": ...,
#     "run-6": ...,
#     "again": ...,
#     "empty": ...,
#     "update": ...,
# }
### BEGIN SOLUTION
q7_predicted = {
    "memory": "raises",
    "no kill": "goes on",
    "folder": "raises",
    "bare": "starts over",
    "number": "goes on",
    "space": "raises",
    "missing": "raises",
    "run-6": "nothing",
    "again": "starts over",
    "empty": "starts over",
    "update": "goes on",
}
### END SOLUTION

# %% wrong loses="s7_storage" why="where nothing is found, None begins anew; and an error is like a kill"
q7_predicted = {
    "memory": "starts over",
    "no kill": "starts over",
    "folder": "starts over",
    "bare": "starts over",
    "number": "goes on",
    "space": "raises",
    "missing": "raises",
    "run-6": "nothing",
    "again": "starts over",
    "empty": "starts over",
    "update": "goes on",
}

# %% wrong loses="s7_thread" why="an unknown or missing thread is a new one; 7 is not the text 7"
q7_predicted = {
    "memory": "raises",
    "no kill": "goes on",
    "folder": "raises",
    "bare": "starts over",
    "number": "raises",
    "space": "starts over",
    "missing": "starts over",
    "run-6": "starts over",
    "again": "starts over",
    "empty": "starts over",
    "update": "goes on",
}

# %% wrong loses="s7_given" why="the thread knows where it was, whatever is passed"
q7_predicted = {
    "memory": "raises",
    "no kill": "goes on",
    "folder": "raises",
    "bare": "starts over",
    "number": "goes on",
    "space": "raises",
    "missing": "raises",
    "run-6": "nothing",
    "again": "goes on",
    "empty": "goes on",
    "update": "goes on",
}

# %% wrong loses="s7_storage s7_thread s7_given" why="the words alone, in a list"
q7_predicted = ["raises"] * 11

# %% right why="by word"
q7_predicted = {
    **dict.fromkeys(["memory", "folder", "space", "missing"], "raises"),
    **dict.fromkeys(["bare", "again", "empty"], "starts over"),
    **dict.fromkeys(["no kill", "number", "update"], "goes on"),
    "run-6": "nothing",
}

# %% test id="s7_storage" points=1
hint = "What was saved, where, and can the second call read it there?"
problem = q7_wrong(["memory", "no kill", "folder", "bare"], hint)
assert not problem, problem

# %% test id="s7_thread" points=1
hint = "What is saved under the name that the second call gives?"
problem = q7_wrong(["number", "space", "missing", "run-6"], hint)
assert not problem, problem

# %% test id="s7_given" points=1
problem = q7_wrong(["again", "empty", "update"], "Is what it passes an input to the graph?")
assert not problem, problem

# %% [markdown]
# Now the program. `q7_release` is all that a process calls: for a new release, after a kill at any moment or an error
# of a node, and once more for a release that is over (then it only returns its state). Several releases share the
# folder. Each process is started in a directory of its own, here or there below the folder. Write the three functions
# that `q7_release` uses.


# %%
def q7_release(folder, run_id, target):
    """Bring a release to its end, in this process and however many before it; return its state."""
    with q7_saver(folder) as saver:
        graph = q7_builder(folder).compile(checkpointer=saver)
        config = q7_config(run_id)
        given = q7_given(graph, config, {"target": target})
        return graph.invoke(given, config, durability="sync")


def q7_started(directory, folder, run_id, target):
    """What a process does that is started in that directory."""
    (folder.path / directory).mkdir(parents=True)
    os.chdir(folder.path / directory)
    return q7_release(folder, run_id, target)


# %% answer id="s7_release"
def q7_saver(folder):
    """The checkpointer, to be used in a with statement; `folder.path` is the folder."""
    ### BEGIN SOLUTION
    return SqliteSaver.from_conn_string(str(folder.path / "releases.sqlite"))
    ### END SOLUTION


def q7_config(run_id):
    """The config for invoke."""
    ### BEGIN SOLUTION
    return {"configurable": {"thread_id": run_id}}
    ### END SOLUTION


def q7_given(graph, config, first):
    """What to pass to invoke; `first` is the input of a new release."""
    ### BEGIN SOLUTION
    return None if graph.get_state(config).created_at else first
    ### END SOLUTION


# %% wrong loses="s7_killed s7_apart" why="any checkpointer will do"
def q7_saver(folder):
    return InMemorySaver()


def q7_config(run_id):
    return {"configurable": {"thread_id": run_id}}


def q7_given(graph, config, first):
    return None if graph.get_state(config).created_at else first


# %% wrong loses="s7_killed s7_apart" why="a file, where the process happens to be"
def q7_saver(folder):
    return SqliteSaver.from_conn_string("releases.sqlite")


def q7_config(run_id):
    return {"configurable": {"thread_id": run_id}}


def q7_given(graph, config, first):
    return None if graph.get_state(config).created_at else first


# %% wrong loses="s7_killed s7_apart" why="a file above the directory where the process happens to be"
def q7_saver(folder):
    return SqliteSaver.from_conn_string("../releases.sqlite")


def q7_config(run_id):
    return {"configurable": {"thread_id": run_id}}


def q7_given(graph, config, first):
    return None if graph.get_state(config).created_at else first


# %% wrong loses="s7_killed" why="tries to go on, and begins where that fails"
def q7_saver(folder):
    return SqliteSaver.from_conn_string(str(folder.path / "releases.sqlite"))


def q7_config(run_id):
    return {"configurable": {"thread_id": run_id}}


def q7_given(graph, config, first):
    try:
        graph.invoke(None, config, durability="sync")
    except Exception:
        return first


# %% wrong loses="s7_killed s7_apart" why="each process gets a thread of its own"
def q7_saver(folder):
    return SqliteSaver.from_conn_string(str(folder.path / "releases.sqlite"))


def q7_config(run_id):
    return {"configurable": {"thread_id": f"{run_id}-{os.getpid()}"}}


def q7_given(graph, config, first):
    return None if graph.get_state(config).created_at else first


# %% wrong loses="s7_killed s7_apart" why="the input again: the thread knows where it was"
def q7_saver(folder):
    return SqliteSaver.from_conn_string(str(folder.path / "releases.sqlite"))


def q7_config(run_id):
    return {"configurable": {"thread_id": run_id}}


def q7_given(graph, config, first):
    return first


# %% wrong loses="s7_apart" why="one thread for the program"
def q7_saver(folder):
    return SqliteSaver.from_conn_string(str(folder.path / "releases.sqlite"))


def q7_config(run_id):
    return {"configurable": {"thread_id": "release"}}


def q7_given(graph, config, first):
    return None if graph.get_state(config).created_at else first


# %% wrong loses="s7_apart" why="goes on only where something is next"
def q7_saver(folder):
    return SqliteSaver.from_conn_string(str(folder.path / "releases.sqlite"))


def q7_config(run_id):
    return {"configurable": {"thread_id": run_id}}


def q7_given(graph, config, first):
    return None if graph.get_state(config).next else first


# %% right why="a file for each release, and the checkpointer is asked"
def q7_saver(folder):
    return SqliteSaver.from_conn_string(f"{folder.path}/all.db")


def q7_config(run_id):
    return dict(configurable=dict(thread_id=f"release {run_id}"))


def q7_given(graph, config, first):
    if graph.checkpointer.get_tuple(config) is None:
        return first


# %% test id="s7_killed" points=1
for name in ("q7_saver", "q7_config", "q7_given"):
    assert name in globals(), f"there is no {name} yet: run the cell s7_release with it in it."
Q7_BUILDING, Q7_WHOLE = ('return {"done": [name]}', 2), ["tag", "build", "publish"]
Q7_UNSAVED = ("return graph.invoke(given, config", 1)
for what, (line, visit), builds, full in (
    ("killed in build", Q7_BUILDING, 2, False),
    ("killed before anything was saved", Q7_UNSAVED, 1, False),
    ("killed in build, then build raised an OSError", Q7_BUILDING, 3, True),
):
    expected = ["tag", *["build"] * builds, "publish"]
    with WorkFolder.fresh() as folder:
        again = (folder, "run-7", "re2")
        life = launch(q7_started, "first", *again, kill_before=line, visit=visit, echo=False)
        if life.end != "killed":
            life.result()
        if full:
            (folder.path / "full").touch()
            launch(q7_started, "second", *again, echo=False)
        life = launch(q7_started, "another/and deeper", *again, echo=False)
        entered = q7_entered(folder)
    found = life.value if life.end == "finished" else life.reason
    state = {"target": "re2", "done": Q7_WHOLE}
    assert (found, entered) == (state, expected), (
        f"{what}, then called in a new process: {found!r}, nodes entered {entered}; expected "
        f"{state} and {expected}. What does each process find, and what is it given?"
    )

# %% test id="s7_apart" points=1
for name in ("q7_saver", "q7_config", "q7_given"):
    assert name in globals(), f"there is no {name} yet: run the cell s7_release with it in it."
with WorkFolder.fresh() as folder:
    releases = {"run-7": "re2", "run-17": "gtest"}
    for run_id, target in releases.items():
        line, visit = Q7_BUILDING
        first = (f"first of {run_id}", folder, run_id, target)
        life = launch(q7_started, *first, kill_before=line, visit=visit, echo=False)
        if life.end != "killed":
            life.result()
    for number, run_id in enumerate(["run-7", "run-17", "run-7"]):
        target = releases[run_id]
        life = launch(q7_started, f"later/{number}", folder, run_id, target, echo=False)
        found = life.value if life.end == "finished" else life.reason
        expected = {"target": target, "done": Q7_WHOLE}
        hint = "What does it find, and what is it given?"
        if isinstance(found, dict) and found.get("target") != target:
            hint = "Whose thread did it open?"
        elif number == 2:
            hint = "It was over by then: what is a finished run given?"
        assert found == expected, (
            f"two releases in one folder, both killed in build; then {run_id} was called: "
            f"{found!r}, expected {expected}. {hint}"
        )
    counts = Counter(q7_entered(folder))
assert counts == {"tag": 2, "build": 4, "publish": 2}, (
    f"two releases, both killed in build, both brought to their end, and run-7 called once more: "
    f"entered {dict(counts)}; expected tag 2, build 4, publish 2. What did a process do again, and "
    "where was it saved as done?"
)

# %% spoken id="s7_say" question="two-things-to-resume" points=2

# %% [markdown]
# ## 8 · Entered twice

# %% question id="approve-entered-twice"

# %% [markdown]
# `interrupt(question)` stops a node and asks a person. `invoke` returns with the question. The next
# `invoke(Command(resume=answer))` hands the answer to it.
#
# Four graphs. `do(word)` does something outside of the graph, where it stays done. In the first two a single node does
# all; the third is a loop of the graph; in the fourth three nodes run side by side, in one super-step.


# %%
class Q8State(TypedDict, total=False):
    run: str
    answer: str
    said: Annotated[list[str], operator.add]


def q8_sign(do):
    def sign(state):
        do("open the ticket")
        interrupt("Does the lead sign?")
        do("tell the lead")
        interrupt("Does security sign?")
        interrupt("Does legal sign?")
        do("close the ticket")

    return StateGraph(Q8State).add_node(sign).add_edge(START, "sign")


def q8_clean(do):
    def clean(state):
        for file in ("a", "b", "c", "d"):
            if interrupt(f"Delete {file}?") == "yes":
                do(f"delete {file}")

    return StateGraph(Q8State).add_node(clean).add_edge(START, "clean")


# %%
def q8_review(do):
    def review(state):
        do("mail the draft")
        answer = interrupt("Is it good?")
        do("note the answer")
        return {"answer": answer}

    builder = StateGraph(Q8State).add_node(review).add_edge(START, "review")
    builder.add_conditional_edges("review", lambda s: END if s["answer"] == "yes" else "review")
    return builder


def q8_three(do):
    def asks(name):
        def node(state):
            do(f"mail {name}")
            return {"said": [interrupt(f"{name}?")]}

        return node

    builder = StateGraph(Q8State)
    for name in ("ann", "bo", "cy"):
        builder.add_node(name, asks(name)).add_edge(START, name)
    return builder


# %% [markdown]
# How often is each thing done, when the run has come to its end?
#
# * `sign`: `open the ticket`, `tell the lead`, `close the ticket`. All three sign.
# * `clean`: `delete a`, `delete b`, `delete c`, `delete d`. The answer is always yes.
# * `review`: `mail the draft`, `note the answer`. The answers are no, no, yes.
# * `looked`: the same as `review`; but before the first answer somebody calls `invoke(None)` twice, to see whether it
#   still waits.
# * `three`: `mail ann`, `mail bo`, `mail cy`. Ann answers first, then Bo, then Cy, each in a call of its own that names
#   the question by its id.
# * `at once`: the same three mails; all three answers come in one call.


# %%
def q8_says(*answers):
    """These answers, each to the question that is open then."""
    return [lambda questions, answer=answer: answer for answer in answers]


def q8_of(*names):
    """The answer of these people, by the ids of their questions."""
    asked = [f"{name}?" for name in names]
    return lambda questions: {each.id: "yes" for each in questions if each.value in asked}


Q8_MAILS = ["mail ann", "mail bo", "mail cy"]
Q8_TOLD = ["mail the draft", "note the answer"]
Q8_FILES = [f"delete {file}" for file in "abcd"]
Q8_TICKET = ["open the ticket", "tell the lead", "close the ticket"]
Q8_RUNS = {  # the graph, the words, the answers; and how often somebody looks before the first
    "sign": (q8_sign, Q8_TICKET, q8_says("yes", "yes", "yes")),
    "clean": (q8_clean, Q8_FILES, q8_says("yes", "yes", "yes", "yes")),
    "review": (q8_review, Q8_TOLD, q8_says("no", "no", "yes")),
    "looked": (q8_review, Q8_TOLD, q8_says("no", "no", "yes"), 2),
    "three": (q8_three, Q8_MAILS, [q8_of("ann"), q8_of("bo"), q8_of("cy")]),
    "at once": (q8_three, Q8_MAILS, [q8_of("ann", "bo", "cy")]),
}

# %% answer id="s8_predicted"
# q8_predicted is a dict with the keys "sign", "clean", "review", "looked", "three" and "at once";
# each value is a list of numbers, in the order of the words above.
### BEGIN SOLUTION
q8_predicted = {
    "sign": [4, 3, 1],
    "clean": [4, 3, 2, 1],
    "review": [6, 3],
    "looked": [8, 3],
    "three": [2, 3, 4],
    "at once": [2, 2, 2],
}
### END SOLUTION

# %% wrong loses="s8_one_node s8_loop s8_beside" why="after an answer the node goes on where it was"
q8_predicted = {
    "sign": [1, 1, 1],
    "clean": [1, 1, 1, 1],
    "review": [3, 3],
    "looked": [3, 3],
    "three": [1, 1, 1],
    "at once": [1, 1, 1],
}

# %% wrong loses="s8_one_node" why="twice, however many pauses the node has"
q8_predicted = {
    "sign": [2, 2, 1],
    "clean": [2, 2, 2, 1],
    "review": [6, 3],
    "looked": [8, 3],
    "three": [2, 3, 4],
    "at once": [2, 2, 2],
}

# %% wrong loses="s8_one_node" why="what stands between two pauses is done once"
q8_predicted = {
    "sign": [4, 1, 1],
    "clean": [1, 1, 1, 1],
    "review": [6, 3],
    "looked": [8, 3],
    "three": [2, 3, 4],
    "at once": [2, 2, 2],
}

# %% wrong loses="s8_loop" why="a loop of the graph counts like one node, and a call without an answer runs nothing"
q8_predicted = {
    "sign": [4, 3, 1],
    "clean": [4, 3, 2, 1],
    "review": [4, 3],
    "looked": [4, 3],
    "three": [2, 3, 4],
    "at once": [2, 2, 2],
}

# %% wrong loses="s8_beside" why="a node runs again only for its own answer"
q8_predicted = {
    "sign": [4, 3, 1],
    "clean": [4, 3, 2, 1],
    "review": [6, 3],
    "looked": [8, 3],
    "three": [2, 2, 2],
    "at once": [2, 2, 2],
}

# %% right why="counted out"
q8_predicted = {
    "at once": (1 + 1,) * 3,
    "three": tuple(1 + call for call in (1, 2, 3)),
    "looked": (2 + 3 * 2, 3),
    "review": (3 * 2, 3),
    "clean": (4, 3, 2, 1),
    "sign": (1 + 3, 3, 1),
}


# %% test id="s8_one_node" points=1
def q8_counts(build, words, answers, looks=0):
    """Run a graph to its end; `answers` makes of the open questions what is given next."""
    done = Counter()
    graph = build(lambda word: done.update([word])).compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "run-8"}}
    for given in [{"run": "run-8"}, *[None] * looks]:
        graph.invoke(given, config)
    for answer in answers:
        graph.invoke(Command(resume=answer(graph.get_state(config).interrupts)), config)
    assert not graph.get_state(config).tasks, "run all cells above again"
    return [done[word] for word in words]


def q8_problem(names, hint):
    """One sentence on the first of these runs that was predicted wrongly, or ""."""
    if "q8_predicted" not in globals():
        return "there is no q8_predicted yet: run the cell s8_predicted with your dict in it."
    if not isinstance(q8_predicted, dict):
        return f"q8_predicted must be a dict of run and numbers, and it is {q8_predicted!r}."
    for name in names:
        if name not in q8_predicted:
            return f"q8_predicted has no key {name!r}."
        found, words = q8_counts(*Q8_RUNS[name]), Q8_RUNS[name][1]
        if problem := differs(q8_predicted[name], found, words):
            return f"{name}, {problem}. {hint}"
    return ""


problem = q8_problem(
    ["sign", "clean"], "Where does the node begin after each answer, and how far does it get?"
)
assert not problem, problem

# %% test id="s8_loop" points=1
problem = q8_problem(
    ["review", "looked"], "When does a run of the node end, and what does each call run?"
)
assert not problem, problem

# %% test id="s8_beside" points=1
problem = q8_problem(
    ["three", "at once"],
    "Each call goes on with one super-step: which of its nodes are still open then, and where "
    "does each of them begin?",
)
assert not problem, problem

# %% [markdown]
# Now the node below. `desk.open()` opens a ticket and returns its number. `desk.close(number)` closes it. The reviewer
# needs the number in the question.


# %%
class Q8Desk:
    """A ticket desk. What was opened or closed there stays so, whoever dies."""

    def __init__(self, folder):
        self._journal = Journal(folder.path / "journal.jsonl")

    def open(self):
        number = 1 + sum(word.startswith("opened") for word in q8_words(self._journal))
        self._journal.effect(f"opened {number}")
        return number

    def close(self, number):
        self._journal.effect(f"closed {number}")


def q8_words(journal):
    return [record.word for life in journal.lives() for record in life if record.what == "effect"]


def q8_approve_badly(state, desk):
    ticket = desk.open()
    answer = interrupt({"ticket": ticket, "question": "May I merge?"})
    desk.close(ticket)
    return {"ticket": ticket, "approved": answer == "yes"}


# %% [markdown]
# Write it anew, as two nodes that run one after the other, `q8_before(state, desk)` and `q8_approve(state, desk)`.
# Nobody is killed here, but each call of the graph is made by a process of its own.
#
# * Each run opens one ticket, before it asks. It asks one question, a dict with that number under `"ticket"`.
# * Only when the answer is there, that ticket is closed, once, whatever the answer is.
# * In the end the state holds `ticket` and `approved`, which is `True` for `"yes"` and `False` for `"no"`.
# * `invoke(None)` while it waits changes nothing at the desk.


# %%
class Q8Ticket(TypedDict, total=False):
    run: str
    ticket: int
    approved: bool


def q8_call(folder, given, run, before, approve):
    """One process: build the graph, give it something; return what is asked, and the state."""
    desk = Q8Desk(folder)
    builder = StateGraph(Q8Ticket)
    builder.add_node("before", lambda state: before(state, desk))
    builder.add_node("approve", lambda state: approve(state, desk))
    builder.add_edge(START, "before").add_edge("before", "approve")
    with SqliteSaver.from_conn_string(str(folder.path / "threads.sqlite")) as saver:
        graph = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": run}}
        graph.invoke(given, config, durability="sync")
        now = graph.get_state(config)
        return [question.value for question in now.interrupts], now.values


def q8_story(folder, run, *given):
    """A run that is given these things, each in a new process: the last question, and the state."""
    for each in ({"run": run}, *given):
        asked, state = launch(
            q8_call, folder, each, run, q8_before, q8_approve, echo=False
        ).result()
    return asked, state, q8_words(Journal(folder.path / "journal.jsonl"))


# %% answer id="s8_ticket"
def q8_before(state, desk):
    """Runs before the node that asks."""
    ### BEGIN SOLUTION
    return {"ticket": desk.open()}
    ### END SOLUTION


def q8_approve(state, desk):
    """Asks."""
    ### BEGIN SOLUTION
    answer = interrupt({"ticket": state["ticket"], "question": "May I merge?"})
    desk.close(state["ticket"])
    return {"approved": answer == "yes"}
    ### END SOLUTION


# %% wrong loses="s8_opened s8_closed" why="as it was, behind an empty node"
def q8_before(state, desk):
    return {}


q8_approve = q8_approve_badly


# %% wrong loses="s8_opened s8_closed" why="a mark in the state, which the node sets before it asks"
def q8_before(state, desk):
    return {}


def q8_approve(state, desk):
    if "ticket" not in state:
        state["ticket"] = desk.open()
    answer = interrupt({"ticket": state["ticket"]})
    desk.close(state["ticket"])
    return {"ticket": state["ticket"], "approved": answer == "yes"}


# %% wrong loses="s8_opened s8_closed" why="a variable of the process remembers"
q8_memory = {}


def q8_before(state, desk):
    q8_memory["ticket"] = desk.open()
    return {"ticket": q8_memory["ticket"]}


def q8_approve(state, desk):
    ticket = q8_memory.get("ticket") or desk.open()
    answer = interrupt({"ticket": ticket})
    desk.close(ticket)
    return {"ticket": ticket, "approved": answer == "yes"}


# %% wrong loses="s8_closed" why="opened and closed where it is done once"
def q8_before(state, desk):
    ticket = desk.open()
    desk.close(ticket)
    return {"ticket": ticket}


def q8_approve(state, desk):
    return {"approved": interrupt({"ticket": state["ticket"]}) == "yes"}


# %% wrong loses="s8_closed" why="closed only for a yes"
def q8_before(state, desk):
    return {"ticket": desk.open()}


def q8_approve(state, desk):
    approved = interrupt({"ticket": state["ticket"]}) == "yes"
    if approved:
        desk.close(state["ticket"])
    return {"approved": approved}


# %% wrong loses="s8_closed" why="a no is the absence of a yes"
def q8_before(state, desk):
    return {"ticket": desk.open()}


def q8_approve(state, desk):
    said = interrupt({"ticket": state["ticket"]})
    desk.close(state["ticket"])
    return {"approved": True} if said == "yes" else {}


# %% wrong loses="s8_closed" why="what counts as true is True"
def q8_before(state, desk):
    return {"ticket": desk.open()}


def q8_approve(state, desk):
    said = interrupt({"ticket": state["ticket"]})
    desk.close(state["ticket"])
    return {"approved": "sure" if said == "yes" else ""}


# %% wrong loses="s8_closed" why="the desk's first ticket is the only one"
def q8_before(state, desk):
    return {"ticket": desk.open()}


def q8_approve(state, desk):
    said = interrupt({"ticket": state["ticket"]})
    desk.close(1)
    return {"ticket": 1, "approved": said == "yes"}


# %% wrong loses="s8_closed" why="the ticket that was opened last is mine"
def q8_before(state, desk):
    desk.open()
    return {}


def q8_approve(state, desk):
    last = sum(word.startswith("opened") for word in q8_words(desk._journal))
    said = interrupt({"ticket": last})
    desk.close(last)
    return {"ticket": last, "approved": said == "yes"}


# %% right why="closed in a try, in else, and a longer question"
def q8_before(state, desk):
    number = desk.open()
    return {"ticket": number, "approved": False}


def q8_approve(state, desk):
    number = state["ticket"]
    said = interrupt({"run": state["run"], "ticket": number})
    desk.close(number)
    if said == "yes":
        return {"approved": True}


# %% test id="s8_opened" points=1
with WorkFolder.fresh() as folder:
    for number, run in ((1, "run-8"), (2, "run-9")):
        asked, _, words = q8_story(folder, run)
        shown = [each.get("ticket") if isinstance(each, dict) else each for each in asked]
        opened = [word for word in words if word.startswith("opened")]
        assert (shown, opened) == ([number], [f"opened {n + 1}" for n in range(number)]), (
            f"{run} waits: its questions are {asked}, and the desk has {opened} of all runs; "
            f"expected one question that shows ticket {number}, and one ticket for each run."
        )
    _, _, words = q8_story(folder, "run-10", None, Command(resume="yes"))
opened = [word for word in words if word.startswith("opened")]
assert len(opened) == 3, (
    f"a third run, called once without an answer, then answered: the desk has {opened} of three "
    "runs; expected one ticket each. Which lines run again with every call?"
)

# %% test id="s8_closed" points=1
for given, closed, approved in (
    ((), [], None),
    ((None, Command(resume="yes")), ["closed 1"], True),
    ((Command(resume="no"),), ["closed 1"], False),
):
    with WorkFolder.fresh() as folder:
        asked, state, words = q8_story(folder, "run-8", *given)
    opened = [word for word in words if word.startswith("opened")]
    found = [word for word in words if word.startswith("closed")]
    told = [getattr(each, "resume", None) for each in given]
    assert len(opened) == 1, (
        f"given after the input: {told}: the desk has {opened} of this one run; expected one "
        "ticket. Which lines run again with every call?"
    )
    assert found == closed, (
        f"given after the input: {told}: the desk has {found}, expected {closed}. Below which line "
        "is the answer there?"
    )
    end = state.get("ticket") == 1 and state.get("approved") is approved and not asked
    assert not given or end, (
        f"given after the input: {told}: in the end it asks {asked} and the state is {state}; "
        f"expected in the state ticket 1 and approved {approved}, written there, and no question."
    )
with WorkFolder.fresh() as folder:
    for run in ("run-8", "run-9"):
        q8_story(folder, run)  # now both wait
    for number, run, said in ((1, "run-8", "yes"), (2, "run-9", "no")):
        given = Command(resume=said)
        _, state = launch(q8_call, folder, given, run, q8_before, q8_approve, echo=False).result()
        words = q8_words(Journal(folder.path / "journal.jsonl"))
        found = [word for word in words if word.startswith("closed")]
        assert found == [f"closed {n + 1}" for n in range(number)], (
            f"run-8 and run-9 waited at once, with tickets 1 and 2. When {run} is answered the "
            f"desk has {found}; expected that each run closes its own. Whose is the number?"
        )
        end = (state.get("ticket"), state.get("approved"))
        assert end == (number, said == "yes"), (
            f"run-8 and run-9 waited at once: when {run} has got {said!r} its state is {state}; "
            f"expected its own ticket, {number}, and approved {said == 'yes'}."
        )

# %% spoken id="s8_say" question="approve-entered-twice" points=2

# %% [markdown]
# ## 9 · Who waits

# %% question id="why-not-input"

# %% [markdown]
# A patch needs a yes. Three programs ask for it, each for many patches.
#
# * `input`: five processes. Each has one patch and waits in `answer = input("Approve? ")`.
# * `memory`: one process asks five times by `interrupt`, each patch in a thread (a saved run) of its own, with an
#   `InMemorySaver`. It stays, to get the answers.
# * `file`: one process asks a hundred times by `interrupt`, each patch in a thread of its own, with a `SqliteSaver` on
#   a file, and `durability="sync"`. It then comes to its end.
#
# The graph of the last two has three nodes in a row. `draft` writes the patch, `approve` asks, `apply` applies it if
# the answer was yes.


# %%
class Q9State(TypedDict, total=False):
    patch: str
    approved: bool


def q9_builder(home):
    journal = Journal(home / "journal.jsonl")

    def draft(state):
        with journal.node("draft"):
            return {"patch": state["patch"]}

    def approve(state):
        with journal.node("approve"):
            answer = interrupt(f"Apply {state['patch']}?")
            return {"approved": answer == "yes"}

    def apply(state):
        with journal.node("apply"):
            if state["approved"]:
                journal.effect(f"apply {state['patch']}")
            return {}

    builder = StateGraph(Q9State).add_sequence([draft, approve, apply])
    return builder.add_edge(START, "draft")


# %%
def q9_thread(name):
    return {"configurable": {"thread_id": name}}


@contextmanager
def q9_opened(home, in_memory=False):
    with SqliteSaver.from_conn_string(str(home / "threads.sqlite")) as saver:
        saver.conn.execute("PRAGMA synchronous = OFF")  # quicker, and enough for kills
        checkpointer = InMemorySaver() if in_memory else saver
        yield q9_builder(home).compile(checkpointer=checkpointer)


def q9_ask(home, number, in_memory=False):
    """Ask that many times; return how many Python threads there are more than before."""
    before = threading.active_count()
    with q9_opened(home, in_memory) as graph:
        for n in range(1, number + 1):
            graph.invoke({"patch": f"patch {n}"}, q9_thread(f"run {n}"), durability="sync")
        more = threading.active_count() - before
        if in_memory:
            threading.Event().wait()  # for the answers
        return more


@contextmanager
def q9_home(files=()):
    """A folder with these files, name by name."""
    with WorkFolder.fresh() as folder:
        for name, content in dict(files).items():
            (folder.path / name).write_bytes(content)
        yield folder.path


def q9_files(home):
    return {path.name: path.read_bytes() for path in home.iterdir()}


# %% [markdown]
# The next cell runs `file`.

# %%
with q9_home() as home:
    Q9_PROCESS = launch(q9_ask, home, 100, echo=False, deadline=60)
    Q9_ASKED = q9_files(home)

# %% [markdown]
# Predict:
#
# * `"input"`, `"memory"`, `"file"`: each a pair. How many processes are alive while all patches of the program wait?
#   Then the machine restarts, and kills what is alive. How many open questions can a new process still find and
#   answer?
# * `"rows"`: of `file`, while a hundred wait: the number of questions in the table `writes` (rows with the channel
#   `__interrupt__`), and the number of rows in the table `checkpoints`. A thread has one checkpoint for its input, one
#   before its first node, and one after each super-step.
# * `"killed"`: the process of `file` is killed in its sixth run, when `approve` has been entered and has not asked. How
#   many saved threads are in the file, and how many open questions?
# * `"python threads"`: how many Python threads has the process of `file` when a hundred wait, more than before it
#   asked?
# * `"hundredth"`: a new process gives the hundredth question its yes. How often does it enter `draft`, `approve`,
#   `apply`? And how many questions are open then?
#
# The next two cells help to measure. You may run them unread.


# %%
def q9_count(graph, number):
    """How many questions of the first so many runs are open."""
    return sum(len(graph.get_state(q9_thread(f"run {n}")).interrupts) for n in range(1, number + 1))


def q9_open(home, number, in_memory=False):
    """The same, for a new process."""
    with q9_opened(home, in_memory) as graph:
        return q9_count(graph, number)


def q9_rows(home, query):
    db = sqlite3.connect(home / "threads.sqlite")
    [[number]] = db.execute(f"SELECT count({query}").fetchall()
    db.close()
    return number


def q9_entered(home):
    """The nodes that the last process entered, counted."""
    lives = Journal(home / "journal.jsonl").lives()
    return Counter(record.node for record in lives[-1] if record.what == "entered")


def q9_hundredth(home):
    """A new process answers one question; how many were open, and how many are then."""
    with q9_opened(home) as graph:
        open_now = q9_count(graph, 100)
        graph.invoke(Command(resume="yes"), q9_thread("run 100"), durability="sync")
        return open_now, q9_count(graph, 100)


# %%
@cache
def q9_by_input():
    """Five processes that wait in input(), and what a restart leaves of them."""
    command = [sys.executable, "-I", "-c", "answer = input('Approve? ')"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with q9_home() as home:
        waiting = [subprocess.Popen(command, cwd=home, **pipes) for _ in range(5)]
        for process in waiting:
            process.stdout.read(len("Approve?"))
        alive = sum(process.poll() is None for process in waiting)
        for process in waiting:
            process.kill()
            process.communicate()
        return [alive, len([*home.iterdir()])]


Q9_LABELS = {
    "input": ["processes that wait", "questions left"],
    "memory": ["processes that wait", "questions left"],
    "file": ["processes that wait", "questions left"],
    "rows": ["questions", "checkpoints"],
    "killed": ["threads in the file", "open questions"],
    "hundredth": ["entries into draft", "into approve", "into apply", "open questions"],
    "python threads": [],
}

# %% answer id="s9_predicted"
# q9_predicted is a dict with seven keys: "input", "memory", "file", "rows" and "killed" each have a
# list of two numbers, "python threads" a number, "hundredth" a list of four: the entries into draft,
# approve and apply, and the open questions.
### BEGIN SOLUTION
q9_predicted = {
    "input": [5, 0],
    "memory": [1, 0],
    "file": [0, 100],
    "rows": [100, 300],
    "killed": [6, 5],
    "python threads": 0,
    "hundredth": [0, 1, 1, 99],
}
### END SOLUTION

# %% wrong loses="s9_processes s9_disk" why="each question keeps a process, and outlives it"
q9_predicted = {
    "input": [5, 5],
    "memory": [5, 5],
    "file": [100, 100],
    "rows": [100, 100],
    "killed": [6, 6],
    "python threads": 0,
    "hundredth": [0, 1, 1, 99],
}

# %% wrong loses="s9_processes" why="interrupt saves the question by itself, whatever the checkpointer"
q9_predicted = {
    "input": [5, 0],
    "memory": [0, 5],
    "file": [0, 100],
    "rows": [100, 300],
    "killed": [6, 5],
    "python threads": 0,
    "hundredth": [0, 1, 1, 99],
}

# %% wrong loses="s9_disk" why="the pause is a checkpoint of its own"
q9_predicted = {
    "input": [5, 0],
    "memory": [1, 0],
    "file": [0, 100],
    "rows": [100, 400],
    "killed": [6, 6],
    "python threads": 0,
    "hundredth": [0, 1, 1, 99],
}

# %% wrong loses="s9_answer" why="a Python thread waits for each answer, and then goes on below its question"
q9_predicted = {
    "input": [5, 0],
    "memory": [1, 0],
    "file": [0, 100],
    "rows": [100, 300],
    "killed": [6, 5],
    "python threads": 100,
    "hundredth": [0, 0, 1, 99],
}

# %% right why="tuples, worked out"
q9_predicted = {
    "hundredth": (0, 1, 1, 100 - 1),
    "python threads": 0,
    "killed": (6, 6 - 1),
    "rows": (100, 100 * len(["input", "start", "draft"])),
    "file": (0, 100),
    "memory": (1, 0),
    "input": (5, 0),
}


# %% test id="s9_processes" points=1
@cache
def q9_measured():
    """All that is predicted, in one dict."""
    found = {"input": q9_by_input()}
    with q9_home() as home:
        life = launch(q9_ask, home, 5, True, kill_before="threading.Event().wait()", echo=False)
        left = launch(q9_open, home, 5, True, echo=False).result()
        found["memory"] = [int(life.end == "killed"), left]
    with q9_home() as home:
        kill = {"kill_before": 'answer = interrupt(f"Apply', "visit": 6, "echo": False}
        assert launch(q9_ask, home, 100, **kill).end == "killed", "run all cells above again"
        threads = q9_rows(home, "DISTINCT thread_id) FROM checkpoints")
        found["killed"] = [threads, launch(q9_open, home, 6, echo=False).result()]
    with q9_home(Q9_ASKED) as home:
        found["python threads"] = Q9_PROCESS.result()
        questions = q9_rows(home, "*) FROM writes WHERE channel = '__interrupt__'")
        found["rows"] = [questions, q9_rows(home, "*) FROM checkpoints")]
        open_now, open_then = launch(q9_hundredth, home, echo=False, deadline=60).result()
        entered = [q9_entered(home)[node] for node in ("draft", "approve", "apply")]
        found["file"] = [int(Q9_PROCESS.end != "finished"), open_now]
        found["hundredth"] = [*entered, open_then]
    return found


def q9_problem(names, hint):
    """One sentence on the first of these that was predicted wrongly, or ""."""
    if "q9_predicted" not in globals():
        return "there is no q9_predicted yet: run the cell s9_predicted with your dict in it."
    if not isinstance(q9_predicted, dict):
        return f"q9_predicted must be a dict, and it is {q9_predicted!r}."
    for name in names:
        if name not in q9_predicted:
            return f"q9_predicted has no key {name!r}."
        if problem := differs(q9_predicted[name], q9_measured()[name], Q9_LABELS[name]):
            return f"{name}, {problem}. {hint}"
    return ""


problem = q9_problem(
    ["input", "memory", "file"],
    "Where is a question while it waits, and who has to be alive for it?",
)
assert not problem, problem

# %% test id="s9_disk" points=1
problem = q9_problem(
    ["rows", "killed"], "What does a pause save, and which checkpoint does it lie beside?"
)
assert not problem, problem

# %% test id="s9_answer" points=1
problem = q9_problem(
    ["python threads", "hundredth"],
    "What is left in a process that has asked, and what does an answer run?",
)
assert not problem, problem

# %% [markdown]
# The machine has restarted. Some threads of this graph wait for a person, others were killed on their way, others came
# to their end. Write `q9_restart(graph, run_ids)`, which runs once after a restart:
#
# * It brings each thread as far as it gets without a person.
# * It enters no node of a thread that waits for a person, and of none that came to its end.
# * It returns a list of the ids that wait for a person now.
#
# All ids are of threads that were begun. `q9_thread(run_id)` is the config of a thread. `invoke(None, config)` goes on
# with what was begun. `get_state(config).interrupts` has the open questions.
#
# The next cell leaves seven threads, by real kills. The checks give them other ids, in another order.


# %%
def q9_begin(home, run_id):
    with q9_opened(home) as graph:
        graph.invoke({"patch": f"patch of {run_id}"}, q9_thread(run_id), durability="sync")


def q9_answer(home, run_id, answer):
    with q9_opened(home) as graph:
        graph.invoke(Command(resume=answer), q9_thread(run_id), durability="sync")


Q9_KINDS = {
    "run 1": "killed in draft",
    "run 2": "waits",
    "run 3": "was applied",
    "run 4": "was answered with yes, and killed in apply",
    "run 5": "waits",
    "run 6": "killed in approve, before it asked",
    "run 7": "was refused",
}


def q9_leave(home, run_id, kind):
    """Make a thread of that kind."""
    lines = {"killed in d": 'return {"patch"', "killed in a": 'answer = interrupt(f"Apply'}
    launch(q9_begin, home, run_id, kill_before=lines.get(kind[:11]), echo=False)
    if kind.startswith("was"):
        line = "journal.effect(f" if "killed" in kind else None
        answer = "no" if "refused" in kind else "yes"
        launch(q9_answer, home, run_id, answer, kill_before=line, echo=False)


with q9_home() as home:
    for run_id, kind in Q9_KINDS.items():
        q9_leave(home, run_id, kind)
    Q9_FILES = q9_files(home)


# %%
def q9_after_the_restart(home, run_ids):
    with q9_opened(home) as graph:
        return q9_restart(graph, run_ids)


def q9_renamed(home, order):
    """Give each of these threads another id; the new ids by the old ones."""
    ids = {old: f"run {uuid.uuid4().hex[:8]}" for old in order}
    with closing(sqlite3.connect(home / "threads.sqlite")) as db, db:
        for table, old in product(("checkpoints", "writes"), ids):
            db.execute(f"UPDATE {table} SET thread_id = ? WHERE thread_id = ?", (ids[old], old))
    return ids


def q9_restarted(order):
    """The new ids, what q9_restart returns, what it enters, what is asked, what was applied."""
    with q9_home(Q9_FILES) as home:
        ids, journal = q9_renamed(home, order), Journal(home / "journal.jsonl")
        known = len(journal.lives())
        returned = launch(q9_after_the_restart, home, [*ids.values()], echo=False).result()
        new = [record for life in journal.lives()[known:] for record in life]
        entered = Counter(record.node for record in new if record.what == "entered")
        with q9_opened(home) as graph:
            asked = [each for each in ids.values() if graph.get_state(q9_thread(each)).interrupts]
        applied = [
            new for old, new in ids.items() for _ in range(journal.count(f"apply patch of {old}"))
        ]
        return ids, returned, entered, asked, applied


# %% answer id="s9_restart"
def q9_restart(graph, run_ids):
    """Bring each thread as far as it gets without a person; return those that wait for one."""
    ### BEGIN SOLUTION
    waiting = []
    for run_id in run_ids:
        state = graph.get_state(q9_thread(run_id))
        if state.tasks and not state.interrupts:
            graph.invoke(None, q9_thread(run_id), durability="sync")
        if graph.get_state(q9_thread(run_id)).interrupts:
            waiting.append(run_id)
    return waiting
    ### END SOLUTION


# %% wrong loses="s9_untouched" why="None does no harm, so it goes to all"
def q9_restart(graph, run_ids):
    for run_id in run_ids:
        graph.invoke(None, q9_thread(run_id), durability="sync")
    return [each for each in run_ids if graph.get_state(q9_thread(each)).interrupts]


# %% wrong loses="s9_untouched s9_gone_on" why="only looks who waits"
def q9_restart(graph, run_ids):
    return [each for each in run_ids if graph.get_state(q9_thread(each)).interrupts]


# %% wrong loses="s9_gone_on" why="goes on, and forgets that what went on may ask now"
def q9_restart(graph, run_ids):
    waiting = []
    for run_id in run_ids:
        state = graph.get_state(q9_thread(run_id))
        if state.interrupts:
            waiting.append(run_id)
        elif state.next:
            graph.invoke(None, q9_thread(run_id), durability="sync")
    return waiting


# %% wrong loses="s9_untouched s9_gone_on" why="who is next in approve waits for a person"
def q9_restart(graph, run_ids):
    waiting = []
    for run_id in run_ids:
        state = graph.get_state(q9_thread(run_id))
        if state.tasks and "approve" not in state.next:
            graph.invoke(None, q9_thread(run_id), durability="sync")
        if "approve" in graph.get_state(q9_thread(run_id)).next:
            waiting.append(run_id)
    return waiting


# %% wrong loses="s9_untouched s9_gone_on" why="the seven threads are known, so it names them"
def q9_restart(graph, run_ids):
    for run_id in {"run 1", "run 4", "run 6"}.intersection(run_ids):
        graph.invoke(None, q9_thread(run_id), durability="sync")
    return ["run 1", "run 2", "run 5", "run 6"]


# %% wrong loses="s9_untouched s9_gone_on" why="the seven threads are known by their places"
def q9_restart(graph, run_ids):
    for place in (0, 3, 5):
        graph.invoke(None, q9_thread(run_ids[place]), durability="sync")
    return [run_ids[place] for place in (0, 1, 4, 5)]


# %% right why="by the tasks of the open step, and by what invoke returns"
def q9_restart(graph, run_ids):
    def waits(run_id):
        tasks = graph.get_state(q9_thread(run_id)).tasks
        if any(task.interrupts for task in tasks):
            return True
        return bool(tasks) and "__interrupt__" in graph.invoke(None, q9_thread(run_id))

    return list(filter(waits, run_ids))


# %% test id="s9_untouched" points=1
_, _, entered, _, _ = q9_restarted(sorted(Q9_KINDS, reverse=True))
most = Counter(draft=1, approve=2, apply=1)
assert entered == most, (
    f"three threads were killed on their way, and q9_restart entered {dict(entered)}; "
    f"expected {dict(most)}. Which threads have to go on, and what does it do to each?"
)

# %% test id="s9_gone_on" points=1
q9_ids, returned, _, asked, applied = q9_restarted(sorted(Q9_KINDS, key=Q9_KINDS.get))
q9_so = f"The threads were left so: { {q9_ids[each]: Q9_KINDS[each] for each in q9_ids} }."
expected = sorted(q9_ids[each] for each in ("run 1", "run 2", "run 5", "run 6"))
assert isinstance(returned, list | tuple), (
    f"q9_restart returned {returned!r}; expected a list of the ids of threads."
)
assert sorted(map(str, returned)) == expected, (
    f"q9_restart returned {returned!r}; expected {expected}, in any order. {q9_so} What does a "
    "thread do that goes on?"
)
assert sorted(asked) == expected, (
    f"after q9_restart a question is open in {sorted(asked)}; expected {expected}. {q9_so} Which "
    "of them had been killed before it could ask?"
)
expected = sorted(q9_ids[each] for each in ("run 3", "run 4"))
assert sorted(applied) == expected, (
    f"in the end the patches of {sorted(applied)} were applied; expected those of {expected}, "
    f"once each. {q9_so} Which have something left to do?"
)

# %% spoken id="s9_say" question="why-not-input" points=2

# %% [markdown]
# ## 10 · What a kill has shown

# %% question id="what-kill-9-proved"

# %% [markdown]
# Run 217 is an agent. In each step a model replies with calls, and tools perform them. It was killed by `kill -9` when
# the calls of step 12 were saved. A new process passed `None`, and the run went on at step 13. At its end the agent's
# own record showed each call once.
#
# Here is a small agent of that kind, in two versions. It has three steps: `call_1`, then `call_2`, `call_3` and
# `call_4`, then none. In `ONE` a single node performs all calls of a step. In `SEND` each call gets a `Send` of its
# own, which is a task of its own.


# %%
Q10_REPLIES = [["call_1"], ["call_2", "call_3", "call_4"], []]


class Q10State(TypedDict, total=False):
    step: int
    calls: list
    results: Annotated[list, operator.add]


def q10_perform(call, bench):
    bench.before(call)
    bench.effect(call)  # A: a kill before this line
    bench.record(call)  # B: a kill before this line
    return f"result of {call}"  # C: a kill before this line


def q10_builder(version, bench):
    def model(state):
        reply = bench.ask_model(state)
        return {"step": state["step"] + 1, "calls": reply}

    def tools(state):
        return {"results": [q10_perform(call, bench) for call in state["calls"]]}

    def route(state):
        if version == "ONE" or not state["calls"]:
            return "tools" if state["calls"] else END
        return [Send("tools", {"calls": [call]}) for call in state["calls"]]

    builder = StateGraph(Q10State).add_node(model).add_node(tools)
    builder.add_edge(START, "model").add_edge("tools", "model")
    return builder.add_conditional_edges("model", route, ["tools", END])


# %% [markdown]
# The effect of a call is a file in the work folder, and a line in the bench's journal, which knows what really
# happened. The record is the agent's own, a line for each call. In the first process `bench.before` lets the calls of
# `SEND` begin one after the other, each when the result of the one before it is on disk.
#
# You may run the next three cells unread.


# %%
class Q10Bench:
    """What one process of the agent has to do with: model, tools, record, and news of the disk."""

    def __init__(self, home, first, waits_for_disk):
        self.home, self.first, self.waits_for_disk = home, first, waits_for_disk
        self.journal = Journal(home / "journal.jsonl")
        self.tasks, self.told, self.news = {}, set(), threading.Condition()
        (home / "work").mkdir(exist_ok=True)
        self.journal.effect("found " + " ".join(sorted(path.name for path in home.glob("work/*"))))

    def ask_model(self, state):
        self.journal.effect(f"model {state['step'] + 1}, told {state['results']}")
        if self.waits_for_disk and state["step"] == 1:
            self.wait(lambda: "the disk hangs" in self.told)
        return Q10_REPLIES[state["step"]]  # the model is being asked

    def before(self, call):
        mine = get_runtime().execution_info.task_id
        self.tasks[call] = mine
        self.tell(call)
        [calls] = [reply for reply in Q10_REPLIES if call in reply]
        earlier = calls[: calls.index(call)] if self.first else []
        self.wait(lambda: {self.tasks.get(each) for each in earlier} <= {mine} | self.told)

    def effect(self, call):
        (self.home / "work" / call).touch()
        self.journal.effect(call)

    def record(self, call):
        with open(self.home / "record.txt", "a", encoding="utf-8") as file:
            file.write(f"{call}\n")

    def tell(self, what):
        with self.news:
            self.told.add(what)
            self.news.notify_all()

    def wait(self, ready):
        with self.news:
            assert self.news.wait_for(ready, 10), "it waited in vain; run all cells above again"


# %%
class Q10Disk(SqliteSaver):
    """A disk that hangs or dies before the checkpoint of a step, if it is told so."""

    def put(self, config, checkpoint, metadata, versions):
        if metadata["step"] >= self.hangs_at:
            self.bench.tell("the disk hangs")
            threading.Event().wait()
        if metadata["step"] == self.dies_at:
            return "killed here"
        return super().put(config, checkpoint, metadata, versions)

    def put_writes(self, config, writes, task_id, task_path=""):
        if self.dies_at is not None and "call_4" in str(dict(writes).get("results")):
            threading.Event().wait()  # the process is dead before they are written
        super().put_writes(config, writes, task_id, task_path)
        self.bench.tell(task_id)


def q10_live(home, version, first=False, mode="sync", hangs_at=99, dies_at=None):
    """One process of the agent: the first, or one that goes on."""
    with Q10Disk.from_conn_string(str(home / "threads.sqlite")) as disk:
        disk.conn.execute("PRAGMA synchronous = OFF")  # quicker, and enough for kills
        disk.bench = Q10Bench(home, first, waits_for_disk=hangs_at < 99)
        disk.hangs_at, disk.dies_at = hangs_at, dies_at
        graph = q10_builder(version, disk.bench).compile(checkpointer=disk)
        given = {"step": 0, "calls": [], "results": []} if first else None
        config = {"configurable": {"thread_id": "run-10"}}
        return graph.invoke(given, config, durability=mode)


# %%
class Q10Story:
    """Kill the agent at these places, each in a new process; then go on to the end in this one."""

    def __init__(self, version, *places, **how):
        with WorkFolder.fresh() as folder:
            home, first = folder.path, {"first": True, **how}
            for line, visit in places:
                life = launch(
                    partial(q10_live, home, version, **first),
                    kill_before=line,
                    visit=visit,
                    echo=False,
                    deadline=30,
                )
                assert life.end == "killed", f"{life}; run all cells above again"
                first = {}
            try:
                self.end = q10_live(home, version)
            except Exception as error:
                self.end = type(error).__name__
            lives = Journal(home / "journal.jsonl").lives()
            self.lives = [[record.word for record in life] for life in lives]
            self.done = Counter(word for life in self.lives for word in life)
            record = home / "record.txt"
            self.record = Counter(record.read_text().split() if record.exists() else [])

    def asked(self, step):
        """What the model was told in this step, each time that it was asked."""
        return [word for life in self.lives for word in life if word.startswith(f"model {step},")]


# %% [markdown]
# Eight statements about the agent, `ONE` and `durability="sync"` where nothing else is said. Each time the process is
# killed where the statement says, and a new one goes on with `None`. Which are true?
#
# * **a** Killed in `tools` of step 2, before `call_3` takes effect: the new process asks the model for step 2 again.
# * **b** Killed when the model has replied in step 2, and its node has not returned: in the end the model was asked
#   four times, and `step` is 3.
# * **c** Killed while the model is asked in step 2: the new process tells the model the result of `call_1`, and does
#   not perform `call_1`.
# * **d** However often it is killed, no call is performed more than twice.
# * **e** As in c, but with `durability="async"`: `call_1` may be performed again.
# * **f** Killed when `tools` of step 2 has returned, before anything of what it returned is on disk: its calls may be
#   performed again.
# * **g** Killed as in a: the new process finds the work folder as it was when the checkpoint was written from which it
#   goes on.
# * **h** Killed before anything is saved: the new process begins the run anew.


# %%
def q10_problem(letters, hint):
    """One sentence on the first of these statements that was judged wrongly, or ""."""
    if "q10_true" not in globals():
        return "there is no q10_true yet: run the cell s10_true with your dict in it."
    if not isinstance(q10_true, dict):
        return f"q10_true must be a dict with the keys a to h, and it is {q10_true!r}."
    for letter in letters:
        said = q10_true.get(letter)
        if type(said) is not bool:
            return f"{letter}: expected True or False, and you gave {said!r}."
        if said != q10_holds(letter):
            return f"{letter}: you said {said}, and the experiment said {not said}. {hint}"
    return ""


# %% answer id="s10_true"
# q10_true is a dict with the keys "a" to "h"; each value is True or False.
### BEGIN SOLUTION
q10_true = {
    "a": False,
    "b": True,
    "c": True,
    "d": False,
    "e": True,
    "f": True,
    "g": False,
    "h": False,
}
### END SOLUTION

# %% wrong loses="s10_steps s10_saved" why="it worked for run 217, so all that sounds good is true"
q10_true = dict(a=False, b=True, c=True, d=True, e=False, f=False, g=True, h=True)

# %% wrong loses="s10_steps" why="a step is the unit: model and tools are repeated together, and only once"
q10_true = dict(a=True, b=True, c=True, d=True, e=True, f=True, g=False, h=False)

# %% wrong loses="s10_saved" why="sync and async differ in speed only, and what has returned is saved"
q10_true = dict(a=False, b=True, c=True, d=False, e=False, f=False, g=False, h=False)

# %% wrong loses="s10_steps s10_saved" why="those that are true, as a list"
q10_true = ["b", "c", "e", "f"]

# %% right why="by the letters of the true ones"
q10_true = {letter: letter in "bcef" for letter in "abcdefgh"}

# %% test id="s10_steps" points=1
Q10_IN_CALL_3, Q10_IN_CALL_4 = ("# A: a kill", 3), ("# A: a kill", 4)
Q10_ASKING, Q10_REPLIED = ("# the model is being asked", 2), ('return {"step": state["step"]', 2)
Q10_DYING = ('return "killed here"', 1)
Q10_TOLD = "model 2, told ['result of call_1']"


@cache
def q10_holds(letter):
    """Play the experiment of a statement, and say whether it holds."""
    if letter == "a":
        return len(Q10Story("ONE", Q10_IN_CALL_3).asked(2)) > 1
    if letter == "b":
        story = Q10Story("ONE", Q10_REPLIED)
        return sum(len(story.asked(n)) for n in (1, 2, 3)) == 4 and story.end["step"] == 3
    if letter == "c":
        second = Q10Story("ONE", Q10_ASKING).lives[1]
        return Q10_TOLD in second and "call_1" not in second
    if letter == "d":
        return max(Q10Story("ONE", Q10_IN_CALL_4, ("# A: a kill", 3)).done.values()) <= 2
    if letter == "e":
        return Q10Story("ONE", Q10_ASKING, mode="async", hangs_at=1).done["call_1"] > 1
    if letter == "f":
        return Q10Story("ONE", Q10_DYING, dies_at=4).done["call_2"] > 1
    if letter == "g":
        return Q10Story("ONE", Q10_IN_CALL_3).lives[1][0] == "found call_1"
    return isinstance(Q10Story("ONE", Q10_DYING, dies_at=-1).end, dict)


problem = q10_problem("abcd", "Which node had ended at the kill, and where does it go on?")
assert not problem, problem

# %% test id="s10_saved" points=1
problem = q10_problem("efgh", "What was on disk at the kill, and what is no part of a checkpoint?")
assert not problem, problem

# %% [markdown]
# Now the other way round: find the kill. Below is what five runs left after one kill in step 2, and one process that
# went on: how often `call_2`, `call_3` and `call_4` were performed, and how often they stand in the record.
#
# | run | version | performed | in the record |
# |---|---|---|---|
# | 1 | `ONE` | 2, 2, 1 | 2, 1, 1 |
# | 2 | `ONE` | 2, 2, 2 | 2, 2, 2 |
# | 3 | `SEND` | 1, 1, 2 | 1, 1, 1 |
# | 4 | `SEND` | 1, 2, 1 | 1, 2, 1 |
# | 5 | `SEND` | 2, 2, 1 | 2, 1, 1 |
#
# The kill fell before one of the lines A, B and C of `q10_perform`, for one of the three calls. A run may be made
# up: then no such kill leaves it.

# %%
Q10_LEFT = {
    1: ("ONE", [2, 2, 1], [2, 1, 1]),
    2: ("ONE", [2, 2, 2], [2, 2, 2]),
    3: ("SEND", [1, 1, 2], [1, 1, 1]),
    4: ("SEND", [1, 2, 1], [1, 2, 1]),
    5: ("SEND", [2, 2, 1], [2, 1, 1]),
}

# %% answer id="s10_kills"
# q10_kills is a dict with the keys 1 to 5. Each value is a pair of the letter of a line and the
# call, such as ("A", "call_2"), or None if no such kill leaves this.
### BEGIN SOLUTION
q10_kills = {
    1: ("B", "call_3"),
    2: ("C", "call_4"),
    3: ("B", "call_4"),
    4: ("C", "call_3"),
    5: None,
}
### END SOLUTION

# %% wrong loses="s10_one" why="a kill repeats the call under way, in one node too"
q10_kills = {1: None, 2: None, 3: ("B", "call_4"), 4: ("C", "call_3"), 5: None}

# %% wrong loses="s10_send" why="a Send is repeated with all others of its super-step"
q10_kills = {1: ("B", "call_3"), 2: ("C", "call_4"), 3: None, 4: None, 5: ("B", "call_3")}

# %% wrong loses="s10_send" why="with a task for each call nothing is done twice"
q10_kills = {1: ("B", "call_3"), 2: ("C", "call_4"), 3: None, 4: None, 5: None}

# %% wrong loses="s10_one s10_send" why="the record is written at the moment of the effect"
q10_kills = {
    1: ("A", "call_3"),
    2: ("B", "call_4"),
    3: ("A", "call_4"),
    4: ("B", "call_3"),
    5: None,
}

# %% right why="lists, in another order"
q10_kills = {5: None, 2: ["C", "call_4"], 4: ["C", "call_3"]}
q10_kills |= {1: ["B", "call_3"], 3: ["B", "call_4"]}


# %% test id="s10_one" points=1
@cache
def q10_leaves(version, letter, call):
    """What a kill before that line leaves: how often each call was performed, and recorded."""
    story = Q10Story(version, (f"# {letter}: a kill", int(call[-1])))
    calls = Q10_REPLIES[1]
    return version, [story.done[each] for each in calls], [story.record[each] for each in calls]


def q10_misplaced(runs, hint):
    """One sentence on the first of these runs whose kill is not the one that was found, or ""."""
    if "q10_kills" not in globals():
        return "there is no q10_kills yet: run the cell s10_kills with your dict in it."
    if not isinstance(q10_kills, dict):
        return f"q10_kills must be a dict with the keys 1 to 5, and it is {q10_kills!r}."
    places = [(letter, call) for call in Q10_REPLIES[1] for letter in "ABC"]
    for run in runs:
        kill = q10_kills.get(run, "nothing")
        if kill is not None and (not isinstance(kill, list | tuple) or tuple(kill) not in places):
            return f'run {run}: expected a pair like ("A", "call_2"), or None; you gave {kill!r}.'
        version = Q10_LEFT[run][0]
        if kill is None and any(q10_leaves(version, *each) == Q10_LEFT[run] for each in places):
            return f"run {run}: you say that no kill leaves this, and one of the nine does. {hint}"
        if kill is not None and (found := q10_leaves(version, *kill)) != Q10_LEFT[run]:
            return f"run {run}: a kill at {tuple(kill)} leaves {found[1]} and {found[2]}. {hint}"
    return ""


problem = q10_misplaced([1, 2], "ONE: what does a process that goes on know of a node under way?")
assert not problem, problem

# %% test id="s10_send" points=2
problem = q10_misplaced(
    [3, 4, 5], "SEND: which tasks have their result on disk, and which has not?"
)
assert not problem, problem

# %% spoken id="s10_say" question="what-kill-9-proved" points=3

# %% [markdown]
# ## 11 · Run 208

# %% question id="run-208"

# %% [markdown]
# Run 208 of a build agent died, and its checkpoint was there, whole. But a script that tidies up had deleted its work
# folder, so there was nothing to go on with.
#
# Here is such a run in small. It builds `app` in the folder `work`. Three of its four steps are done, and its
# checkpoint holds for each file a claim: a hash of what was in it. `fix.patch` was written by a person, no step makes
# it. The run was killed, and the script has been in the folder. `q11_do` does one step: it reads what it needs and
# writes its file. `fetch` gets whatever the project offers today, and `compile` takes today's compiler.


# %%
class Q11Refused(Exception):
    """Going on would be wrong. The message names the file."""


Q11_STEPS = {  # what each step makes, and what it needs for that
    "fetch": ("zlib.c", []),
    "compile": ("zlib.o", ["zlib.c", "fix.patch"]),
    "install": ("libz.a", ["zlib.o"]),
    "link": ("app", ["libz.a"]),
}
Q11_TODAY = {"fetch": "upstream.txt", "compile": "compiler.txt"}  # and what it takes from outside


def q11_do(folder, step):
    name, needs = Q11_STEPS[step]
    texts = [(folder.path / "work" / need).read_text() for need in needs]
    if step in Q11_TODAY:
        texts.append((folder.path / Q11_TODAY[step]).read_text())
    folder.perform(step)
    (folder.path / "work" / name).write_text(f"{step}: {' + '.join(texts)}")


def q11_hash(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


# %% [markdown]
# Write `q11_make_whole(folder, claims)`. `claims` maps the names of the four files in `folder.path / "work"` to
# hashes, in the order of the alphabet. When your function has returned, the run goes on with `link`.
#
# * It returns only if each claim is true then. If that cannot be had, it raises `Q11Refused` with the name of a file
#   that is not as claimed at that moment. If that can be seen by looking, it does no step before it refuses.
# * It gets back what is missing, by `q11_do(folder, step)`, and does no step whose file is there.
# * A file that it finds may be somebody's work. It never changes or removes one, whatever is in it.
#
# About twelve lines.


# %%
def q11_contents(folder):
    work = folder.path / "work"
    return {path.name: path.read_text() for path in work.iterdir()} if work.exists() else {}


def q11_remove(*names):
    return lambda work: [(work / name).unlink() for name in names]


def q11_write(name, text):
    return lambda work: (work / name).write_text(text)


def q11_refusal(words, life, done, tries, wrong, right):
    """Say in a sentence why that was not the refusal that was expected, or ""."""
    if not life.reason.startswith("raised Q11Refused"):
        return f"{words}: {life}; expected Q11Refused, as it cannot be had"
    said = life.reason.partition(", at line")[0]
    if named := [name for name in sorted(right) if name in said]:
        return (
            f"{words}: it {said}; that names {named[0]} too, which is as claimed at that moment. "
            f"Expected no name in the message but of what is not: {' and '.join(wrong)}"
        )
    if not any(name in said for name in wrong):
        return f"{words}: it {said}; not as claimed at that moment: {' and '.join(wrong)}"
    if done != tries[: len(done)]:
        expected = f"no others than {tries}, in that order" if tries else "no step before that"
        return f"{words}: it refused when it had done {done}; expected {expected}"
    return ""


# %%
def q11_outside(folder, upstream="int inflate();", compiler="cc 13"):
    (folder.path / "upstream.txt").write_text(upstream)
    (folder.path / "compiler.txt").write_text(compiler)


# %%
def q11_try(words, do, steps=None, **moved):
    """Say in a sentence what q11_make_whole did wrong after `do` has been in the folder, or ""."""
    with WorkFolder.fresh() as folder:
        work = folder.path / "work"
        work.mkdir()
        (work / "fix.patch").write_text("- 0\n+ 1\n")
        q11_outside(folder)
        for step in list(Q11_STEPS)[:3]:
            q11_do(folder, step)
        claims = {path.name: q11_hash(path) for path in sorted(work.iterdir())}
        do(work)
        q11_outside(folder, **moved)
        found, before = q11_contents(folder), len(folder.performed())
        life = launch(q11_make_whole, folder, claims, echo=False)
        if life.stub:
            life.result()
        done, now = folder.performed()[before:], q11_contents(folder)
        right = {name for name in set(claims) & set(now) if q11_hash(work / name) == claims[name]}
    wrong = sorted(set(claims) - right)
    if changed := [name for name in found if now.get(name) != found[name]]:
        return f"{words}: {changed[0]} was there, and your function changed or removed it"
    if steps is None:
        gone = [step for step, (name, _) in Q11_STEPS.items() if name in set(claims) - set(found)]
        tries = gone if moved else []  # else it can be seen by looking
        return q11_refusal(words, life, done, tries, wrong, right)
    if life.end != "finished":
        return f"{words}: {life}; expected that it returns"
    if done != steps:
        return f"{words}: it did the steps {done}; expected {steps}"
    return f"{words}: afterwards {wrong[0]} is not as claimed" if wrong else ""


# %% answer id="s11_make_whole"
def q11_make_whole(folder, claims):
    """Make all that the checkpoint claims true again, or refuse."""
    ### BEGIN SOLUTION
    work = folder.path / "work"
    made_by = {name: step for step, (name, _) in Q11_STEPS.items()}
    gone = [name for name in claims if not (work / name).exists()]
    for name, claimed in claims.items():
        if name in gone and name not in made_by:
            raise Q11Refused(f"{name} is gone and no step makes it")
        if name not in gone and q11_hash(work / name) != claimed:
            raise Q11Refused(f"{name} is not what the checkpoint claims")
    for step, (name, _) in Q11_STEPS.items():
        if name in gone:
            q11_do(folder, step)
            if q11_hash(work / name) != claims[name]:
                raise Q11Refused(f"{name} was made again and came out different")
    ### END SOLUTION


# %% wrong loses="s11_refuses s11_differs" why="what exists is there, and a step brings back what was"
def q11_make_whole(folder, claims):
    work = folder.path / "work"
    if not (work / "fix.patch").exists():
        raise Q11Refused("fix.patch is gone")
    for step, (name, _) in Q11_STEPS.items():
        if name in claims and not (work / name).exists():
            q11_do(folder, step)


# %% wrong loses="s11_goes_on s11_refuses s11_differs" why="the checkpoint says done, so it is done"
def q11_make_whole(folder, claims):
    return


# %% wrong loses="s11_refuses" why="makes again whatever is not as claimed"
def q11_make_whole(folder, claims):
    work = folder.path / "work"
    if not (work / "fix.patch").exists():
        raise Q11Refused("fix.patch is gone")
    for step, (name, _) in Q11_STEPS.items():
        if name not in claims:
            continue
        if not (work / name).exists() or q11_hash(work / name) != claims[name]:
            q11_do(folder, step)
            if q11_hash(work / name) != claims[name]:
                raise Q11Refused(f"{name} is another one now")


# %% wrong loses="s11_goes_on s11_differs" why="to be safe, starts again from the first step"
def q11_make_whole(folder, claims):
    work = folder.path / "work"
    for name in claims:
        if not (work / name).exists() and name == "fix.patch":
            raise Q11Refused("fix.patch is gone")
        if (work / name).exists() and q11_hash(work / name) != claims[name]:
            raise Q11Refused(f"{name} has changed")
    if any(not (work / name).exists() for name in claims):
        for step in list(Q11_STEPS)[:3]:
            q11_do(folder, step)


# %% wrong loses="s11_differs" why="a step that was done again gives what it gave before"
def q11_make_whole(folder, claims):
    work = folder.path / "work"
    for name in claims:
        if not (work / name).exists() and name == "fix.patch":
            raise Q11Refused("fix.patch is gone")
        if (work / name).exists() and q11_hash(work / name) != claims[name]:
            raise Q11Refused(f"{name} has changed")
    for step, (name, _) in Q11_STEPS.items():
        if name in claims and not (work / name).exists():
            q11_do(folder, step)


# %% wrong loses="s11_goes_on s11_differs" why="goes through the claims in their own order"
def q11_make_whole(folder, claims):
    work = folder.path / "work"
    step_for = {name: step for step, (name, _) in Q11_STEPS.items()}
    for name in claims:
        if (work / name).exists() and q11_hash(work / name) != claims[name]:
            raise Q11Refused(f"{name} has changed")
        if not (work / name).exists() and name not in step_for:
            raise Q11Refused(f"{name} is gone")
    for name in claims:
        if not (work / name).exists():
            q11_do(folder, step_for[name])
            if q11_hash(work / name) != claims[name]:
                raise Q11Refused(f"{name} is another one")


# %% wrong loses="s11_differs" why="with the right source the rest comes out right"
def q11_make_whole(folder, claims):
    work = folder.path / "work"
    for name in claims:
        if not (work / name).exists() and name == "fix.patch":
            raise Q11Refused("fix.patch is gone")
        if (work / name).exists() and q11_hash(work / name) != claims[name]:
            raise Q11Refused(f"{name} has changed")
    for step, (name, _) in Q11_STEPS.items():
        if name in claims and not (work / name).exists():
            q11_do(folder, step)
        if q11_hash(work / "zlib.c") != claims["zlib.c"]:
            raise Q11Refused("zlib.c is another one")


# %% wrong loses="s11_goes_on" why="refuses whenever anything is not as claimed"
def q11_make_whole(folder, claims):
    for name, claimed in claims.items():
        path = folder.path / "work" / name
        if not path.exists() or q11_hash(path) != claimed:
            raise Q11Refused(name)


# %% wrong loses="s11_goes_on s11_refuses s11_differs" why="refuses whatever is the matter, and names all there is"
def q11_make_whole(folder, claims):
    raise Q11Refused("zlib.c, zlib.o, libz.a or fix.patch")


# %% wrong loses="s11_refuses" why="looks at each file just before its own step"
def q11_make_whole(folder, claims):
    work = folder.path / "work"
    if not (work / "fix.patch").exists():
        raise Q11Refused("fix.patch is gone")
    for step, (name, _) in Q11_STEPS.items():
        if name in claims:
            if not (work / name).exists():
                q11_do(folder, step)
            if q11_hash(work / name) != claims[name]:
                raise Q11Refused(f"{name} is another one")


# %% wrong loses="s11_refuses" why="an empty file is no file: removes it and makes it again"
def q11_make_whole(folder, claims):
    work = folder.path / "work"
    for name in claims:
        path = work / name
        if path.exists() and path.stat().st_size == 0:
            path.unlink()
        if path.exists() and q11_hash(path) != claims[name]:
            raise Q11Refused(f"{name} has changed")
        if not path.exists() and name == "fix.patch":
            raise Q11Refused("fix.patch is gone")
    for step, (name, _) in Q11_STEPS.items():
        if name in claims and not (work / name).exists():
            q11_do(folder, step)
            if q11_hash(work / name) != claims[name]:
                raise Q11Refused(f"{name} is another one")


# %% right why="two passes over the steps, the claims compared once more at the end"
def q11_make_whole(folder, claims):
    def untrue(names):
        paths = [folder.path / "work" / name for name in names]
        return [p.name for p in paths if not p.exists() or q11_hash(p) != claims[p.name]]

    def missing(name):
        return not (folder.path / "work" / name).exists()

    todo = [s for s, (name, _) in Q11_STEPS.items() if name in claims and missing(name)]
    again = {Q11_STEPS[step][0] for step in todo}
    if hopeless := untrue(set(claims) - again):
        raise Q11Refused(", ".join(hopeless))
    for step in todo:
        q11_do(folder, step)
    if hopeless := untrue(claims):
        raise Q11Refused(", ".join(hopeless))


# %% right why="knows what fetch would write, and refuses before the first step"
def q11_make_whole(folder, claims):
    work, offered = folder.path / "work", (folder.path / "upstream.txt").read_bytes()
    absent = [name for name in claims if not (work / name).exists()]
    coming = hashlib.sha256(b"fetch: " + offered).hexdigest()[:12]
    if "fix.patch" in absent or ("zlib.c" in absent and coming != claims["zlib.c"]):
        raise Q11Refused(absent[0])
    for name in claims:
        if name not in absent and q11_hash(work / name) != claims[name]:
            raise Q11Refused(name)
    for step, (name, _) in Q11_STEPS.items():
        if name in absent:
            q11_do(folder, step)
            if q11_hash(work / name) != claims[name]:
                raise Q11Refused(name)


# %% right why="makes all that is gone, then goes through the claims in their own order"
def q11_make_whole(folder, claims):
    work = folder.path / "work"
    makers = {name: step for step, (name, _) in Q11_STEPS.items()}

    def compare(names):
        for name in names:
            if not (work / name).exists() or q11_hash(work / name) != claims[name]:
                raise Q11Refused(f"not as claimed: {name}")

    away = {name for name in makers if name in claims and not (work / name).exists()}
    compare(name for name in claims if name not in away)
    for name in sorted(away, key=list(makers).index):
        q11_do(folder, makers[name])
    compare(claims)


# %% test id="s11_goes_on" points=2
for q11_case in (
    ("the folder is as it was", lambda work: None, []),
    ("a file that nobody claims lies there", q11_write("notes.txt", "mine"), []),
    ("libz.a is gone", q11_remove("libz.a"), ["install"]),
    ("zlib.c is gone", q11_remove("zlib.c"), ["fetch"]),
    ("zlib.o and libz.a are gone", q11_remove("zlib.o", "libz.a"), ["compile", "install"]),
    (
        "all but fix.patch is gone",
        q11_remove("zlib.c", "zlib.o", "libz.a"),
        ["fetch", "compile", "install"],
    ),
):
    problem = q11_try(*q11_case)
    assert not problem, f"{problem}. Which files are gone, and which step has to come before which?"


# %% test id="s11_refuses" points=2
def q11_zlib_o_changed_libz_gone(work):
    (work / "zlib.o").write_text("another object")
    (work / "libz.a").unlink()


for q11_case in (
    ("the folder is empty", q11_remove("fix.patch", "libz.a", "zlib.c", "zlib.o")),
    ("the folder is gone", shutil.rmtree),
    ("fix.patch is gone, the rest is there", q11_remove("fix.patch")),
    ("libz.a holds something else", q11_write("libz.a", "my own libz")),
    ("libz.a is there and empty", q11_write("libz.a", "")),
    ("fix.patch was edited", q11_write("fix.patch", "- 0\n+ 2\n")),
    ("zlib.o holds something else, libz.a is gone", q11_zlib_o_changed_libz_gone),
    (
        "zlib.c is gone, libz.a holds something else",
        lambda work: [(work / "zlib.c").unlink(), (work / "libz.a").write_text("mine")],
    ),
):
    problem = q11_try(*q11_case)
    assert not problem, (
        f"{problem}. What does a look at all files show before the first step, and whose are they?"
    )

# %% test id="s11_differs" points=1
q11_moved = {"upstream": "int inflate(int level);"}
problem = q11_try(
    "the folder is as it was, the project offers another zlib.c", lambda work: None, [], **q11_moved
)
assert not problem, f"{problem}. Is there anything to get back?"
for q11_gone in (["zlib.c"], ["zlib.c", "zlib.o", "libz.a"]):
    problem = q11_try(
        f"gone: {', '.join(q11_gone)}; and the project offers another zlib.c by now",
        q11_remove(*q11_gone),
        **q11_moved,
    )
    assert not problem, f"{problem}. Is what was made again what was claimed?"
problem = q11_try(
    "gone: zlib.c, zlib.o; the project offers the same zlib.c, and the compiler is a newer one",
    q11_remove("zlib.c", "zlib.o"),
    compiler="cc 14",
)
assert not problem, f"{problem}. Is what was made again what was claimed, each of it?"

# %% spoken id="s11_say" question="run-208" points=2

# %% [markdown]
# ## 12 · The budget after a restart

# %% question id="budget-after-restart"

# %% [markdown]
# Five ways to keep a budget of steps. `q12_step` does one step, and what was done is counted outside.


# %%
def q12_step(folder):
    folder.perform("step")
    return "performed"


def q12_load(folder):
    return json.loads(folder.checkpoint.read_text()) if folder.checkpoint.exists() else {"used": 0}


def q12_save(folder, state):
    new = folder.path / "new.json"
    new.write_text(json.dumps(state))
    os.replace(new, folder.checkpoint)


def q12_in_memory(folder, budget):
    state = {"used": 0}
    while state["used"] < budget:
        q12_step(folder)
        state["used"] += 1


def q12_finally(folder, budget):
    state = q12_load(folder)
    try:
        while state["used"] < budget:
            q12_step(folder)
            state["used"] += 1
    finally:
        q12_save(folder, state)


# %%
def q12_after(folder, budget):
    state = q12_load(folder)
    while state["used"] < budget:
        q12_step(folder)
        state["used"] += 1
        q12_save(folder, state)


def q12_every_fifth(folder, budget):
    state = q12_load(folder)
    while state["used"] < budget:
        q12_step(folder)
        state["used"] += 1
        if state["used"] % 5 == 0:
            q12_save(folder, state)


def q12_before(folder, budget):
    state = q12_load(folder)
    while state["used"] < budget:
        state["used"] += 1
        q12_save(folder, state)
        q12_step(folder)


# %% [markdown]
# The budget is 40. The first process is killed in its 12th step, the second in its 9th, the third in its 15th, each
# time when the step was performed and `q12_step` is about to return. The fourth runs to its end. How many steps do the
# four processes perform together?

# %%
Q12_WAYS = {
    "in memory": q12_in_memory,
    "in finally": q12_finally,
    "after": q12_after,
    "every fifth": q12_every_fifth,
    "before": q12_before,
}

# %% answer id="s12_totals"
# A dict of five numbers, such as
# {"in memory": 0, "in finally": 0, "after": 0, "every fifth": 0, "before": 0}
### BEGIN SOLUTION
q12_totals = {"in memory": 76, "in finally": 76, "after": 43, "every fifth": 51, "before": 40}
### END SOLUTION

# %% wrong loses="s12_unsaved s12_saved" why="a budget of 40 is a budget of 40"
q12_totals = dict.fromkeys(Q12_WAYS, 40)

# %% wrong loses="s12_unsaved" why="finally runs whatever happens"
q12_totals = {"in memory": 76, "in finally": 40, "after": 43, "every fifth": 51, "before": 40}

# %% wrong loses="s12_unsaved" why="each process has its own budget of 40"
q12_totals = {"in memory": 160, "in finally": 160, "after": 43, "every fifth": 51, "before": 40}

# %% wrong loses="s12_saved" why="a step that was performed was counted"
q12_totals = {"in memory": 76, "in finally": 76, "after": 40, "every fifth": 46, "before": 40}

# %% wrong loses="s12_saved" why="a step that was killed after its charge is wasted"
q12_totals = {"in memory": 76, "in finally": 76, "after": 43, "every fifth": 51, "before": 37}

# %% wrong loses="s12_unsaved s12_saved" why="numbers without names"
q12_totals = [76, 76, 43, 51, 40]

# %% right why="added up"
q12_totals = {"in memory": 12 + 9 + 15 + 40, "after": 40 + 3, "before": 40}
q12_totals |= {"in finally": q12_totals["in memory"], "every fifth": 12 + 9 + 15 + 15}


# %% test id="s12_unsaved" points=1
def q12_total(way):
    with WorkFolder.fresh() as folder:
        for step in (12, 9, 15):
            launch(way, folder, 40, kill_before='return "performed"', visit=step, echo=False)
        launch(way, folder, 40, echo=False).result()
        return len(folder.performed())


def q12_problem(names, hint):
    """One sentence on the first way whose total was predicted wrongly, or ""."""
    if "q12_totals" not in globals():
        return "there is no q12_totals yet: run the cell s12_totals with your dict in it."
    for name in names:
        predicted = q12_totals.get(name) if isinstance(q12_totals, dict) else None
        if type(predicted) is not int:
            return f"{name}: expected a number, and q12_totals holds {predicted!r} for it."
        problem = differs(predicted, q12_total(Q12_WAYS[name]))
        if problem:
            return f"{name}: {problem}. {hint}"
    return ""


problem = q12_problem(["in memory", "in finally"], "With what does each process start to count?")
assert not problem, problem

# %% test id="s12_saved" points=1
problem = q12_problem(
    ["after", "every fifth", "before"], "What does the save say when the next process loads it?"
)
assert not problem, problem

# %% [markdown]
# Now the budget counts tokens. One call of the model takes at most 8, and only its reply says how many it took. If the
# process dies before that, nobody will ever know. Write `q12_think(folder, budget)`:
#
# * It calls `q12_call(folder)` again and again, as long as a call of 8 still fits into the budget, then returns.
# * However often it is killed and started again: all calls of all processes together never take more than `budget`.
# * Without a kill it ends only when fewer than 8 tokens are left. Each kill may waste at most 8 tokens more.
#
# About eight lines, with `q12_load` and `q12_save`.


# %%
def q12_call(folder):
    tokens = random.randint(1, 8)
    folder.perform(f"{tokens}")
    return tokens


def q12_bill(folder):
    """What the calls took since the last bill. A process started later cannot look it up."""
    tokens = sum(map(int, folder.performed()))
    (folder.path / "performed.log").unlink(missing_ok=True)
    return tokens


def q12_thinks(folder, budget=16, seed=11):
    random.seed(seed)  # so that the same answer gets the same points
    return q12_think(folder, budget)


def q12_judge(folder):
    return "over" if q12_bill(folder) > 16 else "kept"


# %% answer id="s12_think"
def q12_think(folder, budget):
    """Call the model until a call of 8 tokens might not fit any more."""
    ### BEGIN SOLUTION
    state = q12_load(folder)
    while state["used"] + 8 <= budget:
        reserved = state | {"used": state["used"] + 8}
        q12_save(folder, reserved)
        state["used"] += q12_call(folder)
        q12_save(folder, state)
    ### END SOLUTION


# %% wrong loses="s12_kills" why="charges what the reply says, when it says it"
def q12_think(folder, budget):
    state = q12_load(folder)
    while state["used"] + 8 <= budget:
        state["used"] += q12_call(folder)
        q12_save(folder, state)


# %% wrong loses="s12_no_kill" why="charges the most, and never gives back what was not taken"
def q12_think(folder, budget):
    state = q12_load(folder)
    while state["used"] + 8 <= budget:
        state["used"] += 8
        q12_save(folder, state)
        q12_call(folder)


# %% wrong loses="s12_kills" why="each process counts its own tokens"
def q12_think(folder, budget):
    used = 0
    while used + 8 <= budget:
        used += q12_call(folder)


# %% wrong loses="s12_kills" why="saves what it knows before each call"
def q12_think(folder, budget):
    state = q12_load(folder)
    while state["used"] + 8 <= budget:
        q12_save(folder, state)
        state["used"] += q12_call(folder)


# %% wrong loses="s12_kills" why="a call without a reply took nothing, so a new process gives it back"
def q12_think(folder, budget):
    state = q12_load(folder) | {"open": 0}
    while state["used"] + 8 <= budget:
        q12_save(folder, state | {"open": 8})
        state["used"] += q12_call(folder)
        q12_save(folder, state)


# %% wrong loses="s12_kills" why="charges 1 for the call before it, and the rest afterwards"
def q12_think(folder, budget):
    state = q12_load(folder)
    while state["used"] + 8 <= budget:
        state["used"] += 1
        q12_save(folder, state)
        state["used"] += q12_call(folder) - 1
        q12_save(folder, state)


# %% wrong loses="s12_no_kill s12_kills" why="goes on as long as anything is left"
def q12_think(folder, budget):
    state = q12_load(folder)
    while state["used"] < budget:
        state["used"] += 8
        q12_save(folder, state)
        state["used"] += q12_call(folder) - 8
        q12_save(folder, state)


# %% wrong loses="s12_kills" why="finally puts down what was taken"
def q12_think(folder, budget):
    state = q12_load(folder)
    try:
        while state["used"] + 8 <= budget:
            state["used"] += q12_call(folder)
    finally:
        q12_save(folder, state)


# %% wrong loses="s12_kills" why="a run that was killed is over its budget"
def q12_think(folder, budget):
    state = q12_load(folder)
    if state.get("open"):
        return
    while state["used"] + 8 <= budget:
        q12_save(folder, state | {"open": True})
        state["used"] += q12_call(folder)
        q12_save(folder, state)


# %% wrong loses="s12_kills" why="adds up what the outside has written down"
def q12_think(folder, budget):
    record = folder.path / "performed.log"

    def used():
        return sum(map(int, record.read_text().split())) if record.exists() else 0

    while used() + 8 <= budget:
        q12_call(folder)


# %% wrong loses="s12_kills" why="reserves the double, to be on the safe side"
def q12_think(folder, budget):
    state = q12_load(folder)
    while state["used"] + 8 <= budget:
        q12_save(folder, {"used": state["used"] + 16})
        state["used"] += q12_call(folder)
        q12_save(folder, state)


# %% wrong loses="s12_kills" why="reserves 9, so that a call of 8 is surely covered"
def q12_think(folder, budget):
    state = q12_load(folder)
    while state["used"] + 8 <= budget:
        q12_save(folder, {"used": state["used"] + 9})
        state["used"] += q12_call(folder)
        q12_save(folder, state)


# %% wrong loses="s12_kills" why="adds 8 to the save for each call, and settles in its own memory only"
def q12_think(folder, budget):
    mine = saved = q12_load(folder)["used"]
    while mine + 8 <= budget:
        saved += 8
        q12_save(folder, {"used": saved})
        mine += q12_call(folder)


# %% wrong loses="s12_kills" why="reserves what is left"
def q12_think(folder, budget):
    state = q12_load(folder)
    while state["used"] + 8 <= budget:
        q12_save(folder, {"used": budget})
        state["used"] += q12_call(folder)
        q12_save(folder, state)


# %% wrong loses="s12_no_kill s12_kills" why="knows what calls take, and charges that before the call"
def q12_think(folder, budget):
    state = q12_load(folder)
    number = 0
    while state["used"] + 8 <= budget:
        state["used"] += [5, 8, 3][number % 3]
        number += 1
        q12_save(folder, state)
        q12_call(folder)


# %% wrong loses="s12_no_kill" why="copies how the model draws, and charges that before the call"
def q12_think(folder, budget):
    state = q12_load(folder)
    while state["used"] + 8 <= budget:
        state["used"] += random.randint(1, 8)
        q12_save(folder, state)
        q12_call(folder)


# %% right why="notes the open call beside what is used, and charges it to the full when it is loaded"
def q12_think(folder, budget):
    state = q12_load(folder)
    used = state["used"] + state.get("open", 0)
    while budget - used >= 8:
        q12_save(folder, {"used": used, "open": 8})
        used += q12_call(folder)
        q12_save(folder, {"used": used, "open": 0})


# %% right why="reserves, then settles"
def q12_think(folder, budget):
    while q12_load(folder)["used"] <= budget - 8:
        before = q12_load(folder)["used"]
        q12_save(folder, {"used": before + 8})
        q12_save(folder, {"used": before + q12_call(folder)})


# %% test id="s12_no_kill" points=1
for q12_budget in (7, 24, 100):
    with WorkFolder.fresh() as folder:
        launch(q12_thinks, folder, q12_budget, echo=False).result()
        q12_took = q12_bill(folder)
    assert q12_budget - 8 < q12_took <= q12_budget, (
        f"with a budget of {q12_budget} and no kill, the calls took {q12_took} tokens; expected "
        f"more than {q12_budget - 8} and at most {q12_budget}. What becomes of the tokens that a "
        "call did not take?"
    )


# %% test id="s12_kills" points=2
def q12_four_lives(budget, kill_before):
    """Three processes are killed in their first call, a fourth runs to its end: what each took."""
    with WorkFolder.fresh() as folder:
        took = []
        for line in (*[kill_before] * 3, None):
            life = launch(q12_thinks, folder, budget, kill_before=line, echo=False)
            took.append(q12_bill(folder))
        life.result()
        return took


with WorkFolder.fresh() as folder:
    launch(q12_thinks, folder, 32, echo=False).result()
    assert q12_bill(folder), "with a budget of 32 and no kill, your function never called q12_call."
*_, q12_took = q12_four_lives(32, 'folder.perform(f"{tokens}")')
assert q12_took, (
    "with a budget of 32, three processes were killed in their first call, and a fourth ran to its "
    "end and made no call; expected one. Each kill may waste 8 tokens, so 8 are left. How many "
    "does your save take for a call whose reply nobody has heard?"
)
with WorkFolder.fresh() as folder:
    launch(q12_thinks, folder, 100, echo=False).result()
    q12_unkilled = q12_bill(folder)
for q12_visit in (2, 5, 12):
    with WorkFolder.fresh() as folder:
        q12_late = {"kill_before": 'folder.perform(f"{tokens}")', "visit": q12_visit}
        launch(q12_thinks, folder, 100, **q12_late, echo=False)
        q12_took = [q12_bill(folder)]
        launch(q12_thinks, folder, 100, echo=False).result()
        q12_took.append(q12_bill(folder))
    assert sum(q12_took) > min(q12_unkilled, 100) - 16, (
        f"with a budget of 100, a process was killed in call {q12_visit}, and a second ran to its "
        f"end: they took {q12_took}. Without a kill the calls take {q12_unkilled}, so the kill "
        "wasted more than 8. What does the save say of the calls whose replies were heard?"
    )
q12_took = q12_four_lives(31, "return tokens")
assert sum(q12_took) <= 31, (
    "with a budget of 31, three processes were killed when their first call had taken its tokens, "
    f"and a fourth ran to its end: they took {q12_took}; expected at most 31 together. What does "
    "the save say of a call whose reply nobody has heard?"
)
q12_report = explore(q12_thinks, WorkFolder.fresh, q12_judge, inside=[q12_think, q12_call])
assert q12_report.clean, (
    f"with a budget of 16: {q12_report.verdict()}. 'over' means that more than 16 were taken."
)

# %% spoken id="s12_say" question="budget-after-restart" points=2

# %% [markdown]
# ## 13 · Two files, cut at every byte

# %% question id="append-or-overwrite"

# %% [markdown]
# An agent keeps what it did in two files. The **log** gets one line of JSON for each step. The **snapshot** is one
# JSON list of all steps so far, and a line break; it is written anew at each step, either in place or beside.
#
# `q13_load` reads a log and passes over the lines that it cannot read. `q13_read` reads a snapshot, and finds no step
# in one that it cannot read. "配" is one character and three bytes.


# %%
Q13_STEPS = [{"step": 1, "did": "clone re2"}, {"step": 2, "did": "配置 re2"}]
Q13_THIRD = {"step": 3, "did": "编译 re2"}


def q13_bytes(value):
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def q13_append(path, step):
    with open(path, "ab") as file:
        file.write(q13_bytes(step))


def q13_load(path):
    steps = []
    for line in path.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError):  # also an unfinished character
            steps.append(json.loads(line))
    return steps


def q13_in_place(path, steps):
    with open(path, "wb") as file:
        file.write(q13_bytes(steps))


def q13_beside(path, steps):
    with open(path.with_suffix(".tmp"), "wb") as file:
        file.write(q13_bytes(steps))
    os.replace(path.with_suffix(".tmp"), path)


def q13_read(path):
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return []


# %% [markdown]
# Two steps are in the file, and the third is being written: the file was opened, and the bytes are on their way. Then a
# kill comes. Of these bytes the file has got
#
# * **none**,
# * **some**: one at least, and two at least are missing,
# * **all but one**.
#
# Assign to `predicted_cuts` a dict of five lists of three numbers:
#
# * For `"log, none"`, `"log, some"` and `"log, all but one"`: how many steps does `q13_load` find after the kill? How
#   many when a new process has then appended step 4 by `q13_append`? How many when it has appended step 5 as well?
# * For `"in place"` and `"beside"`: how many steps does `q13_read` find after a kill with none of the bytes, with some,
#   and with all but one?
#
# The check makes each of these files, for "some" one for every byte, and reads it.

# %% answer id="s13_predicted_cuts"
# {"log, none": [after the kill, with step 4, with step 5], "log, some": [...],
#  "log, all but one": [...], "in place": [none, some, all but one], "beside": [...]}
### BEGIN SOLUTION
predicted_cuts = {
    "log, none": [2, 3, 4],
    "log, some": [2, 2, 3],
    "log, all but one": [3, 2, 3],
    "in place": [0, 0, 3],
    "beside": [2, 2, 2],
}
### END SOLUTION

# %% wrong loses="s13_cuts_log" why="a torn line costs itself and nothing else"
predicted_cuts = {
    "log, none": [2, 3, 4],
    "log, some": [2, 3, 4],
    "log, all but one": [3, 4, 5],
    "in place": [0, 0, 3],
    "beside": [2, 2, 2],
}

# %% wrong loses="s13_cuts_log" why="a record that can be read is safe"
predicted_cuts = {
    "log, none": [2, 3, 4],
    "log, some": [2, 2, 3],
    "log, all but one": [3, 3, 4],
    "in place": [0, 0, 3],
    "beside": [2, 2, 2],
}

# %% wrong loses="s13_cuts_log" why="without its line break a record is not there"
predicted_cuts = {
    "log, none": [2, 3, 4],
    "log, some": [2, 2, 3],
    "log, all but one": [2, 2, 3],
    "in place": [0, 0, 3],
    "beside": [2, 2, 2],
}

# %% wrong loses="s13_cuts_log" why="after a torn line nothing can be read any more"
predicted_cuts = {
    "log, none": [2, 3, 4],
    "log, some": [2, 2, 2],
    "log, all but one": [3, 2, 2],
    "in place": [0, 0, 3],
    "beside": [2, 2, 2],
}

# %% wrong loses="s13_cuts_snapshot" why="as long as nothing is written the old one is there"
predicted_cuts = {
    "log, none": [2, 3, 4],
    "log, some": [2, 2, 3],
    "log, all but one": [3, 2, 3],
    "in place": [2, 0, 3],
    "beside": [2, 2, 2],
}

# %% wrong loses="s13_cuts_snapshot" why="with all but one byte the new one is as good as there"
predicted_cuts = {
    "log, none": [2, 3, 4],
    "log, some": [2, 2, 3],
    "log, all but one": [3, 2, 3],
    "in place": [0, 0, 3],
    "beside": [2, 2, 3],
}

# %% wrong loses="s13_cuts_log s13_cuts_snapshot" why="one list"
predicted_cuts = [2, 2, 3]

# %% right why="tuples"
predicted_cuts = dict.fromkeys(["beside"], (2,) * 3) | {"in place": (0, 0, 3)}
predicted_cuts |= {"log, none": (2, 3, 4), "log, some": (2, 2, 3), "log, all but one": (3, 2, 3)}


# %% test id="s13_cuts_log" points=1
def q13_log_cut(path, got):
    """What the loader finds when the log has got so many bytes of step 3, then two steps more."""
    path.unlink(missing_ok=True)
    path.write_bytes(b"".join(map(q13_bytes, Q13_STEPS)) + q13_bytes(Q13_THIRD)[:got])
    found = [len(q13_load(path))]
    for step in (4, 5):
        q13_append(path, {"step": step, "did": "test re2"})
        found.append(len(q13_load(path)))
    return found


def q13_snapshot_cut(path, got, place):
    """What is found when a new snapshot has got so many of its bytes, in place or beside."""
    path.unlink(missing_ok=True)
    q13_in_place(path, Q13_STEPS)
    new = q13_bytes([*Q13_STEPS, Q13_THIRD])[:got]
    (path if place == "in place" else path.with_suffix(".tmp")).write_bytes(new)
    return len(q13_read(path))


def q13_cuts(make, path, size, *args):
    """What is found when a file has got none of its bytes, some, and all but one."""
    some = [make(path, got, *args) for got in range(1, size - 1)]
    assert all(each == some[0] for each in some), f"not one and the same: {some}"
    return [make(path, 0, *args), some[0], make(path, size - 1, *args)]


def q13_threes(name):
    assert "predicted_cuts" in globals(), (
        "there is no predicted_cuts yet: run the cell s13_predicted_cuts with your dict in it."
    )
    numbers = predicted_cuts.get(name) if isinstance(predicted_cuts, dict) else None
    assert isinstance(numbers, list | tuple) and len(numbers) == 3, (
        f"{name}: expected three numbers in a dict, and predicted_cuts is {predicted_cuts!r}."
    )
    return numbers


with WorkFolder.fresh() as q13_folder:
    q13_file = q13_folder.path / "log.jsonl"
    q13_found = q13_cuts(q13_log_cut, q13_file, len(q13_bytes(Q13_THIRD)))
for q13_name, q13_three in zip(("none", "some", "all but one"), q13_found, strict=True):
    q13_mine, q13_when = q13_threes(f"log, {q13_name}"), ["after the kill", "step 4", "step 5"]
    q13_problem = differs(q13_mine, q13_three, q13_when)
    assert not q13_problem, (
        f"log, {q13_name}: {q13_problem}. What does the line break at its end decide for a reader "
        "of lines, and where does the next line begin?"
    )

# %% test id="s13_cuts_snapshot" points=1
for q13_place in ("in place", "beside"):
    with WorkFolder.fresh() as q13_folder:
        q13_size = len(q13_bytes([*Q13_STEPS, Q13_THIRD]))
        q13_file = q13_folder.path / "snapshot.json"
        q13_found = q13_cuts(q13_snapshot_cut, q13_file, q13_size, q13_place)
    q13_problem = differs(q13_threes(q13_place), q13_found, ["none", "some", "all but one"])
    assert not q13_problem, f"{q13_place}: {q13_problem}. Which file is it that gets the bytes?"

# %% [markdown]
# Now mend the log, with `q13_load` as it stands. Write `append_record(path, line)`. The line is what `q13_bytes` makes
# of a step, its line break included.
#
# * Wherever the log was cut: what `q13_load` found before the call it finds after it, in that order, and then the new
#   step. The file may also be empty, or not be there.
# * A kill inside the call may cost the new step, and nothing that `q13_load` found before.
# * No second file, no rename.


# %% answer id="s13_append_record"
def append_record(path, line):
    """Append a line of JSON, as bytes, to the log at `path`, which may have been cut."""
    ### BEGIN SOLUTION
    with open(path, "ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            whole = file.read() == b"\n"
            file.write(b"" if whole else b"\n")
        file.write(line)
    ### END SOLUTION


# %% wrong loses="s13_append_cuts s13_append_kills" why="appending is safe as it is"
def append_record(path, line):
    with open(path, "ab") as file:
        file.write(line)


# %% wrong loses="s13_append_cuts s13_append_kills" why="cuts off whatever has no line break"
def append_record(path, line):
    with open(path, "ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line)


# %% wrong loses="s13_append_cuts s13_append_kills" why="looks at the end of the text, which may end inside a character"
def append_record(path, line):
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    with open(path, "ab") as file:
        file.write((b"\n" if text and text[-1] != "\n" else b"") + line)


# %% wrong loses="s13_append_kills" why="writes the log anew"
def append_record(path, line):
    before = path.read_bytes() if path.exists() else b""
    path.write_bytes(before + b"\n" + line)


# %% wrong loses="s13_append_kills" why="a log that is whole may be written anew"
def append_record(path, line):
    data = path.read_bytes() if path.exists() else b""
    if data.endswith(b"\n"):
        path.write_bytes(data + line)
    else:
        with open(path, "ab") as file:
            file.write((b"\n" if data else b"") + line)


# %% wrong loses="s13_append_kills" why="a copy, in case that the append is killed"
def append_record(path, line):
    path.touch()
    copy = path.with_suffix(".bak")
    shutil.copy(path, copy)
    with open(path, "ab") as file:
        file.write(b"\n" + line)
    copy.unlink()


# %% wrong loses="s13_append_kills" why="a temporary file and a rename, as for a snapshot"
def append_record(path, line):
    before = path.read_bytes() if path.exists() else b""
    path.with_suffix(".new").write_bytes(before + b"\n" + line)
    os.replace(path.with_suffix(".new"), path)


# %% wrong loses="s13_append_kills" why="takes the last line off, and puts it back with a line break"
def append_record(path, line):
    with open(path, "ab+") as file:
        file.seek(0)
        data = file.read()
        start = data.rfind(b"\n") + 1
        file.truncate(start)
        file.flush()
        with suppress(ValueError):
            json.loads(data[start:])
            file.write(data[start:] + b"\n")
        file.write(line)


# %% wrong loses="s13_append_cuts" why="a file has a last byte"
def append_record(path, line):
    with open(path, "rb+") as file:
        file.seek(-1, os.SEEK_END)
        torn = file.read() != b"\n"
        file.write((b"\n" if torn else b"") + line)


# %% right why="a line break before each record, empty lines are passed over"
def append_record(path, line):
    with open(path, "ab") as file:
        file.write(b"\n" + line)


# %% right why="cuts off a last line that cannot be read, and completes one that can"
def append_record(path, line):
    data = path.read_bytes() if path.exists() else b""
    start = data.rfind(b"\n") + 1
    with open(path, "ab") as file:
        if data[start:]:
            try:
                json.loads(data[start:])
                file.write(b"\n")
            except ValueError:
                file.truncate(start)
        file.write(line)


# %% [markdown]
# The first check cuts the log at every byte and appends, and in some places it cuts again inside what was appended. The
# second looks for renames and for a second file, and kills at every line of `append_record` and inside the library
# functions that it calls.


# %% test id="s13_append_cuts" points=2
Q13_NEW = {"step": 4, "did": "测试 re2"}
Q13_NEWER = {"step": 5, "did": "install re2"}
Q13_LINE = q13_bytes(Q13_NEW)


def q13_fault(append, path):
    """Cut, append, load, at every byte: the first fault in a sentence, or ""."""

    def fault(data, step, where):
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
        expected = [*q13_load(path), step] if data else [step]
        append(path, q13_bytes(step))
        found = q13_load(path) if path.exists() else []
        if found == expected:
            return ""
        wanted, got = ([each["step"] for each in steps] for steps in (expected, found))
        return f"{where}: after the append the loader finds the steps {got}; expected {wanted}"

    whole = b"".join(map(q13_bytes, [*Q13_STEPS, Q13_THIRD]))
    third = len(whole) - len(q13_bytes(Q13_THIRD))
    for cut in [*range(len(whole) + 1), None]:
        data = None if cut is None else whole[:cut]
        where = "no file" if cut is None else f"a log cut after {cut} of {len(whole)} bytes"
        if problem := fault(data, Q13_NEW, where):
            return problem
    for cut in (0, third, third + 9, whole.index("编".encode()) + 1, len(whole) - 1, len(whole)):
        fault(whole[:cut], Q13_NEW, "")
        grown = path.read_bytes()
        kept = cut if grown.startswith(whole[:cut]) else whole[:cut].rfind(b"\n") + 1
        for again in range(kept, len(grown)):
            where = f"a log cut after {cut} bytes, appended to, cut after {again} of {len(grown)}"
            if problem := fault(grown[:again], Q13_NEWER, where):
                return problem
    return ""


with WorkFolder.fresh() as q13_folder:
    q13_problem = launch(
        q13_fault, append_record, q13_folder.path / "log.jsonl", echo=False, deadline=20
    ).result()
assert not q13_problem, f"{q13_problem}. What is the last byte that the new line comes behind?"


# %% test id="s13_append_kills" points=1
@contextmanager
def q13_log(missing):
    """A log of three steps without so many bytes at its end, and the steps that are found in it."""
    with WorkFolder.fresh() as folder:
        path, whole = folder.path / "log.jsonl", map(q13_bytes, [*Q13_STEPS, Q13_THIRD])
        path.write_bytes(b"".join(whole)[: -missing or None])
        yield SimpleNamespace(path=path, kept=q13_load(path))


def q13_appending(place):
    append_record(place.path, Q13_LINE)


def q13_left(place):
    if {path.name for path in place.path.parent.iterdir()} - {"log.jsonl"}:
        return "second file"
    found = q13_load(place.path) if place.path.exists() else []
    return "kept" if found in (place.kept, [*place.kept, Q13_NEW]) else "lost"


with q13_log(0) as q13_place:
    q13_renames = launch(renames, append_record, q13_place.path, Q13_LINE, echo=False).result()
    q13_names = [path.name for path in q13_place.path.parent.iterdir()]
    q13_steps = q13_load(q13_place.path) if "log.jsonl" in q13_names else []
assert not q13_renames and q13_names == ["log.jsonl"], (
    f"append_record renamed {len(q13_renames)} files and left {q13_names}; expected no rename, and "
    "the log alone. What can an append not destroy?"
)
assert q13_steps == [*q13_place.kept, Q13_NEW], (
    f"after an append to a whole log it holds {q13_steps}; expected three and the new one."
)
for q13_missing in (0, 1, 9):
    q13_world = partial(q13_log, q13_missing)
    q13_report = explore(q13_appending, q13_world, q13_left, restart=False, fine=True)
    assert q13_report.clean, (
        f"a log without its last bytes, {q13_missing} of them: {q13_report.verdict()}. What is at "
        "that moment in the log of what the loader had found, and what beside it?"
    )

# %% spoken id="s13_say" question="append-or-overwrite" points=2

# %% [markdown]
# ## 14 · A call and no result

# %% question id="call-without-result"

# %% [markdown]
# The session of an agent is a list of entries in a file. An entry of the role "assistant" holds the calls that the
# model wants made. Right behind it belong the results of all of them, in any order; otherwise the model's API refuses
# the session. A result has one of four statuses, and its text tells the model the same.
#
# `q14_life` is one life of the agent: it loads the session, mends it by `mend`, and goes on with it until the model has
# no call left. Each test lets the model use one of three tools. `edit_file` writes a whole file. `pay` pays an invoice
# at a service that can be asked whether it has seen a call. `fax` sends a letter by a service that cannot be asked.


# %%
Q14_TEXTS = {
    "done": "done",
    "not done": "this was not done",
    "unknown": "no result: this may have been done, or not",
    "person": "no result: this may have been done, or not. A person looks; do not call it again",
}


def q14_result(call, status):
    return {"role": "result", "call": call["id"], "status": status, "text": Q14_TEXTS[status]}


def q14_model(entries):
    """The next entry: the task is called until its result is done, or a person has it."""
    for number, entry in enumerate(entries, 1):
        calls = [call["id"] for call in entry.get("calls", [])]
        behind = [each.get("call") for each in entries[number : number + len(calls)]]
        if set(calls) != set(behind):
            raise ValueError(f"refused: {calls} called, and right behind results of {behind}")
    given = [entry for entry in entries if entry.get("role") == "result"]
    if given and given[-1]["status"] in ("done", "person"):
        return {"role": "assistant", "calls": []}
    call = {"id": f"call_{uuid.uuid4().hex[:8]}", "tool": entries[0]["task"]}
    return {"role": "assistant", "calls": [call]}


def q14_life(folder, mend):
    entries = mend(q14_read(folder), q14_asking(folder))
    while True:
        q14_write(folder, entries)
        entries.append(q14_model(entries))
        q14_write(folder, entries)
        if not entries[-1]["calls"]:
            return entries
        for call in entries[-1]["calls"]:
            status = q14_do(folder, call)
            entries.append(q14_result(call, status))


# %% [markdown]
# The next cell makes the file and the outside world. You may run it without reading it.


# %%
def q14_write(folder, entries):
    temporary = folder.path / "session.tmp"
    temporary.write_text(json.dumps(entries), encoding="utf-8")
    os.replace(temporary, folder.path / "session.json")


def q14_read(folder):
    return json.loads((folder.path / "session.json").read_text(encoding="utf-8"))


def q14_outside(folder, statement, *values):
    with closing(sqlite3.connect(folder.path / "outside.sqlite")) as db, db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("CREATE TABLE IF NOT EXISTS done (tool TEXT, call TEXT)")
        return db.execute(statement, values).fetchall()


def q14_do(folder, call):
    if call["tool"] == "edit_file":
        (folder.path / "CMakeLists.txt").write_text("option(TESTS OFF)")
    q14_outside(folder, "INSERT INTO done VALUES (?, ?)", call["tool"], call["id"])
    return "done"


def q14_asking(folder):
    def ask(call):
        if call["tool"] != "pay":
            raise ValueError(f"ask: nobody can be asked about {call['tool']}")
        return bool(q14_outside(folder, "SELECT 1 FROM done WHERE call = ?", call["id"]))

    return ask


def q14_two_lives(tool, happened, mend):
    """A first life is killed around the effect, a second one mends the session and goes on.

    Returns the results of the first call, how often the tool was used, and what the file holds.
    """
    with WorkFolder.fresh() as folder:
        q14_write(folder, [{"role": "user", "task": tool}])
        (folder.path / "CMakeLists.txt").write_text("option(TESTS ON)")
        line = "entries.append(q14_result" if happened else "status = q14_do"
        as_it_is = {"kill_before": line, "inside": [q14_life], "echo": False}
        first = launch(q14_life, folder, lambda entries, ask: entries, **as_it_is)
        assert first.end == "killed", first
        [call] = q14_read(folder)[-1]["calls"]
        launch(q14_life, folder, mend, echo=False).result()
        said = [entry for entry in q14_read(folder) if entry.get("call") == call["id"]]
        used = len(q14_outside(folder, "SELECT * FROM done"))
        return said, used, (folder.path / "CMakeLists.txt").read_text()


# %% [markdown]
# The process dies between a call and its result. Write `repair(entries, ask)`. It returns the entries with a result for
# each call that has none, made by `q14_result(call, status)` and right behind its call. All other entries stay as they
# are, and a session that was mended before stays as it is. `ask(call)` says whether a call of `pay` was made; for the
# other tools it raises an exception.
#
# You decide on the status. A session may hold calls of all three tools, whatever its task is. Each test kills an agent
# for real, once just before the effect and once just after it. In the end, both times, no result says what is false,
# the file is edited, the invoice is paid, and nothing was paid or sent twice.


# %% answer id="s14_repair"
def repair(entries, ask):
    """Return the entries of a session with a result for each call that has none."""
    ### BEGIN SOLUTION
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] not in known:
                status = {"edit_file": "unknown"}.get(call["tool"], "person")
                if call["tool"] == "pay":
                    status = "done" if ask(call) else "not done"
                mended.append(q14_result(call, status))
    return mended
    ### END SOLUTION


# %% wrong loses="s14_repair_pay s14_repair_fax" why="no result, let the model decide, whatever it was"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] not in known:
                mended.append(q14_result(call, "unknown"))
    return mended


# %% wrong loses="s14_repair_edit s14_repair_pay s14_repair_fax" why="no result means that it was not done"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] not in known:
                mended.append(q14_result(call, "not done"))
    return mended


# %% wrong loses="s14_repair_edit s14_repair_pay" why="a person looks into everything"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] not in known:
                mended.append(q14_result(call, "person"))
    return mended


# %% wrong loses="s14_repair_pay" why="asks about the first payment only"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    calls = [call for entry in entries for call in entry.get("calls", [])]
    pays = [call for call in calls if call["tool"] == "pay"]
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] not in known:
                status = {"edit_file": "unknown"}.get(call["tool"], "person")
                if call["tool"] == "pay":
                    status = "done" if ask(pays[0]) else "not done"
                mended.append(q14_result(call, status))
    return mended


# %% wrong loses="s14_repair_pay" why="one payment was made, so all were"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        missing = [call for call in entry.get("calls", []) if call["id"] not in known]
        paid = any(ask(call) for call in missing if call["tool"] == "pay")
        for call in missing:
            if call["tool"] == "pay":
                mended.append(q14_result(call, "done" if paid else "not done"))
            else:
                status = "unknown" if call["tool"] == "edit_file" else "person"
                mended.append(q14_result(call, status))
    return mended


# %% wrong loses="s14_repair_fax" why="what cannot be asked about is left to the model"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] not in known:
                status = "unknown"
                if call["tool"] == "pay":
                    status = "done" if ask(call) else "not done"
                mended.append(q14_result(call, status))
    return mended


# %% wrong loses="s14_repair_place" why="a result is a new entry, and new entries go to the end"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    calls = [call for entry in entries for call in entry.get("calls", [])]
    mended = list(entries)
    for call in calls:
        if call["id"] not in known:
            status = {"edit_file": "unknown"}.get(call["tool"], "person")
            if call["tool"] == "pay":
                status = "done" if ask(call) else "not done"
            mended.append(q14_result(call, status))
    return mended


# %% wrong loses="s14_repair_place" why="only the last call can have been interrupted"
def repair(entries, ask):
    if not entries or not entries[-1].get("calls"):
        return entries
    [call, *_] = entries[-1]["calls"]
    status = {"edit_file": "unknown"}.get(call["tool"], "person")
    if call["tool"] == "pay":
        status = "done" if ask(call) else "not done"
    return [*entries, q14_result(call, status)]


# %% wrong loses="s14_repair_place s14_repair_edit s14_repair_pay s14_repair_fax" why="a call without a result is taken out"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    return [
        entry for entry in entries if all(call["id"] in known for call in entry.get("calls", []))
    ]


# %% wrong loses="s14_repair_edit" why="nobody knows it, so the result has no status"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] in known:
                continue
            if call["tool"] == "edit_file":
                mended.append(q14_result(call, "unknown") | {"status": None, "text": ""})
            elif call["tool"] == "pay":
                mended.append(q14_result(call, "done" if ask(call) else "not done"))
            else:
                mended.append(q14_result(call, "person"))
    return mended


# %% wrong loses="s14_repair_fax" why="the status is right, so the text may say something else"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] in known:
                continue
            if call["tool"] == "edit_file":
                mended.append(q14_result(call, "unknown"))
            elif call["tool"] == "pay":
                mended.append(q14_result(call, "done" if ask(call) else "not done"))
            else:
                mended.append(q14_result(call, "not done") | {"status": "person"})
    return mended


# %% wrong loses="s14_repair_edit s14_repair_pay s14_repair_fax" why="the task says which tool it was"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] not in known:
                status = {"edit_file": "unknown"}.get(entries[0]["task"], "person")
                if entries[0]["task"] == "pay":
                    status = "done" if ask(call) else "not done"
                mended.append(q14_result(call, status))
    return mended


# %% wrong loses="s14_repair_edit s14_repair_pay s14_repair_fax" why="the first call says it for all of its entry"
def repair(entries, ask):
    known = {entry["call"] for entry in entries if entry["role"] == "result"}
    mended = []
    for entry in entries:
        mended.append(entry)
        for call in entry.get("calls", []):
            if call["id"] not in known:
                status = {"edit_file": "unknown"}.get(entry["calls"][0]["tool"], "person")
                if entry["calls"][0]["tool"] == "pay" == call["tool"]:
                    status = "done" if ask(call) else "not done"
                mended.append(q14_result(call, status))
    return mended


# %% right why="backwards, in place, a table of ways"
def repair(entries, ask):
    ways = {
        "edit_file": lambda call: "unknown",
        "pay": lambda call: "done" if ask(call) else "unknown",
        "fax": lambda call: "person",
    }
    for index in reversed(range(len(entries))):
        for call in reversed(entries[index].get("calls", [])):
            if not any(each.get("call") == call["id"] for each in entries):
                entries.insert(index + 1, q14_result(call, ways[call["tool"]](call)))
    return entries


# %% [markdown]
# First where the results stand, in five sessions, and that a second `repair` changes nothing.


# %% test id="s14_repair_place" points=1
def q14_session(*parts):
    """A session of users ("u"), calls ("edit_file:1 pay:2") and results ("=1")."""
    entries = []
    for part in parts:
        if part == "u":
            entries.append({"role": "user", "task": "edit_file"})
        elif part.startswith("="):
            entries.append(q14_result({"id": part[1:]}, "done"))
        else:
            calls = [
                dict(zip(("tool", "id"), call.split(":"), strict=True)) for call in part.split()
            ]
            entries.append({"role": "assistant", "calls": calls})
    return entries


Q14_SESSIONS = {
    "a session without a gap": ("u", "pay:1", "=1", "u", "edit_file:2 fax:3", "=3", "=2"),
    "a call at the end": ("u", "edit_file:1", "=1", "pay:2"),
    "a call, and then the user spoke": ("u", "fax:1", "u", "edit_file:2", "=2"),
    "two of three calls without a result": ("u", "pay:1 edit_file:2 fax:3", "=2"),
    "a gap in the middle and one at the end": ("u", "pay:1 pay:2", "=2", "u", "edit_file:3"),
}


def q14_answering(answer):
    def ask(call):
        if call["tool"] != "pay":
            raise ValueError(f"ask: nobody can be asked about {call['tool']}")
        return answer

    return ask


def q14_mended(mend, session):
    """What one `repair` makes of a session, and what a second one makes of that, paid meanwhile."""
    once = mend(json.loads(session), q14_answering(False))
    if not isinstance(once, list):
        return once, None
    return once, mend(json.loads(json.dumps(once)), q14_answering(True))


for q14_name, q14_parts in Q14_SESSIONS.items():
    q14_before = q14_session(*q14_parts)
    q14_once, q14_again = launch(q14_mended, repair, json.dumps(q14_before), echo=False).result()
    q14_there = [entry["call"] for entry in q14_before if "call" in entry]
    assert isinstance(q14_once, list) and all(isinstance(each, dict) for each in q14_once), (
        f"{q14_name}: repair returned {q14_once!r}; expected a list of entries."
    )
    q14_rest = [each for each in q14_once if each.get("call") in (None, *q14_there)]
    assert q14_rest == q14_before, (
        f"{q14_name}: besides the new results the session holds {q14_rest}; expected the entries "
        "that were there, in their order."
    )
    try:
        q14_model(q14_once)
        q14_refused = ""
    except ValueError as q14_error:
        q14_refused = str(q14_error)
    assert not q14_refused, f"{q14_name}: {q14_refused}. Where does the new result stand?"
    q14_calls = sorted(call["id"] for each in q14_once for call in each.get("calls", []))
    q14_results = sorted(each["call"] for each in q14_once if "call" in each)
    assert q14_calls == q14_results, (
        f"{q14_name}: the calls {q14_calls} have the results {q14_results}; expected one each."
    )
    assert q14_again == q14_once, (
        f"{q14_name}: mended once it has {len(q14_once)} entries, mended twice {len(q14_again)}, "
        "and they differ; expected no change. Which calls does a second repair take for open?"
    )

# %% [markdown]
# Then the three tools: each in two lives of an agent, and in three sessions with open calls of all three.


# %% test id="s14_repair_edit" points=1
def q14_mixed(mend, tool):
    """For each task of a session with three open calls: the results of the call of that tool."""
    tools, results = ["edit_file", "pay", "fax"], {}
    for task in tools:
        calls = [{"id": f"call_{each}", "tool": each} for each in tools]
        entries = [{"role": "user", "task": task}, {"role": "assistant", "calls": calls}]
        mended = mend(entries, q14_answering(True))
        results[task] = [each for each in mended if each.get("call") == f"call_{tool}"]
        tools = tools[1:] + tools[:1]  # another call is the first
    return results


def q14_tried_mixed(tool, status):
    """AssertionError if a call among others gets another result than in a session of its own."""
    life = launch(q14_mixed, repair, tool, echo=False)
    session = "in a session with open calls of all three tools"
    asked = life.reason.partition("ask: nobody can be asked about ")[2].partition(",")[0]
    assert not asked, (
        f"{session}, whatever its task, repair asked about the call of {asked}, and nobody knows "
        "that. What says of a call which tool it was?"
    )
    assert life.end == "finished", f"{session}, {life}"
    for task, results in life.value.items():
        assert results in ([], [q14_result({"id": f"call_{tool}"}, status)]), (
            f"{tool}, one of three open calls in a session whose task is {task}: {results}; "
            f"expected {status!r}, as in a session of its own. What decides on a status?"
        )


def q14_tried(tool, happened):
    """How often the tool was used and what the file holds; AssertionError if a result is false."""
    said, used, file = q14_two_lives(tool, happened, repair)
    when = f"{tool}, killed just {'after' if happened else 'before'} the effect"
    assert len(said) == 1, f"{when}: in the end the call has {len(said)} results; expected one."
    own = [status for status in Q14_TEXTS if said == [q14_result({"id": said[0]["call"]}, status)]]
    assert own, f"{when}: the result is {said[0]}; expected one that q14_result makes."
    false = "not done" if happened else "done"
    assert own != [false], f"{when}: the result says {false!r}, which is false. Who knows it?"
    if happened:
        q14_tried_mixed(tool, own[0])
    return when, used, file


for q14_happened in (False, True):
    q14_when, _, q14_file = q14_tried("edit_file", q14_happened)
    assert q14_file == "option(TESTS OFF)", (
        f"{q14_when}: in the end the file holds {q14_file!r}; expected it to be edited. What does "
        "the model do with your status?"
    )


# %% test id="s14_repair_pay" points=2
def q14_two_pays(mend, made):
    """The statuses of two open payments, of which the one of that number was made."""
    calls = [{"id": f"call_{number}", "tool": "pay"} for number in (1, 2)]
    entries = [{"role": "user", "task": "pay"}, {"role": "assistant", "calls": calls}]
    mended = mend(entries, lambda call: call["id"] == f"call_{made}")
    return {each["call"]: each["status"] for each in mended if each["role"] == "result"}


for q14_happened in (False, True):
    q14_when, q14_used, _ = q14_tried("pay", q14_happened)
    assert q14_used == 1, (
        f"{q14_when}: in the end it was paid {q14_used} times; expected once. Who knows whether it "
        "was paid, and what does the model do with your status?"
    )
for q14_made in (1, 2):
    q14_said = launch(q14_two_pays, repair, q14_made, echo=False).result()
    q14_own, q14_other = (q14_said.get(f"call_{n}") for n in (q14_made, 3 - q14_made))
    assert q14_own in (None, "done", "person") and q14_other != "done", (
        f"call_1 and call_2 of pay are open, and call_{q14_made} alone was made: the results are "
        f"{q14_said}. What is asked about which call?"
    )

# %% test id="s14_repair_fax" points=1
for q14_happened in (False, True):
    q14_when, q14_used, _ = q14_tried("fax", q14_happened)
    assert q14_used <= 1, (
        f"{q14_when}: in the end it was sent {q14_used} times; expected once at most. What does "
        "the model do with your status?"
    )

# %% spoken id="s14_say" question="call-without-result" points=2
