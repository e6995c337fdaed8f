"""What went wrong in one cell, in the same words wherever the cell ran."""

import re
from dataclasses import dataclass

CELL_LIMIT = 60
"""Seconds that one cell may take, wherever it runs."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Failure:
    """An exception that ended a cell, or the reason why the cell never ran to its end.

    `bases` are the class names of the exception and its parents, so that a subclass of
    NotImplementedError is known as one without importing it; empty when there was no exception.
    `where` is the module of the exception's class.
    """

    name: str
    message: str = ""
    bases: tuple[str, ...] = ()
    where: str = ""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """The failure that an exception stands for."""
        kind = type(error)
        return cls(
            kind.__name__,
            str(error),
            tuple(base.__name__ for base in kind.__mro__),
            kind.__module__,
        )

    @classmethod
    def from_json(cls, fields: dict) -> "Failure":
        """The failure that `dataclasses.asdict` took apart."""
        return cls(**{**fields, "bases": tuple(fields["bases"])})

    @property
    def is_stub(self) -> bool:
        """The learner has not written this yet."""
        return "NotImplementedError" in self.bases

    @property
    def is_verdict(self) -> bool:
        """A check spoke, by an assertion or an exception of the bench; it did not just trip."""
        return "AssertionError" in self.bases or self.where.split(".")[0] == "crashlab"

    @property
    def sentence(self) -> str:
        """The check's own words, up to the first empty line; an accident starts with its name."""
        words = _COLOUR.sub("", self.message).strip().split("\n\n")[0]
        if words and (self.is_verdict or not self.bases):
            return words
        return f"{self.name}: {words}" if words else self.name
