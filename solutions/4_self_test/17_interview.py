# %% [markdown]
# # 17 · Interview
#
# **Can you say it aloud, in a minute, and still say it next month?**
#
# 30 minutes · 0 points · before this: the notebooks that you have read so far
#
# Whoever asks you about crashes of agents will not ask you to write code. They ask what happens to the mail when the
# process dies, and then they ask further. To know a thing and to say it are two skills, and only saying it trains the
# second. So this notebook asks you, shows you a good answer, lets you rate yours, and asks again when you are about to
# forget. Your ratings are kept in a file, and that file is kept the way this course teaches. At the end you kill it.

# %%
import sqlite3
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version

from crashlab import WorkFolder, explore
from crashlab.drill import open_drill
from crashlab.drill.record import RatedElsewhere, Record, Review
from crashlab.world.desk import at_once

print("Python", sys.version.split()[0], "on", sys.platform, "· SQLite", sqlite3.sqlite_version)
for package in ("fsrs", "ipywidgets"):
    print(package, version(package))

# %% [markdown]
# ## How to use it
#
# 1. Read the question, look away, and **say** the answer, to the wall if nobody is there. Take a minute, two at most:
#    the clock runs. Begin with the answer, then say why, then where it ends. If you cannot speak where you are, type.
# 2. Show the answer and compare. What an answer must say is listed, what would have shown depth, and what would have
#    been a mistake.
# 3. Let it ask you further. The next question is where an interview begins.
# 4. Rate what you **said**, not what you knew. *Again*: it was missing or wrong. *Hard*: you got there, with gaps.
#    *Good*: all that it must say was in it. *Easy*: that, and depth, without a pause.
#
# The rating decides when the question comes back; each button says when that is. A rating that flatters you hides the
# question from you, for days at first and later for months. New questions come in the order of the notebooks, each when
# you have met those that it builds on. Twenty minutes a day do more than an evening.

# %%
open_drill()

# %% [markdown]
# Where a notebook is only shown and not run, you see a line of text in place of the panel. The button at its top right
# changes the language.
#
# ## A mock interview
#
# Press *Mock interview*: eight questions from all parts of the course, two and a half minutes each. You get no pause.
# The clock is not a count that somebody keeps; it is a start that is written down and never changes. Close the browser,
# restart the kernel, pull the plug: run the cell again, and the interview goes on with the time that is left of it. At
# the end there is a page: what was strong and what was weak, by part and by subject, and which notebook to read again.
#
# ## Without a notebook
#
# In a terminal, in English or in Chinese, with the same record:
#
# ```
# crashlab drill
# crashlab drill --lang zh --mock
# ```
#
# If you use Anki, take the questions there. The file holds both languages. Import a later one over it, and the cards
# you have are renewed; none is doubled, and what Anki knows of you stays.
#
# ```
# crashlab drill --export anki questions.apkg
# ```

# %% [markdown]
# ## Kill the drill
#
# You press *Good*. The window had shown the question when it had no rating yet, so what it writes down is a rating of
# **generation** 0. Then the process dies. What may be on disk? The rating, or no rating. Anything else is harm.

# %%
PRESSED = Review(
    question="what-you-just-said",
    generation=0,
    rating="good",
    at=datetime(2026, 7, 1, 9, 0, tzinfo=UTC),
    seconds=74.0,
    language="en",
)


def press(folder):
    """What the button does, in a window that shows generation 0."""
    record = Record(folder.path)
    with suppress(RatedElsewhere):
        record.rate(PRESSED)


def judge(folder):
    record = Record(folder.path)
    found = record.reviews()
    if record.kept_aside or not set(found) <= {PRESSED}:
        return "torn"
    return {0: "old", 1: "new"}.get(len(found), "twice")


explore(press, WorkFolder.fresh, judge, inside=[Record.rate], restart=False)

# %% [markdown]
# The map shows the drill's own code, the function that just wrote down your ratings. Up to `COMMIT` a kill leaves no
# rating, from then on it leaves the whole of it. (The `with` is reached twice, on the way in and on the way out.)
#
# Now let the drill start again after each kill, and press again, since nobody knows whether the first press counted.

# %%
again = explore(press, WorkFolder.fresh, judge, inside=[Record.rate])
print(again.verdict())
print(dict(again.counts))

# %% [markdown]
# Always one rating. The key of the table is (question, generation), so a press that is repeated, after a crash or by a
# double click, meets the row that is there, and is told. Two windows that show the same question are no other case:

# %%


def window(folder, rating):
    review = Review("what-you-just-said", 0, rating, PRESSED.at, 60.0, "en")
    try:
        Record(folder).rate(review)
    except RatedElsewhere as told:
        return str(told)
    return f"rated {rating}"


with WorkFolder.fresh() as folder:
    for said in at_once(window, [(folder.path, "easy"), (folder.path, "again")]):
        print(said)
    print("in the record:", [review.rating for review in Record(folder.path).reviews()])

# %% [markdown]
# And a file that is broken, or written by a newer version, or not a record at all? It is never repaired by guess, never
# overwritten, and never deleted. When the drill opens, the record goes on beside it, and you are told.

# %%
with WorkFolder.fresh() as folder:
    torn = Record(folder.path).path
    torn.write_bytes(torn.read_bytes()[:5000])
    record = Record(folder.path)
    print("in use:    ", record.path.name)
    print("kept aside:", record.kept_aside)
    print("untouched: ", torn.stat().st_size, "bytes")

# %% [markdown]
# What the record teaches, in one sentence: **write each fact once, in one transaction, under a key that was fixed
# before the attempt, and derive everything else, such as what is due and how much time is left, from what is written.**
