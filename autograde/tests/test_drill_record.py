"""The record of ratings: killed at every line, rated by two at once, and found broken."""

import os
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crashlab import WorkFolder, explore, launch
from crashlab.drill import content, files
from crashlab.drill import record as record_module
from crashlab.drill.files import APPLICATION, KeptAside, RecordError, connect
from crashlab.drill.record import Mock, RatedElsewhere, Record, Review
from crashlab.world.desk import at_once

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
EARLIER = Review("one-mail", 0, "again", NOON, 61.5, "zh")
LATER = Review("one-mail", 1, "good", NOON + timedelta(days=1), 40.0, "en")
PRAGMAS = ("application_id", "user_version", "synchronous")
only_posix = pytest.mark.skipif(os.name != "posix", reason="Windows cannot kill inside a write")


def rated(folder: Path) -> Record:
    record = Record(folder)
    record.rate(EARLIER)
    return record


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# What it holds


def test_the_record_gives_back_what_was_written(tmp_path: Path) -> None:
    record = rated(tmp_path)
    mock = record.start_mock(7, NOON, 20, "zh", ["one-mail", "who-may"])
    in_mock = Review("who-may", 0, "easy", NOON, 5, "zh", mock.id)
    record.rate(in_mock)
    record.rate(LATER)
    again = Record(tmp_path)
    assert again.path == record.path == tmp_path / "drill.sqlite"
    assert again.kept_aside == ()
    assert again.reviews() == [EARLIER, LATER, in_mock]
    assert again.mocks() == [mock] == [Mock(1, 7, NOON, 20, "zh", ("one-mail", "who-may"))]
    assert mock.deadline == NOON + timedelta(minutes=20)
    again.end_mock(mock.id, NOON + timedelta(minutes=5))
    again.end_mock(mock.id, NOON + timedelta(minutes=9))
    assert record.mocks()[0].ended_at == NOON + timedelta(minutes=5)


def test_the_file_says_whose_it_is_and_waits_for_the_disk(tmp_path: Path) -> None:
    with closing(connect(Record(tmp_path).path, "ro")) as db:
        said = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS]
    assert said == [APPLICATION, 1, 2]  # 2 is FULL


def test_without_a_folder_it_is_where_your_data_is(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(record_module, "user_data_dir", lambda name, **_: tmp_path / name)
    assert Record().path == tmp_path / "crashlab" / "drill.sqlite"


def test_a_process_that_changes_its_folder_keeps_its_record(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    record = rated(Path("here"))
    monkeypatch.chdir(tmp_path.parent)
    assert record.reviews() == [EARLIER]


def test_a_generation_has_one_rating(tmp_path: Path) -> None:
    record = rated(tmp_path)
    with pytest.raises(RatedElsewhere, match="one-mail was rated in another window"):
        record.rate(Review("one-mail", 0, "easy", NOON, 1, "en"))
    assert record.reviews() == [EARLIER]


def test_what_cannot_be_a_rating_is_refused(tmp_path: Path) -> None:
    record = Record(tmp_path)
    with pytest.raises(RecordError, match="CHECK"):
        record.rate(Review("one-mail", 0, "perfect", NOON, 1, "en"))
    assert record.reviews() == []


def test_a_record_that_was_taken_away_is_not_made_again(tmp_path: Path) -> None:
    record = rated(tmp_path)
    record.path.unlink()
    with pytest.raises(RecordError, match=r"drill\.sqlite: unable to open"):
        record.rate(LATER)
    assert names(tmp_path) == []


# Killed


def press(folder: WorkFolder) -> None:
    """What the button does: rate the question as it was shown, before any crash."""
    record = Record(folder.path)
    with suppress(RatedElsewhere):
        record.rate(LATER)


def judge(folder: WorkFolder) -> str:
    record = Record(folder.path)
    if record.kept_aside:
        return "torn"
    return {(): "old", (LATER,): "new"}.get(tuple(record.reviews()), "torn")


def test_a_kill_at_any_line_leaves_the_rating_or_none() -> None:
    found = explore(press, WorkFolder.fresh, judge, inside=[Record.rate], restart=False)
    assert set(found.counts) == {"old", "new"}
    assert found.at("COMMIT") == {"old"}
    assert found.at("if not written") == {"new"}
    assert len(found.kills) >= 6


def test_after_a_restart_it_is_rated_once() -> None:
    found = explore(press, WorkFolder.fresh, judge, inside=[Record.rate])
    assert set(found.counts) == {"new"}


def test_a_kill_while_the_file_is_made_leaves_nothing_in_the_way() -> None:
    def files_judge(folder: WorkFolder) -> str:
        found = [name for name in names(folder.path) if not name.startswith(".drill")]
        Record(folder.path)
        if found not in ([], ["drill.sqlite"]):
            return "torn"
        return "once" if Record(folder.path).path.name == "drill.sqlite" else "lost"

    making = [files._make, files._publish]
    made = explore(press, WorkFolder.fresh, files_judge, inside=making, restart=False)
    assert set(made.counts) == {"once"}
    assert len(made.kills) >= 9


@only_posix
def test_a_kill_inside_any_write_leaves_the_rating_or_none() -> None:
    """The operating system kills in the middle of a page, of the journal and of the file."""
    outcomes, half_done = [], 0
    for most_bytes in range(256, 17_000, 1500):
        with WorkFolder.fresh() as folder:
            record = rated(folder.path)
            pad(record.path)
            before = record.path.read_bytes()
            life = launch(record.rate, LATER, kill_in_write=most_bytes, echo=False)
            half_done += record.path.read_bytes() != before and life.end == "killed"
            again = Record(folder.path)
            assert again.path == record.path
            written = [review for review in again.reviews() if review.question == "one-mail"]
            assert written in ([EARLIER], [EARLIER, LATER])
            outcomes.append((life.end, len(written)))
            with suppress(RatedElsewhere):
                again.rate(LATER)
    assert {("killed", 1), ("finished", 2)} <= set(outcomes)
    assert half_done, "no kill fell between the first and the last write to the file"


def pad(path: Path, ratings: int = 200) -> None:
    """Make the table some pages long."""
    with closing(connect(path, "rw")) as db:
        db.execute("BEGIN")
        for number in range(ratings):
            row = ("padding", number, "good", NOON.isoformat(), 1.0, "en", None)
            db.execute("INSERT INTO reviews VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("COMMIT")


def spill(path: Path) -> None:
    """Change so much in one transaction that SQLite writes to the file before the commit."""
    with closing(connect(path, "rw")) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN IMMEDIATE")
        for number in range(1, 1000):
            row = ("one-mail", number, "easy", NOON.isoformat(), 1.0, "en", None)
            db.execute("INSERT INTO reviews VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("COMMIT")


def test_a_transaction_that_was_half_written_is_rolled_back(tmp_path: Path) -> None:
    record = rated(tmp_path)
    before = record.path.read_bytes()
    assert launch(spill, record.path, kill_before="COMMIT", echo=False).end == "killed"
    assert record.path.stat().st_size > len(before)
    assert names(tmp_path) == ["drill.sqlite", "drill.sqlite-journal"]
    again = Record(tmp_path)
    assert (again.path, again.kept_aside) == (record.path, ())
    assert again.reviews() == [EARLIER]
    assert record.path.read_bytes() == before


def test_a_killed_writer_of_a_strange_file_is_left_to_its_owner(tmp_path: Path) -> None:
    path = rated(tmp_path).path
    with closing(connect(path, "rw")) as db:
        db.execute("PRAGMA application_id = 4711")
    launch(spill, path, kill_before="COMMIT", echo=False)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    assert len(before) == 2
    assert Record(tmp_path).kept_aside == (KeptAside("drill.sqlite", "foreign", 1),)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


# Two at once


def test_of_two_windows_one_wins_and_one_is_told(tmp_path: Path) -> None:
    def window(folder: Path, rating: str) -> str:
        try:
            Record(folder).rate(Review("one-mail", 0, rating, NOON, 1, "en"))
        except RatedElsewhere as told:
            return str(told)
        return rating

    Record(tmp_path)
    said = at_once(window, [(tmp_path, "good"), (tmp_path, "easy")])
    told = "one-mail was rated in another window"
    assert told in said
    [review] = Record(tmp_path).reviews()
    assert sorted(said) == sorted([review.rating, told])


@pytest.mark.parametrize("found", [None, b"shopping list"])
def test_windows_that_make_the_file_at_once_use_the_same(tmp_path: Path, found) -> None:
    def window(folder: Path, question: str) -> str:
        record = Record(folder)
        record.rate(Review(question, 0, "good", NOON, 1, "en"))
        return record.path.name

    if found:
        (tmp_path / "drill.sqlite").write_bytes(found)
    questions = ["a", "b", "c", "d"]
    used = at_once(window, [(tmp_path, question) for question in questions])
    assert set(used) == {"drill-2.sqlite" if found else "drill.sqlite"}
    assert [review.question for review in Record(tmp_path).reviews()] == questions


def test_a_locked_record_is_not_taken_for_a_broken_one(tmp_path: Path, monkeypatch) -> None:
    record = rated(tmp_path)
    monkeypatch.setattr(files, "WAIT", 0.05)
    with closing(connect(record.path, "rw")) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RecordError, match="locked"):
            Record(tmp_path)
        with pytest.raises(RecordError, match="locked"):
            record.rate(LATER)
    assert names(tmp_path) == ["drill.sqlite"]
    assert Record(tmp_path).reviews() == [EARLIER]


# Broken, foreign, older, newer


def cut(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])


def zero(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(bytes(4096))


def repeat_a_cell(path: Path) -> None:
    """Let two entries of a page be the same: every row can be read, one of them twice."""
    pages = bytearray(path.read_bytes())
    leaf = next(at for at in range(0, len(pages), 4096) if pages[at] == 0x0A)
    pages[leaf + 10 : leaf + 12] = pages[leaf + 8 : leaf + 10]
    path.write_bytes(pages)


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


FLAWS = {
    "nothing in it": ("torn", 0, lambda path: path.write_bytes(b"")),
    "empty text": ("foreign", 0, lambda path: path.write_text("{}")),
    "another program's": ("foreign", 1, lambda path: sql(path, "PRAGMA application_id = 3")),
    "no SQLite": ("foreign", 0, lambda path: path.write_bytes(bytes(5000))),
    "a folder": ("foreign", 0, lambda path: (path.unlink(), path.mkdir())),
    "older": ("older", 0, lambda path: sql(path, "PRAGMA user_version = 0")),
    "newer": ("newer", 2, lambda path: sql(path, "PRAGMA user_version = 2")),
    "cut in the header": ("torn", 0, lambda path: cut(path, 50)),
    "cut after a page": ("torn", 1, lambda path: cut(path, 4096)),
    "cut in a page": ("torn", 1, lambda path: cut(path, 9000)),
    "short by a byte": ("torn", 1, lambda path: cut(path, path.stat().st_size - 1)),
    "a page of zeros": ("torn", 1, lambda path: zero(path, 2)),
    "an entry twice": ("torn", 1, repeat_a_cell),
    "a table missing": ("torn", 1, lambda path: sql(path, "DROP TABLE mocks")),
    "a time that is none": ("torn", 1, lambda path: sql(path, "UPDATE reviews SET at = 'noon'")),
    "a rating that is none": (
        "torn",
        1,
        lambda path: sql(
            path, "PRAGMA ignore_check_constraints = ON", "UPDATE reviews SET rating = 'perfect'"
        ),
    ),
    "a list that is none": (
        "torn",
        1,
        lambda path: sql(
            path, "INSERT INTO mocks VALUES (1, 1, '2026-07-01', 20, 'en', '[', NULL)"
        ),
    ),
}


@pytest.mark.parametrize("flaw, version, harm", FLAWS.values(), ids=FLAWS.keys())
def test_what_is_no_record_of_this_version_is_kept(
    tmp_path: Path, flaw: str, version: int, harm
) -> None:
    path = rated(tmp_path).path
    pad(path)
    harm(path)
    before = path.is_file() and path.read_bytes()
    record = Record(tmp_path)
    assert record.path == tmp_path / "drill-2.sqlite"
    assert record.kept_aside == (KeptAside("drill.sqlite", flaw, version),)
    assert record.reviews() == []
    for language in ("en", "zh"):
        where, why = content.record_lines(record, language)
        assert str(record.path) in where
        assert "drill.sqlite" in why
    record.rate(EARLIER)
    again = Record(tmp_path)
    assert (again.path, again.kept_aside) == (record.path, record.kept_aside)
    assert again.reviews() == [EARLIER]
    assert (path.is_file() and path.read_bytes()) == before
    assert names(tmp_path) == ["drill-2.sqlite", "drill.sqlite"]


def test_the_sentences_say_which_version_is_needed(tmp_path: Path) -> None:
    sql(Record(tmp_path).path, "PRAGMA user_version = 9")
    why = content.record_lines(Record(tmp_path), "en")[1]
    assert why.startswith("drill.sqlite has version 9, newer than the 1 of this program")


def test_the_highest_number_counts(tmp_path: Path) -> None:
    rated(tmp_path)
    (tmp_path / "drill-9.sqlite").write_text("torn")
    (tmp_path / "drill-10.sqlite").write_bytes((tmp_path / "drill.sqlite").read_bytes())
    (tmp_path / "drill-1.sqlite").write_text("not one of ours")
    (tmp_path / "drill-11.sqlite.bak").write_text("not one of ours")
    record = Record(tmp_path)
    assert record.path.name == "drill-10.sqlite"
    assert [(each.name, each.flaw) for each in record.kept_aside] == [
        ("drill.sqlite", "left"),
        ("drill-9.sqlite", "foreign"),
    ]
    record.path.write_text("torn too")
    assert Record(tmp_path).path.name == "drill-11.sqlite"


def test_a_record_that_another_version_has_taken_over_is_not_written(tmp_path: Path) -> None:
    record = rated(tmp_path)
    sql(record.path, "PRAGMA user_version = 2")
    before = record.path.read_bytes()
    with pytest.raises(RecordError, match=r"drill\.sqlite has become one of version 2"):
        record.rate(LATER)
    assert record.path.read_bytes() == before


def test_a_file_system_without_links_gets_a_record_too(tmp_path: Path, monkeypatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(files.os, "link", no_links)
    rated(tmp_path)
    assert names(tmp_path) == ["drill.sqlite"]


def test_a_place_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match=r"the record in .*file cannot be opened"):
        Record(tmp_path / "file")


def test_a_name_with_strange_letters_is_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "my 50% ?#& 记录"
    if os.name == "nt":
        folder = tmp_path / "my 50% #& 记录"
    rated(folder)
    assert Record(folder).reviews() == [EARLIER]
    assert names(tmp_path) == [folder.name]
