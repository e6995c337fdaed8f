"""The outside of a build, and the fingerprint by which a lie about it is found."""

import os
import shutil
from pathlib import Path

import pytest

from crashlab.world.builds import BuildError, BuildTree, fingerprint

STEPS = ["fetch zlib", "install zlib", "fetch libpng", "configure libpng", "compile libpng"]


def build(path: Path, steps: list[str]) -> list[str]:
    made = []
    for step in steps:
        verb, library = step.split()
        made.append(getattr(BuildTree(path), verb)(library))
    return made


def test_each_step_names_what_it_made_and_twice_makes_the_same(tmp_path: Path) -> None:
    made = build(tmp_path, [*STEPS, "link libpng"])
    assert made == [
        "src/zlib",
        "deps/zlib",
        "src/libpng",
        "build/libpng.settings",
        "build/libpng",
        "out/libpng.so",
    ]
    before = [fingerprint(tmp_path / name) for name in made]
    assert build(tmp_path, [*STEPS, "link libpng"]) == made
    assert [fingerprint(tmp_path / name) for name in made] == before
    assert len(set(before)) == len(before)


@pytest.mark.parametrize(
    ("lost", "symbol"), [(".", "png_read"), ("src/libpng", "png_read"), ("deps", "inflate")]
)
def test_a_lost_folder_shows_only_when_all_is_put_together(
    tmp_path: Path, lost: str, symbol: str
) -> None:
    work = tmp_path / "work"
    build(work, STEPS[:3])
    shutil.rmtree(work / lost)
    build(work, STEPS[3:])
    with pytest.raises(BuildError, match=f"undefined symbol: {symbol}"):
        BuildTree(work).link("libpng")


def test_a_fingerprint_is_of_names_and_bytes_only(tmp_path: Path) -> None:
    build(tmp_path / "a", STEPS)
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copyfile)
    os.utime(tmp_path / "b" / "src" / "zlib" / "zlib.h", (0, 0))
    (tmp_path / "b" / "empty").mkdir()
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "b")


@pytest.mark.parametrize("damage", ["changed", "emptied", "removed", "renamed", "added"])
def test_a_fingerprint_sees_every_damage(tmp_path: Path, damage: str) -> None:
    build(tmp_path, STEPS)
    folder = tmp_path / "src" / "zlib"
    header = folder / "zlib.h"
    before, of_header = fingerprint(folder), fingerprint(header)
    match damage:
        case "changed":
            header.write_bytes(header.read_bytes().replace(b"int", b"InT"))
        case "emptied":
            header.write_bytes(b"")
        case "removed":
            header.unlink()
        case "renamed":
            header.rename(folder / "zlib.hpp")
        case "added":
            (folder / "more.h").touch()
    assert fingerprint(folder) != before
    if header.exists() and damage != "added":
        assert fingerprint(header) != of_header


def test_of_nothing_there_is_no_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no .*deps"):
        fingerprint(tmp_path / "deps")
    assert fingerprint(tmp_path)  # an empty folder is something
