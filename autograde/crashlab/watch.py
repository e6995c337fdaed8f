"""What a function asks of the operating system."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def renames(function: Callable, *args: Any) -> list[tuple[Path, Path]]:
    """Run `function(*args)` and return the renames it asked for, as pairs (from, to) of full paths.

    Run this by `launch`: Python's audit hooks cannot be taken back, so the process should end
    afterwards.
    """
    seen: list[tuple[Path, Path]] = []

    def hook(event: str, arguments: tuple) -> None:
        if event == "os.rename":  # os.rename, os.replace, Path.replace, shutil.move
            source, target = (Path(os.fsdecode(path)).resolve() for path in arguments[:2])
            seen.append((source, target))

    sys.addaudithook(hook)
    function(*args)
    return seen
