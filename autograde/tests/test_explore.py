"""Exploration kills before every line that runs, and its report says what the world looked like."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crashlab import BenchError, NotWritten, WorkFolder, explore

PLAN = ["clone", "build", "install"]


def run(folder: WorkFolder) -> str:
    done = json.loads(folder.checkpoint.read_text()) if folder.checkpoint.exists() else []
    for action in PLAN:
        if action in done:
            continue
        folder.perform(action)
        done.append(action)
        save(folder.checkpoint, done)
    return "completed"


def save(path: Path, state: object) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        json.dump(state, file)
    os.replace(name, path)


def judge(folder: WorkFolder) -> str:
    done = folder.performed()
    if set(done) != set(PLAN):
        return "lost"
    return "twice" if len(done) > len(PLAN) else "once"


def test_the_crash_window_is_found() -> None:
    report = explore(run, WorkFolder.fresh, judge, inside=[run])
    assert report.counts == {"once": 12, "twice": 6}
    assert [report.at(text) for text in ("perform(", "append(", "save(", "return")] == [
        {"once"},
        {"twice"},
        {"twice"},
        {"once"},
    ]
    assert not report.clean
    assert (
        "`done.append(action)`, then restarted: twice; 6 of 18 kills did harm" in report.verdict()
    )
    assert "6 twice" in str(report)


def test_lines_of_all_functions_of_yours_count_and_no_others() -> None:
    report = explore(run, WorkFolder.fresh, judge)
    assert {os.path.basename(file) for file, _ in report.lines} == {"test_explore.py"}
    assert report.at("os.replace") == {"twice"}


OLD, NEW = ["old"], ["new"]


@contextmanager
def saved() -> Iterator[WorkFolder]:
    with WorkFolder.fresh() as folder:
        folder.checkpoint.write_text(json.dumps(OLD))
        yield folder


def whole(folder: WorkFolder) -> str:
    try:
        return {"old": "old", "new": "new"}[json.loads(folder.checkpoint.read_text())[0]]
    except ValueError:
        return "torn"


def in_one_line(folder: WorkFolder) -> None:
    folder.checkpoint.write_text(json.dumps(NEW))


def in_one_expression(folder: WorkFolder) -> None:
    open(folder.checkpoint, "w").write(json.dumps(NEW))  # noqa: SIM115 (the fault under test)


@pytest.mark.parametrize("write", [in_one_line, in_one_expression])
def test_a_closer_look_kills_inside_a_line(write: object) -> None:
    coarse = explore(write, saved, whole, restart=False)
    assert coarse.counts == {"old": 1}
    close = explore(write, saved, whole, restart=False, fine=True)
    assert close.counts["torn"] > 0
    assert {line for _, line in close.lines} == {line for _, line in coarse.lines}


def test_a_closer_look_finds_no_fault_in_a_replace() -> None:
    def replace(folder: WorkFolder) -> None:
        save(folder.checkpoint, NEW)

    report = explore(replace, saved, whole, restart=False, fine=True)
    assert report.clean
    assert set(report.counts) == {"old", "new"}


def test_a_restart_that_fails_is_stuck_and_says_why() -> None:
    def trap(folder: WorkFolder) -> None:
        if (folder.path / "lock").exists():
            raise RuntimeError("somebody else is working here")
        (folder.path / "lock").touch()
        folder.perform("clone")
        (folder.path / "lock").unlink()

    report = explore(trap, WorkFolder.fresh, lambda folder: "once")
    assert report.at("unlink") == {"stuck"}
    assert "somebody else is working here" in report.verdict()


def test_a_restart_that_never_ends_stops_the_exploration() -> None:
    def trap(folder: WorkFolder) -> None:
        while (folder.path / "performed.log").exists():
            pass
        folder.perform("clone")
        folder.perform("build")
        folder.perform("install")

    report = explore(trap, WorkFolder.fresh, lambda folder: "once", deadline=0.5)
    assert [kill.outcome for kill in report.kills] == ["once", "once", "stuck"]
    assert "stuck (the restarted trap had not ended after 0.5 s" in report.verdict()


def test_a_closer_look_kills_between_the_statements_of_a_line() -> None:
    def one_line(folder: WorkFolder) -> None:
        _ = folder.perform("clone"), folder.perform("build")

    def both_or_none(folder: WorkFolder) -> str:
        return {0: "old", 1: "torn", 2: "new"}[len(folder.performed())]

    coarse = explore(one_line, WorkFolder.fresh, both_or_none, restart=False)
    assert set(coarse.counts) == {"old"}
    close = explore(one_line, WorkFolder.fresh, both_or_none, restart=False, fine=True)
    assert set(close.counts) == {"old", "torn", "new"}
    assert "within line" in close.verdict()


def test_a_function_that_differs_each_time_is_not_reported_as_killed(tmp_path: Path) -> None:
    def works_once(folder: WorkFolder) -> None:
        if not (tmp_path / "worked").exists():
            (tmp_path / "worked").touch()
            folder.perform("clone")

    report = explore(works_once, WorkFolder.fresh, lambda folder: "once", restart=False)
    assert report.at("perform") == {"missed"}
    assert "so it was not killed there" in report.verdict()
    assert not report.clean


def test_what_fails_without_a_kill_is_not_killed() -> None:
    report = explore(run, WorkFolder.fresh, lambda folder: "lost")
    assert report.kills == ()
    assert report.verdict() == "run gives 'lost' even when nobody kills it"
    assert not report.clean


def test_a_stub_or_a_failure_is_named_before_any_kill() -> None:
    def stub(folder: WorkFolder) -> None:
        raise NotImplementedError("run: write your code here")

    with pytest.raises(
        NotWritten, match="stub raised NotImplementedError: run: write your code here"
    ):
        explore(stub, WorkFolder.fresh, judge)

    def forever(folder: WorkFolder) -> None:
        while True:
            pass

    with pytest.raises(BenchError, match=r"had not ended after 0\.5 s"):
        explore(forever, WorkFolder.fresh, judge, deadline=0.5)

    def long(folder: WorkFolder) -> None:
        for _ in range(3000):
            pass

    with pytest.raises(BenchError, match="explore a shorter run"):
        explore(long, WorkFolder.fresh, judge)


def test_the_cost_of_a_kill_does_not_grow() -> None:
    def loop(folder: WorkFolder, turns: int = 60) -> None:
        for _ in range(turns):
            pass

    def short(folder: WorkFolder) -> None:
        loop(folder, 5)

    small = explore(short, WorkFolder.fresh, lambda folder: "once", restart=False)
    large = explore(loop, WorkFolder.fresh, lambda folder: "once", restart=False)
    assert large.seconds / len(large.kills) < 3 * small.seconds / len(small.kills)
