"""Which file the record is in, and how a new one comes to be.

A file that is no readable record of this version is kept aside: it is never written, renamed or
deleted, and the record goes on in the next free name. So nothing is lost that a person could still
mend, and two windows that find the same broken file at once do the same thing without a race.
"""

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote
from uuid import uuid4

from crashlab.kill import BenchError

APPLICATION = 0x6372_6C62  # "crlb", by which SQLite files of this program are known
VERSION = 1  # of the tables; every change of them makes it one more
WAIT = 5.0  # seconds for another window to finish its write
TABLES = (
    """CREATE TABLE mocks (
        id INTEGER PRIMARY KEY,
        seed INTEGER NOT NULL,
        started_at TEXT NOT NULL,
        minutes REAL NOT NULL,
        language TEXT NOT NULL CHECK (language IN ('en', 'zh')),
        questions TEXT NOT NULL,
        ended_at TEXT
    )""",
    """CREATE TABLE reviews (
        question TEXT NOT NULL,
        generation INTEGER NOT NULL,
        rating TEXT NOT NULL CHECK (rating IN ('again', 'hard', 'good', 'easy')),
        at TEXT NOT NULL,
        seconds REAL NOT NULL,
        language TEXT NOT NULL CHECK (language IN ('en', 'zh')),
        mock INTEGER REFERENCES mocks (id),
        PRIMARY KEY (question, generation)
    ) WITHOUT ROWID""",
)

Flaw = Literal["foreign", "torn", "older", "newer", "left"]
State = Literal["sound", "unfinished", "foreign", "torn", "older", "newer"]


class RecordError(BenchError):
    """The record cannot be read or written now; one sentence says why."""


@dataclass(frozen=True)
class KeptAside:
    """A file that is not used and not touched.

    `flaw` is why: "foreign" (no record of ours), "torn", "older" or "newer" (of another
    `version`), or "left" (nothing is wrong with it, but a file with a higher number goes on).
    """

    name: str
    flaw: Flaw
    version: int


def connect(path: Path, mode: Literal["ro", "rw", "rwc"]) -> sqlite3.Connection:
    """Open a file of SQLite: to read it, to write it, or to write it and make it if need be.

    Every statement is a transaction of its own, unless BEGIN says otherwise.
    """
    name = path.absolute().as_posix()  # as_uri() would make a host of a Windows network share
    address = f"file://{'' if name.startswith('/') else '/'}{quote(name, safe='/:')}?mode={mode}"
    db = sqlite3.connect(address, uri=True, timeout=WAIT, isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    return db


def find_or_make(
    folder: Path, read: Callable[[sqlite3.Connection], object]
) -> tuple[Path, tuple[KeptAside, ...]]:
    """The file to use in a folder, and those kept aside; both are made if they are not there.

    It is the one with the highest number; if that cannot be used, a new one with the next number.
    `read` reads the whole content; it raises ValueError or TypeError if that makes no sense.
    RecordError if the folder or the file cannot be used now.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            files = _numbered(folder)
            newest = max(files, default=0)
            state = _state(files[newest], read) if files else "torn"
            if state == "sound":
                break
            if state == "unfinished":
                _roll_back(files[newest])
            else:
                _make(folder / _name(newest + 1))
        others = [files[number] for number in sorted(files) if number != newest]
        return files[newest], tuple(_kept_aside(other, read) for other in others)
    except (OSError, sqlite3.Error) as error:
        raise RecordError(f"the record in {folder} cannot be opened: {error}") from error


def _name(number: int) -> str:
    return "drill.sqlite" if number == 1 else f"drill-{number}.sqlite"


def _numbered(folder: Path) -> dict[int, Path]:
    found = {}
    for path in folder.iterdir():
        if match := re.fullmatch(r"drill(?:-(\d+))?\.sqlite", path.name):
            number = int(match[1] or 1)
            if path.name == _name(number):
                found[number] = path
    return found


def _header(path: Path) -> tuple[bytes, int, int]:
    """The start of a file, and what SQLite keeps there: version and application."""
    if not path.is_file():
        return b"not a file", 0, 0
    with path.open("rb") as file:
        head = file.read(100)
    return head, int.from_bytes(head[60:64]), int.from_bytes(head[68:72])


def _state(path: Path, read: Callable[[sqlite3.Connection], object]) -> State:
    """Judge a file without changing it.

    The header is read first and by hand: only in a file that is ours may SQLite be asked to look
    further, and, if its writer was killed in the middle, be asked to roll back. (Nothing of this
    process may be in a transaction on it meanwhile: to close a file gives up all locks on it.)
    """
    head, version, application = _header(path)
    if not head:
        return "torn"  # no record is ever empty: it gets its name when it is whole
    if not head.startswith(b"SQLite format 3\0"):
        return "foreign"
    if len(head) < 100:
        return "torn"
    if application != APPLICATION:
        return "foreign"
    if version != VERSION:
        return "older" if version < VERSION else "newer"
    try:
        with closing(connect(path, "ro")) as db:
            db.execute("BEGIN")
            return "sound" if _is_sound(path, db, read) else "torn"
    except (ValueError, TypeError):
        return "torn"
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorname == "SQLITE_READONLY_ROLLBACK":
            return "unfinished"
        if error.sqlite_errorname.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return "torn"
        raise


def _is_sound(
    path: Path, db: sqlite3.Connection, read: Callable[[sqlite3.Connection], object]
) -> bool:
    tables = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema")}
    pages, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    if tables != set(TABLES) or path.stat().st_size < pages * size:
        return False
    if db.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
        return False
    read(db)
    return True


def _kept_aside(path: Path, read: Callable[[sqlite3.Connection], object]) -> KeptAside:
    state = _state(path, read)
    flaw = "left" if state in ("sound", "unfinished") else state
    return KeptAside(path.name, flaw, _header(path)[1])


def _make(path: Path) -> None:
    """Make a record and then give it its name, unless another window has just done so."""
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with closing(connect(unfinished, "rwc")) as db:
            db.execute("BEGIN IMMEDIATE")
            for table in TABLES:
                db.execute(table)
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        _publish(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _publish(unfinished: Path, path: Path) -> None:
    """Give a file its name, and never replace another: a link fails where there is one."""
    with suppress(FileExistsError):
        try:
            os.link(unfinished, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if not path.exists():
                os.rename(unfinished, path)


def _roll_back(path: Path) -> None:
    """Let SQLite undo what a killed writer left half done; its journal says how."""
    with closing(connect(path, "rw")) as db:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
