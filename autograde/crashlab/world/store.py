"""A checkpoint store that is known to be sound, for checks that judge something else."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class SoundStore:
    """`load` and `save` over an SQLite file beside the given path; no kill can tear what they keep.

    `fresh` is the state that `load` returns where nothing was saved yet.
    """

    fresh: dict[str, Any]

    def load(self, path: Path) -> dict[str, Any]:
        """Return the state that was saved last, or a copy of `fresh`."""
        with closing(self._open(path)) as db:
            row = db.execute("SELECT state FROM checkpoint").fetchone()
        return json.loads(row[0] if row else json.dumps(self.fresh))

    def save(self, path: Path, state: dict[str, Any]) -> None:
        """Keep a state in place of the last one, whole or not at all."""
        text = json.dumps(state)
        with closing(self._open(path)) as db, db:
            db.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?)", (text,))

    def _open(self, path: Path) -> sqlite3.Connection:
        db = sqlite3.connect(path.with_suffix(".sqlite"))
        db.execute("CREATE TABLE IF NOT EXISTS checkpoint (id INTEGER PRIMARY KEY, state TEXT)")
        return db
