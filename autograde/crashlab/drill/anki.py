"""The bank as a package for Anki: both languages on each card, whose id stays the same for ever."""

import os
from pathlib import Path

from genanki import Deck, Model, Note, Package, guid_for

from crashlab.bank import Language, Question
from crashlab.drill import content
from crashlab.drill.markup import sections_html, text_html

# Anki knows deck, card type and notes again by these, so that importing twice doubles nothing.
DECK_ID, MODEL_ID = 1_948_205_617, 1_307_664_925
MODEL = Model(
    MODEL_ID,
    "crashlab question",
    fields=[{"name": "id"}, {"name": "question"}, {"name": "answer"}],
    templates=[
        {
            "name": "spoken",
            "qfmt": "{{question}}",
            "afmt": "{{FrontSide}}<hr id=answer>{{answer}}",
        }
    ],
    css=".card { font-family: sans-serif; text-align: left; line-height: 1.5 }",
)
LANGUAGES: tuple[Language, ...] = ("en", "zh")


def export(bank: dict[str, Question], path: Path) -> None:
    """Write the questions of a bank as an .apkg file, in the order of the notebooks.

    A file that is there is replaced when the new one is whole. OSError if that cannot be done.
    """
    path = path.resolve()  # a link stays one
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is there, and is no file.")
    if not path.parent.is_dir():
        raise OSError(f"There is no folder {path.parent}.")
    deck = Deck(DECK_ID, "Durable Agents")
    in_order = sorted(bank.values(), key=lambda question: question.asked.notebook)
    for number, question in enumerate(in_order):
        deck.add_note(_note(question, number))
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        Package(deck).write_to_file(unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _note(question: Question, number: int) -> Note:
    asked = question.asked
    front = "".join(f"<p>{text_html(asked.ask.in_(language))}</p>" for language in LANGUAGES)
    back = "<hr>".join(_back(question, language) for language in LANGUAGES)
    return Note(
        MODEL,
        [asked.id, front, back],
        tags=[*asked.tags, asked.notebook],
        guid=guid_for("crashlab", asked.id),
        due=number,
    )


def _back(question: Question, language: Language) -> str:
    number = len(question.asked.follow_ups)
    return sections_html(
        [
            *content.answer(question, language),
            *content.follow_ups(question, language, number, number),
        ]
    )
