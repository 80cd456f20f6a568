"""The marks of tests that show rows of the peer's inventory are sound, and the page that lists them is current."""

import ast
from functools import cache

import pytest

import check_parity
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


@pytest.mark.parametrize("rows", ["1:5", pytest.param("2:30", marks=pytest.mark.nightly)])
def test_tests_that_show_a_row_fail_when_their_check_is_inverted(rows: str) -> None:
    said: list[str] = []
    assert check_parity.check(rows, collected(), said.append) == 0, "\n".join(said)


@pytest.mark.parametrize("rows", ["x:5", "1:", "1:-1"])
def test_a_draw_that_is_none_is_refused_in_one_line(rows: str) -> None:
    with pytest.raises(SystemExit, match="rows are given as"):
        check_parity.check(rows, [])


def inverted(source: str) -> str:
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert check_parity.invert(function)
    return ast.unparse(ast.fix_missing_locations(function)).split("\n", 1)[1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("    x = 1\n    assert x == 1\n    f(x)", "    x = 1\n    assert not x == 1\n    f(x)"),
        ("    with pytest.raises(E):\n        f()", "    with inverted_raises(E):\n        f()"),
        ("    S().say(TEXT)", "    S().say(inverted_script(TEXT))"),
        ("    w.until(lambda: x)", "    w.until(lambda: x)\n    assert not (lambda: x)()"),
        ("    assert a\n    def g():\n        assert b", "    assert not a\n\n    def g():\n        assert b"),
    ],
)
def test_the_last_check_of_a_test_is_inverted(body: str, expected: str) -> None:
    assert inverted(f"def test():\n{body}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("wait 1\nis CANVASS\nwait 2", "wait 1\nis INVERTED\nwait 2"), ("sent Vote to=1", "unsent Vote to=1")],
)
def test_the_last_check_of_a_script_is_inverted(text: str, expected: str) -> None:
    assert check_parity.inverted_script(text) == expected
