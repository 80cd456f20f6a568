"""The documented tables and views of a lake are those that queries see."""

import pytest

from lake_tables import BEGIN, PAGE, current

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_tables_of_the_page_are_current() -> None:
    assert current(TEXT) == TEXT, "run python tools/lake_tables.py"


def test_a_page_without_their_place_is_refused() -> None:
    with pytest.raises(ValueError, match="has no lines"):
        current(TEXT.replace(BEGIN, ""))
