"""Messages between members while the run continues: traced by members or seen by forwarders. Does not wait."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from upheaval.records import TraceEvent, jsonfields
from upheaval.records.jsonfields import FieldError
from upheaval.scenario import WaitSent
from upheaval_chaos.faults import Roster
from upheaval_node.protocol.describe import camel_case
from upheaval_node.trace_kinds import TraceKind


class SentMessages:
    """All sent messages among the lines of traces, in their order. `lines` has those since its last call."""

    def __init__(self, lines: Callable[[], Iterable[bytes]]) -> None:
        self._lines = lines

    def more(self) -> Iterator[TraceEvent]:
        """The messages since the last look."""
        for line in self._lines():
            try:
                fields = jsonfields.parse_object(line.decode("utf-8"))
                event = TraceEvent(0, jsonfields.integer(fields, "ts"), str(fields.get("event")), fields)
            except (FieldError, UnicodeDecodeError):
                # An incomplete line of a killed writer; the checkers of the run look at it.
                continue
            if event.event == TraceKind.SEND:
                yield event


class SentMessage:
    """The message that a step waits for, with the members that are its ends now."""

    def __init__(self, step: WaitSent, roster: Roster, victims: Callable[[str], Sequence[int]], after_ns: int) -> None:
        """Raises `UnknownOutcome` when the step's members are not known now."""
        everyone = list(roster.member_ids)
        self._sources, self._targets = (
            everyone if who is None else who.sparing(victims).select(roster) for who in (step.source, step.target)
        )
        self._step = step
        self._after_ns = after_ns

    def __str__(self) -> str:
        ends = (" or ".join(map(str, member_ids)) for member_ids in (self._sources, self._targets))
        values = "".join(f" {name}={value}" for name, value in self._step.fields)
        return f"{self._step.message}{values} from {' to '.join(ends)}"

    def is_meant(self, event: TraceEvent) -> bool:
        """Whether the event is such a message."""
        fields, step = event.fields, self._step
        if event.ns <= self._after_ns or fields.get("message") != step.message:
            return False
        if fields.get("member") not in self._sources or fields.get("to") not in self._targets:
            return False
        values = {camel_case(name): value for name, value in fields.items()}
        return all(written(values.get(name)) == value for name, value in step.fields)


def written(value: object) -> str:
    """The value of a field as `wait sent` has it."""
    return value if isinstance(value, str) else json.dumps(value)
