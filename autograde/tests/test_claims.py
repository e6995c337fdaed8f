"""The claims themselves: each has a name of its own, and a broken one says what no longer holds."""

import importlib
from pathlib import Path

import pytest
from claims import claim

from crashlab.course.paths import HERE
from crashlab.course.spoken import known

TESTS = Path(__file__).parent
NUMBERS = {path.name[:2] for path in (TESTS.parent.parent / "solutions").rglob("[0-9]*.py")}


def test_a_broken_claim_names_itself() -> None:
    @claim("moon", "06")
    def test() -> None:
        """The moon is made
        of cheese."""
        assert 1 + 1 == 3, "rock"

    with pytest.raises(
        AssertionError, match=r"claim moon, stated in 06, .* made of cheese\. \(A.*rock"
    ):
        test()


PROOFS = [
    test
    for path in sorted(TESTS.glob("test_claims_*.py"))
    for test in vars(importlib.import_module(path.stem)).values()
    if hasattr(test, "claim")
]


def test_no_two_claims_have_one_name() -> None:
    names = [test.claim for test in PROOFS]
    assert names
    assert len(names) == len(set(names))


def test_every_claim_is_of_a_notebook_and_is_known_to_the_bank() -> None:
    assert {number for test in PROOFS for number in test.notebooks} <= NUMBERS
    assert {test.claim for test in PROOFS} == known(HERE).claims
