"""A question in JupyterLab: asked, then turned over, then rated."""

from collections.abc import Callable

from ipywidgets import HTML, Box, Button, Textarea, VBox, Widget

from crashlab.drill import content
from crashlab.drill.clock import Clock
from crashlab.drill.markup import columns_html, html, sections_html
from crashlab.drill.record import RATINGS, Rating
from crashlab.drill.session import Session
from crashlab.drill.words import minutes, soon, word

LONGEST = 600  # seconds of one answer that the clock counts

Press = Callable[[Callable[[], object]], Button]


def row(*widgets: Widget, justify: str = "flex-start") -> Box:
    """Widgets in a row, which breaks where it is wider than the page."""
    flow = {"flex_flow": "row wrap", "justify_content": justify, "align_items": "center"}
    return Box(widgets, layout={"display": "flex", "grid_gap": "4px 12px", **flow})


class Card(VBox):
    """The question that a session shows.

    `button` makes a button that does something to the session and has everything drawn anew;
    `rate` writes a rating and goes on to the next question.
    """

    def __init__(
        self, session: Session, button: Press, rate: Callable[[Rating], None], end: Button
    ) -> None:
        self.session = session
        self.about, self.question, self.answer, self.further, self.prompt = (
            HTML() for _ in range(5)
        )
        self.clock = Clock(self._time)
        self.typed = Textarea(rows=5, layout={"width": "auto"})
        self.reveal, self.ask, self.end = button(session.reveal), button(session.further), end
        self.ratings = {each: button(lambda each=each: rate(each)) for each in RATINGS}
        self.head, self.actions = row(self.about, self.clock, justify="space-between"), row()
        super().__init__(layout={"overflow": "visible"})

    def draw(self) -> None:
        """Show the question as far as it has come."""
        session, language = self.session, self.session.language
        about = content.about(session.question, language)
        self.about.value = html("quiet", self._place(), about)
        self.question.value = html("question", session.question.asked.ask.in_(language))
        self.reveal.description = word("reveal", language)
        self.clock.start()
        end = [self.end] if session.mock else []
        if session.revealed:
            self.actions.children = [*self.ratings.values(), *end]
            self.children = [self.head, self.question, *self._turned(), self.actions]
        else:
            self.typed.placeholder = word("say it", language)
            self.actions.children = [self.reveal, *end]
            self.children = [self.head, self.question, self.typed, self.actions]

    def clear(self) -> None:
        """Forget what was typed."""
        self.typed.value = ""

    def _turned(self) -> list[Widget]:
        session, language = self.session, self.session.language
        answer, *rest = content.answer(session.question, language)
        typed = content.Section(word("yours", language), (self.typed.value.strip(),))
        beside = [typed, answer] if typed.lines[0] else [answer]
        rubric, pair = rest[:3], rest[3:]
        self.answer.value = "".join(columns_html(each) for each in (beside, rubric, pair))
        further = content.follow_ups(session.question, language, session.asked, session.answered)
        self.further.value = sections_html(further)
        self.ask.description = word("answer that" if session.owes_answer else "ask", language)
        self.prompt.value = html("prompt", word("rate", language))
        for rating, time in session.intervals().items():
            label = f"{word(rating, language)} · {soon(time, language)}"
            self.ratings[rating].description = label
        further = [self.further, self.ask] if session.goes_further else [self.further]
        return [self.answer, *further, self.prompt]

    def _place(self) -> str:
        """Where in the drill or in the interview this question stands."""
        session = self.session
        if not session.mock:
            return word("state", session.language, **session.counts())
        count, (left, _) = len(session.mock.questions), session.left_of(session.mock)
        return word("number", session.language, number=count - left + 1, count=count)

    def _time(self) -> tuple[str, bool]:
        """What the clock shows, and whether it moves."""
        session = self.session
        if not session.question:
            return "", False
        lines, moves = [], False
        if session.mock:
            left = session.mock_seconds_left
            lines.append(self._word("left over" if left else "time over", time=minutes(left)))
            moves = left > 0
        if session.revealed:
            lines.append(self._word("took", time=minutes(session.seconds)))
        elif session.seconds > LONGEST:
            lines.append(f"> {minutes(LONGEST)}")
        else:
            lines.append(minutes(session.seconds))
            moves = True
        return html("clock", *lines), moves

    def _word(self, key: str, **values: object) -> str:
        return word(key, self.session.language, **values)
