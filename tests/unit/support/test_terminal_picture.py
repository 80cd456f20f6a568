"""The picture of a terminal shows what the command wrote to one of that width, in its colours."""

import shlex
import sys
from pathlib import Path

from terminal_picture import html_of, in_terminal

PROGRAM = "import os, sys; print(os.get_terminal_size().columns, sys.stdout.isatty()); sys.exit(3)"


def test_the_command_has_a_terminal_of_that_width(tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-c", PROGRAM])
    assert in_terminal(command, 77, tmp_path) == ("77 True\n", 3)


def test_colours_become_styles_and_text_stays_text() -> None:
    assert html_of("a <b> \x1b[1;31minvalid\x1b[0m, 2") == (
        'a &lt;b&gt; <span style="font-weight:bold;color:#f2777a">invalid</span>, 2'
    )
    assert html_of("[  0.1 s] up\n[not a time]") == "<i>[  0.1 s]</i> up\n[not a time]"
