"""The outside of a build: sources fetched, libraries installed, and a fingerprint of each.

What a save says of it are claims. `fingerprint` is how a new process finds out whether they hold.
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

SOURCES = {
    "zlib": {"inflate.c": "int inflate() { return 0; }\n", "zlib.h": "int inflate();\n"},
    "libpng": {"png.c": "int png_read() { return inflate(); }\n", "png.h": "int png_read();\n"},
}


class BuildError(Exception):
    """A step of the build failed; the message is the tool's own."""


@dataclass(frozen=True)
class BuildTree:
    """The folder in which zlib and libpng are built.

    Each step does its work with real files and returns the name of what it made, such as
    "src/zlib". The tools are as trusting as real ones: they take what they find and complain only
    of what they themselves cannot do.
    """

    path: Path

    def fetch(self, library: str) -> str:
        """Put the sources into src/LIBRARY."""
        folder = self._empty(f"src/{library}")
        for name, text in SOURCES[library].items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        return f"src/{library}"

    def install(self, library: str) -> str:
        """Put the library and its headers, made from the sources, into deps/LIBRARY."""
        folder = self._empty(f"deps/{library}")
        for header in self._files(f"src/{library}", "*.h"):
            shutil.copyfile(header, folder / header.name)
        code = b"".join(path.read_bytes() for path in self._files(f"src/{library}", "*.c"))
        (folder / f"{library}.a").write_bytes(code)
        return f"deps/{library}"

    def configure(self, library: str) -> str:
        """Write settings into build/LIBRARY.settings; does not look whether they can be met."""
        settings = self.path / "build" / f"{library}.settings"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("libraries = deps\n", encoding="utf-8", newline="\n")
        return f"build/{library}.settings"

    def compile(self, library: str) -> str:
        """Make an object file in build/LIBRARY of each .c file in src/LIBRARY, however many."""
        folder = self._empty(f"build/{library}")
        for source in self._files(f"src/{library}", "*.c"):
            shutil.copyfile(source, folder / f"{source.stem}.o")
        return f"build/{library}"

    def link(self, library: str) -> str:
        """Put the objects and the installed libraries together into out/LIBRARY.so."""
        parts = self._files(f"build/{library}", "*.o") + self._files("deps", "*/*.a")
        code = b"".join(path.read_bytes() for path in parts)
        for symbol in ("png_read", "inflate"):
            if f"int {symbol}()".encode() not in code:
                raise BuildError(f"undefined symbol: {symbol}")
        target = self.path / "out" / f"{library}.so"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(code)
        return f"out/{library}.so"

    def _empty(self, name: str) -> Path:
        folder = self.path / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _files(self, name: str, pattern: str) -> list[Path]:
        return sorted((self.path / name).glob(pattern))


def fingerprint(path: Path) -> str:
    """Return a hash of what a file, or a folder with all in it, holds.

    Names and bytes count; times, permissions, empty folders and the place itself do not. Raises
    FileNotFoundError where nothing is.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}")
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    total = hashlib.sha256()
    for name, file in sorted((file.relative_to(path).as_posix(), file) for file in files):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        total.update(f"{name}\0{content}\n".encode())
    return total.hexdigest()[:16]
