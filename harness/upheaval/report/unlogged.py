"""What a process printed less what its trace has as well.

Python's `logging` writes a service's messages to stderr and, from `INFO` on, to the trace. The trace has their time and
logger, so it is the copy that counts.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from upheaval.records import TraceEvent
from upheaval.report.printed_lines import has_form
from upheaval_node.runtime.log_lines import INFO

_HEAD_MAX: Final = 200
"""Characters in which a format puts time, level and logger before the message."""
_SEPARATOR: Final = re.compile(r"(?:[:\]-]|\b[A-Z]+\b)\s*")
"""What comes before the message in a format of `logging`: punctuation, or the level."""

Block = tuple[str, ...]
"""The lines of a message, and those of its traceback."""


def without_logged(lines: Iterable[str], logged: Iterable[TraceEvent]) -> Iterator[str]:
    """The lines that are no copy of a traced message. Each message explains one copy.

    A line that is the message alone copies a warning or an error: until a service configures `logging`, it prints
    nothing else. Messages that the trace has cut are not recognised.
    """
    left: Counter[tuple[Block, bool]] = Counter()
    by_first: defaultdict[str, set[Block]] = defaultdict(set)
    for event in logged:
        block = _block(event)
        left[block, event.fields.get("level") == INFO] += 1
        by_first[block[0]].add(block)
    printed = list(lines)
    place = 0
    while place < len(printed):
        copy = _copy_at(printed, place, by_first, left)
        if copy is None:
            yield printed[place]
            place += 1
        else:
            left[copy] -= 1
            place += len(copy[0])


def _copy_at(
    printed: list[str], place: int, by_first: dict[str, set[Block]], left: Counter[tuple[Block, bool]]
) -> tuple[Block, bool] | None:
    line = printed[place]
    is_formed = has_form(line)
    for first in _messages(line) if is_formed else [line]:
        for block in sorted(by_first.get(first, ()), key=len, reverse=True):
            if tuple(printed[place + 1 : place + len(block)]) != block[1:]:
                continue
            for is_info in (False, True) if is_formed else (False,):
                if left[block, is_info] > 0:
                    return block, is_info
    return None


def _messages(line: str) -> Iterator[str]:
    """What may be the message of a line with a form: the rest after each separator of its head."""
    for match in _SEPARATOR.finditer(line, 0, _HEAD_MAX):
        yield line[match.end() :]


def _block(event: TraceEvent) -> Block:
    text, traceback = (str(event.fields.get(name) or "") for name in ("text", "traceback"))
    return (*(text.splitlines() or [""]), *traceback.splitlines())
