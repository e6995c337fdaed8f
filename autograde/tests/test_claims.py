"""The claims themselves: each has a name of its own, and a broken one says what no longer holds."""

import importlib
from pathlib import Path

import pytest
from claims import claim

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


def test_no_two_claims_have_one_name() -> None:
    names = [
        test.claim
        for path in sorted(TESTS.glob("test_claims_*.py"))
        for test in vars(importlib.import_module(path.stem)).values()
        if hasattr(test, "claim")
    ]
    assert names
    assert len(names) == len(set(names))
