"""What is shown of a question besides itself, in one of the two languages."""

from dataclasses import dataclass

from crashlab.bank import Language, Question, Text
from crashlab.drill.files import VERSION
from crashlab.drill.record import Record
from crashlab.drill.words import word


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; several lines are a list."""

    heading: str
    lines: tuple[str, ...]


def record_lines(record: Record, language: Language) -> list[str]:
    """Where the record is, and a sentence for each file that is kept aside."""
    return [
        word("record", language, path=record.path),
        *(
            word(each.flaw, language, name=each.name, version=each.version, ours=VERSION)
            for each in record.kept_aside
        ),
    ]


def about(question: Question, language: Language) -> str:
    """What it is about, which notebook treats it, and how difficult it is."""
    asked = question.asked
    return word(
        "about",
        language,
        tags=", ".join(asked.tags),
        notebook=asked.notebook,
        level=asked.difficulty,
    )


def answer(question: Question, language: Language) -> list[Section]:
    """The answer, its rubric, the pair of terms, and a report; or who has the answers."""
    answered = question.answered
    if not answered:
        return [Section(word("answer", language), (word("no answer", language),))]
    terms = answered.confusable.terms.in_(language)
    return [
        Section(word("answer", language), (answered.answer.in_(language),)),
        *(
            Section(word(name, language), _in(getattr(answered.rubric, name), language))
            for name in ("must", "depth", "mistakes")
        ),
        Section(
            word("confusable", language, terms=terms),
            (answered.confusable.difference.in_(language),),
        ),
        *([Section(word("source", language), (answered.source,))] if answered.source else []),
    ]


def follow_ups(question: Question, language: Language, asked: int, answered: int) -> list[Section]:
    """The first follow-up questions, each with its answer if that may be seen too."""
    questions = _in(question.asked.follow_ups, language)
    answers = _in(question.answered.follow_ups, language) if question.answered else ()
    return [
        Section(word("follow-up", language, question=text), answers[:answered][number : number + 1])
        for number, text in enumerate(questions[:asked])
    ]


def _in(texts: tuple[Text, ...], language: Language) -> tuple[str, ...]:
    return tuple(text.in_(language) for text in texts)
