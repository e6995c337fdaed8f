"""The bench of the course: kill real processes at every line, and see what became of the world."""

from pathlib import Path

from crashlab.explore import Kill, Report, explore
from crashlab.kill import BenchError, Life, NotWritten, Point, launch
from crashlab.world import SoundStore, WorkFolder

DATA = Path(__file__).resolve().parents[2] / "data"  # recorded input, in the repository beside the notebooks

__all__ = [
    "DATA",
    "BenchError",
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
