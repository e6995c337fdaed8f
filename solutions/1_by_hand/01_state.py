# %% [markdown]
# # 01 · State
#
# **What must be saved so that a killed agent can go on?**
#
# 80 minutes · 16 points · before this: `00_start_here`
#
# A coding agent works on a goal until it is met. Because a goal may be out of reach, it gives up after 50 rounds.
# In June 2026 somebody noticed what happens when such a session is resumed: the goal comes back, the number of
# rounds does not. It starts at 0, so each resume grants another 50 rounds, and a limit that should have stopped the
# agent stops nothing. (Reported as QwenLM/qwen-code issue 4999. The number had been written down each round. Only the
# way back in did not read it.)
#
# The **state** of an agent is all that it needs to go on from a given moment. You will find out by experiment what
# belongs in it: kill a run half way, resume it with some of its state, and compare the rest with a run that nobody
# killed. Then you will meet the part of the truth that no save can hold.

# %%
import os
import shutil
import smtplib
import socket
import sqlite3
import sys
import tempfile
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from crashlab import SoundStore, WorkFolder, explore, launch
from crashlab.quiz import differs
from crashlab.world.builds import BuildError, BuildTree, fingerprint
from crashlab.world.mail import mail_service

print("Python", sys.version.split()[0], "on", sys.platform)

# %% [markdown]
# ## The experiment
#
# A build agent compiles libpng, which needs zlib. This is its whole state at the start of a run, in the order of the
# alphabet. Some of these fields are needed to go on. Others only look like it.

# %%
PLAN = ["clone zlib", "build zlib", "install zlib", "configure libpng", "build libpng"]


def new_run():
    return {
        "done": [],
        "last_call": "",
        "log": [],
        "messages": [],
        "pending": None,
        "plan": PLAN,
        "position": 0,
        "repeats": 0,
        "steps_left": 0,
        "steps_used": 0,
        "title": "",
        "waiting": False,
    }


# %% [markdown]
# The outside does what it is asked and answers. `trouble` makes some of its answers bad. `folder.perform` keeps
# a record that no kill can undo. From it you will see everything that the agent did, was told, and ended with.


# %%
def outside(folder, call, trouble):
    answer = "ok"
    headers = folder.path / "zlib.h"
    if call == "install zlib":
        answer = "ok: it is in deps/a41c"
    elif call == "install zlib headers":
        headers.touch()
    elif call.startswith("configure") and trouble == "headers" and not headers.exists():
        answer = "error: zlib.h is missing"
    elif call == "build libpng" and trouble == "disk":
        answer = "error: the disk is busy"
    folder.perform(f"{call} -> {answer}")
    return answer


# %% [markdown]
# The model is scripted. It turns the next step of the plan into a call, and for one step it has to look up in its
# messages where zlib went. When headers are missing, it makes a new plan.


# %%
def model(messages, step):
    if step != "configure libpng":
        return step
    words = " ".join(messages).split()
    places = [word for word in words if word.startswith("deps/")]
    return f"configure libpng with {places[-1] if places else 'any zlib'}"


def new_plan(plan, position, answer):
    if answer == "error: zlib.h is missing":
        return [*plan[:position], "install zlib headers", *plan[position:]]
    return plan


# %% [markdown]
# And this is the agent, one turn after the other. Three rules of it are worth a look before you go on:
#
# * Installing zlib needs the consent of a person. The turn in which the agent asks only notes the call as `pending`. In the
#   next turn the person has said yes, and that very call is made.
# * An agent that is about to make the same call for the fourth time in a row is stopped: it repeats itself.
# * The agent knows the last four messages: two calls and their answers. Real agents shorten their history too, because a
#   model can read only so much.
#
# The state is saved at the start of each turn, in a store that no kill can tear.

# %%
NEEDS_CONSENT = ["install zlib"]
store = SoundStore(new_run())


def agent(folder, state, trouble, budget):
    def stop(reason):
        folder.perform(f"stop: {reason}")
        return reason

    while True:
        plan, position, messages = state["plan"], state["position"], state["messages"]
        state["done"] = plan[:position]
        state["last_call"] = messages[-2] if messages else ""
        state["steps_left"] = budget - state["steps_used"]
        state["waiting"] = state["pending"] is not None
        state["title"] = f"{position} of {len(plan)} steps done"
        store.save(folder.checkpoint, state)
        if state["done"] == plan:
            return stop("completed")
        if state["waiting"]:
            call, state["pending"] = state["pending"], None
        elif state["steps_left"] <= 0:
            return stop("budget exceeded")
        else:
            call = model(messages, plan[position])
            state["steps_used"] += 1
            state["repeats"] = state["repeats"] + 1 if call == state["last_call"] else 1
            if state["repeats"] == 4:
                return stop("repeats itself")
            if call in NEEDS_CONSENT:
                folder.perform(f"ask a person: may I {call}?")
                state["pending"] = call
                continue
        answer = outside(folder, call, trouble)
        state["messages"] = [*messages, call, answer][-4:]
        state["log"].append(f"{call}: {answer}")
        state["plan"] = new_plan(plan, position, answer)
        state["position"] += answer.startswith("ok")


# %% [markdown]
# To resume, a new process starts as a new run does and then takes over some fields of the save. The fields that it does
# not take over keep their first value.


# %%
def first_run(folder, trouble, budget):
    return agent(folder, new_run(), trouble, budget)


def resume(folder, fields, trouble, budget):
    saved = store.load(folder.checkpoint)
    return agent(folder, new_run() | {name: saved[name] for name in fields}, trouble, budget)


# %% [markdown]
# There are five scenarios. Each says what trouble there is, how large the budget is, and in which turn the agent will be
# killed: at the start of it, just after the save. First, all of them without a kill.

# %%
SCENARIOS = {
    "plain": (None, 9, 5),
    "small budget": (None, 4, 5),
    "consent": (None, 9, 4),
    "new plan": ("headers", 9, 7),
    "repeats": ("disk", 12, 8),
}

RECORD = {}
for name, (trouble, budget, turn) in SCENARIOS.items():
    with WorkFolder.fresh() as folder:
        launch(first_run, folder, trouble, budget)
        RECORD[name] = folder.performed()
    print(f"{name} (to be killed in turn {turn})")
    print("   ", "\n    ".join(RECORD[name]))

# %% [markdown]
# Now the kills, by SIGKILL. To have them all, each scenario is killed once in each of its turns, in a folder of its own,
# and what is left is kept. The turn in `SCENARIOS` is the one that you will look at first.

# %%
attic = tempfile.TemporaryDirectory(prefix="crashlab-")
KILLED = {}


def kill(scenario, turn):
    trouble, budget, _ = SCENARIOS[scenario]
    folder = WorkFolder(Path(tempfile.mkdtemp(dir=attic.name)))
    before = 'if state["done"] == plan'
    life = launch(first_run, folder, trouble, budget, kill_before=before, visit=turn)
    assert life.end == "killed", life
    return folder


for scenario in SCENARIOS:
    turns = range(1, len(RECORD[scenario]) + 1)
    KILLED |= {(scenario, turn): kill(scenario, turn) for turn in turns}

print(len(KILLED), "runs killed")

# %% [markdown]
# `rest` gives a new process a copy of what is left, resumes the run with the given fields, and returns what happened from
# then on. `UNINTERRUPTED` holds, for each scenario and turn, what happened from the start of that turn on in the run that
# nobody killed.


# %%
def rest(scenario, fields, turn=None):
    trouble, budget, its_turn = SCENARIOS[scenario]
    left = KILLED[scenario, turn or its_turn]
    with WorkFolder.fresh() as folder:
        shutil.copytree(left.path, folder.path, dirs_exist_ok=True)
        launch(resume, folder, sorted(fields), trouble, budget).result()
        return folder.performed()[len(left.performed()) :]


UNINTERRUPTED = {
    (scenario, turn): RECORD[scenario][len(left.performed()) :]
    for (scenario, turn), left in KILLED.items()
}


def same(scenario, fields, turn=None):
    turn = turn or SCENARIOS[scenario][2]
    return rest(scenario, fields, turn) == UNINTERRUPTED[scenario, turn]


# %% [markdown]
# ## Predict
#
# Commit to an answer before you run the check. Each of the five is killed in its turn and resumed with three fields:
# `messages`, `plan` and `position`. So the new process knows what was said, what is to be done, and how far it is. Does
# the rest of the run go as it would have gone without the kill?
#
# Assign to `predicted_three` a list of five words, in the order of the scenarios: `"same"` or `"differs"`.

# %% answer id="predict_three"
### BEGIN SOLUTION
predicted_three = ["same", "differs", "differs", "same", "differs"]
### END SOLUTION

# %% wrong loses="predict_three_check" why="what was said and how far it is: that is all there is"
predicted_three = ["same", "same", "same", "same", "same"]

# %% wrong loses="predict_three_check" why="the question to the person is in the messages"
predicted_three = ["same", "differs", "same", "same", "differs"]

# %% wrong loses="predict_three_check" why="repetitions can be counted in the messages"
predicted_three = ["same", "differs", "differs", "same", "same"]

# %% wrong loses="predict_three_check" why="a plan that was changed while running is lost"
predicted_three = ["same", "differs", "differs", "differs", "differs"]

# %% wrong loses="predict_three_check" why="a save with fields left out is worth nothing"
predicted_three = ["differs"] * 5

# %% right why="made from what each scenario lacks"
predicted_three = tuple(
    "differs" if lacks else "same" for lacks in (None, "steps_used", "pending", None, "repeats")
)

# %% test id="predict_three_check" points=2
words = list(predicted_three) if isinstance(predicted_three, list | tuple) else []
assert len(words) == len(SCENARIOS) and all(word in ("same", "differs") for word in words), (
    f"predicted_three is {predicted_three!r}; expected a list of {len(SCENARIOS)} words, each 'same' or 'differs'"
)
three = ["messages", "plan", "position"]
measured = ["same" if same(scenario, three) else "differs" for scenario in SCENARIOS]
labels = [f"{name}, killed in turn {turn}" for name, (_, _, turn) in SCENARIOS.items()]
problem = differs(words, measured, labels)
assert not problem, (
    f"{problem}. Follow the agent from the start of the turn named here, with every field but the three as "
    "in new_run()."
)

# %% [markdown]
# ## Break it
#
# Now look at one of them. In turn 3 the agent has asked a person. It is killed at the start of turn 4, in which it would
# make the call that now has its consent. It is resumed with ever larger parts of its state:

# %%
print("nobody killed it:", *UNINTERRUPTED["consent", 4], sep="\n    ")
parts = [[], ["messages"], ["messages", "done"], ["messages", "done", "position"]]
for fields in parts:
    print(f"resumed with {fields}:", *rest("consent", fields), sep="\n    ")

# %% [markdown]
# With nothing, it builds everything again. With its messages alone, it does too: it knows what was said, and not
# how far it is. `done` looks like the cure and changes nothing. Find the line of the agent that says why. With
# `position` it no longer repeats its work, but it asks the person a second time, where the run that nobody killed makes
# the call that has its consent.
#
# ## See it
#
# The same for all five scenarios. A cell says whether the rest of the run is the one of an uninterrupted run.


# %%
def table(rows):
    """Print for each named set of fields in which scenarios the rest is the same."""
    print(f"{'':24}" + "".join(f"{scenario:14}" for scenario in SCENARIOS))
    for label, fields in rows.items():
        cells = ["same" if same(scenario, fields) else "DIFFERS" for scenario in SCENARIOS]
        print(f"{label:24}" + "".join(f"{cell:14}" for cell in cells))


table(
    {
        "nothing": [],
        "messages": ["messages"],
        "+ position": ["messages", "position"],
        "+ plan": ["messages", "position", "plan"],
        "everything": list(new_run()),
    }
)

# %% [markdown]
# The last row is the good news: with the whole state a run that was killed just after a save goes on as if nothing had
# happened. (A kill between an action and the next save is another matter. It is kept out of this notebook.) Every row above
# it is wrong somewhere. The fourth is right in two of the five: a test with only those two scenarios would have told you
# that three fields are enough.
#
# ## Fix it: the smallest set
#
# Assign to `needed` the names of the fields that have to be saved, so that the rest of the run is the same in every
# scenario, whichever turn it is at whose start the agent is killed. Leave out every field that the agent makes anew before it uses it,
# and every field that is only there to be looked at.
#
# *Smallest* means: smallest for this agent's code as it stands. What new code could work out does not count. Take `log`:
# it holds every call with its answer, so new code could get `position` or `messages` from it. This agent has no
# such code. It appends to `log` and never looks into it.
#
# <details><summary>Hint</summary>
#
# For each field, ask whether what the agent does next ever depends on the value that the field had in the save. Then
# call `table` with sets of your own.
# </details>

# %% [markdown]
# The checks use `damage`. It resumes the killed runs, one of each scenario or all of them, with the given fields, and
# compares the rest: every call, every answer, every question to a person, and the reason to stop.


# %%
def damage(fields, every_turn=False):
    """Say in a sentence where a resume with `fields` first differs; "" where it never does."""
    known = list(new_run())
    assert isinstance(fields, list | tuple | set | frozenset), (
        f"needed is {fields!r}; expected a set of names of fields, as new_run() has them"
    )
    unknown = [name for name in fields if name not in known]
    assert not unknown, f"needed holds {unknown[0]!r}; new_run() has no field of that name"
    for (scenario, turn), expected in UNINTERRUPTED.items():
        if not every_turn and turn != SCENARIOS[scenario][2]:
            continue
        for right, seen in zip(expected, rest(scenario, fields, turn), strict=False):
            if seen != right:
                return (
                    f"'{scenario}', killed in turn {turn} and resumed, went on with {seen!r}; expected, "
                    f"as without a kill, {right!r} (rest('{scenario}', needed, {turn}) shows all of it)"
                )
    return ""


# %% answer id="needed"
### BEGIN SOLUTION
needed = {"messages", "plan", "position", "steps_used", "pending", "repeats"}
### END SOLUTION

# %% wrong loses="needed_sufficient needed_smallest" why="the history is the state"
needed = {"messages"}

# %% wrong loses="needed_sufficient needed_smallest" why="history and progress are the state"
needed = {"messages", "plan", "position"}

# %% wrong loses="needed_sufficient needed_smallest" why="the names of what was done say how far it is"
needed = {"messages", "plan", "done", "steps_used", "pending", "repeats"}

# %% wrong loses="needed_sufficient needed_smallest" why="how often it repeated itself is over with the process"
needed = {"messages", "plan", "position", "steps_used", "pending"}

# %% wrong loses="needed_sufficient needed_smallest" why="that it waits is enough, the model will propose the call again"
needed = {"messages", "plan", "position", "steps_used", "waiting", "repeats"}

# %% wrong loses="needed_sufficient needed_smallest" why="the plan is a constant of the program"
needed = {"messages", "position", "steps_used", "pending", "repeats"}

# %% wrong loses="needed_sufficient needed_smallest" why="saves what is left of the budget"
needed = {"messages", "plan", "position", "steps_left", "pending", "repeats"}

# %% wrong loses="needed_smallest" why="to be safe, save everything"
needed = set(new_run())

# %% wrong loses="needed_smallest" why="a counter of repeats is worth nothing without the call it counts"
needed = {"messages", "plan", "position", "steps_used", "pending", "repeats", "last_call"}

# %% wrong loses="needed_smallest" why="a pending call needs the word that it waits"
needed = {"messages", "plan", "position", "steps_used", "pending", "waiting", "repeats"}

# %% right why="a list, by taking away what is derived or only shown"
needed = [
    name
    for name in new_run()
    if name not in ("done", "last_call", "log", "steps_left", "title", "waiting")
]

# %% [markdown]
# The first check resumes all the killed runs with exactly your set.

# %% test id="needed_sufficient" points=3
problem = damage(needed, every_turn=True)
assert not problem, f"{problem}. Which field, not in your set, decides that?"

# %% [markdown]
# The second one leaves out one field of your set at a time. Each must be missed in at least one scenario. A set that
# is not sufficient is not the smallest sufficient one either.

# %% test id="needed_smallest" points=2
problem = damage(needed)
assert not problem, f"{problem}. First make the set sufficient."
for name in sorted(needed):
    assert damage(set(needed) - {name}), (
        f"without {name!r} the rest is the same in all {len(SCENARIOS)} scenarios, each killed in its turn; expected "
        "that each field of your set is missed in one. Look at who reads it, and what was written to it before."
    )

# %% [markdown]
# ## Why
#
# Here is your set with one field left out at a time, and for each the first thing that goes wrong.

# %%
table({f"without {name}": set(needed) - {name} for name in sorted(needed)})
for name in sorted(needed):
    print(f"\nwithout {name}: {damage(set(needed) - {name}) or 'nothing goes wrong'}")

# %% [markdown]
# In the smallest set each field is missed somewhere, and some of them in one of these five kills only. They fall into
# five groups:
#
# | group | here | without it |
# |---|---|---|
# | history | `messages` | the model does not know where zlib went |
# | progress | `position` | it builds again what is built |
# | budget used | `steps_used` | each restart refills the budget |
# | action pending consent | `pending` | the person is asked again |
# | control | `repeats`, `plan` | the limit that stops a circling agent starts anew; a position in a forgotten plan skips a step |
#
# The other six are **derived** (`done`, `last_call`, `steps_left`, `waiting`: made from the needed ones before anybody
# reads them) or **for display** (`log`, `title`). You may save them. It changes nothing: the row "everything" above was
# the same in all five.
#
# Could `repeats` be counted in the messages? In this agent no: it knows the last four messages, which hold two calls, and
# the rule looks at four. That is the usual trap. A field is derived only as long as all that it is made from is kept.
#
# The second trap is in the way back in. A coding agent kept the tool calls that waited for consent, and one of its
# commands to resume a conversation restored the messages only. The question to the person never appeared.
# (letta-ai/letta-code pull request 546.)
#
# ## Run 208
#
# So the state is saved, all of it. Is that enough? Here is a case from the project that this course comes from. Run 208 of
# a build agent died of an unpaid bill in its 28th step. Its state was there, whole. But the script that ran the
# evaluation tidied up after each project and had deleted the work folder, crashed runs included. There was nothing to go
# on with.
#
# Here it is in small. `BuildTree` is the outside of a build, with real files. The agent keeps its save in one place and
# builds in another, `work`.

# %%
STEPS = [
    "fetch zlib",
    "install zlib",
    "fetch libpng",
    "configure libpng",
    "compile libpng",
    "link libpng",
]
builds = SoundStore({"position": 0, "outside": {}})


def build_agent(folder):
    state = builds.load(folder.checkpoint)
    work = folder.path / "work"
    for step in STEPS[state["position"] :]:
        verb, library = step.split()
        print("  ", step)
        try:
            made = getattr(BuildTree(work), verb)(library)
        except BuildError as error:
            return f"{step}: {error}"
        state["outside"][made] = fingerprint(work / made)
        state["position"] += 1
        builds.save(folder.checkpoint, state)
    return "completed"


@contextmanager
def run_208():
    """A run that was killed when it had three of its six steps done and saved."""
    with WorkFolder.fresh() as folder:
        launch(build_agent, folder, kill_before="made = getattr", visit=4, echo=False)
        yield folder


with run_208() as folder:
    saved = builds.load(folder.checkpoint)
    print("saved position:", saved["position"])
    for name, claimed in saved["outside"].items():
        print("saved claim:   ", name, claimed)
    for path in sorted((folder.path / "work").glob("*/*")):
        print("on disk:       ", path.relative_to(folder.path / "work").as_posix())
    print("resumed:")
    print(launch(build_agent, folder).result())

# %% [markdown]
# Killed, resumed, completed. Besides `position` the state holds what the agent believes of the outside: the name of each
# thing that it made, with a **fingerprint**, a hash of what is in it. (Until now nobody compares it.)
#
# **Predict.** The same kill, but before the agent is resumed the folder `work` is deleted. Three steps are left:
#
# * `configure libpng` writes down where libraries are to be looked for,
# * `compile libpng` makes an object of each source file that it finds in `src/libpng`,
# * `link libpng` puts the objects and the libraries together.
#
# At which step does the agent fail? Assign the step to `predicted_failure`, or `"none"` if you think that it completes.

# %% answer id="predict_failure"
### BEGIN SOLUTION
predicted_failure = "link libpng"
### END SOLUTION

# %% wrong loses="predict_failure_check" why="the first step in a lost folder fails"
predicted_failure = "configure libpng"

# %% wrong loses="predict_failure_check" why="a compiler without sources complains"
predicted_failure = "compile libpng"

# %% wrong loses="predict_failure_check" why="the agent notices, and starts at the first step"
predicted_failure = "fetch zlib"

# %% wrong loses="predict_failure_check" why="what the save calls done is there"
predicted_failure = "none"

# %% right why="the last one of the plan"
predicted_failure = STEPS[-1]

# %% test id="predict_failure_check" points=1
with run_208() as folder:
    shutil.rmtree(folder.path / "work")
    result = launch(build_agent, folder, echo=False).result()
measured = "none" if result == "completed" else result.split(":")[0]
assert predicted_failure in [*STEPS, "none"], (
    f"predicted_failure is {predicted_failure!r}; expected one of STEPS, or 'none'"
)
problem = differs(predicted_failure, measured)
assert not problem, f"{problem}. Ask of each step what it needs, and whether it checks for that."

# %% [markdown]
# Look at the failure itself. After the agent's steps comes the answer that it gets.

# %%
with run_208() as folder:
    shutil.rmtree(folder.path / "work")
    print(launch(build_agent, folder).result())

# %% [markdown]
# Two steps succeed although the folder was deleted: they make it anew, without what was in it. The third one fails, and
# blames libpng: a symbol is undefined. Nothing in that sentence says that a folder was deleted. The failure is *late* and
# *about something else*.
#
# This happens to people too. A tool that restores coding agents after a reboot opened one whose working folder had been
# removed the day before, tried a second way of restoring it that needed the same folder, and reported that its program
# had exited too early. (autonomous-ai/autonomous-harness pull request 72.)
#
# ## Fix it: `missing_outside`
#
# What is in the work folder is **outside state**: a save can only make claims about it. So check the claims first.
#
# Write `missing_outside(state, folder)`. `state["outside"]` maps names to fingerprints. `folder` is the path of the work
# folder. Return a list of those names for which the folder does not hold what the state claims:
#
# | at `folder / name` there is | its name is |
# |---|---|
# | nothing | in the list |
# | an empty file, or a folder with nothing in it, *also* if it was already empty when its fingerprint was taken | in the list |
# | something with another fingerprint | in the list |
# | something with the claimed fingerprint, whatever its time or place | not in the list |
#
# What the folder holds beyond the claims is no concern of yours. Only look: change nothing in it. `fingerprint(path)`
# takes a file or a folder and raises `FileNotFoundError` where nothing is. About eight lines.
#
# <details><summary>Hint</summary>
#
# `path.stat().st_size` is the size of a file. `any(path.iterdir())` says whether a folder holds anything, and fails for
# a file. In which order do you ask?
# </details>


# %% [markdown]
# The checks take a run that is finished, do something to a copy of its work folder, and ask your function. Each has
# several folders, with one damage, with two, and with none. After the call the folder must be as it was before.


# %%
def contents(work):
    """Map each path in `work`, and `work` itself, to its bytes, or to None for a folder."""
    paths = [work, *work.rglob("*")] if work.exists() else []
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


def find_missing(damages, hint, more=None):
    """Say in a sentence or two where missing_outside is wrong; "" where it never is.

    `damages` maps what was done, in words, to a function that does it and the names that suffer. `hint` is for an
    answer in which a name is not reported. `more` makes claims of its own and returns them.
    """
    with WorkFolder.fresh() as folder:
        launch(build_agent, folder, echo=False).result()
        claims = builds.load(folder.checkpoint)["outside"]
        for words, (do, names) in damages.items():
            work = folder.path / "elsewhere"
            shutil.copytree(folder.path / "work", work, copy_function=shutil.copyfile)
            state = {"outside": claims | (more(work) if more else {})}
            do(work)
            before = contents(work)
            life = launch(missing_outside, state, work, echo=False)
            if life.stub:
                life.result()
            if life.end != "finished":
                if "cannot leave its process" in life.reason:
                    hint = "Return a list of names (texts)."
                elif "FileNotFoundError" not in life.reason:
                    hint = ""
                return f"{words}: missing_outside {life.reason}; expected {names}. {hint}".strip()
            print(life.output, end="")
            found = life.value
            texts = isinstance(found, list | tuple | set) and all(isinstance(x, str) for x in found)
            if not texts:
                return f"{words}: missing_outside gave {found!r}; return a list of names (texts)"
            if sorted(found) != sorted(names):
                if set(found) == set(names):
                    hint = "Report each name once."
                elif set(found) > set(names):
                    whole = "all else that is claimed" if names else "all of it"
                    hint = f"Here {whole} is there; report only what is missing, empty or changed."
                return f"{words}: missing_outside gave {found!r}; expected {names}. {hint}"
            if contents(work) != before:
                return f"{words}: missing_outside changed the work folder; it is only to look"
            shutil.rmtree(work, ignore_errors=True)
    return ""


def remove(*names):
    def do(work):
        for name in names:
            path = work / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return do


def empty(*names):
    def do(work):
        for name in names:
            path = work / name
            if path.is_dir():
                shutil.rmtree(path)
                path.mkdir()
            else:
                path.write_bytes(b"")

    return do


# %% answer id="missing_outside"
def missing_outside(state, folder):
    """Return the names that `state` claims and `folder` does not hold: missing, empty or changed."""
    ### BEGIN SOLUTION
    missing = []
    for name, claimed in state["outside"].items():
        path = folder / name
        holds = path.exists() and (
            any(path.iterdir()) if path.is_dir() else path.stat().st_size > 0
        )
        if not holds or fingerprint(path) != claimed:
            missing.append(name)
    return missing
    ### END SOLUTION


# %% wrong loses="outside_empty outside_changed" why="what exists is there"
def missing_outside(state, folder):
    return [name for name in state["outside"] if not (folder / name).exists()]


# %% wrong loses="outside_changed" why="what is there and not empty is good"
def missing_outside(state, folder):
    def holds(path):
        return any(path.iterdir()) if path.is_dir() else path.exists() and path.stat().st_size

    return [name for name in state["outside"] if not holds(folder / name)]


# %% wrong loses="outside_empty" why="the fingerprint says it all"
def missing_outside(state, folder):
    missing = []
    for name, claimed in state["outside"].items():
        try:
            if fingerprint(folder / name) != claimed:
                missing.append(name)
        except FileNotFoundError:
            missing.append(name)
    return missing


# %% wrong loses="outside_missing outside_empty" why="the fingerprint of a missing folder differs, so no need to look"
def missing_outside(state, folder):
    return [
        name for name, claimed in state["outside"].items() if fingerprint(folder / name) != claimed
    ]


# %% wrong loses="outside_missing outside_empty outside_changed" why="the first one is enough to refuse"
def missing_outside(state, folder):
    for name, claimed in state["outside"].items():
        path = folder / name
        holds = path.exists() and (
            any(path.iterdir()) if path.is_dir() else path.stat().st_size > 0
        )
        if not holds or fingerprint(path) != claimed:
            return [name]
    return []


# %% wrong loses="outside_missing outside_empty outside_changed" why="yes or no is enough to refuse"
def missing_outside(state, folder):
    return not all(
        (folder / name).exists() and fingerprint(folder / name) == claimed
        for name, claimed in state["outside"].items()
    )


# %% wrong loses="outside_missing outside_empty outside_changed" why="compares the other way round: what is there and not claimed"
def missing_outside(state, folder):
    there = {path.relative_to(folder).as_posix() for path in folder.glob("*/*")}
    return sorted(there - set(state["outside"]))


# %% wrong loses="outside_missing outside_empty outside_changed" why="names are relative to where the process happens to be"
def missing_outside(state, folder):
    return [
        name
        for name, claimed in state["outside"].items()
        if not Path(name).exists() or fingerprint(Path(name)) != claimed
    ]


# %% wrong loses="outside_empty outside_changed" why="a change shows in the list of files"
def missing_outside(state, folder):
    missing = []
    for name in state["outside"]:
        path = folder / name
        if not path.exists() or (path.is_dir() and not os.listdir(path)):
            missing.append(name)
    return missing


# %% wrong loses="outside_empty outside_changed" why="what is not as claimed is to be made again, so it has to go"
def missing_outside(state, folder):
    missing = []
    for name, claimed in state["outside"].items():
        path = folder / name
        holds = path.exists() and (
            any(path.iterdir()) if path.is_dir() else path.stat().st_size > 0
        )
        if not holds or fingerprint(path) != claimed:
            shutil.rmtree(path, ignore_errors=True)
            missing.append(name)
    return missing


# %% wrong loses="outside_missing" why="what nobody claims does not belong there"
def missing_outside(state, folder):
    claims = state["outside"]
    there = {path.relative_to(folder).as_posix() for path in folder.glob("*/*")}
    missing = sorted(there - set(claims))
    for name, claimed in claims.items():
        path = folder / name
        holds = path.exists() and (
            any(path.iterdir()) if path.is_dir() else path.stat().st_size > 0
        )
        if not holds or fingerprint(path) != claimed:
            missing.append(name)
    return missing


# %% wrong loses="outside_empty" why="only folders can be empty; an emptied file has another fingerprint"
def missing_outside(state, folder):
    missing = []
    for name, claimed in state["outside"].items():
        path = folder / name
        gone = not path.exists() or (path.is_dir() and not os.listdir(path))
        if gone or fingerprint(path) != claimed:
            missing.append(name)
    return missing


# %% wrong loses="outside_missing outside_empty outside_changed" why="gives paths where names were asked for"
def missing_outside(state, folder):
    missing = []
    for name, claimed in state["outside"].items():
        path = folder / name
        holds = path.exists() and (
            any(path.iterdir()) if path.is_dir() else path.stat().st_size > 0
        )
        if not holds or fingerprint(path) != claimed:
            missing.append(Path(name))
    return missing


# %% right why="one comprehension over a helper, names from a walk of all bytes"
def missing_outside(state, folder):
    def holds(name):
        path = folder / name
        files = [path] if path.is_file() else list(path.rglob("*"))
        return sum(file.stat().st_size for file in files if file.is_file()) > 0

    claims = state["outside"]
    return [
        name for name in claims if not holds(name) or fingerprint(folder / name) != claims[name]
    ]


# %% test id="outside_missing" points=2
ALL = [
    "src/zlib",
    "deps/zlib",
    "src/libpng",
    "build/libpng.settings",
    "build/libpng",
    "out/libpng.so",
]


def touch_all(work):
    for path in work.rglob("*"):
        os.utime(path, (0, 0))


def add_what_nobody_claims(work):
    (work / "notes.txt").write_text("not claimed")
    (work / "src" / "libjpeg").mkdir()
    (work / "src" / "libjpeg" / "jpeg.c").write_text("not claimed")


problem = find_missing(
    {
        "a whole folder, in another place": (lambda work: None, []),
        "a whole folder, all its times changed": (touch_all, []),
        "a whole folder with notes.txt and src/libjpeg/jpeg.c besides": (
            add_what_nobody_claims,
            [],
        ),
        "src/zlib removed": (remove("src/zlib"), ["src/zlib"]),
        "deps and out/libpng.so removed": (
            remove("deps", "out/libpng.so"),
            ["deps/zlib", "out/libpng.so"],
        ),
        "the work folder removed": (shutil.rmtree, ALL),
    },
    "Ask of each claimed name whether folder / name is there.",
)
assert not problem, problem

# %% test id="outside_empty" points=1
problem = find_missing(
    {
        "src/libpng emptied": (empty("src/libpng"), ["src/libpng"]),
        "deps/zlib and build/libpng.settings emptied": (
            empty("deps/zlib", "build/libpng.settings"),
            ["deps/zlib", "build/libpng.settings"],
        ),
    },
    "A folder can be there and hold nothing.",
)
assert not problem, problem


def installations_of_nothing(work):
    (work / "deps" / "libjpeg").mkdir()
    (work / "out" / "libjpeg.so").touch()
    return {name: fingerprint(work / name) for name in ("deps/libjpeg", "out/libjpeg.so")}


problem = find_missing(
    {
        "the folder deps/libjpeg and the file out/libjpeg.so claimed when they were already empty": (
            lambda work: None,
            ["deps/libjpeg", "out/libjpeg.so"],
        )
    },
    "Nothing has a fingerprint too, and it fits.",
    installations_of_nothing,
)
assert not problem, problem


# %% test id="outside_changed" points=2
def patch(work):
    path = work / "src" / "zlib" / "inflate.c"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes().replace(b"return 0", b"return 1"))
    os.utime(path, ns=times)


def patch_and_lengthen(work):
    patch(work)
    path = work / "out" / "libpng.so"
    path.write_bytes(path.read_bytes() + b"\n")


def rename_header(work):
    (work / "deps" / "zlib" / "zlib.h").rename(work / "deps" / "zlib" / "zlib.h.orig")


problem = find_missing(
    {
        "one byte of src/zlib changed, size and time kept": (patch, ["src/zlib"]),
        "one of two files in src/libpng removed": (remove("src/libpng/png.h"), ["src/libpng"]),
        "a header in deps/zlib renamed": (rename_header, ["deps/zlib"]),
        "src/zlib changed and out/libpng.so made longer": (
            patch_and_lengthen,
            ["src/zlib", "out/libpng.so"],
        ),
    },
    "Compare fingerprint(folder / name) with the claimed one.",
)
assert not problem, problem

# %% [markdown]
# ## Prove it
#
# With it the agent refuses before it does anything, and says by name what is gone. Whether it should now rebuild what is
# missing or leave that to a person is another question; it can be asked only because somebody noticed.


# %%
class ClaimError(Exception):
    """The save claims what is not there."""


def careful_agent(folder):
    missing = missing_outside(builds.load(folder.checkpoint), folder.path / "work")
    if missing:
        raise ClaimError(", ".join(missing))
    return build_agent(folder)


with run_208() as folder:
    shutil.rmtree(folder.path / "work")
    print(launch(careful_agent, folder, echo=False))

with run_208() as folder:
    remove("deps/zlib")(folder.path / "work")
    print(launch(careful_agent, folder, echo=False))

# %% [markdown]
# A check that refuses too often is no better. So kill the careful agent before every line of its loop and restart it,
# with the work folder left alone. Each run starts half way, so that there are claims to compare from the beginning.
# `"all"` means that libpng was linked in the end. A restart that refuses would be "stuck".


# %%
@contextmanager
def half_way():
    with WorkFolder.fresh() as folder:
        shutil.copytree(left.path, folder.path, dirs_exist_ok=True)
        yield folder


def linked(folder):
    return "all" if (folder.path / "work" / "out" / "libpng.so").exists() else "lost"


with run_208() as left:
    report = explore(careful_agent, half_way, linked, inside=[build_agent])
report

# %% [markdown]
# If your map shows "all" on every line, there was no false alarm. A "stuck" would be a kill after which your
# `missing_outside` reports what is there.
#
# A kill between a step and its save leaves something that nobody claims yet, and the step is
# done again. That these steps *may* be done again is a property of building; sending a mail does not have it.
#
# ## Program state or outside state
#
# **Program state** is gone with the process. A new process has it only from a save. **Outside state** is there for a
# new process whatever was saved. About outside state a save can only make a claim.
#
# Which is which is not a matter of taste. Below are twelve things that an agent may have done. Each has a function that
# does it and one by which another process looks whether it is still so. `place` is the work folder. What the first one
# returns is held until the process is killed, so nothing is closed before. `mail` is a mail service; the check starts it.

# %%
CALLS = []
HERE = Path.cwd()


def add_to_list(place):
    CALLS.append("install zlib")


def set_variable(place):
    os.environ["AGENT_RUN"] = "208"


def change_folder(place):
    os.chdir(place)


def write_and_hold(place):
    file = (place / "held.txt").open("w")
    file.write("zlib installed\n")
    return file


def write_and_flush(place):
    file = (place / "flushed.txt").open("w")
    file.write("zlib installed\n")
    file.flush()
    return file


def rename_folder(place):
    (place / "zlib-new").mkdir()
    (place / "zlib-new").rename(place / "zlib")


# %%
def take_lock_file(place):
    return os.open(place / "lock", os.O_CREAT | os.O_EXCL)


def listen(place):
    server = socket.create_server(("127.0.0.1", 0))
    (place / "port").write_text(str(server.getsockname()[1]))
    return server


def insert(place):
    db = sqlite3.connect(place / "inserted.db")
    db.execute("CREATE TABLE done (step)")
    db.execute("INSERT INTO done VALUES ('install zlib')")
    return db


def insert_and_commit(place):
    db = sqlite3.connect(place / "committed.db")
    db.execute("CREATE TABLE done (step)")
    db.execute("INSERT INTO done VALUES ('install zlib')")
    db.commit()
    return db


def send_mail(place):
    client = smtplib.SMTP(mail.host, mail.port, "localhost")
    client.sendmail("agent@localhost", ["boss@localhost"], "Subject: zlib\n\nIt is installed.\n")
    return client


def install_library(place):
    BuildTree(place).fetch("zlib")
    BuildTree(place).install("zlib")


# %% [markdown]
# And this is how another process looks. `rows` finds its table in both databases: `sqlite3` begins a transaction before
# an INSERT, not before a CREATE TABLE, so the table is there at once. The mail service is a real one, in a
# process of its own, as mail servers are.


# %%
def rows(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT count(*) FROM done").fetchone()[0]


def connects(place):
    with suppress(OSError):
        port = int((place / "port").read_text())
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True


ITEMS = {
    "a call in a list": (add_to_list, lambda place: CALLS),
    "an environment variable": (set_variable, lambda place: os.environ.get("AGENT_RUN")),
    "the current folder": (change_folder, lambda place: Path.cwd() == place.resolve()),
    "a line written, file still open": (write_and_hold, lambda p: (p / "held.txt").read_text()),
    "a line flushed, file still open": (write_and_flush, lambda p: (p / "flushed.txt").read_text()),
    "a folder renamed": (rename_folder, lambda place: (place / "zlib").exists()),
    "a lock file": (take_lock_file, lambda place: (place / "lock").exists()),
    "a socket that listens": (listen, connects),
    "a row inserted": (insert, lambda place: rows(place / "inserted.db")),
    "a row inserted and committed": (insert_and_commit, lambda place: rows(place / "committed.db")),
    "a mail accepted": (send_mail, lambda place: mail.inbox()),
    "a library installed": (install_library, lambda place: (place / "deps" / "zlib").exists()),
}

# %% [markdown]
# The check does each of the twelve in a process of its own, kills it, and looks from another process: the notebook's.


# %%
def hold(do, place):
    held = do(place)
    return held


def survives(do, look, place):
    life = launch(hold, do, place, kill_before="return held", echo=False)
    assert life.end == "killed", f"this machine could not do it: {life}"
    return "outside" if look(place) else "program"


# %% [markdown]
# Assign to `where` a dict: for each of the twelve names of `ITEMS`, `"program"` or `"outside"`. Commit before you run
# the check.

# %% answer id="where"
### BEGIN SOLUTION
where = {
    "a call in a list": "program",
    "an environment variable": "program",
    "the current folder": "program",
    "a line written, file still open": "program",
    "a line flushed, file still open": "outside",
    "a folder renamed": "outside",
    "a lock file": "outside",
    "a socket that listens": "program",
    "a row inserted": "program",
    "a row inserted and committed": "outside",
    "a mail accepted": "outside",
    "a library installed": "outside",
}
### END SOLUTION

# %% wrong loses="where_check" why="what was written to a file is in the file"
where = dict.fromkeys(ITEMS, "outside") | dict.fromkeys(
    [
        "a call in a list",
        "an environment variable",
        "the current folder",
        "a socket that listens",
        "a row inserted",
    ],
    "program",
)

# %% wrong loses="where_check" why="the environment belongs to the operating system"
where = dict.fromkeys(ITEMS, "outside") | dict.fromkeys(
    [
        "a call in a list",
        "a line written, file still open",
        "a socket that listens",
        "a row inserted",
    ],
    "program",
)

# %% wrong loses="where_check" why="a row that was inserted is in the database"
where = dict.fromkeys(ITEMS, "outside") | dict.fromkeys(
    [
        "a call in a list",
        "an environment variable",
        "the current folder",
        "a line written, file still open",
        "a socket that listens",
    ],
    "program",
)

# %% wrong loses="where_check" why="a lock goes with the process that took it"
where = dict.fromkeys(ITEMS, "outside") | dict.fromkeys(
    [
        "a call in a list",
        "an environment variable",
        "the current folder",
        "a line written, file still open",
        "a lock file",
        "a socket that listens",
        "a row inserted",
    ],
    "program",
)

# %% wrong loses="where_check" why="a file that was never closed is lost, flushed or not"
where = dict.fromkeys(ITEMS, "outside") | dict.fromkeys(
    [
        "a call in a list",
        "an environment variable",
        "the current folder",
        "a line written, file still open",
        "a line flushed, file still open",
        "a socket that listens",
        "a row inserted",
    ],
    "program",
)

# %% wrong loses="where_check" why="gives only what is program state"
where = {"a call in a list": "program", "an environment variable": "program"}

# %% right why="from the list of what is handed over to somebody else"
where = {
    name: "outside" if name.split()[-1] in ("flushed,", "committed", "accepted") else "program"
    for name in ITEMS
} | {
    name: "outside"
    for name in ITEMS
    if "flushed" in name or name in ("a folder renamed", "a lock file", "a library installed")
}

# %% test id="where_check" points=3
assert isinstance(where, dict), f"where is {where!r}; expected a dict"
odd = sorted(map(repr, set(where) ^ set(ITEMS)))
assert not odd, (
    f"where has a name too few or too many: {odd[0]}; expected the {len(ITEMS)} of ITEMS"
)
odd = [word for word in where.values() if word not in ("program", "outside")]
assert not odd, f"where holds {odd[0]!r}; expected 'program' or 'outside' for each item"
measured = []
with WorkFolder.fresh() as folder, mail_service("plain") as mail:
    for do, look in ITEMS.values():
        os.chdir(HERE)  # whatever you tried before
        CALLS.clear()
        os.environ.pop("AGENT_RUN", None)
        measured.append(survives(do, look, folder.path))
problem = differs([where[name] for name in ITEMS], measured, list(ITEMS))
assert not problem, f"{problem}. Ask who held it when the process died."

# %% [markdown]
# What a process holds, dies with it: its memory, its environment, its current folder, its buffers, its connections, the
# transactions it has not committed. So does the port it listened on. What it has handed to somebody else stays: to the
# operating system (a flushed line, a name in a folder), to a database, to a mail server. The lock file is the unpleasant
# one: the file stays although its owner is dead. (All this is about the death of a process. When the power goes, the
# operating system goes too.)
#
# The first kind you can save. An environment variable and the current folder are easily forgotten there, because nobody
# ever put them into a variable. The second kind you can only look at again.
#
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"You save the message history. Can the agent resume after a
# crash? What else is needed?"*
#
# <details><summary>One way to say it</summary>
#
# "The history alone is not enough. I also need the progress, so that no step is done again; the budget used, so that a
# restart does not refill it; the action that waits for consent; and the control state: the current plan, the counter
# that stops a loop. What the code derives from these or only shows, I leave out. How do I know? I kill runs after each
# save, resume from exactly that set, compare with an uninterrupted run, and leave out each field once. That is half of
# it. Of files, rows and mails sent the save only makes claims. So I compare them with the outside first, and refuse by
# name."
# </details>
#
# **Often confused:** *state* and *history*. The history is what was said. The state is what is needed to go on. An agent
# that shortens its history, as all long ones must, can no longer get the one from the other.
#
# **They may ask next:**
#
# * A row of the database is outside state. Your agent keeps its checkpoint in that database too. What is the checkpoint?
# * `missing_outside` finds that `deps/zlib` was changed. When may the agent rebuild it by itself, and when not?
