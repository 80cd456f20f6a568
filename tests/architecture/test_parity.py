"""The marks of tests that show rows of the peer's inventory are sound, and the page that lists them is current."""

from functools import cache

import parity


@cache
def collected() -> list[parity.Marked]:
    return parity.collect()


def test_every_mark_names_a_row_and_no_row_or_test_has_too_many() -> None:
    assert parity.problems(parity.read_inventory(), collected()) == []


def test_the_page_is_what_the_marks_say() -> None:
    assert parity.PAGE.read_text(encoding="utf-8") == parity.page(parity.read_inventory(), collected())


def test_a_wrong_mark_is_found() -> None:
    inventory = parity.read_inventory()
    items = [
        parity.Marked("tests/unit/files/test_x.py::test_a", ("ZZ-01", "CT-01")),
        parity.Marked("tests/unit/files/test_x.py::test_b", ("EL-01", "EL-01")),
    ]
    assert parity.problems(inventory, items) == [
        "ZZ-01: no such row in the inventory (tests/unit/files/test_x.py::test_a)",
        "tests/unit/files/test_x.py::test_b: a row twice",
        "CT-01: tests/unit/files/test_x.py::test_a runs no whole members",
    ]


def test_the_inventory_is_whole() -> None:
    rows = parity.read_inventory().values()
    assert {tier: sum(row.tier == tier for row in rows) for tier in "ABCD"} == {"A": 289, "B": 53, "C": 143, "D": 74}
