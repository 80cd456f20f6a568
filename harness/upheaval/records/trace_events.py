"""The events of a trace, from the lines of its file. Knows neither where traces are nor what the events mean."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.errors import UsageError
from upheaval.records import jsonfields
from upheaval.records.jsonfields import FieldError, Json

TRACE_START: Final = b'{"ts":'
"""The bytes that each line of a trace begins with."""
LOST_EVENTS: Final = "lost_events_before"
"""A field of the first trace line after lines that could not be written."""


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One line of a member's trace; `ns` is on the member's monotonic clock."""

    line: int
    ns: int
    event: str
    fields: Mapping[str, Json]

    def number(self, name: str) -> int:
        """A field that is a whole number; -1 if it is missing or anything else."""
        value = self.fields.get(name)
        return value if type(value) is int else -1


def read_trace_events(path: Path) -> Iterator[TraceEvent]:
    """The events in file order. Raises `UsageError` for a malformed line, `EnvironmentFault` for an unreadable file."""
    torn = 0
    for number, fields in jsonfields.read_lines(path, torn_end_allowed=True, torn_start=TRACE_START):
        if fields is jsonfields.TORN:
            torn += 1
            continue
        if torn:
            lost = fields.get(LOST_EVENTS)
            fields[LOST_EVENTS] = max(torn, lost if isinstance(lost, int) else 0)
            torn = 0
        try:
            yield TraceEvent(number, jsonfields.integer(fields, "ts"), jsonfields.text(fields, "event"), fields)
        except FieldError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
