"""The drill in JupyterLab: one question after the other, or a mock interview."""

from collections.abc import Callable

from ipywidgets import HTML, Button, VBox, Widget

from crashlab.drill import content
from crashlab.drill.card import Card, row
from crashlab.drill.markup import html, page_html
from crashlab.drill.mock import MINUTES, QUESTIONS, Page
from crashlab.drill.record import RatedElsewhere, Rating, RecordError
from crashlab.drill.session import Session
from crashlab.drill.words import minutes, soon, word

# Only JupyterLab's own colours, so that it can be read in every theme.
STYLE = """<style>
.crashlab-drill { max-width: 62em; padding: 4px; color: var(--jp-content-font-color1) }
.crashlab-drill .widget-html, .crashlab-drill .widget-html-content {
    height: auto; line-height: 1.5; overflow-wrap: anywhere; white-space: normal }
.crashlab-drill h4 { margin: 10px 0 2px; font-size: 1em }
.crashlab-drill p, .crashlab-drill ul { margin: 2px 0; white-space: pre-line }
.crashlab-drill td, .crashlab-drill th { padding: 2px 16px 2px 0; text-align: left;
    overflow-wrap: normal }
.crashlab-drill .quiet, .crashlab-drill .record { color: var(--jp-content-font-color2) }
.crashlab-drill .record { margin-top: 12px; padding-top: 4px;
    border-top: 1px solid var(--jp-border-color2) }
.crashlab-drill .prompt { margin-top: 10px }
.crashlab-drill .title, .crashlab-drill .prompt, .crashlab-drill .message { font-weight: 600 }
.crashlab-drill .question { font-size: 1.25em; font-weight: 600 }
.crashlab-drill .clock { font-variant-numeric: tabular-nums; text-align: right }
.crashlab-drill .columns { display: flex; flex-wrap: wrap; gap: 0 24px }
.crashlab-drill .columns > div { flex: 1 1 17em }
</style>"""


class Panel(VBox):
    """A session as a learner sees it, in one of two languages."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.interviewing = session.unfinished_mock() is not None  # offer it, or its page
        self.page: Page | None = None
        self.style_sheet, self.title = HTML(STYLE), HTML()
        self.message, self.text, self.record = HTML(), HTML(), HTML()
        self.switch, self.translate = self._button(self._switch), self._button(self._translate)
        self.look, self.start = self._button(session.next), self._button(self._start)
        self.go_on, self.end = self._button(self._go_on), self._button(self._end)
        self.card = Card(session, self._button, self._rate, self.end)
        self.head = row(self.title, row(self.switch, self.translate), justify="space-between")
        self.offers = row()
        super().__init__()
        self.add_class("crashlab-drill")
        if not self.interviewing:
            session.next()
        self._draw()

    def close(self) -> None:
        """Take the panel away, and stop its clock."""
        self.card.clock.close()
        super().close()

    def _button(self, action: Callable[[], object]) -> Button:
        def press(_: Button) -> None:
            self.message.value = ""
            try:
                try:
                    action()
                except RatedElsewhere:
                    self._tell("rated elsewhere")
                    self._next()
                self._draw()
            except RecordError as why:
                self._tell("trouble", why=why)

        button = Button(layout={"width": "auto", "align_self": "flex-start"})
        button.on_click(press)
        return button

    # What the buttons do

    def _next(self) -> None:
        self.card.clear()
        if not self.session.next() and self.session.mock:
            self._end()

    def _rate(self, rating: Rating) -> None:
        if self.session.revealed:  # not so for the second press of a double click
            self.session.rate(rating)
            self._next()

    def _start(self) -> None:
        self.session.start_mock()
        self._next()

    def _go_on(self) -> None:
        if mock := self.session.unfinished_mock():
            self.session.go_on(mock)
            self._next()

    def _end(self) -> None:
        if self.session.mock:
            self.page = self.session.end_mock()

    def _switch(self) -> None:
        self.interviewing, self.page = not self.interviewing, None
        self.session.break_off()
        if not self.interviewing:
            self._next()

    def _translate(self) -> None:
        self.session.language = "zh" if self.session.language == "en" else "en"

    # What is shown

    def _word(self, key: str, **values: object) -> str:
        return word(key, self.session.language, **values)

    def _tell(self, key: str, **values: object) -> None:
        self.message.value = html("message", self._word(key, **values))

    def _draw(self) -> None:
        session = self.session
        names = ("mock", "drill") if self.interviewing else ("drill", "mock")
        self.title.value = html("title", self._word(names[0]))
        self.switch.description = self._word(names[1])
        self.translate.description = "中文" if session.language == "en" else "English"
        for key in ("look", "start", "go on", "end"):
            getattr(self, key.replace(" ", "_")).description = self._word(key)
        record = content.record_lines(session.record, session.language)
        self.record.value = html("record", *record)
        self.children = [self.style_sheet, self.head, self.message, *self._body(), self.record]

    def _body(self) -> list[Widget]:
        session = self.session
        if session.question:
            self.card.draw()
            return [self.card]
        self.card.clock.stop()
        if not self.interviewing:
            return self._nothing_due()
        if self.page:
            self.text.value = page_html(self.page, session.language)
            return [self.text, self.start]
        return self._offer()

    def _nothing_due(self) -> list[Widget]:
        lines = [self._word("nothing due")]
        if time := self.session.back_in():
            lines.append(self._word("back", time=soon(time, self.session.language)))
        self.text.value = html("quiet", *lines)
        return [self.text, self.look]

    def _offer(self) -> list[Widget]:
        lines = [self._word("offer", questions=QUESTIONS, minutes=MINUTES)]
        self.offers.children = [self.start]
        if mock := self.session.unfinished_mock():
            questions, seconds = self.session.left_of(mock)
            lines = [self._word("broken off", questions=questions, time=minutes(seconds)), *lines]
            self.offers.children = [self.go_on, self.start]
        self.text.value = html("text", *lines)
        return [self.text, self.offers]
