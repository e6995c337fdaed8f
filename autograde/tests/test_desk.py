"""The outside of an approval desk, and what the desk of 09_approval_desk is proved with."""

import os
from pathlib import Path

import pytest

from crashlab import BenchError, launch
from crashlab.world.desk import Bank, KeyReused, Shop, at_once

EIGHT = {"to": "A-17", "amount": 800}


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path / "bank.sqlite")


def test_the_bank_pays_once_for_a_key(bank: Bank) -> None:
    first = bank.pay("R-1", EIGHT)
    assert bank.pay("R-1", dict(reversed(EIGHT.items()))) == first
    assert bank.pay("R-2", EIGHT) != first
    assert bank.payments() == [EIGHT, EIGHT]


def test_the_bank_refuses_a_key_with_another_content(bank: Bank) -> None:
    bank.pay("R-1", EIGHT)
    with pytest.raises(KeyReused, match="R-1"):
        bank.pay("R-1", EIGHT | {"amount": 5000})
    assert bank.payments() == [EIGHT]


def test_the_bank_finds_its_receipts(bank: Bank) -> None:
    assert bank.find("R-1") is None
    assert bank.find("R-1") is None
    assert bank.pay("R-1", EIGHT) == bank.find("R-1")


def test_a_payment_outlives_its_payer_who_cannot_look_at_all_of_them(bank: Bank) -> None:
    def pay_and_die() -> None:
        bank.pay("R-1", EIGHT)
        os._exit(1)

    assert launch(pay_and_die, echo=False).end == "exited"
    assert bank.payments() == [EIGHT]
    assert "for the judge" in launch(bank.payments, echo=False).reason


def test_the_shop_knows_its_orders_and_people(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.sqlite")
    assert shop.order("A-17") == {"status": "unknown", "refundable": 0}
    shop.set_order("A-17", "returned", 800)
    shop.set_order("A-18", "cancelled", 0)
    assert shop.order("A-17") == {"status": "returned", "refundable": 800}
    shop.set_order("A-17", "returned", 300)
    assert shop.order("A-17")["refundable"] == 300
    assert shop.limit("ben") == 0
    shop.set_limit("ben", 5000)
    assert shop.limit("ben") == 5000
    assert shop.order("ben") == {"status": "unknown", "refundable": 0}


def test_at_once_runs_processes_of_their_own_and_keeps_the_order() -> None:
    def who(name: str) -> tuple[str, int]:
        return name, os.getpid()

    found = at_once(who, [("ben",), ("cleo",), ("dora",)])
    assert [name for name, _ in found] == ["ben", "cleo", "dora"]
    assert len({os.getpid(), *(pid for _, pid in found)}) == 4


def test_at_once_waits_for_all_before_any_goes(tmp_path: Path) -> None:
    def meet(mine: Path, other: Path) -> bool:
        """Both can only see the other's file if neither ended before the other began."""
        mine.touch()
        while not other.exists():
            pass
        return True

    one, other = tmp_path / "one", tmp_path / "other"
    assert at_once(meet, [(one, other), (other, one)]) == [True, True]


def test_at_once_says_what_went_wrong() -> None:
    def fail(how: str) -> None:
        if how == "raise":
            raise ValueError("no such refund")
        if how == "die":
            os._exit(1)
        while how == "hang":
            pass

    with pytest.raises(BenchError, match="raised ValueError: no such refund"):
        at_once(fail, [("raise",), ("",)])
    with pytest.raises(BenchError, match="died"):
        at_once(fail, [("die",), ("",)])
    with pytest.raises(BenchError, match="time was up"):
        at_once(fail, [("hang",), ("",)], deadline=0.3)
