"""Work in a forked child: what comes back, and what ends this process."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from support.forking_work import append_to_a_copy, divide_by_zero, take_too_long
from support.other_interpreter import PATIENCE_S, other_interpreter

T = TypeVar("T")


def elsewhere(work: Callable[[], T]) -> T:
    with other_interpreter() as pool:
        return pool.submit(work).result(PATIENCE_S)


def test_a_result_comes_back_and_nothing_else() -> None:
    assert elsewhere(append_to_a_copy) == ([1], [])


def test_what_takes_too_long_says_so() -> None:
    with pytest.raises(SystemExit, match="a copy did not end within 1 s"):
        elsewhere(take_too_long)


def test_what_raises_has_printed_why(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"):
        elsewhere(divide_by_zero)
    assert "ZeroDivisionError" in capfd.readouterr().err
