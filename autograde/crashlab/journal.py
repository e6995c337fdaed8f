"""What the nodes of a graph really did, written down outside the graph, where no kill reaches it.

A node says that it begins and what it does to the outside world; each is a line of JSON that one
`os.write` appends to a file. What is written survives SIGKILL at any moment (not a loss of power:
nothing is forced to the disk), and several threads and processes can write to the same file.

    journal = Journal(folder.path / "journal.jsonl")

    def approve(state):
        with journal.node("approve"):
            journal.effect("mail to the boss")
            answer = interrupt("ok?")
            return {"answer": answer}
"""

import itertools
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

_TOKEN = secrets.token_hex(4)  # a pid alone may come back
_entries = itertools.count(1)

# The node that is running here. LangGraph hands the context on to the threads of its pool and to
# the tasks a node calls; a thread-local would be lost there, and async nodes would share one.
_inside: ContextVar[tuple[str | None, int]] = ContextVar("inside", default=(None, 0))


@dataclass(frozen=True)
class Record:
    """One line of a journal.

    life   which process wrote it: 1 for the first that wrote to this journal, and so on
    node   the name of the node; `None` for an effect outside any node
    entry  which entry into a node of this journal, from 1; 0 outside. Tells two runs of a node
           apart, also when they run side by side.
    what   "entered", "effect", or how the node ended: "left", "raised", "paused" (by an interrupt)
    word   the effect, or the name of the exception
    """

    life: int
    node: str | None
    entry: int
    what: str
    word: str = ""


@dataclass(frozen=True, repr=False)
class Journal:
    """A file that nodes append to, in any thread of any process that knows its path."""

    path: Path

    @contextmanager
    def node(self, name: str) -> Iterator[None]:
        """Write down that a node is entered and, at the end of the `with` block, how it ended."""
        before = _inside.set((name, next(_entries)))
        try:
            self._append("entered")
            try:
                yield
            except BaseException as e:
                self._append("paused" if _is_pause(e) else "raised", type(e).__name__)
                raise
            self._append("left")
        finally:
            _inside.reset(before)

    def effect(self, word: str) -> None:
        """Write down that this was done to the outside world, by the node that is running here.

        A thread that the node starts by itself does not know the node: its effects are outside.
        """
        self._append("effect", word)

    def lives(self) -> list[list[Record]]:
        """Return for each process what it wrote, in order; `[]` if nobody has written yet."""
        lives: dict[str, list[Record]] = {}
        entries: dict[tuple[str, int], int] = {}
        for line in self._read()[0]:
            process, entry = line["process"], line["entry"]
            records = lives.setdefault(process, [])
            life = list(lives).index(process) + 1
            number = entries.setdefault((process, entry), len(entries) + 1) if entry else 0
            records.append(Record(life, line["node"], number, line["what"], line["word"]))
        return list(lives.values())

    def count(self, word: str) -> int:
        """Return how often this effect was written down, in all lives."""
        return sum((r.what, r.word) == ("effect", word) for life in self.lives() for r in life)

    def entered(self, node: str) -> int:
        """Return how often this node was entered, in all lives."""
        return sum((r.what, r.node) == ("entered", node) for life in self.lives() for r in life)

    def torn(self) -> int:
        """Return the number of lines that a kill cut short; the other methods leave them out."""
        return self._read()[1]

    def __repr__(self) -> str:
        lives, torn = self.lives(), self.torn()
        said = f"{self.path.name}: {sum(map(len, lives))} records of {len(lives)} lives"
        return said + (f", {torn} torn left out" if torn else "")

    def _append(self, what: str, word: str = "") -> None:
        node, entry = _inside.get()
        process = f"{os.getpid()}-{_TOKEN}"
        record = {"process": process, "node": node, "entry": entry, "what": what, "word": word}
        # The newline comes first, so that a torn line does not spoil the one after it.
        line = b"\n" + json.dumps(record, ensure_ascii=False).encode()
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            while line:  # once, unless a limit or a full disk cuts it: the second try says which
                line = line[os.write(file, line) :]
        finally:
            os.close(file)

    def _read(self) -> tuple[list[dict], int]:
        """Return the whole lines as they stand in the file, and the number of torn ones."""
        found, torn = [], 0
        for line in self.path.read_bytes().split(b"\n") if self.path.exists() else []:
            try:
                found += [json.loads(line)] if line else []
            except ValueError:  # also an unfinished letter, by UnicodeDecodeError
                torn += 1
        return found, torn


def _is_pause(error: BaseException) -> bool:
    """Say whether an exception is LangGraph's way to stop a node at an `interrupt()`."""
    return any(kind.__name__ == "GraphInterrupt" for kind in type(error).__mro__)
