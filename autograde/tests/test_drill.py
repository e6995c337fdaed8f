"""The spoken drill: when a question comes back, one window, the mock interview, both faces."""

import os
import re
import signal
import string
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import toy_bank
from fsrs import Card, Rating, Scheduler

from crashlab import launch
from crashlab.bank import BankError, Question
from crashlab.course import cli
from crashlab.drill import content, mock, open_drill, read_course, schedule, terminal
from crashlab.drill.panel import Panel
from crashlab.drill.record import RATINGS, RatedElsewhere, Record, Review
from crashlab.drill.session import Session, utc_now
from crashlab.drill.words import WORDS, minutes, soon

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class Time:
    """The time, which goes on when a test says so."""

    def __init__(self) -> None:
        self.past = timedelta()

    def clock(self) -> float:
        return self.past.total_seconds()

    def now(self) -> datetime:
        return NOON + self.past


class Window:
    """A session on the toy bank, and the time it sees."""

    def __init__(self, folder: Path, language: str = "en", answers: bool = True) -> None:
        self.root, self.time = toy_bank.course(folder / "course", answers), Time()
        self.record = Record(folder / "record")
        self.session = self.another(language)

    def another(self, language: str = "en") -> Session:
        """A second window on the same record."""
        course = read_course(self.root)
        return Session(*course, self.record, language, self.time.clock, self.time.now)


@pytest.fixture
def window(tmp_path: Path) -> Window:
    return Window(tmp_path)


def review(question: str, generation: int, rating: str, at: datetime) -> Review:
    return Review(question, generation, rating, at, 60, "en")


# When a question comes back


def test_the_schedule_is_what_fsrs_says() -> None:
    reviews, direct, at = [], Card(card_id=0), NOON
    scheduler = Scheduler(enable_fuzzing=False)
    for generation, rating in enumerate(["good", "good", "again", "hard", "easy"]):
        reviews.append(review("q", generation, rating, at))
        direct, _ = scheduler.review_card(direct, Rating[rating.capitalize()], at)
        assert schedule.card(reviews).due == schedule.card(reversed(reviews)).due == direct.due
        at = direct.due
    assert direct.due > NOON + 3 * DAY


def test_a_rating_says_when_the_question_comes_back() -> None:
    first = schedule.intervals([], NOON)
    assert list(first) == list(RATINGS)
    assert first["again"] == MINUTE and first["good"] == 10 * MINUTE and first["easy"] == 8 * DAY
    known = [review("q", 0, "easy", NOON)]
    later = schedule.intervals(known, NOON + 8 * DAY)
    assert list(later.values()) == sorted(later.values())
    assert later["good"] > 8 * DAY


def test_a_clock_that_was_set_back_breaks_nothing() -> None:
    reviews = [review("q", 0, "good", NOON), review("q", 1, "good", NOON - 3 * DAY)]
    assert schedule.card(reviews).due > NOON - 3 * DAY


def test_new_questions_come_in_the_order_of_the_notebooks(window: Window) -> None:
    backwards = dict(reversed(window.session.bank.items()))
    assert schedule.due(backwards, [], NOON) == ["what-is-torn", "which-thread", "pay-once"]


def test_what_is_due_comes_first_and_new_questions_wait_for_what_they_need(window: Window) -> None:
    bank = window.session.bank
    assert schedule.due(bank, [], NOON) == ["what-is-torn", "which-thread", "pay-once"]
    reviews = [
        review("pay-once", 0, "good", NOON),
        review("what-is-torn", 0, "again", NOON),
        review("gone-from-the-bank", 0, "again", NOON),
    ]
    assert schedule.due(bank, reviews, NOON) == ["one-mail", "which-thread"]
    assert schedule.due(bank, reviews, NOON + MINUTE)[0] == "what-is-torn"
    assert schedule.due(bank, reviews, NOON + DAY)[:2] == ["what-is-torn", "pay-once"]
    assert set(schedule.due_times(bank, reviews)) == {"pay-once", "what-is-torn"}


# One window


def test_a_question_is_asked_turned_over_and_rated(window: Window) -> None:
    session = window.session
    assert session.next().id == "what-is-torn"
    assert session.counts() == {"due": 0, "new": 3}
    window.time.past += timedelta(seconds=42)
    assert (session.seconds, session.revealed) == (42, False)
    session.reveal()
    window.time.past += timedelta(seconds=30)
    session.reveal()
    assert (session.seconds, session.revealed) == (42, True)
    session.language = "zh"
    session.rate("good")
    assert session.question is None
    at = NOON + timedelta(seconds=72)
    assert window.record.reviews() == [Review("what-is-torn", 0, "good", at, 42, "zh")]
    assert session.next().id == "one-mail"
    assert session.back_in() == 10 * MINUTE
    window.time.past += 10 * MINUTE
    assert session.next().id == "what-is-torn"
    assert session.counts() == {"due": 1, "new": 3}
    session.reveal()
    session.rate("easy")
    assert [each.generation for each in window.record.reviews()] == [0, 1]


def test_follow_ups_come_one_by_one_each_before_its_answer(window: Window) -> None:
    session = window.session
    session.start_mock(seed=1)
    while session.next().id != "one-mail":
        session.reveal()
        session.rate("good")
    seen = []
    session.further()
    assert session.asked == 0  # not before the answer
    session.reveal()
    while session.goes_further:
        session.further()
        sections = content.follow_ups(session.question, "en", session.asked, session.answered)
        seen.append([len(section.lines) for section in sections])
    assert seen == [[0], [1], [1, 0], [1, 1]]
    session.further()
    assert (session.asked, session.answered) == (2, 2)


def test_nothing_is_rated_before_the_answer_is_seen(window: Window) -> None:
    window.session.rate("easy")
    window.session.next()
    window.session.rate("easy")
    assert window.record.reviews() == []
    assert window.session.question


def test_the_second_window_is_told_and_goes_on(window: Window) -> None:
    first, second = window.session, window.another()
    for session in (first, second):
        session.next()
        session.reveal()
    first.rate("good")
    with pytest.raises(RatedElsewhere):
        second.rate("again")
    assert [each.rating for each in window.record.reviews()] == ["good"]
    assert second.next().id == "one-mail"


def test_a_class_is_told_who_has_the_answers(tmp_path: Path) -> None:
    session = Window(tmp_path, answers=False).session
    session.next()
    session.reveal()
    [section] = content.answer(session.question, "en")
    assert "from your instructor" in section.lines[0]
    assert session.goes_further
    session.further()
    assert not session.goes_further
    assert content.follow_ups(session.question, "en", 1, 0)[0].lines == ()
    session.rate("hard")
    assert [each.rating for each in session.record.reviews()] == ["hard"]


# The mock interview


def large_bank(window: Window) -> tuple[dict[str, Question], dict[str, str]]:
    """Six questions of every kind of the toy bank, and the parts of their notebooks."""
    bank = {
        f"{name}-{number}": question.model_copy(
            update={"asked": question.asked.model_copy(update={"id": f"{name}-{number}"})}
        )
        for name, question in window.session.bank.items()
        for number in range(6)
    }
    return bank, window.session.parts


def test_a_seed_picks_from_all_parts_and_difficulties(window: Window) -> None:
    bank, parts = large_bank(window)
    for seed in range(20):
        picked = mock.pick(bank, parts, seed)
        assert picked == mock.pick(dict(bank), parts, seed)
        assert len(set(picked)) == mock.QUESTIONS == 8
        levels = [bank[name].asked.difficulty for name in picked]
        assert levels == sorted(levels)
        for counts in (
            Counter(parts[bank[name].asked.notebook] for name in picked),
            Counter(levels),
        ):
            assert len(counts) == 3 and max(counts.values()) - min(counts.values()) <= 1
    assert len({tuple(mock.pick(bank, parts, seed)) for seed in range(20)}) > 10


def say_all(session: Session, ratings: dict[str, str]) -> None:
    while session.next():
        session.reveal()
        session.rate(ratings[session.question.id])


RATED = {
    "what-is-torn": "easy",
    "which-thread": "easy",
    "one-mail": "again",
    "who-may": "good",
    "pay-once": "hard",
}


def test_an_interview_ends_with_what_was_strong_and_weak(window: Window) -> None:
    session = window.session
    started = session.start_mock(seed=3)
    say_all(session, RATED)
    window.time.past += 5 * MINUTE
    page = session.end_mock()
    assert (page.asked, page.rated, session.mock) == (5, 5, None)
    assert [(each.name, each.average, each.count, each.strong) for each in page.parts] == [
        ("3_in_production", 2, 1, False),
        ("1_by_hand", 2.5, 2, False),
        ("2_langgraph", 3.5, 2, True),
    ]
    tags = {each.name: (each.average, each.count) for each in page.tags}
    assert tags["idempotency"] == (1.5, 2)
    assert list(tags)[-1] in ("langgraph", "state")
    assert {each.id for each in page.again} == {"one-mail", "pay-once"}
    [written] = window.record.mocks()
    assert (written.seed, written.ended_at) == (3, NOON + 5 * MINUTE)
    assert {each.mock for each in window.record.reviews()} == {started.id}
    assert session.unfinished_mock() is None
    assert session.next().id == "one-mail"  # due again, and the drill asks it


def test_an_interview_ends_when_its_time_is_over(window: Window) -> None:
    session = window.session
    session.start_mock(seed=3)
    session.next()
    window.time.past += 20 * MINUTE
    assert session.mock_seconds_left == 0
    session.reveal()
    session.rate("easy")  # what is on the table may be finished
    assert session.next() is None
    assert session.end_mock().rated == 1


def test_a_killed_interview_goes_on_with_the_time_that_is_left(window: Window) -> None:
    def interview(window: Window) -> None:
        session = window.another("zh")
        session.start_mock(seed=3)
        for _ in range(2):
            session.next()
            window.time.past += 3 * MINUTE
            session.reveal()
            session.rate("good")

    life = launch(interview, window, kill_before="session.rate", visit=2, echo=False)
    assert life.end == "killed"
    window.time.past = 7 * MINUTE
    session = window.another()
    found = session.unfinished_mock()
    assert (found.seed, found.language, found.started_at) == (3, "zh", NOON)
    assert session.left_of(found) == (4, 13 * 60)
    session.go_on(found)
    assert session.next().id == found.questions[1]
    window.time.past = -DAY  # a clock that was set back fills nothing up
    assert session.mock_seconds_left == 20 * 60


def test_an_interview_whose_time_ran_out_while_it_was_dead_still_has_its_page(
    window: Window,
) -> None:
    session = window.session
    session.start_mock(seed=1)
    session.next()
    session.reveal()
    session.rate("good")
    session.break_off()
    session.start_mock(seed=2)
    session.break_off()
    window.time.past = 21 * MINUTE
    found = session.unfinished_mock()
    assert found.seed == 1, "nothing was rated in the other"
    session.go_on(found)
    assert session.next() is None
    assert session.end_mock().rated == 1
    assert session.unfinished_mock() is None


def test_a_rating_of_the_drill_is_none_of_the_interview(window: Window) -> None:
    session = window.session
    started = session.start_mock(seed=1)
    session.break_off()
    session.next()
    session.reveal()
    session.rate("good")
    assert session.left_of(started)[0] == 5


def test_the_newest_that_was_broken_off_is_offered(window: Window) -> None:
    session = window.session
    session.start_mock(seed=1)
    second = session.start_mock(seed=2)
    session.break_off()
    assert session.unfinished_mock() == second
    session.go_on(second)
    session.end_mock()
    assert session.unfinished_mock().seed == 1


# The terminal


def run(folder: Path, keys: str, *arguments: object, answers: bool = True) -> tuple[int, str]:
    """Type into the drill of the toy course in a process of its own; what it printed."""
    root = toy_bank.course(folder / "course", answers)
    order = f"main(root=Path({str(root)!r}), folder=Path({str(folder / 'record')!r}), "
    order += ", ".join(map(str, arguments)) + ")"
    code = f"from pathlib import Path; from crashlab.drill.terminal import main; exit({order})"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=keys,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1", "COLUMNS": "100"},
        timeout=60,
    )
    assert "Traceback" not in ran.stderr
    return ran.returncode, ran.stdout + ran.stderr


def test_the_terminal_drills(tmp_path: Path) -> None:
    keys = "I say this\nand that\n\n" + "\n\n" + "3\n" + "\n\n4\n" + "q\n"
    status, said = run(tmp_path, keys)
    assert status == 0
    record = Record(tmp_path / "record")
    assert said.startswith(f"Record: {record.path}\n0 due · 3 new\n")
    told = ["Ask what-is-torn", " taken", "You typed\n  I say this\n  and that", "A strong answer"]
    told += ["Answer what-is-torn & why.", "Must what-is-torn b", "Mistake what-is-torn"]
    told += ["1 Again (in 1 min)", "4 Easy (in 8 days)", "They may ask next: Further what-is-torn"]
    told += ["Answer to what-is-torn 0.", "Ask one-mail", "Every rating is in the record."]
    places = [said.index(each) for each in told]
    assert places == sorted(places)
    rated = {(each.question, each.rating, each.language) for each in record.reviews()}
    assert rated == {("what-is-torn", "good", "en"), ("one-mail", "easy", "en")}
    assert b"I say this" not in record.path.read_bytes()


def test_the_terminal_says_when_a_rating_is_not_in_the_record(window: Window, monkeypatch) -> None:
    record, face = window.session.record, terminal._Terminal(window.session)
    keys = iter(["", "3", "q"])

    def typed(_: str) -> str:
        key = next(keys)
        if key == "3":
            record.path.unlink()
        return key

    said = []
    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr(face, "text", lambda text, indent="": said.append(text))
    face.run(mock=False)
    assert any(text.startswith("The record cannot be used now: drill.sqlite:") for text in said)
    assert said[-1] == "The last rating is not in the record."


def test_the_terminal_speaks_chinese_and_ends_when_nothing_is_due(tmp_path: Path) -> None:
    status, said = run(tmp_path, "\n4\n" * 5, "language='zh'")
    assert status == 0
    for told in (
        "记录：",
        "到期 0 · 新题 3",
        "Ask one-mail of `os.replace` <now>?（中文）",
        "必须说到",
    ):
        assert told in said
    assert said.endswith("现在没有到期的题。\n下一题 8 天后到期。\n所有评分都已记录。\n")
    assert "Must one-mail a\n" not in said


def test_the_terminal_holds_an_interview_and_offers_a_broken_one(tmp_path: Path) -> None:
    _, said = run(tmp_path, "\n4\n\n1\n", "mock=True")  # the input ends in the third question
    assert "8 questions from all parts" in said and said.endswith(
        "The clock of the interview runs on; crashlab drill --mock goes on with it.\n"
        "Every rating is in the record.\n"
    )
    _, said = run(tmp_path, "q\n")
    assert "crashlab drill --mock goes on with it." in said
    status, said = run(tmp_path, "\n" + "\n2\n" * 3, "mock=True")
    assert status == 0
    assert re.search(r"An interview was broken off\. Questions left: 3; time left: 1\d:\d\d", said)
    assert "Your interview: 5 of 5 questions" in said
    assert re.search(r"^  3_in_production +\d\.\d  \(1\)  (weak|strong)$", said, re.M)
    assert "reread 13_payments" in said


def test_the_terminal_starts_a_new_interview_if_told_to(window: Window, monkeypatch) -> None:
    window.record.start_mock(1, utc_now(), 20, "en", ["one-mail"])
    keys = iter(["n", "q"])
    monkeypatch.setattr("builtins.input", lambda _: next(keys))
    assert terminal.main(mock=True, folder=window.record.path.parent, root=window.root) == 0
    assert len(window.record.mocks()) == 2


def test_the_terminal_tells_of_another_window(window: Window, monkeypatch, capsys) -> None:
    keys = iter(["", "1", "q"])

    def type_(_: str) -> str:
        key = next(keys)
        if key == "1":
            window.record.rate(review("what-is-torn", 0, "easy", utc_now()))
        return key

    monkeypatch.setattr("builtins.input", type_)
    assert terminal.main(folder=window.record.path.parent, root=window.root) == 0
    said = capsys.readouterr().out
    assert said.index("was rated in another window") < said.index("Ask one-mail")


def test_the_terminal_of_a_class(tmp_path: Path) -> None:
    status, said = run(tmp_path, "\n\n3\nq\n", answers=False)
    assert status == 0
    assert "The answers come from your instructor." in said and "Further what-is-torn 0?" in said
    assert len(Record(tmp_path / "record").reviews()) == 1


@pytest.mark.skipif(os.name != "posix", reason="no Ctrl-C can be sent to a pipe on Windows")
def test_ctrl_c_leaves_politely(tmp_path: Path) -> None:
    root = toy_bank.course(tmp_path / "course")
    code = "from pathlib import Path; from crashlab.drill.terminal import main; "
    code += f"main(root=Path({str(root)!r}), folder=Path({str(tmp_path)!r}))"
    command = [sys.executable, "-u", "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, **pipes, encoding="utf-8") as process:
        while "q leaves" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert said.endswith("Every rating is in the record.\n") and "Traceback" not in said


def test_what_cannot_be_done_is_said_in_a_sentence(tmp_path: Path, capsys) -> None:
    assert terminal.main(root=tmp_path) == 2
    assert capsys.readouterr().err.startswith("There are no questions in ")
    root = toy_bank.course(tmp_path / "course")
    (tmp_path / "record").touch()
    assert terminal.main(root=root, folder=tmp_path / "record") == 2
    assert "cannot be opened" in capsys.readouterr().err


def test_the_terminal_writes_for_anki(tmp_path: Path, capsys) -> None:
    root = toy_bank.course(tmp_path)
    assert terminal.main("zh", anki=tmp_path / "mine.apkg", root=root) == 0
    assert capsys.readouterr().out == f"5 道题已写入 {tmp_path / 'mine.apkg'}\n"
    assert (tmp_path / "mine.apkg").stat().st_size > 1000


@pytest.mark.parametrize(
    "typed, called",
    [
        ("", (("en", False, None), {})),
        ("--lang zh --mock --record here", (("zh", True, Path("here")), {})),
        ("--export anki", (("en",), {"anki": Path("crashlab.apkg")})),
        ("--export anki my.apkg --lang zh", (("zh",), {"anki": Path("my.apkg")})),
    ],
)
def test_the_command(monkeypatch, typed: str, called: tuple) -> None:
    calls = []
    monkeypatch.setattr(terminal, "main", lambda *args, **named: calls.append((args, named)) or 0)
    assert cli.main(["drill", *typed.split()]) == 0
    assert calls == [called]


def test_the_command_knows_one_export(capsys) -> None:
    assert cli.main(["drill", "--export", "csv"]) == 2
    assert cli.main(["drill", "--export", "anki", "a", "b"]) == 2
    assert "takes the word anki" in capsys.readouterr().err


# The panel, without a browser


def shown(panel: Panel) -> str:
    """All text that is on the panel now."""
    texts, widgets = [], [panel]
    while widgets:
        widget = widgets.pop(0)
        widgets = [*getattr(widget, "children", ()), *widgets]
        texts.append(getattr(widget, "description", "") or getattr(widget, "value", ""))
    return "\n".join(map(str, texts))


def test_the_panel_drills(window: Window) -> None:
    panel = Panel(window.session)
    assert "Ask what-is-torn of <code>os.replace</code> &lt;now&gt;?" in shown(panel)
    assert "Answer what-is-torn" not in shown(panel) and "Again" not in shown(panel)
    panel.card.typed.value = "<b>first</b>\nsecond"
    panel.card.reveal.click()
    told = shown(panel)
    assert "&lt;b&gt;first" in told and "Answer what-is-torn &amp; why." in told
    assert "Good · in 10 min" in told and "Further" not in told
    panel.card.ask.click()
    assert "Further what-is-torn 0?" in shown(panel) and "Answer to what" not in shown(panel)
    panel.card.ask.click()
    assert "Answer to what-is-torn 0." in shown(panel)
    panel.translate.click()
    assert "Answer what-is-torn &amp; why.（中文）" in shown(panel) and "良好 · 10 分钟后" in shown(
        panel
    )
    panel.card.ratings["good"].click()
    assert "Ask one-mail" in shown(panel) and panel.card.typed.value == ""
    panel.card.typed.value = "an answer"
    panel.card.ratings["good"].click()  # the second press of a slow double click
    assert [each.language for each in window.record.reviews()] == ["zh"]
    assert panel.card.typed.value == "an answer"
    assert f"记录：{window.record.path}" in shown(panel)


def test_the_panel_tells_of_another_window(window: Window) -> None:
    panel, other = Panel(window.session), Panel(window.another())
    for each in (panel, other):
        each.card.reveal.click()
    other.card.ratings["easy"].click()
    panel.card.ratings["again"].click()
    assert "rated in another window" in shown(panel) and "Ask one-mail" in shown(panel)
    panel.card.reveal.click()
    assert "another window" not in shown(panel)


def test_the_panel_says_when_the_record_cannot_be_used(window: Window) -> None:
    panel = Panel(window.session)
    panel.card.reveal.click()
    kept = window.record.path.rename(window.record.path.with_suffix(".away"))
    panel.card.ratings["good"].click()
    assert "The record cannot be used now" in shown(panel)
    kept.rename(window.record.path)
    panel.card.ratings["good"].click()
    assert len(window.record.reviews()) == 1


def test_the_panel_says_when_nothing_is_due(window: Window) -> None:
    panel = Panel(window.session)
    while window.session.question:
        panel.card.reveal.click()
        panel.card.ratings["easy"].click()
    assert "Nothing is due now." in shown(panel) and "in 8 days" in shown(panel)
    window.time.past += 9 * DAY
    panel.look.click()
    assert "5 due · 0 new" in shown(panel)


def test_the_panel_holds_an_interview(window: Window) -> None:
    panel = Panel(window.session)
    panel.switch.click()
    assert "8 questions from all parts" in shown(panel) and "broken off" not in shown(panel)
    panel.start.click()
    assert "Question 1 of 5" in shown(panel) and "20:00 left" in shown(panel)
    panel.card.reveal.click()
    panel.card.ratings["again"].click()
    panel.switch.click()
    assert "Question" not in shown(panel)
    window.time.past += 5 * MINUTE
    panel.switch.click()
    assert "broken off. Questions left: 4; time left: 15:00" in shown(panel)
    reopened = Panel(window.another())  # as after a kill: it is offered at once
    assert "broken off. Questions left: 4" in shown(reopened) and "Ask" not in shown(reopened)
    panel.go_on.click()
    assert "Question 2 of 5" in shown(panel)
    window.time.past += 15 * MINUTE
    panel.card.reveal.click()
    assert "Time is over" in shown(panel)
    panel.card.ratings["easy"].click()
    assert "Your interview: 2 of 5 questions" in shown(panel)
    panel.start.click()
    panel.end.click()
    assert "Your interview: 0 of 5 questions" in shown(panel)


def test_open_drill_finds_the_course_and_names_what_is_kept(tmp_path: Path) -> None:
    root = toy_bank.course(tmp_path)
    (tmp_path / "drill.sqlite").write_text("a letter")
    panel = open_drill("zh", tmp_path, root)
    assert "drill.sqlite 不是本练习的记录" in shown(panel)
    assert panel.session.parts["04_email"] == "1_by_hand"
    panel.close()
    with pytest.raises(BankError):
        open_drill(folder=tmp_path, root=tmp_path / "nowhere")


# The words


def test_all_words_are_there_in_both_languages() -> None:
    for key, (english, chinese) in WORDS.items():
        fields = [sorted(set(re.findall(r"{(\w+)", text))) for text in (english, chinese)]
        assert fields[0] == fields[1], key
        assert not re.search("[\u4e00-\u9fff]", english), key
        letters = set(chinese) & set(string.ascii_letters)
        assert re.search("[\u4e00-\u9fff]", chinese) or not letters, key


@pytest.mark.parametrize(
    "time, english, chinese",
    [
        (timedelta(seconds=3), "in 1 min", "1 分钟后"),
        (timedelta(minutes=59), "in 59 min", "59 分钟后"),
        (timedelta(hours=1), "in 1 hour", "1 小时后"),
        (timedelta(hours=30), "in 1 day", "1 天后"),
        (timedelta(days=8), "in 8 days", "8 天后"),
        (timedelta(days=70), "in 2 months", "2 个月后"),
        (timedelta(days=800), "in 2 years", "2 年后"),
    ],
)
def test_a_time_is_said_in_whole_units(time: timedelta, english: str, chinese: str) -> None:
    assert (soon(time, "en"), soon(time, "zh")) == (english, chinese)


def test_seconds_are_said_as_a_clock_does() -> None:
    assert [minutes(seconds) for seconds in (0, 5.9, 65, 1200)] == ["0:00", "0:05", "1:05", "20:00"]
