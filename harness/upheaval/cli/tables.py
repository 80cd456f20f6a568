"""Plain text tables for people."""

import shutil
import sys
import textwrap
from collections.abc import Sequence

_NARROWEST = 30


def table(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns; the first row is the heading. On a terminal the last column is folded to its width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns - sum(width + 2 for width in widths[:-1])
        widths[-1] = min(widths[-1], max(room, _NARROWEST))
    lines = [line for row in rows for line in _lines(row, widths)]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def number(value: int) -> str:
    """A number of a table, where below 0 stands for none."""
    return "-" if value < 0 else str(value)


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    *cells, last = row
    folded = textwrap.wrap(last, widths[-1]) or [""]
    first = "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)), folded[0]])
    indent = " " * sum(width + 2 for width in widths[:-1])
    return [first.rstrip(), *(indent + line for line in folded[1:])]
