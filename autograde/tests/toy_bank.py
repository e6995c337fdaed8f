"""A course with a small question bank, for tests of the bank and of the drill."""

from pathlib import Path
from typing import Any

import yaml

# id: topic, part, notebook, difficulty, tags, needs, follow-ups
QUESTIONS = {
    "what-is-torn": ("mail", "1_by_hand", "02_checkpoint", 1, ["state"], [], 1),
    "one-mail": ("mail", "1_by_hand", "04_email", 2, ["mail", "idempotency"], ["what-is-torn"], 2),
    "which-thread": ("state", "2_langgraph", "06_checkpointer", 1, ["langgraph"], [], 1),
    "who-may": ("state", "2_langgraph", "09_approval_desk", 3, ["approval"], ["which-thread"], 1),
    "pay-once": ("state", "3_in_production", "13_payments", 2, ["payment", "idempotency"], [], 1),
}


def text(words: str) -> dict[str, str]:
    """Some words in both languages."""
    return {"en": words, "zh": f"{words}（中文）"}


def asked(name: str) -> dict[str, Any]:
    """The public half of a question."""
    _, _, notebook, difficulty, tags, needs, follow_ups = QUESTIONS[name]
    return {
        "id": name,
        "ask": text(f"Ask {name} of `os.replace` <now>?"),
        "tags": tags,
        "notebook": notebook,
        "needs": needs,
        "difficulty": difficulty,
        "follow_ups": [text(f"Further {name} {number}?") for number in range(follow_ups)],
    }


def answered(name: str) -> dict[str, Any]:
    """The private half of a question."""
    number = QUESTIONS[name][-1]
    return {
        "answer": text(f"Answer {name} & why."),
        "rubric": {
            "must": [text(f"Must {name} a"), text(f"Must {name} b")],
            "depth": [text(f"Depth {name}")],
            "mistakes": [text(f"Mistake {name}")],
        },
        "follow_ups": [text(f"Answer to {name} {n}.") for n in range(number)],
        "confusable": {"terms": text("claim / lock"), "difference": text(f"Difference {name}.")},
        "claims": ["a-claim"],
    }


def halves() -> tuple[dict[str, list], dict[str, dict]]:
    """The public and the private half of every topic."""
    public: dict[str, list] = {}
    private: dict[str, dict] = {}
    for name, (topic, *_) in QUESTIONS.items():
        public.setdefault(topic, []).append(asked(name))
        private.setdefault(topic, {})[name] = answered(name)
    return public, private


def write(root: Path, public: dict, private: dict | None) -> Path:
    """Write a course: its bank, and a notebook of each name; return its root."""
    for folder, topics in (("data", public), ("solutions", private or {})):
        for topic, content in topics.items():
            path = root / folder / "questions" / f"{topic}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    for _, part, notebook, *_ in QUESTIONS.values():
        path = root / "notebooks" / part / f"{notebook}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def course(root: Path, answers: bool = True) -> Path:
    """A course with the whole bank, or as a class has it, without the answers."""
    public, private = halves()
    return write(root, public, private if answers else None)
