"""Record what a function asks of the operating system for the files of one folder.

The recorder sits below Python's buffers: a "write" is what left them, when it left them.
"""

import _pyio
import gc
import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from crashlab.source import Line, is_library, line_text
from crashlab.victim import HERE, POSIX

if POSIX:
    import fcntl

MOST_OPERATIONS = 500
FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None) if POSIX else None  # macOS has it
SYNCED = getattr(os, "O_SYNC", 0) | getattr(os, "O_DSYNC", 0)  # each write waits for the disk
WRITERS = {  # which argument says where to
    "write": 0,
    "writev": 0,
    "pwrite": 0,
    "pwritev": 0,
    "sendfile": 0,
    "copy_file_range": 1,
    "truncate": 0,
    "ftruncate": 0,
}
UNSEEN = {  # what Python's audit hooks call it, and what people call it
    "os.link": "os.link",
    "os.symlink": "os.symlink",
    "os.fork": "os.fork",
    "os.exec": "os.exec",
    "os.posix_spawn": "os.posix_spawn",
    "os.system": "os.system",
    "subprocess.Popen": "a program of its own (subprocess)",
}


@dataclass(frozen=True)
class Operation:
    """One thing that a function asked of the operating system.

    call  "create", "truncate", "write", "fsync", "rename", "unlink", "fsync folder" or "sync"
    name  the file's name in the recorded folder ("." is the folder); elsewhere its full path
    file  which file it is, under whatever name
    data  what the operating system holds of the file after the call
    to    the name after a rename
    at    the line of yours that led to it; None: a file left open was closed as the function ended
    by    the function of yours that this line is in
    """

    call: str
    name: str
    file: str = ""
    data: bytes = b""
    to: str = ""
    at: Line | None = None
    by: str = ""

    def __str__(self) -> str:
        names = [os.path.basename(name) for name in (self.name, self.to) if name not in ("", ".")]
        text = f"{self.call} {' → '.join(names)}".rstrip()
        if self.call in ("write", "fsync"):
            text += f", {'now ' if self.call == 'write' else ''}{len(self.data)} bytes"
        return text + (" (another folder)" if os.path.isabs(self.name) else "")


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files right in a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def record(
    function: Callable, args: tuple, folder: Path
) -> tuple[list[Operation], dict[str, bytes], list[str]]:
    """Run the function; return its operations, what is in the folder then, and what went unseen.

    What is patched here stays patched: the process ends afterwards.
    """
    recorder = _Recorder(folder)
    recorder.install()
    function(*args)
    return recorder.of_the_folder(), files_of(folder), recorder.unseen


class _Open(NamedTuple):
    """A file or folder behind a descriptor; `synced` if each write waits for the disk."""

    file: str = ""
    folder: str = ""
    synced: bool = False


class _Recorder:
    """Stands between a process and the calls by which it changes files.

    It sits below Python's buffers: a `write` is what left them, when it left them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = os.path.realpath(folder)
        self.operations: list[Operation] = []
        self.files: dict[str, str] = {}  # the file that a name stands for, if it was touched
        self.opened: dict[int, _Open] = {}  # by descriptor
        self.held: dict[str, bytes] = {}
        self.unseen: list[str] = []  # calls that this record cannot follow, each with its line
        self.read = io.FileIO
        self.real_open = os.open

    def install(self) -> None:
        """Put the recorder in the place of each call, in all modules and in your own code."""
        swap = {
            os.open: self.open,
            os.fsync: self.syncer(os.fsync),
            os.rename: self.renamer(os.rename),
            os.replace: self.renamer(os.replace),
            os.unlink: self.unlinker(os.unlink),
            os.remove: self.unlinker(os.remove),
            os.dup: self.copier(os.dup),
            os.dup2: self.copier(os.dup2),
            io.open: _pyio.open,
            io.FileIO: self.raw_file(),
        }
        if hasattr(os, "fdatasync"):
            swap[os.fdatasync] = self.syncer(os.fdatasync)
        if hasattr(os, "sync"):
            swap[os.sync] = self.sync_all
        for name in WRITERS.keys() & vars(os).keys():
            swap[getattr(os, name)] = self.writer(getattr(os, name), WRITERS[name])
        # _pyio.open is the library's own `open` written in Python; with the buffers of `io` it
        # behaves as the one written in C, and takes any raw file.
        for name in ("BufferedReader", "BufferedWriter", "BufferedRandom", "TextIOWrapper"):
            setattr(_pyio, name, getattr(io, name))
        _pyio.FileIO = io.FileIO
        by_id = {id(real): ours for real, ours in swap.items()}
        spaces = [vars(module) for module in list(sys.modules.values())]
        # what travelled here from a notebook is in no module; nor is IPython's `open`
        spaces += [each.__globals__ for each in gc.get_objects() if type(each) is FunctionType]
        for space in {id(space): space for space in spaces}.values():
            for name, value in list(space.items()):
                if id(value) in by_id:
                    space[name] = by_id[id(value)]
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple) -> None:
        """Listen to what Python announces before it does it, under whatever name it was called."""
        if event in UNSEEN:
            self.miss(UNSEEN[event])
        elif event == "os.rename" and arguments[2:] != (-1, -1):
            self.miss("a rename with src_dir_fd or dst_dir_fd")
        elif event == "fcntl.fcntl" and FULL_SYNC is not None and arguments[1] == FULL_SYNC:
            self.sync(arguments[0])

    def of_the_folder(self) -> list[Operation]:
        """Return what concerns the folder: files that are in it at some time, and every fsync of a
        folder or of everything."""
        inside = {
            each.file
            for each in self.operations
            if any(name and not os.path.isabs(name) for name in (each.name, each.to))
        }
        return [
            e for e in self.operations if e.file in inside or e.call in ("fsync folder", "sync")
        ]

    # What stands in for the calls

    def raw_file(self) -> type[io.FileIO]:
        """Return the class of raw files whose opening, writing and truncating is recorded."""
        recorder = self

        class Raw(io.FileIO):
            def __init__(
                self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None
            ) -> None:
                opener = opener or (lambda path, flags: recorder.open(path, flags, 0o666))
                super().__init__(file, mode, closefd, opener)

            def write(self, data: Any) -> int | None:
                written = super().write(data)
                recorder.changed("write", self.fileno())
                return written

            def truncate(self, size: int | None = None) -> int:
                size = super().truncate(size)
                recorder.changed("truncate", self.fileno())
                return size

        return Raw

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Stand in for os.open."""
        existed = os.path.lexists(path)
        is_folder = os.path.isdir(path)
        if is_folder and not POSIX:
            descriptor = self.real_open(os.devnull, os.O_RDONLY)
        else:
            descriptor = self.real_open(path, flags, mode, dir_fd=dir_fd)
        self.opened.pop(descriptor, None)
        if is_folder:
            self.opened[descriptor] = _Open(folder=self.name(path))
        elif dir_fd is not None:
            if flags & (os.O_WRONLY | os.O_RDWR):
                self.miss("os.open with dir_fd")
        elif os.path.isfile(path):
            name = self.name(path)
            if not existed:
                self.files[name] = f"{name}#{len(self.operations)}"
                self.note("create", name, self.files[name])
            file = self.files.setdefault(name, name)
            self.opened[descriptor] = _Open(file, synced=bool(flags & SYNCED))
            if existed and flags & os.O_TRUNC:
                self.changed("truncate", descriptor)
        return descriptor

    def copier(self, real: Callable) -> Callable:
        """Stand in for os.dup and os.dup2."""

        def dup(fd: int, *args: Any, **keywords: Any) -> int:
            copy = real(fd, *args, **keywords)
            self.opened[copy] = self.opened.get(fd, _Open())
            return copy

        return dup

    def writer(self, real: Callable, where: int) -> Callable:
        """Stand in for a call that changes the file that argument `where` stands for."""
        call = "truncate" if "truncate" in real.__name__ else "write"

        def change(*args: Any, **keywords: Any) -> Any:
            result = real(*args, **keywords)
            if len(args) > where:
                self.changed(call, args[where])
            return result

        return change

    def syncer(self, real: Callable) -> Callable:
        """Stand in for os.fsync and os.fdatasync."""

        def fsync(fd: Any) -> None:
            number = fd if isinstance(fd, int) else fd.fileno()
            if POSIX or not self.opened.get(number, _Open()).folder:
                real(fd)
            self.sync(number)

        return fsync

    def sync_all(self) -> None:
        """Stand in for os.sync. Not done for real: it waits for the disks of the whole machine."""
        self.note("sync", ".", "")

    def renamer(self, real: Callable) -> Callable:
        """Stand in for os.rename and os.replace."""

        def rename(src: Any, dst: Any, **folders: Any) -> None:
            real(src, dst, **folders)
            if not folders and os.path.isfile(dst):
                file = self.file(src)
                source, target = self.name(src), self.name(dst)
                del self.files[source]
                self.files[target] = file
                self.note("rename", source, file, self.data(target), target)

        return rename

    def unlinker(self, real: Callable) -> Callable:
        """Stand in for os.unlink and os.remove."""

        def unlink(path: Any, *, dir_fd: int | None = None) -> None:
            real(path, dir_fd=dir_fd)
            if dir_fd is None:
                file = self.file(path)
                del self.files[self.name(path)]
                self.note("unlink", self.name(path), file)
            elif self.opened.get(dir_fd, _Open()).folder == ".":
                self.miss("os.unlink with dir_fd")

        return unlink

    # Keeping the record

    def name(self, path: Any) -> str:
        """Return a path's bare name if it lies in the folder, "." for the folder, or all of it."""
        path = os.path.abspath(os.fsdecode(path))
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        head, tail = os.path.split(path)
        return tail if head == self.folder else "." if path == self.folder else path

    def file(self, path: Any) -> str:
        name = self.name(path)
        return self.files.setdefault(name, name)

    def data(self, name: str) -> bytes:
        with self.read(os.path.join(self.folder, name)) as file:
            return file.readall()

    def changed(self, call: str, target: Any) -> None:
        """Note a change of a file's contents, if they did change and the file still has a name.

        `target` is a descriptor or a path.
        """
        known = self.opened.get(target, _Open()) if isinstance(target, int) else _Open()
        file = known.file if isinstance(target, int) else self.file(target)
        name = next((name for name, each in self.files.items() if each == file), None)
        if not file or name is None:
            return
        data = self.data(name)
        if data != self.held.get(file):
            self.note(call, name, file, data)
        if known.synced and call == "write":
            self.sync(target)

    def sync(self, descriptor: int) -> None:
        """Note that what is behind a descriptor was put on the disk."""
        file, folder, _ = self.opened.get(descriptor, _Open())
        if folder:
            self.note("fsync folder", folder, "")
        for name in [name for name, each in self.files.items() if each == file]:
            self.note("fsync", name, file, self.data(name))

    def miss(self, call: str) -> None:
        """Note a call that cannot be followed."""
        line, by = _line()
        where = f", line {line[1]} of {by} `{line_text(*line)}`" if line else ""
        self.unseen.append(call + where)

    def note(self, call: str, name: str, file: str, data: bytes = b"", to: str = "") -> None:
        self.held[file] = data
        if len(self.operations) < MOST_OPERATIONS:
            self.operations.append(Operation(call, name, file, data, to, *_line()))


def _line() -> tuple[Line | None, str]:
    """Return the line of the learner's that is running, and the function it is in.

    A line of the learner's is neither Python's, nor a package's, nor ours.
    """
    frame = sys._getframe(1)
    while frame and frame.f_code is not record.__code__:
        file = frame.f_code.co_filename
        if not (is_library(file) or file.startswith((HERE, "<frozen "))):
            return (file, frame.f_lineno), frame.f_code.co_name
        frame = frame.f_back
    return None, ""
