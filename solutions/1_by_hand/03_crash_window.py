# %% [markdown]
# # 03 · Crash window
#
# **What is true after a crash, and what can you not know?**
#
# 60 minutes · 16 points · before this: `02_checkpoint`
#
# A chat bot's outbox, reported in June 2026, could give the same answer twice. It marks an answer "sending", hands it to
# the chat service, then marks it "sent". When the process dies in between, the next start takes "sending" for "not sent
# yet" and sends again. The outbox did have a unique key for each answer. But the chat service never saw the key, so it
# kept an answer from being queued twice and could not keep it from being sent twice.
# (Reported as MervinPraison/PraisonAI issue 2328.)
#
# No better save would have helped: every save was whole. What is missing is knowledge. You will see what a kill leaves
# unknown, and write three cures. Two make it harmless to act again. The third asks the only side that knows.

# %%
import os
import sqlite3
import sys
import threading
import uuid
import zlib
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer

from crashlab import WorkFolder, explore, launch
from crashlab.figures import side_by_side
from crashlab.figures.matrix import outcome_matrix
from crashlab.pairs import explore_pairs
from crashlab.quiz import differs

print("Python", sys.version.split()[0], "on", sys.platform)

# %% [markdown]
# ## The experiment
#
# The build agent of run-217 needs one more machine, an arm64, and orders it at a build farm. Machines cost money: none
# is bad, two are worse.
#
# The farm keeps its own records in a database that the agent's death cannot touch. `request` changes something there, as
# a whole or not at all, and then the farm replies "accepted". `look` only reads. You never call these two yourself. You
# call what a farm offers, and `PlainFarm` offers `order`. (A real farm would be a server somewhere else. For what a kill
# of *your* process can and cannot undo, this makes no difference.)


# %%
class Farm:
    def __init__(self, folder):
        self.db = sqlite3.connect(f"{folder.path}/farm.sqlite")

    def close(self):
        self.db.close()

    def request(self, change, *values):
        with self.db:
            self.db.execute(change, values)
        return "accepted"

    def look(self, question, *values):
        return self.db.execute(question, values).fetchall()


class PlainFarm(Farm):
    def order(self, machine):
        return self.request("INSERT INTO orders (machine) VALUES (?)", machine)


FARM = """
    BEGIN;
    CREATE TABLE orders (machine TEXT, label TEXT);
    CREATE TABLE memory (gb INTEGER);
    INSERT INTO memory VALUES (8);
    COMMIT;
"""


@contextmanager
def new_farm():
    """A work folder, and a farm where nothing was ordered and a build may use 8 GB of memory."""
    with WorkFolder.fresh() as folder:
        with closing(Farm(folder)) as farm:
            farm.db.executescript(FARM)
        yield folder


def truth(folder, question="SELECT machine FROM orders"):
    """What the farm's own records say: for the judges, when the agent is dead."""
    with closing(Farm(folder)) as farm:
        return [value for value, *_ in farm.look(question)]


# %% [markdown]
# The agent has notes of its own, in a file of its own. `note` writes one line there, and the line stays whatever becomes
# of the process. `noted` gives the value noted last for a step under a word, or `None`. The file holds text, so a value
# that is all digits comes back as a number, and any other as text.


# %%
def note(folder, step, word, value=1):
    file = os.open(f"{folder.path}/notes.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, f"{step}\t{word}\t{value}\n".encode())
    os.close(file)


def all_notes(folder):
    with open(f"{folder.path}/notes.txt", "ab+") as file:
        file.seek(0)
        return file.read().decode()


def noted(folder, step, word):
    found = None
    for line in all_notes(folder).splitlines():
        if line.startswith(f"{step}\t{word}\t"):
            found = line.split("\t")[2]
    return int(found) if found and found.isdecimal() else found


# %% [markdown]
# A step that acts on the outside has four moments. The **intent** is recorded: what is about to be done. The **effect**
# is done, on the other side. The **reply** is received. And the step is recorded as **done**.
#
# So two things may be recorded, the intent and that it is done. An intent, where one is noted, comes first. The effect and its reply are
# two moments of one line. You decide only where the record "done" goes: behind that line (*effect first*) or before it
# (*record first*).
#
# `launch` runs a function in a process of its own, and its result says how that process ended.


# %%
def effect_first(folder, farm, step, machine):
    if noted(folder, step, "done"):
        return "done before"
    note(folder, step, "intent")
    reply = farm.order(machine)
    note(folder, step, "done")
    return reply


def record_first(folder, farm, step, machine):
    if noted(folder, step, "done"):
        return "done before"
    note(folder, step, "intent")
    note(folder, step, "done")
    reply = farm.order(machine)
    return reply


def run_effect_first(folder):
    return effect_first(folder, PlainFarm(folder), "step-9", "arm64")


def run_record_first(folder):
    return record_first(folder, PlainFarm(folder), "step-9", "arm64")


with new_farm() as folder:
    print(launch(run_effect_first, folder))
    print(launch(run_effect_first, folder))
    print("ordered at the farm:", truth(folder))

# %% [markdown]
# ## Predict: both orders, four windows
#
# The process is killed in one of four windows, then the agent is run again, to its end.
#
# | moment | effect first | record first |
# |---|---|---|
# | 1 | intent recorded | intent recorded |
# | 2 | effect done | recorded as done |
# | 3 | reply received | effect done |
# | 4 | recorded as done | reply received |
#
# Window 1 lies between the moments 1 and 2, window 2 between 2 and 3, window 3 between 3 and 4. Window 4 lies after
# moment 4, with only the `return` left. "Record first" speaks of the record "done"; the intent is recorded first in both.
#
# How often is the machine ordered in both runs together? Commit to an answer before you run anything. Assign a dict to
# `predicted`: under `"effect first"` and `"record first"` a list of four words each, `"once"`, `"twice"` or `"lost"`
# (never), one for each window.
#
# The next cell only prepares the measurement: `kill_before` names the line just before which `launch` kills the process.


# %%
windows = [f"window {n}" for n in (1, 2, 3, 4)]
effect_first_kills = [
    "reply = farm.order",
    'return "accepted"',
    'note(folder, step, "done")',
    "return reply",
]
record_first_kills = [
    'note(folder, step, "done")',
    "reply = farm.order",
    'return "accepted"',
    "return reply",
]


def how_often(folder):
    machines = truth(folder)
    if any(machine != "arm64" for machine in machines):
        return "wrong machine"
    return {0: "lost", 1: "once", 2: "twice"}.get(len(machines), f"{len(machines)} times")


def outcomes(agent, kills):
    found = []
    for line in kills:
        with new_farm() as folder:
            life = launch(agent, folder, kill_before=line, echo=False)
            assert life.end == "killed", (
                f"{life}; expected it to be killed. Run all cells above again"
            )
            launch(agent, folder, echo=False).result()
            found.append(how_often(folder))
    return found


def wrong_form(predicted, name):
    """One sentence on what is wrong with the form of a prediction, or ""."""
    names = ["effect first", "record first"]
    if not isinstance(predicted, dict) or not all(key in predicted for key in names):
        return f"predicted must be a dict with the names {names}, and it is {predicted!r}"
    words = predicted[name]
    if not isinstance(words, list | tuple) or len(words) != 4:
        return f"{name}: expected a list of four words, and predicted holds {words!r}"
    for window, word in zip(windows, words, strict=True):
        if word not in ("once", "twice", "lost"):
            return f"{name}, {window}: the words are once, twice and lost, and you gave {word!r}"
    return ""


# %% answer id="predict_windows"
### BEGIN SOLUTION
predicted = {
    "effect first": ["once", "twice", "twice", "once"],
    "record first": ["once", "lost", "once", "once"],
}
### END SOLUTION

# %% wrong loses="predict_effect_first" why="a kill undoes the step that was under way"
predicted = {
    "effect first": ["once", "once", "once", "once"],
    "record first": ["once", "lost", "once", "once"],
}

# %% wrong loses="predict_effect_first" why="without a reply it was not done"
predicted = {
    "effect first": ["once", "once", "twice", "once"],
    "record first": ["once", "lost", "once", "once"],
}

# %% wrong loses="predict_effect_first" why="with a reply the agent knows that it was done"
predicted = {
    "effect first": ["once", "twice", "once", "once"],
    "record first": ["once", "lost", "once", "once"],
}

# %% wrong loses="predict_record_first" why="what is recorded before cannot go wrong"
predicted = {
    "effect first": ["once", "twice", "twice", "once"],
    "record first": ["once", "once", "once", "once"],
}

# %% wrong loses="predict_record_first" why="the reply is lost, so the order is repeated, in either order"
predicted = {
    "effect first": ["once", "twice", "twice", "once"],
    "record first": ["once", "lost", "twice", "once"],
}

# %% wrong loses="predict_record_first" why="an intent means that it will be done"
predicted = {
    "effect first": ["once", "twice", "twice", "once"],
    "record first": ["lost", "lost", "once", "once"],
}

# %% wrong loses="predict_effect_first predict_record_first" why="the order makes no difference"
predicted = {
    "effect first": ["once", "twice", "once", "once"],
    "record first": ["once", "twice", "once", "once"],
}

# %% wrong loses="predict_effect_first predict_record_first" why="one word for all windows"
predicted = {"effect first": "twice", "record first": "lost"}

# %% wrong loses="predict_effect_first predict_record_first" why="one list for both orders"
predicted = ["once", "twice", "twice", "once"]

# %% wrong loses="predict_record_first" why="a word of its own for lost"
predicted = {
    "effect first": ["once", "twice", "twice", "once"],
    "record first": ["once", "never", "once", "once"],
}

# %% right why="tuples, put together"
predicted = dict(
    [
        ("record first", ("once", "lost", *["once"] * 2)),
        ("effect first", ("once", *["twice"] * 2, "once")),
    ]
)

# %% [markdown]
# The check kills for real. Window 2 of the one and window 3 of the other lie inside `request`: the farm has acted, and
# `return "accepted"` is about to run.

# %% test id="predict_effect_first" points=1
measured_effect_first = outcomes(run_effect_first, effect_first_kills)
problem = wrong_form(predicted, "effect first")
assert not problem, f"{problem}."
problem = differs(predicted["effect first"], measured_effect_first, windows)
assert not problem, (
    f"effect first: {problem}. Ask what the agent's notes say at that moment, and what the farm's do."
)

# %% test id="predict_record_first" points=1
measured_record_first = outcomes(run_record_first, record_first_kills)
problem = wrong_form(predicted, "record first")
assert not problem, f"{problem}."
problem = differs(predicted["record first"], measured_record_first, windows)
assert not problem, (
    f"record first: {problem}. Ask what the second run finds in the notes, and what it does then."
)

# %% [markdown]
# ## See it
#
# The same measurement as a picture: windows down, orders across.

# %%
pairs = zip(measured_effect_first, measured_record_first, strict=True)
outcome_matrix(
    {
        window: {"effect first": one, "record first": other}
        for window, (one, other) in zip(windows, pairs, strict=True)
    },
    "Killed in a window, then restarted",
)

# %% [markdown]
# Four kills each are few. `explore` kills once at every place, each time at a new farm, and then runs the agent again.
# `inside` names the function whose lines count, and with `fine=True` it kills within each line too.


# %%
side_by_side(
    {
        "Effect first": explore(
            run_effect_first, new_farm, how_often, inside=[effect_first], fine=True
        ),
        "Record first": explore(
            run_record_first, new_farm, how_often, inside=[record_first], fine=True
        ),
    }
)

# %% [markdown]
# Both maps change in the middle of the line where the farm acts. With effect first the crash window opens there and
# closes when the record is written. With record first it opens when the record is written and closes there. No line of
# yours stands at that moment, so no line of yours can notice it.
#
# ## Why
#
# * **At-least-once**: effect first, then record. No kill can lose the effect. Some kill will repeat it.
# * **At-most-once**: record first, then effect. No kill can repeat the effect. Some kill will lose it.
#
# No third place is left for the record. Effect and record are two writes on two sides, and a process can die between any
# two. In one database one transaction would do both; but the farm does not share its database with you.
#
# ## Predict: what the agent can know
#
# Now be the second process. You have the agent's notes and nothing else. Take **effect first**, killed in one of the
# windows 1 to 4 and not yet restarted. Which windows leave exactly the same notes as window 1?
#
# Assign to `predicted_alike` a list of the numbers of all such windows, 1 itself included, smallest first.

# %% answer id="predict_alike"
### BEGIN SOLUTION
predicted_alike = [1, 2, 3]
### END SOLUTION

# %% wrong loses="predict_alike_check" why="every moment leaves its own trace"
predicted_alike = [1]

# %% wrong loses="predict_alike_check" why="a reply that was received is known to the next process"
predicted_alike = [1, 2]

# %% wrong loses="predict_alike_check" why="the intent is not to be seen before the end either"
predicted_alike = [1, 2, 3, 4]

# %% wrong loses="predict_alike_check" why="once the effect is done the notes show it"
predicted_alike = [1, 4]

# %% wrong loses="predict_alike_check" why="the windows as a text"
predicted_alike = "1, 2, 3"

# %% right why="a range as a tuple"
predicted_alike = tuple(range(1, 4))

# %% test id="predict_alike_check" points=1
notes_left = []
for line in effect_first_kills:
    with new_farm() as folder:
        launch(run_effect_first, folder, kill_before=line, echo=False)
        notes_left.append(all_notes(folder))
measured = [n for n in (1, 2, 3, 4) if notes_left[n - 1] == notes_left[0]]
assert (
    isinstance(predicted_alike, list | tuple)
    and all(type(n) is int and 1 <= n <= 4 for n in predicted_alike)
    and list(predicted_alike) == sorted(set(predicted_alike))
), (
    "predicted_alike must be a list of numbers from 1 to 4, smallest first, each once, and it is "
    f"{predicted_alike!r}."
)
problem = differs(predicted_alike, measured)
assert not problem, (
    f"windows with the same notes as window 1: {problem}. Look at which lines of effect_first write "
    "a note, and remember that a reply is in the memory of the process."
)

# %% [markdown]
# What is there, side by side: the agent's notes, and the farm's truth.

# %%
for number, line in enumerate(effect_first_kills, 1):
    with new_farm() as folder:
        launch(run_effect_first, folder, kill_before=line, echo=False)
        words = [line.split("\t")[1] for line in all_notes(folder).splitlines()]
        print(
            f"window {number}: noted {', '.join(words):14} ordered at the farm: {len(truth(folder))}"
        )

# %% [markdown]
# "Intent, not done" means: not ordered, or ordered without a reply, or ordered with one. The notes cannot tell, and more
# notes would not help, because the process can die just before it writes them. This is the answer to the question at the
# top. What is recorded as done, with effect first, is true. Whether a step took effect that is not recorded as done,
# you **cannot know from your own side**.
#
# So the outcome is *unknown*. It is not *failed*. The outbox of the chat bot took the one for the other.
#
# ## Three cures
#
# Keep effect first, so that nothing is lost. Two cures then make the repetition harmless. An operation is **idempotent**
# when doing it twice, the second time at once after the first, leaves the same world as doing it once. The third cure
# gets the knowledge that you lack, from the only side that has it. Which one you have depends on what that side offers:
#
# | cure | the other side must |
# |---|---|
# | idempotent write | let you *set* a value |
# | idempotency key | remember which keys it has seen |
# | ask first | tell you what it has done |
#
# ## Fix it: an idempotent write
#
# A build may use 8 GB of memory, and a step needs 2 GB more. A farm with a request "add 2" has the old trouble:


# %%
class AddingFarm(Farm):
    def add(self, gb):
        return self.request("UPDATE memory SET gb = gb + ?", gb)


def add_memory(folder):
    if not noted(folder, "step-9", "done"):
        AddingFarm(folder).add(2)
        note(folder, "step-9", "done")


with new_farm() as folder:
    print(launch(add_memory, folder, kill_before='note(folder, "step-9", "done")'))
    print(launch(add_memory, folder))
    [gb] = truth(folder, "SELECT gb FROM memory")
    print(f"expected 10 GB, and the farm allows {gb} GB")

# %% [markdown]
# This farm lets you read the limit and set it:


# %%
class SettingFarm(Farm):
    def limit(self):
        [[gb]] = self.look("SELECT gb FROM memory")
        return gb

    def set_limit(self, gb):
        return self.request("UPDATE memory SET gb = ?", gb)


# %% [markdown]
# Write `raise_limit(folder, farm, step, gb)`: after it, the limit is `gb` higher than it was when the step began, and the
# step is recorded as done, with `note(folder, step, "done")`. Killed anywhere and run again with the same arguments, it
# still raises the limit once, and so it does if the second run is killed too. Use `farm.limit()`, `farm.set_limit(gb)`,
# `note` and `noted`. Several steps may each raise the limit; a step that is recorded as done changes nothing when it is
# run again, whatever has happened since. About eight lines.
#
# You may take it that nobody else changes the limit meanwhile.
#
# <details><summary>Hint</summary>
#
# A second run that reads the limit may be reading what the first run has set. What must not be computed twice, and where
# can the second run find it?
# </details>
#
# The next cell is the judge of all three cures. It kills before every line of yours. If that does no harm, it looks
# closer, and kills also after each call within a line and inside the functions that the lines call. Then it kills a run
# and its recovery (`explore_pairs`), up to 40 such pairs. Then it kills a run just after the farm has acted, and restarts
# it in a fresh interpreter. It also asks whether a whole run leaves the note "done". It stops at the first fault.


# %%
def try_kills(agent, judge, cure, hints):
    """A report on the kills of `agent` inside `cure`, and a sentence on the first harm, or ""."""

    def hint(outcome):
        return "" if outcome == "stuck" else hints.get(outcome, hints["twice"])

    for fine in (False, True):
        report = explore(agent, new_farm, judge, inside=[cure], fine=fine)
        if report.uninterrupted != "once":
            plain = hints.get("wrong machine") if report.uninterrupted == "wrong machine" else None
            return report, f"{report.verdict()}. {plain or 'Run it without a kill first.'}"
        if not report.clean:
            return report, f"{report.verdict()}. {hint(report.damage[0].outcome)}"
    pairs = explore_pairs(agent, agent, new_farm, judge, inside=[cure], most=40)
    if not pairs.clean:
        return pairs, f"{pairs.verdict()}. {hint(pairs.damage[0].outcome)}"
    with new_farm() as folder:
        launch(agent, folder, kill_before='return "accepted"', echo=False)
        launch(agent, folder, fresh=True, deadline=30, echo=False).result()
        outcome = judge(folder)
        recorded = noted(folder, "step-9", "done")
    if outcome != "once":
        return report, (
            f"killed just after the farm has acted, then restarted in a fresh interpreter: {outcome}. "
            "Is what you send the same in every interpreter? (The seed of hash() is not.)"
        )
    if not recorded:
        return report, (
            'killed just after the farm has acted and run again, the step has no note "done"; expected one: '
            "the second run finds the work done, and has to record that."
        )
    with new_farm() as folder:
        launch(agent, folder, echo=False).result()
        if not noted(folder, "step-9", "done"):
            return report, (
                'after a whole run the notes do not say "done" for step-9; expected '
                'note(folder, step, "done") when the farm has acted.'
            )
    return report, ""


# %% answer id="raise_limit"
def raise_limit(folder, farm, step, gb):
    """Raise the farm's limit by `gb`, once for this step."""
    ### BEGIN SOLUTION
    if noted(folder, step, "done"):
        return
    target = noted(folder, step, "target")
    if target is None:
        target = farm.limit() + gb
        note(folder, step, "target", target)
    farm.set_limit(target)
    note(folder, step, "done")
    ### END SOLUTION


# %% wrong loses="limit_once" why="records only what it has done itself"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "done"):
        return
    target = noted(folder, step, "target")
    if target is None:
        target = farm.limit() + gb
        note(folder, step, "target", target)
    if farm.limit() != target:
        farm.set_limit(target)
        note(folder, step, "done")


# %% wrong loses="limit_once" why="a set is idempotent, wherever its value comes from"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "done"):
        return
    farm.set_limit(farm.limit() + gb)
    note(folder, step, "done")


# %% wrong loses="limit_once" why="notes the value after it has set it"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "done"):
        return
    target = noted(folder, step, "target")
    if target is None:
        target = farm.limit() + gb
    farm.set_limit(target)
    note(folder, step, "target", target)
    note(folder, step, "done")


# %% wrong loses="limit_once" why="computes and notes the value afresh in each run"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "done"):
        return
    note(folder, step, "target", farm.limit() + gb)
    farm.set_limit(noted(folder, step, "target"))
    note(folder, step, "done")


# %% wrong loses="limit_once" why="records the step as done before it sets the value"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "done"):
        return
    target = farm.limit() + gb
    note(folder, step, "done")
    farm.set_limit(target)


# %% wrong loses="limit_once" why="the intent shows that it was done"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "intent"):
        return
    note(folder, step, "intent")
    farm.set_limit(farm.limit() + gb)
    note(folder, step, "done")


# %% wrong loses="limit_once" why="takes its note back before it acts on it"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "done"):
        return
    target = noted(folder, step, "target")
    if target:
        note(folder, step, "target", 0)
    else:
        target = farm.limit() + gb
        note(folder, step, "target", target)
    farm.set_limit(target)
    note(folder, step, "done")


# %% wrong loses="limit_once" why="records it under a word of its own"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "finished"):
        return
    target = noted(folder, step, "target")
    if target is None:
        target = farm.limit() + gb
        note(folder, step, "target", target)
    farm.set_limit(target)
    note(folder, step, "finished")


# %% wrong loses="limit_steps" why="looks at the limit and not at its record"
def raise_limit(folder, farm, step, gb):
    target = noted(folder, step, "target")
    if target is None:
        target = farm.limit() + gb
        note(folder, step, "target", target)
    if farm.limit() < target:
        farm.set_limit(target)
    note(folder, step, "done")


# %% wrong loses="limit_once" why="a helper that sets and notes makes one step of the two"
def set_and_note(folder, farm, step, gb):
    farm.set_limit(farm.limit() + gb)
    note(folder, step, "done")


def raise_limit(folder, farm, step, gb):
    noted(folder, step, "done") or set_and_note(folder, farm, step, gb)


# %% wrong loses="limit_steps" why="an idempotent write needs no record of what is done"
def raise_limit(folder, farm, step, gb):
    target = noted(folder, step, "target")
    if target is None:
        target = farm.limit() + gb
        note(folder, step, "target", target)
    farm.set_limit(target)
    note(folder, step, "done")


# %% wrong loses="limit_steps" why="one target for the whole run, whichever step"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "done"):
        return
    target = noted(folder, "limit", "target")
    if target is None:
        target = farm.limit() + gb
        note(folder, "limit", "target", target)
    farm.set_limit(target)
    note(folder, step, "done")


# %% wrong loses="limit_steps" why="the limit always starts at 8"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "done"):
        return
    farm.set_limit(8 + gb)
    note(folder, step, "done")


# %% right why="notes what it started from"
def raise_limit(folder, farm, step, gb):
    if noted(folder, step, "start") is None:
        note(folder, step, "start", farm.limit())
    if noted(folder, step, "done") is None:
        farm.set_limit(noted(folder, step, "start") + gb)
        note(folder, step, "done")


# %% [markdown]
# The first check is that judge. Two acts in a helper or in one line do not keep the kills out.


# %% test id="limit_once" points=2
def raise_in_step_9(folder):
    raise_limit(folder, SettingFarm(folder), "step-9", 2)


def raised(folder):
    [gb] = truth(folder, "SELECT gb FROM memory")
    return {8: "lost", 10: "once", 12: "twice"}.get(gb, f"{gb} GB")


report_limit, problem = try_kills(
    raise_in_step_9,
    raised,
    raise_limit,
    {
        "lost": "A later run finds a note that says more than is true. Which note stands before the set?",
        "twice": "Ask which value a later run sets, and where it has that from.",
    },
)
assert not problem, (
    f"{problem} The limit was 8 GB, and 'once' means 10 GB. To see what was tried, run report_limit in a "
    "cell of its own."
)


# %% test id="limit_steps" points=1
def raise_in_two_steps(folder):
    farm = SettingFarm(folder)
    found = [farm.limit()]
    for step, gb in (("step-9", 2), ("step-10", 4), ("step-9", 2)):
        raise_limit(folder, farm, step, gb)
        found.append(farm.limit())
    farm.set_limit(6)
    raise_limit(folder, farm, "step-10", 4)
    return [*found, farm.limit()]


with new_farm() as folder:
    found = launch(raise_in_two_steps, folder, echo=False).result()
assert found[:3] == [8, 10, 14], (
    f"step-9 raised it by 2, then step-10 by 4: the limit went {found[:3]}; expected [8, 10, 14]. Does each "
    "step have notes of its own, and does it start from the limit that it finds?"
)
assert found[3] == 14, (
    f"step-9 is done and ran again after step-10: the limit went from 14 to {found[3]}; expected 14. Is a "
    "step that is recorded as done left alone?"
)
assert found[4] == 6, (
    "step-10 is done, somebody lowered the limit to 6, and step-10 ran again: the limit went to "
    f"{found[4]}; expected 6. Is it the record that says whether the step is done?"
)

# %% [markdown]
# ## Fix it: an idempotency key
#
# You cannot *set* an order: each is a new one. But the other side can be told which ones are the same. An **idempotency
# key** is a name for one intended effect, sent along with the request. This farm honours it: the first request with a key
# is carried out, and for any further one with the same key it only replies. Where the same key comes with another
# machine, it refuses.


# %%
def must_be_text(what, value):
    if not isinstance(value, str):
        raise ValueError(
            f"the {what} must be a text, and it is {value!r} (noted gives digits back as a number)"
        )


ORDER_ONCE = """
    INSERT INTO orders SELECT ?1, ?2
    WHERE NOT EXISTS (SELECT 1 FROM orders WHERE label = ?2)
"""


class KeyFarm(Farm):
    def order(self, machine, key):
        must_be_text("key", key)
        reply = self.request(ORDER_ONCE, machine, key)
        [[first]] = self.look("SELECT machine FROM orders WHERE label = ?", key)
        if first != machine:
            raise ValueError(f"the key {key!r} was used for {first!r} and now for {machine!r}")
        return reply


with new_farm() as folder:
    with closing(KeyFarm(folder)) as farm:
        for _ in range(3):
            print(farm.order("arm64", "a-key"))
        try:
            farm.order("x86_64", "a-key")
        except ValueError as refusal:
            print("refused:", refusal)
    print("ordered at the farm:", truth(folder))

# %% [markdown]
# Write `order_by_key(folder, farm, run, step, machine)`: it orders one `machine` with `farm.order(machine, key)` and
# records the step as done, with `note(folder, step, "done")`. `run` is a name such as `"run-217"`, `step` one such as
# `"step-9"`. A key is a text. Killed anywhere and run again, it has ordered one machine, and also if the second run is
# killed too. Two steps that want the same kind of machine are two orders, and so are the same steps of two runs. `folder`
# holds the notes of one run; another run has another folder, but orders at the same farm. About four lines. (`uuid` is
# imported, in case you want it.)
#
# <details><summary>Hint</summary>
#
# A retry must find the same key again. Another intent must get another one. What do you have that is the same in the
# second process, and different for any other order?
# </details>


# %% answer id="order_by_key"
def order_by_key(folder, farm, run, step, machine):
    """Order one machine for this step of this run."""
    ### BEGIN SOLUTION
    if noted(folder, step, "done"):
        return
    farm.order(machine, f"{run}/{step}")
    note(folder, step, "done")
    ### END SOLUTION


# %% wrong loses="key_once" why="a key is something random"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    farm.order(machine, str(uuid.uuid4()))
    note(folder, step, "done")


# %% wrong loses="key_once" why="adds the time, so that the key is surely unique"
import time


def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    farm.order(machine, f"{run}/{step}/{time.time_ns()}")
    note(folder, step, "done")


# %% wrong loses="key_once" why="a random key, noted after the order"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    key = noted(folder, step, "key") or str(uuid.uuid4())
    farm.order(machine, key)
    note(folder, step, "key", key)
    note(folder, step, "done")


# %% wrong loses="key_once" why="the number of the attempt belongs to the key"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    attempt = (noted(folder, step, "attempt") or 0) + 1
    note(folder, step, "attempt", attempt)
    farm.order(machine, f"{run}/{step}/{attempt}")
    note(folder, step, "done")


# %% wrong loses="key_once" why="with a key it may be recorded first"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    note(folder, step, "done")
    farm.order(machine, f"{run}/{step}")


# %% wrong loses="key_once" why="checks the key in its own notes, as the outbox did"
def order_by_key(folder, farm, run, step, machine):
    key = f"{run}/{step}"
    if noted(folder, key, "seen"):
        return
    note(folder, key, "seen")
    farm.order(machine, key)


# %% wrong loses="key_once" why="one line cannot be interrupted"
def order_by_key(folder, farm, run, step, machine):
    if not noted(folder, step, "done"):
        farm.order(machine, str(uuid.uuid4())), note(folder, step, "done")


# %% wrong loses="key_distinct" why="what is ordered is the key"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    farm.order(machine, machine)
    note(folder, step, "done")


# %% wrong loses="key_distinct" why="the run is the key"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    farm.order(machine, run)
    note(folder, step, "done")


# %% wrong loses="key_distinct" why="the step is the key"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    farm.order(machine, step)
    note(folder, step, "done")


# %% wrong loses="key_distinct" why="one record of done for the whole run"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, run, "done"):
        return
    farm.order(machine, f"{run}/{step}")
    note(folder, step, "done")
    note(folder, run, "done")


# %% wrong loses="key_once" why="a hash of run and step is the same everywhere"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    farm.order(machine, str(hash((run, step))))
    note(folder, step, "done")


# %% wrong loses="key_once" why="takes the noted key back before it sends it"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    key = noted(folder, step, "key")
    if key:
        note(folder, step, "key", "")
    else:
        key = str(uuid.uuid4())
        note(folder, step, "key", key)
    farm.order(machine, key)
    note(folder, step, "done")


# %% wrong loses="key_once" why="the farm remembers, so there is nothing to record"
def order_by_key(folder, farm, run, step, machine):
    farm.order(machine, key=f"{step} of {run}")


# %% wrong loses="key_once key_distinct" why="a key may be a number"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    farm.order(machine, zlib.crc32(f"{run}/{step}".encode()))
    note(folder, step, "done")


# %% wrong loses="key_once key_distinct" why="the machine as the key, and the key as the machine"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    farm.order(f"{run}/{step}", machine)
    note(folder, step, "done")


# %% right why="a random key, noted before the order"
def order_by_key(folder, farm, run, step, machine):
    if noted(folder, step, "key") is None:
        note(folder, step, "key", str(uuid.uuid4()))
    if noted(folder, step, "done") is None:
        farm.order(machine, noted(folder, step, "key"))
        note(folder, step, "done")


# %% right why="a checksum of what the order is for, and no look at the notes"
def order_by_key(folder, farm, run, step, machine):
    farm.order(machine, key=f"{zlib.crc32(f'{run} {step}'.encode()):x}-key")
    note(folder, step, "done")


# %% test id="key_once" points=2
def order_with_a_key(folder):
    order_by_key(folder, KeyFarm(folder), "run-217", "step-9", "arm64")


report_key, problem = try_kills(
    order_with_a_key,
    how_often,
    order_by_key,
    {
        "lost": "A later run finds a note and does not order. What did that note say before it was true?",
        "twice": "Ask which key each run sends, and where the last one has it from.",
        "wrong machine": "Which argument of farm.order is the machine?",
    },
)
assert not problem, (
    f"{problem} Expected one arm64, wherever the kills fall. To see what was tried, run report_key in a cell "
    "of its own."
)


# %% test id="key_distinct" points=1
class ListeningKeyFarm(KeyFarm):
    def order(self, machine, key):
        self.sent.append(key)
        return super().order(machine, key)


def order_three(folder, other):
    farm = ListeningKeyFarm(folder)
    farm.sent = []
    order_by_key(folder, farm, "run-217", "step-9", "arm64")
    order_by_key(folder, farm, "run-217", "step-10", "arm64")
    order_by_key(other, farm, "run-218", "step-9", "x86_64")
    return farm.sent


with new_farm() as folder, WorkFolder.fresh() as other:
    sent = launch(order_three, folder, other, echo=False).result()
    machines = truth(folder)
shared = "Does each order get a key of its own?"
unsent = "Not every order was sent at all: is a step skipped because of the note of another?"
assert sorted(machines) == ["arm64", "arm64", "x86_64"], (
    "step-9 and step-10 of run-217 each want an arm64 and step-9 of run-218 an x86_64, and the farm has ordered "
    f"{machines}. It was sent the keys {sent}. {unsent if len(sent) < 3 else shared}"
)

# %% [markdown]
# ## Fix it: ask first
#
# This farm knows no keys: two requests are two orders. But it lets you write a label on an order, and it tells you which
# machines were ordered under a label.


# %%
class AskableFarm(Farm):
    def order(self, machine, label):
        must_be_text("label", label)
        return self.request("INSERT INTO orders VALUES (?, ?)", machine, label)

    def find(self, label):
        """The machines ordered under exactly this label, as a list."""
        must_be_text("label", label)
        rows = self.look("SELECT machine FROM orders WHERE label = ?", label)
        return [machine for (machine,) in rows]


with new_farm() as folder, closing(AskableFarm(folder)) as farm:
    for _ in range(2):
        print(farm.order("arm64", "a-label"))
    print("found under a-label:", farm.find("a-label"), "and under b-label:", farm.find("b-label"))

# %% [markdown]
# Write `order_after_asking(folder, farm, run, step, machine)`, with the same promises as `order_by_key`, using
# `farm.order(machine, label)`, `farm.find(label)`, `note` and `noted`. A label is a text. About six lines.


# %% answer id="order_after_asking"
def order_after_asking(folder, farm, run, step, machine):
    """Order one machine for this step of this run, unless the farm says that it was ordered."""
    ### BEGIN SOLUTION
    if noted(folder, step, "done"):
        return
    label = f"{run}/{step}"
    if not farm.find(label):
        farm.order(machine, label)
    note(folder, step, "done")
    ### END SOLUTION


# %% wrong loses="ask_once" why="records only what it has done itself"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    if not farm.find(f"{run}/{step}"):
        farm.order(machine, f"{run}/{step}")
        note(folder, step, "done")


# %% wrong loses="ask_once" why="asks its own notes"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    farm.order(machine, f"{run}/{step}")
    note(folder, step, "done")


# %% wrong loses="ask_once" why="an intent without done means that it was done"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "intent"):
        return
    note(folder, step, "intent")
    label = f"{run}/{step}"
    if not farm.find(label):
        farm.order(machine, label)


# %% wrong loses="ask_once" why="orders, then asks whether it has arrived"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    label = f"{run}/{step}"
    farm.order(machine, label)
    if farm.find(label):
        note(folder, step, "done")


# %% wrong loses="ask_once" why="a label of its own for each attempt"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    label = str(uuid.uuid4())
    if not farm.find(label):
        farm.order(machine, label)
    note(folder, step, "done")


# %% wrong loses="ask_once" why="asks only where an intent was noted, and notes it after the order"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    label = f"{run}/{step}"
    if not noted(folder, step, "intent") or not farm.find(label):
        farm.order(machine, label)
        note(folder, step, "intent")
    note(folder, step, "done")


# %% wrong loses="ask_once" why="asks under another label than it orders"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    if not farm.find(step):
        farm.order(machine, f"{run}/{step}")
    note(folder, step, "done")


# %% wrong loses="ask_distinct" why="asks whether such a machine was ordered"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    if machine not in farm.find(run):
        farm.order(machine, run)
    note(folder, step, "done")


# %% wrong loses="ask_distinct" why="the step says which order it is"
def order_after_asking(folder, farm, run, step, machine):
    if not farm.find(step):
        farm.order(machine, step)
    note(folder, step, "done")


# %% wrong loses="ask_distinct" why="one record of done for the whole run, beside its own"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, run, "done"):
        return
    label = f"{run}/{step}"
    if not farm.find(label):
        farm.order(machine, label)
    note(folder, step, "done")
    note(folder, run, "done")


# %% wrong loses="ask_once" why="clears its intent, then recovers"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    label = f"{run}/{step}"
    begun = noted(folder, step, "intent")
    note(folder, step, "intent", 0 if begun else 1)
    if not (begun and farm.find(label)):
        farm.order(machine, label)
    note(folder, step, "done")


# %% wrong loses="ask_once" why="a hash as the label"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    label = str(hash((run, step)))
    if not farm.find(label):
        farm.order(machine, label)
    note(folder, step, "done")


# %% wrong loses="ask_once" why="the farm remembers, so there is nothing to record"
def order_after_asking(folder, farm, run, step, machine):
    farm.find(run + step) or farm.order(machine, run + step)


# %% right why="asks only where it has to"
def order_after_asking(folder, farm, run, step, machine):
    if noted(folder, step, "done"):
        return
    label = f"{step} of {run}"
    begun = noted(folder, step, "intent")
    note(folder, step, "intent")
    if not (begun and farm.find(label) == [machine]):
        farm.order(machine, label)
    note(folder, step, "done")


# %% right why="asks always, and never looks at its own notes"
def order_after_asking(folder, farm, run, step, machine):
    farm.find(run + step) or farm.order(machine, run + step)
    note(folder, step, "done")


# %% test id="ask_once" points=2
def order_and_ask(folder):
    order_after_asking(folder, AskableFarm(folder), "run-217", "step-9", "arm64")


report_ask, problem = try_kills(
    order_and_ask,
    how_often,
    order_after_asking,
    {
        "lost": "A later run finds a note and does not order. What did that note say before it was true?",
        "twice": "Does every run that may be a repetition ask the farm before it orders, under the label of the first?",
        "wrong machine": "Which argument of farm.order is the machine?",
    },
)
assert not problem, (
    f"{problem} Expected one arm64, wherever the kills fall. To see what was tried, run report_ask in a cell "
    "of its own."
)


# %% test id="ask_distinct" points=1
class ListeningAskableFarm(AskableFarm):
    def order(self, machine, label):
        self.used.add(label)
        return super().order(machine, label)

    def find(self, label):
        self.used.add(label)
        return super().find(label)


def ask_for_three(folder, other):
    farm = ListeningAskableFarm(folder)
    farm.used, used = set(), []
    for place, run, step, machine in (
        (folder, "run-217", "step-9", "arm64"),
        (folder, "run-217", "step-10", "arm64"),
        (other, "run-218", "step-9", "x86_64"),
    ):
        farm.used.clear()
        order_after_asking(place, farm, run, step, machine)
        used.append(sorted(farm.used))
    return used


with new_farm() as folder, WorkFolder.fresh() as other:
    used = launch(ask_for_three, folder, other, echo=False).result()
    machines = truth(folder)
shared = "Does each order get a label of its own?"
unsent = "One was neither asked for nor ordered: is a step skipped because of the note of another?"
assert sorted(machines) == ["arm64", "arm64", "x86_64"], (
    "step-9 and step-10 of run-217 each want an arm64 and step-9 of run-218 an x86_64, and the farm has ordered "
    f"{machines}. Labels used, one list for each order: {used}. {shared if all(used) else unsent}"
)

# %% [markdown]
# ## Prove it
#
# The crash maps of your three cures. One kill fell in each run, before and within every line, and inside what the lines
# call. The kills of a recovery are not drawn.

# %%
side_by_side(
    {
        "Idempotent write": report_limit,
        "Idempotency key": report_key,
        "Ask first": report_ask,
    }
)

# %% [markdown]
# And the two moments around the effect, for all five ways. First the agent's notes, as they are at each of the two.


# %%
WAYS = {
    "effect first": (run_effect_first, how_often),
    "record first": (run_record_first, how_often),
    "idempotent write": (raise_in_step_9, raised),
    "idempotency key": (order_with_a_key, how_often),
    "ask first": (order_and_ask, how_often),
}
MOMENTS = {
    "just before the farm acts": "db.execute(change",
    "the farm has acted, and has not yet replied": 'return "accepted"',
}


def words_at(agent, line):
    with new_farm() as folder:
        launch(agent, folder, kill_before=line, echo=False)
        words = [line.split("\t")[1] for line in all_notes(folder).splitlines()]
    return ", ".join(words) or "nothing"


for way, (agent, _) in WAYS.items():
    before, after = (words_at(agent, line) for line in MOMENTS.values())
    print(f"{way:17} before: {before:15} after: {after}")

# %% [markdown]
# To the agent's notes the two moments are alike, in every row. Then the outcome, when the agent is run again:


# %%
def row(line):
    found = {}
    for way, (agent, judge) in WAYS.items():
        with new_farm() as folder:
            launch(agent, folder, kill_before=line, echo=False)
            launch(agent, folder, echo=False).result()
            found[way] = judge(folder)
    return found


outcome_matrix(
    {moment: row(line) for moment, line in MOMENTS.items()},
    "Killed around the effect, then restarted",
)

# %% [markdown]
# The write and the key need not know which moment it was. "Ask first" finds out, from the farm.
#
# Each cure has its price, which this notebook does not show. The set value overwrites what anybody else has set meanwhile.
# A key helps as long as the other side remembers it. Asking helps if the answer is up to date and nobody else orders
# between the answer and the order. Where the other side offers none of the three, you are back at the first picture.
# Then choose the column whose damage you can bear, and say so.
#
# ## Which operations are idempotent?
#
# Some operations need no cure. Here is a place with files, a database table, and a service over HTTP that keeps orders
# and delivers text messages to a phone. `world` is all that can be seen there afterwards. You may run the next cell without
# reading it.


# %%
class Service(BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        orders, phone = self.server.orders, self.server.phone
        status = 200
        if self.path == "/sms":
            phone.append(body)
        elif self.command == "POST":
            orders[f"/orders/{len(orders) + 17}"] = body
        elif self.command == "PUT":
            orders[self.path] = body
        elif self.command == "DELETE":
            status = 200 if orders.pop(self.path, None) else 404
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *words):
        pass


class Place:
    def __init__(self, path, service):
        self.path, self.service = path, service

    def sql(self, statement):
        with closing(sqlite3.connect(self.path / "table.sqlite")) as db, db:
            return db.execute(statement).fetchall()

    def http(self, method, path, body=""):
        with closing(HTTPConnection(*self.service.server_address, timeout=5)) as connection:
            connection.request(method, path, body, {"Content-Length": str(len(body))})
            return connection.getresponse().status

    def world(self):
        files = {
            path.name: "a folder" if path.is_dir() else path.read_text()
            for path in sorted(self.path.iterdir())
            if path.name != "table.sqlite"
        }
        table = self.sql("SELECT name, n FROM counters ORDER BY rowid")
        return {
            "files": files,
            "counters": table,
            "orders": dict(self.service.orders),
            "messages": list(self.service.phone),
        }


@contextmanager
def new_place():
    """Files, a table, and the service in a thread; all gone at the end."""
    with WorkFolder.fresh() as folder, TCPServer(("127.0.0.1", 0), Service) as service:
        service.orders, service.phone = {"/orders/17": "arm64"}, []
        threading.Thread(target=service.serve_forever, args=(0.01,), daemon=True).start()
        place = Place(folder.path, service)
        (folder.path / "app.c").write_text("int main(){}")
        place.sql("CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER)")
        place.sql("INSERT INTO counters VALUES ('builds', 4)")
        try:
            yield place
        finally:
            service.shutdown()


# %% [markdown]
# And these are the ten operations. The build stands for any that makes output from input alone, as `make` does.


# %%
def append(place):
    with open(place.path / "build.log", "a", encoding="utf-8") as file:
        file.write("zlib built\n")


def build(place):
    source = (place.path / "app.c").read_bytes()
    (place.path / "app.o").write_text(f"object code {zlib.crc32(source):x}")


UPSERT = "INSERT INTO counters VALUES ('tests', 9) ON CONFLICT (name) DO UPDATE SET n = 9"

OPERATIONS = {
    "whole-file write": lambda place: (place.path / "report.txt").write_text("zlib: built"),
    "append": append,
    "upsert": lambda place: place.sql(UPSERT),
    "counter += 1": lambda place: place.sql("UPDATE counters SET n = n + 1 WHERE name = 'builds'"),
    "build": build,
    "mkdir(exist_ok=True)": lambda place: (place.path / "out").mkdir(exist_ok=True),
    "SMS": lambda place: place.http("POST", "/sms", "zlib is built"),
    "DELETE": lambda place: place.http("DELETE", "/orders/17"),
    "PUT": lambda place: place.http("PUT", "/orders/17", "x86_64"),
    "POST": lambda place: place.http("POST", "/orders", "x86_64"),
}

# %% [markdown]
# Assign to `idempotent` a dict that holds for each of the ten names `True` or `False`: does doing it twice, the second time
# at once after the first, leave the same world as doing it once? The check does each of them once, looks at the world,
# does it again, and looks again.

# %% answer id="idempotent"
### BEGIN SOLUTION
idempotent = {
    "whole-file write": True,
    "append": False,
    "upsert": True,
    "counter += 1": False,
    "build": True,
    "mkdir(exist_ok=True)": True,
    "SMS": False,
    "DELETE": True,
    "PUT": True,
    "POST": False,
}
### END SOLUTION

# %% wrong loses="idempotent_there" why="the second DELETE fails, so it is not idempotent"
idempotent = dict.fromkeys(OPERATIONS, True) | dict.fromkeys(
    ["append", "counter += 1", "SMS", "POST", "DELETE"], False
)

# %% wrong loses="idempotent_there" why="every method that writes is like POST"
idempotent = dict.fromkeys(OPERATIONS, True) | dict.fromkeys(
    ["append", "counter += 1", "SMS", "POST", "PUT", "DELETE"], False
)

# %% wrong loses="idempotent_there" why="a service notices that the same request comes twice"
idempotent = dict.fromkeys(OPERATIONS, True) | dict.fromkeys(["append", "counter += 1"], False)

# %% wrong loses="idempotent_here" why="a build does its work again"
idempotent = dict.fromkeys(OPERATIONS, True) | dict.fromkeys(
    ["append", "counter += 1", "SMS", "POST", "build"], False
)

# %% wrong loses="idempotent_here" why="an upsert adds a row each time"
idempotent = dict.fromkeys(OPERATIONS, True) | dict.fromkeys(
    ["append", "counter += 1", "SMS", "POST", "upsert"], False
)

# %% wrong loses="idempotent_here" why="the same text appended is the same file"
idempotent = dict.fromkeys(OPERATIONS, True) | dict.fromkeys(["counter += 1", "SMS", "POST"], False)

# %% wrong loses="idempotent_here idempotent_there" why="only what reads is idempotent"
idempotent = dict.fromkeys(OPERATIONS, False)

# %% wrong loses="idempotent_here idempotent_there" why="whatever runs without an error may be repeated"
idempotent = dict.fromkeys(OPERATIONS, True)

# %% wrong loses="idempotent_here idempotent_there" why="the list of the idempotent ones, without a word on the others"
idempotent = ["whole-file write", "upsert", "build", "mkdir(exist_ok=True)", "DELETE", "PUT"]

# %% right why="sorted by what each of them does"
idempotent = {name: True for name in ("whole-file write", "upsert", "build", "PUT")}
idempotent |= {name: True for name in ("DELETE", "mkdir(exist_ok=True)")}
idempotent |= {name: False for name in ("append", "counter += 1", "SMS", "POST")}

# %% [markdown]
# First the operations on files and the database.


# %% test id="idempotent_here" points=2
def first_wrong(answers, names):
    """One sentence on the first name where the answer is not what the experiment gave, or ""."""
    if not isinstance(answers, dict):
        return f"idempotent must be a dict of ten names, and it is {answers!r}"
    for name in names:
        if not isinstance(answers.get(name), bool):
            return f"{name}: expected True or False, and idempotent holds {answers.get(name)!r}"
        with new_place() as place:
            before = place.world()
            OPERATIONS[name](place)
            once = place.world()
            OPERATIONS[name](place)
            twice = place.world()
        if answers[name] != (once == twice):
            [part] = [part for part in before if not before[part] == once[part] == twice[part]]
            return (
                f"{name}: you said {answers[name]}. The {part} were {once[part]} after doing it once, "
                f"and {twice[part]} after doing it twice"
            )
    return ""


problem = first_wrong(idempotent, list(OPERATIONS)[:6])
assert not problem, f"{problem}. Compare the two worlds, not the work that was done."

# %% [markdown]
# Then the service.

# %% test id="idempotent_there" points=2
problem = first_wrong(idempotent, list(OPERATIONS)[6:])
assert not problem, f"{problem}. Compare the two worlds, not the replies."

# %% [markdown]
# One of them answers differently the second time:

# %%
with new_place() as place:
    print("first DELETE: ", OPERATIONS["DELETE"](place))
    print("second DELETE:", OPERATIONS["DELETE"](place))

# %% [markdown]
# 404 means "not found". The second `DELETE` is idempotent all the same: the reply differs, the world does not. A retry must
# therefore take such a 404 for success.
#
# A build is idempotent as long as it depends on its input only. One that writes the time into its output is not.
#
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"A step crashed after it was done and before it was recorded.
# What happens on recovery, and what do you do about it?"*
#
# <details><summary>One way to say it</summary>
#
# "On recovery I find no record of done. That can mean three things: not done, done without a reply, done
# with a reply that died with the process. My own notes cannot tell them apart, so the outcome is unknown, which is not
# the same as failed. If I act first and record afterwards, the step runs again: at-least-once. If I record first, it may
# never run: at-most-once. No order of the two gives exactly once, because effect and record lie on two sides. So I keep
# at-least-once. Then I make the repetition harmless: the write is idempotent, as I set a value that I noted beforehand
# instead of adding, or I send an idempotency key that the other side honours, the same at every retry, made from run and
# step. Or I find out: I ask the other side first whether it was done. If it offers none of these, I choose between twice
# and lost, and say which."
# </details>
#
# **Often confused:** *idempotent* and *sent once*. Idempotent: done again at once, it leaves the world as it was after the
# first time. Sent once: the request left a single time. The first is a property that you can build. The second nobody can
# promise across a crash.
#
# **They may ask next:**
#
# * You check in your own database whether the key was used, then call the service. Which window is left open?
# * The farm answers "not found" when you ask, but it shows new orders only after ten seconds. What does your agent do?
