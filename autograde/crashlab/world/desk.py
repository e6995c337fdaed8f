"""The outside of an approval desk: a bank, a shop, and processes that press at the same moment.

Bank and shop keep their records in files of their own, which the death of the desk cannot touch.
Each call is carried out as a whole or not at all, before it returns.
"""

import json
import multiprocessing
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import cloudpickle

from crashlab.kill import START, BenchError, no_main


class KeyReused(ValueError):
    """A key came again with another content: one of the two was meant for something else."""


@dataclass(frozen=True)
class Bank:
    """A bank that pays, and remembers under each idempotency key what it has paid."""

    path: Path

    def pay(self, key: str, content: dict[str, Any]) -> str:
        """Pay, once for each key, and return the receipt.

        The same key with the same content gets the first receipt again, and no money moves.
        KeyReused if the content differs.
        """
        text = json.dumps(content, sort_keys=True)
        with self._opened() as db:
            db.execute("INSERT OR IGNORE INTO payments (key, content) VALUES (?, ?)", (key, text))
            number, paid = db.execute(
                "SELECT number, content FROM payments WHERE key = ?", (key,)
            ).fetchone()
        if paid != text:
            raise KeyReused(f"the key {key!r} was used for {paid}, not for {text}")
        return f"receipt {number}"

    def find(self, key: str) -> str | None:
        """Return the receipt for a key, or None if nothing was paid under it."""
        with self._opened() as db:
            row = db.execute("SELECT number FROM payments WHERE key = ?", (key,)).fetchone()
        return f"receipt {row[0]}" if row else None

    def payments(self) -> list[dict[str, Any]]:
        """Return what was paid, in order.

        This is for the judge: in a process made by `launch` it raises RuntimeError.
        """
        if multiprocessing.parent_process():
            raise RuntimeError("bank.payments() is for the judge: an agent cannot look there")
        with self._opened() as db:
            rows = db.execute("SELECT content FROM payments ORDER BY number").fetchall()
        return [json.loads(content) for (content,) in rows]

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS payments"
                " (number INTEGER PRIMARY KEY, key TEXT UNIQUE, content TEXT)"
            )
            yield db


@dataclass(frozen=True)
class Shop:
    """A shop that knows its orders, and up to which amount each of its people may approve."""

    path: Path

    def order(self, name: str) -> dict[str, Any]:
        """Return `status` and `refundable` of an order; an unknown one has nothing to refund."""
        return self._look("order", name) or {"status": "unknown", "refundable": 0}

    def set_order(self, name: str, status: str, refundable: int) -> None:
        """Say how an order stands from now on."""
        self._keep("order", name, {"status": status, "refundable": refundable})

    def limit(self, person: str) -> int:
        """Return up to which amount a person may approve; 0 for one who may not."""
        return self._look("limit", person) or 0

    def set_limit(self, person: str, amount: int) -> None:
        """Say up to which amount a person may approve from now on."""
        self._keep("limit", person, amount)

    def _look(self, kind: str, name: str) -> Any:
        with self._opened() as db:
            row = db.execute(
                "SELECT value FROM records WHERE kind = ? AND name = ?", (kind, name)
            ).fetchone()
        return json.loads(row[0]) if row else None

    def _keep(self, kind: str, name: str, value: Any) -> None:
        with self._opened() as db:
            values = (kind, name, json.dumps(value))
            db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", values)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS records"
                " (kind TEXT, name TEXT, value TEXT, PRIMARY KEY (kind, name))"
            )
            yield db


def at_once(function: Callable, calls: Sequence[tuple], deadline: float = 10.0) -> list[Any]:
    """Call `function(*args)` for each `args` of `calls`, each in a process of its own, all at once.

    Each process gets ready and waits; when the last one is ready, all go. Returns what they
    returned, in the order of `calls`. BenchError if one raised an exception, died, or had not ended
    after the deadline (in seconds).
    """
    context = multiprocessing.get_context(START)
    if START == "forkserver":
        context.set_forkserver_preload(["crashlab.preload"])
    barrier = context.Barrier(len(calls))
    pipes, processes = [], []
    try:
        with no_main():
            for args in calls:
                ours, theirs = context.Pipe(duplex=False)
                parcel = cloudpickle.dumps((function, args))
                process = context.Process(target=_call, args=(theirs, barrier, parcel))
                process.start()
                theirs.close()
                pipes.append(ours)
                processes.append(process)
        ends = time.monotonic() + deadline
        return [_answer(pipe, ends - time.monotonic()) for pipe in pipes]
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()
        for pipe in pipes:
            pipe.close()


def _call(pipe: connection.Connection, barrier: Barrier, parcel: bytes) -> None:
    function, args = cloudpickle.loads(parcel)
    barrier.wait(10)
    try:
        pipe.send(("returned", function(*args)))
    except Exception as e:
        pipe.send(("raised", f"{type(e).__name__}: {e}"))


def _answer(pipe: connection.Connection, seconds: float) -> Any:
    if not pipe.poll(max(seconds, 0)):
        raise BenchError("one of the processes had not ended when time was up")
    try:
        how, what = pipe.recv()
    except EOFError:
        raise BenchError("one of the processes died without an answer") from None
    if how == "raised":
        raise BenchError(f"one of the processes raised {what}")
    return what
