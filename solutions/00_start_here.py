# %% [markdown]
# # Start here
#
# **What happens to an agent when its process dies, and how do you make that harmless?**
#
# 15 minutes · 1 point · before this: some Python
#
# Programs that act for a long time get killed: a deploy, a full memory, a closed laptop, a pulled plug. An agent that
# sends mail, builds software or pays refunds is then somewhere in the middle, and a new process has to go on without
# doing anything twice and without forgetting anything. In this course you kill real processes at every line of your own
# code, look at what became of the world, repair the code, and prove the repair.
#
# ## The map
#
# | notebook | the question |
# |---|---|
# | `00_start_here` | how this works |
# | `1_by_hand/01_state` | what must be saved so that a killed agent can go on? |
# | `1_by_hand/02_checkpoint` | how do you save so that no kill can lose the save? |
# | `1_by_hand/03_crash_window` | what is true after a crash, and what can you not know? |
# | `1_by_hand/04_email` | how does the boss get exactly one mail? |
# | `1_by_hand/05_recovery` | what does a complete recovery do besides reading the save? |
# | `2_langgraph/06_checkpointer` | what exactly does LangGraph save, when, and where? |
# | `2_langgraph/07_kill_the_agent` | where does a killed agent really go on? |
# | `2_langgraph/08_interrupt` | why did `approve` run twice? |
# | `2_langgraph/09_approval_desk` | who may approve, what exactly, and once? |
# | `2_langgraph/10_time_travel` | can you go back? what does that repeat? |
# | `4_self_test/15_self_test` | can you say what happens at every line, with the book closed? |
# | `4_self_test/17_interview` | can you say it aloud, in a minute, and still say it next month? |
#
# ## Is everything here?
#
# Run the next cell: click it and press Shift+Enter. It starts the course's bench, makes a first process and ends it.

# %%
import sys

from crashlab import WorkFolder, explore, launch
from crashlab.quiz import differs


def hello():
    return "a process of its own"


print("Python", sys.version.split()[0], "on", sys.platform)
print(launch(hello))

# %% [markdown]
# If that printed "hello finished and returned 'a process of its own'", all is well. If it said that `crashlab` is not
# there, Jupyter runs in another environment than the course's: start it with `make lab`, as the README says.
#
# ## A real kill
#
# Here is a loop that counts to ten in a file.


# %%
def count(folder):
    with open(folder.path / "numbers.txt", "w") as file:
        for n in range(1, 11):
            file.write(f"{n}\n")
            print("wrote", n)


# %% [markdown]
# `launch` runs it in a process of its own and kills that process just before the line that contains `file.write`, when
# that line comes up for the seventh time. The signal is SIGKILL. The process cannot catch it, delay it or tidy up.

# %%
with WorkFolder.fresh() as folder:
    life = launch(count, folder, kill_before="file.write", visit=7)
    print(life)
    print("exit code:", life.exitcode)
    print("left in the file:", (folder.path / "numbers.txt").read_text().split())

# %% [markdown]
# Six numbers were written, and none is there. `file.write` had put them into a **buffer**: memory of the process, to be
# handed to the operating system later, in one piece. The process died, its memory went, and the numbers with it.
#
# That is the rule for everything that follows. **What the operating system has been handed stays. What the process still
# held is gone.**
#
# A kill is not an exception. On an exception the `with` block closes the file, and what is in the buffer gets out:


# %%
def count_and_fail(folder):
    with open(folder.path / "numbers.txt", "w") as file:
        for n in range(1, 11):
            if n == 7:
                raise RuntimeError("not a kill")
            file.write(f"{n}\n")


with WorkFolder.fresh() as folder:
    print(launch(count_and_fail, folder, echo=False))
    print("left in the file:", (folder.path / "numbers.txt").read_text().split())

# %% [markdown]
# ## How an exercise works
#
# An exercise has an **answer cell**, in which you replace the line that raises `NotImplementedError`, and one or more
# **check cells** below it, which you run but do not edit. A check runs an experiment and compares. Where it fails, the
# last line of its output says in a sentence what was seen, what was expected and where to look. Where it passes, it
# says nothing.
#
# When you run all cells, the run stops at the first answer that is missing. That is meant to be so. For an overview of
# a whole notebook, open a terminal and type `crashlab check` and the notebook's path.
#
# **Try it.** This version hands the buffer over after each number.


# %%
def count_and_flush(folder):
    with open(folder.path / "numbers.txt", "w") as file:
        for n in range(1, 11):
            file.write(f"{n}\n")
            file.flush()


# %% [markdown]
# Predict, before you run anything: how many numbers are in the file after a kill just before the **seventh**
# `file.write`? And how many after a kill just before the **seventh** `file.flush`? Assign a list of two numbers to
# `predicted_left`.

# %% answer id="predict_left"
### BEGIN SOLUTION
predicted_left = [6, 6]
### END SOLUTION

# %% wrong loses="predict_left_check" why="a written number is in the file, flush or not"
predicted_left = [6, 7]

# %% wrong loses="predict_left_check" why="nothing is there until the file is closed"
predicted_left = [0, 0]

# %% wrong loses="predict_left_check" why="the line it dies before has run"
predicted_left = [7, 7]

# %% wrong loses="predict_left_check" why="one number for both"
predicted_left = 6

# %% right why="a tuple"
predicted_left = (6, 6)

# %% test id="predict_left_check" points=1
measured = []
for line in ("file.write", "file.flush"):
    with WorkFolder.fresh() as folder:
        launch(count_and_flush, folder, kill_before=line, visit=7)
        measured.append(len((folder.path / "numbers.txt").read_text().split()))
problem = differs(
    predicted_left, measured, ["killed before file.write", "killed before file.flush"]
)
assert not problem, f"{problem}. Ask where the seventh number is between its write and its flush."

# %% [markdown]
# ## Every line at once
#
# Killing at one line tells you about one line. `explore` kills before every line that runs, each time in a new folder,
# and a function of yours judges what is left. Here the judge says `"old"` when no number is there, `"new"` when all ten
# are, and `"torn"` for anything in between. `restart=False` means that nothing is run again after a kill.


# %%
def judge(folder):
    path = folder.path / "numbers.txt"
    numbers = path.read_text().split() if path.exists() else []
    return {0: "old", 10: "new"}.get(len(numbers), "torn")


explore(count_and_flush, WorkFolder.fresh, judge, restart=False)

# %% [markdown]
# This is a **crash map**: your code, and one mark for each kill on the line it fell before. A line that comes up more
# often has more marks. The `with` line comes up twice: to open the file and to close it. Before the first `file.flush`
# nothing has left the process yet, hence one "old" there; the `for` line comes up once more at the end, when all ten
# numbers are out, hence its one "new". The shaded lines are the **crash window**: the lines before which a kill does
# harm. Here it is nearly the whole function.
