"""The drill in a terminal: Enter turns the card over, 1 to 4 rate it, q leaves."""

import shutil
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

from crashlab import DATA
from crashlab.bank import BankError, Language
from crashlab.drill import content, read_course
from crashlab.drill.mock import MINUTES, QUESTIONS, Page
from crashlab.drill.record import RATINGS, Mock, RatedElsewhere, Record, RecordError
from crashlab.drill.session import Session
from crashlab.drill.words import minutes, soon, word


class _Left(Exception):
    """The learner has typed q."""


def main(
    language: Language = "en",
    mock: bool = False,
    folder: Path | None = None,
    anki: Path | None = None,
    root: Path = DATA.parent,
) -> int:
    """Drill what is due, or hold a mock interview, or write the questions to a file for Anki.

    `folder` is where the record is, `root` is the course. Returns 0, or 2 if it could not be done.
    """
    with suppress(AttributeError):  # a pipe on Windows may not know Chinese
        sys.stdout.reconfigure(errors="replace")
    try:
        bank, parts = read_course(root)
        if anki:
            from crashlab.drill.anki import export

            export(bank, anki)
            print(word("written", language, count=len(bank), path=anki))
            return 0
        session = Session(bank, parts, Record(folder), language)
        _Terminal(session).run(mock)
    except (BankError, RecordError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


class _Terminal:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.unsaved = False  # whether a rating was given and could not be written

    def run(self, mock: bool) -> None:
        """Until nothing is due, the interview is over, or the learner leaves."""
        for line in content.record_lines(self.session.record, self.session.language):
            print(line)
        try:
            self.interview() if mock else self.drill()
        except (_Left, EOFError, KeyboardInterrupt):
            print()
            if self.session.mock:
                self.say("clock runs on")
        self.say("unsaved" if self.unsaved else "goodbye")

    def drill(self) -> None:
        if broken_off := self.session.unfinished_mock():
            self.broken_off(broken_off)
            self.say("go on with")
        while self.session.next():
            self.say("state", **self.session.counts())
            self.question()
        self.say("nothing due")
        if time := self.session.back_in():
            self.say("back", time=soon(time, self.session.language))

    def interview(self) -> None:
        session = self.session
        broken_off = session.unfinished_mock()
        if broken_off:
            self.broken_off(broken_off)
        if broken_off and self.ask("which") != "n":
            session.go_on(broken_off)
        else:
            self.say("offer", questions=QUESTIONS, minutes=MINUTES)
            session.start_mock()
        while session.next():
            self.say("left over", time=minutes(session.mock_seconds_left))
            self.question()
        if not session.mock_seconds_left:
            self.say("over")
        self.page(session.end_mock())

    def broken_off(self, mock: Mock) -> None:
        questions, seconds = self.session.left_of(mock)
        self.say("broken off", questions=questions, time=minutes(seconds))

    def question(self) -> None:
        """One question, until it has its rating."""
        session, language = self.session, self.session.language
        print(f"\n[{content.about(session.question, language)}]")
        self.text(session.question.asked.ask.in_(language))
        self.say("typing")
        typed = self.typed()
        session.reveal()
        self.say("took", time=minutes(session.seconds))
        if session.mock and not session.mock_seconds_left:
            self.say("time over")
        if typed:
            self.section(content.Section(word("yours", language), tuple(typed)))
        for section in content.answer(session.question, language):
            self.section(section)
        while session.question:
            self.turn()

    def turn(self) -> None:
        """One step after the answer: a follow-up, its answer, or the rating."""
        session, language = self.session, self.session.language
        choices = (
            f"{number} {word(rating, language)} ({soon(time, language)})"
            for number, (rating, time) in enumerate(session.intervals().items(), 1)
        )
        print("\n" + " · ".join(choices))
        prompt = (
            ("more answer" if session.owes_answer else "more")
            if session.goes_further
            else "rate now"
        )
        reply = self.ask(prompt)
        if reply in ("1", "2", "3", "4"):
            self.rate(int(reply))
        elif not reply and session.goes_further:
            session.further()
            asked = content.follow_ups(session.question, language, session.asked, session.answered)
            self.section(asked[-1])

    def rate(self, number: int) -> None:
        self.unsaved = False
        try:
            self.session.rate(RATINGS[number - 1])
        except RatedElsewhere:
            self.say("rated elsewhere")
        except RecordError as why:
            self.unsaved = True
            self.say("trouble", why=why)

    def page(self, page: Page) -> None:
        """What came of the interview."""
        language = self.session.language
        print()
        self.say("result", rated=page.rated, asked=page.asked)
        if page.rated < page.asked:
            self.say("not reached", count=page.asked - page.rated, asked=page.asked)
        if not page.rated:
            return
        self.say("scale")
        for name in ("parts", "tags"):
            print(f"\n{word(name, language)}")
            for score in getattr(page, name):
                label = score.name or word("elsewhere", language)
                verdict = word("strong" if score.strong else "weak", language)
                print(f"  {label:<20} {score.average:.1f}  ({score.count})  {verdict}")
        print(f"\n{word('say again' if page.again else 'none again', language)}")
        for each in page.again:
            question, notebook = each.asked.ask.in_(language), each.asked.notebook
            self.text(f"- {word('reread', language, question=question, notebook=notebook)}")

    def typed(self) -> list[str]:
        lines = []
        while line := self.ask():
            lines.append(line)
        return lines

    def ask(self, key: str = "") -> str:
        line = input(f"{word(key, self.session.language) if key else ''}> ").strip()
        if line.lower() == "q":
            raise _Left
        return line

    def say(self, key: str, **values: object) -> None:
        self.text(word(key, self.session.language, **values))

    def section(self, section: content.Section) -> None:
        print()
        self.text(section.heading)
        for line in section.lines:
            self.text(line, "  ")

    def text(self, text: str, indent: str = "") -> None:
        if self.session.language == "zh":  # textwrap breaks lines at spaces only
            print(indent + text)
            return
        width = min(shutil.get_terminal_size().columns, 100)
        print(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent))
