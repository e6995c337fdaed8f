"""The question bank: what learners are asked, and, for those who have it, what a good answer says.

The public half is in data/questions/, the private one in solutions/questions/: YAML files, a topic
each. A question is in both, under the same id and in files of the same name:

    data/questions/mail.yaml                  solutions/questions/mail.yaml
    - id: uuid-as-key                         uuid-as-key:
      ask: {en: …, zh: …}                       answer: {en: …, zh: …}
      tags: [mail, idempotency]                 rubric:
      notebook: 04_email                          must: [{en: …, zh: …}]
      needs: [four-moments]                       depth: [{en: …, zh: …}]
      difficulty: 2                               mistakes: [{en: …, zh: …}]
      follow_ups:                               follow_ups:
        - {en: …, zh: …}                          - {en: …, zh: …}
                                                confusable:
                                                  terms: {en: …, zh: …}
                                                  difference: {en: …, zh: …}
                                                claims: [random-key-sends-twice]
                                                source: pretix/pretix issue 2058
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)

Language = Literal["en", "zh"]
Tag = Literal[
    "state",
    "checkpoint",
    "crash-window",
    "idempotency",
    "mail",
    "recovery",
    "langgraph",
    "durability",
    "interrupt",
    "approval",
    "time-travel",
    "storage",
    "session-log",
    "tools",
    "payment",
    "workers",
    "design",
]
_CHINESE = re.compile("[\u4e00-\u9fff]")


class BankError(Exception):
    """The bank breaks a rule; the message names file, question and rule."""


@dataclass(frozen=True)
class Known:
    """What an author's questions may refer to: the notebooks there are, the claims tests prove."""

    notebooks: frozenset[str]
    claims: frozenset[str]


def _english(text: str) -> str:
    if _CHINESE.search(text):
        raise ValueError("the English half holds Chinese characters")
    return text


def _chinese(text: str) -> str:
    if not _CHINESE.search(text):
        raise ValueError("the Chinese half holds no Chinese character")
    return text


def _notebook(name: str, info: ValidationInfo) -> str:
    if info.context and name not in info.context.notebooks:
        raise ValueError(f"there is no notebook {name!r}")
    return name


def _claim(name: str, info: ValidationInfo) -> str:
    if info.context and name not in info.context.claims:
        raise ValueError(f"no test of the course proves a claim {name!r}")
    return name


Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Text(_Strict):
    """The same in English and in Chinese; both are there."""

    en: Annotated[Line, AfterValidator(_english)]
    zh: Annotated[Line, AfterValidator(_chinese)]

    def in_(self, language: Language) -> str:
        """The text in one of the two languages."""
        return self.en if language == "en" else self.zh


class Asked(_Strict):
    """The public half of a question.

    `needs` are ids of questions to know first; `difficulty` is 1 (recall), 2 (explain) or 3 (judge
    a case that is new).
    """

    id: Id
    ask: Text
    tags: Annotated[tuple[Tag, ...], Field(min_length=1)]
    notebook: Annotated[str, AfterValidator(_notebook)]
    needs: tuple[Id, ...] = ()
    difficulty: Literal[1, 2, 3]
    follow_ups: Annotated[tuple[Text, ...], Field(min_length=1)]


class Rubric(_Strict):
    """What an answer must say, what shows depth, what is a mistake."""

    must: Annotated[tuple[Text, ...], Field(min_length=1)]
    depth: Annotated[tuple[Text, ...], Field(min_length=1)]
    mistakes: Annotated[tuple[Text, ...], Field(min_length=1)]


class Confusable(_Strict):
    """Two terms that people take for each other, and what tells them apart."""

    terms: Text
    difference: Text


class Answered(_Strict):
    """The private half: `answer` takes a minute to say, `follow_ups` answer those of the public
    half in its order, `claims` are the proofs of what is said about behaviour, `source` is the
    public report that the case was told in, if there is one."""

    answer: Text
    rubric: Rubric
    follow_ups: tuple[Text, ...]
    confusable: Confusable
    claims: Annotated[tuple[Annotated[str, AfterValidator(_claim)], ...], Field(min_length=1)]
    source: Line | None = None


class Question(_Strict):
    """A question with its answer, which is None where the private half is not handed out."""

    topic: str
    asked: Asked
    answered: Answered | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.answered and len(self.answered.follow_ups) != len(self.asked.follow_ups):
            raise ValueError(
                f"{len(self.asked.follow_ups)} follow-ups are asked "
                f"and {len(self.answered.follow_ups)} are answered"
            )
        return self

    @property
    def id(self) -> str:
        """The name that the learner's record and the notebooks know it by."""
        return self.asked.id


def read_bank(
    public: Path, private: Path | None = None, known: Known | None = None
) -> dict[str, Question]:
    """Read and check the bank: questions by id, in the order of the files.

    `private` is the folder of the other half, or None in a class; `known`, which authors give,
    lets the schema refuse unknown notebooks and claims without a test. BankError if anything is
    missing, doubled or broken.
    """
    asked = dict(_halves(public, _asked))
    answers = dict(_halves(private, _answered)) if private else {}
    bank: dict[str, Question] = {}
    for topic in sorted({*asked, *answers}):
        questions, theirs = asked.get(topic, []), answers.get(topic, {})
        ids = [str(each.get("id")) for each in questions]
        if private and (lonely := set(ids) ^ set(theirs)):
            here = private if min(lonely) in ids else public
            room = f"{here.parent.name}/{here.name}"
            raise BankError(f"{topic}.yaml, {min(lonely)}: its half in {room} is missing.")
        for name, half in zip(ids, questions, strict=True):
            if name in bank:
                raise BankError(f"{topic}.yaml, {name}: {bank[name].topic}.yaml has this id too.")
            whole = {"topic": topic, "asked": half, "answered": theirs.get(name)}
            bank[name] = _validated(whole, f"{topic}.yaml, {name}", known)
    if not bank:
        raise BankError(f"There are no questions in {public}.")
    _check_needs(bank)
    return bank


def _halves(folder: Path, check) -> Iterator[tuple[str, list | dict]]:
    for path in sorted(folder.glob("*.yaml")):
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise BankError(f"{path.name} is no YAML: {' '.join(str(error).split())}") from error
        yield path.stem, check(content, path.name)


def _asked(content: object, name: str) -> list:
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise BankError(f"{name} must be a list of questions.")
    ids = Counter(str(each.get("id")) for each in content)
    if twice := [each for each, count in ids.items() if count > 1]:
        raise BankError(f"{name}, {twice[0]}: this id is used twice.")
    return content


def _answered(content: object, name: str) -> dict:
    if not isinstance(content, dict):
        raise BankError(f"{name} must map the ids of questions to their answers.")
    return content


def _validated(whole: dict, place: str, known: Known | None) -> Question:
    try:
        return Question.model_validate(whole, context=known)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the question"
        raise BankError(
            f"{place}: {where}: {first['msg'].removeprefix('Value error, ')}."
        ) from error


def _check_needs(bank: dict[str, Question]) -> None:
    needs = {name: set(question.asked.needs) for name, question in bank.items()}
    for name, others in needs.items():
        if missing := others - set(bank):
            raise BankError(f"{name} needs {min(missing)}, which is no question of the bank.")
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        raise BankError(
            f"Questions need each other in a circle: {' → '.join(error.args[1])}."
        ) from error
