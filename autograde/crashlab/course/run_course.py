"""Run the solution notebooks: the author's proof that every point can be earned."""

import asyncio
import time
from dataclasses import dataclass

import nbformat

from crashlab.course.author import author_files, read
from crashlab.course.execute import Ran, run_async
from crashlab.course.paths import HERE, CourseError, Rooms
from crashlab.course.release import place

AT_ONCE = 2


@dataclass(frozen=True)
class Run:
    """One solution notebook from top to bottom; `seconds` of wall time."""

    notebook: str
    cells: list[Ran]
    seconds: float

    @property
    def possible(self) -> float:
        """All points of the notebook."""
        return sum(cell.points for cell in self.cells)

    @property
    def earned(self) -> float:
        """The points of the tests that ran to their end."""
        return sum(cell.points for cell in self.cells if cell.passed)

    @property
    def broken(self) -> list[Ran]:
        """Cells that failed and were not meant to."""
        return [cell for cell in self.cells if cell.failure and not cell.may_raise]


def run_course(name: str = "", rooms: Rooms = HERE) -> list[Run]:
    """Run the solution notebook with the stem `name`, or all of them, AT_ONCE side by side."""
    authors = [read(path, rooms) for path in author_files(rooms) if name in ("", path.stem)]
    if not authors:
        stems = ", ".join(path.stem for path in author_files(rooms)) or "none"
        raise CourseError(f"There is no solution notebook {name!r}; there are: {stems}.")
    paths = [place(author, rooms.solutions) for author in authors]
    for path in paths:
        if not path.exists():
            raise CourseError(f"{rooms.name(path)} is missing; run crashlab release.")
    return asyncio.run(_run_all(paths))


async def _run_all(paths: list) -> list[Run]:
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(path) -> Run:
        async with turn:
            start = time.perf_counter()
            cells = await run_async(nbformat.read(path, as_version=4))
            return Run(path.stem, cells, time.perf_counter() - start)

    return await asyncio.gather(*map(one, paths))
