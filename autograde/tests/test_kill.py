"""What `launch` says of a process is true: every kind of end, and nothing left behind."""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from crashlab import BenchError, NotWritten, WorkFolder, kill, launch, preload
from crashlab.kill import KILLED


def count(folder: WorkFolder, flush: bool) -> int:
    with open(folder.path / "numbers.txt", "w") as file:
        for n in range(1, 11):
            file.write(f"{n}\n")
            if flush:
                file.flush()
    return n


def left(folder: WorkFolder) -> int:
    return len((folder.path / "numbers.txt").read_text().split())


def test_finishes_and_returns_its_value() -> None:
    with WorkFolder.fresh() as folder:
        life = launch(count, folder, False)
        assert (life.end, life.exitcode, life.result(), left(folder)) == ("finished", 0, 10, 10)


@pytest.mark.parametrize(("flush", "numbers"), [(True, 6), (False, 0)])
def test_buffered_data_dies_with_the_process(flush: bool, numbers: int) -> None:
    with WorkFolder.fresh() as folder:
        life = launch(count, folder, flush, kill_before="file.write", visit=7)
        assert (life.end, life.exitcode, left(folder)) == ("killed", KILLED, numbers)
        assert life.point.visit == 7
        assert "killed before line" in str(life)
        assert "file.write" in str(life)


def test_a_kill_runs_no_finally_and_no_atexit() -> None:
    def careful(folder: WorkFolder) -> None:
        import atexit

        atexit.register(folder.perform, "atexit")
        try:
            folder.perform("work")
            folder.perform("more work")
        finally:
            folder.perform("finally")

    with WorkFolder.fresh() as folder:
        assert launch(careful, folder, kill_before='"more work"').end == "killed"
        assert folder.performed() == ["work"]


def test_a_line_that_is_not_reached_kills_nobody() -> None:
    with WorkFolder.fresh() as folder:
        life = launch(count, folder, True, kill_before="file.write", visit=11)
        assert life.end == "finished"


def test_another_signal_is_not_called_a_kill() -> None:
    def betray() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    life = launch(betray, kill_before="os.kill", visit=2)
    assert life.end == "exited"
    assert "signal 15" in life.reason


def test_a_sigkill_of_its_own_is_not_called_a_kill_of_ours() -> None:
    def suicide() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    life = launch(suicide)
    assert (life.end, life.exitcode) == ("exited", KILLED)


def raises() -> None:
    raise ValueError("no such library")


def test_an_exception_is_named_with_its_line_and_shown_without_the_bench(
    capsys: pytest.CaptureFixture[str],
) -> None:
    life = launch(raises)
    assert life.end == "raised"
    assert "ValueError: no such library, at line" in life.reason
    with pytest.raises(BenchError, match="raises raised ValueError"):
        life.result()
    shown = capsys.readouterr().out
    assert 'raise ValueError("no such library")' in shown
    assert "crashlab/kill.py" not in shown


def test_a_stub_is_told_apart() -> None:
    def stub() -> None:
        raise NotImplementedError("save: write your code here")

    with pytest.raises(NotWritten, match="save: write your code here"):
        launch(stub).result()


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        (lambda: os._exit(0), "exit code 0 and never returned"),
        (lambda: sys.exit(3), r"SystemExit\(3\)"),
        (lambda: os.closerange(3, 200), "never returned"),
    ],
)
def test_leaving_by_the_back_door_is_not_finishing(leave: object, reason: str) -> None:
    life = launch(leave)
    assert life.end == "exited"
    with pytest.raises(BenchError, match=reason):
        life.result()


def test_a_run_that_never_ends_is_stuck() -> None:
    def forever() -> None:
        while True:
            pass

    began = time.monotonic()
    life = launch(forever, deadline=0.5)
    assert life.end == "stuck"
    assert "had not ended after 0.5 s" in life.reason
    assert time.monotonic() - began < 5


def test_a_run_that_swallows_everything_is_stuck_too() -> None:
    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            try:
                time.sleep(60)
            except BaseException:
                continue

    assert launch(stubborn, deadline=0.5).end == "stuck"


def test_a_megabyte_of_output_is_cut_and_does_not_hang(capsys: pytest.CaptureFixture[str]) -> None:
    def talk() -> str:
        for _ in range(20_000):
            print("x" * 60)
        return "done"

    life = launch(talk)
    assert life.result() == "done"
    assert len(life.output) < 21_000
    assert "more output was left out" in capsys.readouterr().out


def test_a_run_that_prints_for_ever_is_stuck() -> None:
    def chatter() -> None:
        while True:
            print("still here")

    life = launch(chatter, deadline=0.5, echo=False)
    assert life.end == "stuck"
    assert len(life.output) < 21_000


def test_a_fork_that_returns_does_not_answer_for_the_function() -> None:
    def forks() -> str:
        return "child" if os.fork() == 0 else "parent"

    assert launch(forks).result() == "parent"


def test_what_is_printed_before_the_kill_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    def talk() -> None:
        print("step 1")
        print("step 2")

    launch(talk, kill_before="step 2")
    assert capsys.readouterr().out == "step 1\n"


def test_a_value_that_cannot_travel_is_named() -> None:
    import threading

    life = launch(lambda: threading.Lock())
    assert life.end == "raised"
    assert "cannot leave its process" in life.reason


def test_a_function_that_cannot_travel_is_named() -> None:
    import threading

    lock = threading.Lock()

    def uses() -> None:
        lock.acquire()

    with pytest.raises(BenchError, match="uses cannot be sent to another process"):
        launch(uses)


@pytest.mark.parametrize(("wanted", "number"), [("no such text", "no line"), ("file.", "2 lines")])
def test_an_unclear_line_is_refused(wanted: str, number: str) -> None:
    with pytest.raises(BenchError, match=f"fits {number} of your code"):
        launch(count, None, True, kill_before=wanted)


def test_who_switches_off_the_trace_is_told(tmp_path: Path) -> None:
    def hides() -> None:
        sys.settrace(None)

    assert "trace function was replaced" in launch(hides, record=True).reason


def test_the_reason_is_the_exception_and_not_a_note_on_it() -> None:
    def noted() -> None:
        error = KeyError("said")
        error.add_note("During task with name 'act'\nand id '1'")
        error.add_note("a second note")
        raise error

    assert launch(noted, echo=False).reason.startswith("raised KeyError: 'said', at line")


def test_the_place_of_an_error_is_in_the_code_of_the_learner() -> None:
    def saves() -> None:
        json.dumps({1, 2})

    assert "at line" in launch(saves).reason
    assert "`json.dumps({1, 2})`" in launch(saves).reason


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_kill_inside_a_write_leaves_the_first_bytes(n: int) -> None:
    with WorkFolder.fresh() as folder:
        life = launch(count, folder, False, kill_in_write=n)
        assert (life.end, life.exitcode, life.point) == ("killed", -signal.SIGXFSZ, None)
        assert str(life) == f"count was killed inside a write, {n} bytes in"
        assert (folder.path / "numbers.txt").read_bytes() == b"1\n2\n3\n4\n5\n"[:n]
        assert launch(count, folder, False, kill_in_write=1000).end == "finished"


def test_kill_in_a_thread() -> None:
    def work(folder: WorkFolder) -> None:
        import threading

        def inner() -> None:
            folder.perform("one")
            folder.perform("two")

        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()

    with WorkFolder.fresh() as folder:
        assert launch(work, folder, kill_before='"two"').end == "killed"
        assert folder.performed() == ["one"]


def test_its_own_children_die_with_it() -> None:
    def parent(folder: WorkFolder) -> None:
        child = os.fork()
        if child == 0:
            time.sleep(60)
        (folder.path / "pid").write_text(str(child))

    with WorkFolder.fresh() as folder:
        launch(parent, folder).result()
        pid = int((folder.path / "pid").read_text())
        assert gone(pid)


def gone(pid: int) -> bool:
    """Whether a process ends within a few seconds; dead but not yet reaped counts as gone."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


SLOW = """
import os, time
from crashlab import WorkFolder, launch

def slow(folder):
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    try:
        with WorkFolder.fresh() as folder:
            launch(slow, folder, deadline=600)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_caller_leaves_no_process(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "caller.py"
    script.write_text(SLOW)
    caller = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    pid = int(caller.stdout.readline())
    caller.send_signal(how)
    if how == signal.SIGINT:
        assert caller.stdout.readline() == "interrupted\n"
        caller.wait(10)
        assert not glob.glob(str(tmp_path / "crashlab-*"))
    caller.wait(10)
    caller.stdout.close()
    assert gone(pid)


def test_without_fork_the_results_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Windows does: every process is an interpreter of its own."""
    monkeypatch.setattr(kill, "START", "spawn")
    with WorkFolder.fresh() as folder:
        life = launch(count, folder, True, kill_before="file.write", visit=7)
        assert (life.end, life.exitcode, left(folder)) == ("killed", KILLED, 6)
    assert launch(count, None, True).end == "raised"


def test_a_fresh_interpreter_draws_its_own_hash_seed() -> None:
    def seed() -> int:
        return hash("run-217")

    forked = {launch(seed).result() for _ in range(2)}
    fresh = {launch(seed, fresh=True).result() for _ in range(2)}
    assert (len(forked), len(fresh)) == (1, 2)


def test_a_new_process_finds_everything_loaded() -> None:
    def loaded() -> bool:
        return set(preload.MODULES) <= set(sys.modules)

    assert launch(loaded).result()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts file descriptors in /proc")
def test_a_hundred_lives_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def works(folder: WorkFolder) -> None:
        folder.perform("work")

    def round_of_life() -> int:
        with WorkFolder.fresh() as folder:
            launch(works, folder, kill_before="perform")
        return len(os.listdir("/proc/self/fd"))

    before = round_of_life()
    assert [round_of_life() for _ in range(100)] == [before] * 100
    assert not list(tmp_path.iterdir())
