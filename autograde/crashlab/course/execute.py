"""Run a notebook from top to bottom in a fresh kernel and say, cell by cell, how it ended."""

import ast
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from crashlab.course.outcome import CELL_LIMIT, Failure

_PATIENCE = 5  # seconds that a kernel has to answer after a cell failed or was interrupted

# Asked after an exception: its class and the classes above it, each with its module.
_CLASSES = (
    "[(base.__name__, base.__module__)"
    " for base in type(getattr(__import__('sys'), 'last_value', None)).__mro__]"
)


@dataclass(frozen=True)
class Ran:
    """How one code cell ended; no `failure` only if the kernel confirmed that it ran to its end."""

    place: str
    id: str
    kind: str
    points: float
    may_raise: bool
    failure: Failure | None

    @property
    def passed(self) -> bool:
        """The cell ran to its end."""
        return self.failure is None


class _ThisPython(KernelSpecManager):
    """Every kernel is this interpreter, whatever kernel the notebook or the user's folders name."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


def grading(cell: nbformat.NotebookNode) -> dict:
    """nbgrader's entry in the cell's metadata; empty for prose and plain code."""
    entry = cell.metadata.get("nbgrader", {})
    return entry if entry.get("grade") or entry.get("solution") else {}


def kind(cell: nbformat.NotebookNode) -> str:
    """'test', 'answer', 'spoken' (a person gives the points) or 'code'."""
    entry = grading(cell)
    if entry.get("grade") and entry.get("solution"):
        return "spoken"
    return "test" if entry.get("grade") else "answer" if entry.get("solution") else "code"


def run(notebook: nbformat.NotebookNode, limit: int = CELL_LIMIT) -> list[Ran]:
    """Run every code cell of `notebook` in a fresh kernel and an empty folder.

    Outputs are put into `notebook`. A cell that takes longer than `limit` seconds is interrupted,
    and the next ones still run; if the kernel dies or no longer answers, the cells after that have
    not run. Never raises for what a cell does.
    """
    return asyncio.run(run_async(notebook, limit))


async def run_async(notebook: nbformat.NotebookNode, limit: int = CELL_LIMIT) -> list[Ran]:
    """The same as `run`, so that two notebooks may run side by side."""
    results: list[Ran] = []
    lost = ""
    async with _kernel(notebook, limit) as client:
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code" or not cell.source.strip():
                continue
            entry = grading(cell)
            name = entry.get("grade_id", "")
            place = f"cell {index + 1}" + (f" ({name})" if name else "")
            if lost:
                failure = Failure("NotRun", lost)
            else:
                failure, alive = await _run_cell(client, cell, index, limit)
                if not alive:
                    lost = f"It did not run: the kernel ended in {place}."
            may_raise = "raises-exception" in cell.metadata.get("tags", [])
            points = float(entry.get("points", 0))
            results.append(Ran(place, name, kind(cell), points, may_raise, failure))
    return results


@asynccontextmanager
async def _kernel(notebook: nbformat.NotebookNode, limit: int) -> AsyncIterator[NotebookClient]:
    """A fresh kernel in an empty folder; it is gone afterwards, also after Ctrl-C."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        manager = AsyncKernelManager(kernel_spec_manager=_ThisPython())
        if os.name == "posix":  # files instead of TCP ports, which two notebooks could both pick
            manager.transport, manager.ip = "ipc", str(Path(folder) / "kernel")
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=limit,
            allow_errors=True,
            interrupt_on_timeout=False,
            extra_arguments=["--HistoryManager.hist_file=:memory:"],
        )
        client.log.disabled = True  # what nbclient logs is in the results
        work = Path(folder) / "work"
        work.mkdir()
        kindly = False  # let the kernel say goodbye only if all went well
        try:
            await client.async_start_new_kernel(cwd=str(work))
            await client.async_start_new_kernel_client()
            yield client
            kindly = True
        finally:
            if client.kc is not None:
                client.kc.stop_channels()
            if manager.has_kernel:
                await manager.shutdown_kernel(now=not kindly)
                await manager.cleanup_resources()


async def _run_cell(
    client: NotebookClient, cell: nbformat.NotebookNode, index: int, limit: int
) -> tuple[Failure | None, bool]:
    """How the cell ended, and whether the kernel can go on."""
    replies = []
    client.on_cell_executed = lambda **event: replies.append(event["execute_reply"]["content"])
    cell.execution_count = None
    try:
        await client.async_execute_cell(cell, index)
    except CellTimeoutError:
        await client.km.interrupt_kernel()
        alive = await _ask(client, "None") is not None
        return Failure("Timeout", f"It did not end within {limit} s and was stopped."), alive
    except DeadKernelError:
        if asyncio.current_task().cancelling():  # Ctrl-C; nbclient takes it for a dead kernel
            raise asyncio.CancelledError from None
        return Failure("KernelDied", "The kernel died in this cell (os._exit? no memory?)."), False
    if not replies or cell.execution_count is None:
        return Failure("NotRun", "It was not run (is it tagged skip-execution?)."), True
    reply = replies[0]
    if reply["status"] == "ok" and all(output.output_type != "error" for output in cell.outputs):
        return None, True
    return await _failure(client, reply)


async def _failure(client: NotebookClient, reply: dict) -> tuple[Failure, bool]:
    """The exception behind an error reply, with the classes that only the kernel knows."""
    name, message = reply.get("ename", "Error"), reply.get("evalue", "")
    answer = await _ask(client, _CLASSES)
    if answer is None:
        return Failure(name, message), False
    classes = ast.literal_eval(answer)
    if not classes or classes[0][0] != name:  # SystemExit, for one, leaves no trace in the kernel
        classes = [(name, "")]
    return Failure(name, message, tuple(base for base, _ in classes), classes[0][1]), True


async def _ask(client: NotebookClient, expression: str) -> str | None:
    """What the kernel says `expression` is, or None if it does not answer in time."""
    question = client.kc.execute("", silent=True, user_expressions={"it": expression})
    end = time.monotonic() + _PATIENCE
    while (left := end - time.monotonic()) > 0 and await client.km.is_alive():
        try:
            reply = await client.kc.get_shell_msg(timeout=min(left, 1))
        except Empty:
            continue
        if reply["parent_header"].get("msg_id") == question:
            answer = reply["content"].get("user_expressions", {}).get("it", {})
            return answer.get("data", {}).get("text/plain", "()")
    return None
