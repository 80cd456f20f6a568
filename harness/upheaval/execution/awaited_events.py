"""Events that a scenario waits for while the run continues: messages between members, and states that members enter.

Members trace them, or forwarders see them. This module does not wait.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from upheaval.records import TraceEvent, jsonfields
from upheaval.records.jsonfields import FieldError
from upheaval.scenario import SNAPSHOT_STATE, WaitSent, WaitState
from upheaval_chaos.faults import Roster, Who
from upheaval_node.protocol.describe import camel_case
from upheaval_node.trace_kinds import TraceKind

Victims = Callable[[str], Sequence[int]]
"""The targets of a fault, by its name."""
_KINDS = frozenset({TraceKind.SEND, TraceKind.ELECTION_STATE, TraceKind.MODULE_STATE})


class TracedEvents:
    """All events of traces that can be waited for, in their order. `lines` has those since its last call."""

    def __init__(self, lines: Callable[[], Iterable[bytes]]) -> None:
        self._lines = lines

    def more(self) -> Iterator[TraceEvent]:
        """The events since the last look."""
        for line in self._lines():
            try:
                fields = jsonfields.parse_object(line.decode("utf-8"))
                event = TraceEvent(0, jsonfields.integer(fields, "ts"), str(fields.get("event")), fields)
            except (FieldError, UnicodeDecodeError):
                # An incomplete line of a killed writer; the checkers of the run look at it.
                continue
            if event.event in _KINDS:
                yield event


class AwaitedEvent:
    """The event that a step waits for, with the members that it is about now. Earlier events do not count."""

    def __init__(self, step: WaitSent | WaitState, roster: Roster, victims: Victims, after_ns: int) -> None:
        """Raises `UnknownOutcome` when the step's members are not known now."""

        def members(who: Who | None) -> Sequence[int]:
            return list(roster.member_ids) if who is None else who.sparing(victims).select(roster)

        self._step = step
        self._after_ns = after_ns
        if isinstance(step, WaitSent):
            self._members, self._targets = members(step.source), members(step.target)
        else:
            self._members, self._targets = members(step.of), ()

    def __str__(self) -> str:
        step, ends = self._step, " or ".join(map(str, self._members))
        if isinstance(step, WaitState):
            return f"{step.state} of member {ends}"
        values = "".join(f" {name}={value}" for name, value in step.fields)
        return f"{step.message}{values} from {ends} to {' or '.join(map(str, self._targets))}"

    @property
    def happened(self) -> str:
        """What is printed when it was seen."""
        return f"{self} is {'sent' if isinstance(self._step, WaitSent) else 'entered'}"

    def is_meant(self, event: TraceEvent) -> bool:
        """Whether the event is this one."""
        if event.ns <= self._after_ns or event.fields.get("member") not in self._members:
            return False
        step = self._step
        return self._is_entry(step, event) if isinstance(step, WaitState) else self._is_message(step, event)

    def _is_message(self, step: WaitSent, event: TraceEvent) -> bool:
        fields = event.fields
        if event.event != TraceKind.SEND or fields.get("message") != step.message:
            return False
        values = {camel_case(name): value for name, value in fields.items()}
        return fields.get("to") in self._targets and all(
            written(values.get(name)) == value for name, value in step.fields
        )

    @staticmethod
    def _is_entry(step: WaitState, event: TraceEvent) -> bool:
        if step.state == SNAPSHOT_STATE:
            return event.event == TraceKind.MODULE_STATE and event.fields.get("new") == step.traced
        return event.event == TraceKind.ELECTION_STATE and event.fields.get("state") == step.traced


def written(value: object) -> str:
    """The value of a field as `wait sent` has it."""
    return value if isinstance(value, str) else json.dumps(value)
