"""Tables for people fit the width of their terminal, and have every word of their cells."""

import pytest

from upheaval.cli.tables import table

ROWS = [
    ["bug", "what goes wrong", "promise"],
    ["commit-without-a-quorum", "the leader commits what it alone has", "committed entries are on a quorum"],
    ["x", "", "b"],
]


def test_nothing_is_folded_without_a_limit() -> None:
    assert table([["a", "b"], ["cc", "d e"]]) == "a   b\n--  ---\ncc  d e"


@pytest.mark.parametrize("columns", [50, 60, 80])
def test_the_widest_columns_are_folded(columns: int) -> None:
    lines = table(ROWS, columns).splitlines()
    assert max(map(len, lines)) <= columns
    words = " ".join(lines).split()
    assert all(word in words for row in ROWS for cell in row for word in cell.split())


def test_a_name_is_never_folded() -> None:
    text = table([["a", "b"], ["a-long-name", "c d"]], 8)
    assert text.splitlines() == ["a            b", "-----------  -", "a-long-name  c", "             d"]
