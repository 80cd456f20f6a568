"""The protocol trace of a member: every message that it sends or receives, and every change of its states, in order.

Observations are in `protocol.jsonl` of a run folder (docs/run-folder.md). A runtime decides where observations
go; this module decides what they are. It knows no files, no clock of its own and no component.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from upheaval_node.ports import Tracer
from upheaval_node.protocol.constants import STREAM_NAMES
from upheaval_node.protocol.describe import MESSAGE_NAMES, describe
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now

__all__ = ["FILE_NAME", "MESSAGE_EVENTS", "MESSAGE_NAMES", "Observation", "Observer"]

FILE_NAME: Final = "protocol.jsonl"
MESSAGE_EVENTS: Final = (TraceKind.SEND, TraceKind.RECEIVE)

# Senders and receivers trace these; the protocol trace has them with all their fields from the streams themselves.
_SEEN_AS_MESSAGES: Final = frozenset((*MESSAGE_EVENTS, TraceKind.SEND_FAILED))

FieldValue = int | str | bool | None


class Observation(NamedTuple):
    """One message or state change, as it was seen. It is decoded only when it is read."""

    number: int
    ns: int
    epoch_ms: int
    pid: int
    component: str
    event: str
    stream_id: int
    peer: str
    """Where a message goes to or comes from, as far as it is known: `host:port`."""
    to: int | None
    """The member that a message of the consensus stream is for."""
    position: int
    payload: bytes
    fields: Mapping[str, FieldValue] | None
    """Of a state change; None for messages."""

    def to_json(self, member_id: int) -> str:
        """One line of `protocol.jsonl`, without its end."""
        record: dict[str, object] = {
            "n": self.number,
            "ts": self.ns,
            "epoch_ms": self.epoch_ms,
            "member": member_id,
            "component": self.component,
            "pid": self.pid,
            "event": self.event,
        }
        if self.fields is not None:
            record["fields"] = dict(self.fields)
            return json.dumps(record, separators=(",", ":"))
        name, values = describe(self.payload)
        record["stream_id"] = self.stream_id
        record["stream"] = STREAM_NAMES.get(self.stream_id, "")
        if self.to is not None:
            record["to"] = self.to
        record["peer"] = self.peer
        record["position"] = self.position
        record["message"] = name
        record["fields"] = values
        return json.dumps(record, separators=(",", ":"))


class Observer:
    """Implements `ports.MessageObserver` for one process of a member, and gives its components their tracers.

    `members` are the ids of members by their consensus endpoints.
    """

    def __init__(
        self, clock: Callable[[], Now], pid: int, members: Mapping[str, int], keep: Callable[[Observation], None]
    ) -> None:
        self._clock = clock
        self._pid = pid
        self._members = members
        self._keep = keep
        self._count = 0

    def on_message(
        self, component: str, direction: str, stream_id: int, peer: str, position: int, payload: bytes
    ) -> None:
        """Keep one message; what was sent to a member's consensus endpoint gets that member's id."""
        now = self._clock()
        to = self._members.get(peer) if direction == TraceKind.SEND else None
        self._add(now, component, direction, stream_id, peer, to, position, payload, None)

    def tracer(self, tracer: Tracer, component: str) -> Tracer:
        """A tracer of one component that also shows its state changes here."""
        return _ObservedTracer(tracer, lambda now, event, fields: self._on_event(component, now, event, fields))

    def _on_event(self, component: str, now: Now, event: str, fields: Mapping[str, FieldValue]) -> None:
        self._add(now, component, event, 0, "", None, 0, b"", fields)

    def _add(self, now: Now, component: str, event: str, *rest: object) -> None:
        self._count += 1
        self._keep(Observation(self._count, now.ns, now.epoch_ms, self._pid, component, event, *rest))  # type: ignore[arg-type]


class _ObservedTracer:
    """Implements `ports.Tracer`."""

    def __init__(self, tracer: Tracer, show: Callable[[Now, str, Mapping[str, FieldValue]], None]) -> None:
        self._tracer = tracer
        self._show = show

    def emit(self, now: Now, event: TraceKind, **fields: FieldValue) -> None:
        self._tracer.emit(now, event, **fields)
        if event not in _SEEN_AS_MESSAGES:
            self._show(now, event, fields)
