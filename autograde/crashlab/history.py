"""A thread as it was saved: its checkpoints, what ran between them, its branches and pauses.

`read_history` asks the graph and its checkpointer, through what LangGraph documents. `read_rows`
reads the two tables of a SQLite file. Both give the same `History`.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMAND = "00000000-0000-0000-0000-000000000000"  # the id under which a Command's writes are kept
EDGE = "branch:to:"  # begins the name of the channel of an edge; what follows is the node
NO_NODE = ("Command", "update_state", "@task", "task")  # names of what wrote without being a node
CONTROL = {"__interrupt__", "__resume__", "__error__", "__error_source_node__", "__scheduled__"}


@dataclass(frozen=True)
class Write:
    """A write that was saved with a checkpoint, before the step that it belongs to was complete."""

    task: str  # the id of the task that wrote it
    name: str  # the node of that task, or one of NO_NODE
    channel: str
    value: object


@dataclass(frozen=True)
class Question:
    """What a task asked by `interrupt`, and all answers that are saved for this task, in order.

    A task keeps its newest question only. Whether a saved answer is to this question or to an
    earlier one is not saved; it is sure once the task has finished, and `answered` says so.
    """

    asked: object
    answers: tuple[object, ...]
    answered: bool


@dataclass(frozen=True)
class Task:
    """A task of the step that follows a checkpoint; `finished` if its result is saved."""

    name: str
    finished: bool
    error: str | None
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Checkpoint:
    """A saved checkpoint.

    `next` is what `get_state_history` says: the tasks of the step that follows, whether or not one
    of them has a result by now. A graph whose nodes were renamed may have no node for what the
    checkpoint waits for; such names are in `missing`.
    """

    id: str
    parent: str | None
    namespace: str  # "" for the graph itself; each run of a subgraph has its own
    owner: str | None  # the checkpoint of the enclosing namespace in whose next step this was saved
    lane: int  # 0 leads to the newest checkpoint of the namespace; each other branch has its own
    step: int
    source: str  # "input", "loop", "update" or "fork"
    values: dict[str, object]
    before: dict[str, object]  # the parent's values
    ran: tuple[str, ...]  # the nodes that ran between the parent and this one
    next: tuple[str, ...]
    missing: tuple[str, ...]
    tasks: tuple[Task, ...]
    writes: tuple[Write, ...]
    children: tuple[str, ...]  # ids

    @property
    def changed(self) -> list[str]:
        """The channels whose value is not that of the parent."""
        old, new = self.before, self.values
        return [
            name
            for name in dict.fromkeys((*new, *old))
            if (name in old) != (name in new) or not _same(old.get(name), new.get(name))
        ]

    @property
    def waiting(self) -> tuple[str, ...]:
        """The nodes without a result: what `get_state(...).next` says of the newest checkpoint."""
        own = (task for task in self.tasks if task.name != "@task")
        return tuple(task.name for task in own if not task.finished)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do; `get_state(...).next == ()` alone does not say that."""
        return not (self.tasks or self.next or self.missing)

    @property
    def pending(self) -> bool:
        """Whether the next step has begun, left a result or an error, and is not complete."""
        return not self.children and any(task.finished or task.error for task in self.tasks)


@dataclass(frozen=True)
class History:
    """A thread. Its checkpoints, of all namespaces, are sorted by age, the oldest first."""

    thread: str
    checkpoints: tuple[Checkpoint, ...]

    def of(self, namespace: str) -> list[Checkpoint]:
        """Return the checkpoints of one namespace."""
        return [each for each in self.checkpoints if each.namespace == namespace]

    @property
    def namespaces(self) -> list[str]:
        """The namespaces in the order in which they came to be."""
        return list(dict.fromkeys(each.namespace for each in self.checkpoints))

    def within(self, owner: Checkpoint) -> list[str]:
        """Return the namespaces of the subgraphs that ran in the step after a checkpoint."""
        first = {each.namespace: each for each in reversed(self.checkpoints)}
        return [each.namespace for each in first.values() if each.owner == owner.id][::-1]

    @property
    def newest(self) -> Checkpoint | None:
        """The newest checkpoint of the graph itself: where the next run goes on."""
        return next((each for each in reversed(self.checkpoints) if not each.namespace), None)

    @property
    def forks(self) -> int:
        """How many branches the graph's own checkpoints have beside the main one."""
        return max((each.lane for each in self.of("")), default=0)


def read_history(graph: object, config: dict) -> History:
    """Return the whole thread that `config` names, whichever checkpoint it points at.

    `graph` is a compiled graph or an entrypoint. Raises ValueError if it has no checkpointer or the
    config no `thread_id`.
    """
    saver = getattr(graph, "checkpointer", None)
    if not hasattr(saver, "list"):
        raise ValueError("The graph has no checkpointer: compile it with one.")
    thread = config.get("configurable", {}).get("thread_id")
    if thread is None:
        raise ValueError('The config names no thread: {"configurable": {"thread_id": ...}}.')
    # A list, because asking the graph while the saver still lists would wait for ever.
    saved = list(saver.list({"configurable": {"thread_id": str(thread)}}))
    rows = [
        _Row(
            _id(each.config, "checkpoint_ns"),
            _id(each.config, "checkpoint_id"),
            each.parent_config and _id(each.parent_config, "checkpoint_id"),
            each.metadata,
            each.checkpoint,
            tuple(Write(task, "", channel, value) for task, channel, value in each.pending_writes),
        )
        for each in saved
    ]
    snapshots = {}
    for namespace in {row.namespace for row in rows}:
        own = {"configurable": {"thread_id": str(thread), "checkpoint_ns": namespace}}
        read = {_id(each.config, "checkpoint_id"): each for each in graph.get_state_history(own)}
        # A graph reads the checkpoints of a subgraph that it does not know as if they were its own.
        if not namespace or all(_agrees(row, read) for row in rows if row.namespace == namespace):
            snapshots |= read
    return _history(str(thread), rows, snapshots, set(graph.nodes))


def _id(config: dict, key: str) -> str:
    return config["configurable"][key]


def read_rows(path: Path | str, thread_id: str) -> History:
    """Return a thread from the tables `checkpoints` and `writes` of a SQLite file.

    The file is opened for reading only; it and its `-wal` stay as they are. Values are decoded with
    LangGraph's `JsonPlusSerializer`. Raises FileNotFoundError if there is no file, and ValueError
    if it has not both tables.
    """
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    decode = JsonPlusSerializer().loads_typed
    with _opened(Path(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not {"checkpoints", "writes"} <= tables:
            raise ValueError(f"{path} has no tables checkpoints and writes.")
        saved = connection.execute(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, metadata, type, checkpoint"
            " FROM checkpoints WHERE thread_id = ?",
            (str(thread_id),),
        ).fetchall()
        written = connection.execute(
            "SELECT checkpoint_ns, checkpoint_id, task_id, task_path, channel, type, value"
            " FROM writes WHERE thread_id = ? ORDER BY task_path, task_id, idx",
            (str(thread_id),),
        ).fetchall()
    rows = []
    for namespace, id_, parent, metadata, kind, blob in saved:
        checkpoint = decode((kind, blob))
        writes = tuple(
            Write(task, _named(task, task_path, checkpoint), channel, decode((kind, value)))
            for ns, of, task, task_path, channel, kind, value in written
            if (ns, of) == (namespace, id_)
        )
        rows.append(_Row(namespace, id_, parent, json.loads(metadata), checkpoint, writes))
    return _history(str(thread_id), rows, {}, None)


@dataclass(frozen=True)
class _Row:
    """A checkpoint as it lies in the saver, with its writes."""

    namespace: str
    id: str
    parent: str | None
    metadata: dict
    checkpoint: dict
    writes: tuple[Write, ...]


def _history(
    thread: str, rows: list[_Row], snapshots: dict[str, object], nodes: set[str] | None
) -> History:
    rows = sorted(rows, key=lambda row: row.id)  # an id begins with the time
    by_id = {row.id: row for row in rows}
    lanes = {}
    for namespace in {row.namespace for row in rows}:
        lanes |= _lanes({row.id: row.parent for row in rows if row.namespace == namespace})
    children: dict[str, list[str]] = {row.id: [] for row in rows}
    for row in rows:
        children.get(row.parent, []).append(row.id)
    answers = dict(_answers(rows))
    values = {row.id: _values(row, snapshots.get(row.id)) for row in rows}
    following = {row.id: _next(row, snapshots.get(row.id)) for row in rows}
    checkpoints = []
    for row in rows:
        named = _names(row, snapshots.get(row.id), following[row.id])
        writes = tuple(
            Write(each.task, named[each.task], each.channel, each.value) for each in row.writes
        )
        checkpoints.append(
            Checkpoint(
                id=row.id,
                parent=row.parent,
                namespace=row.namespace,
                owner=row.metadata.get("parents", {}).get(_enclosing(row.namespace)),
                lane=lanes[row.id],
                step=row.metadata["step"],
                source=row.metadata["source"],
                values=values[row.id],
                before=values.get(row.parent, {}),
                ran=_ran(row, by_id.get(row.parent), following.get(row.parent, ())),
                next=following[row.id],
                missing=_missing(row, nodes),
                tasks=_tasks(writes, named, following[row.id], answers),
                writes=writes,
                children=tuple(children[row.id]),
            )
        )
    return History(thread, tuple(checkpoints))


def _enclosing(namespace: str) -> str | None:
    """Return the namespace around one, as in "outer:id|inner:id"; a number counts calls."""
    parts = namespace.split("|")
    while parts[-1].isdigit():
        parts.pop()
    return "|".join(parts[:-1]) if namespace else None


def _lanes(parents: dict[str, str | None]) -> dict[str, int]:
    """Return the lane of each checkpoint of a namespace, from `{id: id of the parent}`.

    The chain that ends in the newest checkpoint is lane 0. What is left falls into chains that end
    in their newest and begin where they meet one that is taken; they are numbered by age.
    """
    chains: list[list[str]] = []
    taken: set[str] = set()
    for at in sorted(parents, reverse=True):
        chain = []
        while at in parents and at not in taken:
            chain.append(at)
            taken.add(at)
            at = parents[at]
        chains += [chain] if chain else []
    ordered = [*chains[:1], *sorted(chains[1:], key=lambda chain: chain[-1])]
    return {id_: lane for lane, chain in enumerate(ordered) for id_ in chain}


def _values(row: _Row, snapshot: object | None) -> dict[str, object]:
    """Return the state; channels of LangGraph's own are left out."""
    if snapshot is None:
        saved = row.checkpoint["channel_values"]
        return {k: v for k, v in saved.items() if not k.startswith(("__", EDGE, "join:"))}
    if snapshot.values is None:
        return {}
    return snapshot.values if isinstance(snapshot.values, dict) else {"value": snapshot.values}


def _next(row: _Row, snapshot: object | None) -> tuple[str, ...]:
    """Return the names of the tasks of the next step, from the graph or from the saved channels."""
    if snapshot is not None:
        return snapshot.next
    channels = row.checkpoint["channel_values"]
    # An entrypoint has a name of its own, known from what it wrote.
    first = [write.name for write in row.writes if write.name not in ("", *NO_NODE)]
    names = [*first, "__start__"][:1] if "__start__" in channels else []
    names += [send.node for send in channels.get("__pregel_tasks", ())]
    names += sorted(_branches(row.checkpoint))
    for channel, arrived in channels.items():
        if channel.startswith("join:"):
            awaited, node = channel.removeprefix("join:").rsplit(":", 1)
            names += [node] if set(arrived) == set(awaited.split("+")) else []
    return tuple(names)


def _branches(checkpoint: dict) -> list[str]:
    """Return the nodes that an edge has led to; the channel of an edge is named after its end."""
    return [c.removeprefix(EDGE) for c in checkpoint["channel_values"] if c.startswith(EDGE)]


def _missing(row: _Row, nodes: set[str] | None) -> tuple[str, ...]:
    """Return what the graph itself is to run next and has no node for, if its nodes are known."""
    if nodes is None or row.namespace:
        return ()
    return tuple(name for name in _branches(row.checkpoint) if name not in nodes)


def _agrees(row: _Row, read: dict[str, object]) -> bool:
    return row.id in read and set(read[row.id].next) == set(_next(row, None))


def _names(row: _Row, snapshot: object | None, following: tuple[str, ...]) -> dict[str, str]:
    """Return the name of each task that wrote something or is to run: `{id of the task: name}`."""
    names = {write.task: write.name for write in row.writes}
    expected = list(following)
    if snapshot is not None:
        # The public form of a write has no name, and a snapshot leaves out two kinds of tasks:
        # those that a Command added, and those whose node is not in the graph any more.
        known = {task.id: task.name for task in snapshot.tasks}
        names = known | {id_: "" for id_ in names if id_ not in known}
        expected = [name for name in _branches(row.checkpoint) if name not in known.values()]
        expected += [
            write.channel.removeprefix(EDGE)
            for write in row.writes
            if write.task == COMMAND and write.channel.startswith(EDGE)
        ]
    unnamed = [id_ for id_, name in names.items() if not name and id_ != COMMAND]
    for id_ in unnamed:
        channels = {write.channel for write in row.writes if write.task == id_}
        if len(unnamed) == len(expected) == 1:
            names[id_] = expected[0]
        elif "__return__" in channels or (snapshot is not None and channels <= CONTROL):
            names[id_] = "@task"
        else:
            names[id_] = "update_state" if snapshot is not None else "task"
    return names | ({COMMAND: "Command"} if COMMAND in names else {})


def _named(task: str, path: str, checkpoint: dict) -> str:
    """Return the name of the task that a row of `writes` belongs to, as its path tells it."""
    kind, *rest = path.split(", ")
    if task == COMMAND:
        return "Command"
    if kind == "~__pregel_pull":
        return rest[0]
    if kind == "~__pregel_push":
        sends = checkpoint["channel_values"].get("__pregel_tasks", ())
        if not rest[0].isdigit():
            return "@task"
        return sends[int(rest[0])].node if int(rest[0]) < len(sends) else "task"
    return "update_state" if kind == "~__interrupt__" else "task"


def _answers(rows: Iterable[_Row]) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the id of each interrupt and what its task was answered.

    A task that runs a subgraph repeats the interrupt of the task inside; only the one inside keeps
    the answers.
    """
    for row in rows:
        kept = {w.task: w.value for w in row.writes if w.channel == "__resume__"}
        for write in row.writes:
            if write.channel == "__interrupt__" and write.task in kept:
                for interrupt in write.value:
                    yield interrupt.id, tuple(kept[write.task])


def _tasks(
    writes: tuple[Write, ...], names: dict[str, str], following: tuple[str, ...], answers: dict
) -> tuple[Task, ...]:
    tasks = []
    for id_, name in names.items():
        own = [write for write in writes if write.task == id_]
        if name in ("Command", "update_state"):
            continue
        finished = any(write.channel not in CONTROL for write in own)
        questions = tuple(
            Question(
                interrupt.value,
                answers.get(interrupt.id, ()),
                finished and interrupt.id in answers,
            )
            for write in own
            if write.channel == "__interrupt__"
            for interrupt in write.value
        )
        error = next((str(write.value) for write in own if write.channel == "__error__"), None)
        tasks.append(Task(name, finished, error, questions))
    silent = [*(Counter(following) - Counter(task.name for task in tasks)).elements()]
    unnamed = sum(task.name == "task" for task in tasks)
    if unnamed:  # which of those that were to run they are is not known
        silent = ["task"] * (len(silent) - unnamed)
    return (*tasks, *(Task(name, False, None, ()) for name in silent))


def _ran(row: _Row, parent: _Row | None, following: tuple[str, ...]) -> tuple[str, ...]:
    """Return what ran on the edge that leads to a checkpoint."""
    source = row.metadata["source"]
    before = parent.checkpoint["versions_seen"] if parent else {}
    seen = {
        node: versions
        for node, versions in row.checkpoint["versions_seen"].items()
        if versions != before.get(node) and node not in ("__input__", "__interrupt__")
    }
    if source == "update":
        # A node that is written for has seen nothing. One that had run before is not told apart,
        # and where a node has seen something new, `as_node=END` has cleared what was to run.
        return ("__end__",) if any(seen.values()) else tuple(seen) or ("update_state",)
    if source != "loop":
        return ()
    return (*following, *(node for node, new in seen.items() if new and node not in following))


def _same(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # arrays, which compare element by element
        return repr(a) == repr(b)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file for reading only.

    A reader of a file in WAL mode creates `-wal` and `-shm` if they are missing, unless the file is
    declared immutable; that hides a `-wal`, and so is done only where there is none.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    has_wal = path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro" if has_wal else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)) as connection:
        yield connection
