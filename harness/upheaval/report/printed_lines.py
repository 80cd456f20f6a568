"""Level and time of what a process printed, in the usual line forms of logback, log4j and Python's `logging`.

A line that begins neither with a time nor with a level has none of its own. It belongs to the line before it, if that
has: a stack trace follows the message.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from upheaval_node.runtime.log_lines import ERROR, INFO, WARNING

_LEVELS: Final = {
    "TRACE": INFO,
    "DEBUG": INFO,
    "INFO": INFO,
    "WARN": WARNING,
    "WARNING": WARNING,
    "ERROR": ERROR,
    "SEVERE": ERROR,
    "FATAL": ERROR,
    "CRITICAL": ERROR,
}
_DAY: Final = timedelta(days=1)
_HALF_DAY_MS: Final = 12 * 3600 * 1000
_SWAPPED_MS: Final = 60 * 1000
"""Threads take the time before they print, so lines that are apart by less may have changed places."""
_TIME: Final = re.compile(
    r"\[?(?:(?P<date>\d{4}-\d\d-\d\d)[ T])?(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?\]?\s+"
)
_LEVEL: Final = r"(?P<level>TRACE|DEBUG|INFO|WARN|WARNING|ERROR|SEVERE|FATAL|CRITICAL)"
_AFTER_TIME: Final = re.compile(
    # [thread], then perhaps a logger: `[main] ERROR`, `- bank - ERROR`, `ERROR/main`.
    rf"(?:\[[^\]]*\]\s+)?(?:-\s+)?(?:[\w.$-]+\s+-\s+)?\[?{_LEVEL}\b"
)
_ALONE: Final = re.compile(
    # Without a time a level is one only in a form that prose does not have: `ERROR:bank:text`, `[ERROR] text`.
    rf"\[{_LEVEL}\s*\]|{_LEVEL.replace('<level>', '<before>')}(?::|\s+(?:\[[^\]]+\]|[\w$]+(?:\.[\w$]+)+)\s+-)"
)


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line with its level, and milliseconds since the epoch where it has a time. `text` may have several lines."""

    epoch_ms: int | None
    level: str
    text: str


def printed_lines(lines: Iterable[str], day: date, zone: tzinfo | None) -> Iterator[PrintedLine]:
    """What a process printed. `day` is that of the first line that has the time of the day alone; it ends where such
    times go back by more than half a day, and a line with a date begins another. `zone` is that of times that name
    none; None is the zone of this machine.
    """
    latest_ms = -math.inf
    head: PrintedLine | None = None
    more: list[str] = []
    for text in lines:
        line = _parsed(text, day, zone)
        at_ms = None if line is None else line.epoch_ms
        if at_ms is not None:
            if _has_date(text):
                day = datetime.fromtimestamp(at_ms / 1000, zone).date()
            elif at_ms < latest_ms - _HALF_DAY_MS:
                day += _DAY
                line = _parsed(text, day, zone) or line
            elif at_ms > latest_ms + _HALF_DAY_MS:
                before = _parsed(text, day - _DAY, zone)
                is_swapped = before is not None and abs(latest_ms - (before.epoch_ms or 0)) < _SWAPPED_MS
                line = before if is_swapped else line
            latest_ms = latest_ms if line is None or line.epoch_ms is None else line.epoch_ms
        if line is None and head is not None:
            more.append(text)
            continue
        if head is not None:
            yield _joined(head, more)
        head, more = line, []
        if line is None:
            yield PrintedLine(None, INFO, text)
    if head is not None:
        yield _joined(head, more)


def has_form(text: str) -> bool:
    """Whether a line begins with a level, or with a time and then a level."""
    time = _TIME.match(text)
    return (_ALONE.match(text) if time is None else _AFTER_TIME.match(text, time.end())) is not None


def _has_date(text: str) -> bool:
    time = _TIME.match(text)
    return time is not None and time["date"] is not None


def _joined(head: PrintedLine, more: Sequence[str]) -> PrintedLine:
    return replace(head, text="\n".join([head.text, *more]))


def _parsed(text: str, day: date, zone: tzinfo | None) -> PrintedLine | None:
    """None for a line without a form."""
    time = _TIME.match(text)
    match = _ALONE.match(text) if time is None else _AFTER_TIME.match(text, time.end())
    if match is None:
        return None
    word = match["level"] or match.groupdict().get("before")
    moment = None if time is None else _moment(time, day, zone)
    return PrintedLine(moment, _LEVELS[str(word)], text)


def _moment(time: re.Match[str], day: date, zone: tzinfo | None) -> int | None:
    """None for a time that no clock has."""
    part = (time["part"] or "0").ljust(3, "0")[:3]
    own_zone = (time["zone"] or "").replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(f"{time['date'] or day.isoformat()}T{time['time']}.{part}{own_zone}")
    except ValueError:
        return None
    # A naive time is taken for one of this machine.
    return round((moment if own_zone else moment.replace(tzinfo=zone)).timestamp() * 1000)
