"""The bench of the course: kill real processes at every line, and see what became of the world."""

from pathlib import Path

from crashlab.explore import Kill, Report, explore
from crashlab.journal import Journal
from crashlab.kill import BenchError, Life, NotWritten, launch
from crashlab.source import Point
from crashlab.world import SoundStore, WorkFolder

# recorded input, in the repository beside the notebooks
DATA = Path(__file__).resolve().parents[2] / "data"

__all__ = [
    "DATA",
    "BenchError",
    "Journal",
    "Kill",
    "Life",
    "NotWritten",
    "Point",
    "Report",
    "SoundStore",
    "WorkFolder",
    "explore",
    "launch",
]
