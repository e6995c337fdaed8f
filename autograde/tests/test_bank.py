"""The question bank: what it gives, and every rule with what is said to an author who breaks it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import toy_bank

from crashlab.bank import BankError, Known, read_bank

KNOWN = Known(
    frozenset(notebook for _, _, notebook, *_ in toy_bank.QUESTIONS.values()),
    frozenset({"a-claim"}),
)


def read(root: Path, private: bool = True, known: Known | None = KNOWN) -> dict:
    answers = root / "solutions" / "questions" if private else None
    return read_bank(root / "data" / "questions", answers, known)


def test_a_bank_holds_both_halves_in_the_order_of_its_files(tmp_path: Path) -> None:
    bank = read(toy_bank.course(tmp_path))
    assert list(bank) == list(toy_bank.QUESTIONS)
    question = bank["one-mail"]
    assert question.id == "one-mail"
    assert question.topic == "mail"
    assert question.asked.ask.in_("en") == "Ask one-mail of `os.replace` <now>?"
    assert question.asked.ask.in_("zh").endswith("（中文）")
    assert question.answered.follow_ups[1].en == "Answer to one-mail 1."


def test_a_class_has_the_public_half(tmp_path: Path) -> None:
    bank = read(toy_bank.course(tmp_path, answers=False), private=False)
    assert list(bank) == list(toy_bank.QUESTIONS)
    assert all(question.answered is None for question in bank.values())


def test_a_learner_need_not_know_what_an_author_may_refer_to(tmp_path: Path) -> None:
    public, private = toy_bank.halves()
    public["mail"][0]["notebook"] = "99_nowhere"
    private["mail"]["one-mail"]["claims"] = ["unproved"]
    assert len(read(toy_bank.write(tmp_path, public, private), known=None)) == 5


def torn(public: dict, private: dict) -> dict:
    return public["mail"][0]  # what-is-torn


def its_answer(public: dict, private: dict) -> dict:
    return private["mail"]["what-is-torn"]


def change(half: Callable[[dict, dict], dict], key: str, value: object) -> Callable:
    """Give one field another value; a key with dots goes down."""

    def harm(public: dict, private: dict) -> None:
        place = half(public, private)
        *path, last = key.split(".")
        for step in path:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = value

    return harm


def twice_in_a_file(public: dict, private: dict) -> None:
    public["mail"].append(public["mail"][0])


def twice_in_two_files(public: dict, private: dict) -> None:
    public["state"].append(public["mail"][0])
    private["state"]["what-is-torn"] = private["mail"]["what-is-torn"]


def in_a_circle(public: dict, private: dict) -> None:
    public["mail"][0]["needs"] = ["one-mail"]


TEXT = toy_bank.text("x")
HERE = "mail.yaml, what-is-torn: "
REFUSED = {
    "answer missing": (
        lambda public, private: private["mail"].pop("what-is-torn"),
        "mail.yaml, what-is-torn: its half in solutions/questions is missing.",
    ),
    "question missing": (
        lambda public, private: public["mail"].pop(0),
        "mail.yaml, what-is-torn: its half in data/questions is missing.",
    ),
    "file of answers missing": (
        lambda public, private: private.pop("mail"),
        "mail.yaml, one-mail: its half in solutions/questions is missing.",
    ),
    "file of questions missing": (
        lambda public, private: public.pop("mail"),
        "mail.yaml, one-mail: its half in data/questions is missing.",
    ),
    "no Chinese": (change(torn, "ask.zh", None), HERE + "asked.ask.zh: Field required."),
    "no English": (
        change(its_answer, "answer.en", None),
        HERE + "answered.answer.en: Field required.",
    ),
    "empty": (
        change(torn, "ask.en", "  "),
        HERE + "asked.ask.en: String should have at least 1 character.",
    ),
    "Chinese in the English half": (
        change(torn, "ask.en", "What is 检查点?"),
        HERE + "asked.ask.en: the English half holds Chinese characters.",
    ),
    "English in the Chinese half": (
        change(its_answer, "answer.zh", "A checkpoint"),
        HERE + "answered.answer.zh: the Chinese half holds no Chinese character.",
    ),
    "unknown notebook": (
        change(torn, "notebook", "02_chekpoint"),
        HERE + "asked.notebook: there is no notebook '02_chekpoint'.",
    ),
    "claim without a test": (
        change(its_answer, "claims", ["a-claim", "b-claim"]),
        HERE + "answered.claims.1: no test of the course proves a claim 'b-claim'.",
    ),
    "no claim": (
        change(its_answer, "claims", []),
        HERE + "answered.claims: Tuple should have at least 1 item",
    ),
    "unknown tag": (change(torn, "tags", ["stat"]), HERE + "asked.tags.0: Input should be 'state'"),
    "no tag": (change(torn, "tags", []), HERE + "asked.tags: Tuple should have at least 1 item"),
    "difficulty": (
        change(torn, "difficulty", 4),
        HERE + "asked.difficulty: Input should be 1, 2 or 3.",
    ),
    "unknown field": (
        change(torn, "dificulty", 1),
        HERE + "asked.dificulty: Extra inputs are not permitted.",
    ),
    "not an id": (
        change(torn, "id", "What is torn"),
        "mail.yaml, What is torn: its half in solutions/questions is missing.",
    ),
    "no rubric": (
        change(its_answer, "rubric.must", []),
        HERE + "answered.rubric.must: Tuple should have at least 1 item",
    ),
    "no follow-up": (
        change(torn, "follow_ups", []),
        HERE + "asked.follow_ups: Tuple should have at least 1 item",
    ),
    "a follow-up too many": (
        change(torn, "follow_ups", [TEXT, TEXT]),
        HERE + "the question: 2 follow-ups are asked and 1 are answered.",
    ),
    "an id twice": (twice_in_a_file, "mail.yaml, what-is-torn: this id is used twice."),
    "an id in two files": (
        twice_in_two_files,
        "state.yaml, what-is-torn: mail.yaml has this id too.",
    ),
    "a need that is none": (
        change(torn, "needs", ["sleep"]),
        "what-is-torn needs sleep, which is no question of the bank.",
    ),
    "needs in a circle": (
        in_a_circle,
        "Questions need each other in a circle: ",
    ),
    "no list": (
        lambda public, private: public.update(mail={"id": "x"}),
        "mail.yaml must be a list of questions.",
    ),
    "no mapping": (
        lambda public, private: private.update(mail=["x"]),
        "mail.yaml must map the ids of questions to their answers.",
    ),
}


@pytest.mark.parametrize("harm, message", REFUSED.values(), ids=REFUSED.keys())
def test_a_broken_rule_is_named(tmp_path: Path, harm: Callable, message: str) -> None:
    public, private = toy_bank.halves()
    harm(public, private)
    with pytest.raises(BankError, match=re.escape(message)):
        read(toy_bank.write(tmp_path, public, private))


def test_an_id_has_a_form(tmp_path: Path) -> None:
    public, _ = toy_bank.halves()
    public["mail"][0]["id"] = "What is torn"
    with pytest.raises(BankError, match=r"What is torn: asked\.id: String should match pattern"):
        read(toy_bank.write(tmp_path, public, None), private=False)


@pytest.mark.parametrize("folder", ["data", "solutions"])
@pytest.mark.parametrize("broken", [b"- id: [", b"- \xff"], ids=["no YAML", "no UTF-8"])
def test_broken_yaml_is_named(tmp_path: Path, folder: str, broken: bytes) -> None:
    root = toy_bank.course(tmp_path)
    (root / folder / "questions" / "mail.yaml").write_bytes(broken)
    with pytest.raises(BankError, match=r"^mail\.yaml is no YAML: "):
        read(root)


def test_an_empty_bank_is_no_bank(tmp_path: Path) -> None:
    with pytest.raises(BankError, match="There are no questions in "):
        read(tmp_path, private=False)
