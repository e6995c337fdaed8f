"""What the question bank says of the world around a graph: logs, payments, workers, desks.

Small experiments on real files and real SQLite. Where two writers matter, the second is a process
of its own, started between two steps of the first, so that the order is forced. Time is passed in.
"""

import hashlib
import http.client
import json
import operator
import os
import signal
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from html import escape
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from claims import claim
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import EmptyInputError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import create_react_agent
from langgraph.runtime import get_runtime
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, Field

from crashlab import WorkFolder, launch
from crashlab.world.desk import Bank, KeyReused, Shop, at_once

RUN = {"configurable": {"thread_id": "t-1"}}
needs_signals = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
YES = {"tool": "refund", "args": {"order": "A-17", "amount": 50}}


def killed(function: Callable, *args: Any, before: str, visit: int = 1) -> None:
    life = launch(function, *args, kill_before=before, visit=visit, echo=False)
    assert life.end == "killed", life


def elsewhere(function: Callable, *args: Any) -> Any:
    """What the function returns in a process of its own."""
    return launch(function, *args, echo=False).result()


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as db, db:
        yield db


def rows(path: Path, statement: str, *values: object) -> list[tuple]:
    with opened(path) as db:
        return db.execute(statement, values).fetchall()


def change(path: Path, statement: str, *values: object) -> int:
    with opened(path) as db:
        return db.execute(statement, values).rowcount


# Session logs


def line(entry: object) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode() + b"\n"


def append(path: Path, entry: object) -> None:
    with open(path, "ab") as file:
        file.write(line(entry))


def sealed_append(path: Path, entry: object) -> None:
    with open(path, "ab+", buffering=0) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(line(entry))


def whole(path: Path) -> list:
    """The entries of a log, as a reader sees it that skips what it cannot read."""
    found = []
    for each in path.read_bytes().split(b"\n"):
        with suppress(ValueError):
            found.append(json.loads(each))
    return found


def overwrite(path: Path, state: list) -> None:
    path.write_bytes(line(state))


def replace(path: Path, state: list) -> None:
    path.with_suffix(".tmp").write_bytes(line(state))
    os.replace(path.with_suffix(".tmp"), path)


@needs_signals
@claim("log-kill-in-write", "15")
def test_what_a_kill_within_a_write_costs(tmp_path: Path) -> None:
    """Killed within its write, a save in place loses all of the old one, a save beside it with a
    rename nothing of it, and an append to a log only the line that it was writing."""
    left = {}
    for save, old, new in (
        (overwrite, ["one"], ["one", "two"]),
        (replace, ["one"], ["one", "two"]),
        (append, "one", "two"),
    ):
        path = tmp_path / save.__name__
        save(path, old)
        start = path.stat().st_size if save is append else 0
        life = launch(save, path, new, kill_in_write=start + 4, echo=False)
        assert life.end == "killed"
        left[save.__name__] = whole(path)
    assert left == {"overwrite": [], "replace": [["one"]], "append": ["one"]}


@claim("log-writes-once", "15")
def test_what_a_log_and_a_snapshot_write(tmp_path: Path) -> None:
    """To keep a conversation that doubles, a log writes twice as many bytes, and a snapshot of the
    whole at every message four times as many; on disk both are about as long."""

    def written(messages: int) -> tuple[int, int, float]:
        log, snapshot = tmp_path / f"{messages}.jsonl", tmp_path / f"{messages}.json"
        talk, saved = [], 0
        for number in range(messages):
            talk.append(f"message {number:4} " + "x" * 500)
            append(log, talk[-1])
            overwrite(snapshot, talk)
            saved += snapshot.stat().st_size
        return log.stat().st_size, saved, log.stat().st_size / snapshot.stat().st_size

    (log, saved, ratio), (log_of_two, saved_of_two, _) = written(40), written(80)
    assert 1.9 < log_of_two / log < 2.1
    assert 3.7 < saved_of_two / saved < 4.1
    assert 0.9 < ratio < 1.1


@needs_signals
@claim("log-torn-eats-next", "15")
def test_a_torn_line_spoils_the_next(tmp_path: Path) -> None:
    """A writer that only appends puts its next record onto the half line which a kill has left: a
    reader that skips bad lines then loses that record too, and if just the newline was missing, two
    whole records."""
    path = tmp_path / "session.jsonl"
    for cut in (5, len(line({"i": 2})) - 1):
        path.unlink(missing_ok=True)
        append(path, {"i": 1})
        most = path.stat().st_size + cut
        assert launch(append, path, {"i": 2}, kill_in_write=most, echo=False).end == "killed"
        append(path, {"i": 3})
        assert whole(path) == [{"i": 1}]


@claim("log-seal", "15")
def test_a_sealed_line_spoils_nothing(tmp_path: Path) -> None:
    """A writer that first ends an unfinished line with a newline loses the torn record and no
    other, at whichever byte the file was cut, within a letter too."""
    path, second = tmp_path / "session.jsonl", line({"i": 2, "text": "héllo"})
    for cut in range(len(second) + 1):
        path.write_bytes(line({"i": 1}) + second[:cut])
        sealed_append(path, {"i": 3})
        expected = [1, 2, 3] if cut >= len(second) - 1 else [1, 3]
        assert [each["i"] for each in whole(path)] == expected


def append_to_a_full_disk(path: Path, give_back: bool) -> bool:
    """Append 1, then 2 on a disk that is full within it, then 3 when there is room again."""
    resource = pytest.importorskip("resource")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    append(path, {"i": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    failed = False
    with open(path, "ab", buffering=0) as file:
        size, rest = file.seek(0, os.SEEK_END), line({"i": 2, "text": "x" * 500})
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            failed = True
            if give_back:
                file.truncate(size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    append(path, {"i": 3})
    return failed


@claim("log-disk-full", "15")
def test_a_full_disk_tears_a_line(tmp_path: Path) -> None:
    """On a full disk an append raises when a part of its line is in the file, and the next record
    is welded onto it although nothing crashed; who cuts the file back to the length it had loses
    nothing else."""
    pytest.importorskip("resource")
    for give_back, left in ((False, [1]), (True, [1, 3])):
        path = tmp_path / f"{give_back}.jsonl"
        assert elsewhere(append_to_a_full_disk, path, give_back)
        assert [each["i"] for each in whole(path)] == left


def append_many(path: Path, first: int) -> None:
    """Each line in one write."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in range(first, first + 200):
        long = number % 10 == 0
        os.write(log, line({"i": number, "text": "x" * (20_000 if long else 50)}))
    os.close(log)


@claim("log-two-writers", "15")
def test_two_processes_write_one_log(tmp_path: Path) -> None:
    """Two processes on one log weld their lines if record and newline are two writes, and lose a
    record if one writes back what it has read; if each line is one write to a file opened for
    appending, 400 of 400 are there."""
    welded = tmp_path / "welded.jsonl"
    with open(welded, "ab", buffering=0) as file:
        file.write(line(1)[:-1])
        elsewhere(append, welded, 2)
        file.write(b"\n")
    assert whole(welded) == [12], "two numbers that have become one"

    lost = tmp_path / "lost.jsonl"
    append(lost, 1)
    seen = lost.read_bytes()
    elsewhere(append, lost, 2)
    lost.write_bytes(seen + line(3))
    assert whole(lost) == [1, 3]

    kept = tmp_path / "kept.jsonl"
    at_once(append_many, [(kept, 0), (kept, 200)])
    assert sorted(each["i"] for each in whole(kept)) == list(range(400))


def write_tree(path: Path, parents: dict[str, str | None]) -> None:
    for name, parent in parents.items():
        append(path, {"id": name, "parent": parent})


def way_to(path: Path, leaf: str) -> list[str]:
    """From a leaf to the root by the parents, as far as they can be read."""
    parents, way = {each["id"]: each["parent"] for each in whole(path)}, []
    while leaf in parents:
        way.insert(0, leaf)
        leaf = parents[leaf]
    return way


@claim("log-bad-middle", "15")
def test_a_bad_line_in_the_middle(tmp_path: Path) -> None:
    """A reader that skips whatever it cannot read loses all that lies before a bad line in the
    middle of a tree of entries, and says nothing."""
    path = tmp_path / "session.jsonl"
    write_tree(path, {"u1": None, "a1": "u1", "u2": "a1", "a2": "u2", "u3": "a2"})
    assert way_to(path, "u3") == ["u1", "a1", "u2", "a2", "u3"]
    path.write_bytes(path.read_bytes().replace(b'{"id": "u2"', b'{"id": "u'))
    assert way_to(path, "u3") == ["a2", "u3"]


@claim("log-late-note", "15")
def test_the_last_line_is_not_where_the_talk_stands(tmp_path: Path) -> None:
    """A note that comes late, with the parent it knew, is the last line of a session file, and the
    way to it misses the newest messages; where the leaf is recorded as it moves, it does not. The
    newest file may be that of a child session."""
    path = tmp_path / "session.jsonl"
    talk = {"user": None, "bot": "user", "user B": "bot", "bot B": "user B"}
    for name, parent in talk.items():
        append(path, {"id": name, "parent": parent})
        append(path, {"id": f"leaf {name}", "parent": None, "leaf": name})
    append(path, {"id": "exit note", "parent": "bot"})
    last = whole(path)[-1]["id"]
    recorded = [each["leaf"] for each in whole(path) if "leaf" in each][-1]
    assert way_to(path, last) == ["user", "bot", "exit note"]
    assert way_to(path, recorded) == list(talk)

    child = tmp_path / "child.jsonl"
    append(child, {"id": "child", "parent": None, "parent session": path.stem})
    os.utime(path, (1, 1))
    os.utime(child, (2, 2))
    newest = max(tmp_path.glob("*.jsonl"), key=lambda each: each.stat().st_mtime)
    assert newest == child


# A call without a result


def call_and_record(folder: WorkFolder) -> None:
    append(folder.path / "session.jsonl", {"call": "pay", "id": "c1"})
    folder.perform("pay")
    append(folder.path / "session.jsonl", {"result": "paid", "id": "c1"})


@claim("log-same-before-and-after", "15")
def test_the_log_does_not_know_whether_the_call_ran() -> None:
    """Killed before the effect of a call and killed after it, the agent leaves the same session
    file, byte for byte; whoever runs the call again on that ground does it once or twice."""
    logs, done = [], []
    for moment in ('folder.perform("pay")', '"result"'):
        with WorkFolder.fresh() as folder:
            killed(call_and_record, folder, before=moment)
            logs.append((folder.path / "session.jsonl").read_bytes())
            folder.perform("pay")
            done.append(folder.performed())
    assert logs[0] == logs[1]
    assert done == [["pay"], ["pay", "pay"]]


class Model(GenericFakeChatModel):
    """A scripted chat model that keeps what it was shown."""

    seen: list = Field(default_factory=list)

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, *args, **options):
        self.seen.append(messages)
        return super()._generate(messages, *args, **options)


def agent(tool: Callable, *says: AIMessage, saver: object = None):
    model = Model(messages=iter(says))
    return model, create_react_agent(model, [tool], checkpointer=saver or InMemorySaver())


CALL = AIMessage("", tool_calls=[{"name": "pay", "args": {"amount": 5}, "id": "c1"}])


def agent_on(path: Path, *says: AIMessage):
    def pay(amount: int) -> str:
        """Pay an amount."""
        change(path.with_name("paid.sqlite"), "INSERT INTO paid VALUES (?)", amount)
        return "paid"

    connection = sqlite3.connect(path, check_same_thread=False)
    return agent(pay, *says, saver=SqliteSaver(connection))


def ask_to_pay(path: Path) -> None:
    _, graph = agent_on(path, CALL)
    graph.invoke({"messages": [("user", "pay 5")]}, RUN, durability="sync")


@claim("call-open-refused", "15")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_open_call_refuses_every_message(tmp_path: Path) -> None:
    """Killed in its tools node and then given a new message, langgraph.prebuilt's ready-made agent
    refuses this message and every later one, because a call has no result; invoke(None) in its
    place runs the tool."""
    for afterwards in ("a message", "None"):
        path = tmp_path / f"{afterwards}.sqlite"
        change(path.with_name("paid.sqlite"), "CREATE TABLE IF NOT EXISTS paid (amount INTEGER)")
        killed(ask_to_pay, path, before="change(path.with_name")
        _, graph = agent_on(path, AIMessage("done"))
        if afterwards == "None":
            assert graph.invoke(None, RUN)["messages"][-1].content == "done"
            continue
        for _ in range(2):
            with pytest.raises(ValueError, match="do not have a corresponding ToolMessage"):
                graph.invoke({"messages": [("user", "hello?")]}, RUN)
        assert not rows(path.with_name("paid.sqlite"), "SELECT * FROM paid")
    assert rows(tmp_path / "paid.sqlite", "SELECT * FROM paid") == [(5,)]


@claim("result-lands-at-the-end", "15")
def test_a_late_result_lands_at_the_end() -> None:
    """A tool result that update_state adds to the messages of a thread lands at their end, behind
    what came after the call; beside its call it gets by rewriting the list."""
    builder = StateGraph(MessagesState).add_node("model", lambda state: {"messages": []})
    graph = builder.add_edge(START, "model").compile(InMemorySaver())
    graph.invoke({"messages": [("user", "pay 5"), CALL, ("user", "hello?")]}, RUN)
    result = ToolMessage("the outcome is unknown", tool_call_id="c1")

    def kinds() -> list[str]:
        return [each.type for each in graph.get_state(RUN).values["messages"]]

    before = graph.get_state(RUN).values["messages"]
    graph.update_state(RUN, {"messages": [result]})
    assert kinds() == ["human", "ai", "human", "tool"]
    whole_list = [RemoveMessage(REMOVE_ALL_MESSAGES), *before[:2], result, *before[2:]]
    graph.update_state(RUN, {"messages": whole_list})
    assert kinds() == ["human", "ai", "tool", "human"]


@claim("no-as-a-result", "09 15")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_no_that_the_model_hears() -> None:
    """A no that the tool returns as its result reaches the model with its reason, and the model can
    go another way; a run that is left at its call refuses the next message."""

    def pay(amount: int) -> str:
        """Pay an amount."""
        answer = interrupt(f"pay {amount}?")
        return "paid" if answer == "yes" else f"denied: {answer}"

    model, graph = agent(pay, CALL, AIMessage("then a voucher"))
    graph.invoke({"messages": [("user", "pay 5")]}, RUN)
    result = graph.invoke(Command(resume="the parcel was empty"), RUN)
    assert result["messages"][-1].content == "then a voucher"
    assert model.seen[-1][-1].content == "denied: the parcel was empty"

    _, graph = agent(pay, CALL, AIMessage("never said"))
    graph.invoke({"messages": [("user", "pay 5")]}, RUN)
    with pytest.raises(ValueError, match="do not have a corresponding ToolMessage"):
        graph.invoke({"messages": [("user", "then something else")]}, RUN)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if text.count(old) != 1:
        raise ValueError("the text to replace was not found")
    path.write_text(text.replace(old, new))
    print("done")


@claim("edit-again", "15")
def test_an_edit_runs_again(tmp_path: Path) -> None:
    """An exact search and replace that was killed before its record and runs again raises that the
    text was not found, unless the new text holds the old one: then it is applied a second time."""
    path = tmp_path / "build.txt"
    path.write_text("tests on\n")
    killed(edit, path, "on", "off", before='print("done")')
    with pytest.raises(ValueError, match="not found"):
        edit(path, "on", "off")
    assert path.read_text() == "tests off\n"

    path.write_text("import os\n")
    insertion = ("import os\n", "import os\nimport sys\n")
    killed(edit, path, *insertion, before='print("done")')
    edit(path, *insertion)
    assert path.read_text().count("import sys") == 2


def run_three(folder: WorkFolder, staged: bool, dies: bool) -> None:
    """Three calls side by side; A is the slowest. Their results are placed in order A, B, C."""
    outcomes, ready = folder.path / "outcomes.jsonl", threading.Barrier(3)
    done = {each: "before" for each in (whole(outcomes) if outcomes.exists() else [])}

    def call(name: str) -> None:
        if name == "A" and dies:
            ready.wait(5)
            os.kill(os.getpid(), signal.SIGKILL)
        folder.perform(name)
        done[name] = "now"
        if staged:
            append(outcomes, name)
        if dies:
            ready.wait(5)

    threads = {name: threading.Thread(target=call, args=name) for name in "ABC" if name not in done}
    for thread in threads.values():
        thread.start()
    for name in "ABC":
        if name in threads:
            threads[name].join()
        append(folder.path / "session.jsonl", name)


@needs_signals
@claim("outcome-staged-first", "15")
def test_results_that_wait_for_their_turn() -> None:
    """Three calls run side by side, B and C have ended, and a kill hits A: if results are only kept
    until their turn to be placed, B and C run again; if each is on disk when its call ends, only A
    runs, and the order of the results is A, B, C all the same."""
    for staged, times in ((False, [1, 2, 2]), (True, [1, 1, 1])):
        with WorkFolder.fresh() as folder:
            life = launch(run_three, folder, staged, True, echo=False)
            assert life.exitcode == -signal.SIGKILL
            elsewhere(run_three, folder, staged, False)
            assert [folder.performed().count(name) for name in "ABC"] == times
            assert whole(folder.path / "session.jsonl") == ["A", "B", "C"]


# Payments


class Charges:
    """A payment service: its charges, and what it has answered to each key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        change(path, "CREATE TABLE IF NOT EXISTS charges (amount INTEGER, number TEXT)")
        columns = "key TEXT PRIMARY KEY, body TEXT, answer TEXT, at INTEGER"
        change(path, f"CREATE TABLE IF NOT EXISTS keys ({columns})")

    def amounts(self) -> list[int]:
        return [amount for (amount,) in rows(self.path, "SELECT amount FROM charges")]

    def charge(self, key: str, amount: int, balance: int = 1_000, now: int = 0) -> str:
        """Key, charge and answer in one transaction; the first answer is kept, a no too."""
        with opened(self.path) as db:
            db.execute("BEGIN IMMEDIATE")
            known = db.execute("SELECT answer FROM keys WHERE key = ?", (key,)).fetchone()
            if known:
                return known[0]
            answer = "charged" if amount <= balance else "declined"
            if answer == "charged":
                db.execute("INSERT INTO charges VALUES (?, NULL)", (amount,))
            db.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", (key, str(amount), answer, now))
            return answer

    def forget(self, before: int) -> None:
        change(self.path, "DELETE FROM keys WHERE at < ?", before)


class Losing(ThreadingHTTPServer):
    """Serves charges, and loses its first "request" before it acts or its first "reply" after."""

    def __init__(self, charges: Charges, lose: str) -> None:
        self.charges, self.lose = charges, lose

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server, amount = self.server, int(self.rfile.read(3))
                lose, server.lose = server.lose, ""
                if lose != "request":
                    answer = server.charges.charge(self.headers["Idempotency-Key"], amount)
                if not lose:
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(answer.encode())

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


def post(port: int, key: str) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request("POST", "/charges", b"050", {"Idempotency-Key": key})
        return connection.getresponse().read().decode()


@claim("pay-reply-lost", "03 15")
def test_a_lost_reply_looks_like_a_lost_request(tmp_path: Path) -> None:
    """A client whose connection ends without a reply sees the same error whether the service has
    charged or not; its second try charges twice under a new key, and once under the old one."""
    charged = {}
    for lose in ("request", "reply"):
        for new_key in (True, False):
            charges = Charges(tmp_path / f"{lose} {new_key}.sqlite")
            with Losing(charges, lose) as server:
                threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
                key = "order-7"
                with pytest.raises(http.client.RemoteDisconnected):
                    post(server.server_port, key)
                post(server.server_port, uuid.uuid4().hex if new_key else key)
                server.shutdown()
            charged[lose, new_key] = charges.amounts()
    assert charged == {
        ("request", True): [50],
        ("request", False): [50],
        ("reply", True): [50, 50],
        ("reply", False): [50],
    }


@claim("pay-other-content", "04 15")
def test_a_key_that_comes_with_other_content(tmp_path: Path) -> None:
    """A service that looks at the key alone answers a second amount with the receipt of the first;
    one that keeps the content with the key refuses it, a changed note too, and charges nothing."""
    charges = Charges(tmp_path / "charges.sqlite")
    assert [charges.charge("order-7", amount) for amount in (50, 80)] == ["charged", "charged"]
    assert charges.amounts() == [50]

    bank = Bank(tmp_path / "bank.sqlite")
    bank.pay("order-7", {"amount": 50, "note": "try 1"})
    for content in ({"amount": 80, "note": "try 1"}, {"amount": 50, "note": "try 2"}):
        with pytest.raises(KeyReused):
            bank.pay("order-7", content)
    assert len(bank.payments()) == 1


def look_then_charge(path: Path, between: Callable = lambda: None) -> str:
    if rows(path, "SELECT * FROM keys WHERE key = 'order-7'"):
        return "known"
    between()
    change(path, "INSERT INTO charges VALUES (50, NULL)")
    change(path, "INSERT OR IGNORE INTO keys VALUES ('order-7', '50', 'charged', 0)")
    return "charged"


def take_then_charge(path: Path, between: Callable = lambda: None) -> str:
    """The key first, without an answer; that is what the second request finds."""
    if not change(path, "INSERT OR IGNORE INTO keys VALUES ('order-7', '50', NULL, 0)"):
        [(answer,)] = rows(path, "SELECT answer FROM keys WHERE key = 'order-7'")
        return answer or "in flight"
    between()
    with opened(path) as db:
        db.execute("INSERT INTO charges VALUES (50, NULL)")
        db.execute("UPDATE keys SET answer = 'charged' WHERE key = 'order-7'")
    return "charged"


@claim("pay-two-at-once", "15")
def test_two_requests_with_one_key_at_once(tmp_path: Path) -> None:
    """Two requests with one key at the same time are both charged where the service looks for the
    key and then charges; where it first inserts the key, as a primary key, the second is told that
    the first is in flight, and one is charged."""
    for serve, told, charged in (
        (look_then_charge, "charged", [50, 50]),
        (take_then_charge, "in flight", [50]),
    ):
        path, heard = Charges(tmp_path / f"{serve.__name__}.sqlite").path, []

        def other(serve=serve, path=path, heard=heard) -> None:
            heard.append(elsewhere(serve, path))

        assert serve(path, other) == "charged"
        assert (heard, Charges(path).amounts()) == ([told], charged)
        assert serve(path) in ("known", "charged")


def charge_once(path: Path) -> str:
    return Charges(path).charge("order-7", 50)


@claim("pay-service-killed", "15")
def test_the_service_dies_with_a_key_in_hand(tmp_path: Path) -> None:
    """A service that is killed when it has taken the key and not yet charged tells every later
    request that one is in flight, and nothing is charged. Where key, charge and answer are one
    transaction, a kill before any of them leaves the second try to charge once."""
    path = Charges(tmp_path / "taken.sqlite").path
    killed(take_then_charge, path, before="between()", visit=1)
    assert [take_then_charge(path) for _ in range(3)] == ["in flight"] * 3
    assert Charges(path).amounts() == []

    moments = ["known = db", "INSERT INTO charges VALUES (?", "return answer"]
    for number, moment in enumerate(moments):
        path = Charges(tmp_path / f"{number}.sqlite").path
        killed(charge_once, path, before=moment)
        assert (charge_once(path), Charges(path).amounts()) == ("charged", [50])


@claim("pay-key-forgotten", "15")
def test_a_key_that_the_service_has_forgotten(tmp_path: Path) -> None:
    """When the service has forgotten a key, a second try under it is a new charge; a charge that
    carries the number of the order, which the table holds only once, is refused."""
    charges = Charges(tmp_path / "charges.sqlite")
    charges.charge("order-7", 50, now=0)
    charges.charge("order-7", 50, now=23)
    assert charges.amounts() == [50]
    charges.forget(before=45 - 24)
    charges.charge("order-7", 50, now=45)
    assert charges.amounts() == [50, 50]

    change(charges.path, "CREATE UNIQUE INDEX once ON charges (number)")
    change(charges.path, "INSERT INTO charges VALUES (50, 'order 8')")
    with pytest.raises(sqlite3.IntegrityError):
        change(charges.path, "INSERT INTO charges VALUES (50, 'order 8')")


@claim("pay-decline-kept", "15")
def test_a_declined_charge_stays_declined_under_its_key(tmp_path: Path) -> None:
    """A service that keeps its first answer declines again under the same key, also when there is
    money by now; the new attempt of a person needs a new key."""
    charges = Charges(tmp_path / "charges.sqlite")
    assert charges.charge("order-7 try 1", 50, balance=0) == "declined"
    assert charges.charge("order-7 try 1", 50, balance=100) == "declined"
    assert charges.charge("order-7 try 2", 50, balance=100) == "charged"
    assert charges.amounts() == [50]


def mark(path: Path) -> int:
    return change(path, "INSERT INTO done VALUES ('order-7')")


def act_then_mark(folder: WorkFolder, path: Path) -> None:
    if rows(path, "SELECT * FROM done"):
        return
    folder.perform("charge")
    mark(path)


def mark_then_act(folder: WorkFolder, path: Path) -> None:
    if rows(path, "SELECT * FROM done"):
        return
    mark(path)
    folder.perform("charge")


def act_with_a_key(folder: WorkFolder, path: Path) -> None:
    if rows(path, "SELECT * FROM done"):
        return
    Charges(folder.path / "service.sqlite").charge("order-7", 50)
    mark(path)


@claim("dedupe-at-the-client", "04 15")
def test_a_table_of_the_client_leaves_a_gap() -> None:
    """A client that looks into its own table acts twice if it is killed between act and mark, and
    never if it marks first; a second client with a table of its own acts again. With a key that the
    service keeps it is once in each case."""
    for act, moment, times in (
        (act_then_mark, "mark(path)", 2),
        (mark_then_act, "folder.perform", 0),
        (act_with_a_key, "Charges(folder", 1),
        (act_with_a_key, "mark(path)", 1),
    ):
        with WorkFolder.fresh() as folder:
            path = folder.path / "client.sqlite"
            change(path, "CREATE TABLE done (key TEXT PRIMARY KEY)")
            killed(act, folder, path, before=moment)
            elsewhere(act, folder, path)
            made = folder.performed() or Charges(folder.path / "service.sqlite").amounts()
            assert len(made) == times
    for act, times in ((act_then_mark, 2), (act_with_a_key, 1)):
        with WorkFolder.fresh() as folder:
            for client in ("one", "two"):
                path = folder.path / f"{client}.sqlite"
                change(path, "CREATE TABLE done (key TEXT PRIMARY KEY)")
                act(folder, path)
            made = folder.performed() or Charges(folder.path / "service.sqlite").amounts()
            assert len(made) == times


def book(path: Path, bank: Bank) -> None:
    with opened(path) as db:
        db.execute("INSERT INTO trips VALUES ('T-1', 'booked')")
        bank.pay("T-1", {"amount": 300})
        print("booked")


@claim("rollback-inside-only", "15")
def test_a_rollback_stays_at_home(tmp_path: Path) -> None:
    """A transaction that is rolled back, or killed before its commit, takes back its rows and not
    the payment that was made within it."""
    path = tmp_path / "trips.sqlite"
    change(path, "CREATE TABLE trips (trip TEXT, status TEXT)")
    for number, moment in enumerate(('print("booked")', "")):
        bank = Bank(tmp_path / f"bank {number}.sqlite")
        if moment:
            killed(book, path, bank, before=moment)
        else:
            with pytest.raises(LookupError), opened(path) as db:
                db.execute("INSERT INTO trips VALUES ('T-1', 'booked')")
                bank.pay("T-1", {"amount": 300})
                raise LookupError("the hotel is full")
        assert (rows(path, "SELECT * FROM trips"), len(bank.payments())) == ([], 1)


def undo(path: Path, bank: Bank, key: str | None) -> None:
    if rows(path, "SELECT * FROM trips WHERE status = 'undone'"):
        return
    bank.pay(key or uuid.uuid4().hex, {"amount": -300})
    print("paid back")
    change(path, "UPDATE trips SET status = 'undone'")


@claim("undo-killed", "15")
def test_an_undo_is_killed_too(tmp_path: Path) -> None:
    """A compensation is a second effect beside the first, which stays on record; killed before its
    own record and repeated, it pays back twice, and once with a key made from the booking."""
    for key, payments in ((None, [300, -300, -300]), ("undo T-1", [300, -300])):
        path, bank = tmp_path / f"{key}.sqlite", Bank(tmp_path / f"bank {key}.sqlite")
        change(path, "CREATE TABLE trips (trip TEXT, status TEXT)")
        change(path, "INSERT INTO trips VALUES ('T-1', 'failed')")
        bank.pay("T-1", {"amount": 300})
        killed(undo, path, bank, key, before='print("paid back")')
        undo(path, bank, key)
        assert [each["amount"] for each in bank.payments()] == payments


# Several workers

RUNS = "run TEXT PRIMARY KEY, owner TEXT, until INTEGER, generation INTEGER, result TEXT"


def new_runs(path: Path) -> Path:
    change(path, f"CREATE TABLE runs ({RUNS})")
    change(path, "INSERT INTO runs VALUES ('r', NULL, 0, 0, NULL)")
    return path


def take(path: Path, worker: str, now: int) -> int | None:
    """Take the run for 60, if nobody has it now, and return the generation."""
    statement = (
        "UPDATE runs SET owner = ?, until = ?, generation = generation + 1"
        " WHERE run = 'r' AND until <= ? RETURNING generation"
    )
    with opened(path) as db:
        row = db.execute(statement, (worker, now + 60, now)).fetchone()
    return row and row[0]


def renew(path: Path, generation: int, now: int) -> int:
    return change(path, "UPDATE runs SET until = ? WHERE generation = ?", now + 60, generation)


def finish(path: Path, result: str, generation: int | None = None) -> int:
    if generation is None:
        return change(path, "UPDATE runs SET result = ?", result)
    return change(path, "UPDATE runs SET result = ? WHERE generation = ?", result, generation)


def hold_the_lock(path: Path) -> None:
    with opened(path) as db:
        db.execute("BEGIN IMMEDIATE")
        print("in the lock")


def is_locked(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=0)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False


def hold_the_row(path: Path) -> None:
    take(path, "one", 0)
    print("in the row")


@claim("lock-dies-lease-ends", "15")
def test_a_lock_dies_and_a_lease_ends(tmp_path: Path) -> None:
    """The write lock of a killed process is free at once. What it wrote into a row stays: a row
    that only names its owner is taken for ever, one with a lease until its time is over, and no
    sooner."""
    path = new_runs(tmp_path / "runs.sqlite")
    with opened(path) as db:
        db.execute("BEGIN IMMEDIATE")
        assert elsewhere(is_locked, path)
    killed(hold_the_lock, path, before='print("in the lock")')
    assert not elsewhere(is_locked, path)

    killed(hold_the_row, path, before='print("in the row")')
    nobody = "UPDATE runs SET owner = 'two' WHERE owner IS NULL"
    assert change(path, nobody) == 0
    assert [take(path, "two", now) for now in (59, 60)] == [None, 2]


def take_over(path: Path, now: int, folder: WorkFolder) -> None:
    assert take(path, "two", now)
    folder.perform("mail")
    finish(path, "of two", 2)


@claim("lease-late-writer", "15")
def test_who_wakes_up_late_still_writes(tmp_path: Path) -> None:
    """A worker that looked at its lease, slept until another had taken the run and finished it, and
    then writes, overwrites the other's result. With its generation in the UPDATE the write changes
    nothing. What it does to a place that checks no generation is done a second time."""
    for fenced, result in ((False, "of one"), (True, "of two")):
        path = new_runs(tmp_path / f"{fenced}.sqlite")
        with WorkFolder.fresh() as folder:
            mine = take(path, "one", 0)
            assert rows(path, "SELECT owner FROM runs WHERE until > 59") == [("one",)]
            elsewhere(take_over, path, 61, folder)
            folder.perform("mail")
            assert finish(path, "of one", mine if fenced else None) == (0 if fenced else 1)
            assert rows(path, "SELECT result FROM runs") == [(result,)]
            assert folder.performed() == ["mail", "mail"]


@claim("lease-shorter-than-job", "15")
def test_a_job_that_outlasts_its_lease(tmp_path: Path) -> None:
    """A job of 250 minutes under a lease of 60 is handed out five times before the first worker has
    finished, once if its holder renews the lease, and five times with one mail if the mails go out
    under the key of the job."""
    for renews, keyed, handed, mails in ((0, 0, 5, 5), (1, 0, 1, 1), (0, 1, 5, 1)):
        path = new_runs(tmp_path / f"{renews}{keyed}.sqlite")
        change(path, "CREATE TABLE mails (key TEXT PRIMARY KEY)")
        began: dict[int, int] = {}
        for now in range(600):
            for generation, start in began.items():
                if now == start + 250:
                    key = "mail of r" if keyed else uuid.uuid4().hex
                    change(path, "INSERT OR IGNORE INTO mails VALUES (?)", key)
                    finish(path, "done")
                elif renews and now < start + 250 and now % 20 == 0:
                    renew(path, generation, now)
            if now % 10 == 0 and rows(path, "SELECT * FROM runs WHERE result IS NULL"):
                taken = take(path, f"worker {now}", now)
                began |= {taken: now} if taken else {}
        assert (len(began), rows(path, "SELECT count(*) FROM mails")) == (handed, [(mails,)])


@claim("heartbeat-without-progress", "15")
def test_a_heartbeat_of_a_job_that_hangs(tmp_path: Path) -> None:
    """A thread that renews the lease keeps it for a job that hangs, as long as the process lives;
    where each finished batch renews it, the lease of a job that hangs ends."""
    path, wake = new_runs(tmp_path / "heart.sqlite"), threading.Event()
    job = threading.Thread(target=wake.wait, args=(60,), daemon=True)
    job.start()
    generation = take(path, "one", 0)
    for now in range(20, 600, 20):
        assert renew(path, generation, now) and job.is_alive()
    assert elsewhere(take, path, "two", 601) is None
    wake.set()
    job.join()

    path = new_runs(tmp_path / "batches.sqlite")
    generation = take(path, "one", 0)
    for finished in (20, 40):
        renew(path, generation, finished)
    assert [elsewhere(take, path, "two", now) for now in (99, 100)] == [None, 2]


def recover_all(path: Path, folder: WorkFolder, now: int) -> bool:
    if rows(path, "SELECT * FROM runs WHERE owner IS NOT NULL AND result IS NULL"):
        folder.perform("charge")
        return True
    return False


def recover_dead(path: Path, folder: WorkFolder, now: int) -> bool:
    if not take(path, f"worker {os.getpid()}", now):
        return False
    folder.perform("charge")
    return True


@claim("recover-living-owner", "15")
def test_recovery_takes_the_run_of_one_who_lives(tmp_path: Path) -> None:
    """A process that starts up and recovers whatever is marked as running runs a second time what
    another, living one is at; one that takes only what has no valid lease leaves it, takes it when
    the lease is over, and of two that recover at once one gets it."""
    for recover, times in ((recover_all, 2), (recover_dead, 1)):
        path = new_runs(tmp_path / f"{recover.__name__}.sqlite")
        with WorkFolder.fresh() as folder:
            take(path, "one", 0)
            folder.perform("charge")
            elsewhere(recover, path, folder, 30)
            assert folder.performed() == ["charge"] * times

    path = new_runs(tmp_path / "dead.sqlite")
    with WorkFolder.fresh() as folder:
        take(path, "one", 0)
        won = at_once(recover_dead, [(path, folder, 61)] * 2)
        assert (sorted(won), folder.performed()) == ([False, True], ["charge"])


class Talk(TypedDict, total=False):
    said: Annotated[list[str], operator.add]


def talk(path: Path, name: str, effects: Path, between: Callable = lambda: None) -> list[str]:
    """A message to the thread; in the middle of the node something may happen elsewhere."""

    def work(state: Talk) -> dict:
        append(effects, name)
        between()
        return {"said": [f"did {name}"]}

    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder = StateGraph(Talk).add_node("work", work).add_edge(START, "work")
        return builder.compile(saver).invoke({"said": [name]}, RUN, durability="sync")["said"]


@claim("thread-two-workers", "15")
def test_two_workers_on_one_thread(tmp_path: Path) -> None:
    """Two processes that run one thread at the same time both act and both return without an error;
    the thread then holds what the one that saved last has done, and not what the other did."""
    path, effects = tmp_path / "threads.sqlite", tmp_path / "effects.jsonl"
    other: list[list[str]] = []
    mine = talk(path, "A", effects, lambda: other.append(elsewhere(talk, path, "B", effects)))
    assert whole(effects) == ["A", "B"]
    assert mine == ["A", "did A"]
    assert "did B" in other[0]
    with SqliteSaver.from_conn_string(str(path)) as saver:
        said = saver.get_tuple(RUN).checkpoint["channel_values"]["said"]
    assert said == ["A", "did A"]


class Question(TypedDict, total=False):
    pay: int
    answer: str


@claim("replaced-question-answerable", "08")
@pytest.mark.parametrize("by_id", [False, True])
def test_a_replaced_question_can_still_be_answered(by_id: bool) -> None:
    """A question that a new input has replaced is still open at its own checkpoint: an answer with
    the config of that checkpoint, plain or by id, runs on from there with the old request."""
    paid: list[int] = []
    builder = StateGraph(Question)
    builder.add_node("gate", lambda state: {"answer": interrupt(f"pay {state['pay']}?")})
    builder.add_node("pay out", lambda state: paid.append(state["pay"]))
    graph = builder.add_edge(START, "gate").add_edge("gate", "pay out").compile(InMemorySaver())
    [old] = graph.invoke({"pay": 10}, RUN)["__interrupt__"]
    asked_then = graph.get_state(RUN).config
    [new] = graph.invoke({"pay": 9999}, RUN)["__interrupt__"]
    assert graph.get_state(RUN).interrupts == (new,)
    graph.invoke(Command(resume={old.id: "yes"} if by_id else "yes"), asked_then)
    assert paid == [10]


def mail_each(path: Path, people: str, given: dict | None, dies: bool = False) -> None:
    def mail(state: dict) -> None:
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        change(path.with_name("mails.sqlite"), "INSERT INTO mails VALUES (?)", state["to"])

    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder = StateGraph(Talk).add_node("read", lambda state: {}).add_edge(START, "read")
        sends = lambda state: [Send("mail", {"to": each}) for each in people]  # noqa: E731
        graph = builder.add_node("mail", mail).add_conditional_edges("read", sends, ["mail"])
        graph.compile(saver).invoke(given, RUN, durability="sync")


@needs_signals
@claim("send-list-is-saved", "07")
def test_sends_do_not_follow_a_list_that_changes(tmp_path: Path) -> None:
    """The Sends of a super-step are saved with their inputs before it begins: resumed after a kill
    they go to whom they were made for, although the list they were made from has changed."""
    path, mails = tmp_path / "threads.sqlite", tmp_path / "mails.sqlite"
    change(mails, "CREATE TABLE mails (person TEXT)")
    assert launch(mail_each, path, "ABC", {"said": []}, True, echo=False).end == "exited"
    elsewhere(mail_each, path, "XBC", None)
    assert sorted(rows(mails, "SELECT person FROM mails")) == [("A",), ("B",), ("C",)]


# The desk

REFUNDS = "refund TEXT PRIMARY KEY, status TEXT, generation INTEGER, due INTEGER"


def new_desk(path: Path) -> Path:
    change(path, f"CREATE TABLE refunds ({REFUNDS})")
    change(path, "INSERT INTO refunds VALUES ('R-1', 'waiting', 1, 24)")
    return path


def press(path: Path, generation: int = 1) -> bool:
    statement = (
        "UPDATE refunds SET status = 'approved'"
        " WHERE refund = 'R-1' AND status = 'waiting' AND generation = ?"
    )
    return change(path, statement, generation) == 1


def look_and_press(path: Path, between: Callable = lambda: None) -> bool:
    if rows(path, "SELECT status FROM refunds") != [("waiting",)]:
        return False
    between()
    change(path, "UPDATE refunds SET status = 'approved'")
    return True


@claim("claim-one-wins", "09")
def test_one_of_all_who_press_wins(tmp_path: Path) -> None:
    """Of two who look whether a refund waits and then approve it, both succeed; of four processes
    that press at once by one conditional UPDATE, one is told that a row has changed."""
    path, told = new_desk(tmp_path / "looks.sqlite"), []
    told.append(look_and_press(path, lambda: told.append(elsewhere(look_and_press, path))))
    assert told == [True, True]

    path = new_desk(tmp_path / "claims.sqlite")
    assert sorted(at_once(press, [(path,)] * 4)) == [False, False, False, True]


@claim("claim-by-generation", "09")
def test_a_press_for_an_older_question(tmp_path: Path) -> None:
    """When the agent has asked anew, a press with the number of the first question changes no row,
    and one with the number of the second does."""
    path = new_desk(tmp_path / "desk.sqlite")
    change(path, "UPDATE refunds SET generation = 2")
    assert [press(path, generation) for generation in (1, 2)] == [False, True]


def sweep(path: Path, now: int) -> int:
    statement = "UPDATE refunds SET status = 'expired' WHERE status = 'waiting' AND due <= ?"
    return change(path, statement, now)


def look_and_sweep(path: Path, now: int, between: Callable) -> None:
    overdue = rows(path, "SELECT refund FROM refunds WHERE status = 'waiting' AND due <= ?", now)
    between()
    for (refund,) in overdue:
        change(path, "UPDATE refunds SET status = 'expired' WHERE refund = ?", refund)


@claim("sweep-or-press", "09")
def test_somebody_presses_while_the_overdue_are_closed(tmp_path: Path) -> None:
    """A sweep that lists what is overdue and then closes it row by row expires a refund that was
    approved in between; with the condition in the UPDATE, whoever comes first has it and the other
    changes nothing, and what is not due stays."""
    path = new_desk(tmp_path / "lists.sqlite")
    look_and_sweep(path, 25, lambda: elsewhere(press, path))
    assert rows(path, "SELECT status FROM refunds") == [("expired",)]

    path = new_desk(tmp_path / "pressed first.sqlite")
    assert (sweep(path, 23), elsewhere(press, path), sweep(path, 25)) == (0, True, 0)
    path = new_desk(tmp_path / "swept first.sqlite")
    assert (elsewhere(sweep, path, 25), press(path)) == (1, False)


class Gate(TypedDict, total=False):
    call: dict
    ran: dict


@claim("approved-other-runs", "08 09")
def test_another_call_runs_than_was_approved() -> None:
    """A node that asks the model and then a person runs again from its first line after the yes: if
    the model proposes something else, that runs. A call that an earlier node has put into the state
    is the one that was shown."""

    def gate_of(proposals: list[int], in_one_node: bool):
        def model() -> dict:
            return {"tool": "pay", "amount": proposals.pop(0)}

        def gate(state: Gate) -> dict:
            call = model() if in_one_node else state["call"]
            return {"ran": call} if interrupt(call) == "yes" else {}

        builder = StateGraph(Gate).add_node("propose", lambda state: {"call": model()})
        builder.add_node("gate", gate).add_edge("propose", "gate")
        return builder.add_edge(START, "gate" if in_one_node else "propose").compile(
            InMemorySaver()
        )

    for in_one_node, ran in ((True, 5000), (False, 50)):
        graph = gate_of([50, 5000], in_one_node)
        [shown] = graph.invoke({}, RUN)["__interrupt__"]
        assert shown.value["amount"] == 50
        assert graph.invoke(Command(resume="yes"), RUN)["ran"]["amount"] == ran


def fingerprint(call: dict) -> str:
    return hashlib.sha256(json.dumps(call, sort_keys=True).encode()).hexdigest()


@claim("approval-by-content", "09")
def test_what_an_approval_lets_through(tmp_path: Path) -> None:
    """An approval that is looked up by the id of the call or by the name of the tool lets through
    other arguments; one that is looked up by a fingerprint of tool and arguments refuses them, and
    the same arguments for another tool, and by a conditional UPDATE its own second use."""
    path = tmp_path / "approvals.sqlite"
    call = YES | {"id": "c1"}
    more = call | {"args": call["args"] | {"amount": 5000}}
    other = call | {"tool": "voucher"}
    ways = {
        "id": lambda each: each["id"],
        "tool": lambda each: each["tool"],
        "content": lambda each: fingerprint({"tool": each["tool"], "args": each["args"]}),
    }
    change(path, "CREATE TABLE approvals (key TEXT PRIMARY KEY, used INTEGER)")

    def may_run(key: str) -> bool:
        return change(path, "UPDATE approvals SET used = 1 WHERE key = ? AND used = 0", key) == 1

    passed = {}
    for way, key in ways.items():
        for name, attempt in (("more", more), ("other", other), ("the call", call)):
            change(path, "INSERT OR REPLACE INTO approvals VALUES (?, 0)", key(call))
            passed[way, name] = may_run(key(attempt))
    assert passed["id", "more"] and passed["id", "other"] and passed["tool", "more"]
    assert [passed["content", each] for each in ("more", "other", "the call")] == [0, 0, 1]
    assert not may_run(ways["content"](call))


class Refund(BaseModel):
    """The arguments of the tool, as it checks them."""

    order: str
    amount: int
    currency: str = "EUR"


def hash_of(text: str) -> int:
    return hash(text)


@claim("fingerprint-as-it-runs", "09")
def test_fingerprint_of_what_will_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments as a model writes them, a number as text or a default left out, have another
    fingerprint than those that run; checked by the tool's own types first, they have the same. A
    digest of sorted JSON is the same in every process, and hash() is not."""
    written = [
        {"order": "A-17", "amount": "50"},
        {"currency": "EUR", "amount": 50, "order": "A-17"},
    ]
    assert len({fingerprint(each) for each in written}) == 2
    run = [Refund.model_validate(each).model_dump() for each in written]
    assert len({fingerprint(each) for each in run}) == 1

    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    text = json.dumps(run[0], sort_keys=True)
    assert launch(hash_of, text, echo=False, fresh=True).result() != hash(text)
    assert launch(fingerprint, run[0], echo=False, fresh=True).result() == fingerprint(run[0])


def carry_out(path: Path, bank: Bank, shop: Shop, asks_the_bank: bool) -> None:
    if asks_the_bank and bank.find("R-1"):
        status = "sent"
    elif shop.order("A-17")["status"] != "returned":
        status = "failed"
    else:
        bank.pay("R-1", YES["args"])
        status = "sent"
    print("to be recorded")
    change(path, "UPDATE refunds SET status = ?", status)


@claim("recheck-after-payment", "09")
def test_checked_again_when_the_money_is_gone(tmp_path: Path) -> None:
    """Killed when the bank has paid and before that is recorded, a node that checks the order first
    records a failure if the order was cancelled meanwhile; one that first asks the bank whether it
    has paid records the payment."""
    for asks, status in ((False, "failed"), (True, "sent")):
        path = new_desk(tmp_path / f"{asks}.sqlite")
        bank, shop = Bank(tmp_path / f"bank {asks}.sqlite"), Shop(tmp_path / f"shop {asks}.sqlite")
        shop.set_order("A-17", "returned", 800)
        killed(carry_out, path, bank, shop, asks, before='print("to be recorded")')
        shop.set_order("A-17", "cancelled", 0)
        elsewhere(carry_out, path, bank, shop, asks)
        assert rows(path, "SELECT status FROM refunds") == [(status,)]
        assert len(bank.payments()) == 1


def spend(path: Path, amount: int, most: int = 20) -> bool:
    statement = (
        "INSERT INTO spent SELECT 'A-17', ?"
        " WHERE ? + (SELECT coalesce(sum(amount), 0) FROM spent WHERE order_name = 'A-17') <= ?"
    )
    return change(path, statement, amount, amount, most) == 1


@claim("small-amounts-add-up", "09")
def test_a_limit_for_each_call_is_no_limit(tmp_path: Path) -> None:
    """Ten refunds of 19 each pass a limit of 20 for a call, 190 in all; counted per order in a
    table, by one conditional INSERT, one passes, and of two processes at once one."""
    path = tmp_path / "spent.sqlite"
    change(path, "CREATE TABLE spent (order_name TEXT, amount INTEGER)")
    asked = [19] * 10
    assert sum(amount for amount in asked if amount <= 20) == 190
    assert [spend(path, amount) for amount in asked].count(True) == 1
    assert rows(path, "SELECT sum(amount) FROM spent") == [(19,)]

    change(path, "DELETE FROM spent")
    assert sorted(at_once(spend, [(path, 15)] * 2)) == [False, True]


@claim("read-only-connection", "09")
def test_what_a_statement_begins_with(tmp_path: Path) -> None:
    """A text that begins with SELECT drops a table where scripts are run, and a reading one may
    begin with WITH; a connection that is opened for reading only refuses the one and runs the
    other."""
    path = tmp_path / "shop.sqlite"
    drops, reads = "SELECT 1; DROP TABLE orders", "WITH x AS (SELECT 7) SELECT * FROM x"
    change(path, "CREATE TABLE orders (id)")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as replica:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            replica.executescript(drops)
        assert replica.execute(reads).fetchall() == [(7,)]
    tables = "SELECT name FROM sqlite_master"
    assert rows(path, tables) == [("orders",)]
    with opened(path) as db:
        db.executescript(drops)
    assert rows(path, tables) == []


@claim("reason-draws-a-button", "09")
def test_a_reason_that_draws_a_button() -> None:
    """A model's reason that is put into a page as it is can be a button of its own; escaped, it is
    read as text."""

    class Buttons(HTMLParser):
        found = 0
        text = ""

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.found += tag == "button"

        def handle_data(self, data: str) -> None:
            self.text += data

    reason = "<button>Approved by the boss</button>"
    pages = []
    for shown in (reason, escape(reason)):
        pages.append(Buttons())
        pages[-1].feed(f"<p>{shown}</p>")
    assert [page.found for page in pages] == [1, 0]
    assert pages[1].text == reason


# Going back


class Letter(TypedDict, total=False):
    letter: str
    sent: Annotated[list[str], operator.add]


@claim("state-key-at-replay", "10")
def test_a_key_from_the_state_at_a_replay(tmp_path: Path) -> None:
    """With a key made from the state a replay repeats no effect, and a fork that brings another
    content under it is refused; with the id of the task as key, a replay acts again."""

    def desk(bank: Bank, by_state: bool):
        def send(state: Letter) -> dict:
            task = get_runtime().execution_info.task_id
            key = f"ticket-41:letter-{len(state.get('sent', []))}" if by_state else task
            bank.pay(key, {"letter": state["letter"]})
            return {"sent": [state["letter"]]}

        builder = StateGraph(Letter).add_node("send", send).add_edge(START, "send")
        graph = builder.compile(InMemorySaver())
        graph.invoke({"letter": "thank you"}, RUN)
        [old] = [each for each in graph.get_state_history(RUN) if each.next == ("send",)]
        graph.invoke(None, old.config)
        return graph, old.config

    bank = Bank(tmp_path / "task.sqlite")
    desk(bank, by_state=False)
    assert len(bank.payments()) == 2

    bank = Bank(tmp_path / "state.sqlite")
    graph, old = desk(bank, by_state=True)
    assert len(bank.payments()) == 1
    with pytest.raises(KeyReused):
        graph.invoke(None, graph.update_state(old, {"letter": "we are sorry"}))
    assert len(bank.payments()) == 1


@claim("ledger-beside-the-thread", "10")
def test_a_ledger_and_the_checkpoints(tmp_path: Path) -> None:
    """When the old checkpoints of a thread are deleted, their values are gone from its history, and
    a ledger of events beside the thread has them all; from the ledger alone no run goes on."""
    ledger = tmp_path / "ledger.jsonl"

    def step(number: int) -> Callable:
        def work(state: Letter) -> dict:
            append(ledger, f"draft {number}")
            return {"letter": f"draft {number}"}

        return work

    saver = SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False))
    builder, last = StateGraph(Letter), START
    for number in (1, 2, 3):
        builder.add_node(f"n{number}", step(number)).add_edge(last, f"n{number}")
        last = f"n{number}"
    graph = builder.add_edge(last, END).compile(saver)
    graph.invoke({"letter": ""}, RUN)

    def letters() -> list[str]:
        return [each.values.get("letter") for each in graph.get_state_history(RUN)]

    assert letters() == ["draft 3", "draft 2", "draft 1", "", None]
    newest = "(SELECT max(checkpoint_id) FROM checkpoints)"
    saver.conn.execute(f"DELETE FROM checkpoints WHERE checkpoint_id < {newest}")
    assert letters() == ["draft 3"]
    assert whole(ledger) == ["draft 1", "draft 2", "draft 3"]
    saver.delete_thread("t-1")
    with pytest.raises(EmptyInputError):
        graph.invoke(None, RUN)


@claim("state-takes-both", "10")
def test_two_threads_write_the_same_fact(tmp_path: Path) -> None:
    """Two threads can both say in their state that payment 17 was made; a table with the payment as
    its primary key refuses the second, and one query lists what waits in all threads."""
    builder = StateGraph(Letter).add_node("work", lambda state: {}).add_edge(START, "work")
    graph = builder.compile(InMemorySaver())
    for thread in ("41", "42"):
        config = {"configurable": {"thread_id": thread}}
        graph.invoke({"letter": "payment 17 made"}, config)
        assert graph.get_state(config).values["letter"] == "payment 17 made"

    path = tmp_path / "shop.sqlite"
    change(path, "CREATE TABLE payments (payment INTEGER PRIMARY KEY, thread TEXT, status TEXT)")
    change(path, "INSERT INTO payments VALUES (17, '41', 'made'), (18, '43', 'waiting')")
    with pytest.raises(sqlite3.IntegrityError):
        change(path, "INSERT INTO payments VALUES (17, '42', 'made')")
    assert rows(path, "SELECT thread FROM payments WHERE status = 'waiting'") == [("43",)]


@claim("delete-then-vacuum", "10")
def test_a_file_shrinks_when_it_is_told_to(tmp_path: Path) -> None:
    """Deleting a thread leaves the SQLite file as long as it was; VACUUM makes it shorter."""
    path = tmp_path / "threads.sqlite"
    builder = StateGraph(Letter).add_node("work", lambda state: {}).add_edge(START, "work")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder.compile(saver).invoke({"letter": "x" * 500_000}, RUN)
    sizes = [path.stat().st_size]
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.delete_thread("t-1")
    sizes.append(path.stat().st_size)
    with closing(sqlite3.connect(path)) as db:
        db.execute("VACUUM")
    sizes.append(path.stat().st_size)
    assert sizes[1] >= sizes[0] > 10 * sizes[2]
