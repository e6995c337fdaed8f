"""Where the rooms of the course are."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "data"


class CourseError(Exception):
    """Something a person has to put right; its message is one sentence that says what."""


@dataclass(frozen=True)
class Rooms:
    """The folders of one course; the tests and the sample class have courses of their own."""

    root: Path
    desk_name: str = "autograde"

    @property
    def solutions(self) -> Path:
        """Author files and the solution notebooks made from them."""
        return self.root / "solutions"

    @property
    def notebooks(self) -> Path:
        """What a learner opens."""
        return self.root / "notebooks"

    @property
    def desk(self) -> Path:
        """What a class hands in and what grading makes of it; ignored by git."""
        return self.root / self.desk_name

    def name(self, path: Path) -> str:
        """`path` as people write it: from the root, with slashes."""
        return (
            path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)
        )


HERE = Rooms(ROOT)
