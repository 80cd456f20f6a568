"""What a stream can show: how wide it is, and whether it has colours. Text is folded and painted for it here.

Text is folded to the width of a terminal. In a pipe or a file every line stays whole, so that it can be searched.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TextIO

from upheaval.cli.output import presentation_of

NARROWEST: Final = 40
"""Columns; text is folded no narrower."""
_END: Final = "\x1b[0m"


class Paint(StrEnum):
    """The escape sequence that begins it."""

    GOOD = "\x1b[32m"
    BAD = "\x1b[1;31m"
    DOUBTFUL = "\x1b[33m"
    STRONG = "\x1b[1m"


@dataclass(frozen=True, slots=True)
class Screen:
    """`columns` is None where lines are never folded."""

    columns: int | None = None
    has_colors: bool = False

    def painted(self, text: str, paint: Paint) -> str:
        """In that colour, where there are colours."""
        return f"{paint}{text}{_END}" if self.has_colors and text else text

    def folded(self, text: str, *, first: str = "", indent: str = "") -> list[str]:
        """As lines: the first one after `first`, the others after `indent`. Words longer than a line are broken."""
        if self.columns is None:
            return [f"{first}{' '.join(text.split())}"]
        return textwrap.wrap(
            text,
            max(self.columns, NARROWEST),
            initial_indent=first,
            subsequent_indent=indent,
            break_on_hyphens=False,
        ) or [first.rstrip()]


def screen_of(stream: TextIO | None = None) -> Screen:
    """That of a stream, standard output by default."""
    stream = stream or sys.stdout
    choice = presentation_of(stream).color
    columns = shutil.get_terminal_size().columns if stream.isatty() else None
    return Screen(columns, _has_colors(stream, choice, os.environ))


def _has_colors(stream: TextIO, choice: str, environment: Mapping[str, str]) -> bool:
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"
