"""What the answers of the bank state about saves, kills and repeated effects, without a library."""

import errno
import importlib
import json
import os
import py_compile
import shutil
import smtplib
import socket
import sqlite3
import stat
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from email.message import EmailMessage
from pathlib import Path

import pytest
from claims import claim

from crashlab import Life, WorkFolder, explore, launch
from crashlab.powerloss import PowerReport, power_cuts
from crashlab.world import mail_service
from crashlab.world.builds import BuildTree, fingerprint
from crashlab.world.mail import MailService

POSIX = os.name == "posix"
fcntl = importlib.import_module("fcntl") if POSIX else None
OLD, NEW = {"done": [1], "note": "longer than the new one"}, {"done": [1, 2]}


def write(path: Path, state: object) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(state), encoding="utf-8")
    os.replace(temporary, path)


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def alive(function: Callable, *args: object, **options: object) -> object:
    """Run it in a process of its own, to its end."""
    return launch(function, *args, echo=False, **options).result()


def killed(
    function: Callable, *args: object, before: str, visit: int = 1, **options: object
) -> Life:
    life = launch(function, *args, kill_before=before, visit=visit, echo=False, **options)
    assert life.end == "killed", life
    return life


# State


def asking_agent(folder: WorkFolder, state: dict) -> str:
    plan = ["clone", "install", "build"]
    while state["position"] < len(plan):
        write(folder.checkpoint, state)
        if state["pending"]:
            call, state["pending"] = state["pending"], None
        elif state["used"] == 3:
            return "budget exceeded"
        else:
            call = plan[state["position"]]
            state["used"] += 1
            if call == "install":
                folder.perform("ask")
                state["pending"] = call
                state["messages"].append("may I install?")
                continue
        folder.perform(call)
        state["messages"].append(f"{call}: ok")
        state["position"] += 1
    return f"completed, {state['used']} used"


def fresh_state() -> dict:
    return {"messages": [], "position": 0, "used": 0, "pending": None}


def resume_with(folder: WorkFolder, fields: list[str]) -> str:
    saved = read(folder.checkpoint)
    return asking_agent(folder, fresh_state() | {name: saved[name] for name in fields})


@claim("hand-history-alone", "01")
@pytest.mark.parametrize(
    ("fields", "rest", "used"),
    [
        (["messages"], ["clone", "ask", "install", "build"], 3),
        (["messages", "position"], ["ask", "install", "build"], 2),
        (["messages", "position", "pending"], ["install", "build"], 1),
        (["messages", "position", "pending", "used"], ["install", "build"], 3),
    ],
)
def test_messages_alone(fields: list[str], rest: list[str], used: int) -> None:
    """Resumed with its messages alone an agent does its work again, asks again and counts its
    budget from zero; with position, pending call and budget used it goes on as it would have
    done."""
    with WorkFolder.fresh() as folder:
        killed(asking_agent, folder, fresh_state(), before='if state["pending"]', visit=3)
        assert folder.performed() == ["clone", "ask"]
        assert alive(resume_with, folder, fields) == f"completed, {used} used"
        assert folder.performed()[2:] == rest


def stops_at_four(folder: WorkFolder, keep: int) -> None:
    messages = read(folder.checkpoint) if folder.checkpoint.exists() else []
    while messages.count("build") < 4 and len(folder_log(folder)) < 20:
        folder.perform("build")
        messages = [*messages, "build", "busy"][-keep:]
        write(folder.checkpoint, messages)


def folder_log(folder: WorkFolder) -> list[str]:
    log = folder.path / "performed.log"
    return log.read_text().splitlines() if log.exists() else []


@claim("hand-shortened-history", "01")
@pytest.mark.parametrize(("keep", "calls"), [(100, 4), (4, 20)])
def test_a_count_that_is_made_from_messages(keep: int, calls: int) -> None:
    """A limit of repeated calls that is counted in the saved messages holds after a kill as long as
    all of them are kept; with the last four alone it never stops the agent."""
    with WorkFolder.fresh() as folder:
        killed(stops_at_four, folder, keep, before="folder.perform", visit=3)
        alive(stops_at_four, folder, keep)
        assert len(folder.performed()) == calls


def build_libpng(work: Path, steps: list[str]) -> str:
    for step in steps:
        verb, library = step.split()
        try:
            getattr(BuildTree(work), verb)(library)
        except Exception as error:
            return f"{step}: {error}"
    return "completed"


@claim("hand-late-failure", "01 05")
def test_a_lost_folder_shows_late() -> None:
    """Resumed when its work folder is gone, a build goes on for two steps and fails in the third,
    with a message that speaks of a symbol; a fingerprint in the save finds the loss at once."""
    first = ["fetch zlib", "install zlib", "fetch libpng"]
    rest = ["configure libpng", "compile libpng", "link libpng"]
    with WorkFolder.fresh() as folder:
        work, moved = folder.path / "work", folder.path / "moved"
        alive(build_libpng, work, first)
        claimed = fingerprint(work / "deps" / "zlib")
        work.rename(moved)
        assert alive(build_libpng, work, rest) == "link libpng: undefined symbol: png_read"
        assert (work / "build" / "libpng.settings").exists()
        with pytest.raises(FileNotFoundError):
            fingerprint(work / "deps" / "zlib")
        assert fingerprint(moved / "deps" / "zlib") == claimed
        assert alive(build_libpng, moved, rest) == "completed"
        (moved / "deps" / "zlib" / "zlib.h").write_text("int inflate(int);")
        assert fingerprint(moved / "deps" / "zlib") != claimed


def leave_traces(place: Path) -> list:
    os.environ["AGENT_RUN"] = "208"
    os.chdir(place)
    held = (place / "held.txt").open("w")
    held.write("a line")
    flushed = (place / "flushed.txt").open("w")
    flushed.write("a line")
    flushed.flush()
    db = sqlite3.connect(place / "rows.db")
    db.execute("CREATE TABLE done (step)")
    db.execute("INSERT INTO done VALUES ('committed')")
    db.commit()
    db.execute("INSERT INTO done VALUES ('not committed')")
    server = socket.create_server(("127.0.0.1", 0))
    (place / "port").write_text(str(server.getsockname()[1]))
    lock = os.open(place / "lock", os.O_CREAT | os.O_EXCL)
    if fcntl:
        fcntl.flock(lock, fcntl.LOCK_EX)
    return [held, flushed, db, server, lock]


def killed_with_traces(place: Path) -> None:
    kept = leave_traces(place)
    print("dies here", kept)


@claim("hand-dies-with-process", "01 05")
def test_what_dies_with_a_process() -> None:
    """A new process finds no environment variable, current folder, buffered line, uncommitted row,
    listening port or flock of a killed one; flushed lines, committed rows and lock files it
    finds."""

    def look(place: Path) -> tuple:
        return os.environ.get("AGENT_RUN"), Path.cwd() == place.resolve()

    with WorkFolder.fresh() as folder:
        place = folder.path
        killed(killed_with_traces, place, before="dies here")
        assert alive(look, place) == (None, False)
        assert (place / "held.txt").read_text() == ""
        assert (place / "flushed.txt").read_text() == "a line"
        with closing(sqlite3.connect(place / "rows.db")) as db:
            assert db.execute("SELECT step FROM done").fetchall() == [("committed",)]
        with suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int((place / "port").read_text())), 1).close()
            raise AssertionError("somebody listens")
        with pytest.raises(FileExistsError):
            os.open(place / "lock", os.O_CREAT | os.O_EXCL)
        if fcntl:
            with open(place / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


RESULTS = {"clean": None, "count errors": 0, "read notes": "", "build": "ok"}


def memo_by_truth(memo: dict, step: str) -> bool:
    return bool(memo.get(step))


def memo_by_presence(memo: dict, step: str) -> bool:
    return step in memo


def run_steps(folder: WorkFolder, known: Callable[[dict, str], bool]) -> None:
    memo = read(folder.checkpoint) if folder.checkpoint.exists() else {}
    for step, result in RESULTS.items():
        if not known(memo, step):
            folder.perform(step)
            memo[step] = result
            write(folder.checkpoint, memo)
    print("all steps are done")


@claim("hand-none-result", "01 03")
@pytest.mark.parametrize(
    ("known", "again"),
    [(memo_by_truth, ["clean", "count errors", "read notes"]), (memo_by_presence, [])],
)
def test_results_that_are_not_true(known: Callable, again: list[str]) -> None:
    """Where a saved result is tested by its truth, steps that returned None, 0 or "" run again
    after a kill; where it is asked whether one is there, none does."""
    with WorkFolder.fresh() as folder:
        killed(run_steps, folder, known, before="all steps are done")
        alive(run_steps, folder, known)
        assert folder.performed() == [*RESULTS, *again]


# Checkpoints


@contextmanager
def old_save() -> Iterator[WorkFolder]:
    with WorkFolder.fresh() as folder:
        folder.checkpoint.write_text(json.dumps(OLD), encoding="utf-8")
        yield folder


def what_is_left(folder: WorkFolder) -> str:
    if not folder.checkpoint.exists():
        return "lost"
    with suppress(ValueError):
        found = read(folder.checkpoint)
        return "old" if found == OLD else "new" if found == NEW else "torn"
    return "torn" if folder.checkpoint.stat().st_size else "empty"


def in_place(folder: WorkFolder) -> None:
    file = open(folder.checkpoint, "w", encoding="utf-8")  # noqa: SIM115
    json.dump(NEW, file)
    file.close()


def replacing(folder: WorkFolder) -> None:
    write(folder.checkpoint, NEW)


@claim("hand-in-place-tears", "02")
def test_a_save_in_place() -> None:
    """A save in place is the old one before open, empty from open to close, and the new one after;
    killed inside its write, it holds the first bytes."""
    report = explore(in_place, old_save, what_is_left, restart=False)
    found = [kill.outcome for kill in report.kills]
    assert (found, report.uninterrupted) == (["old", "empty", "empty"], "new")
    if POSIX:
        with old_save() as folder:
            assert launch(in_place, folder, kill_in_write=9, echo=False).end == "killed"
            assert folder.checkpoint.read_bytes() == json.dumps(NEW).encode()[:9]


@claim("hand-replace-whole", "02")
def test_a_save_that_replaces() -> None:
    """Written beside and renamed by os.replace, a save is whole after a kill at every point, the
    old one or the new one; a kill before the rename can leave the temporary file behind, and the
    next save writes over it."""
    report = explore(replacing, old_save, what_is_left, restart=False, fine=True)
    assert report.clean
    assert set(report.counts) == {"old", "new"}
    with old_save() as folder:
        killed(replacing, folder, before="os.replace(temporary, path)")
        assert len(list(folder.path.iterdir())) == 2
        alive(replacing, folder)
        assert what_is_left(folder) == "new"
        assert len(list(folder.path.iterdir())) == 1


def replace_while_open(folder: WorkFolder) -> None:
    temporary = folder.path / "new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(NEW, file)
        os.replace(temporary, folder.checkpoint)


@claim("hand-replace-before-close", "02")
def test_a_rename_before_the_close() -> None:
    """Renamed while the new file is still open, a killed save leaves an empty checkpoint: its data
    were in the buffer of the process."""
    report = explore(replace_while_open, old_save, what_is_left, restart=False)
    assert report.counts["empty"] == 1


@claim("hand-replace-other-disk", "02")
def test_a_temporary_file_elsewhere() -> None:
    """os.replace from another file system is refused (EXDEV), and the old save stays."""
    with old_save() as folder:
        here = folder.path.stat().st_dev
        places = [Path(place) for place in ("/dev/shm", "/run/lock", "/tmp", "/var/tmp")]
        others = [p for p in places if os.access(p, os.W_OK) and p.stat().st_dev != here]
        if not others:
            pytest.skip("there is no second file system")
        with tempfile.NamedTemporaryFile(dir=others[0]) as file:
            with pytest.raises(OSError) as refused:
                os.replace(file.name, folder.checkpoint)
            assert refused.value.errno == errno.EXDEV
        assert what_is_left(folder) == "old"


def save_and_die(folder: WorkFolder, temporary: str) -> None:
    with open(folder.path / temporary, "w", encoding="utf-8") as file:
        print("dies here", file)


@claim("hand-two-savers", "02")
@pytest.mark.parametrize(("name_of_other", "left"), [("a.tmp", "empty"), ("b.tmp", "new")])
def test_two_savers_of_one_path(name_of_other: str, left: str) -> None:
    """Two processes save to one path by os.replace, and one is killed while it writes: with a
    temporary file each, the save of the other is there whole; with one fixed temporary name the
    rename of the other puts an empty file into place."""
    with old_save() as folder:
        (folder.path / "a.tmp").write_text(json.dumps(NEW), encoding="utf-8")
        killed(save_and_die, folder, name_of_other, before="dies here")
        os.replace(folder.path / "a.tmp", folder.checkpoint)
        assert what_is_left(folder) == left


@claim("hand-replace-mode", "02")
@pytest.mark.skipif(not POSIX, reason="permissions of POSIX")
def test_the_mode_of_a_temporary_file() -> None:
    """A checkpoint that is replaced by a file of mkstemp has that file's mode, 0600."""
    with old_save() as folder:
        folder.checkpoint.chmod(0o644)
        handle, temporary = tempfile.mkstemp(dir=folder.path)
        os.close(handle)
        os.replace(temporary, folder.checkpoint)
        assert stat.S_IMODE(folder.checkpoint.stat().st_mode) == 0o600


@claim("hand-replace-under-reader", "02")
@pytest.mark.skipif(not POSIX, reason="Windows refuses it")
def test_a_reader_of_the_old_file() -> None:
    """On Linux and macOS a file that somebody has open for reading can be replaced; that reader
    goes on to read the old one."""
    with old_save() as folder, open(folder.checkpoint, encoding="utf-8") as reading:
        alive(replacing, folder)
        assert what_is_left(folder) == "new"
        assert json.load(reading) == OLD


def saves_for_power(
    flush: bool, file: bool, folder_after: bool, folder_before: bool = False
) -> Callable:
    def save(folder: WorkFolder) -> None:
        def sync_folder() -> None:
            handle = os.open(folder.path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)

        temporary = folder.path / "new"
        with open(temporary, "w", encoding="utf-8") as opened:
            json.dump(NEW, opened)
            if flush:
                opened.flush()
            if file:
                os.fsync(opened.fileno())
        if folder_before:
            sync_folder()
        os.replace(temporary, folder.checkpoint)
        if folder_after:
            sync_folder()

    return save


def after_power_cuts(**how: bool) -> PowerReport:
    how = {"flush": False, "file": False, "folder_after": False} | how
    return power_cuts(saves_for_power(**how), old_save, what_is_left)


@claim("hand-power-data-late", "02")
def test_power_goes_after_a_plain_replace() -> None:
    """In the simulation of power cuts, a file that is closed and renamed without fsync can be
    empty, torn, old or new after a cut, also when the save has returned."""
    report = after_power_cuts()
    assert set(report.returned) == {"old", "empty", "torn", "new"}


@claim("hand-power-fsync-file", "02")
def test_power_goes_after_an_fsync_of_the_file() -> None:
    """In the simulation of power cuts, flush and fsync of the file before the rename make the save
    whole, and the old one can still come back; an fsync without the flush leaves it torn."""
    assert set(after_power_cuts(flush=True, file=True).returned) == {"old", "new"}
    assert after_power_cuts(flush=True, file=True).whole
    assert not after_power_cuts(file=True).whole


@claim("hand-power-fsync-folder", "02")
def test_power_goes_after_an_fsync_of_the_folder() -> None:
    """In the simulation of power cuts, an fsync of the folder after the rename makes the new save
    stay; before the rename it does not, and without the fsync of the file the save can be torn."""
    assert after_power_cuts(flush=True, file=True, folder_after=True).durable
    early = after_power_cuts(flush=True, file=True, folder_before=True)
    assert set(early.returned) == {"old", "new"}
    assert not after_power_cuts(folder_after=True).whole


def size_at_fsync(path: Path, flush: bool, buffering: int = -1) -> int:
    with open(path, "wb", buffering=buffering) as file:
        file.write(b"build zlib")
        if flush:
            file.flush()
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


@claim("hand-fsync-of-nothing", "02")
def test_fsync_before_flush() -> None:
    """When fsync is called before flush, the file that it confirms has 0 bytes; after flush, or
    where the process keeps no buffer, it has all of them."""
    with WorkFolder.fresh() as folder:
        path = folder.path / "note.txt"
        assert size_at_fsync(path, flush=False) == 0
        assert size_at_fsync(path, flush=True) == len("build zlib")
        assert size_at_fsync(path, flush=False, buffering=0) == len("build zlib")


class CannotLoad(Exception):
    pass


def load_lenient(path: Path) -> dict:
    try:
        return read(path)
    except (OSError, ValueError):
        return {"format": "build-agent", "version": 1, "done": []}


def load_strict(path: Path) -> dict:
    if not path.exists():
        return {"format": "build-agent", "version": 1, "done": []}
    try:
        state = read(path)
    except ValueError:
        raise CannotLoad(f"{path.name} is torn") from None
    if not isinstance(state, dict) or state.get("format") != "build-agent":
        raise CannotLoad(f"{path.name} is foreign")
    if state["version"] > 1:
        raise CannotLoad(f"{path.name} is newer")
    return state


def plan_by_id(folder: WorkFolder, load: Callable, plan: list[str]) -> str:
    state = load(folder.checkpoint)
    for step, action in enumerate(plan):
        if step not in state["done"]:
            folder.perform(action)
            state["done"].append(step)
            write(folder.checkpoint, state)
    return "completed"


@claim("hand-load-refuses", "02 05")
@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        ("", "torn"),
        ('{"format": "build-ag', "torn"),
        ('{"cameras": []}', "foreign"),
        ('{"format": "build-agent", "version": 2, "finished": [0, 1]}', "newer"),
    ],
)
def test_a_save_that_cannot_be_used(spoilt: str, why: str) -> None:
    """A load that takes an unreadable save for a first start does the whole plan again and writes
    over the save; one that refuses by name leaves outside and file as they are."""
    plan = ["clone", "build"]
    with WorkFolder.fresh() as folder:
        alive(plan_by_id, folder, load_strict, plan)
        folder.checkpoint.write_text(spoilt)
        life = launch(plan_by_id, folder, load_strict, plan, echo=False)
        assert f"{folder.checkpoint.name} is {why}" in life.reason
        assert (folder.performed(), folder.checkpoint.read_text()) == (plan, spoilt)
        if why == "torn":
            assert alive(plan_by_id, folder, load_lenient, plan) == "completed"
            assert folder.performed() == plan * 2
            assert folder.checkpoint.read_text() != spoilt


def plan_by_name(folder: WorkFolder, plan: list[str]) -> str:
    state = load_strict(folder.checkpoint)
    for action in plan:
        if action not in state["done"]:
            folder.perform(action)
            state["done"].append(action)
            write(folder.checkpoint, state)
    return "completed"


@claim("hand-steps-by-id", "02")
def test_the_same_step_twice() -> None:
    """A loop that records names of actions skips the second build of a plan and calls itself
    completed, without any kill; one that records numbers of steps performs all."""
    plan = ["build", "test", "patch", "build", "test"]
    with WorkFolder.fresh() as folder:
        assert alive(plan_by_name, folder, plan) == "completed"
        assert folder.performed() == ["build", "test", "patch"]
    with WorkFolder.fresh() as folder:
        killed(plan_by_id, folder, load_strict, plan, before="folder.perform", visit=4)
        assert alive(plan_by_id, folder, load_strict, plan) == "completed"
        assert folder.performed() == plan


def budgeted(folder: WorkFolder, budget: int, charge: str, saved: bool, deadly: bool) -> str:
    state = read(folder.checkpoint) if folder.checkpoint.exists() else {"done": 0, "used": 0}
    state["used"] = state["used"] if saved else 0
    while state["done"] < 6:
        if state["used"] >= budget:
            return "budget exceeded"
        if charge == "before":
            state["used"] += 1
            write(folder.checkpoint, state)
        folder.perform(f"step {state['done']}")
        if deadly and state["done"] == 2:
            os.kill(os.getpid(), 9)
        state["done"] += 1
        if charge == "after":
            state["used"] += 1
        write(folder.checkpoint, state)
    return "completed"


def lives(folder: WorkFolder, number: int, *how: object) -> list:
    return [launch(budgeted, folder, *how, echo=False).value for _ in range(number)]


@claim("hand-budget-of-the-run", "02 05")
@pytest.mark.skipif(not POSIX, reason="the step kills its own process by a signal")
def test_the_budget_over_processes() -> None:
    """A step that kills its own process is tried for ever when steps are charged afterwards or each
    process counts from zero; charged before and counted in the checkpoint, it ends the budget."""
    for charge, saved in (("after", True), ("before", False)):
        with WorkFolder.fresh() as folder:
            assert lives(folder, 8, 5, charge, saved, True) == [None] * 8
            assert len(folder.performed()) == 2 + 8
    with WorkFolder.fresh() as folder:
        ends = lives(folder, 5, 5, "before", True, True)
        assert ends == [None] * 3 + ["budget exceeded"] * 2
        assert len(folder.performed()) == 5


@claim("hand-wasted-charge", "02 05")
def test_a_wasted_charge() -> None:
    """Charged before it is performed, a step costs one attempt more when the kill falls in between:
    a budget of exactly the plan then stops short, a budget of one more does not."""
    for budget, end in ((6, "budget exceeded"), (7, "completed")):
        with WorkFolder.fresh() as folder:
            how = (budget, "before", True, False)
            killed(budgeted, folder, *how, before="folder.perform", visit=3)
            assert alive(budgeted, folder, *how) == end
            assert len(folder.performed()) == len(set(folder.performed())) == budget - 1


def replace_patiently(source: Path, target: Path, tries: int, replace: Callable) -> None:
    for left in reversed(range(tries)):
        try:
            return replace(source, target)
        except PermissionError:
            if not left:
                raise


@claim("hand-replace-retried", "02")
def test_a_replace_that_is_refused() -> None:
    """Refused twice by a PermissionError, as a scanner causes it on Windows, a replace with three
    tries puts the new save in place; always refused, it raises and the old save stays whole."""
    for refusals in (2, 9):
        with old_save() as folder:
            left = [None] * refusals

            def refused(source: Path, target: Path, left: list = left) -> None:
                if left:
                    left.pop()
                    raise PermissionError(13, "Access is denied")
                os.replace(source, target)

            new = folder.path / "new"
            new.write_text(json.dumps(NEW))
            if refusals == 2:
                replace_patiently(new, folder.checkpoint, 3, refused)
                assert what_is_left(folder) == "new"
            else:
                with pytest.raises(PermissionError):
                    replace_patiently(new, folder.checkpoint, 3, refused)
                assert what_is_left(folder) == "old"


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT count(*) FROM step").fetchone()[0]


@contextmanager
def wal_database(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = wal")
        db.execute("CREATE TABLE step (name)")
        db.execute("PRAGMA wal_checkpoint(truncate)")
        db.executemany("INSERT INTO step VALUES (?)", [(n,) for n in range(5)])
        yield db


@claim("hand-wal-copies", "02 06")
def test_copies_of_a_database() -> None:
    """While a database in WAL mode is open, a copy of its file has none of five committed rows;
    backup, VACUUM INTO and a copy of file and -wal together have all."""
    with WorkFolder.fresh() as folder:
        path = folder.path / "a.db"
        with wal_database(path) as db:
            (folder.path / "alone.db").write_bytes(path.read_bytes())
            (folder.path / "both.db").write_bytes(path.read_bytes())
            wal = path.with_name("a.db-wal").read_bytes()
            (folder.path / "both.db-wal").write_bytes(wal)
            with closing(sqlite3.connect(folder.path / "backup.db")) as target:
                db.backup(target)
            db.execute("VACUUM INTO ?", (str(folder.path / "vacuum.db"),))
        found = {n: rows(folder.path / f"{n}.db") for n in ("alone", "both", "backup", "vacuum")}
        assert found == {"alone": 0, "both": 5, "backup": 5, "vacuum": 5}


def reader(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as db:
        db.execute("SELECT count(*) FROM step").fetchone()
        maps = Path("/proc/self/maps")
        return not maps.exists() or f"{path.name}-shm" in maps.read_text()


@claim("hand-wal-shared-memory", "02 06")
def test_wal_needs_shared_memory() -> None:
    """In WAL mode each process maps the same -shm file into its memory; with a rollback journal
    there is no such file. The PRAGMA answers with the mode that is really in force."""
    with WorkFolder.fresh() as folder:
        path = folder.path / "a.db"
        with wal_database(path) as db:
            assert path.with_name("a.db-shm").exists()
            assert alive(reader, path)
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA journal_mode = delete").fetchone() == ("delete",)
            assert rows(path) == 5
            assert not path.with_name("a.db-shm").exists()
        with closing(sqlite3.connect(":memory:")) as db:
            assert db.execute("PRAGMA journal_mode = wal").fetchone() == ("memory",)


# The crash window


def note(folder: WorkFolder, word: str) -> None:
    file = os.open(folder.path / "notes.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, f"{word}\n".encode())
    os.close(file)


def notes(folder: WorkFolder) -> list[str]:
    path = folder.path / "notes.txt"
    return path.read_text().splitlines() if path.exists() else []


def order(folder: WorkFolder) -> str:
    folder.perform("order arm64")
    return "accepted"


def effect_first(folder: WorkFolder) -> None:
    if "done" not in notes(folder):
        note(folder, "intent")
        order(folder)
        note(folder, "done")
    print("that is all")


def record_first(folder: WorkFolder) -> None:
    if "done" not in notes(folder):
        note(folder, "intent")
        note(folder, "done")
        order(folder)
    print("that is all")


def how_often(folder: WorkFolder) -> str:
    return ["lost", "once", "twice"][min(len(folder.performed()), 2)]


@claim("hand-two-orders", "03")
def test_effect_first_and_record_first() -> None:
    """Killed at each line and run again, effect first never loses the effect and doubles it when
    the kill falls between effect and record; record first never doubles it and loses it when the
    kill falls between record and effect."""
    first = explore(effect_first, WorkFolder.fresh, how_often, inside=[effect_first, order])
    assert set(first.counts) == {"once", "twice"}
    assert first.at('note(folder, "done")') == {"twice"}
    assert first.at("order(folder)") == {"once"}
    last = explore(record_first, WorkFolder.fresh, how_often, inside=[record_first, order])
    assert set(last.counts) == {"once", "lost"}
    assert last.at("order(folder)") == {"lost"}


@claim("hand-notes-alike", "03 05")
def test_what_the_notes_cannot_tell() -> None:
    """Killed just before the effect, just after it, or with its reply in hand, a step leaves the
    same notes, an intent and no record, while the outside differs."""
    found = []
    for line in ("order(folder)", 'return "accepted"', 'note(folder, "done")'):
        with WorkFolder.fresh() as folder:
            killed(effect_first, folder, before=line, inside=[effect_first, order])
            found.append((notes(folder), len(folder.performed())))
    assert found == [(["intent"], 0), (["intent"], 1), (["intent"], 1)]


def two_commits(folder: WorkFolder) -> None:
    with closing(sqlite3.connect(folder.path / "both.sqlite")) as db:
        if not db.execute("SELECT 1 FROM done").fetchone():
            db.execute("INSERT INTO effect VALUES ('paid')")
            db.commit()
            db.execute("INSERT INTO done VALUES (9)")
            db.commit()


def one_commit(folder: WorkFolder) -> None:
    with closing(sqlite3.connect(folder.path / "both.sqlite")) as db:
        if not db.execute("SELECT 1 FROM done").fetchone():
            db.execute("INSERT INTO effect VALUES ('paid')")
            db.execute("INSERT INTO done VALUES (9)")
            db.commit()


@contextmanager
def two_tables() -> Iterator[WorkFolder]:
    with WorkFolder.fresh() as folder:
        with closing(sqlite3.connect(folder.path / "both.sqlite")) as db:
            db.executescript("CREATE TABLE effect (what); CREATE TABLE done (step);")
        yield folder


def paid(folder: WorkFolder) -> str:
    with closing(sqlite3.connect(folder.path / "both.sqlite")) as db:
        number = db.execute("SELECT count(*) FROM effect").fetchone()[0]
    return ["lost", "once", "twice"][number]


@claim("hand-one-transaction", "03")
def test_effect_and_record_in_one_transaction() -> None:
    """When effect and record are rows of one database and one transaction writes both, the effect
    is there once after a kill at any line and a restart; with two commits it can be there twice."""
    assert explore(one_commit, two_tables, paid).clean
    assert "twice" in explore(two_commits, two_tables, paid).counts


def raise_limit(folder: WorkFolder, noted: bool) -> None:
    if "done" in notes(folder):
        return
    limit = int((folder.path / "limit").read_text())
    if noted:
        target = [int(word) for word in notes(folder) if word.isdecimal()]
        if not target:
            note(folder, str(limit + 2))
            target = [limit + 2]
        limit = target[0]
    else:
        limit += 2
    write(folder.path / "limit", limit)
    note(folder, "done")


@claim("hand-set-what-was-noted", "03")
@pytest.mark.parametrize(("noted", "limit"), [(True, 10), (False, 12)])
def test_a_value_that_is_set(noted: bool, limit: int) -> None:
    """A write that sets a value noted beforehand gives the same value when it is repeated after a
    kill; one that computes the value anew from what it finds adds twice."""
    with WorkFolder.fresh() as folder:
        write(folder.path / "limit", 8)
        killed(raise_limit, folder, noted, before='note(folder, "done")')
        alive(raise_limit, folder, noted)
        assert read(folder.path / "limit") == limit


def place_of_operations(folder: WorkFolder) -> dict[str, Callable[[], object]]:
    path = folder.path
    (path / "a.py").write_text("x = 1\n")
    db = sqlite3.connect(path / "w.sqlite", isolation_level=None)
    db.execute("CREATE TABLE w (k PRIMARY KEY, n)")
    hidden = py_compile.PycInvalidationMode.UNCHECKED_HASH

    def append() -> None:
        with open(path / "log", "a") as file:
            file.write("built\n")

    set_it = "INSERT INTO w VALUES ('a', 5) ON CONFLICT DO UPDATE SET n = excluded.n"
    add_it = "INSERT INTO w VALUES ('b', 5) ON CONFLICT DO UPDATE SET n = n + excluded.n"
    return {
        "write a whole file": lambda: (path / "report").write_text("done"),
        "append a line": append,
        "upsert that sets": lambda: db.execute(set_it),
        "upsert that adds": lambda: db.execute(add_it),
        "insert": lambda: db.execute("INSERT INTO w (n) VALUES (5)"),
        "build": lambda: py_compile.compile(str(path / "a.py"), invalidation_mode=hidden),
        "delete": lambda: (path / "a.py").unlink(),
    }


def world_of(folder: WorkFolder) -> tuple:
    with closing(sqlite3.connect(folder.path / "w.sqlite")) as db:
        table = db.execute("SELECT * FROM w ORDER BY rowid").fetchall()
    files = [p for p in sorted(folder.path.rglob("*")) if p.is_file() and p.suffix != ".sqlite"]
    return table, {path.name: path.read_bytes() for path in files}


@claim("hand-what-is-idempotent", "03")
def test_which_operations_are_idempotent() -> None:
    """Done a second time at once, writing a whole file, an upsert that sets, a build from its input
    and a delete leave the world as it was; an append, an insert and an upsert that adds do not. The
    second delete raises an error all the same."""
    found = {}
    with WorkFolder.fresh() as folder:
        for name, act in place_of_operations(folder).items():
            act()
            before = world_of(folder)
            try:
                act()
            except FileNotFoundError:
                assert name == "delete"
            else:
                assert name != "delete"
            found[name] = before == world_of(folder)
    assert found == {
        "write a whole file": True,
        "append a line": False,
        "upsert that sets": True,
        "upsert that adds": False,
        "insert": False,
        "build": True,
        "delete": True,
    }


BUILD = """
cmake_minimum_required(VERSION 3.10)
project(report NONE)
add_custom_command(OUTPUT report.txt DEPENDS ${CMAKE_SOURCE_DIR}/notes.txt
  COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/notes.txt report.txt)
add_custom_target(all_reports ALL DEPENDS report.txt)
"""


@claim("hand-cmake-build", "03")
@pytest.mark.skipif(
    not (os.environ.get("CI") or all(map(shutil.which, ("cmake", "make")))),
    reason="needs cmake and make",
)
def test_a_build_twice() -> None:
    """A second `cmake --build` on the same input makes nothing anew: its output is the same file,
    with the same time."""
    with WorkFolder.fresh() as folder:
        (folder.path / "CMakeLists.txt").write_text(BUILD)
        (folder.path / "notes.txt").write_text("re2 links")

        def cmake(*words: str) -> None:
            subprocess.run(["cmake", *words], cwd=folder.path, check=True, capture_output=True)

        cmake("-B", "out", "-G", "Unix Makefiles")
        made = []
        for _ in range(2):
            cmake("--build", "out")
            report = folder.path / "out" / "report.txt"
            made.append((report.read_text(), report.stat().st_mtime_ns))
        assert made[0] == made[1]
        (folder.path / "notes.txt").write_text("re2 does not link")
        cmake("--build", "out")
        assert report.read_text() == "re2 does not link"


# Mail


LETTER = {"to": "boss@example.com", "subject": "re2", "body": "re2 is built."}
KEY = "run-217:step-9:call-2"


def deliver(mail: MailService, letter: dict, key: str) -> str:
    message = EmailMessage()
    message["From"], message["To"] = "agent@example.com", letter["to"]
    message["Subject"] = letter["subject"]
    message["Idempotency-Key"] = key
    message.set_content(letter["body"])
    with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
        smtp.send_message(message)
    return "accepted"


@pytest.fixture(scope="module")
def keyed() -> Iterator[MailService]:
    with mail_service("keyed") as mail:
        yield mail


@pytest.fixture(scope="module")
def asked() -> Iterator[MailService]:
    with mail_service("asked") as mail:
        yield mail


def key_table(path: str | Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE IF NOT EXISTS mails (key PRIMARY KEY, status)")
    return db


def send_safe(mail: MailService, table: str | Path, letter: dict, key: str, visible: bool) -> str:
    db = key_table(table)
    if db.execute("SELECT 1 FROM mails WHERE key = ? AND status = 'sent'", (key,)).fetchone():
        return "already_sent"
    db.execute("INSERT OR REPLACE INTO mails VALUES (?, 'pending')", (key,))
    deliver(mail, letter, key if visible else "")
    db.execute("UPDATE mails SET status = 'sent' WHERE key = ?", (key,))
    return "sent"


@claim("hand-own-key-table", "04")
@pytest.mark.parametrize(
    ("line", "file", "visible", "mails"),
    [
        ("UPDATE mails", True, False, 2),
        ("UPDATE mails", True, True, 1),
        ('return "sent"', True, False, 1),
        ('return "sent"', False, False, 2),
    ],
)
def test_a_key_table_of_ones_own(
    keyed: MailService, line: str, file: bool, visible: bool, mails: int
) -> None:
    """With a key table of its own a sender that is killed between sending and marking sends again,
    and with the table in memory also after marking; when the service sees the key there is one
    mail."""
    keyed.clear()
    with WorkFolder.fresh() as folder:
        how = (keyed, folder.path / "t.sqlite" if file else ":memory:", LETTER, KEY, visible)
        killed(send_safe, *how, before=line)
        alive(send_safe, *how)
    assert len(keyed.inbox()) == mails


def send_asking(mail: MailService, letter: dict, key: str, ask: bool) -> str:
    if ask and mail.ask(key):
        return "already_sent"
    return deliver(mail, letter, key)


@claim("hand-ask-before-again", "04 05")
@pytest.mark.parametrize(("ask", "mails"), [(True, 1), (False, 2)])
def test_asking_first(asked: MailService, ask: bool, mails: int) -> None:
    """Killed when the service has accepted the mail, a sender that asks the service about the key
    before its second attempt sends none; one that does not ask sends a second."""
    asked.clear()
    killed(send_asking, asked, LETTER, KEY, ask, before='return "accepted"')
    alive(send_asking, asked, LETTER, KEY, ask)
    assert len(asked.inbox()) == mails


@claim("hand-lost-reply", "04")
def test_the_exception_of_a_lost_reply(asked: MailService) -> None:
    """When the reply is lost the sender gets an exception, and the mail is in the inbox all the
    same: a second attempt under a new key makes two."""
    asked.clear()
    asked.lose_reply()
    with pytest.raises(smtplib.SMTPServerDisconnected):
        deliver(asked, LETTER, KEY)
    assert len(asked.inbox()) == 1
    deliver(asked, LETTER, "another key")
    assert len(asked.inbox()) == 2


def attempt(mail: MailService, folder: WorkFolder, make: Callable) -> str:
    return deliver(mail, LETTER, make(folder))


def key_of_the_attempt(folder: WorkFolder) -> str:
    return str(uuid.uuid4())


def key_of_the_plan(folder: WorkFolder) -> str:
    return KEY


def key_saved_first(folder: WorkFolder) -> str:
    if not folder.checkpoint.exists():
        write(folder.checkpoint, str(uuid.uuid4()))
    return json.loads(folder.checkpoint.read_text())


def key_saved_afterwards(folder: WorkFolder) -> str:
    return (
        json.loads(folder.checkpoint.read_text())
        if folder.checkpoint.exists()
        else str(uuid.uuid4())
    )


@claim("hand-key-per-attempt", "04")
@pytest.mark.parametrize(
    ("make", "mails"),
    [
        (key_of_the_attempt, 2),
        (key_saved_afterwards, 2),
        (key_of_the_plan, 1),
        (key_saved_first, 1),
    ],
)
def test_keys_and_attempts(keyed: MailService, make: Callable, mails: int) -> None:
    """At a service that honours keys, a uuid4 that is new at each attempt, or saved only
    afterwards, lets a killed sender send twice; one saved before the first attempt, or run, step
    and call, does not."""
    keyed.clear()
    with WorkFolder.fresh() as folder:
        killed(attempt, keyed, folder, make, before='return "accepted"')
        alive(attempt, keyed, folder, make)
    assert len(keyed.inbox()) == mails


def key_by_hash() -> str:
    return str(hash("run-217:step-9"))


@claim("hand-hash-is-no-key", "04")
def test_the_hash_of_another_interpreter() -> None:
    """Python's hash() of the same text differs between two interpreters."""
    assert alive(key_by_hash, fresh=True, deadline=30) != alive(
        key_by_hash, fresh=True, deadline=30
    )


CALLS = {  # run, step, id by the model, letter
    "retry": [("run-217", 9, "call_a", "re2 is built."), ("run-217", 9, "call_a", "re2 is built.")],
    "asked again": [
        ("run-217", 9, "call_a", "re2 is built."),
        ("run-217", 9, "call_b", "re2 is ready."),
    ],
    "two mails": [
        ("run-217", 9, "call_a", "re2 is built."),
        ("run-217", 12, "call_c", "re2 is built."),
    ],
}
KEYS = {
    "tool call id": lambda run, step, call, body: call,
    "arguments": lambda run, step, call, body: body,
    "run and step": lambda run, step, call, body: f"{run}:{step}",
}


@claim("hand-keys-of-calls", "04")
def test_which_key_of_a_call(keyed: MailService) -> None:
    """The model's call id doubles a mail when the model is asked again; a key made of the arguments
    doubles it when they are reworded, and swallows a second, equal one; run and step do neither,
    and the service refuses the reworded letter."""
    found = {}
    for name, make in KEYS.items():
        for calls in CALLS.values():
            keyed.clear()
            for call in calls:
                with suppress(smtplib.SMTPDataError):
                    deliver(keyed, LETTER | {"body": call[-1]}, make(*call))
            found.setdefault(name, []).append(len(keyed.inbox()))
    assert found == {"tool call id": [1, 2, 2], "arguments": [1, 2, 1], "run and step": [1, 1, 2]}


@claim("hand-same-key-other-letter", "04")
def test_the_same_key_with_another_letter(keyed: MailService) -> None:
    """A service that compares what a key came with refuses another letter under it by an error, and
    repeats its answer to the same letter; a key table that keeps only the key drops it as sent."""
    other = LETTER | {"body": "re2 is built. One test fails."}
    keyed.clear()
    with WorkFolder.fresh() as folder:
        table = folder.path / "t.sqlite"
        assert send_safe(keyed, table, LETTER, KEY, True) == "sent"
        assert deliver(keyed, LETTER, KEY) == "accepted"
        with pytest.raises(smtplib.SMTPDataError) as refused:
            deliver(keyed, other, KEY)
        assert refused.value.smtp_code == 554
        assert send_safe(keyed, table, other, KEY, True) == "already_sent"
    assert [mail.body for mail in keyed.inbox()] == [LETTER["body"]]


@claim("hand-forgotten-key", "04")
def test_a_service_that_forgets(keyed: MailService) -> None:
    """A service that honours keys takes an old key for a new one when it has forgotten it."""
    keyed.clear()
    for _ in range(2):
        deliver(keyed, LETTER, KEY)
    assert len(keyed.inbox()) == 1
    keyed.clear()  # forgets its keys; what it has delivered before is not counted here
    deliver(keyed, LETTER, KEY)
    assert len(keyed.inbox()) == 1


def lease(path: Path, worker: str, now: int, seconds: int) -> bool:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        sql = "UPDATE job SET owner = ?, until = ? WHERE done = 0 AND (until <= ? OR owner = ?)"
        return db.execute(sql, (worker, now + seconds, now, worker)).rowcount == 1


@claim("hand-lease-runs-out", "04")
@pytest.mark.parametrize(("heartbeat", "handed_out"), [(False, 4), (True, 1)])
def test_a_lease_that_is_shorter_than_the_job(
    keyed: MailService, heartbeat: bool, handed_out: int
) -> None:
    """A job of 240 minutes under a lease of 60 is handed out again each hour while its first worker
    is alive; a worker that renews its lease keeps it. With one key for the job's mail there is one
    mail either way. (Minutes are counted, not waited for.)"""
    keyed.clear()
    with WorkFolder.fresh() as folder:
        path = folder.path / "jobs.sqlite"
        with closing(sqlite3.connect(path)) as db:
            db.executescript(
                "CREATE TABLE job (owner, until, done); INSERT INTO job VALUES ('', 0, 0)"
            )
        workers = ["w0"] if lease(path, "w0", 0, 60) else []  # this process: it lives on
        for now in range(30, 240, 30):
            if heartbeat:
                assert lease(path, "w0", now, 60)
            if alive(lease, path, f"w{now}", now, 60):
                workers.append(f"w{now}")
    for _ in workers:
        deliver(keyed, LETTER, KEY)
    assert (len(workers), len(keyed.inbox())) == (handed_out, 1)


# Recovery


def build_for_target() -> str:
    return os.environ.get("ZIG_TARGET", "native")


def set_and_die() -> None:
    os.environ["ZIG_TARGET"] = "aarch64-linux-musl"
    print("dies here")


def restore_and_build(path: Path) -> str:
    os.environ.update(read(path)["env"])
    return build_for_target()


@claim("hand-env-is-gone", "05")
def test_a_variable_of_the_dead_process() -> None:
    """A variable that the killed process had set is not there in the next one, and a tool that has
    a default for it goes on without an error; set again from the save, it is right."""
    with WorkFolder.fresh() as folder:
        write(folder.checkpoint, {"env": {"ZIG_TARGET": "aarch64-linux-musl"}})
        killed(set_and_die, before="dies here")
        assert alive(build_for_target) == "native"
        assert alive(restore_and_build, folder.checkpoint) == "aarch64-linux-musl"


def outside_has(folder: WorkFolder) -> bool:
    return "mail 3" in folder_log(folder)


def send_pending(folder: WorkFolder, state: dict) -> None:
    if "3" not in state["done"]:
        state["pending"] = ["3"]
        write(folder.checkpoint, state)
        folder.perform("mail 3")
        state["pending"], state["done"] = [], ["3"]
        write(folder.checkpoint, state)


def first_mail(folder: WorkFolder) -> None:
    send_pending(folder, {"pending": [], "done": []})


def recover_well(folder: WorkFolder) -> None:
    state = read(folder.checkpoint) if folder.checkpoint.exists() else {"pending": [], "done": []}
    if state["pending"]:
        state["done"] = ["3"] if outside_has(folder) else []
        state["pending"] = []
        write(folder.checkpoint, state)
    send_pending(folder, state)


def recover_hastily(folder: WorkFolder) -> None:
    """Clears the list first, so that nobody works on it twice."""
    state = read(folder.checkpoint) if folder.checkpoint.exists() else {"pending": [], "done": []}
    waiting, state["pending"] = state["pending"], []
    write(folder.checkpoint, state)
    if waiting and outside_has(folder):
        state["done"] = ["3"]
        write(folder.checkpoint, state)
    send_pending(folder, state)


@claim("hand-recovery-is-killed", "05")
def test_a_recovery_that_is_killed() -> None:
    """A recovery that asks and then saves the answer in one write sends one mail when it is killed
    at any line and run again, whether the mail was out or not; one that first clears the pending
    entry does so when nobody kills it, and sends a second mail when it is killed."""

    @contextmanager
    def pending(was_sent: bool) -> Iterator[WorkFolder]:
        with WorkFolder.fresh() as folder:
            line = 'state["pending"], state["done"] = [], ["3"]' if was_sent else "folder.perform("
            killed(first_mail, folder, before=line)
            yield folder

    for was_sent in (True, False):
        inside = [recover_well, send_pending]
        report = explore(
            recover_well, lambda sent=was_sent: pending(sent), how_often, inside=inside
        )
        assert report.clean
    report = explore(recover_hastily, lambda: pending(True), how_often, inside=[recover_hastily])
    assert (report.uninterrupted, report.counts["twice"] > 0) == ("once", True)


def three_tries(folder: WorkFolder, saved: bool) -> str:
    start = read(folder.checkpoint) if saved and folder.checkpoint.exists() else 0
    for number in range(start, 3):
        if saved:
            write(folder.checkpoint, number + 1)
        folder.perform("try")
        print("it failed")
    return "gave up"


@claim("hand-retry-and-resume", "05")
@pytest.mark.parametrize(("saved", "tries"), [(False, 4), (True, 3)])
def test_a_retry_and_a_resume(saved: bool, tries: int) -> None:
    """A retry loop counts in the memory of its process: killed after its first try of three and
    started anew it makes three more, unless the count was saved."""
    with WorkFolder.fresh() as folder:
        killed(three_tries, folder, saved, before="it failed")
        assert alive(three_tries, folder, saved) == "gave up"
        assert len(folder.performed()) == tries


def migrate_empty(state: dict) -> dict:
    return state | {"pending": []}


def migrate_in_doubt(state: dict) -> dict:
    return state | {"pending": [] if "3" in state["done"] else ["3"]}


def recover_old(folder: WorkFolder, migrate: Callable) -> None:
    state = migrate(read(folder.checkpoint))
    if state["pending"] and outside_has(folder):
        state |= {"pending": [], "done": ["3"]}
        write(folder.checkpoint, state)
    send_pending(folder, state)


@claim("hand-missing-is-not-empty", "05")
@pytest.mark.parametrize(("migrate", "mails"), [(migrate_empty, 2), (migrate_in_doubt, 1)])
def test_a_field_that_the_old_save_lacks(migrate: Callable, mails: int) -> None:
    """A save of a version that noted no intents, read as if nothing were pending, sends the mail of
    the step under way again; read as if that step were pending, it is asked about and not sent."""
    with WorkFolder.fresh() as folder:
        write(folder.checkpoint, {"done": []})
        folder.perform("mail 3")
        alive(recover_old, folder, migrate)
        assert len(folder.performed()) == mails


def recover_through(folder: WorkFolder, silence: str) -> None:
    state = read(folder.checkpoint)
    try:
        if not (folder.path / "line").exists():
            raise TimeoutError("no answer")
        sent = outside_has(folder)
    except TimeoutError:
        if silence == "raise":
            raise
        sent = silence == "sent"
    state |= {"pending": [], "done": ["3"] if sent else []}
    write(folder.checkpoint, state)
    send_pending(folder, state)


@claim("hand-silence-is-no-answer", "05")
@pytest.mark.parametrize(
    ("silence", "was_sent", "mails"),
    [("not sent", True, 2), ("sent", False, 0), ("raise", True, 1), ("raise", False, 1)],
)
def test_a_service_that_does_not_answer(silence: str, was_sent: bool, mails: int) -> None:
    """A recovery that takes silence for "not sent" doubles the mail, one that takes it for "sent"
    loses it; one that stops with the save untouched settles it at the next start."""
    with WorkFolder.fresh() as folder:
        write(folder.checkpoint, {"pending": ["3"], "done": []})
        if was_sent:
            folder.perform("mail 3")
        before = folder.checkpoint.read_bytes()
        life = launch(recover_through, folder, silence, echo=False)
        if silence == "raise":
            assert "no answer" in life.reason
            assert folder.checkpoint.read_bytes() == before
        (folder.path / "line").touch()
        if life.end == "raised":
            alive(recover_through, folder, silence)
        assert len(folder.performed()) == mails
