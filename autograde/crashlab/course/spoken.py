"""Questions of the bank as cells of a notebook, and what the bank may refer to."""

import ast
from functools import cache

from crashlab.bank import BankError, Known, Question, read_bank
from crashlab.course.paths import CourseError, Rooms

ANSWER_HERE = "*Double-click here, and write what you would say in 60 seconds.*"


@cache
def bank(rooms: Rooms) -> dict[str, Question]:
    """Both halves of the course's bank, checked; CourseError says what is wrong in it."""
    try:
        return read_bank(
            rooms.root / "data" / "questions", rooms.solutions / "questions", known(rooms)
        )
    except BankError as error:
        raise CourseError(str(error)) from error


def known(rooms: Rooms) -> Known:
    """The course's notebooks, by their author files, and the claims that its tests prove."""
    notebooks = {path.stem for path in rooms.solutions.rglob("[0-9]*.py")}
    claims = {
        decorator.args[0].value
        for path in sorted((rooms.root / "autograde" / "tests").glob("test_claims_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "claim"
    }
    return Known(frozenset(notebooks), frozenset(claims))


def question_text(question: Question) -> str:
    """The question in both languages, as a notebook shows it."""
    return f"> **{question.asked.ask.en}**\n>\n> {question.asked.ask.zh}"


def spoken_text(question: Question, points: float) -> str:
    """A cell for the spoken answer: what is asked, and a rubric that students do not get."""
    rubric = question.answered.rubric
    parts = [
        ("It must say", rubric.must),
        ("It shows depth", rubric.depth),
        ("It is a mistake", rubric.mistakes),
    ]
    lists = "\n\n".join(
        f"**{head}**\n\n" + "\n".join(f"* {text.en}" for text in texts) for head, texts in parts
    )
    return (
        f"**Say it** ({points:g} points, given by a person). {question.asked.ask.en}\n\n"
        "<!-- BEGIN SOLUTION -->\n"
        f"{question.answered.answer.en}\n\n{lists}\n\n{_marking(points)}\n"
        "<!-- END SOLUTION -->"
    )


def _marking(points: float) -> str:
    """How a person turns an answer into points."""
    depth = "" if points < 3 else f", and the other {points - 2:g} for depth"
    return (
        f"**Points:** 2 if it says all that it must, 1 if it says half of it{depth}. "
        "A mistake that is not taken back costs 1."
    )
