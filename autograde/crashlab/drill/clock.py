"""A clock in a notebook: the kernel stays free for other cells while it ticks."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ipywidgets import HTML


class Clock(HTML):
    """A text that is written anew every second.

    `read` gives the text, and whether it will change.
    """

    def __init__(self, read: Callable[[], tuple[str, bool]]) -> None:
        super().__init__()
        self._read = read
        self._task: asyncio.Task | None = None

    def start(self) -> None:
        """Show the time; tick for as long as it changes."""
        self.stop()
        self.value, moves = self._read()
        if moves:
            with suppress(RuntimeError):  # outside of a notebook there is no loop to tick in
                self._task = asyncio.get_running_loop().create_task(self._tick())

    def stop(self) -> None:
        """Stay at what is shown."""
        if self._task:
            self._task.cancel()
            self._task = None

    def close(self) -> None:
        """Stop, and take it away."""
        self.stop()
        super().close()

    async def _tick(self) -> None:
        moves = True
        while moves:
            await asyncio.sleep(1)
            self.value, moves = self._read()
