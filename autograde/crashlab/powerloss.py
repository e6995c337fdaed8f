"""Power loss, SIMULATED: nothing here cuts any power, and no disk is looked at.

A kill ends a process, and the operating system keeps what it was handed. When the power goes, the
operating system goes too. No course can pull the plug, so this module does two other things. It
records what a function asks of the operating system, in a real process over a real folder; then it
works out, by the rules below, which contents the folder may have after a cut at each point.

The model, after what POSIX says of `fsync` and `rename`, and Linux's fsync(2) of folders:

* `fsync` of a file returns when all that the operating system holds of the file is on disk. Before,
  it promises nothing. So of the writes and truncations since the last fsync any first part may be
  on disk: none of them, some, all, and of the last of these only half. Closing a file is no fsync.
* `rename` is atomic: its name stands for the one file or the other. *When* it reaches the disk,
  POSIX does not say, nor that the data of the file got there before it. So the new name may be on
  disk while the file behind it is still empty.
* A created, renamed or removed name is an entry of the folder, and the folder has an fsync of its
  own. Of the changes of names since the last one any first part may be on disk: a new file may be
  missing altogether although its data were fsynced, a rename may never have happened.
* A write to a file that was opened with `O_SYNC` or `O_DSYNC` is a write and an fsync. `os.sync` is
  an fsync of everything.
* What is in the folder before the function starts is on disk.

Its limits. One folder, without what lies deeper, and small files. Changes to one file keep their
order, and so do changes of names, where a real disk may reorder both; a partial write is one half,
never zeros or garbage. Real file systems promise more (ext4 often writes the data before the
rename), and real disks less (some say "done" while the data are in a cache of their own). `flush`
has no row: what it hands to the operating system is a "write". `os.sync` is not called for real.
Windows can neither open nor fsync a folder; there the recorder takes both calls for done, so that
the same function is judged as on Linux.
"""

import functools
import itertools
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from crashlab.kill import BenchError, launch
from crashlab.recorder import MOST_OPERATIONS, Operation, files_of, record
from crashlab.source import line_text

World = TypeVar("World")
MOST_STATES = 5_000  # after one cut
HEAD = ("where", "code", "asks the operating system", "a cut right after may leave")


@dataclass(frozen=True)
class Cut:
    """The power goes right after `operation`: the outcomes that are possible then, in words."""

    operation: Operation
    outcomes: tuple[str, ...]


@dataclass(frozen=True)
class PowerReport:
    """A simulated power cut after each file operation of one function.

    `before` are the outcomes possible when the power goes before the first operation, `returned`
    those when it goes after the function has returned. `states` is how many different contents of
    the folder were judged. In a notebook and by `print` a report is a table.
    """

    name: str
    before: tuple[str, ...]
    cuts: tuple[Cut, ...]
    returned: tuple[str, ...]
    states: int
    seconds: float
    harmless: tuple[str, ...] = ("old", "new")

    @property
    def damage(self) -> list[Cut]:
        """The cuts after which harm is possible."""
        return [cut for cut in self.cuts if not set(cut.outcomes) <= set(self.harmless)]

    @property
    def whole(self) -> bool:
        """Whether no cut can do harm."""
        return not self.damage and set(self.returned) <= set(self.harmless)

    @property
    def durable(self) -> bool:
        """Whether nothing but "new" is possible once the function has returned."""
        return self.returned == ("new",)

    def at(self, text: str) -> set[str]:
        """Return the outcomes possible after the operations that contain `text`, as printed."""
        return {word for cut in self.cuts if text in str(cut.operation) for word in cut.outcomes}

    @property
    def first_harm(self) -> str:
        """After which request harm is possible first, whose line asked for it, and what harm."""
        if not self.damage:
            return ""
        first = self.damage[0]
        words = " or ".join(word for word in first.outcomes if word not in self.harmless)
        where, code = _place(first.operation)
        where = f"{where} `{code}`" if code else where
        return f"right after {first.operation}, {where}: {words} is possible"

    def verdict(self) -> str:
        """Return the report in one sentence: the first harm, and what a return promises."""
        moments = f"{len(self.cuts)} operation{'s' if len(self.cuts) != 1 else ''}"
        after = f"after it has returned, {' or '.join(self.returned)} is possible"
        if self.durable:
            after = "after it has returned, only new is possible"
        if not self.damage:
            return f"{self.name}: a power cut after each of its {moments} does no harm; {after}"
        return (
            f"{self.name}, power cut {self.first_harm}; "
            f"harm is possible after {len(self.damage)} of {moments}; {after}"
        )

    def rows(self) -> list[tuple[str, str, str, tuple[str, ...]]]:
        """Return the table: whose line, its code, what it asks for, what a cut then may leave."""
        rows = [("", "", "nothing yet", self.before)]
        rows += [(*_place(cut.operation), str(cut.operation), cut.outcomes) for cut in self.cuts]
        where, code, asks, words = rows[-1]
        return [*rows[:-1], (where, code, f"{asks}; then it returned", words)]

    def __str__(self) -> str:
        rows = [HEAD, *((*row, ", ".join(words)) for *row, words in self.rows())]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, wide)).rstrip() for row in rows]
        return "\n".join([f"{self.name}: power cuts, simulated", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from crashlab.figures.style import RED  # matplotlib takes half a second: only when drawn

        def coloured(words: tuple[str, ...]) -> str:
            return ", ".join(
                escape(word)
                if word in self.harmless
                else f'<b style="color:{RED}">{escape(word)}</b>'
                for word in words
            )

        left = ' style="text-align:left"'
        rows = [
            (
                escape(where),
                f"<code>{escape(code)}</code>" if code else "",
                escape(asks),
                coloured(words),
            )
            for where, code, asks, words in self.rows()
        ]
        body = "".join(
            f"<tr>{''.join(f'<td{left}>{cell}</td>' for cell in row)}</tr>" for row in rows
        )
        return (
            f"<table><caption{left}>{escape(self.name)}: power cuts, simulated</caption>"
            f"<thead><tr>{''.join(f'<th{left}>{cell}</th>' for cell in HEAD)}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


def power_cuts(
    function: Callable[[World], Any],
    world: Callable[[], AbstractContextManager[World]],
    judge: Callable[[World], str],
    *,
    harmless: tuple[str, ...] = ("old", "new"),
    deadline: float = 5.0,
) -> PowerReport:
    """Cut the power, in simulation, after each file operation of `function`; report what may be.

    function  gets the world
    world     makes a new one: `with world() as place`; `place` is a folder or has one as `.path`
    judge     looks at a world and says in a word what it finds: "old", "new", "torn", "empty",
              "lost". It is asked once for each different state of the disk, over real files.
    harmless  the outcomes that this exercise allows
    deadline  seconds that `function` may take

    Runs one process. Raises what `operations` raises.
    """
    began = time.monotonic()
    with world() as place:
        folder = _folder(place)
        before = files_of(folder)
        done = operations(function, place, folder=folder, deadline=deadline)
    words: dict[tuple, str] = {}

    def outcome(state: dict[str, bytes]) -> str:
        key = tuple(sorted(state.items()))
        if key not in words:
            with world() as place:
                for name in files_of(_folder(place)):
                    (_folder(place) / name).unlink()
                for name, data in state.items():
                    (_folder(place) / name).write_bytes(data)
                words[key] = judge(place)
        return words[key]

    possible = [
        tuple(dict.fromkeys(outcome(state) for state in states_after_cut(done, before, cut)))
        for cut in range(len(done) + 1)
    ]
    cuts = tuple(map(Cut, done, possible[1:]))
    name = _name(function)
    return PowerReport(
        name,
        possible[0],
        cuts,
        possible[-1],
        len(words),
        time.monotonic() - began,
        tuple(harmless),
    )


def operations(
    function: Callable, *args: Any, folder: str | os.PathLike, deadline: float = 5.0
) -> list[Operation]:
    """Run `function(*args)` in a new process; return what it asked for the files of `folder`.

    A file elsewhere counts if it is renamed into the folder; an fsync of any folder counts.

    Raises `BenchError` (`NotWritten` for a stub) if the function does not come to its end within
    `deadline` seconds, asks for 500 operations or more, or does what the recorder does not follow,
    such as a link, a memory map or a process of its own.
    """
    folder = Path(folder)
    before = files_of(folder)
    recorded = functools.partial(record, function, args, folder)
    recorded.__name__ = _name(function)
    found, after, unseen = launch(recorded, echo=False, deadline=deadline).result()
    if len(found) >= MOST_OPERATIONS:
        raise BenchError(
            f"{_name(function)} asks for {MOST_OPERATIONS} file operations or more; write less"
        )
    names, contents = _possible(found, before)
    known = before.keys() | {each.file for each in found if each.call == "create"}
    strange = any(
        each.call == "rename" and not os.path.isabs(each.name) and each.file not in known
        for each in found
    )
    if unseen:
        unseen = [f"{_name(function)} uses {unseen[0]}"]
    elif strange or {name: contents[file][-1] for name, file in names[-1].items()} != after:
        unseen = [f"{_name(function)} changed its folder by something else than is recorded"]
    if unseen:
        raise BenchError(
            f"{unseen[0]}: the recorder of file operations does not follow that; it follows open, "
            "write, truncate, rename, unlink, fsync, sync and what is built from them, in one "
            "process"
        )
    return found


def states_after_cut(
    operations: list[Operation], before: dict[str, bytes], cut: int
) -> list[dict[str, bytes]]:
    """Return what the folder may hold when the power goes after the first `cut` operations.

    `before` is what it held before the first one. A state maps names to contents; each state comes
    once, the one that is most behind first. Raises `BenchError` for more than 5000 combinations.
    """
    folders, contents = _possible(operations[:cut], before)
    states: dict[tuple, dict[str, bytes]] = {}
    for names in folders:
        files = list(dict.fromkeys(names.values()))
        versions = [list(dict.fromkeys(contents[file])) for file in files]
        if functools.reduce(lambda n, each: n * len(each), versions, 1) > MOST_STATES:
            raise BenchError("too many states of the disk are possible; use fewer or smaller files")
        for chosen in itertools.product(*versions):
            data = dict(zip(files, chosen, strict=True))
            state = {name: data[file] for name, file in names.items()}
            states.setdefault(tuple(sorted(state.items())), state)
    return list(states.values())


def _possible(
    operations: list[Operation], before: dict[str, bytes]
) -> tuple[list[dict[str, str]], dict[str, list[bytes]]]:
    """Return what may be on disk, the newest last: the folder's names, and each file's contents."""
    names = {name: name for name in before}
    folders = [names]
    contents = {name: [data] for name, data in before.items()}
    for each in operations:
        if each.call == "sync":
            contents = {file: held[-1:] for file, held in contents.items()}
            del folders[:-1]
            continue
        held = contents.setdefault(each.file, [each.data if each.call == "rename" else b""])
        if each.call in ("write", "truncate"):
            held += [_half(held[-1], each.data), each.data]
        elif each.call == "fsync":
            del held[:-1]
        elif each.call == "fsync folder" and each.name == ".":
            del folders[:-1]
        elif each.call in ("create", "rename", "unlink"):
            names = {name: file for name, file in names.items() if name != each.name}
            target = {"create": each.name, "rename": each.to, "unlink": ""}[each.call]
            if target and not os.path.isabs(target):
                names[target] = each.file
            folders.append(names)
    return folders, contents


def _half(before: bytes, after: bytes) -> bytes:
    """Return a file in which half of a change is done; a shortening is done or not."""
    same = len(before)
    if not after.startswith(before):  # not only added to
        pairs = enumerate(zip(before, after, strict=False))
        same = next((n for n, (old, new) in pairs if old != new), min(len(before), len(after)))
    done = same + (len(after) - same) // 2
    return after[:done] + before[done:]


def _folder(place: Any) -> Path:
    return Path(getattr(place, "path", place))


def _name(function: Callable) -> str:
    return getattr(function, "__name__", repr(function))


def _place(operation: Operation) -> tuple[str, str]:
    """Say whose line led to an operation, and show its code."""
    if operation.at is None:
        return "as it ended", ""
    return f"line {operation.at[1]} of {operation.by}", line_text(*operation.at)
