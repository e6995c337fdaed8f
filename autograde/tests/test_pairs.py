"""Recovery is killed too: what only the second kill brings to light is found."""

import pytest

from crashlab import NotWritten, WorkFolder
from crashlab.pairs import explore_pairs


def install(folder: WorkFolder) -> None:
    folder.perform("download")
    (folder.path / "downloaded").touch()
    folder.perform("unpack")


def recover_well(folder: WorkFolder) -> None:
    if not (folder.path / "downloaded").exists():
        folder.perform("download")
        (folder.path / "downloaded").touch()
    folder.perform("unpack")


def recover_once(folder: WorkFolder) -> None:
    """Works after any one kill, but a second one finds its note and gives up the rest."""
    if (folder.path / "recovering").exists():
        return
    (folder.path / "recovering").touch()
    folder.perform("download")
    folder.perform("unpack")


def complete(folder: WorkFolder) -> str:
    return "all" if {"download", "unpack"} <= set(folder.performed()) else "lost"


def test_a_recovery_that_can_be_repeated_is_clean() -> None:
    report = explore_pairs(install, recover_well, WorkFolder.fresh, complete)
    assert report.clean
    # after the kills before lines 1 and 2 the recovery runs four lines, after the third two
    assert report.of == len(report.pairs) == 3 + 4 + 4 + 2
    assert "none did harm" in report.verdict()


def test_a_recovery_that_works_once_only_is_found() -> None:
    report = explore_pairs(install, recover_once, WorkFolder.fresh, complete)
    assert all(pair.outcome == "all" for pair in report.pairs if pair.second is None)
    assert not report.clean
    assert "its recovery killed before line" in report.verdict()
    assert "lost" in str(report)


def test_the_cap_is_stated_and_the_same_pairs_are_tried_each_time() -> None:
    some = explore_pairs(install, recover_well, WorkFolder.fresh, complete, most=5)
    again = explore_pairs(install, recover_well, WorkFolder.fresh, complete, most=5)
    assert some.pairs == again.pairs
    assert len(some.pairs) == 3 + 5
    assert "8 of 13 pairs" in some.verdict()


def test_a_recovery_that_fails_is_stuck_and_a_stub_is_named() -> None:
    def fails(folder: WorkFolder) -> None:
        raise OSError("no such mirror")

    report = explore_pairs(install, fails, WorkFolder.fresh, complete)
    assert set(report.counts) == {"stuck"}
    assert "no such mirror" in report.verdict()

    def stub(folder: WorkFolder) -> None:
        raise NotImplementedError("install: write your code here")

    with pytest.raises(NotWritten):
        explore_pairs(stub, fails, WorkFolder.fresh, complete)
