"""Plain text tables for people."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

_GAP: Final = 2
"""Columns between two cells."""


def table(rows: Sequence[Sequence[str]], columns: int | None = None) -> str:
    """Left-aligned columns; the first row is the heading.

    `columns`: how wide it may be (default: the terminal; no limit elsewhere). The widest columns are folded to fit,
    between words only: names stay whole.
    """
    if columns is None and sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    if columns is not None:
        _narrow(widths, [max(map(_longest_word, cells)) for cells in zip(*rows, strict=True)], columns)
    heading, *others = [_lines(row, widths) for row in rows]
    rule = (" " * _GAP).join("-" * width for width in widths)
    return "\n".join([*heading, rule, *(line for lines in others for line in lines)])


def number(value: int) -> str:
    """A number of a table, where below 0 means none."""
    return "-" if value < 0 else str(value)


def _narrow(widths: list[int], least: Sequence[int], columns: int) -> None:
    """Make the widest columns narrower until all of them fit, or none can be narrowed."""
    excess = sum(widths) + _GAP * (len(widths) - 1) - columns
    for _ in range(max(excess, 0)):
        foldable = [column for column, width in enumerate(widths) if width > least[column]]
        if not foldable:
            return
        widths[max(foldable, key=lambda column: (widths[column], column))] -= 1


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    folded = [
        textwrap.wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(row, widths, strict=True)
    ]
    lines = zip_longest(*folded, fillvalue="")
    return [
        (" " * _GAP).join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
