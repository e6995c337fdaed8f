"""A build agent's work folder: its checkpoint file, and a record of what was really done."""

import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WorkFolder:
    """A folder that outlives the processes that work in it.

    `path` is the folder. `checkpoint` is where the agent keeps its save. `perform` is the outside
    world: what it was asked to do has been done, whatever becomes of the process that asked.
    """

    path: Path

    @property
    def checkpoint(self) -> Path:
        """The file for the agent's save; it does not exist at first."""
        return self.path / "run-217.json"

    def perform(self, action: str) -> None:
        """Do one action of the build: a line in a log that the operating system holds."""
        log = os.open(self.path / "performed.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(log, f"{action}\n".encode())
        os.close(log)

    def performed(self) -> list[str]:
        """Return what was done, in order, repetitions included.

        This is for those who judge afterwards. An agent has no such view of the outside: in a
        process made by `launch` it raises RuntimeError.
        """
        if multiprocessing.parent_process():
            raise RuntimeError("folder.performed() is for the judge: an agent cannot look there")
        log = self.path / "performed.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    @classmethod
    @contextmanager
    def fresh(cls) -> Iterator["WorkFolder"]:
        """Make an empty work folder, and remove it at the end of the `with` block."""
        with tempfile.TemporaryDirectory(prefix="crashlab-") as path:
            yield cls(Path(path))
