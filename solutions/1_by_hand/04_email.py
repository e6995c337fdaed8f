# %% [markdown]
# # 04 · Email
#
# **How does the boss get exactly one mail?**
#
# 90 minutes · 17 points · before this: `03_crash_window`
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
from dataclasses import replace
from email.message import EmailMessage
from functools import cache
from itertools import product
from socketserver import StreamRequestHandler, TCPServer
from threading import Thread
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


def write_mail(letter, key):
    message = EmailMessage()
    message["From"] = "agent@example.com"
    message["To"] = letter["to"]
    message["Subject"] = letter["subject"]
    if key:
        message["Idempotency-Key"] = key
    message.set_content(letter["body"])
    return message


def deliver(mail, letter, key=""):
    message = write_mail(letter, key)
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
# `sending` makes a function for `launch`: a new process opens the table and calls one of the ways of sending.


# %%
@contextmanager
def office(mail):
    mail.clear()
    with WorkFolder.fresh() as folder:
        yield SimpleNamespace(mail=mail, table=folder.path / "mails.sqlite")


def sending(send, key=KEY, letter=REPORT):
    assert hasattr(send, "__code__"), f"expected a function that sends, and it is {send!r}"

    def run(place):
        return send(place.mail, open_table(place.table), key, letter)

    run.__name__ = send.__name__
    return run


def two_lives(mail, table=None):
    with office(mail) as place:
        place.table = table or place.table
        first = launch(sending(send_safe), place, kill_before='return "sent"')
        one = ["mail to the boss"] * len(mail.inbox())
        second = launch(sending(send_safe), place)
        both = ["mail to the boss"] * len(mail.inbox())
    return [(first, one), (second, both[len(one) :])]


with mail_service("plain") as mail:
    in_memory, in_file = two_lives(mail, ":memory:"), two_lives(mail)
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
CORRECTED = REPORT | {"body": "re2 is built. One of its tests fails."}

with mail_service("plain") as mail, office(mail) as place, closing(open_table(place.table)) as db:
    print(send_safe(mail, db, KEY, REPORT))
    print(send_safe(mail, db, KEY, ABSEIL))
    print([delivered.subject for delivered in mail.inbox()])

# %% [markdown]
# "already_sent" reads like a success, and the report on abseil went nowhere. A table that keeps only the key cannot see
# the difference.
#
# ## Two processes at once
#
# One process has looked and marked, and is about to send. In that moment another one starts with the same key. The
# order is forced here: the notebook's own process takes the steps of `send_safe` one by one.

# %%
with mail_service("plain") as mail, office(mail) as place, closing(open_table(place.table)) as db:
    print("this process looks:", look(db, KEY))
    mark(db, KEY, "pending")
    print("another process:", launch(sending(send_safe), place).result())
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


def claim_in(table):
    return claim(open_table(table), KEY)


with WorkFolder.fresh() as folder:
    table = folder.path / "mails.sqlite"
    print("this process wins:", claim_in(table))
    print("another process wins:", launch(claim_in, table).result())

# %% [markdown]
# A claim settles who sends. It does not settle what to do when the winner dies, and that is the subject of the rest.
#
# ## Predict: where a kill does harm
#
# One process at a time now, and no `retry`: `send_safe` with its table in a file, sending to a "plain" service. There
# are five trials, each with an empty inbox and a new table. In each, a first process comes to a bad end, and then a
# second one calls `send_safe` again, undisturbed. The first process is
#
# 1. killed just before `mark(db, key, "pending")`,
# 2. killed just before `deliver(mail, letter)`,
# 3. killed just before `mark(db, key, "sent")`,
# 4. killed just before `return "sent"`,
# 5. not killed, but the server refuses its mail with a 451, "try again later", and that error ends it.
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

# %% wrong loses="predict_mails_check" why="leaves out the case without a kill"
predicted_mails = [1, 1, 2, 1]

# %% right why="a tuple, put together"
predicted_mails = (1, 1) + (2,) + (1,) * 2

# %% test id="predict_mails_check" points=2
moments = [
    'mark(db, key, "pending")',
    "deliver(mail, letter)",
    'mark(db, key, "sent")',
    'return "sent"',
]
assert isinstance(predicted_mails, list | tuple) and len(predicted_mails) == 5, (
    f"predicted_mails is {predicted_mails!r}; expected a list of five numbers, one for each trial."
)
measured = []
with mail_service("plain") as mail:
    for moment in [*moments, None]:
        with office(mail) as place:
            mail.refuse(0 if moment else 1)
            launch(sending(send_safe), place, kill_before=moment, echo=False)
            launch(sending(send_safe), place, echo=False).result()
            measured.append(len(mail.inbox()))
labels = [*(f"killed before {moment}" for moment in moments), "refused once"]
problem = differs(predicted_mails, measured, labels)
assert not problem, (
    f"{problem}. Ask what the file held when the first process ended, and what send_safe does then."
)

# %% [markdown]
# Now every line, those of `deliver` and of the table included. `mails` is the judge. A line has one kill for each visit.
# A `with` line is visited when its block begins and when it ends, and `mark` is called twice, so its `with db` has four.


# %%
def mails(place):
    return {0: "lost", 1: "once", 2: "twice"}.get(len(place.mail.inbox()), "again")


with mail_service("plain") as mail:
    explored = [open_table, look, mark, send_safe, deliver]
    report_safe = explore(sending(send_safe), lambda: office(mail), mails, inside=explored)
report_safe

# %% [markdown]
# The crash window runs from the moment the server has accepted the mail to the moment the mark is committed. It holds
# the end of `deliver` and the whole of the second `mark`. You cannot make it go away: the server's file and
# your file are two files, and no single step writes both. You can only make the second attempt harmless, and for that
# the *service* has to help.
#
# ## One exception, two worlds
#
# A kill is not all that leaves you in doubt. `lost_reply` drops the connection when the service has accepted the mail.
# `hanging_up` leads to a server that listens to the whole mail, throws it away and drops the connection.


# %%
class HangsUp(StreamRequestHandler):
    def handle(self):  # says yes in advance to all that smtplib will ask
        self.wfile.write(b"220 yes\r\n250 yes\r\n250 yes\r\n250 yes\r\n354 go on\r\n")
        any(line == b".\r\n" for line in self.rfile)  # reads to the end of the mail


@contextmanager
def hanging_up(place):
    with TCPServer((place.mail.host, 0), HangsUp) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        elsewhere = replace(place.mail, port=server.server_address[1])
        try:
            yield SimpleNamespace(mail=elsewhere, table=place.table)
        finally:
            server.shutdown()


@contextmanager
def lost_reply(place):
    place.mail.lose_reply()
    yield place


with mail_service("plain") as mail:
    for trouble in (lost_reply, hanging_up):
        with office(mail) as place, trouble(place) as troubled:
            print(launch(sending(send_unsafe), troubled, echo=False).reason)
            print("    in the inbox:", len(mail.inbox()))

# %% [markdown]
# The same exception from the same line. It means neither "sent" nor "not sent". From here on one rule holds: **a call
# that returns says that the service has the letter. A call that cannot say so raises an exception.**
#
# ## Fix it: a service that honours a key
#
# A "keyed" service remembers the `Idempotency-Key` of each mail it has accepted. The same mail with the same key gets a
# 250 and is not delivered again. Another letter with that key gets a 554, which `smtplib` raises as `SMTPDataError`.
#
# Write `send_keyed(mail, db, key, letter)` for such a service:
#
# * When it has been run to its end, `letter` is in the inbox once, whatever kills, lost replies and calls came before.
# * It keeps the rule. A refusal comes out as the exception it is, and the function does not send again after it.
# * Another letter under a used key, even if only the body differs, raises an exception and is not delivered.
# * The same letter under another key is another mail.
#
# Send with `deliver`, where the kills fall. You may use the table or not. What the function returns does not matter.
#
# <details><summary>Hint</summary>
#
# Who remembers here what was sent? Does a second memory of your own add anything, and can it do harm?
# </details>
#
# The next cell serves the checks of this exercise and the next. You may run it without reading it.


# %%
def uses_deliver(send, mail):
    with office(mail) as place:
        end = {"kill_before": 'return "accepted"', "inside": [deliver]}
        return launch(sending(send), place, **end, echo=False).end == "killed"


def try_kills(send, mail, hint):
    """Kill at every line of `send` and of `deliver`: a report, and a sentence on a harm or ""."""
    report = explore(sending(send), lambda: office(mail), mails, inside=[send, deliver])
    if not report.clean:
        first = report.damage[0].outcome if report.damage else "alone"
        hints = {"twice": hint, "lost": "What made a later call believe that the service has it?"}
        said = f"{report.verdict()}; expected one mail after each kill. {hints.get(first, '')}"
        return report, said
    if not uses_deliver(send, mail):
        return report, f"{send.__name__} did not run to the end of deliver. Send with deliver."
    with office(mail) as place, lost_reply(place):
        launch(sending(send), place, echo=False)
        launch(sending(send), place, echo=False).result()
        found = len(mail.inbox())
    said = f"after a lost reply and a second call the inbox holds {found}; expected 1. {hint}"
    return report, "" if found == 1 else said


def swallowed(send, place):
    """A sentence on a refusal or a broken connection that the caller did not hear of, or ""."""
    place.mail.refuse()
    refused = launch(sending(send), place, echo=False)
    again = ", and sent again by itself" if place.mail.inbox() else ""
    place.mail.refuse(0)
    if again or not refused.reason.startswith("raised smtplib.SMTPDataError"):
        return f"refused once by a 451, {refused}{again}; expected the SMTPDataError to come out"
    with hanging_up(place) as troubled:
        broken = launch(sending(send), troubled, echo=False)
    said = f"the connection broke, nothing was accepted, and {broken}; expected an exception"
    return "" if broken.end == "raised" else said


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


# %% wrong loses="keyed_loud" why="a connection that was dropped means that the reply was lost"
def send_keyed(mail, db, key, letter):
    try:
        deliver(mail, letter, key)
    except smtplib.SMTPServerDisconnected as error:
        print(error)
    return "sent"


# %% wrong loses="keyed_loud" why="a table that tells letters apart by their subject"
def send_keyed(mail, db, key, letter):
    if look(db, key) == letter["subject"]:
        return "already_sent"
    deliver(mail, letter, key)
    mark(db, key, letter["subject"])
    return "sent"


# %% wrong loses="keyed_loud" why="the name of the service's error in an error of its own"
def send_keyed(mail, db, key, letter):
    try:
        deliver(mail, letter, key)
    except smtplib.SMTPDataError as error:
        raise RuntimeError("SMTPDataError " + str(error)) from None
    return "sent"


# %% wrong loses="keyed_loud" why="a 554 says that the key is known, so the mail is there"
def send_keyed(mail, db, key, letter):
    try:
        deliver(mail, letter, key)
    except smtplib.SMTPDataError as error:
        if error.smtp_code != 554:
            raise
    return "sent"


# %% wrong loses="keyed_loud" why="with a key one may retry, so it does"
def send_keyed(mail, db, key, letter):
    retry(deliver, mail, letter, key)
    return "sent"


# %% wrong loses="keyed_kills keyed_loud" why="a claim first, so that only one process sends"
def send_keyed(mail, db, key, letter):
    if not claim(db, key):
        return "already_sent"
    deliver(mail, letter, key)
    return "sent"


# %% wrong loses="keyed_kills" why="sends by smtplib instead of calling deliver"
def send_keyed(mail, db, key, letter):
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(write_mail(letter, key))


# %% right why="a table that keeps the letter beside the key, and sends in doubt"
def send_keyed(mail, db, key, letter):
    whole = json.dumps(letter, sort_keys=True)
    if look(db, key) == whole:
        return "already_sent"
    deliver(mail, letter, key)
    mark(db, key, whole)
    return "sent"


# %% right why="refuses another letter itself, and ends with the words of deliver"
def send_keyed(mail, db, key, letter):
    whole = json.dumps(letter, sort_keys=True)
    if look(db, key) not in (None, whole):
        raise ValueError(f"{key} came before, with another letter")
    mark(db, key, whole)
    deliver(mail, letter, key)
    return "accepted"


# %% [markdown]
# The first check kills at every line of your function and of `deliver`, each time in a new office, and calls again. Then,
# in one more office, it loses a reply.


# %% test id="keyed_kills" points=2
with mail_service("keyed") as mail:
    report_keyed, problem = try_kills(
        send_keyed, mail, "Does the service see the same key in each attempt?"
    )
assert not problem, f"{problem} To see all kills, run report_keyed in a cell of its own."

# %% test id="keyed_loud" points=1
with mail_service("keyed") as mail, office(mail) as place:
    problem = swallowed(send_keyed, place)
    assert not problem, f"{problem}. Look at what follows an error of deliver."
    for _ in range(2):
        launch(sending(send_keyed), place, echo=False).result()
    for what, other in {"another letter": ABSEIL, "another body": CORRECTED}.items():
        life = launch(sending(send_keyed, letter=other), place, echo=False)
        found = len(mail.inbox())
        assert life.end == "raised" and found == 1, (
            f"two calls, then {what} under their key: {life}, and the inbox holds {found}; "
            "expected an exception, and 1. Which key does the service see? Does an except or a "
            "table stand between?"
        )
    launch(sending(send_keyed, SECOND_KEY), place, echo=False).result()
    found = len(mail.inbox())
assert found == 2, (
    f"the same letter under a second key is a second mail, and the inbox holds {found}; expected 2."
    " Look at which key the service sees."
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
# Write `send_asked(mail, db, key, letter)`. When it has been run to its end, one mail with that key is in the inbox,
# whatever kills, lost replies and calls came before. It keeps the rule, lets a refusal come out as the exception it is,
# and does not send again after it. Send with `deliver`.
#
# Two things you need not deal with: one key comes with one letter only, and one process sends at a time.


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


# %% wrong loses="asked_loud" why="a connection that was dropped means that the reply was lost"
def send_asked(mail, db, key, letter):
    if not mail.ask(key):
        try:
            deliver(mail, letter, key)
        except smtplib.SMTPServerDisconnected as error:
            print(error)
    return "sent"


# %% wrong loses="asked_loud" why="asks before each of three attempts"
def send_asked(mail, db, key, letter):
    for attempt in (1, 2, 3):
        if mail.ask(key):
            return "already_sent"
        try:
            return deliver(mail, letter, key)
        except smtplib.SMTPException:
            if attempt == 3:
                raise


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
with mail_service("asked") as mail:
    report_asked, problem = try_kills(
        send_asked,
        mail,
        "Is the service asked before a second attempt, and does the mail carry the key?",
    )
assert not problem, f"{problem} To see all kills, run report_asked in a cell of its own."

# %% test id="asked_loud" points=1
with mail_service("asked") as mail, office(mail) as place:
    problem = swallowed(send_asked, place)
    assert not problem, f"{problem}. Look at what follows an error of deliver."
    found = []
    for key in (KEY, SECOND_KEY):
        launch(sending(send_asked, key), place, echo=False).result()
        found.append(len(mail.inbox()))
assert found == [1, 2], (
    f"after a refusal and a broken connection, one call with each of two keys brought the inbox to "
    f"{found}; expected [1, 2]. Which key do you ask about, and which one does the mail carry?"
)

# %% [markdown]
# What asking cannot see: a second process, forced to come in between as before, and another letter under the key.

# %%
with mail_service("asked") as mail, office(mail) as place:
    print("this process asks:", mail.ask(KEY))
    print("another process:", launch(sending(send_asked), place, echo=False))
    print("this process sends:", deliver(mail, REPORT, KEY))
    print("a report on abseil:", launch(sending(send_asked, letter=ABSEIL), place, echo=False))
    print("really sent:", [delivered.subject for delivered in mail.inbox()])

# %% [markdown]
# re2 twice: the "no" was true when it was given and not when it was used. And abseil never, unless your function keeps
# letters too: `mail.ask` knows the key and not the letter.
#
# ## Fix it as far as it goes: a plain service
#
# A "plain" service honours no key and answers no question. Look at what a restart can know. One process is killed
# just before it sends, another one just after the server has accepted.

# %%
with mail_service("plain") as mail:
    for moment in ("smtp.send_message(message)", 'return "accepted"'):
        with office(mail) as place:
            launch(sending(send_safe), place, kill_before=moment)
            with closing(open_table(place.table)) as db:
                print(f"table: {look(db, KEY)} | in the inbox: {len(mail.inbox())}")

# %% [markdown]
# The table says the same in both, and the table is all that a restart can see. So it must do the same in both. If it
# sends, the boss gets two mails in the second case. If it does not, the boss gets none in the first. More notes do not
# help: a process can write nothing between the moment the server accepts and its next step. **Exactly once cannot be had
# here.**
#
# What can be had is one of two promises. **At most once**: never two, perhaps none. **At least once**: never none, as
# long as somebody calls again, and perhaps two. Both are right answers here. First decide: assign `"at most once"` or
# `"at least once"` to `plain_promise`.

# %% answer id="plain_promise"
### BEGIN SOLUTION
plain_promise = "at most once"
### END SOLUTION

# %% [markdown]
# Then write `send_plain(mail, db, key, letter)` so that it keeps your promise, and the rule: where a call cannot say that
# the letter is sent, its exception lets somebody know.
#
# * Without a kill or an error the letter is sent once. A second call with that key returns and sends nothing. A call
#   with another key sends another mail.
# * After each kill and each error a new process calls again. Ten in a row may be refused with a 451, before the service
#   has recovered.
# * However often the service refuses, a call comes to an end.
#
# One key comes with one letter, and one process sends at a time. Send with `deliver`.
#
# The checks look into the inbox and listen to your function. Beside "once", "twice" and "lost" there is a fourth word,
# "silent": no mail, and yet a call returned. No promise allows that.


# %%
@contextmanager
def refusing(place):
    place.mail.refuse(10**9)
    yield place
    place.mail.refuse(0)


def calling(send):
    """Like `sending`, but an exception is heard and no crash, and a return leaves a note."""

    def run(place):
        try:
            sending(send)(place)
        except NotImplementedError:
            raise
        except Exception as error:
            print(error)
        else:
            place.table.with_name("returned").touch()

    run.__name__ = send.__name__
    return run


def heard(place):
    returned = place.table.with_name("returned").exists()
    return "silent" if returned and not place.mail.inbox() else mails(place)


def after(trouble, processes, send, mail):
    """What came of trouble for so many processes, and of one more without."""
    with office(mail) as place:
        with trouble(place) as troubled:
            for _ in range(processes):
                life = launch(calling(send), troubled, echo=False)
                if life.end == "stuck" or heard(place) == "silent":
                    return "stuck" if life.end == "stuck" else "silent"
        launch(calling(send), place, echo=False)
        return heard(place)


# %% answer id="send_plain"
def send_plain(mail, db, key, letter):
    """Send `letter` to a service that neither honours a key nor can be asked."""
    ### BEGIN SOLUTION
    if look(db, key) == "sent":
        return "already_sent"
    if not claim(db, key):
        raise RuntimeError(f"{key} was tried before, and how it ended is not known")
    deliver(mail, letter)
    mark(db, key, "sent")
    return "sent"
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


# %% wrong loses="plain_declared" why="declares what was measured and has decided nothing"
def send_plain(mail, db, key, letter):
    if look(db, key) != "sent":
        deliver(mail, letter)
        mark(db, key, "sent")


try:
    plain_promise = measure(send_plain)[2]
except NameError:
    plain_promise = None


# %% wrong loses="plain_kept plain_declared" why="marks first, and takes that for at least once"
def send_plain(mail, db, key, letter):
    if look(db, key) is None:
        mark(db, key, "sent")
        deliver(mail, letter)
    return "sent"


plain_promise = "at least once"


# %% wrong loses="plain_kept" why="a letter that was tried is done with, at most once"
def send_plain(mail, db, key, letter):
    if not claim(db, key):
        return "already_tried"
    deliver(mail, letter)
    return "sent"


# %% wrong loses="plain_kept" why="marks the mail as sent before it is sent"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    mark(db, key, "sent")
    deliver(mail, letter)
    return "sent"


# %% wrong loses="plain_kept plain_declared" why="an error means not sent, so the mark is taken back"
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


# %% wrong loses="plain_kept plain_declared" why="sends again after a kill, but swallows a refusal"
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


# %% wrong loses="plain_sends" why="at least once needs no table"
def send_plain(mail, db, key, letter):
    deliver(mail, letter)
    return "sent"


plain_promise = "at least once"


# %% wrong loses="plain_sends plain_kept plain_declared" why="nothing is sent, so it is never sent twice"
def send_plain(mail, db, key, letter):
    mark(db, key, "sent")
    return "sent"


# %% wrong loses="plain_kept plain_declared" why="tries three times, and then takes it for sent"
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


# %% wrong loses="plain_kept" why="at most once allows a loss, so nobody need hear of it"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    if not claim(db, key):
        raise RuntimeError("tried before")
    try:
        deliver(mail, letter)
    except smtplib.SMTPDataError:
        return "failed"
    mark(db, key, "sent")
    return "sent"


# %% wrong loses="plain_kept" why="a connection that was dropped means that the reply was lost"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    if not claim(db, key):
        raise RuntimeError("tried before")
    try:
        deliver(mail, letter)
    except smtplib.SMTPServerDisconnected as error:
        print(error)
    mark(db, key, "sent")
    return "sent"


# %% wrong loses="plain_kept plain_declared" why="two refusals are enough, then it gives up in silence"
def send_plain(mail, db, key, letter):
    status = look(db, key)
    if status in ("sent", "given up"):
        return status
    try:
        deliver(mail, letter)
    except smtplib.SMTPException:
        mark(db, key, "given up" if status == "refused" else "refused")
        raise
    mark(db, key, "sent")
    return "sent"


plain_promise = "at least once"


# %% wrong loses="plain_kept plain_declared" why="two refusals are enough, then a person may look at it"
def send_plain(mail, db, key, letter):
    status = look(db, key)
    if status == "sent":
        return "already_sent"
    if status == "given up":
        raise RuntimeError("refused twice")
    try:
        deliver(mail, letter)
    except smtplib.SMTPException:
        mark(db, key, "given up" if status == "refused" else "refused")
        raise
    mark(db, key, "sent")
    return "sent"


plain_promise = "at least once"


# %% wrong loses="plain_sends" why="one name in the table for all mails"
def send_plain(mail, db, key, letter):
    if look(db, "report") != "sent":
        deliver(mail, letter)
        mark(db, "report", "sent")


plain_promise = "at least once"


# %% wrong loses="plain_sends" why="the subject is what tells one mail from another"
def send_plain(mail, db, key, letter):
    if look(db, letter["subject"]) == "sent":
        return "already_sent"
    if not claim(db, letter["subject"]):
        raise RuntimeError("tried before")
    deliver(mail, letter)
    mark(db, letter["subject"], "sent")
    return "sent"


# %% wrong loses="plain_sends" why="a claim and nothing after it: every repeat calls for a person"
def send_plain(mail, db, key, letter):
    if not claim(db, key):
        raise RuntimeError(f"{key} was tried before")
    deliver(mail, letter)


# %% wrong loses="plain_kept plain_declared" why="never gives up, in one process"
def send_plain(mail, db, key, letter):
    while look(db, key) != "sent":
        try:
            deliver(mail, letter)
            mark(db, key, "sent")
        except smtplib.SMTPDataError:
            time.sleep(0.1)


plain_promise = "at least once"


# %% wrong loses="plain_sends" why="sends by smtplib instead of calling deliver"
def send_plain(mail, db, key, letter):
    if look(db, key) == "sent":
        return "already_sent"
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(write_mail(letter, ""))
    mark(db, key, "sent")
    return "sent"


plain_promise = "at least once"


# %% wrong loses="plain_kept plain_declared" why="looks into the service's own file"
def send_plain(mail, db, key, letter):
    with closing(sqlite3.connect(mail.file)) as theirs:
        sent = theirs.execute("SELECT count(*) FROM mail").fetchone()[0]
    if look(db, key) == "sent" or (look(db, key) and sent):
        return "already_sent"
    mark(db, key, "pending")
    deliver(mail, letter)
    mark(db, key, "sent")
    return "sent"


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
    if look(db, key) == "sent":
        return "already_sent"
    if not claim(db, key):
        raise RuntimeError(f"{key} is open")
    try:
        deliver(mail, letter)
    except smtplib.SMTPDataError:
        with db:
            db.execute("DELETE FROM mails WHERE key = ?", (key,))
        raise
    mark(db, key, "sent")
    return "sent"


# %% test id="plain_sends" points=1
with mail_service("plain") as mail:
    with office(mail) as place:
        calls, found = [], []
        for key in (KEY, KEY, SECOND_KEY):
            calls.append(launch(sending(send_plain, key), place, echo=False))
            found.append(len(mail.inbox()))
    calls[0].result()
    assert found == [1, 1, 2], (
        "with no kill and no error, after a call, a second one and one with another key the inbox "
        f"holds {found}; expected [1, 1, 2]. What does a later call find in the table, and where?"
    )
    assert calls[1].end == "finished", (
        f"the letter was sent, and the second call of {calls[1]}; expected it to return. Look at "
        "what the table says when all has gone well."
    )
    used = uses_deliver(send_plain, mail)
assert used, "send_plain did not run to the end of deliver. Send with deliver."

# %% test id="plain_kept" points=1
PROMISES = {"at most once": ("once", "lost"), "at least once": ("once", "twice")}


@cache
def measure(send):
    """A crash map of `send`, all that came of kills and troubles, and the promise that was kept."""
    words = ("once", "lost", "silent", "twice")
    with mail_service("plain") as mail:
        world, inside = (lambda: office(mail)), [send, deliver]
        report = explore(calling(send), world, heard, inside=inside, harmless=words)
        found = {report.uninterrupted, *report.counts}
        for trouble, processes in ((lost_reply, 1), (hanging_up, 1), (refusing, 10)):
            found.add(after(trouble, processes, send, mail))
    mailed = {"lost" if word == "silent" else word for word in found}
    kept = [promise for promise, allowed in PROMISES.items() if mailed <= {*allowed}]
    one = report.uninterrupted == "once" and len(kept) == 1
    return report, sorted(found), kept[0] if one else "neither"


_, found, promise = measure(send_plain)
assert "silent" not in found, (
    f"kills and troubles gave {found}; expected no 'silent', where a call returns and the inbox is "
    "empty. Which of your returns does not know that the letter is sent?"
)
assert promise != "neither", (
    f"kills and troubles gave {found}; expected 'once' and either 'lost' or 'twice'. Look at what "
    "follows an error of deliver: does it tell that nothing was sent? May a later call give up?"
)

# %% test id="plain_declared" points=1
assert plain_promise in [*PROMISES], (
    f"plain_promise is {plain_promise!r}; expected one of {[*PROMISES]}. Look where you assign it."
)
_, found, promise = measure(send_plain)
assert plain_promise == promise, (
    f"you declared {plain_promise!r}, and the outcomes {found} make it {promise!r}; expected the "
    "promise that was measured. Does your mark come before or after the mail?"
)

# %% [markdown]
# A build report twice is a nuisance, so: at least once. "You are fired" or "your card was charged" twice is worse than
# none at all, so: at most once, and a person looks at what stayed open.
#
# `send_safe`, beside yours. Grey is an outcome that the promise allows.

# %%
with mail_service("plain") as mail:
    world, inside = (lambda: office(mail)), [send_safe, deliver]
    allowed = PROMISES["at least once"]
    safe = explore(sending(send_safe), world, mails, inside=inside, harmless=allowed)
yours, _, kept = measure(send_plain)
yours = replace(yours, harmless=PROMISES.get(kept, ("once",)))
side_by_side({"send_safe: at least once": safe, f"your send_plain: {kept}": yours})

# %% [markdown]
# A table that is marked last keeps "at least once", with a grey "twice" from the accepted mail to the mark. So
# `send_safe` had kept a promise all along, for one letter and with the table in a file. It was called by the wrong name.
# If yours is marked first, it has a grey "lost" from the mark to the accepted mail. None of these is silent: the second
# process raised an exception, and a person may ask the boss.
#
# ## Choosing the key
#
# A key decides which attempts count as one mail. So far it was given. In an agent you make it, from what you know of the
# call. `tool_call_id` is the id that the model gave the call. `number` counts the calls of a step. `intent` says what the
# mail is for, in the words of the plan. Five ways to make a key:


# %%
def a_call(**changes):
    call = {"run": "run-217", "step": 9, "number": 2, "tool_call_id": "call_x81f"}
    call |= {"intent": "report the build to the boss"} | REPORT
    return SimpleNamespace(**(call | changes))


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


# %% [markdown]
# Three situations. In each, a first process is killed when its mail has just been accepted, and a second process, in a
# new interpreter, makes the second attempt:
#
# * **retry**: the same call, read from the saved run.
# * **reworded**: the model is asked again. It says the same in other words, and gives its call a new id.
# * **two mails**: the first was for step 9. Step 12 builds re2 again, and the boss is to have a second report. The model
#   writes the same text, under a new id.
#
# `count_mails` makes all attempts at one "keyed" service; a name in front of each key keeps them apart. Where the service
# refuses the second attempt by a 554, since it knows the key with another letter, nothing more is delivered.

# %%
REWORDED = {"subject": "re2 is ready", "body": "Good news: re2 has been built, and it links."}
SITUATIONS = {
    "retry": (a_call(), a_call()),
    "reworded": (a_call(), a_call(tool_call_id="call_k07b", **REWORDED)),
    "two mails": (a_call(), a_call(tool_call_id="call_m55c", step=12)),
}


def attempt(mail, choices, which):
    """Make the first (0) or the second (1) attempt everywhere, and return what was refused."""
    refused = []
    for name, choice in choices.items():
        for situation, calls in SITUATIONS.items():
            call = calls[which]
            letter = {"to": call.to, "subject": call.subject, "body": call.body}
            try:
                deliver(mail, letter, f"{name}/{situation}/{choice(call)}")
            except smtplib.SMTPDataError:
                refused.append((name, situation))
    return refused


def count_mails(choices):
    """For each choice the number of mails in each situation; and what was refused."""
    new = {"fresh": True, "echo": False, "deadline": 20}
    with mail_service("keyed") as mail:
        launch(attempt, mail, choices, 0, kill_before="return refused", **new)
        refused = launch(attempt, mail, choices, 1, **new).result()
        arrived = [delivered.key.split("/")[:2] for delivered in mail.inbox()]
    return {name: [arrived.count([name, each]) for each in SITUATIONS] for name in choices}, refused


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

# %% wrong loses="predict_keys_check" why="three of the four"
predicted_keys = [[2, 2, 2], [2, 2, 2], [1, 2, 2]]

# %% right why="tuples"
predicted_keys = ((2, 2, 2),) * 2 + ((1, 2, 2), (1,) * 3)

# %% test id="predict_keys_check" points=2
four = {each.__name__: each for each in (by_uuid4, by_hash, by_tool_call_id, by_intent)}
rows = predicted_keys if isinstance(predicted_keys, list | tuple) else []
assert [len(row) if isinstance(row, list | tuple) else 0 for row in rows] == [3] * 4, (
    f"predicted_keys is {predicted_keys!r}; expected a list of four lists of three numbers."
)
counted, _ = count_mails(four)
problem = differs(predicted_keys, list(counted.values()), list(four))
assert not problem, (
    f"{problem}. Ask of the two attempts in each situation whether they get the same key, and in "
    "which process."
)

# %% [markdown]
# None of the four is right in all three situations. You will write a better one.
#
# Write `key_for(call)`. It returns a text of one line that is the same for all attempts at one mail, and differs for any
# two mails that are two: in their run, in their step, or as calls of one step.
#
# The checks compare keys, made by two new interpreters.


# %%
STRANGER = a_call(run="run-4", step=1, number=1, tool_call_id="call_z", intent="warn", **ABSEIL)


def make_keys(choice, calls):
    return [choice(call) for call in calls]


@cache
def keys_in_two_lives(choice):
    """The key of a call; in a second life, the keys of the call retried and reworded."""
    new = {"fresh": True, "echo": False, "deadline": 20}
    again, reworded = SITUATIONS["retry"][1], SITUATIONS["reworded"][1]
    key, other = launch(make_keys, choice, [a_call(), STRANGER], **new).result()
    _, *later = launch(make_keys, choice, [STRANGER, again, reworded], **new).result()
    for made in (key, other, *later):
        assert isinstance(made, str) and made.strip() and made.isprintable(), (
            f"key_for gave {made!r}; expected a text of one line that is not empty, since it goes "
            "into a header. Look at what key_for returns."
        )
    assert key != other, f"two mails with nothing in common both got {key!r}; expected two keys."
    return key, *later


# %% answer id="key_for"
def key_for(call):
    """Return the idempotency key of a call that sends a mail."""
    ### BEGIN SOLUTION
    return f"{call.run}:step-{call.step}:call-{call.number}"
    ### END SOLUTION


# %% wrong loses="key_retry key_reworded key_two" why="a key must be unique, so it is random"
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


# %% wrong loses="key_retry key_reworded key_two" why="one key for everything"
def key_for(call):
    return KEY


# %% wrong loses="key_two" why="step and number in one number"
def key_for(call):
    return f"{call.run}:{call.step * 10 + call.number}"


# %% wrong loses="key_two" why="two letters of a hash are enough"
def key_for(call):
    return digest(call.run, call.step, call.number)[:2]


# %% wrong loses="key_two" why="two digits each, so no separator is needed"
def key_for(call):
    return f"{call.run}{call.step:02}{call.number:02}"


# %% wrong loses="key_retry key_reworded" why="numbers the mails as they come, in the memory of the process"
numbers = {}


def key_for(call):
    place = (call.run, call.step, call.number)
    return f"mail-{numbers.setdefault(place, len(numbers))}"


# %% wrong loses="key_retry key_reworded key_two" why="the parts as a tuple, which is no text"
def key_for(call):
    return (call.run, call.step, call.number)


# %% right why="a stable hash of place and intent"
def key_for(call):
    parts = [call.run, call.step, call.number, call.intent]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


# %% test id="key_retry" points=1
keys_in_two_lives.cache_clear()  # measure anew
first, retried, _ = keys_in_two_lives(key_for)
assert first == retried, (
    f"a call got the key {first!r}, and in a new process {retried!r}; expected one key. Look for a "
    "part of your key that a new process makes anew."
)

# %% test id="key_reworded" points=1
first, _, reworded = keys_in_two_lives(key_for)
assert first == reworded, (
    f"a mail got the key {first!r}, and {reworded!r} when the model had reworded it; expected one "
    "key. Look for a part of your key that the model or the interpreter makes anew."
)


# %% test id="key_two" points=2
def first_fault(choice):
    """A call with two keys, or two of forty thousand mails with one, in a sentence, or ""."""
    seen = {}
    runs, numbers = ("run-2", "run-21", "run-217", "run-218"), range(1, 105)
    for run, step, number in product(runs, numbers, numbers):
        name = f"{run}, step {step}, call {number}"
        call = a_call(run=run, step=step, number=number, tool_call_id=f"call of {name}")
        key = choice(call).strip()
        if choice(call).strip() != key:
            return f"one call ({name}) got two keys in one process; expected one"
        if key in seen:
            return f"two mails ({seen[key]}; {name}) got one key, {key!r}; expected two"
        seen[key] = name
    return ""


keys_in_two_lives(key_for)  # do they have the right form?
problem = launch(first_fault, key_for, echo=False, deadline=20).result()
assert not problem, f"{problem}. Look at what makes two mails two, and whether your key shows it."

# %% [markdown]
# All five and yours, measured:

# %%
CHOICES = {
    "uuid4": by_uuid4,
    "time": by_time,
    "hash()": by_hash,
    "tool-call id": by_tool_call_id,
    "hash of intent": by_intent,
    "your key_for": key_for,
}
counted, refused = count_mails(CHOICES)


def word(name, situation, number):
    found = {"two mails": {1: "lost", 2: "all"}}.get(situation, {1: "once", 2: "twice"})[number]
    return found + (", 554" if (name, situation) in refused else "")


outcome_matrix(
    {
        situation: {name: word(name, situation, row[n]) for name, row in counted.items()}
        for n, situation in enumerate(SITUATIONS)
    },
    "What each choice of the key did",
)

# %% [markdown]
# * `uuid4` and the time are new at each attempt, so they name the attempt and not the mail. (A uuid4 that is made once
#   and saved before the first attempt would be the same in all of them.)
# * `hash()` of a text starts from a seed that each interpreter draws anew. Outside of that interpreter it
#   means nothing.
# * The tool-call id is the model's. It holds as long as the model's answer is saved; ask again and there is a new one.
# * A hash of the intent survives any rewording, and swallows the second of two mails with one intent. That is right
#   where one intent is to happen once a run.
# * Run, step and number of the call name a place in the plan. They hold as long as the plan is saved.
#
# "once, 554" is one mail and an error to deal with: the new words met their old key, and the service refused them. Save
# the letter beside its key before the first attempt, and the retry sends the old words.
#
# ## Prove it
#
# Every strategy of this notebook against every service. Each is put to three trials in new offices: a first process is
# killed just before the mail goes out; or just after the service has accepted it; or the reply is lost. Then a second
# process calls again. The matrix names the harm, if any of the three did some. A dash: that service cannot be asked.
#
# `send_safe` marks "sent" last and stands for at least once. `send_marked` marks first and stands for at most once.


# %%
def send_marked(mail, db, key, letter):
    if look(db, key) is not None:
        raise RuntimeError("a person must look into it")
    mark(db, key, "tried")
    deliver(mail, letter)


STRATEGIES = {
    "no key": send_unsafe,
    "key table, marked last": send_safe,
    "key table, marked first": send_marked,
    "your send_keyed": send_keyed,
    "your send_asked": send_asked,
    "your send_plain": send_plain,
}


def worst(send, mail):
    found = set()
    for moment in ("smtp.send_message(message)", 'return "accepted"', None):
        with office(mail) as place:
            mail.lose_reply(0 if moment else 1)
            first = launch(sending(send), place, kill_before=moment, inside=[deliver], echo=False)
            if first.stub:
                first.result()  # which says so
            launch(sending(send), place, echo=False)
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
# a file, since a restart has no memory, and it is silent when one key comes with another letter. What closes the window
# is the service. If it honours an idempotency key, I send the same key with each attempt and may retry as I like. If it
# can be asked, I ask before I try again. If it does neither, I choose at most once or at least once, by what hurts less,
# and say so; with at most once, what stayed open is raised to a person and never called sent. The key comes from run,
# step and call, or is made once and saved before the first attempt; never new at each attempt, never Python's hash(), and
# not the model's call id when the model may be asked again. The letter I save with the key, so that a retry sends the
# same words."
# </details>
#
# **Often confused:** *delivered exactly once* and *effective exactly once*. A message may arrive twice and still have one
# effect, when the receiver knows its key. Systems that promise "exactly once" mean the second.
#
# **They may ask next:**
#
# * The service forgets a key after 24 hours, and your agent was down for two days. What now?
# * Your mail goes to forty people, and the process dies after the twentieth. What is the key, and what do you record?
