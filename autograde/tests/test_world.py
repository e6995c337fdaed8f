"""The pieces of the outside that notebooks use, and the comparison of a prediction."""

import json
import os
import shutil
from pathlib import Path

import pytest

from crashlab import DATA, SoundStore, WorkFolder, explore, launch
from crashlab.quiz import differs
from crashlab.watch import renames


def test_what_was_performed_is_kept_in_order_with_repetitions() -> None:
    with WorkFolder.fresh() as folder:
        for action in ("clone", "build", "build"):
            folder.perform(action)
        assert folder.performed() == ["clone", "build", "build"]
        path = folder.path
    assert not path.exists()


def test_an_agent_cannot_look_at_what_was_performed() -> None:
    with WorkFolder.fresh() as folder:
        life = launch(WorkFolder.performed, folder)
        assert "for the judge" in life.reason


def test_no_kill_tears_the_sound_store() -> None:
    store = SoundStore({"n": 0})

    def work(folder: WorkFolder) -> None:
        store.save(folder.checkpoint, {"n": 1})
        store.save(folder.checkpoint, {"n": 2})

    def judge(folder: WorkFolder) -> str:
        return ["old", "old", "new"][store.load(folder.checkpoint)["n"]]

    report = explore(work, WorkFolder.fresh, judge, restart=False, fine=True)
    assert report.clean
    assert set(report.counts) == {"old", "new"}


def test_the_sound_store_gives_each_time_a_fresh_start() -> None:
    store = SoundStore({"done": []})
    with WorkFolder.fresh() as folder:
        store.load(folder.checkpoint)["done"].append("not saved")
        assert store.load(folder.checkpoint) == {"done": []}


def test_renames_are_seen_whoever_asks_for_them() -> None:
    def three_ways(path: Path) -> None:
        for name in "abc":
            (path / name).touch()
        os.replace(path / "a", path / "1")
        (path / "b").rename(path / "2")
        shutil.move(path / "c", path / "3")

    with WorkFolder.fresh() as folder:
        found = launch(renames, three_ways, folder.path).result()
        assert [(a.name, b.name) for a, b in found] == [("a", "1"), ("b", "2"), ("c", "3")]


@pytest.mark.parametrize(
    ("predicted", "measured", "sentence"),
    [
        (2, 2, ""),
        (2.0, 2, ""),
        (3, 2, "you predicted 3, the experiment gave 2"),
        (None, 0, "you predicted None, the experiment gave 0"),
        (True, 1, "you predicted True, the experiment gave 1"),
    ],
)
def test_a_prediction_is_compared_and_both_are_shown(
    predicted: object, measured: object, sentence: str
) -> None:
    assert differs(predicted, measured) == sentence


@pytest.mark.parametrize(
    ("predicted", "sentence"),
    [
        (("old", "torn"), ""),
        (["old", "new"], "second: you predicted 'new', the experiment gave 'torn'"),
        (["old"], "the answer must be a list or tuple of 2, and you gave ['old']"),
        ("torn", "the answer must be a list or tuple of 2, and you gave 'torn'"),
    ],
)
def test_a_prediction_of_several_things_names_the_first_that_differs(
    predicted: object, sentence: str
) -> None:
    assert differs(predicted, ["old", "torn"], ["first", "second"]) == sentence


def test_the_recorded_checkpoints_are_what_their_names_say() -> None:
    samples = DATA / "checkpoints"
    good = (samples / "good.json").read_bytes()
    assert json.loads(good)["version"] == 1
    assert json.loads((samples / "newer.json").read_bytes())["version"] == 2
    for name in ("torn.json", "torn_in_a_character.json", "empty.json"):
        cut = (samples / name).read_bytes()
        assert good.startswith(cut)
        assert len(cut) < len(good)
    for name in ("foreign.json", "foreign_list.json"):
        assert "build-agent" not in (samples / name).read_text(encoding="utf-8")
