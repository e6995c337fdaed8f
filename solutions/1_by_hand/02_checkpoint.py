# %% [markdown]
# # 02 · Checkpoint
#
# **How do you save so that no kill can lose the save?**
#
# 100 minutes · 24 points · before this: `00_start_here`
#
# In May 2026 a camera server kept its settings in one JSON file and wrote it in place.
# A restart fell between the moment the file was emptied and the moment it was filled.
# The next start found 0 bytes, took that to mean "no settings yet" and ran with no cameras.
# A watchdog saw no pictures and restarted it, every five minutes, for seven days.
# (Reported as apocaliss92/nodelink-js issue 17.)
#
# It took two mistakes: a *save* that a kill can tear, and a *load* that takes a torn file for a first start.
# You will write a save and a load that make neither, then the loop that uses them, and you will try all
# three against kills of a real process.
#
# The part "When the power goes" can wait for another day. *Run All* then stops at its first empty answer; go on from
# "Fix it: `load`" with *Run Selected Cell and All Below*. After it, only "Say it" at the end speaks of power.

# %%
import json
import os
import sys
import tempfile
from contextlib import contextmanager

from crashlab import DATA, BenchError, SoundStore, WorkFolder, explore, launch
from crashlab.figures import side_by_side
from crashlab.powerloss import operations, power_cuts
from crashlab.quiz import differs
from crashlab.watch import renames

print("Python", sys.version.split()[0], "on", sys.platform)

# %% [markdown]
# ## The experiment
#
# A build agent compiles libpng, which needs zlib. Its plan has five steps, its budget is five steps.
# After each step it writes down how far it is.
#
# What it writes is a **checkpoint**: all that a new process needs to go on from there.

# %%
PLAN = ["clone zlib", "build zlib", "install zlib", "configure libpng", "build libpng"]

# %% [markdown]
# Here is a first agent. `folder.perform(action)` is the outside world: it does the step for real, and
# the step stays done whatever happens to the process. `folder.checkpoint` is the path of the save.


# %%
def save_in_place(path, state):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(state, file)


def load_simply(path):
    if not path.exists():
        return {"done": [], "steps_used": 0}
    return json.loads(path.read_text(encoding="utf-8"))


def first_agent(folder, budget=5, fail_at=None):
    state = load_simply(folder.checkpoint)
    print(f"  from the checkpoint: done {state['done']}, {state['steps_used']} steps used")
    for action in PLAN:
        if action in state["done"]:
            continue
        if state["steps_used"] >= budget:
            return "budget_exceeded"
        if action == fail_at:
            raise RuntimeError(f"the process died at {action}")
        print(f"  perform {action}")
        folder.perform(action)
        state["done"].append(action)
        state["steps_used"] += 1
        save_in_place(folder.checkpoint, state)
    return "completed"


# %% [markdown]
# Let it fail at the fourth step, then run it again. `WorkFolder.fresh()` makes an empty work folder and
# removes it at the end of the block.

# %%
with WorkFolder.fresh() as folder:
    print("first run")
    try:
        first_agent(folder, fail_at="configure libpng")
    except RuntimeError as error:
        print("  crash:", error)
    print("second run")
    print("  result:", first_agent(folder))

# %% [markdown]
# It works: three steps were saved, the second run does the other two.
#
# But that was no crash. It was an exception: the process lived, ran its `with` blocks to their end and
# closed its files. A killed process does nothing of that. So do it again with a real one.
# `launch` runs a function in a process of its own. With `kill_before` it sends that process SIGKILL just
# before the line that contains the text. `visit=4` means the fourth time the line comes up.

# %%
with WorkFolder.fresh() as folder:
    print("first run")
    life = launch(first_agent, folder, kill_before="perform {action}", visit=4)
    print(" ", life)
    print("second run")
    print("  result:", launch(first_agent, folder).result())

# %% [markdown]
# The steps are the same as before: a kill *between* two steps is the easy case. The rest of this notebook is
# about the others.
#
# ## Predict: two variations
#
# Commit to an answer before you run anything. The checks below run the experiment and compare.
#
# **Variation 1.** The budget is 4 in both runs. The first run is killed in the same place, just before step 4
# is performed. What does the second run return, and which steps does it perform?
#
# Assign a pair to `predicted_budget`: the returned word, and the list of actions. For example
# `("completed", ["clone zlib"])`.

# %% answer id="predict_budget"
### BEGIN SOLUTION
predicted_budget = ("budget_exceeded", ["configure libpng"])
### END SOLUTION

# %% wrong loses="predict_budget_check" why="a new process gets a new budget"
predicted_budget = ("completed", ["configure libpng", "build libpng"])

# %% wrong loses="predict_budget_check" why="step 4 is one step too many for a budget of 4"
predicted_budget = ("budget_exceeded", [])

# %% wrong loses="predict_budget_check" why="a run that is over its budget still finishes its plan"
predicted_budget = ("budget_exceeded", ["configure libpng", "build libpng"])

# %% wrong loses="predict_budget_check" why="the second run starts from the beginning"
predicted_budget = ("budget_exceeded", PLAN[:4])

# %% right why="a list in place of the pair, a slice in place of the names"
predicted_budget = ["budget_exceeded", PLAN[3:4]]

# %% test id="predict_budget_check" points=1
with WorkFolder.fresh() as folder:
    launch(first_agent, folder, 4, kill_before="perform {action}", visit=4, echo=False)
    before = len(folder.performed())
    measured = (launch(first_agent, folder, 4, echo=False).result(), folder.performed()[before:])
problem = differs(predicted_budget, measured, ["what the second run returns", "what it performs"])
assert not problem, f"{problem}. Look at what steps_used is when the second run has loaded it."

# %% [markdown]
# **Variation 2.** Budget 5 again. Now the kill falls one moment later: `configure libpng` has just been
# performed, and the next line, `state["done"].append(action)`, is about to run. Then the agent is run again.
#
# How many times is `configure libpng` performed in the two runs together? Assign a number to `predicted_times`.

# %% answer id="predict_times"
### BEGIN SOLUTION
predicted_times = 2
### END SOLUTION

# %% wrong loses="predict_times_check" why="what was done is done: the second run skips it"
predicted_times = 1

# %% wrong loses="predict_times_check" why="the kill undoes the step, and the second run skips it"
predicted_times = 0

# %% wrong loses="predict_times_check" why="counts a third time for the record"
predicted_times = 3

# %% right why="counted out"
predicted_times = len(["before the kill", "after the restart"])

# %% test id="predict_times_check" points=1
with WorkFolder.fresh() as folder:
    launch(first_agent, folder, kill_before='state["done"].append', visit=4, echo=False)
    launch(first_agent, folder, echo=False).result()
    measured = folder.performed().count("configure libpng")
problem = differs(predicted_times, measured)
assert not problem, f"{problem}. Ask what the checkpoint on disk said at the moment of the kill."

# %% [markdown]
# The lines before which a kill does harm are a **crash window**. Here it lies between doing a step and saving
# that it was done: a kill in it leaves the world and the checkpoint telling different stories. This notebook
# makes the save itself safe. It does not close this window.
#
# ## Break it: four moments of one save
#
# Look at one save only. The file holds `OLD`, and `save_in_place` writes `NEW` over it. `what_is_left` reads
# the file afterwards and says in a word what it found. An empty file counts as torn.

# %%
OLD = {"done": ["clone zlib"], "steps_used": 1, "note": "waiting for a free builder"}
NEW = {"done": ["clone zlib", "build zlib"], "steps_used": 2}


@contextmanager
def folder_with_old_save():
    with WorkFolder.fresh() as folder:
        folder.checkpoint.write_text(json.dumps(OLD), encoding="utf-8")
        yield folder


def what_is_left(folder):
    if not folder.checkpoint.exists():
        return "lost"
    try:
        state = json.loads(folder.checkpoint.read_bytes())
    except Exception:
        return "torn"
    return "old" if state == OLD else "new" if state == NEW else "torn"


def overwrite_in_place(folder):
    save_in_place(folder.checkpoint, NEW)


# %% [markdown]
# **Predict.** The process is killed at one of four moments:
#
# 1. just before `with open(path, "w")`,
# 2. just before `json.dump(state, file)`,
# 3. after `json.dump` has returned, just before the `with` block closes the file,
# 4. after `save_in_place` has returned.
#
# What is in the file afterwards? Assign to `predicted_in_place` a list of four words, one for each moment:
# `"old"`, `"new"` or `"torn"`.

# %% answer id="predict_in_place"
### BEGIN SOLUTION
predicted_in_place = ["old", "torn", "torn", "new"]
### END SOLUTION

# %% wrong loses="predict_in_place_check" why="opening does not touch what is in the file"
predicted_in_place = ["old", "old", "torn", "new"]

# %% wrong loses="predict_in_place_check" why="dump has written it, so it is on disk"
predicted_in_place = ["old", "torn", "new", "new"]

# %% wrong loses="predict_in_place_check" why="the with block closes the file whatever happens"
predicted_in_place = ["old", "new", "new", "new"]

# %% wrong loses="predict_in_place_check" why="one word for all four moments"
predicted_in_place = "torn"

# %% right why="a tuple, put together"
predicted_in_place = ("old", *["torn"] * 2, "new")

# %% test id="predict_in_place_check" points=2
report_in_place = explore(
    overwrite_in_place, folder_with_old_save, what_is_left, inside=[save_in_place], restart=False
)
measured = [kill.outcome for kill in report_in_place.kills] + [report_in_place.uninterrupted]
moments = [
    "moment 1, before open",
    "moment 2, before json.dump",
    "moment 3, before the close",
    "moment 4",
]
problem = differs(predicted_in_place, measured, moments)
assert not problem, (
    f"{problem}. Ask what open(path, 'w') does to the file, and where written data waits."
)

# %% [markdown]
# ## See it
#
# `explore` kills the process before every line that it executes, each time in a new folder, and asks
# `what_is_left`. Here `inside=[save_in_place]` limits the kills to the lines of that function, and `restart=False`
# means that nothing is run again after the kill. The report draws itself as a **crash map**: one mark for each
# kill, on the line it fell before.

# %%
explore(
    overwrite_in_place, folder_with_old_save, what_is_left, inside=[save_in_place], restart=False
)

# %% [markdown]
# ## Why
#
# * `open(path, "w")` empties the file at once. From here on the old save is gone.
# * `json.dump` writes into a buffer in the process. Nothing has reached the operating system yet.
# * Only the close at the end of the `with` block hands the buffer over. The line shows two marks because it
#   comes up twice: to open (moment 1) and to close (moment 3).
#
# A large state does not help. Its buffer is handed over in pieces, so a kill leaves the first pieces:

# %%
LARGE = {"done": [f"compile file {n}" for n in range(1500)], "steps_used": 1500}


def overwrite_with_large(folder):
    with open(folder.checkpoint, "w", encoding="utf-8") as file:
        json.dump(LARGE, file)
        print(f"  written by json.dump: {len(json.dumps(LARGE))} bytes")
        file.close()


with folder_with_old_save() as folder:
    launch(overwrite_with_large, folder, kill_before="file.close()")
    print(
        f"  left in the file:     {folder.checkpoint.stat().st_size} bytes, {what_is_left(folder)}"
    )

# %% [markdown]
# ## Fix it: `save`
#
# Write `save(path, state)`. After it returns, the file at `path` holds `state` as JSON in UTF-8. Whenever the
# process is killed, the file holds either the whole old save or the whole new one.
#
# The means is a file of its own for the new save, and one **atomic** call at the end: a call that either has
# happened or has not, with nothing in between that anybody could see. `os.replace(source, target)` is one, as
# long as both names are in the same file system. About five lines.
#
# The check is stricter than the map above (`fine=True`): it kills also after each call within a line, and inside
# the library functions that the line calls. Putting everything into one line hides nothing.
#
# <details><summary>Hint 1</summary>
#
# Where is the temporary file to be, so that it is surely in the same file system as `path`?
# </details>
#
# <details><summary>Hint 2</summary>
#
# A name that only you use will do, such as the checkpoint's own with `.tmp` behind it; `tempfile.mkstemp` finds an
# unused one. At which moment must the new file be closed?
# </details>


# %% answer id="save"
def save(path, state):
    """Put `state` as JSON in the place of what is at `path`, whole or not at all."""
    ### BEGIN SOLUTION
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(state, file, ensure_ascii=False)
    os.replace(temporary, path)
    ### END SOLUTION


# %% wrong loses="save_whole save_beside" why="writes in place"
def save(path, state):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(state, file)


# %% wrong loses="save_whole save_beside" why="one call is atomic"
def save(path, state):
    path.write_text(json.dumps(state), encoding="utf-8")


# %% wrong loses="save_whole save_beside" why="one expression is atomic, and flush makes it safe"
def save(path, state):
    text = json.dumps(state)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text), file.flush(), os.fsync(file.fileno())


# %% wrong loses="save_whole" why="replaces while the new file is still open, its data still in the buffer"
def save(path, state):
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(state, file)
        os.replace(temporary, path)


# %% wrong loses="save_whole" why="removes the old file first, to make room"
def save(path, state):
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(state), encoding="utf-8")
    if path.exists():
        path.unlink()
    os.rename(temporary, path)


# %% wrong loses="save_beside" why="temporary files belong in the temporary folder"
def save(path, state):
    handle, temporary = tempfile.mkstemp()
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(state, file)
    os.replace(temporary, path)


# %% wrong loses="save_content save_whole save_beside" why="a backup copy beside it is enough"
def save(path, state):
    if path.exists():
        path.with_suffix(".bak").write_bytes(path.read_bytes())
    path.write_text(json.dumps(state), encoding="utf-8")


# %% wrong loses="save_content save_whole" why="writes what Python shows of the state"
def save(path, state):
    temporary = path.with_suffix(".tmp")
    temporary.write_text(str(state), encoding="utf-8")
    temporary.replace(path)


# %% right why="pathlib, a fixed temporary name"
def save(path, state):
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(state, indent=1), encoding="utf-8")
    temporary.replace(path)


# %% right why="NamedTemporaryFile, fsync too"
def save(path, state):
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(file.name, path) if os.name == "posix" else os.replace(file.name, path)


# %% [markdown]
# First, does it save at all? Two saves, one after the other, with a name that is not plain ASCII.


# %% test id="save_content" points=1
def save_twice(folder):
    save(folder.checkpoint, OLD)
    save(folder.checkpoint, NEW | {"done": ["clone zlib", "编译 zlib"]})


with WorkFolder.fresh() as folder:
    launch(save_twice, folder).result()
    names = sorted(path.name for path in folder.path.iterdir())
    assert folder.checkpoint.name in names, "after two saves there is no file at the given path"
    assert names == [folder.checkpoint.name], (
        f"after two saves the folder holds {names}; only the save belongs there"
    )
    raw = folder.checkpoint.read_bytes()
try:
    found = json.loads(raw.decode("utf-8"))
except ValueError:
    found = raw
assert found == NEW | {"done": ["clone zlib", "编译 zlib"]}, (
    f"after two saves the file holds {found}; expected the second state, as JSON in UTF-8"
)

# %% [markdown]
# Now every kill, seen closely.


# %% test id="save_whole" points=3
def overwrite(folder):
    save(folder.checkpoint, NEW)


report_save = explore(overwrite, folder_with_old_save, what_is_left, restart=False, fine=True)
assert report_save.uninterrupted == "new", (
    f"after save has returned, the save is {report_save.uninterrupted!r}; expected 'new'"
)
assert report_save.clean, (
    f"{report_save.verdict()}. Ask what the checkpoint's name stands for at that moment, and whether "
    "all of the new save has left the process. To see all kills, run report_save in a cell of its own."
)

# %% [markdown]
# The last check watches which renames `save` asks the operating system for.

# %% test id="save_beside" points=1
with folder_with_old_save() as folder:
    found = launch(renames, save, folder.checkpoint, OLD).result()
    onto = [source for source, target in found if target == folder.checkpoint.resolve()]
    assert onto, (
        "this process renamed no file onto the checkpoint, so no single moment makes the new save valid"
    )
    inside = [source.is_relative_to(folder.path.resolve()) for source in onto]
assert all(inside), (
    f"the new save was renamed from {onto[0].parent}: put it beside the checkpoint, since a rename from "
    "another file system is refused, or becomes a copy that can be torn"
)

# %% [markdown]
# ## Prove it
#
# Both saves, killed before every line and within it. In a long row a mark with a number stands for a run of kills with
# the same outcome.

# %%
side_by_side(
    {
        "In place": explore(
            overwrite_in_place, folder_with_old_save, what_is_left, restart=False, fine=True
        ),
        "Your save": report_save,
    }
)

# %% [markdown]
# Up to the rename a kill leaves the old save, from then on the new one. A kill can cost you the newest step. It can no
# longer cost you the save.
#
# It can leave something lying about. Here the kill falls at the last moment at which the save is still the old one.
# Then the save is done once more:

# %%
last_old = [kill.point for kill in report_save.kills if kill.outcome == "old"][-1]
with folder_with_old_save() as folder:
    print(launch(overwrite, folder, kill_before=last_old, fine=True))
    print(what_is_left(folder), sorted(path.name for path in folder.path.iterdir()))
    print(launch(overwrite, folder))
    print(what_is_left(folder), sorted(path.name for path in folder.path.iterdir()))

# %% [markdown]
# Nobody reads what lies beside the checkpoint. If each save takes a new name, such files pile up, and a start should
# remove them; if all take the same name, the next save must write over it.
#
# One limit, so that you claim no more than you have shown: these were kills of a *process*.

# %% [markdown]
# ## When the power goes
#
# A kill ends a process. The operating system lives on and keeps what it was handed. When the *power* goes, the
# operating system goes too, and only what is on the disk is left. Four rules tell what that is:
#
# 1. **Contents.** What you write to a file, and that you emptied it, the operating system keeps in memory for some
#    seconds or longer. A cut in that time may leave none of it on the disk, a part, or all.
#    `os.fsync(file.fileno())` returns when the disk has confirmed all that the operating system holds of the file.
# 2. **The buffer.** What still waits in the buffer of the *process*, the operating system does not hold. An fsync does
#    nothing for it. `file.flush()` hands it over.
# 3. **Names.** A name is an entry of its folder, and the folder has an fsync of its own. A rename is on the disk or it
#    is not, never half. Until the fsync of the folder a cut can undo it.
# 4. **No order.** Names do not wait for contents. A rename can be on the disk *before* the data of the file, and then
#    the name stands for a file that is empty or cut short.
#
# Nobody here pulls a plug: **this is a simulation.** `power_cuts` runs a function in a process, records what it asks of
# the operating system, and works out by these rules what a cut right after each request may leave. A real disk can be
# worse: it may also reorder the writes to one file, or leave garbage. And the recorder follows one process and its
# ordinary calls; `dir_fd`, `mmap` or a program of its own it refuses, and says so.
#
# `operations` shows the record alone. Here is rule 2: the fsync confirms 0 bytes, and the write comes only when the file
# is closed.


# %%
def fsync_of_nothing(folder):
    with open(folder.path / "note.txt", "w", encoding="utf-8") as file:
        file.write("build zlib")
        os.fsync(file.fileno())


with WorkFolder.fresh() as folder:
    print(*operations(fsync_of_nothing, folder, folder=folder.path), sep="\n")

# %% [markdown]
# Three ways to save a text. `buffering=0` means that the process keeps no buffer:


# %%
def in_place(path, text):
    path.write_text(text, encoding="utf-8")


def replaced(path, text):
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def replaced_with_fsync(path, text):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb", buffering=0) as file:
        file.write(text.encode())
        os.fsync(file)
    os.replace(temporary, path)


WAYS = [in_place, replaced, replaced_with_fsync]

# %% [markdown]
# **Predict.** Each of the three has *returned*. A moment later the power goes. What is the worst that can be under the
# checkpoint's name? Assign to `predicted_power` a list of three words, one for each of `WAYS`:
#
# * `"torn"` if the save may be damaged (an empty file counts),
# * `"old"` if it is whole for certain, but may be the old one,
# * `"new"` if it is the new one for certain.

# %% answer id="predict_power"
### BEGIN SOLUTION
predicted_power = ["torn", "torn", "old"]
### END SOLUTION

# %% wrong loses="predict_power_check" why="a rename is atomic, so the power cannot tear it either"
predicted_power = ["torn", "old", "old"]

# %% wrong loses="predict_power_check" why="what was closed is on the disk"
predicted_power = ["torn", "new", "new"]

# %% wrong loses="predict_power_check" why="what has returned is on the disk"
predicted_power = ["new", "new", "new"]

# %% wrong loses="predict_power_check" why="fsync puts the rename that follows on the disk too"
predicted_power = ["torn", "torn", "new"]

# %% wrong loses="predict_power_check" why="one word for all of them"
predicted_power = "torn"

# %% right why="a tuple"
predicted_power = (*("torn",) * 2, "old")


# %% test id="predict_power_check" points=1
def power_cuts_in(way):
    def overwrite(folder):
        way(folder.checkpoint, json.dumps(NEW))

    overwrite.__name__ = way.__name__
    return power_cuts(overwrite, folder_with_old_save, what_is_left)


reports = [power_cuts_in(way) for way in WAYS]
measured = [
    "torn" if not report.whole else "new" if report.durable else "old" for report in reports
]
problem = differs(predicted_power, measured, [way.__name__ for way in WAYS])
hints = {
    "in_place": "Whose contents does it change? See rule 1.",
    "replaced": "What forces the data to the disk before they get their name? See rules 1 and 4.",
    "replaced_with_fsync": "What is on the disk for certain, the data, the name or both? See rules 1 and 3.",
}
hint = "".join(f" {text}" for name, text in hints.items() if problem.startswith(f"{name}:"))
assert not problem, f"{problem}.{hint}"

# %% [markdown]
# Here is what each asks of the operating system, and what a cut right after it may leave. The last row of a table is
# the moment of your prediction, when the function has returned; you named the worst word in it.

# %%
display(*reports)

# %% [markdown]
# * `in_place`: a kill just after the truncate found the file empty. A cut there may find the old save, because the
#   truncate itself may not have reached the disk. So what you saw above, "the old save is gone", holds for kills.
# * `replaced`: all is well up to the rename. From then on the new name may be on the disk and its data not.
#   `write_text` closed the file, and a close is **no** fsync: it hands the data over, no more.
# * `replaced_with_fsync`: at the rename there is no "torn" any more, only "old, new". The save is whole. But "old" is
#   still in the last row: a rename that has returned can be undone.
#
# ## Fix it: `save_durably`
#
# Take that last "old" away. Write `save_durably(path, state)`. The file at `path` then holds `state` as JSON in UTF-8,
# and two promises hold:
#
# * **Whole:** whenever the power goes, before, within or after, the checkpoint is the whole old save or the whole new.
# * **Durable:** once it has returned, the checkpoint is the new one, whatever happens to the power.
#
# The first save, with no checkpoint there yet, is to be as good: whole or not there, and durable. What a cut during an
# earlier save has left beside the checkpoint must not spoil a later one. A save that has returned has left nothing of
# its own there, and has touched nothing of others'. About seven lines. This function is yours to use:


# %%
def sync_folder(path):
    """Put the names in a folder on the disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# %% [markdown]
# On Windows `os.open` refuses a folder, so there `sync_folder` fails. The simulation takes its open and its fsync for
# done, so use it here all the same. A program for Windows has to leave it out. What the fsync of the file gives you,
# you keep; when the new name reaches the disk is for Windows to decide.
#
# <details><summary>Hint</summary>
#
# Which call answers which rule? For each two calls that follow one another, ask what a cut may leave if you swap them.
# </details>


# %% answer id="save_durably"
def save_durably(path, state):
    """Put `state` as JSON in the place of what is at `path`; no power cut tears it or takes it back."""
    ### BEGIN SOLUTION
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(state, file, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)
    ### END SOLUTION


# %% wrong loses="durable_whole" why="fsyncs everything, but in place: durable once it has returned, yet never whole before"
def save_durably(path, state):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


# %% wrong loses="durable_whole durable_returned" why="forgets flush: an fsync of an empty file"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_returned" why="the folder first, then the replace"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
    os.replace(temporary, path)


# %% wrong loses="durable_returned" why="an fsync of the file is enough"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


# %% wrong loses="durable_whole" why="the data last, when they have their name"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(state), encoding="utf-8")
    os.replace(temporary, path)
    with open(path, "r+b") as file:
        os.fsync(file.fileno())
    sync_folder(path.parent)


# %% wrong loses="durable_whole" why="makes room for the new name first"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    path.unlink(missing_ok=True)
    temporary.rename(path)
    sync_folder(path.parent)


# %% wrong loses="durable_whole" why="copies the new file into the place of the old one"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(state), encoding="utf-8")
    path.write_bytes(temporary.read_bytes())
    with open(path, "r+b") as file:
        os.fsync(file.fileno())
    temporary.unlink()
    sync_folder(path.parent)


# %% wrong loses="durable_whole durable_returned" why="where nothing is, nothing can be torn"
def save_durably(path, state):
    if not path.exists():
        path.write_text(json.dumps(state), encoding="utf-8")
        return
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves durable_whole" why="appends to the temporary file, which an earlier cut may have left"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "a", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves" why="opens the temporary file without emptying it"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(handle, json.dumps(state).encode())
    os.fsync(handle)
    os.close(handle)
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves durable_whole" why="refuses for ever when an earlier cut has left its temporary file"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "x", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves durable_whole durable_returned" why="takes the mode from a checkpoint that the first save does not have"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(temporary, path.stat().st_mode)
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves durable_whole durable_returned" why="only renews a save, never makes the first"
def save_durably(path, state):
    if not path.exists():
        return
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves" why="saves the state of the example, whatever it is given"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(NEW, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves" why="writes Latin-1"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="latin-1") as file:
        json.dump(state, file, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves" why="writes UTF-16, which json.loads would find out by itself"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(json.dumps(state).encode("utf-16"))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves" why="temporary files belong in the temporary folder"
def save_durably(path, state):
    handle, temporary = tempfile.mkstemp()
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves durable_whole durable_returned" why="saves nothing, and nothing of that is ever torn"
def save_durably(path, state):
    sync_folder(path.parent)


# %% wrong loses="durable_whole" why="finishes what an earlier save had begun, whole or not"
def save_durably(path, state):
    if path.with_name(path.name + ".tmp").exists():
        os.replace(path.with_name(path.name + ".tmp"), path)
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_whole" why="takes every leftover for a save, under whatever name"
def save_durably(path, state):
    for leftover in path.parent.glob("*.tmp"):
        leftover.replace(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves" why="keeps a copy of the old save beside the new one"
def save_durably(path, state):
    if path.exists():
        path.with_suffix(".bak").write_bytes(path.read_bytes())
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_saves" why="clears the folder of leftovers, and of all that others keep there"
def save_durably(path, state):
    for other in path.parent.iterdir():
        if other != path:
            other.unlink()
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% wrong loses="durable_returned" why="syncs the file once more in place of its folder"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path)


# %% wrong loses="durable_returned" why="syncs the folder that the process works in"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(".")


# %% right why="descriptors, no buffer to flush"
def save_durably(path, state):
    temporary = path.with_suffix(".new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(handle, json.dumps(state).encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    temporary.replace(path)
    sync_folder(path.parent)


# %% right why="closes first, then opens again to fsync"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(state), encoding="utf-8")
    with open(temporary, "r+b") as file:
        os.fsync(file)
    os.replace(temporary, path)
    sync_folder(path.parent)


# %% right why="each write waits for the disk, and so does the last call"
def save_durably(path, state):
    temporary = path.with_name(path.name + ".tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_SYNC", 0)
    handle = os.open(temporary, flags, 0o600)
    os.write(handle, json.dumps(state).encode())
    if not hasattr(os, "O_SYNC"):
        os.fsync(handle)
    os.close(handle)
    os.replace(temporary, path)
    os.sync() if hasattr(os, "sync") else sync_folder(path.parent)


# %% right why="a temporary folder beside the checkpoint is in the same file system"
def save_durably(path, state):
    with tempfile.TemporaryDirectory(dir=path.parent) as beside:
        temporary = os.path.join(beside, path.name)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)


# %% right why="a folder of its own that it removes, with what an earlier cut has left in it"
def save_durably(path, state):
    beside = path.with_suffix(".new")
    beside.mkdir(exist_ok=True)
    with open(beside / "save", "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside / "save", path)
    beside.rmdir()
    sync_folder(path.parent)


# %% [markdown]
# First, does it save at all? The first check saves twice: with no checkpoint there yet, and then with a longer file left
# over under the name of your temporary file. Somebody else's `notes.txt` lies there too. The other two cut the power; the
# cell below them shows every cut. All three run your function in the simulation, so that `sync_folder` works on Windows
# too.


# %% test id="durable_saves" points=1
def saved(when, folder, state):
    before = {each.name for each in folder.path.iterdir()}
    try:
        asked = operations(save_durably, folder.checkpoint, state, folder=folder.path)
    except BenchError as error:
        raise type(error)(f"{when}, {error}; expected it to save") from None
    try:
        found = json.loads(folder.checkpoint.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        found = "no file"
    except ValueError:
        found = folder.checkpoint.read_bytes()
    assert found == state, f"{when}, save_durably left {found}; expected {state}, as JSON in UTF-8"
    names = {each.name for each in folder.path.iterdir()}
    assert "notes.txt" in names, f"{when}, save_durably removed notes.txt, which is not its own"
    extra = sorted(names - before - {folder.checkpoint.name})
    assert not extra, (
        f"{when}, save_durably left {extra} beside the save; only the save belongs there"
    )
    return [each.name for each in asked if each.to == folder.checkpoint.name]


FIRST = {"done": ["clone zlib"], "steps_used": 1, "note": "prêt à compiler"}
renamed = []
with WorkFolder.fresh() as folder:
    home = folder.path.resolve()
    (home / "notes.txt").touch()
    renamed = saved("with no checkpoint there yet", folder, FIRST)
    strays = [name for name in renamed if not (home / name).is_relative_to(home)]
    assert not strays, (
        f"the new save was renamed from {strays[0]}: put it beside the checkpoint, since a rename from "
        "another file system is refused, or becomes a copy that can be torn"
    )
    for left in [home / name for name in renamed]:
        left.parent.mkdir(exist_ok=True)
        left.write_text(json.dumps(FIRST) * 2, encoding="utf-8")
    beside = "".join(
        f", with {os.path.basename(name)} left from an earlier cut" for name in renamed
    )
    saved(f"over an old save{beside}", folder, NEW)


# %% test id="durable_whole" points=1
def overwrite_durably(folder):
    save_durably(folder.checkpoint, NEW)


@contextmanager
def folder_with_leftover():
    with folder_with_old_save() as folder:
        for name in renamed:
            if not os.path.isabs(name):
                (folder.path / name).write_text(json.dumps(NEW)[:-9], encoding="utf-8")
        yield folder


def where_to_look(report, world):
    cut = report.damage[0]
    if world is folder_with_leftover:
        return "What a cut has left may be torn: is it used for anything but to be written over?"
    if "lost" in set(cut.outcomes) - set(report.harmless):
        return "What took the old save from under its name before the new one was there?"
    if cut.operation.call == "rename":
        return "When the file got its name, which of its data had been handed over and forced to the disk?"
    return "That changes the checkpoint's own file, and a cut can leave half of it: see rule 1."


WORLDS = {
    "over an old save": (folder_with_old_save, ("old", "new")),
    "with no checkpoint there yet": (WorkFolder.fresh, ("lost", "new")),
}
LEFTOVER = {"with a torn temporary file left over": (folder_with_leftover, ("old", "new"))}
for when, (world, harmless) in (WORLDS | LEFTOVER).items():
    found = power_cuts(overwrite_durably, world, what_is_left, harmless=harmless)
    assert "new" in found.returned, (
        f"{when}, after save_durably has returned, {' or '.join(found.returned)} is possible and "
        "'new' is not; expected 'new'. The first check says what it saves."
    )
    assert found.whole, (
        f"{when}, a simulated power cut {found.first_harm}. {where_to_look(found, world)}"
    )

# %% test id="durable_returned" points=1
for when, (world, harmless) in WORLDS.items():
    found = power_cuts(overwrite_durably, world, what_is_left, harmless=harmless)
    asked = [cut.operation for cut in found.cuts]
    last = max((n for n, each in enumerate(asked) if each.call == "rename"), default=-1)
    synced = [each for each in asked[last + 1 :] if each.call.startswith("fsync")]
    hint = "The name may not be on the disk yet: what puts it there, and is that asked for last?"
    if "new" not in found.returned:
        hint = "The first check says what it saves."
    elif not set(found.returned) <= set(harmless):
        hint = "Its name is on the disk, its data perhaps not: what forces all of them there?"
    elif synced:
        hint = f'After the rename you asked for "{synced[-1]}": is it there that the name is kept?'
    assert found.durable, (
        f"{when}, after save_durably has returned and the power goes (simulated), the checkpoint may be "
        f"{' or '.join(found.returned)}; expected 'new' and nothing else. {hint}"
    )

# %% [markdown]
# The best of the three above, then your save over an old one, then your first save, where "lost" means only that nothing
# is there yet:

# %%
display(
    power_cuts_in(replaced_with_fsync),
    power_cuts(overwrite_durably, folder_with_old_save, what_is_left),
    power_cuts(overwrite_durably, WorkFolder.fresh, what_is_left, harmless=("lost", "new")),
)

# %% [markdown]
# Compare the last rows: in yours only "new" is left. A cut before that row can still cost you the newest save, but then
# `save_durably` had not returned and had promised nothing.
#
# You have shown that you ask for the right things in the right order. You have not shown that a disk does what it is
# asked. Some disks confirm data that are still in a memory of their own. On macOS an fsync does not ask them to empty
# it; `fcntl.fcntl(file, fcntl.F_FULLFSYNC)` does.
#
# The rest of this notebook goes on with your `save`. From here on only processes die, and its checks have shown that
# against this it is enough.

# %% [markdown]
# ## Fix it: `load`
#
# The camera server's second mistake was in reading. What an empty restart costs is quickly shown. The agent has done
# its five steps; then its checkpoint is gone, and it starts again:

# %%
with WorkFolder.fresh() as folder:
    launch(first_agent, folder, echo=False)
    folder.checkpoint.unlink()
    launch(first_agent, folder, echo=False)
    print(len(folder.performed()), "steps performed for a plan of", len(PLAN))

# %% [markdown]
# So `load` must tell "there is no save" from "there is one, and I cannot use it". For that a checkpoint says what it is.
# From here on a state has a `"format"` and a `"version"`, and `done` holds the numbers of the steps:


# %%
def new_run():
    """The state of a run that has done nothing yet."""
    return {"format": "build-agent", "version": 1, "done": [], "steps_used": 0}


samples = DATA / "checkpoints"
for sample in sorted(samples.iterdir()):
    print(f"{sample.name:26}{sample.read_bytes().decode(errors='backslashreplace')}")

# %% [markdown]
# Write `load(path)`. There are five things it can meet:
#
# | at `path` | `load` |
# |---|---|
# | nothing | returns `new_run()`: this is a first start |
# | a checkpoint of this agent, version 1 | returns its state, all of it |
# | bytes that are not one whole JSON text in UTF-8 without a byte order mark, such as a file cut short or empty | raises `TornCheckpoint` |
# | JSON that is no checkpoint of this agent: not an object, its `"format"` not `"build-agent"`, or its `"version"` not an integer from 1 up (`0`, `1.0`, `"1"` and `true` are none) | raises `ForeignCheckpoint` |
# | a checkpoint of this agent with a `"version"` above 1, written by a newer program | raises `NewerCheckpoint` |
#
# An empty file is not "nothing": somebody made it, and something was lost. Nor is a path that cannot be read for another
# reason, such as a missing permission or a folder in its place; let that `OSError` pass as it is. Each refusal names the
# file in its message, so that a person can go and look. So `load` only reads: what it refuses stays there, else the next
# start is a first start. And it reads this file alone: what lies beside it, such as a `.tmp`, is not the save. About
# twelve lines.


# %%
class CheckpointRefused(Exception):
    """A file is there, but going on from it would be wrong. The message names the file."""


class TornCheckpoint(CheckpointRefused):
    """The file is not one whole JSON text."""


class ForeignCheckpoint(CheckpointRefused):
    """The file is not a checkpoint of this agent."""


class NewerCheckpoint(CheckpointRefused):
    """The file was written by a newer version of this agent."""


# %% [markdown]
# The checks copy each sample into a fresh folder, put good checkpoints beside it that end in `.tmp` and `.bak`, and call
# your `load` in a process of its own. `try_load` notes what it returned or raised, whether the message named the file,
# and whether the file is as it was.

# %%
good = (samples / "good.json").read_bytes()


def try_load(paths):
    notes = []
    for path in paths:
        before = path.read_bytes() if path.is_file() else None
        try:
            notes.append(load(path))
        except CheckpointRefused as error:
            unnamed = "" if path.name in str(error) else " without the file's name"
            notes.append(type(error).__name__ + unnamed)
        except OSError as error:
            notes.append(f"OSError: {error}")
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            notes.append(f"{type(error).__name__}: {error}")
        if before != (path.read_bytes() if path.is_file() else None):
            notes[-1] = f"{notes[-1]}, but the file is not as it was"
    return notes


def tried(files):
    """What `try_load` notes of `files`, whose bytes are given by name; None: no such file."""
    with WorkFolder.fresh() as folder:
        paths = [folder.path / name for name in files]
        for path, data in zip(paths, files.values(), strict=True):
            for end in (".tmp", ".bak"):
                path.with_suffix(end).write_bytes(good)
                path.with_name(path.name + end).write_bytes(good)
            if data is not None:
                path.write_bytes(data)
        return launch(try_load, paths).result()


# %% [markdown]
# <details><summary>Hint</summary>
#
# A file that is cut inside a character like 编 fails before JSON is ever looked at. Which exception is that, and
# which common parent does it have with `json.JSONDecodeError`?
# </details>


# %% answer id="load"
def load(path):
    """Return the state saved at `path`, or a new run's where there is no file.

    Raises TornCheckpoint, ForeignCheckpoint or NewerCheckpoint, naming the file, rather than guess.
    """
    ### BEGIN SOLUTION
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return new_run()
    except ValueError as error:
        raise TornCheckpoint(f"{path} is not whole: {error}") from error
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(f"{path} is no checkpoint of the build agent")
    if state["version"] > 1:
        raise NewerCheckpoint(f"{path} has version {state['version']}; this agent reads version 1")
    return state
    ### END SOLUTION


# %% wrong loses="load_good load_torn" why="what cannot be read is a fresh start"
def load(path):
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return new_run()
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_torn" why="an empty file is the same as no file"
def load(path):
    if not path.exists() or path.stat().st_size == 0:
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_torn" why="a torn file always shows as a JSON error"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_torn" why="bytes that are no UTF-8 can be replaced"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="JSON that parses is an object"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="any file with a format is ours"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and "format" in state
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="a version that is missing is version 1"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    version = state.get("version", 1) if ours else None
    if type(version) is not int or version < 1:
        raise ForeignCheckpoint(path)
    if version > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="isinstance takes true for a whole number"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or not isinstance(state.get("version"), int) or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="makes a number of whatever the version is"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    try:
        version = int(state["version"]) if ours else 0
    except (KeyError, TypeError, ValueError):
        version = 0
    if version < 1:
        raise ForeignCheckpoint(path)
    if version > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="every number but 0 is a version"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or not state["version"]:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="counts versions from 0"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 0:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_torn" why="lets json.loads guess the encoding"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_bytes())
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_newer" why="knows of version 2 only"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] == 2:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_newer" why="a newer file has the same fields and some more"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    return new_run() | state


# %% wrong loses="load_good" why="a missing file is an error like the others"
def load(path):
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_good" why="whatever cannot be read is torn"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_torn load_foreign load_newer" why="refuses, but does not name the file"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint("the checkpoint is torn") from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint("not ours")
    if state["version"] > 1:
        raise NewerCheckpoint("too new")
    return state


# %% wrong loses="load_torn" why="removes the torn file: the next start is a first start"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        path.unlink()
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="moves a foreign file out of the way"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        path.rename(path.with_suffix(".foreign"))
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_newer" why="rewrites a newer file as one of its own version"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        path.write_text(json.dumps(state | {"version": 1}), encoding="utf-8")
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_good" why="a first start may as well save its state"
def load(path):
    if not path.exists():
        path.write_text(json.dumps(new_run()), encoding="utf-8")
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_good load_torn" why="what lies beside it is better than nothing"
from contextlib import suppress


def load(path):
    state = TornCheckpoint(path) if path.exists() else new_run()
    for each in (path.with_name(path.name + ".tmp"), path):
        with suppress(FileNotFoundError, ValueError):
            state = json.loads(each.read_text(encoding="utf-8"))
    if isinstance(state, TornCheckpoint):
        raise state
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_torn" why="a byte order mark does no harm"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and state.get("format") == "build-agent"
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="asks for the version before it asks whose file it is"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    version = state.get("version") if isinstance(state, dict) else None
    if type(version) is int and version > 1:
        raise NewerCheckpoint(path)
    if type(version) is not int or version < 1 or state.get("format") != "build-agent":
        raise ForeignCheckpoint(path)
    return state


# %% wrong loses="load_foreign" why="a format that begins like ours is ours"
def load(path):
    if not path.exists():
        return new_run()
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise TornCheckpoint(path) from None
    ours = isinstance(state, dict) and str(state.get("format")).startswith("build-agent")
    if not ours or type(state.get("version")) is not int or state["version"] < 1:
        raise ForeignCheckpoint(path)
    if state["version"] > 1:
        raise NewerCheckpoint(path)
    return state


# %% right why="bytes, match and FileNotFoundError"
def load(path):
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return new_run()
    try:
        state = json.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TornCheckpoint(f"cannot read {path.name}") from error
    match state:
        case {"format": "build-agent", "version": version} if type(version) is int and version > 0:
            if version > 1:
                raise NewerCheckpoint(path.name)
            return state
        case _:
            raise ForeignCheckpoint(path.name)


# %% test id="load_good" points=1
missing, found = tried({"run-217.json": None, "good.json": good})
assert missing == new_run(), (
    f"with no run-217.json, load gave {missing}; expected a new run's state, with nothing read from or "
    "written to the folder"
)
assert found == json.loads(good), f"from good.json, load gave {found}; expected {json.loads(good)}"
with WorkFolder.fresh() as folder:
    [note] = launch(try_load, [folder.path]).result()
assert str(note).startswith("OSError"), (
    f"from a path that is a folder, load gave {note}; expected the OSError of reading it to pass"
)

# %% [markdown]
# A torn file can end anywhere. The check cuts a good checkpoint at every byte, from nothing to all but the last, and it
# takes the samples that are torn. Three more are not one JSON text in UTF-8: a good checkpoint in UTF-16, one behind a
# byte order mark, which JSON does not have, and one with the rest of a longer save behind it.

# %% test id="load_torn" points=2
names = ["empty.json", "torn.json", "torn_in_a_character.json", "torn_in_the_middle.json"]
torn = {name: (samples / name).read_bytes() for name in names}
torn |= {
    "good.json in UTF-16": good.decode("utf-8").encode("utf-16"),
    "good.json behind a byte order mark": b"\xef\xbb\xbf" + good,
    "good.json and a rest": good + good[-9:],
}
torn |= {f"good.json cut after {n} of {len(good)} bytes": good[:n] for n in range(len(good))}
bad = [
    (name, note) for name, note in zip(torn, tried(torn), strict=True) if note != "TornCheckpoint"
]
assert not bad, (
    f"{bad[0][0]}: load gave {bad[0][1]}; expected only TornCheckpoint, with the file's name "
    f"({len(bad)} of {len(torn)} torn files went wrong)"
)

# %% test id="load_foreign" points=1
names = ["foreign.json", "foreign_agent.json", "foreign_list.json", "foreign_version.json"]
texts = ["{}", "17", "null", '"build-agent"', '{"format": null, "version": 1}']
texts += ['{"format": "mail-agent", "version": 2, "done": [], "steps_used": 0}']
texts += ['{"format": "build-agent-lite", "version": 1, "done": [], "steps_used": 0}']
texts += ['{"format": "build-agent", "done": [], "steps_used": 0}']
versions = ["0", "-3", "1.0", "1.5", "2.0", "true", "false", "null", '"1"', '"2"', "[1]"]
texts += [
    f'{{"format": "build-agent", "version": {version}, "done": [], "steps_used": 0}}'
    for version in versions
]
foreign = {name: (samples / name).read_bytes() for name in names}
foreign |= {f"foreign number {n}.json": text.encode() for n, text in enumerate(texts)}
for what, note in zip(names + texts, tried(foreign), strict=True):
    assert note == "ForeignCheckpoint", (
        f"{what}: load gave {note}; expected only ForeignCheckpoint, with the file's name"
    )

# %% test id="load_newer" points=1
newer = {"newer.json": (samples / "newer.json").read_bytes()}
newer["version_17.json"] = json.dumps(new_run() | {"version": 17}).encode()
for name, note in zip(newer, tried(newer), strict=True):
    assert note == "NewerCheckpoint", (
        f"{name}: load gave {note}; expected only NewerCheckpoint, with the file's name"
    )

# %% [markdown]
# ## Fix it: `run`
#
# The loop of the first agent has two faults that a better `load` or `save` does not mend. So that you see the loop's doing
# alone, here it stands by itself: `first_loop` is handed its `load` and `save`, and gets those of a sound store, which
# keeps the state as JSON in an SQLite database.
#
# **The first fault.** The budget is 4. The loop is killed before every line and restarted. Then the steps performed are
# compared with the steps charged: `"kept"` when each performed step was charged, at most one charge was wasted on the
# kill, and no more than 4 were charged; else `"over"`.

# %%
store = SoundStore(new_run())


def first_loop(folder, plan, budget, load, save):
    state = load(folder.checkpoint)
    for action in plan:
        if action in state["done"]:
            continue
        if state["steps_used"] >= budget:
            return "budget_exceeded"
        folder.perform(action)
        state["done"].append(action)
        state["steps_used"] += 1
        save(folder.checkpoint, state)
    return "completed"


def within_four(folder):
    charged = store.load(folder.checkpoint)["steps_used"]
    performed = len(folder.performed())
    return "kept" if performed <= charged <= performed + 1 and charged <= 4 else "over"


def first_loop_with_four(folder):
    return first_loop(folder, PLAN, 4, store.load, store.save)


explore(first_loop_with_four, WorkFolder.fresh, within_four, inside=[first_loop])

# %% [markdown]
# A kill in the crash window makes one step free: it was performed, but not charged. A step that kills its own
# process each time is free each time, and the agent that restarts for ever never runs out of budget:

# %%
with WorkFolder.fresh() as folder:
    for _ in range(10):
        launch(first_loop_with_four, folder, kill_before='state["done"].append')
    state = store.load(folder.checkpoint)
    print(f"performed {len(folder.performed())} steps, charged {state['steps_used']}")

# %% [markdown]
# **The second fault** shows without any kill. A plan may name an action twice: build, test, patch, build, test.

# %%
BUILD_TWICE = ["build zlib", "test zlib", "patch zlib", "build zlib", "test zlib"]

with WorkFolder.fresh() as folder:
    print(launch(first_loop, folder, BUILD_TWICE, 9, store.load, store.save))
    print(folder.performed())

# %% [markdown]
# It calls the run completed, and the patch was never built. `done` must hold **step ids**, not the names of actions:
# an id says *which* step of the plan, a name says only *what kind*.
#
# Write `run(folder, plan, budget, load, save)`:
#
# * It goes on from `load(folder.checkpoint)`, performs the steps of `plan` in order with `folder.perform(action)`,
#   and keeps the state with `save(folder.checkpoint, state)`. The state goes through JSON, so let the ids be numbers
#   or strings. (`folder.performed()` is for the judges. An agent cannot look at the outside like that.)
# * It performs no step again that was saved as done. The step that was under way at the kill may be performed twice.
# * `state["steps_used"]` counts attempts, in all processes together. **A step is charged before it is performed**, so
#   that no kill makes one free. When the next step would exceed `budget`, it returns `"budget_exceeded"`.
# * When all steps are done it returns `"completed"`, also if the budget is used up just then.
#
# About fourteen lines. `"completed"` and `"budget_exceeded"` are return values.
#
# <details><summary>Hint</summary>
#
# Two saves a step: one that says "about to try", one that says "done". What does a kill between them cost, and what
# does it not cost?
# </details>


# %% [markdown]
# The checks judge what was performed with this function. It drops from the list each action that stands there twice in a
# row. What remains must be the plan, and at most one action may have been dropped: the step under way at the kill.


# %%
def in_order(plan):
    """Make a judge: was `plan` performed in order, and was only the step under way repeated?"""

    def judge(folder):
        performed = folder.performed()
        if not set(plan) <= set(performed):
            return "lost"
        repeats = [n for n in range(1, len(performed)) if performed[n] == performed[n - 1]]
        once = [action for n, action in enumerate(performed) if n not in repeats]
        if once != plan or len(repeats) > 1:
            return "again"
        return "twice" if repeats else "once"

    return judge


# %% answer id="run"
def run(folder, plan, budget, load, save):
    """Do what is left of `plan`; return "completed" or "budget_exceeded"."""
    ### BEGIN SOLUTION
    state = load(folder.checkpoint)
    for number, action in enumerate(plan):
        if number in state["done"]:
            continue
        if state["steps_used"] >= budget:
            return "budget_exceeded"
        state["steps_used"] += 1
        save(folder.checkpoint, state)
        folder.perform(action)
        state["done"].append(number)
        save(folder.checkpoint, state)
    return "completed"
    ### END SOLUTION


# %% wrong loses="run_budget" why="charges a step together with its record, as before"
def run(folder, plan, budget, load, save):
    state = load(folder.checkpoint)
    for step, action in enumerate(plan):
        if step in state["done"]:
            continue
        if state["steps_used"] >= budget:
            return "budget_exceeded"
        folder.perform(action)
        state["done"].append(step)
        state["steps_used"] += 1
        save(folder.checkpoint, state)
    return "completed"


# %% wrong loses="run_budget" why="each process counts its own steps"
def run(folder, plan, budget, load, save):
    state = load(folder.checkpoint)
    used = 0
    for step, action in enumerate(plan):
        if step in state["done"]:
            continue
        if used >= budget:
            return "budget_exceeded"
        used += 1
        state["steps_used"] = used
        folder.perform(action)
        state["done"].append(step)
        save(folder.checkpoint, state)
    return "completed"


# %% wrong loses="run_budget" why="looks at the budget before it looks whether anything is left to do"
def run(folder, plan, budget, load, save):
    state = load(folder.checkpoint)
    for step, action in enumerate(plan):
        if state["steps_used"] >= budget:
            return "budget_exceeded"
        if step in state["done"]:
            continue
        state["steps_used"] += 1
        save(folder.checkpoint, state)
        folder.perform(action)
        state["done"].append(step)
        save(folder.checkpoint, state)
    return "completed"


# %% wrong loses="run_budget" why="charges before, but only in memory"
def run(folder, plan, budget, load, save):
    state = load(folder.checkpoint)
    for step, action in enumerate(plan):
        if step in state["done"]:
            continue
        if state["steps_used"] >= budget:
            return "budget_exceeded"
        state["steps_used"] += 1
        folder.perform(action)
        state["done"].append(step)
        save(folder.checkpoint, state)
    return "completed"


# %% wrong loses="run_ids" why="done holds names of actions"
def run(folder, plan, budget, load, save):
    state = load(folder.checkpoint)
    for action in plan:
        if action in state["done"]:
            continue
        if state["steps_used"] >= budget:
            return "budget_exceeded"
        state["steps_used"] += 1
        save(folder.checkpoint, state)
        folder.perform(action)
        state["done"].append(action)
        save(folder.checkpoint, state)
    return "completed"


# %% wrong loses="run_resumes" why="records the step as done when it charges it, before it is performed"
def run(folder, plan, budget, load, save):
    state = load(folder.checkpoint)
    for step, action in enumerate(plan):
        if step in state["done"]:
            continue
        if state["steps_used"] >= budget:
            return "budget_exceeded"
        state["steps_used"] += 1
        state["done"].append(step)
        save(folder.checkpoint, state)
        folder.perform(action)
    return "completed"


# %% wrong loses="run_resumes run_budget" why="saves once, when the run is over"
def run(folder, plan, budget, load, save):
    state = load(folder.checkpoint)
    result = "completed"
    for step, action in enumerate(plan):
        if step in state["done"]:
            continue
        if state["steps_used"] >= budget:
            result = "budget_exceeded"
            break
        state["steps_used"] += 1
        folder.perform(action)
        state["done"].append(step)
    save(folder.checkpoint, state)
    return result


# %% right why="a position in place of a list of ids"
def run(folder, plan, budget, load, save):
    state = load(folder.checkpoint)
    while len(state["done"]) < len(plan):
        if state["steps_used"] + 1 > budget:
            return "budget_exceeded"
        save(folder.checkpoint, state | {"steps_used": state["steps_used"] + 1})
        folder.perform(plan[len(state["done"])])
        state = load(folder.checkpoint)
        state["done"] += [f"step-{len(state['done'])}"]
        save(folder.checkpoint, state)
    return "completed"


# %% [markdown]
# The first check gives your loop the sound store and budget enough, kills it at every line and after every call within
# a line, restarts it, and judges what was performed. `"twice"` is allowed here (`harmless=…`): the one step that was
# under way was repeated. `"lost"` (a step was never performed) and `"again"` (more than that one step was repeated) are
# not.


# %% test id="run_resumes" points=2
SHORT = PLAN[:3]


def run_short_plan(folder):
    return run(folder, SHORT, 9, store.load, store.save)


with WorkFolder.fresh() as folder:
    found = (launch(run_short_plan, folder).result(), folder.performed())
    assert found == ("completed", SHORT), f"with no kill, run gave {found}; expected all of {SHORT}"
report_run = explore(
    run_short_plan, WorkFolder.fresh, in_order(SHORT), harmless=("once", "twice"), fine=True
)
assert report_run.clean, (
    f'{report_run.verdict()}. "lost" means that a step was saved as done before it was performed, '
    '"again" that a step ran again although it was saved as done, or under an id that JSON changed. '
    "To see all kills on your code, run report_run in a cell of its own."
)


# %% test id="run_budget" points=2
def run_with_four(folder):
    return run(folder, PLAN, 4, store.load, store.save)


with WorkFolder.fresh() as folder:
    found = (launch(run_with_four, folder).result(), folder.performed())
    assert found == ("budget_exceeded", PLAN[:4]), (
        f"with budget 4 and no kill, run gave {found}; expected the first four steps"
    )
with WorkFolder.fresh() as folder:
    results = [launch(run, folder, PLAN, 5, store.load, store.save).result() for _ in range(2)]
    assert results == ["completed"] * 2, (
        f"with budget 5, run and run again, it returned {results}; expected 'completed' both times, "
        "since the second time nothing is left to do"
    )
report_budget = explore(run_with_four, WorkFolder.fresh, within_four, fine=True)
assert report_budget.clean, (
    f"with budget 4: {report_budget.verdict()}. Is each step charged, and the charge saved, before "
    "it is performed, and nothing else charged? To see all kills, run report_budget in a cell."
)

# %% test id="run_ids" points=2
with WorkFolder.fresh() as folder:
    launch(run, folder, BUILD_TWICE, 9, store.load, store.save).result()
    found = folder.performed()
assert found == BUILD_TWICE, (
    f"of the plan {BUILD_TWICE} only {found} was performed: two steps of one name are two steps"
)

# %% [markdown]
# What does charging first cost? Give the run a budget of 5 for its five steps, so that there is none to spare. The judge
# says `"all"` when all steps were performed in the end, and `"lost"` when the budget ran out before. Both are declared
# harmless here: the map is to show, not to judge.


# %%
def run_with_five(folder):
    return run(folder, PLAN, 5, store.load, store.save)


def all_or_lost(folder):
    return "all" if set(folder.performed()) == set(PLAN) else "lost"


explore(run_with_five, WorkFolder.fresh, all_or_lost, inside=[run], harmless=("all", "lost"))

# %% [markdown]
# A kill between the charge and the record uses up an attempt, and then the last step finds no budget left. That is the
# price: a budget that no kill refills must allow for the attempts that kills waste.
#
# ## Prove it: all three together
#
# Your `run` with your `load` and your `save`, killed before every line that runs in any of them, and restarted. To
# have `load` read a real file, each run starts half way: two steps are done and saved. What a kill within a line of
# `save` does, this map cannot show; that was the check above.


# %%
@contextmanager
def half_way():
    with WorkFolder.fresh() as folder:
        launch(run, folder, PLAN, 2, load, save).result()
        yield folder


def whole_agent(folder):
    return run(folder, PLAN, 9, load, save)


explore(whole_agent, half_way, in_order(PLAN), inside=[run, load, save], harmless=("once", "twice"))

# %% [markdown]
# Read your map. If `save` has passed its check and the map shows only "once" and "twice", then after each kill the
# restart found a checkpoint that it could read, no step was lost, and no step that was saved as done was repeated. The
# refusals in `load` have no mark: none of them came up, and that is the point.
#
# Where the map says "twice", the step was performed and the process died before it could say so. This exercise allows
# that. To anybody whom a repetition hurts these lines are a crash window, and saving cannot close it: between the deed
# and its record there is always a moment. The agent can only make the repetition harmless.
#
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"How do you write a checkpoint, and what happens to the
# budget after a restart?"*
#
# <details><summary>One way to say it</summary>
#
# "I write the whole state to a temporary file in the same folder, close it, and rename it over the old checkpoint. The
# rename is atomic, so a kill leaves the old save or the new one and never half of one. If it has to outlive a power
# cut, I fsync the file before the rename, so that the save is whole, and the folder after it, so that the rename
# stays. Writing in place is not safe: opening for writing empties the file, and the data waits in a buffer until the
# close. On loading I take a missing file as a first start, and nothing else: a torn, foreign or newer file is refused
# by name, because an empty restart would repeat everything. The budget lives in the checkpoint, so a restart goes on
# counting. I charge a step before I perform it, else a step that kills its process is free each time; the price is an
# attempt wasted per kill. Steps are recorded by id, since a plan may name an action twice. What a checkpoint cannot do
# is tell me whether the step that was under way took effect."
# </details>
#
# **Often confused:** *atomic* and *durable*. Atomic: nobody ever sees half of it. Durable: once it has returned, it
# stays. Against kills `os.replace` gives you both. When the power goes it gives you neither: the name can be on the disk
# before the data, and the rename can be undone. An fsync of the file before it makes the save whole, an fsync of the
# folder after it makes it durable.
#
# **They may ask next:**
#
# * Two processes save to the same path at the same time. What does `os.replace` guarantee now, and what not?
# * Your state has grown to 50 MB and you save after every step. What would you change?
