"""A mail service: a real SMTP server in a process of its own, which outlives those who send by it.

`mail_service` starts this file as a program. It listens on two free ports of 127.0.0.1, one for
SMTP and one for queries (a JSON array in a line, answered by a JSON value in a line). It keeps what
it accepts in an SQLite file and commits before it answers 250, so that a mail is there whatever
becomes of its sender or of the answer.

It ends when its stdin does: the other end is held by the process that started it, and the operating
system closes that however the process dies.
"""

import asyncio
import contextlib
import json
import multiprocessing
import os
import select
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

Character = Literal["keyed", "asked", "plain"]

HOST = "127.0.0.1"
PATIENCE = 10.0  # seconds for an answer to a query, and for the server's end
NO_FAULTS = {"lose_reply": 0, "refuse": 0, "slow": 0.0}


@dataclass(frozen=True)
class Delivered:
    """One mail that was delivered.

    `to` holds the recipients of the SMTP dialogue, with ", " between several. `body` is the text,
    without the line breaks at its end. `key` is the Idempotency-Key header, "" if there was none.
    """

    to: str
    subject: str
    body: str
    key: str


@dataclass(frozen=True)
class MailService:
    """A running mail service, as others see it: `smtplib.SMTP(mail.host, mail.port)`.

    The object may travel to other processes. What is for the judge (all but `host`, `port` and
    `ask`) raises RuntimeError in a process made by `launch`; every method does so once the service
    has ended. Before it answers, the service deals with all that has reached it by then, from
    senders that have died as well.
    """

    host: str
    port: int
    character: Character
    query_port: int
    file: Path

    def ask(self, key: str) -> bool:
        """Say whether a mail with this Idempotency-Key was accepted.

        Only an "asked" service tells: RuntimeError from any other. ValueError if the key is empty
        or not a text.
        """
        if self.character != "asked":
            raise RuntimeError(
                f'this mail service is "{self.character}" and cannot be asked; an "asked" one can'
            )
        if not isinstance(key, str) or not key:
            raise ValueError(f"mail.ask needs the key of a mail, a text, not {key!r}")
        return self._query("ask", key)

    def inbox(self) -> list[Delivered]:
        """Return what was delivered, in order."""
        self._judge("inbox")
        self._query("settle")
        with closing(sqlite3.connect(self.file)) as db:
            rows = db.execute("SELECT recipient, subject, body, key FROM mail ORDER BY id")
            return [Delivered(*row) for row in rows]

    def lose_reply(self, times: int = 1) -> None:
        """Accept the next `times` mails and drop the connection in place of the answer.

        The sender sees `smtplib.SMTPServerDisconnected`. ValueError if `times` is no whole number
        from 0.
        """
        self._judge("lose_reply")
        self._query("set", {"lose_reply": _count("lose_reply", times)})

    def refuse(self, times: int = 1) -> None:
        """Refuse the next `times` mails with a 451, which means "try again later".

        The sender sees `smtplib.SMTPDataError`. ValueError if `times` is no whole number from 0.
        """
        self._judge("refuse")
        self._query("set", {"refuse": _count("refuse", times)})

    def slow(self, seconds: float) -> None:
        """Wait so long before each answer to a mail; the mail is accepted before the wait.

        ValueError if `seconds` is below 0.
        """
        self._judge("slow")
        if not seconds >= 0:
            raise ValueError(f"mail.slow needs a number of seconds from 0, not {seconds!r}")
        self._query("set", {"slow": seconds})

    def clear(self) -> None:
        """Empty the inbox, forget all keys and end all faults, as if the service were new."""
        self._judge("clear")
        self._query("clear")

    def _judge(self, what: str) -> None:
        if multiprocessing.parent_process():
            raise RuntimeError(f"mail.{what}() is for the judge: an agent cannot look there")

    def _query(self, what: str, value: Any = None) -> Any:
        try:
            with (
                socket.create_connection((self.host, self.query_port), PATIENCE) as connection,
                connection.makefile("rw") as lines,
            ):
                print(json.dumps([what, value]), file=lines, flush=True)
                return json.loads(lines.readline())
        except (OSError, ValueError):
            raise RuntimeError(
                "the mail service does not answer: it ends with its `with` block"
            ) from None


@contextmanager
def mail_service(character: Character) -> Iterator[MailService]:
    """Start a mail service, and end it with the `with` block.

    "keyed"  honours an Idempotency-Key header: the same mail with the same key is answered by 250
             and not delivered again; another recipient, subject or body with that key is answered
             by a 554 that says so
    "asked"  delivers all it gets, and can be asked whether a key was among it
    "plain"  delivers all it gets, and tells nothing

    The service ends as well when the process that started it dies, and removes its file. (Should
    both be killed, a folder `crashlab-…` stays in the temporary folder.) Raises ValueError for
    another character, RuntimeError if the service does not start.
    """
    if character not in get_args(Character):
        known = '"keyed", "asked" or "plain"'
        raise ValueError(f"the character of a mail service is {known}, not {character!r}")
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, character],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C is for us: the service ends after us
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    folder = None
    try:
        said = json.loads(process.stdout.readline() or '{"error": "its process ended at once"}')
        if "error" in said:
            raise RuntimeError(f"the mail service did not start: {said['error']}")
        folder = Path(said["folder"])
        yield MailService(HOST, said["port"], character, said["query_port"], folder / "mail.sqlite")
    finally:
        _end(process, folder)


def _end(process: subprocess.Popen, folder: Path | None) -> None:
    try:
        process.communicate(b"end", PATIENCE)  # a fork of ours may hold the pipe open: say it
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    if folder:  # left only by a service that was killed
        shutil.rmtree(folder, ignore_errors=True)


def _count(name: str, times: int) -> int:
    if not isinstance(times, int) or times < 0:
        raise ValueError(f"mail.{name} needs a whole number of times from 0, not {times!r}")
    return times


# The service's side, in its own process


class _Service:
    """What the two ports have in common: the inbox, the faults, the clients."""

    def __init__(self, character: Character, db: sqlite3.Connection) -> None:
        self.character = character
        self.db = db
        self.faults = dict(NO_FAULTS)
        self.clients = weakref.WeakSet()
        self.listening: list[socket.socket] = []
        db.execute("PRAGMA synchronous = OFF")  # outlives processes; power loss is no subject here
        db.execute(
            "CREATE TABLE mail (id INTEGER PRIMARY KEY, recipient TEXT, subject TEXT, body TEXT, "
            "key TEXT)"
        )

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Answer a mail that has come in whole: aiosmtpd calls this, and sends what it returns."""
        if self._strikes("refuse"):
            answer = "451 4.3.0 not now, try again later"
        else:
            answer = self._accept(_read(envelope))  # nothing runs in between: no two at once
        lost = answer.startswith("250") and self._strikes("lose_reply")
        await asyncio.sleep(self.faults["slow"])
        if lost:
            server.transport.abort()
        return answer

    def _strikes(self, fault: str) -> bool:
        left = self.faults[fault]
        self.faults[fault] = max(left - 1, 0)
        return left > 0

    def _accept(self, mail: Delivered) -> str:
        if self.character == "keyed" and mail.key:
            select_known = "SELECT recipient, subject, body, key FROM mail WHERE key = ?"
            known = self.db.execute(select_known, (mail.key,)).fetchone()
            if known:
                names = ("recipient", "subject", "body")
                new = zip(names, known, astuple(mail), strict=False)
                other = " and ".join(name for name, before, now in new if before != now)
                refusal = f"554 5.6.0 this Idempotency-Key came before, with another {other}"
                return refusal if other else "250 OK"
        with self.db:
            insert = "INSERT INTO mail (recipient, subject, body, key) VALUES (?, ?, ?, ?)"
            self.db.execute(insert, astuple(mail))
        return "250 OK"

    async def query(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one query."""
        with closing(writer), contextlib.suppress(ConnectionError, ValueError):
            what, value = json.loads(await reader.readline())
            await self._settle()
            answer = None
            if what == "ask":
                row = self.db.execute("SELECT 1 FROM mail WHERE key = ?", (value,)).fetchone()
                answer = row is not None
            elif what == "set":
                self.faults.update(value)
            elif what == "clear":
                self.faults.update(NO_FAULTS)
                with self.db:
                    self.db.execute("DELETE FROM mail")
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()

    async def _settle(self) -> None:
        """Wait until all that clients have sent has been dealt with.

        A killed client's last bytes may still lie in a socket. Without this, a judge could look
        too early, and they could turn up in the next experiment.
        """
        quiet = 0
        while quiet < 10:  # turns of the event loop; a new connection takes some to be known
            await asyncio.sleep(0)
            open_ = [client.transport for client in self.clients if client.transport]
            sockets = self.listening + [t.get_extra_info("socket") for t in open_]
            quiet = 0 if select.select(sockets, [], [], 0)[0] else quiet + 1


def _read(envelope: Any) -> Delivered:
    from email import message_from_bytes, policy

    message = message_from_bytes(envelope.content, policy=policy.default)
    part = message.get_body(("plain", "html"))
    body = part.get_content() if part else envelope.content.decode("utf-8", "replace")
    key = str(message["Idempotency-Key"] or "").strip()
    subject = str(message["Subject"] or "")
    body = body.replace("\r\n", "\n").rstrip("\n")
    return Delivered(", ".join(envelope.rcpt_tos), subject, body, key)


async def _serve(character: Character, folder: str, db: sqlite3.Connection) -> None:
    from aiosmtpd.smtp import SMTP

    loop = asyncio.get_running_loop()
    service = _Service(character, db)

    def client() -> SMTP:
        smtp = SMTP(service, hostname="localhost", enable_SMTPUTF8=True, loop=loop)
        service.clients.add(smtp)
        return smtp

    smtp = await loop.create_server(client, HOST, 0)
    service.listening = list(smtp.sockets)
    queries = await asyncio.start_server(service.query, HOST, 0)
    port, query_port = (server.sockets[0].getsockname()[1] for server in (smtp, queries))
    ended = asyncio.Event()

    def follow_parent() -> None:
        os.read(sys.stdin.fileno(), 1)  # returns when told to end, or when the parent is no more
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=follow_parent, daemon=True).start()
    print(json.dumps({"port": port, "query_port": query_port, "folder": folder}), flush=True)
    await ended.wait()


def _main(character: Character) -> None:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="crashlab-") as folder,
            closing(sqlite3.connect(Path(folder) / "mail.sqlite")) as db,
            # not Windows' own event loop: `_settle` relies on the order in which this one works
            asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner,
        ):
            runner.run(_serve(character, folder, db))
    except Exception as e:
        print(json.dumps({"error": f"{type(e).__name__}: {e}"}), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
