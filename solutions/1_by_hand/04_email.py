# %% [markdown]
# # 04 · Email
#
# **How does the boss get exactly one mail?**
#
# 75 minutes · 17 points · before this: `03_crash_window`
#
# In March 2021 a ticket shop had to mail everybody who had a ticket to a very large event, a job of almost four hours.
# The queue that had handed out the job waited one hour for an answer, took the silence for a death and handed it out
# again, and again an hour later, while the first worker was still sending.
# (Reported as pretix/pretix issue 2058.)
#
# Silence is all that the sender of a mail has to go by. It may mean "not sent" or "sent, and the answer is on its way".
# You will build the usual cure, find the hole that it leaves, and close the hole as far as the mail service lets you.

# %%
import hashlib
import json
import smtplib
import sqlite3
import sys
import time
import uuid
from contextlib import closing, contextmanager
from email.message import EmailMessage
from types import SimpleNamespace

from crashlab import WorkFolder, explore, launch
from crashlab.figures import lives, side_by_side
from crashlab.figures.matrix import outcome_matrix
from crashlab.quiz import differs
from crashlab.world import mail_service

print("Python", sys.version.split()[0], "on", sys.platform)

# %% [markdown]
# ## The experiment
#
# Run 217 builds re2. At step 9 the agent reports to its boss by mail. The mail goes to a real SMTP server: a process of
# its own that keeps what it has accepted, whatever becomes of the sender.

# %%
REPORT = {"to": "boss@example.com", "subject": "re2", "body": "re2 is built. It links."}
KEY = "run-217:step-9:call-2"
SECOND_KEY = "run-217:step-12:call-2"


def deliver(mail, letter, key=""):
    message = EmailMessage()
    message["From"] = "agent@example.com"
    message["To"] = letter["to"]
    message["Subject"] = letter["subject"]
    if key:
        message["Idempotency-Key"] = key
    message.set_content(letter["body"])
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(message)
    return "accepted"


# %% [markdown]
# An **idempotency key** is a name for one intended effect. Each attempt at that effect carries the same key, so that
# attempts can be told from new intentions. `deliver` can put one into a header of the mail. For now, leave it out.
#
# `mail_service` starts the server and `mail.inbox()` shows what was delivered. A "plain" service delivers all it gets.

# %%
with mail_service("plain") as mail:
    print(deliver(mail, REPORT))
    print(mail.inbox())

# %% [markdown]
# Networks lose answers, so callers try again. `retry` does so after an error that `smtplib` or the network raises.
# The third error comes out. `lose_first_answer` lets the function do its work and then loses its answer, once.


# %%
def retry(send, *args):
    for attempt in (1, 2, 3):
        try:
            return send(*args)
        except OSError as error:  # smtplib's errors are OSErrors too
            if attempt == 3:
                raise
            print(f"    attempt {attempt} failed: {error}; again")


def lose_first_answer(send):
    to_lose = ["sent, but the reply was lost"]

    def lossy(*args):
        answer = send(*args)
        if to_lose:
            raise ConnectionError(to_lose.pop())
        return answer

    return lossy


# %% [markdown]
# The usual cure is a **key table** of your own: look the key up before you send, mark it "sent" after. "pending" means
# that somebody was about to send.


# %%
def open_table(where):
    db = sqlite3.connect(where)
    db.execute("CREATE TABLE IF NOT EXISTS mails (key TEXT PRIMARY KEY, status TEXT)")
    return db


def look(db, key):
    row = db.execute("SELECT status FROM mails WHERE key = ?", (key,)).fetchone()
    return row[0] if row else None


def mark(db, key, status):
    with db:  # a transaction: committed at the end of the block
        db.execute("INSERT OR REPLACE INTO mails VALUES (?, ?)", (key, status))


# %% [markdown]
# Both ways of sending take the same four things, so that you can swap one for the other.


# %%
def send_unsafe(mail, db, key, letter):
    deliver(mail, letter)
    return "sent"


def send_safe(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    mark(db, key, "pending")
    deliver(mail, letter)
    mark(db, key, "sent")
    return "sent"


with mail_service("plain") as mail, closing(open_table(":memory:")) as db:
    for name, send in [("without a key table", send_unsafe), ("with a key table", send_safe)]:
        mail.clear()
        print(name)
        result = retry(lose_first_answer(send), mail, db, KEY, REPORT)
        print(f"    result: {result} | really sent: {len(mail.inbox())}")

# %% [markdown]
# Two mails, then one. Many explanations stop here.
#
# But look where the answer was lost: *after* `send_safe` had marked the mail as sent, on the way to the agent. Now let
# the mail server lose its own answer. `mail.lose_reply()` makes it accept the next mail and drop the connection.

# %%
with mail_service("plain") as mail, closing(open_table(":memory:")) as db:
    mail.lose_reply()
    result = retry(send_safe, mail, db, KEY, REPORT)
    print(f"    result: {result} | really sent: {len(mail.inbox())}")

# %% [markdown]
# Two mails again. The table stood at "pending", and "pending" does not say on which side of the sending it was left.
#
# ## The table must outlive the process
#
# `:memory:` is a database in the memory of the process. Here the first process is killed when all is done and marked,
# and a second one is started. An `office` is a mail service with an empty inbox and a place for a table in a file.


# %%
@contextmanager
def office(mail):
    mail.clear()
    with WorkFolder.fresh() as folder:
        yield SimpleNamespace(mail=mail, table=folder.path / "mails.sqlite")


def with_memory(place):
    db = open_table(":memory:")
    return send_safe(place.mail, db, KEY, REPORT)


def with_file(place):
    db = open_table(place.table)
    return send_safe(place.mail, db, KEY, REPORT)


def two_lives(run, mail):
    with office(mail) as place:
        first = launch(run, place, kill_before='return "sent"')
        one = ["mail to the boss"] * len(mail.inbox())
        second = launch(run, place)
        both = ["mail to the boss"] * len(mail.inbox())
    return [(first, one), (second, both[len(one) :])]


with mail_service("plain") as mail:
    in_memory, in_file = two_lives(with_memory, mail), two_lives(with_file, mail)
lives(in_memory, "The table in memory")

# %% [markdown]
# A retry in the same process was safe, a restart is not. With the table in a file:

# %%
lives(in_file, "The table in a file")

# %% [markdown]
# From here on the table is in a file.
#
# ## The same key with another letter
#
# The agent builds abseil next, and by mistake reports it under the key of re2.

# %%
ABSEIL = REPORT | {"subject": "abseil", "body": "abseil is built."}

with mail_service("plain") as mail, office(mail) as place, closing(open_table(place.table)) as db:
    print(send_safe(mail, db, KEY, REPORT))
    print(send_safe(mail, db, KEY, ABSEIL))
    print([delivered.subject for delivered in mail.inbox()])

# %% [markdown]
# "already_sent", and the report on abseil went nowhere. Nobody was told. A table that keeps only the key cannot see the
# difference.
#
# ## Two processes at once
#
# One process has looked and marked, and is about to send. In that moment another one starts with the same key. The
# order is forced here: the notebook's own process takes the steps of `send_safe` one by one.

# %%
with mail_service("plain") as mail, office(mail) as place, closing(open_table(place.table)) as db:
    print("this process looks:", look(db, KEY))
    mark(db, KEY, "pending")
    print("another process:", launch(with_file, place).result())
    print("this process sends:", deliver(mail, REPORT))
    mark(db, KEY, "sent")
    print("really sent:", len(mail.inbox()))

# %% [markdown]
# `send_safe` looks only for "sent", so a "pending" did not stop the other process. The owner of that "pending" was alive
# and only slow. That is the ticket shop.
#
# Looking and then writing are two steps. One step that does both is a **claim**: only one process can win it. The
# primary key decides.


# %%
def claim(db, key):
    with db:
        return db.execute("INSERT OR IGNORE INTO mails VALUES (?, 'pending')", (key,)).rowcount == 1


with (
    WorkFolder.fresh() as folder,
    closing(open_table(folder.path / "mails.sqlite")) as one,
    closing(open_table(folder.path / "mails.sqlite")) as other,
):
    print(claim(one, KEY), claim(other, KEY))

# %% [markdown]
# A claim settles who sends. It does not settle what to do when the winner dies, and that is the subject of the rest.
#
# ## Predict: where a kill does harm
#
# One process now. `send_safe` with its table in a file, sending to a "plain" service. In each of five cases something
# goes wrong once, and then a new process runs it again, to its end:
#
# 1. killed just before `mark(db, key, "pending")`,
# 2. killed just before `deliver(mail, letter)`,
# 3. killed just before `mark(db, key, "sent")`,
# 4. killed just before `return "sent"`,
# 5. not killed, but the server refuses the mail with a 451, "try again later".
#
# How many mails has the boss in the end? Assign a list of five numbers to `predicted_mails`.

# %% answer id="predict_mails"
### BEGIN SOLUTION
predicted_mails = [1, 1, 2, 1, 1]
### END SOLUTION

# %% wrong loses="predict_mails_check" why="a key table makes it exactly once"
predicted_mails = [1, 1, 1, 1, 1]

# %% wrong loses="predict_mails_check" why="pending counts as sent"
predicted_mails = [1, 0, 1, 1, 0]

# %% wrong loses="predict_mails_check" why="a kill before the return loses the mark"
predicted_mails = [1, 1, 2, 2, 1]

# %% wrong loses="predict_mails_check" why="a refused mail is in the inbox all the same"
predicted_mails = [1, 1, 2, 1, 2]

# %% wrong loses="predict_mails_check" why="one number for all five"
predicted_mails = 1

# %% right why="a tuple, put together"
predicted_mails = (1, 1) + (2,) + (1,) * 2

# %% test id="predict_mails_check" points=2
moments = [
    'mark(db, key, "pending")',
    "deliver(mail, letter)",
    'mark(db, key, "sent")',
    'return "sent"',
]
measured = []
with mail_service("plain") as mail:
    for moment in [*moments, None]:
        with office(mail) as place:
            mail.refuse(0 if moment else 1)
            launch(with_file, place, kill_before=moment, echo=False)
            launch(with_file, place, echo=False).result()
            measured.append(len(mail.inbox()))
problem = differs(
    predicted_mails, measured, [*(f"killed before {moment}" for moment in moments), "refused once"]
)
assert not problem, (
    f"{problem}. Ask what the file held when the first process ended, and what send_safe does with that."
)

# %% [markdown]
# Now every line, those of `deliver` and of the helpers included. `mails` is the judge.


# %%
def mails(place):
    return {0: "lost", 1: "once", 2: "twice"}.get(len(place.mail.inbox()), "again")


with mail_service("plain") as mail:
    report_safe = explore(with_file, lambda: office(mail), mails)
report_safe

# %% [markdown]
# The crash window runs from the moment the server has accepted the mail to the moment the mark is committed. It holds
# the end of `deliver` and the whole of the second `mark`. You cannot make it go away: the server's file and
# your file are two files, and no single step writes both. You can only make the second attempt harmless, and for that
# the *service* has to help.
#
# ## Fix it: a service that honours a key
#
# A "keyed" service remembers the `Idempotency-Key` of each mail it has accepted. The same mail with the same key gets a
# 250 and is not delivered again. Another letter with that key gets a 554, which `smtplib` raises as `SMTPDataError`.
#
# Write `send_keyed(mail, db, key, letter)` for such a service:
#
# * When it has been run to its end, `letter` is in the inbox once, whatever kills, lost replies and retries came
#   before.
# * A refusal comes out as the exception it is, also for another letter under a used key. Your function does not try
#   again by itself after a refusal. Nothing is silently left out.
# * The same letter under another key is another mail.
#
# Send with `deliver`. You may use the table or not. What the function returns does not matter.
#
# <details><summary>Hint</summary>
#
# Who remembers here what was sent? Does a second memory of your own add anything, and can it do harm?
# </details>


# %% answer id="send_keyed"
def send_keyed(mail, db, key, letter):
    """Send `letter` once to a service that honours `key`."""
    ### BEGIN SOLUTION
    deliver(mail, letter, key)
    return "sent"
    ### END SOLUTION


# %% wrong loses="keyed_kills keyed_loud" why="the key is in the table, so the service need not see it"
def send_keyed(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    mark(db, key, "pending")
    deliver(mail, letter)
    mark(db, key, "sent")
    return "sent"


# %% wrong loses="keyed_kills keyed_loud" why="each attempt gets a key of its own"
def send_keyed(mail, db, key, letter):
    deliver(mail, letter, f"{key}:{uuid.uuid4()}")
    return "sent"


# %% wrong loses="keyed_loud" why="sends the key, and keeps the shortcut through the table"
def send_keyed(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    deliver(mail, letter, key)
    mark(db, key, "sent")
    return "sent"


# %% wrong loses="keyed_loud" why="an error from the service means that it has the mail"
def send_keyed(mail, db, key, letter):
    try:
        deliver(mail, letter, key)
    except smtplib.SMTPException:
        return "already_sent"
    return "sent"


# %% wrong loses="keyed_kills keyed_loud" why="marks the mail as sent before it is sent"
def send_keyed(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    mark(db, key, "sent")
    deliver(mail, letter, key)
    return "sent"


# %% wrong loses="keyed_loud" why="a hash of the letter in the key lets every letter through"
def send_keyed(mail, db, key, letter):
    deliver(mail, letter, key + hashlib.sha256(json.dumps(letter).encode()).hexdigest())
    return "sent"


# %% wrong loses="keyed_loud" why="one key for the whole program"
def send_keyed(mail, db, key, letter):
    deliver(mail, letter, "agent@example.com")
    return "sent"


# %% wrong loses="keyed_loud" why="an error of its own in place of the service's"
def send_keyed(mail, db, key, letter):
    try:
        deliver(mail, letter, key)
    except smtplib.SMTPDataError:
        raise RuntimeError("not sent") from None
    return "sent"


# %% wrong loses="keyed_kills keyed_loud" why="a key that was used may not come again"
def send_keyed(mail, db, key, letter):
    if look(db, key) == "sent":
        raise smtplib.SMTPDataError(554, b"this key was used")
    deliver(mail, letter, key)
    mark(db, key, "sent")
    return "sent"


# %% right why="a table that keeps the letter beside the key, and sends in doubt"
def send_keyed(mail, db, key, letter):
    whole = json.dumps(letter, sort_keys=True)
    if look(db, key) == whole:
        return "already_sent"
    deliver(mail, letter, key)
    mark(db, key, whole)
    return "sent"


# %% [markdown]
# The first check kills at every line of your function and of `deliver`, restarts it and counts. Then it loses a reply.


# %% test id="keyed_kills" points=2
def report_by_key(place):
    db = open_table(place.table)
    return send_keyed(place.mail, db, KEY, REPORT)


with mail_service("keyed") as mail:
    report_keyed = explore(report_by_key, lambda: office(mail), mails, inside=[send_keyed, deliver])
    assert report_keyed.clean, (
        f"{report_keyed.verdict()}; expected one mail after each kill. Does the service see the same key in "
        "each attempt? To see all kills, run report_keyed in a cell of its own."
    )
    with office(mail) as place:
        mail.lose_reply()
        launch(report_by_key, place, echo=False)
        launch(report_by_key, place, echo=False).result()
        found = len(mail.inbox())
assert found == 1, (
    f"after a lost reply and a second run the boss has {found} mails; expected 1. Look at what differs between "
    "the two attempts."
)


# %% test id="keyed_loud" points=1
def abseil_by_key(place):
    db = open_table(place.table)
    return send_keyed(place.mail, db, KEY, ABSEIL)


def second_by_key(place):
    db = open_table(place.table)
    return send_keyed(place.mail, db, SECOND_KEY, REPORT)


with mail_service("keyed") as mail, office(mail) as place:
    mail.refuse()
    refused = launch(report_by_key, place, echo=False)
    mail.refuse(0)
    launch(report_by_key, place, echo=False).result()
    launch(report_by_key, place, echo=False).result()  # a repeat is no error
    other = launch(abseil_by_key, place, echo=False)
    found = [delivered.subject for delivered in mail.inbox()]
    launch(second_by_key, place, echo=False).result()
    in_the_end = [delivered.subject for delivered in mail.inbox()]
assert refused.end == "raised" and "SMTPDataError" in refused.reason, (
    f"the service refused with a 451, and {refused}; expected the service's SMTPDataError to come out. Look for an "
    "except."
)
assert other.end == "raised" and "SMTPDataError" in other.reason and found == ["re2"], (
    f"after a refusal, two retries, and another letter under the same key {other}, and the inbox holds {found}; "
    "expected ['re2'] and the service's 554, an SMTPDataError. Look at what keeps the service from seeing key and "
    "letter."
)
assert in_the_end == ["re2", "re2"], (
    f"the same letter under a second key is a second mail, and the inbox holds {in_the_end}; expected ['re2', 're2']. "
    "Look at which key the service sees."
)

# %% [markdown]
# Did you keep a table? Try whether you can do without. The memory that counts is the one on the side that acts, because
# only there can "acted" and "remembered" be one step.
#
# ## Fix it: a service that can only be asked
#
# An "asked" service delivers all it gets. But `mail.ask(key)` tells whether it has accepted a mail with that
# `Idempotency-Key` in its header.
#
# Write `send_asked(mail, db, key, letter)`, with the same promises: one mail for each key, and refusals come out as
# the exceptions they are, without another attempt. Send with `deliver`. Only one process sends at a time. (To ask and
# then to send are two steps. With two processes you need a claim.)


# %% answer id="send_asked"
def send_asked(mail, db, key, letter):
    """Send `letter` once to a service that can be asked about `key`."""
    ### BEGIN SOLUTION
    if mail.ask(key):
        return "already_sent"
    deliver(mail, letter, key)
    return "sent"
    ### END SOLUTION


# %% wrong loses="asked_kills" why="asks about a key that no mail carries"
def send_asked(mail, db, key, letter):
    if mail.ask(key):
        return "already_sent"
    deliver(mail, letter)
    return "sent"


# %% wrong loses="asked_kills" why="an asked service honours the key as well"
def send_asked(mail, db, key, letter):
    deliver(mail, letter, key)
    return "sent"


# %% wrong loses="asked_kills asked_loud" why="pending means that it was sent, there is no need to ask"
def send_asked(mail, db, key, letter):
    if look(db, key) is not None:
        return "already_sent"
    mark(db, key, "pending")
    deliver(mail, letter, key)
    mark(db, key, "sent")
    return "sent"


# %% wrong loses="asked_kills" why="asks once it has sent, to make sure"
def send_asked(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    deliver(mail, letter, key)
    if mail.ask(key):
        mark(db, key, "sent")
    return "sent"


# %% wrong loses="asked_loud" why="after an error the next run will ask"
def send_asked(mail, db, key, letter):
    if not mail.ask(key):
        try:
            deliver(mail, letter, key)
        except smtplib.SMTPException:
            return "unsure"
    return "sent"


# %% wrong loses="asked_loud" why="a mail that was tried is a mail that was sent"
def send_asked(mail, db, key, letter):
    if look(db, key) == "sent" or mail.ask(key):
        return "already_sent"
    try:
        deliver(mail, letter, key)
    finally:
        mark(db, key, "sent")
    return "sent"


# %% wrong loses="asked_loud" why="one key for the whole program"
def send_asked(mail, db, key, letter):
    if mail.ask("agent@example.com"):
        return "already_sent"
    deliver(mail, letter, "agent@example.com")
    return "sent"


# %% right why="asks only in doubt, and after an error at once"
def send_asked(mail, db, key, letter):
    status = look(db, key)
    if status == "sent":
        return "already_sent"
    mark(db, key, "pending")
    if status is None or not mail.ask(key):
        try:
            deliver(mail, letter, key)
        except smtplib.SMTPException:
            if not mail.ask(key):
                raise
    mark(db, key, "sent")
    return "sent"


# %% test id="asked_kills" points=2
def report_by_asking(place):
    db = open_table(place.table)
    return send_asked(place.mail, db, KEY, REPORT)


with mail_service("asked") as mail:
    report_asked = explore(
        report_by_asking, lambda: office(mail), mails, inside=[send_asked, deliver]
    )
    assert report_asked.clean, (
        f"{report_asked.verdict()}; expected one mail after each kill. Is the service asked before a second "
        "attempt, and does the mail carry the key? To see all kills, run report_asked in a cell of its own."
    )
    with office(mail) as place:
        mail.lose_reply()
        launch(report_by_asking, place, echo=False)
        launch(report_by_asking, place, echo=False).result()
        found = len(mail.inbox())
assert found == 1, (
    f"after a lost reply and a second run the boss has {found} mails; expected 1. Look at what the second run asks."
)


# %% test id="asked_loud" points=1
def second_by_asking(place):
    db = open_table(place.table)
    return send_asked(place.mail, db, SECOND_KEY, REPORT)


with mail_service("asked") as mail, office(mail) as place:
    mail.refuse()
    refused = launch(report_by_asking, place, echo=False)
    mail.refuse(0)
    launch(report_by_asking, place, echo=False).result()
    found = len(mail.inbox())
    launch(second_by_asking, place, echo=False).result()
    in_the_end = len(mail.inbox())
assert refused.end == "raised" and "SMTPDataError" in refused.reason and found == 1, (
    f"the service refused once with a 451: {refused}, and after a second run the boss has {found} mails; expected the "
    "service's SMTPDataError, then 1 mail. Look at what follows an error of deliver."
)
assert in_the_end == 2, (
    f"the same letter under a second key is a second mail, and the boss has {in_the_end}; expected 2. Look at which key "
    "you ask about, and which one the mail carries."
)

# %% [markdown]
# Asking has a weakness that keys do not have: an answer "no" may be too early. A mail can still be on its way when you
# ask. This service first deals with all that has reached it, and then answers; not every service does.
#
# ## Fix it as far as it goes: a plain service
#
# A "plain" service honours no key and answers no question. Look at what a restart can know. One process is killed
# just before it sends, another one just after the server has accepted.

# %%
with mail_service("plain") as mail:
    for moment in ("smtp.send_message(message)", 'return "accepted"'):
        with office(mail) as place:
            launch(with_file, place, kill_before=moment)
            with closing(open_table(place.table)) as db:
                print(f"table: {look(db, KEY)} | in the inbox: {len(mail.inbox())}")

# %% [markdown]
# The table says the same in both, and the table is all that a restart can see. So it must do the same in both. If it
# sends, the boss gets two mails in the second case. If it does not, the boss gets none in the first. More notes do not
# help: a process can write nothing between the moment the server accepts and its next step. **Exactly once cannot be had
# here.**
#
# What can be had is one of two promises. **At most once**: never two, perhaps none. **At least once**: never none,
# perhaps two. (The "never none" supposes that somebody keeps trying.)
#
# Write `send_plain(mail, db, key, letter)` so that it keeps one of the two, and assign its name to `plain_promise`:
# `"at most once"` or `"at least once"`. The cell has two places to fill: the body of the function, and below it
# `plain_promise`. Both promises are right answers. Either way,
#
# * without a kill or an error the letter is sent once, and a second call with that key sends nothing;
# * errors of `deliver` count as well: after a lost reply and after refusals (451), one or ten in a row, a new process
#   calls it again;
# * a refusal after which the letter is not sent comes out as an exception. Nothing is silently left out.
#
# Send with `deliver`. A second process may also raise an exception, to call for a person. What counts then is the inbox.
#
# The checks measure which promise your function keeps, and compare with what you declare: `measure_promise` kills at
# every line of `send_plain` and of `deliver`, loses a reply, refuses once and ten times, and collects what came of it.


# %%
def report_plainly(place):
    db = open_table(place.table)
    return send_plain(place.mail, db, KEY, REPORT)


MEASURED = {}


def measure_promise():
    """Return the promise that send_plain kept, and the outcomes that say so."""
    if send_plain not in MEASURED:
        MEASURED[send_plain] = kills_and_faults()
    found = MEASURED[send_plain]
    if found <= {"once", "lost"}:
        return "at most once", found
    return "at least once" if found <= {"once", "twice"} else "neither", found


def whatever_comes(place):
    """Let errors pass: a second process may well call for a person. The inbox is judged."""
    try:
        report_plainly(place)
    except NotImplementedError:
        raise
    except Exception as error:
        print(error)


def kills_and_faults():
    with mail_service("plain") as mail:
        report = explore(
            whatever_comes,
            lambda: office(mail),
            mails,
            inside=[send_plain, deliver],
            harmless=("once", "lost", "twice"),
        )
        found = set(report.counts)
        for fault, times in ((mail.lose_reply, 1), (mail.refuse, 1), (mail.refuse, 10)):
            with office(mail) as place:
                fault(times)
                launch(whatever_comes, place, echo=False)
                fault(0)  # the service has recovered
                launch(whatever_comes, place, echo=False)
                found.add(mails(place))
    return found


# %% answer id="send_plain"
def send_plain(mail, db, key, letter):
    """Send `letter` to a service that neither honours a key nor can be asked."""
    ### BEGIN SOLUTION
    if look(db, key) is not None:
        return "already_tried"
    mark(db, key, "tried")
    deliver(mail, letter)
    return "sent"
    ### END SOLUTION


# Here plain_promise: "at most once" or "at least once"
### BEGIN SOLUTION
plain_promise = "at most once"
### END SOLUTION


# %% wrong loses="plain_declared" why="a table and a mark make it exactly once"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    mark(db, key, "pending")
    deliver(mail, letter)
    mark(db, key, "sent")
    return "sent"


plain_promise = "exactly once"


# %% wrong loses="plain_declared" why="marks last, and takes that for at most once"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    deliver(mail, letter)
    mark(db, key, "sent")
    return "sent"


plain_promise = "at most once"


# %% wrong loses="plain_declared" why="marks first, and takes that for at least once"
def send_plain(mail, db, key, letter):
    if look(db, key) is None:
        mark(db, key, "sent")
        deliver(mail, letter)
    return "sent"


plain_promise = "at least once"


# %% wrong loses="plain_measured plain_declared" why="an error means not sent, so the mark is taken back"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    mark(db, key, "sent")
    try:
        deliver(mail, letter)
    except Exception:
        mark(db, key, "failed")
        raise
    return "sent"


plain_promise = "at most once"


# %% wrong loses="plain_measured plain_declared" why="sends again after a kill, but swallows a refusal"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    try:
        deliver(mail, letter)
    except smtplib.SMTPException as error:
        print(error)
    mark(db, key, "sent")
    return "sent"


plain_promise = "at least once"


# %% wrong loses="plain_measured" why="at least once needs no table"
def send_plain(mail, db, key, letter):
    deliver(mail, letter)
    return "sent"


plain_promise = "at least once"


# %% wrong loses="plain_measured" why="nothing is sent, so it is never sent twice"
def send_plain(mail, db, key, letter):
    mark(db, key, "sent")
    return "sent"


plain_promise = "at most once"


# %% wrong loses="plain_measured plain_declared" why="tries three times, and then takes it for sent"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    for _ in range(3):
        try:
            deliver(mail, letter)
            break
        except OSError as error:
            print(error)
    mark(db, key, "sent")
    return "sent"


plain_promise = "at least once"


# %% wrong loses="plain_measured" why="at most once allows a loss, so nobody need hear of it"
def send_plain(mail, db, key, letter):
    if claim(db, key):
        try:
            deliver(mail, letter)
        except smtplib.SMTPException:
            return "failed"
    return "sent"


plain_promise = "at most once"


# %% right why="at most once, and a person looks at what stayed open"
def send_plain(mail, db, key, letter):
    status = look(db, key)
    if status == "sent":
        return "already_sent"
    if status == "pending":
        raise RuntimeError(f"{key} may have been sent or not: look into it")
    mark(db, key, "pending")
    deliver(mail, letter)
    mark(db, key, "sent")
    return "sent"


plain_promise = "at most once"


# %% right why="at least once, with three attempts in each process"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    retry(deliver, mail, letter)
    mark(db, key, "sent")
    return "sent"


plain_promise = "at least once"


# %% right why="at least once"
def send_plain(mail, db, key, letter):
    if look(db, key) != "sent":
        deliver(mail, letter)
        mark(db, key, "sent")
    return "sent"


plain_promise = "at least once"


# %% right why="at most once by a claim, which a refusal gives back: a refusal is knowledge"
def send_plain(mail, db, key, letter):
    if not claim(db, key):
        return "already_tried"
    try:
        deliver(mail, letter)
    except smtplib.SMTPDataError:
        with db:
            db.execute("DELETE FROM mails WHERE key = ?", (key,))
        raise
    return "sent"


plain_promise = "at most once"

# %% test id="plain_measured" points=2
with mail_service("plain") as mail, office(mail) as place:
    found = []
    launch(report_plainly, place, echo=False).result()
    found.append(len(mail.inbox()))
    launch(report_plainly, place, echo=False)
    found.append(len(mail.inbox()))
    with office(mail) as place:
        mail.refuse(10)
        refused = launch(report_plainly, place, echo=False)
        silent = refused.end == "finished" and not mail.inbox()
assert found == [1, 1], (
    f"with no kill and no error, after one call and after two the boss has {found} mails; expected [1, 1]. "
    "Look at what the second call finds in the table."
)
assert not silent, (
    f"the service refused with a 451, and {refused}, with no mail in the inbox; expected an exception. Look at what "
    "follows an error of deliver."
)
promise, found = measure_promise()
assert promise != "neither", (
    f"kills, a lost reply and refusals gave {sorted(found)}; a promise allows 'lost' or 'twice' beside 'once', not "
    "both. Look at what is done after an error of deliver: does an error tell that nothing was sent?"
)

# %% test id="plain_declared" points=1
promises = ("at most once", "at least once")
assert plain_promise in promises, (
    f"plain_promise is {plain_promise!r}; expected one of the two texts {promises}. Look at the end of your cell."
)
promise, found = measure_promise()
assert plain_promise == promise, (
    f"you declared {plain_promise!r}, and the outcomes {sorted(found)} make it {promise!r}; expected the promise "
    "that was measured. Ask whether your mark comes before or after the mail."
)

# %% [markdown]
# Which one to choose depends on what hurts less. A build report twice is a nuisance, so: at least once. "You are fired"
# or "your card was charged" twice is worse than none at all, so: at most once, and a person looks at what stayed open.
#
# The first function of this notebook with a table, beside yours:

# %%
with mail_service("plain") as mail:
    both = {
        "send_safe": explore(with_file, lambda: office(mail), mails, inside=[send_safe, deliver]),
        "Your send_plain": explore(
            report_plainly, lambda: office(mail), mails, inside=[send_plain, deliver]
        ),
    }
side_by_side(both)

# %% [markdown]
# A table that is marked last keeps "at least once". So `send_safe` had kept a promise all along, for one letter and with
# the table in a file. It was called by the wrong name.

# %% [markdown]
# ## Choosing the key
#
# A key decides which attempts count as one mail. So far it was given. In an agent you make it, from what you know of the
# call. `tool_call_id` is the id that the model gave the call. `number` counts the calls of a step. `intent` says what the
# mail is for, in the words of the plan.


# %%
def a_call(**changes):
    call = {"run": "run-217", "step": 9, "number": 2, "tool_call_id": "call_x81f"}
    call |= {"intent": "report the build to the boss"} | REPORT
    return SimpleNamespace(**(call | changes))


def letter_of(call):
    return {"to": call.to, "subject": call.subject, "body": call.body}


# %% [markdown]
# Five ways to make a key:


# %%
def digest(*parts):
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def by_uuid4(call):
    return str(uuid.uuid4())


def by_time(call):
    return str(time.time_ns())


def by_hash(call):
    return str(hash((call.run, call.step, call.number)))


def by_tool_call_id(call):
    return call.tool_call_id


def by_intent(call):
    return digest(call.run, call.intent)


CHOICES = {
    "uuid4": by_uuid4,
    "time": by_time,
    "hash()": by_hash,
    "tool-call id": by_tool_call_id,
    "hash of intent": by_intent,
}

# %% [markdown]
# Three situations. In each, a first process is killed when its mail has just been accepted, and a second process, in a
# new interpreter, makes the second attempt:
#
# * **retry**: the same call, read from the saved run.
# * **reworded**: the model is asked again. It says the same in other words, and gives its call a new id.
# * **two mails**: the first was for step 9. Step 12 builds re2 again, and the boss is to have a second report. The model
#   writes the same text, under a new id.

# %%
REWORDED = {
    "tool_call_id": "call_k07b",
    "subject": "re2 is ready",
    "body": "Good news: re2 has been built, and it links.",
}
AGAIN = {"tool_call_id": "call_m55c", "step": 12}
SITUATIONS = {
    "retry": (a_call(), a_call()),
    "reworded": (a_call(), a_call(**REWORDED)),
    "two mails": (a_call(), a_call(**AGAIN)),
}


def make_keys(functions, calls):
    return [[function(call) for call in calls] for function in functions]


def keys_in_life(functions, calls):
    """Let a new interpreter make the keys; it draws a hash seed of its own."""
    return launch(make_keys, functions, calls, fresh=True, echo=False, deadline=20).result()


# %% [markdown]
# `attempt_both` makes the two attempts at the "keyed" service and counts the mails. If the service refuses the second
# one by a 554, since it knows the key with another body, then nothing more is delivered.


# %%
def first_attempt(mail, letter, key):
    deliver(mail, letter, key)
    print("recorded")


def attempt_both(mail, calls, keys):
    mail.clear()
    (first, second), (key, other_key) = calls, keys
    launch(first_attempt, mail, letter_of(first), key, kill_before='print("recorded")', echo=False)
    try:
        deliver(mail, letter_of(second), other_key)
    except smtplib.SMTPDataError as refusal:
        assert refusal.smtp_code == 554
    return len(mail.inbox())


def count_mails(functions, situations):
    """For each function, the number of mails in each situation."""
    one = keys_in_life(functions, [first for first, _ in situations])
    two = keys_in_life(functions, [second for _, second in situations])
    with mail_service("keyed") as mail:
        return [
            [
                attempt_both(mail, *attempt)
                for attempt in zip(situations, zip(*keys, strict=True), strict=True)
            ]
            for keys in zip(one, two, strict=True)
        ]


# %% [markdown]
# **Predict.** How many mails has the boss in the three situations, in the order above? One list of three numbers for
# each of `by_uuid4`, `by_hash`, `by_tool_call_id` and `by_intent`. Assign the list of these four lists to
# `predicted_keys`. Right for the boss would be `[1, 1, 2]`.

# %% answer id="predict_keys"
### BEGIN SOLUTION
predicted_keys = [[2, 2, 2], [2, 2, 2], [1, 2, 2], [1, 1, 1]]
### END SOLUTION

# %% wrong loses="predict_keys_check" why="the hash of equal values is equal in every process"
predicted_keys = [[2, 2, 2], [1, 1, 2], [1, 2, 2], [1, 1, 1]]

# %% wrong loses="predict_keys_check" why="the tool-call id stays when the model is asked again"
predicted_keys = [[2, 2, 2], [2, 2, 2], [1, 1, 2], [1, 1, 1]]

# %% wrong loses="predict_keys_check" why="two reports with one intent are two mails"
predicted_keys = [[2, 2, 2], [2, 2, 2], [1, 2, 2], [1, 1, 2]]

# %% wrong loses="predict_keys_check" why="a unique id is what a key has to be"
predicted_keys = [[1, 1, 2], [2, 2, 2], [1, 2, 2], [1, 1, 1]]

# %% wrong loses="predict_keys_check" why="one list for all four"
predicted_keys = [1, 1, 2]

# %% right why="tuples"
predicted_keys = ((2, 2, 2),) * 2 + ((1, 2, 2), (1,) * 3)

# %% test id="predict_keys_check" points=2
four = [by_uuid4, by_hash, by_tool_call_id, by_intent]
measured = count_mails(four, list(SITUATIONS.values()))
problem = differs(predicted_keys, measured, [function.__name__ for function in four])
assert not problem, (
    f"{problem}. Ask of the two attempts in each situation whether they get the same key, and in which process."
)

# %% [markdown]
# None of the four is right in all three situations. You will write a better one.
#
# The checks send with your keys to the "keyed" service, each second attempt with a key from a new interpreter.


# %%
def count_with_your_key(*situations):
    for call in {id(call): call for pair in situations for call in pair}.values():
        key = launch(key_for, call, echo=False).result()
        assert isinstance(key, str) and key.strip() and key.isprintable(), (
            f"key_for gave {key!r}; expected a text of one line that is not empty, since it goes into a header. "
            "Look at what key_for returns."
        )
    return count_mails([key_for], situations)[0]


# %% [markdown]
# Write `key_for(call)`. It returns a text of one line that is the same for all attempts at one mail, and differs for any
# two mails that are two: in their run, in their step, or as calls of one step.


# %% answer id="key_for"
def key_for(call):
    """Return the idempotency key of a call that sends a mail."""
    ### BEGIN SOLUTION
    return f"{call.run}:step-{call.step}:call-{call.number}"
    ### END SOLUTION


# %% wrong loses="key_retry key_reworded" why="a key must be unique, so it is random"
def key_for(call):
    return f"{call.run}:{uuid.uuid4()}"


# %% wrong loses="key_retry key_reworded" why="hash() gives the same number everywhere"
def key_for(call):
    return str(hash(f"{call.run}:{call.step}:{call.number}"))


# %% wrong loses="key_reworded" why="the model's id names the call"
def key_for(call):
    return f"{call.run}:{call.step}:{call.tool_call_id}"


# %% wrong loses="key_reworded" why="place and text"
def key_for(call):
    return digest(call.run, call.step, call.number, call.body)


# %% wrong loses="key_reworded" why="the subject stays, only the body is reworded"
def key_for(call):
    return digest(call.run, call.step, call.number, call.subject)


# %% wrong loses="key_two" why="no separator between run and step"
def key_for(call):
    return f"{call.run}{call.step}:{call.number}"


# %% wrong loses="key_two" why="the intent alone"
def key_for(call):
    return digest(call.run, call.intent)


# %% wrong loses="key_two" why="one step sends one mail"
def key_for(call):
    return f"{call.run}:step-{call.step}"


# %% wrong loses="key_two" why="the run is the same anyway"
def key_for(call):
    return f"step-{call.step}:call-{call.number}"


# %% wrong loses="key_two" why="no separator: step 1, call 12 and step 11, call 2 look alike"
def key_for(call):
    return f"{call.run}:{call.step}{call.number}"


# %% right why="a stable hash of place and intent"
def key_for(call):
    parts = [call.run, call.step, call.number, call.intent]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


# %% test id="key_retry" points=1
found = count_with_your_key(SITUATIONS["retry"])
assert found == [1], (
    f"the same call, tried again by a new process, gave {found[0]} mails; expected 1. Look for a part of your key "
    "that a new process makes anew."
)

# %% test id="key_reworded" points=1
found = count_with_your_key(SITUATIONS["reworded"])
assert found == [1], (
    f"the same mail, reworded by the model, gave {found[0]} mails; expected 1. Look for a part of your key that the "
    "model or the interpreter makes anew."
)

# %% test id="key_two" points=2
two_mails = {
    "step 9 and step 12": SITUATIONS["two mails"],
    "two calls of one step": (a_call(), a_call(number=3, tool_call_id="call_p20d")),
    "run-217 and run-218": (a_call(), a_call(run="run-218", tool_call_id="call_q11e")),
    "step 1, call 12 and step 11, call 2": (
        a_call(step=1, number=12, tool_call_id="call_r90f"),
        a_call(step=11, number=2, tool_call_id="call_s33g"),
    ),
    "run-21, step 79 and run-217, step 9": (
        a_call(run="run-21", step=79, tool_call_id="call_t08h"),
        a_call(tool_call_id="call_u61i"),
    ),
}
found = dict(zip(two_mails, count_with_your_key(*two_mails.values()), strict=True))
same = [name for name, number in found.items() if number != 2]
assert not same, (
    f"two mails that really are two ({same[0]}) came to {found[same[0]]}; expected 2. Look at what makes them two, and "
    "whether your key tells it apart."
)

# %% [markdown]
# All five and yours, measured:

# %%
ALL = CHOICES | {"your key_for": key_for}
numbers = count_mails(ALL.values(), list(SITUATIONS.values()))
counted = dict(zip(ALL, numbers, strict=True))
outcome_matrix(
    {
        "retry": {name: ["once", "twice"][n[0] - 1] for name, n in counted.items()},
        "reworded": {name: ["once", "twice"][n[1] - 1] for name, n in counted.items()},
        "two mails": {name: ["lost", "all"][n[2] - 1] for name, n in counted.items()},
    },
    "What each choice of the key did",
)

# %% [markdown]
# * `uuid4` and the time are new at each attempt, so they name the attempt and not the mail. (Made once and *saved* before
#   the first attempt, a uuid4 is a fine key.)
# * `hash()` of a text starts from a seed that each interpreter draws anew. Outside of that interpreter it
#   means nothing.
# * The tool-call id is the model's. It holds as long as the model's answer is saved; ask again and there is a new one.
# * A hash of the intent survives any rewording, and swallows the second of two mails with one intent. That is right
#   where one intent is to happen once a run.
# * Run, step and number of the call name a place in the plan. They hold as long as the plan is saved.
#
# One thing your key cannot do. Send the reworded letter after the first, both under your key:

# %%
with mail_service("keyed") as mail:
    for call in SITUATIONS["reworded"]:
        try:
            print(deliver(mail, letter_of(call), key_for(call)))
        except smtplib.SMTPDataError as refusal:
            print(refusal.smtp_code, refusal.smtp_error.decode())

# %% [markdown]
# The letter met its old key, and the service refused it: one mail, and an error to deal with. Save the letter beside its
# key before the first attempt, and the retry sends the old words.

# %% [markdown]
# ## Prove it
#
# Every strategy of this notebook against every service. Each is killed just before the mail goes out and just after it
# was accepted, and restarted; then a reply is lost. The matrix names the harm, if there was any. A service that cannot
# be asked has a dash.
#
# `send_safe` marks "sent" last and stands for at least once. `send_marked` marks first and stands for at most once.


# %%
def send_marked(mail, db, key, letter):
    if not claim(db, key):
        return "already_tried"
    deliver(mail, letter)
    return "sent"


STRATEGIES = {
    "no key": send_unsafe,
    "key table, marked last": send_safe,
    "key table, marked first": send_marked,
    "your send_keyed": send_keyed,
    "your send_asked": send_asked,
    "your send_plain": send_plain,
}


def worst(send, mail):
    def run(place):
        db = open_table(place.table)
        return send(place.mail, db, KEY, REPORT)

    found = set()
    for moment in ("smtp.send_message(message)", 'return "accepted"', None):
        with office(mail) as place:
            mail.lose_reply(0 if moment else 1)
            launch(run, place, kill_before=moment, echo=False)
            launch(run, place, echo=False)
            found.add(mails(place))
    return " or ".join(sorted(found - {"once"})) or "once"


rows = {}
for character in ("keyed", "asked", "plain"):
    with mail_service(character) as mail:
        rows[character] = {
            name: worst(send, mail)
            for name, send in STRATEGIES.items()
            if send is not send_asked or character == "asked"
        }
outcome_matrix(rows, "The worst that came of it")

# %% [markdown]
# Read it by rows. In the first two there is a strategy that gives the boss one mail, because the service does its part.
# In the last there is none: a table marked first can end in "lost", one marked last in "twice". Your `send_plain` chose.
#
# ## Say it
#
# Say it aloud, in about a minute, before you open the fold: *"How do you make sure that an agent sends a mail exactly
# once?"*
#
# <details><summary>One way to say it</summary>
#
# "By myself I cannot. The mail server and my database are two systems, so there is always a moment when the mail has been
# accepted and my record does not say so. A key table that I check before and mark after narrows the window and does
# not close it: a kill between sending and marking leaves it at pending, and the retry sends again. It also has to be in
# a file, since a restart has no memory, and it is silent when one key comes with another letter. What closes the window is the service. If it honours an idempotency key, I send the same key with each attempt
# and may retry as I like. If it can be asked, I ask before I try again. If it does neither, I choose at most once or at
# least once, by what hurts less, and say so. The key comes from run, step and call, or is made once and saved before the
# first attempt; never new at each attempt, never Python's hash(), and not the model's call id when the model may be asked
# again. The letter I save with the key, so that a retry sends the same words."
# </details>
#
# **Often confused:** *delivered exactly once* and *effective exactly once*. A message may arrive twice and still have one
# effect, when the receiver knows its key. Systems that promise "exactly once" mean the second.
#
# **They may ask next:**
#
# * The service forgets a key after 24 hours, and your agent was down for two days. What now?
# * Your mail goes to forty people, and the process dies after the twentieth. What is the key, and what do you record?
