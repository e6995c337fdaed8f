# %% [markdown]
# # 05 · Recovery
#
# **What does a complete recovery do besides reading the save?**
#
# 75 minutes · 19 points · before this: `02_checkpoint`
#
# A LangGraph run that reaches its limit of steps stops with an error, and people took that for lost work
# (langchain-ai/langgraph issue 2081 is one of several such reports). Nothing was lost: the state was saved, and the run
# could go on. What was not saved is the count. When we tried it with a limit of 5, a run of 12 steps stopped after 5, and
# the next call did the other 7, where a limit for the run would have left none.
#
# The save was read, and the budget was wrong all the same. It is not the only thing that a save does not bring back
# by itself: the variables of the process, the files, and the deeds under way are others. A **recovery** makes a new
# process fit to go on, or refuses by name. You will write one, branch by branch, and then kill the recovery too.

# %%
import json
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path

from crashlab import WorkFolder, explore, launch
from crashlab.figures import lives
from crashlab.pairs import explore_pairs
from crashlab.quiz import differs

os.environ.pop("ZIG_TARGET", None)  # in case your shell has it
print("Python", sys.version.split()[0], "on", sys.platform)

# %% [markdown]
# ## The agent at its desk
#
# Run 217 builds re2 for another machine. re2 needs abseil. After each build the agent sends its boss a mail.

# %%
PLAN = [("build", "abseil"), ("mail", "boss"), ("build", "re2"), ("mail", "boss")]
RECIPES = {"abseil": [], "re2": ["abseil"]}  # what can be built, and what it needs
TARGET = "aarch64-linux-musl"

# %% [markdown]
# A desk is where the agent works. It has a path for the checkpoint, a folder for the libraries, and a line to the
# outside. The outside keeps a record of its own in a file. It sends whatever it is told to send, the same mail twice
# if it is told twice. But it can be asked: `accepted(step)` says whether it has sent the mail of that step.


# %%
@dataclass(frozen=True)
class Desk:
    path: Path
    run: str = "run-217"

    @property
    def checkpoint(self):
        return self.path / f"{self.run}.json"

    @property
    def libraries(self):
        return self.path / "work"

    def library(self, name):
        return self.libraries / f"{name}.a"

    def mail(self, step):
        self.note(f"mail {step}")

    def accepted(self, step):
        return f"mail {step}" in self.deeds()

    def note(self, deed):
        log = os.open(self.path / "outside.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(log, f"{deed}\n".encode())
        os.close(log)

    def deeds(self):
        log = self.path / "outside.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


# %% [markdown]
# `write` puts a file there whole or not at all, as in `02_checkpoint`. `build` stands for a compiler. Like a real
# one it looks for what the library needs, and it takes the machine to build for from an environment variable. Where
# that is not set it builds for the machine it runs on, and says nothing.


# %%
def write(path, text):
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def build(desk, name):
    for needed in RECIPES[name]:
        if not desk.library(needed).exists():
            raise RuntimeError(f"{name}.cc: undefined reference to '{needed}::Mutex::Lock()'")
    desk.libraries.mkdir(exist_ok=True)
    write(desk.library(name), os.environ.get("ZIG_TARGET", "native"))
    desk.note(f"build {name}")


# %% [markdown]
# The loop knows what you have seen so far: it charges a step before it performs it, and it records a step as done
# afterwards. Before a mail it also saves that it is about to send it. Such a note is an **intent**. An intent
# with no outcome is a **pending effect**: it was perhaps performed, and the save cannot know. A build needs no intent:
# done twice with the same variables, it leaves the same file.


# %%
def save(desk, state):
    write(desk.checkpoint, json.dumps(state))


def work(desk, state):
    for step, (what, name) in enumerate(PLAN):
        if step in state["done"]:
            continue
        if state["steps_used"] >= state["budget"]:
            return "budget_exceeded"
        state["steps_used"] += 1
        state["pending"] = [step] if what == "mail" else []
        save(desk, state)
        if what == "mail":
            desk.mail(step)
        else:
            build(desk, name)
            state["installed"].append(name)
        state["pending"] = []
        state["done"].append(step)
        save(desk, state)
    return "completed"


# %% [markdown]
# This is all that is saved. Here is a first run that nobody kills.


# %%
def new_run():
    return {
        "format": "build-agent",
        "version": 2,
        "done": [],  # numbers of steps
        "pending": [],  # numbers of steps: intent saved, outcome not
        "steps_used": 0,
        "budget": 6,
        "installed": [],  # libraries that must be in the folder
        "env": {"ZIG_TARGET": TARGET},  # variables that the tools read
    }


def first_run(desk):
    state = new_run()
    os.environ.update(state["env"])
    save(desk, state)
    return work(desk, state)


@contextmanager
def new_desk():
    with WorkFolder.fresh() as folder:
        yield Desk(folder.path)


with new_desk() as desk:
    print(launch(first_run, desk))
    print(desk.deeds())
    for field, value in json.loads(desk.checkpoint.read_text()).items():
        print(f"  {field:11}{value}")

# %% [markdown]
# ## The naive restart
#
# It reads the save and goes on. Where there is no save it starts.
#
# The line about `steps_used` is planted on purpose. Nobody writes it like that. In life the count is a variable of
# the process that nobody saves, or the limit belongs to the call, as LangGraph's `recursion_limit` does. Both come to
# the same: each process counts from 0.


# %%
def naive_restart(desk):
    state = json.loads(desk.checkpoint.read_text()) if desk.checkpoint.exists() else new_run()
    state["steps_used"] = 0
    return work(desk, state)


# %% [markdown]
# Eight situations in which a new process may find its desk. Each is a save, the libraries that are really in the
# folder, and the mails that were really sent. Version 1 of the save had `"target"` in place of `"env"`,
# and no intents.


# %%
BOTH = ["abseil", "re2"]


def saved(done, used, **fields):
    return new_run() | {"done": done, "steps_used": used, "installed": ["abseil"]} | fields


def saved_by_version_1(done, used):
    state = saved(done, used, version=1, target=TARGET)
    return {field: value for field, value in state.items() if field not in ("pending", "env")}


last_mail_left = {"done": [0, 1, 2], "installed": BOTH}
SITUATIONS = {
    "only a mail is left": (saved(used=3, **last_mail_left), BOTH, [1]),
    "the save is gone": (None, ["abseil"], [1]),
    "the folder is gone": (saved([0, 1], 2), [], [1]),
    "pending, was sent": (saved(used=4, pending=[3], **last_mail_left), BOTH, [1, 3]),
    "pending, was not sent": (saved(used=4, pending=[3], **last_mail_left), BOTH, [1]),
    "budget spent": (saved(used=6, **last_mail_left), BOTH, [1]),
    "a build is left": (saved([0, 1], 2), ["abseil"], [1]),
    "save of version 1": (saved_by_version_1([0], 2), ["abseil"], [1]),
}


@contextmanager
def desk_as(state, libraries, mails):
    with new_desk() as desk:
        if state is not None:
            save(desk, state)
        for name in libraries:
            desk.libraries.mkdir(exist_ok=True)
            write(desk.library(name), TARGET)
        for step in mails:
            desk.mail(step)
        yield desk


# %% [markdown]
# `outcome` says what became of the desk: the first word that applies.
#
# | word | when |
# |---|---|
# | `"refused"` | the process ended with the exception `CannotRecover` |
# | `"error"` | it ended with any other exception |
# | `"twice"` | a mail was sent twice |
# | `"wrong machine"` | a library is there for another machine than the target |
# | `"lost"` | the run says completed, and a mail is missing |
# | `"over budget"` | more was charged and performed than the budget allows |
# | `"untrue"` | the word returned is none of those of `work`, or says that the budget is used up when it is not |
# | `"right"` | nothing of that |
#
# To build a library again that the save lists as installed is no step of the plan. It does not count for the budget.


# %%
class CannotRecover(Exception):
    """Going on would be wrong. The message names what is missing or what is not understood."""


MAILS = {"mail 1", "mail 3"}


def harm(desk):
    if any(desk.deeds().count(mail) > 1 for mail in MAILS):
        return "twice"
    machines = {path.read_text(encoding="utf-8") for path in desk.libraries.glob("*.a")}
    return "" if machines <= {TARGET} else "wrong machine"


def outcome(desk, life, state, before):
    if life.end != "finished":
        return "refused" if life.reason.startswith("raised CannotRecover") else "error"
    if harm(desk):
        return harm(desk)
    if life.value == "completed" and not MAILS.issubset(desk.deeds()):
        return "lost"
    again = {f"build {name}" for name in state["installed"]}
    used = state["steps_used"] + len([deed for deed in desk.deeds()[before:] if deed not in again])
    if used > state["budget"]:
        return "over budget"
    if life.value == "budget_exceeded" and used < state["budget"]:
        return "untrue"
    return "right" if life.value in ("completed", "budget_exceeded") else "untrue"


def restart_with(function, situation):
    state, libraries, mails = SITUATIONS[situation]
    with desk_as(state, libraries, mails) as desk:
        life = launch(function, desk, echo=False)
        return outcome(desk, life, state or new_run(), len(mails)), life


def said(life):
    """Say how a process ended, without the line that it happened in."""
    if life.end == "finished":
        return f"returned {life.value!r}"
    return life.reason.partition(", at line")[0] or str(life)


# %% [markdown]
# ## Predict
#
# What does the naive restart make of each situation? Assign to `predicted_naive` a list of eight words, in the order
# of `SITUATIONS`. Each is one of `"right"`, `"error"`, `"twice"`, `"lost"`, `"over budget"`, `"wrong machine"`. Not
# every word occurs.

# %% answer id="predict_naive"
### BEGIN SOLUTION
predicted_naive = [
    "right",
    "twice",
    "error",
    "twice",
    "right",
    "over budget",
    "wrong machine",
    "twice",
]
### END SOLUTION

# %% wrong loses="predict_naive_check" why="the save knows everything, so all goes well"
predicted_naive = ["right"] * 8

# %% wrong loses="predict_naive_check" why="what is pending was not done, so doing it is right"
predicted_naive = [
    "right",
    "twice",
    "error",
    "right",
    "right",
    "over budget",
    "wrong machine",
    "twice",
]

# %% wrong loses="predict_naive_check" why="a new process still has the variable"
predicted_naive = ["right", "twice", "error", "twice", "right", "over budget", "right", "twice"]

# %% wrong loses="predict_naive_check" why="an old save cannot be read"
predicted_naive = [
    "right",
    "twice",
    "error",
    "twice",
    "right",
    "over budget",
    "wrong machine",
    "error",
]

# %% wrong loses="predict_naive_check" why="the folder is made anew when it is missing"
predicted_naive = [
    "right",
    "twice",
    "right",
    "twice",
    "right",
    "over budget",
    "wrong machine",
    "twice",
]

# %% wrong loses="predict_naive_check" why="one word for all"
predicted_naive = "error"

# %% wrong loses="predict_naive_check" why="a word that is not offered"
predicted_naive = ["right", "twice", "broken", "twice", "right", "over budget", "right", "twice"]

# %% right why="a tuple"
predicted_naive = (
    *("right", "twice", "error", "twice"),
    *("right", "over budget", "wrong machine", "twice"),
)

# %% test id="predict_naive_check" points=2
words = ("right", "error", "twice", "lost", "over budget", "wrong machine")
assert isinstance(predicted_naive, list | tuple) and len(predicted_naive) == len(SITUATIONS), (
    f"predicted_naive must be a list of {len(SITUATIONS)} words, one for each situation; you gave "
    f"{predicted_naive!r}"
)
for situation, word in zip(SITUATIONS, predicted_naive, strict=True):
    assert word in words, (
        f"{situation}: {word!r} is not one of the words to choose from: {', '.join(words)}"
    )
for situation, word in zip(SITUATIONS, predicted_naive, strict=True):
    problem = differs(word, restart_with(naive_restart, situation)[0])
    assert not problem, (
        f"{situation}: {problem}. Follow naive_restart and work through {situation!r}: what do they "
        "read, and what do they take for granted?"
    )

# %% [markdown]
# `"pending, was not sent"` comes out right, but by luck. The save is the same as in `"pending, was sent"`, and the
# naive restart does the same in both: it does not look at `pending`, so it sends. What differs is only the world. The
# save alone cannot tell the two apart.

# %% [markdown]
# ## Break it
#
# Now one at a time, with real processes. First the variable. `os.environ` belongs to a process. The first one sets it,
# the second one starts without it.


# %%
def first_process():
    os.environ["ZIG_TARGET"] = TARGET
    print("first process: ", os.environ.get("ZIG_TARGET"))


def second_process():
    print("second process:", os.environ.get("ZIG_TARGET"))


launch(first_process).result()
launch(second_process).result()

# %% [markdown]
# So a kill between the two builds gives libraries for two machines, and no error says so:

# %%
with new_desk() as desk:
    print(launch(first_run, desk, kill_before="for needed in RECIPES", visit=2))
    print(launch(naive_restart, desk))
    for library in sorted(desk.libraries.glob("*.a")):
        print(f"  {library.name:9} built for {library.read_text()}")

# %% [markdown]
# Then the folder. The save says that abseil is installed. The disk has been cleaned meanwhile.

# %%
with new_desk() as desk:
    launch(first_run, desk, kill_before="for needed in RECIPES", visit=2)
    shutil.rmtree(desk.libraries)
    print("the save says:", json.loads(desk.checkpoint.read_text())["installed"])
    print("naive_restart", said(launch(naive_restart, desk, echo=False)))

# %% [markdown]
# The error is late and speaks of the wrong thing. Whoever reads it looks for a bug in re2.
#
# Then the budget. Each life gets six steps, so a run that is killed often has no limit:

# %%
with desk_as(*SITUATIONS["budget spent"]) as desk:
    print("used", json.loads(desk.checkpoint.read_text())["steps_used"], "of a budget of 6")
    print(launch(naive_restart, desk))

# %% [markdown]
# ## See it
#
# Last the pending effect. The process dies between sending the mail and saving that it was sent. The intent is in the
# save, and the naive restart does not look at it. Each row is one life; what was done before is drawn red.


# %%
def life_and_deeds(desk, function, **kill):
    before = len(desk.deeds())
    life = launch(function, desk, echo=False, **kill)
    return life, desk.deeds()[before:]


with new_desk() as desk:
    rows = [
        life_and_deeds(desk, first_run, kill_before='state["done"].append(step)', visit=2),
        life_and_deeds(desk, naive_restart),
    ]
lives(rows, "The naive restart sends mail 1 again")

# %% [markdown]
# ## Why
#
# A checkpoint holds the state of the program. A run also lives in places that the checkpoint only speaks of:
# the process (its variables), the disk (folder, libraries), the outside (what was sent). A restart that
# reads the save takes it for granted that they still agree.
#
# A complete recovery asks:
#
# ```mermaid
# ---
# config:
#   flowchart:
#     rankSpacing: 18
#     nodeSpacing: 30
#     padding: 8
#     wrappingWidth: 300
# ---
# flowchart TD
#     accTitle: The recovery flow
#     accDescr: Read the save, set the variables, check the disk, ask about pending effects, see whether anything is left to do, look at the budget, go on.
#     L([is there a save that I understand?]) -- no --> X[refuse, name the run or the file]
#     L -- yes, or after migrating it --> E[set the variables of the process]
#     E --> V([is what it needs on disk?])
#     V -- no, and it cannot be rebuilt --> Y[refuse, name what is missing]
#     V -- yes, or after rebuilding it --> P([is anything pending?])
#     P -- yes --> Q[ask the outside, save the answer] --> W
#     P -- no --> W([is anything left to do?])
#     W -- no --> D[stop: completed]
#     W -- yes --> G([is there budget left, by the save?])
#     G -- no --> S[stop: budget_exceeded]
#     G -- yes --> C[go on with the next step]
# ```
#
# You write it in three parts: reading, restoring, going on.
#
# ## Fix it: `read_save`
#
# `02_checkpoint` took a missing file for a first start. A recovery is asked to go on with a run that exists,
# so here a missing save is an error.
#
# A save of version 1 is **migrated**: brought into the form of version 2. It lacks two fields, and a field that is
# missing is not a field that is empty:
#
# * `"env"` is `{"ZIG_TARGET": …}` with the value of the old `"target"`.
# * `"pending"`. Version 1 noted no intents. The step under way, the first one of `PLAN` that is not in `"done"`, may have
#   been performed or not. If it is a mail, it is pending. If it is a build, or if no step is left, nothing is.
#
# A save that lacks a field its version should have is not understood either. `lacking(state)`, below, names such
# fields. What is in the fields is trusted.
#
# Write `read_save(desk)`. It only reads: the migrated form is saved later, by the recovery. About fifteen lines.
#
# | at `desk.checkpoint` | `read_save` |
# |---|---|
# | nothing | raises `CannotRecover`, naming the run (`desk.run`), not only its file |
# | a save of this agent, version 2 | returns its state |
# | a save of this agent, version 1 | returns its state in the form of version 2 |
# | anything else: torn, not an object, another `"format"`, another `"version"`, a field lacking | raises `CannotRecover`, naming the file (`desk.checkpoint.name`) |


# %% [markdown]
# The checks call your functions through `attempting`, in a process of its own. It notes what was returned or raised,
# and what is in the state afterwards.


# %%
def lacking(state):
    """Name the fields that a dict of version 1 or 2 should have and lacks; of other versions it knows none."""
    version_2 = set(new_run())
    version_1 = version_2 - {"pending", "env"} | {"target"}
    version = state.get("version")
    needed = version_1 if version == 1 else version_2 if version == 2 else set()
    return sorted(needed - set(state))


def attempting(function):
    @wraps(function)
    def attempt(*args):
        states = [arg for arg in args if isinstance(arg, dict)]
        try:
            return "returned", function(*args), states
        except NotImplementedError:
            raise
        except Exception as error:
            return f"raised {type(error).__name__}:", str(error), states

    return attempt


def tell(found):
    return f"{found[0]} {found[1]!r}" if found[0] == "returned" else f"{found[0]} {found[1]}"


def refused(found, name):
    return found[0] == "raised CannotRecover:" and name in found[1]


def files(desk):
    return {path.name: path.read_bytes() for path in desk.path.rglob("*") if path.is_file()}


def try_read(raw):
    with new_desk() as desk:
        if raw is not None:
            desk.checkpoint.write_bytes(raw)
        before = files(desk)
        found = launch(attempting(read_save), desk, echo=False).result()
        after = files(desk)
        changed = [n for n in sorted({*before, *after}) if before.get(n) != after.get(n)]
        assert not changed, (
            f"read_save changed {', '.join(changed)} on the desk; expected it only to read, and to "
            "leave the saving to recover"
        )
        return found


# %% answer id="read_save"
def read_save(desk):
    """Return the state saved for the run, in the form of version 2, or raise CannotRecover."""
    ### BEGIN SOLUTION
    if not desk.checkpoint.exists():
        raise CannotRecover(f"there is no save of {desk.run}")
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CannotRecover(f"{desk.checkpoint.name} is torn: {error}") from error
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(f"{desk.checkpoint.name} is no save of the build agent")
    if lacking(state):
        raise CannotRecover(f"{desk.checkpoint.name} lacks {', '.join(lacking(state))}")
    if state.get("version") == 1:
        left = [step for step in range(len(PLAN)) if step not in state["done"]]
        state["pending"] = [step for step in left[:1] if PLAN[step][0] == "mail"]
        state["env"] = {"ZIG_TARGET": state.pop("target")}
        state["version"] = 2
    if state.get("version") != 2:
        raise CannotRecover(f"{desk.checkpoint.name} has a version that is not known here")
    return state
    ### END SOLUTION


# %% wrong loses="read_none" why="no checkpoint is a new run"
def read_save(desk):
    if not desk.checkpoint.exists():
        return new_run()
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover(desk.checkpoint.name) from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(desk.checkpoint.name)
    if lacking(state):
        raise CannotRecover(desk.checkpoint.name)
    if state.get("version") == 1:
        left = [step for step in range(len(PLAN)) if step not in state["done"]]
        state["pending"] = [step for step in left[:1] if PLAN[step][0] == "mail"]
        state |= {"env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    if state.get("version") != 2:
        raise CannotRecover(desk.checkpoint.name)
    return state


# %% wrong loses="read_none" why="refuses, but does not say which run"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover("nothing to recover")
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover(desk.checkpoint.name) from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(desk.checkpoint.name)
    if lacking(state):
        raise CannotRecover(desk.checkpoint.name)
    if state.get("version") == 1:
        left = [step for step in range(len(PLAN)) if step not in state["done"]]
        state["pending"] = [step for step in left[:1] if PLAN[step][0] == "mail"]
        state |= {"env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    if state.get("version") != 2:
        raise CannotRecover(desk.checkpoint.name)
    return state


# %% wrong loses="read_old" why="a field that version 1 did not have is empty"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover(desk.run)
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover(desk.checkpoint.name) from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(desk.checkpoint.name)
    if lacking(state):
        raise CannotRecover(desk.checkpoint.name)
    if state.get("version") == 1:
        state |= {"pending": [], "env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    if state.get("version") != 2:
        raise CannotRecover(desk.checkpoint.name)
    return state


# %% wrong loses="read_old" why="every step that is not done is pending"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover(desk.run)
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover(desk.checkpoint.name) from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(desk.checkpoint.name)
    if lacking(state):
        raise CannotRecover(desk.checkpoint.name)
    if state.get("version") == 1:
        state["pending"] = [step for step in range(len(PLAN)) if step not in state["done"]]
        state |= {"env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    if state.get("version") != 2:
        raise CannotRecover(desk.checkpoint.name)
    return state


# %% wrong loses="read_old" why="an old save is refused like an unknown one"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover(desk.run)
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover(desk.checkpoint.name) from None
    match state:
        case {"format": "build-agent", "version": 2} if not lacking(state):
            return state
    raise CannotRecover(desk.checkpoint.name)


# %% wrong loses="read_unknown" why="a newer save has all that an older one has"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover(desk.run)
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover(desk.checkpoint.name) from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(desk.checkpoint.name)
    if lacking(state):
        raise CannotRecover(desk.checkpoint.name)
    if state.get("version") == 1:
        left = [step for step in range(len(PLAN)) if step not in state["done"]]
        state["pending"] = [step for step in left[:1] if PLAN[step][0] == "mail"]
        state |= {"env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    return state


# %% wrong loses="read_unknown" why="a torn save is a run that has not begun"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover(desk.run)
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        return new_run()
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(desk.checkpoint.name)
    if lacking(state):
        raise CannotRecover(desk.checkpoint.name)
    if state.get("version") == 1:
        left = [step for step in range(len(PLAN)) if step not in state["done"]]
        state["pending"] = [step for step in left[:1] if PLAN[step][0] == "mail"]
        state |= {"env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    if state.get("version") != 2:
        raise CannotRecover(desk.checkpoint.name)
    return state


# %% wrong loses="read_unknown" why="refuses, but does not name the file"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover(desk.run)
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover("the save is torn") from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover("a foreign save")
    if lacking(state):
        raise CannotRecover("a save with a field lacking")
    if state.get("version") == 1:
        left = [step for step in range(len(PLAN)) if step not in state["done"]]
        state["pending"] = [step for step in left[:1] if PLAN[step][0] == "mail"]
        state |= {"env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    if state.get("version") != 2:
        raise CannotRecover("a version that is not known")
    return state


# %% wrong loses="read_none" why="names the file, which has the run in its name"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover(f"{desk.checkpoint.name} does not exist")
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover(desk.checkpoint.name) from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(desk.checkpoint.name)
    if lacking(state):
        raise CannotRecover(desk.checkpoint.name)
    if state.get("version") == 1:
        left = [step for step in range(len(PLAN)) if step not in state["done"]]
        state["pending"] = [step for step in left[:1] if PLAN[step][0] == "mail"]
        state |= {"env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    if state.get("version") != 2:
        raise CannotRecover(desk.checkpoint.name)
    return state


# %% wrong loses="read_old" why="migrates on disk at once"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover(desk.run)
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover(desk.checkpoint.name) from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(desk.checkpoint.name)
    if lacking(state):
        raise CannotRecover(desk.checkpoint.name)
    if state.get("version") == 1:
        left = [step for step in range(len(PLAN)) if step not in state["done"]]
        state["pending"] = [step for step in left[:1] if PLAN[step][0] == "mail"]
        state |= {"env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    if state.get("version") != 2:
        raise CannotRecover(desk.checkpoint.name)
    save(desk, state)
    return state


# %% wrong loses="read_unknown" why="a save of a known version has all its fields"
def read_save(desk):
    if not desk.checkpoint.exists():
        raise CannotRecover(desk.run)
    try:
        state = json.loads(desk.checkpoint.read_text(encoding="utf-8"))
    except ValueError:
        raise CannotRecover(desk.checkpoint.name) from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotRecover(desk.checkpoint.name)
    if state.get("version") == 1:
        left = [step for step in range(len(PLAN)) if step not in state["done"]]
        state["pending"] = [step for step in left[:1] if PLAN[step][0] == "mail"]
        state |= {"env": {"ZIG_TARGET": state.pop("target")}, "version": 2}
    if state.get("version") != 2:
        raise CannotRecover(desk.checkpoint.name)
    return state


# %% wrong loses="read_none read_old read_unknown" why="reads the file, as the naive restart does"
def read_save(desk):
    return json.loads(desk.checkpoint.read_text(encoding="utf-8"))


# %% right why="match, a new dict, FileNotFoundError"
def read_save(desk):
    try:
        state = json.loads(desk.checkpoint.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise CannotRecover(f"{desk.run} has no save") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        state = None
    match state:
        case {"format": "build-agent", "version": 1 | 2} if lacking(state):
            raise CannotRecover(f"{desk.checkpoint.name} is not whole")
        case {"format": "build-agent", "version": 2}:
            return state
        case {"format": "build-agent", "version": 1, "done": done, "target": target, **rest}:
            under_way = next((n for n in range(len(PLAN)) if n not in done), None)
            mail = under_way is not None and PLAN[under_way][0] == "mail"
            new = {"version": 2, "pending": [under_way] * mail, "env": {"ZIG_TARGET": target}}
            return {"format": "build-agent", "done": done, **rest, **new}
    raise CannotRecover(f"{desk.checkpoint.name} is nothing that this agent has written")


# %% [markdown]
# No save at all:

# %% test id="read_none" points=1
found = try_read(None)
assert found[0] == "raised CannotRecover:", (
    f"with no save, read_save {tell(found)}; expected it to raise CannotRecover with 'run-217' in its "
    "message: a recovery that finds nothing must not begin again"
)
assert "run-217" in found[1].replace("run-217.json", ""), (
    f"with no save, read_save {tell(found)}; expected the message to name the run, 'run-217', and not "
    "only its file: people look for a run, and the file is not there"
)

# %% [markdown]
# An old save, with each number of steps done, and a new one:

# %% test id="read_old" points=2
current = saved([0], 2, pending=[1])
found = try_read(json.dumps(current).encode())
assert found[:2] == ("returned", current), (
    f"from a save of version 2, read_save {tell(found)}; expected it to return {current}"
)
hints = {
    "pending": "what could have been under way, and was it a mail?",
    "env": "the value is that of the old 'target'",
    "version": "the state is in the form of version 2 then",
}
for done, pending in [([], []), ([0], [1]), ([0, 1], []), ([0, 1, 2], [3]), ([0, 1, 2, 3], [])]:
    old = saved_by_version_1(done, 4) | {"target": "riscv64-linux-musl"}
    found = try_read(json.dumps(old).encode())
    assert isinstance(found[1], dict), (
        f"from a save of version 1 with the steps {done} done, read_save {tell(found)}; expected it "
        "to return a state in the form of version 2"
    )
    expected = saved(done, 4, pending=pending, env={"ZIG_TARGET": "riscv64-linux-musl"})
    for field, value in expected.items():
        assert found[1].get(field) == value, (
            f"from a save of version 1 with the steps {done} done, read_save gave {field!r} as "
            f"{found[1].get(field)!r}; expected {value!r}: "
            f"{hints.get(field, 'what version 1 has stays as it is')}"
        )

# %% [markdown]
# What nobody can read, and what this agent cannot:

# %% test id="read_unknown" points=2
whole = json.dumps(saved([0], 2)).encode()
strange = {
    "an empty file": b"",
    "a save cut in half": whole[: len(whole) // 2],
    "bytes that are no text": b"\xff\xfe" + whole,
    "a list": b"[1, 2]",
    "an empty object": b"{}",
    "the save of a mail agent": whole.replace(b"build-agent", b"mail-agent"),
    "a save with no version": whole.replace(b'"version": 2, ', b""),
    "version 0": whole.replace(b'"version": 2', b'"version": 0'),
    "version 3": whole.replace(b'"version": 2', b'"version": 3'),
    "version 2 without its budget": whole.replace(b'"budget": 6, ', b""),
    "version 1 without its target": json.dumps(saved([0], 2, version=1)).encode(),
}
for what, raw in strange.items():
    found = try_read(raw)
    assert refused(found, "run-217.json"), (
        f"from {what}, read_save {tell(found)}; expected it to raise CannotRecover with "
        "'run-217.json' in its message, so that a person can go and look"
    )

# %% [markdown]
# ## Fix it: `restore`
#
# Write `restore(desk, state)`. It makes process and disk fit what the save says:
#
# * Each variable in `state["env"]` is set in this process, whatever value it had here. The other variables stay.
# * Each library in `state["installed"]` is in the folder. One that is missing and has a recipe (`RECIPES`) is built
#   again with `build`. They are listed in the order in which they were built.
# * If one is missing and has no recipe, somebody put it there by hand. `restore` raises `CannotRecover` and names it,
#   before it builds anything.
#
# Nothing else is built. A rebuild is no step of the plan: it is not charged, and `state` stays as it is. `restore`
# returns nothing. About eight lines.
#
# It looks only whether a file is there. A file with the wrong content, such as the library that the naive restart
# built for the wrong machine, it does not notice. For that the save would have to say what belongs in the file, such
# as a hash.
#
# <details><summary>Hint</summary>
#
# `build` is a tool as well. What does it read from the process?
# </details>


# %% answer id="restore"
def restore(desk, state):
    """Set the variables and rebuild what is missing, or raise CannotRecover."""
    ### BEGIN SOLUTION
    missing = [name for name in state["installed"] if not desk.library(name).exists()]
    for name in missing:
        if name not in RECIPES:
            raise CannotRecover(f"{name} is not in {desk.libraries} and has no recipe")
    os.environ.update(state["env"])
    for name in missing:
        build(desk, name)
    ### END SOLUTION


# %% wrong loses="restore_env restore_rebuild" why="the first process has set the variables"
def restore(desk, state):
    missing = [name for name in state["installed"] if not desk.library(name).exists()]
    for name in missing:
        if name not in RECIPES:
            raise CannotRecover(name)
    for name in missing:
        build(desk, name)


# %% wrong loses="restore_rebuild" why="sets the variables last, just before the next step"
def restore(desk, state):
    missing = [name for name in state["installed"] if not desk.library(name).exists()]
    for name in missing:
        if name not in RECIPES:
            raise CannotRecover(name)
    for name in missing:
        build(desk, name)
    os.environ.update(state["env"])


# %% wrong loses="restore_env" why="a variable that the new process has is newer, so it stays"
def restore(desk, state):
    for variable, value in state["env"].items():
        os.environ.setdefault(variable, value)
    missing = [name for name in state["installed"] if not desk.library(name).exists()]
    for name in missing:
        if name not in RECIPES:
            raise CannotRecover(name)
    for name in missing:
        build(desk, name)


# %% wrong loses="restore_env" why="the environment is what the save says and nothing else"
def restore(desk, state):
    os.environ.clear()
    os.environ.update(state["env"])
    missing = [name for name in state["installed"] if not desk.library(name).exists()]
    for name in missing:
        if name not in RECIPES:
            raise CannotRecover(name)
    for name in missing:
        build(desk, name)


# %% wrong loses="restore_rebuild restore_refuse" why="what the save says is installed is installed"
def restore(desk, state):
    os.environ.update(state["env"])


# %% wrong loses="restore_rebuild restore_refuse" why="when the folder is there, its content is there"
def restore(desk, state):
    os.environ.update(state["env"])
    if not desk.libraries.exists():
        for name in state["installed"]:
            if name not in RECIPES:
                raise CannotRecover(name)
        for name in state["installed"]:
            build(desk, name)


# %% wrong loses="restore_rebuild restore_refuse" why="corrects the save to what is on disk and goes on"
def restore(desk, state):
    os.environ.update(state["env"])
    state["installed"] = [name for name in state["installed"] if desk.library(name).exists()]
    save(desk, state)


# %% wrong loses="restore_rebuild restore_refuse" why="anything that is missing is a reason to refuse"
def restore(desk, state):
    os.environ.update(state["env"])
    for name in state["installed"]:
        if not desk.library(name).exists():
            raise CannotRecover(name)


# %% wrong loses="restore_refuse" why="builds what it can, then finds out that it cannot go on"
def restore(desk, state):
    os.environ.update(state["env"])
    for name in state["installed"]:
        if not desk.library(name).exists():
            if name not in RECIPES:
                raise CannotRecover(name)
            build(desk, name)


# %% wrong loses="restore_refuse" why="leaves the refusal to the build"
def restore(desk, state):
    os.environ.update(state["env"])
    for name in state["installed"]:
        if not desk.library(name).exists():
            build(desk, name)


# %% wrong loses="restore_rebuild" why="builds all that has a recipe"
def restore(desk, state):
    for name in state["installed"]:
        if not desk.library(name).exists() and name not in RECIPES:
            raise CannotRecover(name)
    os.environ.update(state["env"])
    for name in RECIPES:
        if not desk.library(name).exists():
            build(desk, name)


# %% wrong loses="restore_rebuild" why="charges a rebuild like a step"
def restore(desk, state):
    missing = [name for name in state["installed"] if not desk.library(name).exists()]
    for name in missing:
        if name not in RECIPES:
            raise CannotRecover(name)
    os.environ.update(state["env"])
    for name in missing:
        state["steps_used"] += 1
        build(desk, name)


# %% wrong loses="restore_rebuild" why="enters what it builds as newly installed"
def restore(desk, state):
    missing = [name for name in state["installed"] if not desk.library(name).exists()]
    for name in missing:
        if name not in RECIPES:
            raise CannotRecover(name)
    os.environ.update(state["env"])
    for name in missing:
        build(desk, name)
        state["installed"].append(name)


# %% right why="sets of names, one variable at a time"
def restore(desk, state):
    there = {path.stem for path in desk.libraries.glob("*.a")}
    lost = set(state["installed"]) - there
    by_hand = sorted(lost - RECIPES.keys())
    if by_hand:
        raise CannotRecover("put these back by hand: " + ", ".join(by_hand))
    for variable in state["env"]:
        os.environ[variable] = state["env"][variable]
    [build(desk, name) for name in state["installed"] if name in lost]


# %% [markdown]
# The variables. The new process starts with a value of its own for one of them, and it has to keep its `PATH`.


# %% test id="restore_env" points=1
def variables_after(desk, state):
    os.environ["ZIG_TARGET"] = "native"
    path = os.environ.get("PATH")
    found = attempting(restore)(desk, state)
    variables = [os.environ.get(name) for name in state["env"]]
    return found, variables, os.environ.get("PATH") == path


env = {"ZIG_TARGET": "riscv64-linux-musl", "ZIG_ARCH": "riscv64"}
with desk_as(saved([0, 1], 2, env=env), ["abseil"], [1]) as desk:
    life = launch(variables_after, desk, saved([0, 1], 2, env=env), echo=False)
said_back, found, path_kept = life.result()
assert said_back[:2] == ("returned", None), (
    f"with the only library there, restore {tell(said_back)}; expected it to return None"
)
assert found == list(env.values()), (
    f"after restore, {', '.join(env)} are {found} in the new process; expected {list(env.values())}, "
    "as the save has them"
)
assert path_kept, (
    "after restore, PATH is no longer what it was; expected the other variables to stay"
)

# %% [markdown]
# What can be rebuilt. Both libraries were installed; once the folder is gone, once the first one, once nothing. The
# last time only abseil was installed, and the folder is gone.

# %% test id="restore_rebuild" points=2
cases = [
    (BOTH, [], ["abseil", "re2"]),
    (BOTH, ["re2"], ["abseil"]),
    (BOTH, BOTH, []),
    (["abseil"], [], ["abseil"]),
]
for installed, there, rebuilt in cases:
    state = saved([0, 1, 2] if "re2" in installed else [0, 1], 3, installed=installed)
    with desk_as(state, there, []) as desk:
        found = launch(attempting(restore), desk, state, echo=False).result()
        deeds, on_record = desk.deeds(), json.loads(desk.checkpoint.read_text())
        machines = {path.stem: path.read_text() for path in desk.libraries.glob("*.a")}
    case = f"with {installed} installed by the save and {there or 'nothing'} in the folder"
    assert found[:2] == ("returned", None), (
        f"{case}, restore {tell(found)}; expected it to return None, since each has a recipe"
    )
    assert deeds == [f"build {name}" for name in rebuilt], (
        f"{case}, restore did {deeds}; expected it to build {rebuilt} and nothing else"
    )
    assert machines == dict.fromkeys(installed, TARGET), (
        f"{case}, there is now {machines}; expected {installed} for {TARGET}: what does build read, "
        "and when was it set?"
    )
    for where, after in (("the state", found[2][0]), ("the save", on_record)):
        for field, value in state.items():
            assert after.get(field) == value, (
                f"{case}, {where} has {field!r} {after.get(field)!r} after restore; expected "
                f"{value!r} as before: a rebuild is no step and changes nothing on record"
            )

# %% [markdown]
# What cannot. `vendor-sdk` came on a disk from its maker.

# %% test id="restore_refuse" points=2
state = saved([0, 1], 2, installed=["abseil", "vendor-sdk"])
for there in (["abseil"], []):
    with desk_as(state, there, []) as desk:
        found = launch(attempting(restore), desk, state, echo=False).result()
        deeds = desk.deeds()
    assert refused(found, "vendor-sdk"), (
        f"with {there or 'nothing'} in the folder, restore {tell(found)}; expected it to raise "
        "CannotRecover with 'vendor-sdk' in its message, since no recipe makes it"
    )
    assert not deeds, (
        f"before restore refused, it did {deeds}; expected it to look at everything before it builds"
    )
with desk_as(state, ["abseil", "vendor-sdk"], []) as desk:
    found = launch(attempting(restore), desk, state, echo=False).result()
assert found[:2] == ("returned", None), (
    f"with all libraries there, restore {tell(found)}; expected it to return None"
)

# %% [markdown]
# ## Fix it: `recover`
#
# Now put it together. Write `recover(desk, read_save, restore)`. It gets the two functions as arguments, so that its
# checks do not depend on yours. In this order:
#
# 1. Read the save, restore process and disk. If either refuses, let the exception pass and change nothing.
# 2. For each step in `state["pending"]`, ask the outside (`desk.accepted(step)`). A mail that was sent is done. One that
#    was not sent is neither done nor pending; it is an open step again.
# 3. Save what you learned, before anything else is done.
# 4. Go on with `work(desk, state)` and return what it returns. `work` looks at the budget itself, so give it the
#    count of the save. What was charged stays charged, also for an attempt that came to nothing.
#
# `recover` sends no mail itself. That is for `work`, which notes the intent and charges the step. About six lines.
#
# A recovery can be killed like anything else. Then the next one starts from what it left. **A recovery must be
# idempotent**: killed anywhere and run again, it sends no mail twice, loses none, and leaves a save that is true.
#
# One thing a kill may cost: a step of the budget. What was charged stays charged, and a kill between charging a step
# and performing it wastes that charge. Where the budget is nearly used, the run then stops short. So the check that
# kills gives the run a budget of 9, with room for that. You will see the other case at the end.
#
# <details><summary>Hint</summary>
#
# The save must at no time claim what you do not know yet. How many saves does that leave you, and where?
# </details>


# %% [markdown]
# The checks use two plain functions, which are enough where the save is of version 2 and the libraries are there.
# `after_recovery` runs your `recover` once, on a `WatchedDesk`, which notes a mail that does not come from `work`. It
# returns what `recover` said, which mails were sent, and what is on record: the steps done, those pending, the steps
# used. `in_the_end` looks at a desk when all processes are dead. It says `"once"` if each mail was
# sent once, every library fits and the save says so, else what is wrong.


# %%
def read_plainly(desk):
    return json.loads(desk.checkpoint.read_text(encoding="utf-8"))


class WatchedDesk(Desk):
    def mail(self, step):
        frame, callers = sys._getframe(1), []
        while frame:
            callers.append(frame.f_code.co_name)
            frame = frame.f_back
        if "work" not in callers:
            self.note(f"not from work: mail {step}")
        super().mail(step)


def restore_plainly(desk, state):
    os.environ.update(state["env"])


def recover_plainly(desk):
    return recover(desk, read_plainly, restore_plainly)


def record(desk):
    if not desk.checkpoint.exists():
        return [], "unknown, since no save is left", None
    state = read_plainly(desk)
    return sorted(state["done"], key=str), state.get("pending"), state["steps_used"]


def after_recovery(state, libraries, mails):
    with desk_as(state, libraries, mails) as desk:
        answer = launch(recover_plainly, WatchedDesk(desk.path), echo=False).result()
        assert harm(desk) != "wrong machine", (
            f"after recover there is a library for another machine than {TARGET}: was restore called "
            "before work?"
        )
        by_itself = [deed for deed in desk.deeds() if deed.startswith("not from work")]
        assert not by_itself, (
            f"recover sent a mail itself ({by_itself[0]}); expected it to leave that to work, which "
            "notes the intent and charges the step first"
        )
        return answer, [deed for deed in desk.deeds() if deed.startswith("mail")], record(desk)


# %%
def in_the_end(desk):
    if harm(desk):
        return harm(desk)
    if not MAILS.issubset(desk.deeds()):
        return "lost"
    return "once" if record(desk)[:2] == ([0, 1, 2, 3], []) else "open"


def pending_desk(sent):
    state = saved([0, 1, 2], 4, pending=[3], installed=BOTH, budget=9)
    return lambda: desk_as(state, BOTH, sent)


# %% answer id="recover"
def recover(desk, read_save, restore):
    """Go on with the run from its save, and return what `work` returns."""
    ### BEGIN SOLUTION
    state = read_save(desk)
    restore(desk, state)
    state["done"] += [step for step in state["pending"] if desk.accepted(step)]
    state["pending"] = []
    save(desk, state)
    return work(desk, state)
    ### END SOLUTION


# %% wrong loses="recover_sent recover_budget recover_again" why="what is pending is done again"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    state["pending"] = []
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_not_sent recover_budget recover_again" why="what is pending was done"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    state["done"] += state["pending"]
    state["pending"] = []
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_budget" why="a new process gets a new budget"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    state["steps_used"] = 0
    state["done"] += [step for step in state["pending"] if desk.accepted(step)]
    state["pending"] = []
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_budget" why="gives back what was charged for an attempt that came to nothing"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    for step in state["pending"]:
        if desk.accepted(step):
            state["done"].append(step)
        else:
            state["steps_used"] -= 1
    state["pending"] = []
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_budget" why="looks at the budget first and leaves the pending effect open"
def recover(desk, read_save, restore):
    state = read_save(desk)
    if state["steps_used"] >= state["budget"]:
        return "budget_exceeded"
    restore(desk, state)
    state["done"] += [step for step in state["pending"] if desk.accepted(step)]
    state["pending"] = []
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_budget recover_again" why="keeps the answer in memory and leaves saving to work"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    state["done"] += [step for step in state["pending"] if desk.accepted(step)]
    state["pending"] = []
    return work(desk, state)


# %% wrong loses="recover_not_sent" why="sends the pending mail on the spot, charged"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    for step in list(state["pending"]):
        if not desk.accepted(step):
            if state["steps_used"] >= state["budget"]:
                state["pending"].remove(step)
                continue
            state["steps_used"] += 1
            save(desk, state)
            desk.mail(step)
        state["pending"].remove(step)
        state["done"].append(step)
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_budget" why="takes steps off the list while it loops over it"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    for step in state["pending"]:
        if desk.accepted(step):
            state["done"].append(step)
        state["pending"].remove(step)
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_sent" why="makes a word of a refusal"
def recover(desk, read_save, restore):
    try:
        state = read_save(desk)
        restore(desk, state)
    except CannotRecover:
        return "cannot_recover"
    state["done"] += [step for step in state["pending"] if desk.accepted(step)]
    state["pending"] = []
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_again" why="marks the pending step as done before it asks, and corrects it then"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    asked, state["pending"] = state["pending"], []
    state["done"] += asked
    save(desk, state)
    state["done"] = [step for step in state["done"] if step not in asked or desk.accepted(step)]
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_again" why="takes the step off the pending list first, then asks"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    asked, state["pending"] = state["pending"], []
    save(desk, state)
    state["done"] += [step for step in asked if desk.accepted(step)]
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_sent recover_again" why="takes the save away while it recovers"
def recover(desk, read_save, restore):
    state = read_save(desk)
    desk.checkpoint.unlink()
    restore(desk, state)
    state["done"] += [step for step in state["pending"] if desk.accepted(step)]
    state["pending"] = []
    save(desk, state)
    return work(desk, state)


# %% wrong loses="recover_again" why="writes the save itself, in place"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    state["done"] += [step for step in state["pending"] if desk.accepted(step)]
    state["pending"] = []
    desk.checkpoint.write_text(json.dumps(state), encoding="utf-8")
    return work(desk, state)


# %% wrong loses="recover_sent recover_not_sent recover_budget recover_again" why="only reads the save and goes on"
def recover(desk, read_save, restore):
    return work(desk, read_save(desk))


# %% right why="one pending step at a time, a save for each, the budget looked at too"
def recover(desk, read_save, restore):
    state = read_save(desk)
    restore(desk, state)
    while state["pending"]:
        step = state["pending"].pop()
        if desk.accepted(step):
            state["done"] = sorted({*state["done"], step})
        save(desk, state)
    if len(state["done"]) < len(PLAN) and state["steps_used"] >= state["budget"]:
        return "budget_exceeded"
    return work(desk, state)


# %% [markdown]
# A refusal has to pass, from either function, and leave the desk as it is. Then: pending, and it was sent.


# %% test id="recover_sent" points=1
def refuse(desk, state=None):
    raise CannotRecover("this is the refusal")


for who, its_read, its_restore in (
    ("read_save", refuse, restore_plainly),
    ("restore", read_plainly, refuse),
):
    with desk_as(saved([0], 2, pending=[1]), ["abseil"], [1]) as desk:
        before = files(desk)
        found = launch(attempting(recover), desk, its_read, its_restore, echo=False).result()
        changed = files(desk) != before
    assert refused(found, "this is the refusal"), (
        f"when {who} raised CannotRecover, recover {tell(found)}; expected the same exception to "
        "pass: a word can be overlooked by whoever called"
    )
    assert not changed, (
        f"when {who} raised CannotRecover, recover changed the files of the desk; expected them to "
        "stay as they are, for the person who looks into it"
    )

answer, mails, found = after_recovery(saved([0], 2, pending=[1]), ["abseil"], [1])
assert mails == ["mail 1", "mail 3"], (
    f"mail 1 was pending and had been sent; after recover the outside has {mails}, expected one of "
    "each: what does the outside say when it is asked?"
)
assert (answer, *found[:2]) == ("completed", [0, 1, 2, 3], []), (
    f"mail 1 was pending and had been sent; recover returned {answer!r} and the save says done "
    f"{found[0]}, pending {found[1]}; expected 'completed', all four, none"
)

# %% [markdown]
# Pending, and it was not sent:

# %% test id="recover_not_sent" points=1
answer, mails, found = after_recovery(saved([0], 2, pending=[1]), ["abseil"], [])
assert mails == ["mail 1", "mail 3"], (
    f"mail 1 was pending and had not been sent; after recover the outside has {mails}, expected one "
    "of each: is a step that nobody performed open again?"
)
assert (answer, *found[:2]) == ("completed", [0, 1, 2, 3], []), (
    f"mail 1 was pending and had not been sent; recover returned {answer!r} and the save says done "
    f"{found[0]}, pending {found[1]}; expected 'completed', all four, none"
)

# %% [markdown]
# The budget is spent: with an open step, with a pending one that was sent, with one that was not, with nothing left
# to do, and with two pending, of which one was sent. In each case the answer of the outside belongs in the save.

# %% test id="recover_budget" points=2
spent = [
    ("mail 3 is open", [0, 1, 2], [], [1], "budget_exceeded", [0, 1, 2]),
    ("mail 1 is pending and was sent", [0], [1], [1], "budget_exceeded", [0, 1]),
    ("mail 3 is pending and was not sent", [0, 1, 2], [3], [1], "budget_exceeded", [0, 1, 2]),
    ("mail 3 is pending and was sent", [0, 1, 2], [3], [1, 3], "completed", [0, 1, 2, 3]),
    ("1 and 3 are pending, 1 was sent", [0, 2], [1, 3], [1], "budget_exceeded", [0, 1, 2]),
    ("1 and 3 are pending, 3 was sent", [0, 2], [1, 3], [3], "budget_exceeded", [0, 2, 3]),
]
for what, done, pending, sent, expected, done_then in spent:
    libraries = BOTH if 2 in done else ["abseil"]
    before = saved(done, 6, pending=pending, installed=libraries)
    answer, mails, found = after_recovery(before, libraries, sent)
    assert answer == expected and mails == [f"mail {step}" for step in sent], (
        f"with the budget of 6 spent, when {what}: recover returned {answer!r} and the outside has "
        f"{mails}; expected {expected!r} and no new mail"
    )
    assert found == (done_then, [], 6), (
        f"with the budget of 6 spent, when {what}: the save then says done {found[0]}, pending "
        f"{found[1]}, used {found[2]}; expected {done_then}, [], 6: was the outside asked about each "
        "pending step, and the answer saved?"
    )

# %% [markdown]
# And the recovery itself: killed at every line, those of `save`, `work` and the desk included, and run again. Once the
# pending mail had been sent, once not. Then it is killed once more inside a write, when 40 bytes have reached the file
# (`kill_in_write`; not on Windows).


# %% test id="recover_again" points=3
for was_sent, sent in (("had been sent", [1, 3]), ("had not been sent", [1])):
    report_recover = explore(recover_plainly, pending_desk(sent), in_the_end)
    assert report_recover.clean, (
        f"The pending mail {was_sent}. {report_recover.verdict()}. Ask what the save said at that "
        "moment, and whether it was true. The next cell shows all kills."
    )
if os.name == "posix":  # Windows cannot kill inside a write
    with pending_desk([1])() as desk:
        killed = launch(recover_plainly, desk, kill_in_write=40, echo=False)
        again = launch(recover_plainly, desk, echo=False)
        found = in_the_end(desk) if again.end == "finished" else str(again)
    assert found == "once", (
        f"{killed}, and was run again: {found}; expected 'once'. Is the new save written beside the "
        "old one and put in its place whole, as save(desk, state) does?"
    )

# %% [markdown]
# The kills of the last run of the check: the one where the pending mail had not been sent or, if the check failed,
# the one that it failed on.

# %%
report_recover

# %% [markdown]
# ## Prove it: every branch
#
# The eight situations again, with your three functions.


# %%
def recovery(desk):
    return recover(desk, read_save, restore)


print(f"{'':22} {'naive':14} {'yours':8} and it")
for situation in SITUATIONS:
    before = restart_with(naive_restart, situation)[0]
    after, life = restart_with(recovery, situation)
    print(f"{situation:22} {before:14} {after:8} {said(life)}")

# %% [markdown]
# Every line but one now goes on or stops for the right reason. The lost save stays lost. What has changed is that
# somebody hears of it.
#
# ## Prove it: killed at every line
#
# The worst desk of all: an old save, the folder gone, and a mail under way that was sent. Killed before every
# line of your three functions, then recovered again:


# %%
@contextmanager
def worst_desk():
    with desk_as(saved_by_version_1([0], 2), [], [1]) as desk:
        yield desk


explore(recovery, worst_desk, in_the_end, inside=[recover, read_save, restore])

# %% [markdown]
# ## Prove it: every pair of kills
#
# The process that recovers can die as well. `explore_pairs` kills the run, kills its recovery, and lets a third
# process recover. One mail is left to send. To keep the number of pairs small, only the lines of your `recover`, of
# `write` and of `Desk.mail` count: yours, and those from which the run changes something outside. `most=350` is the largest number of pairs to
# try. Were there more, every n-th would be tried, and the report would say so. Here there are about a hundred.


# %%
def go_on(desk):
    os.environ.update(new_run()["env"])
    return work(desk, read_plainly(desk))


@contextmanager
def one_mail_left():
    with desk_as(saved([0, 1, 2], 3, installed=BOTH, budget=9), BOTH, [1]) as desk:
        yield desk


explore_pairs(
    go_on,
    recovery,
    one_mail_left,
    in_the_end,
    inside=[write, Desk.mail, recover],
    most=350,
)

# %% [markdown]
# One such pair in a whole run, drawn. The run dies when mail 1 is out and not yet recorded. Its recovery dies when it
# has asked and not yet saved the answer. The third life asks again, gets the same answer, and goes on with re2. No
# deed is red: compare the figure of the naive restart above.

# %%
with new_desk() as desk:
    rows = [
        life_and_deeds(desk, first_run, kill_before='state["done"].append(step)', visit=2),
        life_and_deeds(desk, recovery, kill_before="temporary = path.with_name"),
        life_and_deeds(desk, recovery),
    ]
lives(rows, "A run, its recovery, and the recovery of that")

# %% [markdown]
# ## What it does not do
#
# A kill can cost a step of the budget. Here one step is left in the budget, and one mail to send. Nobody kills the
# first run. The second one dies when the step is charged and the mail not yet sent.

# %%
for kill in ({}, {"kill_before": 'self.note(f"mail {step}")'}):
    with desk_as(saved([0, 1, 2], 5, installed=BOTH), BOTH, [1]) as desk:
        print(launch(go_on, desk, echo=False, **kill))
        print("  then recovery", said(launch(recovery, desk, echo=False)))
        print("  mails sent:", desk.deeds())

# %% [markdown]
# The second run stops short. No mail was sent twice and the save is true, but a charge was wasted, and the budget has
# no step left for mail 3. The other rule, to charge a step when it is done, would never waste one. It would let a run
# that dies again and again try for ever.
#
# And a recovery sees only what it looks at. Your `restore` looks whether a file is there:

# %%
with desk_as(saved([0, 1, 2], 3, installed=BOTH), BOTH, [1]) as desk:
    write(desk.library("re2"), "native")
    print("recovery", said(launch(recovery, desk, echo=False)))
    print("re2 is built for", desk.library("re2").read_text(), "and should be for", TARGET)

# %% [markdown]
# What makes your recovery idempotent: asking changes nothing, so it can be repeated. Saving the answer is one atomic
# write, by `save(desk, state)`. Rebuilding with the same variables leaves the same file. Each of its parts can be done again, and the save
# never says more than is known.
#
# Two more limits. The mail service here can be asked, and tells the truth at once. And only one process recovers at a
# time: two that recover the same run at once would both ask, both hear "no", and both send.
#
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"An agent's process was killed. What does your recovery
# do besides reading the save?"*
#
# <details><summary>One way to say it</summary>
#
# "First I read the newest checkpoint. If there is none I refuse and name the run; starting anew would repeat everything.
# An old format is migrated, an unknown one is refused by name. Then I check what the save only speaks of. The process:
# environment variables do not survive, so I set them again, before any tool runs. The disk: what the
# save says is installed may be gone; I rebuild what has a recipe and refuse, by name, what has none. The outside: an
# intent with no outcome may or may not have been performed, so I ask the service and save its answer before I go on.
# Then the budget, by the count in the checkpoint, not a new one for each process; what was charged stays charged. Only then
# comes the next step. And the recovery is idempotent, because it can be killed too: each part can be repeated, each write is
# atomic, and the save says that a mail was sent or was not only after the service has been asked."
# </details>
#
# **Often confused:** *restart* and *recovery*. A restart gives you a running process. A recovery gives you one that
# has compared its save with process, disk and outside, as far as it looks, and has put right or refused what did not
# fit.
#
# **They may ask next:**
#
# * The service does not answer when you ask about the pending mail. What does your recovery do, and what must it not do?
# * Two machines notice the dead run at the same time and both recover it. What goes wrong, and what would stop it?
