"""The real tools of a build agent: they cross-compile C in a work folder, with Zig as the compiler.

The sources are those of data/libraries. The environment variable ZIG_TARGET names the machine to
build for, such as aarch64-linux-musl. Each call reads it anew. Where it is not set, Zig builds for
the machine that it runs on, and says nothing.

    src/LIBRARY    the sources                           made by fetch
    build/LIBRARY  settings.json, an object per source   configure, compile
    deps/LIBRARY   what is installed: archive, header    install
    out            what is linked                        link
    tmp            Zig's caches and unfinished work, of calls that are running or were killed
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from crashlab import DATA

NEEDS = {"abseil": (), "re2": ("abseil",)}  # the libraries, and what each is built with

# No libc is there to link with, and none of its functions may be called in place of our loops.
FREESTANDING = ("-O1", "-g0", "-std=c11", "-fPIC", "-ffreestanding", "-fno-builtin")
# Every symbol has to be found, and Windows asks for a function to begin with.
SHARED = ("-shared", "-nostdlib", "-Wl,-z,defs", "-Wl,--no-entry")

ARCHIVE = b"!<arch>\n"  # how one begins
KINDS = {1: "object", 2: "program", 3: "shared library"}  # e_type of an ELF header
MACHINES = {3: "x86", 40: "Arm", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}  # its e_machine
ARCHITECTURES = {"x86": 3, "arm": 40, "x86_64": 62, "aarch64": 183, "riscv64": 243}


class ToolError(ToolException):
    """A tool failed; the message is what the compiler, the linker or the tool itself said."""


@dataclass(frozen=True)
class Toolchain:
    """The tools of one work folder. Each returns a text, or raises ToolError.

    A path is relative to the work folder, with "/" between its parts. What a tool makes is there
    whole or not at all, whenever its process is killed, and a second call makes the same bytes.
    The tools are as trusting as real ones: they take what they find.
    """

    work: Path

    def fetch(self, library: str) -> str:
        """Put the sources of a library into src/LIBRARY; return that path."""
        self._needs(library)
        with self._scratch() as scratch:
            shutil.copytree(DATA / "libraries" / library, scratch / library)
            return self._place(scratch, scratch / library, f"src/{library}")

    def read(self, path: str) -> str:
        """Return the text of a file, or the names in a folder, one a line."""
        found = self._find(path)
        if found.is_dir():
            return "\n".join(sorted(each.name for each in found.iterdir()))
        try:
            return found.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return f"{path} is no text: {found.stat().st_size} bytes"

    def configure(self, library: str) -> str:
        """Find what a library is built with; write build/LIBRARY/settings.json, return its path."""
        settings = {"includes": [], "archives": []}
        self._find(f"src/{library}", f"fetch {library} first")
        for needed in self._needs(library):
            for file in (f"{needed}.h", f"lib{needed}.a"):
                self._find(f"deps/{needed}/{file}", f"{library} needs {needed}, install it first")
            settings["includes"].append(f"deps/{needed}")
            settings["archives"].append(f"deps/{needed}/lib{needed}.a")
        settings["target"] = _target()  # for those who read it: each later call looks anew
        with self._scratch() as scratch:
            (scratch / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", "utf-8")
            path = f"build/{library}/settings.json"
            return self._place(scratch, scratch / "settings.json", path)

    def compile(self, library: str, source: str) -> str:
        """Compile one source, such as match.c, into an object in build/LIBRARY; return its path."""
        includes = [f"-I{folder}" for folder in self._settings(library)["includes"]]
        self._find(f"src/{library}/{source}")
        name = Path(source).stem + ".o"
        with self._scratch() as scratch:
            files = [f"src/{library}/{source}", "-o", str(scratch / name)]
            self._zig(scratch, "cc", "-target", _target(), *FREESTANDING, *includes, "-c", *files)
            return self._place(scratch, scratch / name, f"build/{library}/{name}")

    def install(self, library: str) -> str:
        """Put an archive of the objects, and the header, into deps/LIBRARY; return that path."""
        objects = self._objects(library)
        header = self._find(f"src/{library}/{library}.h")
        with self._scratch() as scratch:
            made = scratch / library
            made.mkdir()
            shutil.copyfile(header, made / header.name)
            # D: no times and no owners, so that the same objects make the same archive
            self._zig(scratch, "ar", "rcsD", str(made / f"lib{library}.a"), *objects)
            return self._place(scratch, made, f"deps/{library}")

    def link(self, library: str) -> str:
        """Link the objects and the archives they need into a library in out; return its path."""
        parts = [*self._objects(library), *self._settings(library)["archives"]]
        name = f"lib{library}.so"
        with self._scratch() as scratch:
            files = [*parts, "-o", str(scratch / name)]
            self._zig(scratch, "cc", "-target", _target(), *SHARED, *files)
            return self._place(scratch, scratch / name, f"out/{name}")

    def check(self, path: str, target: str) -> str:
        """Say which machine a file was built for; it is an error if the target is another one."""
        wanted = ARCHITECTURES.get(target.partition("-")[0])
        if wanted is None:
            raise ToolError(f"{target} is no known target")
        found = self._find(path)
        if found.is_dir():
            raise ToolError(f"{path} is a folder: check the files in it")
        data = found.read_bytes()
        try:
            parts = dict(members(data)) if data.startswith(ARCHIVE) else {"": data}
        except ValueError:
            raise ToolError(f"{path} is torn: its end is missing") from None
        for name, part in parts.items():
            where, header = f"{path}({name})" if name else path, elf(part)
            if header is None:
                raise ToolError(f"{where} is no ELF file")
            if header.size > len(part):
                raise ToolError(f"{where} is torn: its end is missing")
            if header.machine != wanted:
                machine = MACHINES.get(header.machine, header.machine)
                raise ToolError(f"{where} is for {machine}, and {target} is {MACHINES[wanted]}")
        if not parts:
            raise ToolError(f"{path} is empty")
        kind = KINDS.get(header.kind, header.kind) if "" in parts else f"archive of {len(parts)}"
        return f"{path}: ELF, {header.bits} bits, {MACHINES[wanted]}, {kind}"

    def _needs(self, library: str) -> tuple[str, ...]:
        if library not in NEEDS:
            raise ToolError(f"there is no library {library}: there are {', '.join(NEEDS)}")
        return NEEDS[library]

    def _find(self, path: str, advice: str = "") -> Path:
        found = (self.work / path).resolve()
        if not found.is_relative_to(self.work.resolve()):
            raise ToolError(f"{path} is outside of the work folder")
        if not found.exists():
            raise ToolError(f"there is no {path}" + (f": {advice}" if advice else ""))
        return found

    def _settings(self, library: str) -> dict:
        path = self._find(f"build/{library}/settings.json", f"configure {library} first")
        return json.loads(path.read_text(encoding="utf-8"))

    def _objects(self, library: str) -> list[str]:
        found = sorted(each.name for each in self.work.glob(f"build/{library}/*.o"))
        if not found:
            raise ToolError(f"there is no object in build/{library}: compile {library} first")
        return [f"build/{library}/{name}" for name in found]

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """Make a folder for one call. A kill leaves it behind, and nobody looks there again."""
        (self.work / "tmp").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.work / "tmp") as path:
            yield Path(path).absolute()  # Zig runs in another folder

    def _place(self, scratch: Path, made: Path, path: str) -> str:
        """Put what was made in its place. A folder that is there already is moved away first."""
        target = self.work / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            target.rename(scratch / "old")
        os.replace(made, target)
        return path

    def _zig(self, scratch: Path, *words: str) -> None:
        if not find_spec("ziglang"):
            raise ToolError("there is no C compiler: `make environment` installs ziglang")
        ran = subprocess.run(
            [sys.executable, "-P", "-m", "ziglang", *words],
            cwd=self.work,
            env={
                **os.environ,
                "ZIG_GLOBAL_CACHE_DIR": str(scratch / "cache"),
                "ZIG_LOCAL_CACHE_DIR": str(scratch / "cache"),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        if ran.returncode:
            raise ToolError(ran.stderr.strip())


def tools(work: Path) -> list[BaseTool]:
    """Return the tools of a work folder for a chat model: `model.bind_tools(tools(work))`.

    `tool.invoke(call)` returns the ToolMessage for a tool call; of a tool that failed, it holds
    the error and has the status "error".
    """
    chain = Toolchain(work)
    return [each.model_copy(update={"func": getattr(chain, each.name)}) for each in _TOOLS]


# Made once, so that a process forked later has the schemas of the arguments already.
_TOOLS = [
    StructuredTool.from_function(
        getattr(Toolchain(Path()), name), handle_tool_error=True, handle_validation_error=str
    )
    for name in ("fetch", "read", "configure", "compile", "install", "link", "check")
]


# What was built


@dataclass(frozen=True)
class Elf:
    """What the header of an ELF file says: 32 or 64 bits, e_type, e_machine, and its size.

    `size` is where the table of sections ends, in bytes: the file is at least so long.
    """

    bits: int
    kind: int
    machine: int
    size: int


def elf(data: bytes) -> Elf | None:
    """Read the header of an ELF file; None if it is no such file, or not even a whole header."""
    if len(data) < 64 or data[:4] != b"\x7fELF":
        return None
    order = "<" if data[5] == 1 else ">"
    wide = data[4] == 2
    kind, machine = struct.unpack_from(order + "HH", data, 16)
    (sections,) = struct.unpack_from(order + ("Q" if wide else "I"), data, 40 if wide else 32)
    each, count = struct.unpack_from(order + "HH", data, 58 if wide else 46)
    return Elf(64 if wide else 32, kind, machine, sections + each * count)


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file in an archive (`ar`), but not its table of symbols.

    Raises ValueError if the archive ends too early.
    """
    at = len(ARCHIVE)
    while at < len(archive):
        name = archive[at : at + 16].decode().rstrip()
        start, size = at + 60, int(archive[at + 48 : at + 58])
        if start + size > len(archive):
            raise ValueError(f"{name} is cut off")
        if name not in ("/", "//"):
            yield name.rstrip("/"), archive[start : start + size]
        at = start + size + size % 2


def _target() -> str:
    return os.environ.get("ZIG_TARGET") or "native"
