"""The line that shows how far a load is: on terminals only, drawn over itself."""

import contextlib
import os
import pty
import sys

import pytest

from upheaval.cli.progress import ProgressLine, load_progress
from upheaval.load.settings import Progress


def test_a_bar_grows_with_the_time() -> None:
    half = load_progress(Progress(50, 1000, 10, 99.6, 15.0, 30.0))
    assert half == "[############............] 15 of 30 s: 50 users, 990 ok, 10 failed, 100 a second"
    assert load_progress(Progress(0, 0, 0, 0.0, 31.0, 30.0)).startswith("[########################] 31 of 30 s")


def test_without_an_end_there_is_no_bar() -> None:
    assert load_progress(Progress(3, 5, 0, 2.0, 7.2, None)) == "7 s: 3 users, 5 ok, 0 failed, 2 a second"


def test_a_terminal_sees_one_line_that_covers_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        line = ProgressLine()
        line.show("a long text")
        line.show("short")
        line.end()
        line.end()
    seen = b""
    # Reading a terminal whose other end is closed is an error.
    with contextlib.suppress(OSError):
        while True:
            seen += os.read(ours, 1000)
    os.close(ours)
    assert seen == b"\ra long text\rshort      \r\n"


def test_a_pipe_sees_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    line = ProgressLine()
    line.show("a text")
    line.end()
    assert capsys.readouterr().err == ""


def test_a_log_gets_a_line_of_its_own_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    silent, told = ProgressLine(), ProgressLine(lines_every_s=0)
    silent.show("not seen")
    told.show("one")
    told.show("two")
    told.end()
    assert capsys.readouterr().err == "one\ntwo\n"
