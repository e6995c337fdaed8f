"""The package for Anki, opened as Anki opens it."""

import json
import os
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
import toy_bank

from crashlab.drill import read_course
from crashlab.drill.anki import DECK_ID, MODEL_ID, export


def opened(
    package: Path, scratch: Path
) -> tuple[dict[str, tuple[str, list[str], list[str]]], dict]:
    """The notes by their first field (guid, tags, fields), and decks and models by their ids."""
    with zipfile.ZipFile(package) as zipped:
        assert zipped.namelist() == ["collection.anki2", "media"]
        database = zipped.extract("collection.anki2", scratch)
    with closing(sqlite3.connect(database)) as db:
        rows = db.execute("SELECT guid, tags, flds, mid FROM notes").fetchall()
        decks, models = map(json.loads, db.execute("SELECT decks, models FROM col").fetchone())
        assert db.execute("SELECT count(DISTINCT nid) FROM cards").fetchone() == (len(rows),)
    assert {model for *_, model in rows} == {MODEL_ID}
    notes = {}
    for guid, tags, fields, _ in rows:
        name, *sides = fields.split("\x1f")
        notes[name] = (guid, tags.split(), sides)
    return notes, {"decks": decks, "models": models}


def test_each_question_is_a_note_in_both_languages(tmp_path: Path) -> None:
    bank, _ = read_course(toy_bank.course(tmp_path))
    export(bank, tmp_path / "crashlab.apkg")
    notes, kinds = opened(tmp_path / "crashlab.apkg", tmp_path)
    assert list(notes) == list(bank)
    assert str(DECK_ID) in kinds["decks"] and str(MODEL_ID) in kinds["models"]
    _, tags, (front, back) = notes["one-mail"]
    assert tags == ["mail", "idempotency", "04_email"]
    asked = "Ask one-mail of <code>os.replace</code> &lt;now&gt;?"
    assert front == f"<p>{asked}</p><p>{asked}（中文）</p>"
    for part in ("Answer one-mail &amp; why.", "Must one-mail b", "Depth one-mail"):
        assert f"{part}<" in back and f"{part}（中文）<" in back
    for part in ("Mistake one-mail", "Difference one-mail.", "Further one-mail 1?"):
        assert f"{part}<" in back and f"{part}（中文）<" in back
    assert "Often confused: claim / lock" in back and "容易混淆" in back
    assert "Answer to one-mail 1." in back


def test_without_the_answers_the_back_says_who_has_them(tmp_path: Path) -> None:
    bank, _ = read_course(toy_bank.course(tmp_path, answers=False))
    export(bank, tmp_path / "crashlab.apkg")
    notes, _ = opened(tmp_path / "crashlab.apkg", tmp_path)
    back = notes["one-mail"][2][1]
    assert "The answers come from your instructor" in back and "答案由你的老师提供" in back
    assert "Further one-mail 1?" in back
    assert "Must" not in back


def test_exported_again_it_is_the_same_notes(tmp_path: Path) -> None:
    """So that Anki updates what it has: with other answers too, and in another order."""
    root = toy_bank.course(tmp_path)
    bank, _ = read_course(root)
    path = tmp_path / "crashlab.apkg"
    export(bank, path)
    first, _ = opened(path, tmp_path)
    public, _ = toy_bank.halves()
    public["mail"][1]["ask"] = toy_bank.text("Another wording?")
    changed, _ = read_course(toy_bank.write(root, public, toy_bank.halves()[1]))
    export(dict(reversed(changed.items())), path)
    second, _ = opened(path, tmp_path)
    assert {name: note[0] for name, note in first.items()} == {
        name: note[0] for name, note in second.items()
    }
    assert len({note[0] for note in first.values()}) == len(bank)
    assert "Another wording?" in second["one-mail"][2][0]


def test_a_package_that_cannot_be_replaced_stays_whole(tmp_path: Path, monkeypatch) -> None:
    bank, _ = read_course(toy_bank.course(tmp_path / "course"))
    path = tmp_path / "crashlab.apkg"
    path.write_bytes(b"the old one")

    def held_open(*_: object) -> None:
        raise PermissionError("Anki has it open")

    monkeypatch.setattr(os, "replace", held_open)
    with pytest.raises(PermissionError):
        export(bank, path)
    assert path.read_bytes() == b"the old one"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["course", "crashlab.apkg"]


def test_a_place_that_takes_no_file_is_told(tmp_path: Path) -> None:
    bank, _ = read_course(toy_bank.course(tmp_path))
    with pytest.raises(OSError, match=r"There is no folder .*nowhere"):
        export(bank, tmp_path / "nowhere" / "crashlab.apkg")
    with pytest.raises(OSError, match="is there, and is no file"):
        export(bank, tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    bank, _ = read_course(toy_bank.course(tmp_path))
    (tmp_path / "link.apkg").symlink_to(tmp_path / "deck.apkg")
    export(bank, tmp_path / "link.apkg")
    assert (tmp_path / "link.apkg").is_symlink() and (tmp_path / "deck.apkg").is_file()
