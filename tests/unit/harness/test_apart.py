"""Work in a forked child: what comes back, and what ends this process."""

import signal

import pytest

from upheaval.checkers.own import apart as module
from upheaval.checkers.own.apart import apart


def test_a_result_comes_back_and_nothing_else() -> None:
    known: list[int] = []
    assert apart(lambda: known.append(1) or [*known]) == [1]
    assert known == []


def test_what_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_S", 1)
    with pytest.raises(SystemExit, match="a copy did not end within 1 s"):
        apart(signal.pause)


def test_what_raises_has_printed_why(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"):
        apart(lambda: 1 // 0)
    assert "ZeroDivisionError" in capfd.readouterr().err
