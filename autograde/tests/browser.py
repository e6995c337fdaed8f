"""JupyterLab in headless Chromium, driven from a test.

    with lab(ROOT / "notebooks") as address, chromium() as page:
        notebook = Notebook(page, address, "1_by_hand/02_checkpoint.ipynb")
        notebook.run_all()
        assert "AssertionError" in notebook.output("test-save")

Chromium is told what to do over its DevTools protocol: one web socket, one JSON message for each
call. In the page, JupyterLab's own application object (--expose-app-in-browser) does the work of a
click, and says when it is done. Nothing here waits for a fixed time.
"""

import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import websocket

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
# Lab's logo covers the window while it starts and while it changes the theme.
NO_SPLASH = "!document.getElementById('jupyterlab-splash')"


@contextlib.contextmanager
def lab(folder: Path) -> Iterator[str]:
    """Serve a copy of a folder; the address has a {} for the path of the notebook to open."""
    with temporary() as scratch:
        copy = shutil.copytree(folder, scratch / "served")
        # The user's own settings, workspaces and running servers stay out of it.
        own = {f"JUPYTER_{kind}_DIR": str(scratch / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        command += ["--expose-app-in-browser", "--ServerApp.port=0", f"--ServerApp.root_dir={copy}"]
        with running(command, scratch / "lab.log", {**os.environ, **own, "PATH": path}):
            info = wait(lambda: next((scratch / "RUNTIME").glob("jpserver-*.json"), None), "Lab")
            server = wait(lambda: info.read_text() and json.loads(info.read_text()), "its address")
            yield f"{server['url']}lab/tree/{{}}?token={server['token']}"


@contextlib.contextmanager
def chromium(width: int = 1280, height: int = 1000) -> Iterator["Page"]:
    """Start a browser with a profile of its own; give its one page."""
    with temporary() as profile:
        command = [CHROMIUM, *QUIET.split(), f"--user-data-dir={profile}"]
        command += ["--remote-debugging-port=0", f"--window-size={width},{height}"]
        # Chromium refuses a web socket whose Origin it does not know; we send none.
        with running(command, profile / "log", None):
            said = profile / "DevToolsActivePort"
            port, path = wait(lambda: said.exists() and said.read_text().split()[:2], "Chromium")
            address = f"ws://127.0.0.1:{port}{path}"
            with contextlib.closing(
                websocket.create_connection(address, timeout=120, suppress_origin=True)
            ) as socket:
                yield Page(socket)


class Page:
    """The page of a browser: run JavaScript in it, wait for it, photograph it."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._session: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        message = {"id": next(self._ids), "method": method, "params": params, **self._session}
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == message["id"]:  # everything else is an event
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def js(self, body: str, **values: Any) -> Any:
        """Run the body of an async function, with the values as its constants."""
        constants = "".join(f"const {name} = {json.dumps(v)};" for name, v in values.items())
        expression = f"(async () => {{ {constants} {body} }})()"
        how = {"awaitPromise": True, "returnByValue": True}
        answer = self.call("Runtime.evaluate", expression=expression, **how)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{body}: {answer['exceptionDetails']['exception']['description']}")
        return answer["result"].get("value")

    def wait(self, condition: str, **values: Any) -> Any:
        """Ask the page until a JavaScript expression is true, and return its value."""
        return wait(lambda: self.js(f"return {condition}", **values), condition)

    def theme(self, name: str) -> None:
        """Switch to "JupyterLab Light" or "JupyterLab Dark"."""
        self.js("await jupyterapp.commands.execute('apputils:change-theme', {theme})", theme=name)
        self.wait("document.body.dataset.jpThemeName === theme", theme=name)
        self.wait(NO_SPLASH)

    def screenshot(self, path: Path, selector: str | None = None) -> None:
        """Save the window, or the first element that a selector finds, as a PNG."""
        clip = {}
        if selector:
            find = "const box = document.querySelector(selector);"
            find += "box.scrollIntoView({block: 'start'});"
            # Two frames later it is painted where it now stands.
            find += "for (let i of [1, 2]) await new Promise(requestAnimationFrame);"
            find += "const {x, y, width, height} = box.getBoundingClientRect();"
            box = self.js(find + "return {x, y, width, height, scale: 1}", selector=selector)
            clip = {"clip": box}
        picture = self.call("Page.captureScreenshot", format="png", **clip)
        path.write_bytes(base64.b64decode(picture["data"]))


class Notebook:
    """A notebook open in JupyterLab; its cells go by their ids."""

    # What every call below starts from.
    FIND = """const notebook = jupyterapp.shell.currentWidget;
        const index = notebook.content.widgets.findIndex(each => each.model.id === id);
        if (index < 0) throw new Error('no cell ' + id);
        const cell = notebook.content.widgets[index];"""

    def __init__(self, page: Page, address: str, path: str) -> None:
        """Open the notebook at a path below the served folder and wait for its kernel."""
        self.page = page
        page.call("Page.navigate", url=address.format(quote(path)))
        page.wait("window.jupyterapp?.shell?.currentWidget?.context?.path === path", path=path)
        page.wait(
            "jupyterapp.shell.currentWidget.context.isReady && "
            "jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
        )
        page.wait(NO_SPLASH)

    def run_all(self) -> None:
        """Run the cells from the top; like Lab, stop after the first that fails."""
        self.page.js("await jupyterapp.commands.execute('notebook:run-all-cells')")

    def run(self, cell: str) -> None:
        """Run one cell and wait until it has finished."""
        body = "notebook.content.activeCellIndex = index; notebook.content.deselectAll();"
        self._js(body + "await jupyterapp.commands.execute('notebook:run-cell')", cell)

    def replace(self, cell: str, source: str) -> None:
        """Write a cell's source anew."""
        self._js("cell.model.sharedModel.setSource(source)", cell, source=source)

    def output(self, cell: str) -> str:
        """The text under a cell, from its model: Lab does not draw what is out of sight."""
        text = "each => [each.text ?? each.traceback ?? each.data['text/plain']].flat().join('\\n')"
        plain = f"cell.model.outputs.toJSON().map({text}).join('\\n')"
        return re.sub(r"\x1b\[[0-9;]*m", "", self._js(f"return {plain}", cell))

    def screenshot(self, cell: str, path: Path) -> None:
        """Save a cell with its output as a PNG."""
        show = "await notebook.content.scrollToItem(index, 'start'); await cell.ready;"
        self._js(show + "cell.node.dataset.pictured = id", cell)
        self.page.screenshot(path, f"[data-pictured='{cell}']")

    def _js(self, body: str, cell: str, **values: Any) -> Any:
        return self.page.js(self.FIND + body, id=cell, **values)


def wait(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {seconds:.0f} s in vain for {what}.")
        time.sleep(0.05)
    return value


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """A temporary folder; a browser that is just ending may still write into it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.contextmanager
def running(command: list[str], log: Path, env: dict[str, str] | None) -> Iterator[None]:
    """Run a program for as long as the block lasts; end it and all that it started."""
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, start_new_session=True)
    try:
        yield
    except BaseException as problem:
        problem.add_note(f"{command[0]} said:\n{log.read_text(errors='replace')[-3000:]}")
        raise
    finally:
        process.terminate()  # Lab ends its kernels, which are in sessions of their own
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
