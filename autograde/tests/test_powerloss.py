"""What a simulated power cut may leave, by the rules that crashlab.powerloss states."""

import html
import io
import json
import mmap
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import fsync as imported_fsync
from pathlib import Path

import pytest
from IPython.core.interactiveshell import _modified_open

from crashlab import BenchError, NotWritten, WorkFolder, recorder
from crashlab.powerloss import Operation, PowerReport, operations, power_cuts, states_after_cut

OLD, NEW = b'{"steps": 1, "note": "long"}', b'{"steps": 2}'


@contextmanager
def saved() -> Iterator[WorkFolder]:
    with WorkFolder.fresh() as folder:
        folder.checkpoint.write_bytes(OLD)
        yield folder


def judge(folder: WorkFolder) -> str:
    if not folder.checkpoint.exists():
        return "lost"
    found = folder.checkpoint.read_bytes()
    return {OLD: "old", NEW: "new", b"": "empty"}.get(found, "torn")


def cuts(save: Callable[[Path], None]) -> PowerReport:
    def run(folder: WorkFolder) -> None:
        save(folder.checkpoint)

    return power_cuts(run, saved, judge)


def calls(report: PowerReport) -> list[str]:
    return [cut.operation.call for cut in report.cuts]


def beside(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")


def sync_folder(path: Path) -> None:
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def in_place(path: Path) -> None:
    path.write_bytes(NEW)


def without_fsync(path: Path) -> None:
    beside(path).write_bytes(NEW)
    os.replace(beside(path), path)


def with_fsync(path: Path) -> None:
    with open(beside(path), "wb") as file:
        file.write(NEW)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside(path), path)


def with_both(path: Path) -> None:
    with_fsync(path)
    sync_folder(path)


def fsync_without_flush(path: Path) -> None:
    with open(beside(path), "wb") as file:
        file.write(NEW)
        os.fsync(file.fileno())
    os.replace(beside(path), path)
    sync_folder(path)


def test_in_place_can_be_torn_and_empty() -> None:
    report = cuts(in_place)
    assert calls(report) == ["truncate", "write"]
    assert [set(cut.outcomes) for cut in report.cuts] == [
        {"old", "empty"},
        {"old", "empty", "torn", "new"},
    ]
    assert not report.whole and not report.durable


def test_a_rename_may_be_on_disk_before_the_data() -> None:
    report = cuts(without_fsync)
    assert calls(report) == ["create", "write", "rename"]
    assert report.at("write") == {"old"}
    assert report.at("rename") == {"old", "empty", "torn", "new"}
    assert "harm is possible after 1 of 3 operations" in report.verdict()
    assert re.fullmatch(
        r"right after rename run-217\.json\.tmp → run-217\.json, line \d+ of without_fsync "
        r"`os\.replace\(beside\(path\), path\)`: empty or torn is possible",
        report.first_harm,
    )
    assert f"run, power cut {report.first_harm}; harm is possible" in report.verdict()


def test_data_first_then_the_name_is_whole_but_not_durable() -> None:
    report = cuts(with_fsync)
    assert calls(report) == ["create", "write", "fsync", "rename"]
    assert report.whole and not report.durable
    assert report.returned == ("old", "new")
    assert "after it has returned, old or new is possible" in report.verdict()


def test_with_the_folder_it_is_durable() -> None:
    report = cuts(with_both)
    assert calls(report)[-2:] == ["rename", "fsync folder"]
    assert report.whole and report.durable and report.first_harm == ""
    assert report.at("rename") == {"old", "new"}
    assert "only new is possible" in report.verdict()


def test_an_fsync_before_the_flush_is_an_fsync_of_nothing() -> None:
    report = cuts(fsync_without_flush)
    assert calls(report) == ["create", "fsync", "write", "rename", "fsync folder"]
    assert report.at("fsync run-217.json.tmp, 0 bytes") == {"old"}
    assert set(report.returned) == {"empty", "torn", "new"}


def test_the_folder_first_is_too_early() -> None:
    def early(path: Path) -> None:
        with open(beside(path), "wb") as file:
            file.write(NEW)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path)
        os.replace(beside(path), path)

    report = cuts(early)
    assert report.whole and report.returned == ("old", "new")


def test_a_new_file_may_be_missing_although_its_data_were_synced() -> None:
    def first_save(folder: WorkFolder) -> None:
        with open(folder.checkpoint, "wb", buffering=0) as file:
            file.write(NEW)
            os.fsync(file)

    report = power_cuts(first_save, WorkFolder.fresh, judge)
    assert report.returned == ("lost", "new")


def test_removing_first_can_lose_the_save() -> None:
    def remove_first(path: Path) -> None:
        beside(path).write_bytes(NEW)
        path.unlink()
        beside(path).rename(path)

    report = cuts(remove_first)
    assert report.at("unlink") == {"old", "lost"}
    assert calls(report) == ["create", "write", "unlink", "rename"]


def with_mkstemp(path: Path) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(NEW.decode())
        file.flush()
        os.fsync(handle)
    shutil.move(name, path)


def with_named_file(path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(NEW)
        file.flush()
        os.fsync(file)
    Path(file.name).replace(path)


def with_descriptors(path: Path) -> None:
    handle = os.open(beside(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(handle, NEW)
    os.fsync(handle)
    os.close(handle)
    os.rename(beside(path), path)


def with_names_of_its_own(path: Path) -> None:
    with io.open(beside(path), "wb") as file:  # noqa: UP020 (the other name is under test)
        file.write(NEW)
        file.flush()
        imported_fsync(file.fileno())
    os.replace(os.fsencode(beside(path)), path)


def in_a_notebook(path: Path) -> None:
    with _modified_open(beside(path), "wb") as file:
        file.write(NEW)
        file.flush()
        os.fsync(file.fileno())
    beside(path).replace(path)


def with_dup(path: Path) -> None:
    handle = os.open(beside(path), os.O_WRONLY | os.O_CREAT)
    os.write(handle, NEW)
    copy = os.dup(handle)
    os.close(handle)
    os.fsync(copy)
    os.rename(beside(path), path)


def with_synced_writes(path: Path) -> None:
    handle = os.open(beside(path), os.O_WRONLY | os.O_CREAT | os.O_SYNC)
    os.write(handle, NEW)
    os.rename(beside(path), path)


def with_a_synced_file(path: Path) -> None:
    with open(beside(path), "wb", opener=lambda p, flags: os.open(p, flags | os.O_DSYNC)) as file:
        file.write(NEW)
    os.rename(beside(path), path)


@pytest.mark.skipif(os.name != "posix", reason="Windows does not rename onto a file")
@pytest.mark.parametrize(
    "save",
    [
        with_mkstemp,
        with_named_file,
        with_descriptors,
        with_names_of_its_own,
        in_a_notebook,
        with_dup,
        with_synced_writes,
        with_a_synced_file,
    ],
)
def test_all_ways_to_ask_are_seen(save: Callable) -> None:
    report = cuts(save)
    assert calls(report) == ["create", "write", "fsync", "rename"]
    assert report.whole and report.returned == ("old", "new")


@pytest.mark.skipif(not hasattr(os, "O_SYNC"), reason="Windows has no O_SYNC")
def test_a_synced_write_in_place_can_still_be_cut_half_way() -> None:
    def overwritten(path: Path) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_SYNC)
        os.write(handle, OLD.replace(b"1", b"2").replace(b"long", b"LONG"))

    report = cuts(overwritten)
    assert calls(report) == ["write", "fsync"]
    assert report.at("write") == {"old", "torn"} and not report.whole


@pytest.mark.skipif(not hasattr(os, "sync"), reason="Windows has no os.sync")
def test_sync_puts_everything_on_the_disk() -> None:
    def replaced(path: Path, data_first: bool) -> None:
        beside(path).write_bytes(NEW)
        if data_first:
            os.sync()
        os.replace(beside(path), path)
        os.sync()

    report = cuts(lambda path: replaced(path, True))
    assert calls(report) == ["create", "write", "sync", "rename", "sync"]
    assert report.whole and report.durable
    report = cuts(lambda path: replaced(path, False))
    assert not report.whole and report.durable


def test_macos_forces_its_disk_by_fcntl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "FULL_SYNC", 51)
    recording = recorder._Recorder(tmp_path)
    descriptor = recording.open(tmp_path / "save", os.O_WRONLY | os.O_CREAT)
    recording.hear("fcntl.fcntl", (descriptor, 2, 0))
    recording.hear("fcntl.fcntl", (descriptor, 51, 0))
    os.close(descriptor)
    assert [str(each) for each in recording.operations] == ["create save", "fsync save, 0 bytes"]


def test_each_operation_knows_the_line_it_came_from() -> None:
    title, head, *rows = str(cuts(with_both)).splitlines()
    assert title == "run: power cuts, simulated"
    assert head.split("  ")[0] == "where" and head.endswith("a cut right after may leave")
    assert [row.split()[0:4:3] for row in rows[1:5]] == [["line", "with_fsync"]] * 4
    assert rows[5].split()[0:4:3] == ["line", "sync_folder"]
    expected = [
        ("", "nothing yet", "old"),
        ('with open(beside(path), "wb") as file:', "create", "old"),
        ("file.flush()", "write", "old"),
        ("os.fsync(file.fileno())", "fsync", "old"),
        ("os.replace(beside(path), path)", "rename", "old, new"),
        ("os.fsync(descriptor)", "fsync folder; then it returned", "new"),
    ]
    for row, (code, asks, words) in zip(rows, expected, strict=True):
        assert code in row and f"  {asks}" in row and row.endswith(f"  {words}")


def test_the_page_shows_the_same_table() -> None:
    for save in (in_place, with_both):
        report = cuts(save)
        page = re.sub(r"<b style[^>]*>|</b>|</?code>", "", report._repr_html_())
        cells = [html.unescape(cell) for cell in re.findall(r"<t[hd] [^>]*>([^<]*)<", page)]
        text = [row.rstrip() for row in str(report).splitlines()]
        assert re.search(r"<caption[^>]*>([^<]*)<", page)[1] == text[0]
        rows = [cells[n : n + 4] for n in range(0, len(cells), 4)]
        assert [" ".join(" ".join(row).split()) for row in rows] == [
            " ".join(row.split()) for row in text[1:]
        ]
    assert '<b style="color' in cuts(in_place)._repr_html_()


def test_the_buffer_is_pythons_own() -> None:
    def large(path: Path) -> None:
        with open(path, "w") as file:
            for number in range(3000):
                json.dump(number, file)

    with saved() as folder:
        found = operations(large, folder.checkpoint, folder=folder.path)
        size = folder.checkpoint.stat().st_size
    writes = [each for each in found if each.call == "write"]
    assert 1 < len(writes) < 10
    assert 4000 < len(writes[0].data) < len(writes[-1].data) == size


def test_a_file_left_open_reaches_the_system_when_the_function_ends() -> None:
    def left_open(folder: WorkFolder) -> None:
        file = open(folder.checkpoint, "wb")  # noqa: SIM115 (the fault under test)
        file.write(NEW)

    report = power_cuts(left_open, saved, judge)
    assert report.cuts[-1].operation.at is None
    assert "as it ended" in str(report)
    assert "right after truncate run-217.json, line" in report.verdict()


def test_a_copy_and_a_file_from_elsewhere_are_followed() -> None:
    def copied(path: Path) -> None:
        shutil.copy(path, path.with_suffix(".bak"))
        with tempfile.TemporaryDirectory(dir=path.parent.parent) as other:
            (Path(other) / "new").write_bytes(NEW)
            (Path(other) / "unused").write_bytes(NEW)
            os.replace(Path(other) / "new", path)
            sync_folder(Path(other) / "new")

    report = cuts(copied)
    assert report.at("run-217.bak") == {"old"}
    assert report.at("(another folder)") == {"old", "empty", "torn", "new"}
    assert report.at("unused") == set()
    assert report.at("fsync folder") == set(report.returned) == {"old", "empty", "torn", "new"}


def test_a_temporary_folder_beside_the_save_is_as_good_as_a_temporary_file() -> None:
    def by_a_folder(path: Path, data_first: bool, synced: str) -> None:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            new = Path(folder) / "new"
            with open(new, "wb", buffering=0) as file:
                file.write(NEW)
                if data_first:
                    os.fsync(file)
            os.replace(new, path)
            sync_folder({"outer": path, "inner": new}[synced])

    report = cuts(lambda path: by_a_folder(path, True, "outer"))
    assert calls(report) == ["create", "write", "fsync", "rename", "fsync folder"]
    assert report.whole and report.durable
    report = cuts(lambda path: by_a_folder(path, True, "inner"))
    assert report.whole and report.returned == ("old", "new")
    report = cuts(lambda path: by_a_folder(path, False, "outer"))
    assert not report.whole and set(report.returned) == {"empty", "torn", "new"}


def test_an_fsync_of_what_has_the_name_does_not_keep_the_name() -> None:
    def of_the_file(path: Path) -> None:
        with_fsync(path)
        sync_folder(path / "this")  # syncs what is at `path`

    def of_another_folder(path: Path) -> None:
        with_fsync(path)
        sync_folder(Path("this"))

    for save, last in [(of_the_file, "fsync"), (of_another_folder, "fsync folder")]:
        report = cuts(save)
        assert calls(report)[-2:] == ["rename", last]
        assert report.returned == ("old", "new")
    assert str(report.cuts[-1].operation).endswith(" (another folder)")


def test_states_by_hand() -> None:
    found = [
        Operation("create", "b", "b#0"),
        Operation("write", "b", "b#0", b"1234"),
        Operation("fsync", "b", "b#0", b"1234"),
        Operation("rename", "b", "b#0", b"1234", "a"),
        Operation("fsync folder", "."),
    ]
    before = {"a": b"old", "c": b"c"}
    possible = [states_after_cut(found, before, cut) for cut in range(6)]
    none, whole = {"a": b"old", "c": b"c"}, {"a": b"1234", "c": b"c"}
    assert possible[0] == [none]
    assert possible[1] == [none, none | {"b": b""}]
    assert possible[2] == [none, *(none | {"b": data} for data in (b"", b"12", b"1234"))]
    assert possible[3] == [none, none | {"b": b"1234"}]
    assert possible[4] == [none, none | {"b": b"1234"}, whole]
    assert possible[5] == [whole]


def test_half_of_a_change_in_the_middle() -> None:
    found = [Operation("write", "a", "a", b"abXYZWgh")]
    assert states_after_cut(found, {"a": b"abcdefgh"}, 1) == [
        {"a": b"abcdefgh"},
        {"a": b"abXYZfgh"},
        {"a": b"abXYZWgh"},
    ]


def test_too_many_states_are_refused() -> None:
    found = [
        Operation("write", name, name, b"x" * n) for name in ("a", "b", "c") for n in range(1, 20)
    ]
    before = {"a": b"", "b": b"", "c": b""}
    assert len(states_after_cut(found, before, 38)) == 20 * 20
    with pytest.raises(BenchError, match="too many states of the disk"):
        states_after_cut(found, before, 57)


def linked(path: Path) -> None:
    os.link(path, beside(path))


def symlinked(path: Path) -> None:
    path.with_name("data").write_bytes(NEW)
    beside(path).symlink_to("data")
    os.replace(beside(path), path)


def renamed_in_its_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    beside(path).write_bytes(NEW)
    os.rename(beside(path).name, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def opened_in_its_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    handle = os.open(beside(path).name, os.O_WRONLY | os.O_CREAT, dir_fd=folder)
    os.write(handle, NEW)
    os.replace(beside(path), path)


def removed_in_its_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    os.unlink(path.name, dir_fd=folder)


def moved_by_a_program(path: Path) -> None:
    beside(path).write_bytes(NEW)
    subprocess.run(["mv", beside(path), path], check=True)


def in_a_child(path: Path) -> None:
    if os.fork() == 0:
        path.write_bytes(NEW)
        os._exit(0)
    os.wait()


@pytest.mark.skipif(os.name != "posix", reason="Windows has none of these")
@pytest.mark.parametrize(
    ("save", "named"),
    [
        (linked, "os.link, line"),
        (symlinked, "os.symlink, line"),
        (renamed_in_its_folder, "a rename with src_dir_fd or dst_dir_fd, line"),
        (opened_in_its_folder, "os.open with dir_fd, line"),
        (removed_in_its_folder, "os.unlink with dir_fd, line"),
        (moved_by_a_program, r"a program of its own \(subprocess\), line"),
        (in_a_child, "os.fork, line"),
    ],
)
def test_what_is_not_recorded_is_refused_by_name(save: Callable, named: str) -> None:
    with pytest.raises(BenchError, match=rf"run uses {named} \d+ of {save.__name__} `.*does not"):
        cuts(save)


def test_a_change_by_none_of_pythons_calls_is_refused() -> None:
    def by_a_database(path: Path) -> None:
        db = sqlite3.connect(beside(path))
        db.execute("CREATE TABLE done (step)")
        db.close()

    def then_renamed(path: Path) -> None:
        by_a_database(path)
        os.replace(beside(path), path)

    def by_a_memory_map(path: Path) -> None:
        with open(beside(path), "w+b") as file:
            file.truncate(len(NEW))
            with mmap.mmap(file.fileno(), len(NEW)) as memory:
                memory[:] = NEW
        os.replace(beside(path), path)

    for save in (by_a_database, then_renamed, by_a_memory_map):
        with pytest.raises(BenchError, match="changed its folder by something else than is record"):
            cuts(save)


def test_a_stub_a_failure_and_too_much_are_named() -> None:
    def stub(folder: WorkFolder) -> None:
        raise NotImplementedError("save_durably: write your code here")

    def missing(folder: WorkFolder) -> None:
        os.replace(folder.path / "nothing", folder.checkpoint)

    def endless(folder: WorkFolder) -> None:
        while True:
            pass

    def many(folder: WorkFolder) -> None:
        with open(folder.checkpoint, "wb", buffering=0) as file:
            for _ in range(600):
                file.write(b"x")

    def nothing(folder: WorkFolder) -> None:
        folder.checkpoint.read_bytes()

    with pytest.raises(NotWritten, match="stub raised NotImplementedError"):
        power_cuts(stub, saved, judge)
    with pytest.raises(BenchError, match=r"missing raised FileNotFoundError.*at line \d+ `os.repl"):
        power_cuts(missing, saved, judge)
    with pytest.raises(BenchError, match=r"endless had not ended after 0\.5 s"):
        power_cuts(endless, saved, judge, deadline=0.5)
    with pytest.raises(BenchError, match="many asks for 500 file operations or more"):
        power_cuts(many, saved, judge)
    report = power_cuts(nothing, saved, judge)
    assert report.cuts == () and report.before == report.returned == ("old",)
    assert not report.durable
    last = " ".join(str(report).splitlines()[-1].split())
    assert last == "nothing yet; then it returned old"


def test_the_same_function_gives_the_same_report() -> None:
    first, second = cuts(with_both), cuts(with_both)
    assert first.cuts == second.cuts and str(first) == str(second)
    assert first.states == second.states <= 8


def test_where_a_folder_cannot_be_synced_the_call_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError("this is a folder")

    monkeypatch.setattr(recorder, "POSIX", False)
    recording = recorder._Recorder(tmp_path)
    descriptor = recording.open(tmp_path, os.O_RDONLY)
    recording.syncer(refuse)(descriptor)
    os.close(descriptor)
    assert [str(each) for each in recording.of_the_folder()] == ["fsync folder"]
