"""Traces of a simulated run: the lines that the process runtime writes, kept in memory in the order of the run.

Also the protocol traces, which no digest covers. This module knows nothing of what the events mean.
"""

import hashlib
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from upheaval_node.protocol_trace import Observation
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.trace_lines import LineWriter, TraceValue
from upheaval_node.types import Now

OBSERVATIONS_KEPT: Final = 100_000
"""Of each member, the latest: what a long run did at its end is what people look for."""
LINES_HASHED_AT_ONCE: Final = 1000


class ProtocolTraces:
    """What the members of a run said and became, by member. No part of the digest: it follows from what is."""

    def __init__(self, count: int = OBSERVATIONS_KEPT) -> None:
        self._kept = count
        self._of: dict[int, deque[Observation]] = {}

    def of(self, member_id: int) -> deque[Observation]:
        """What is kept of one member: the newest observations."""
        return self._of.setdefault(member_id, deque(maxlen=self._kept))

    def lines(self, member_id: int) -> Iterator[str]:
        """The lines of `protocol.jsonl`."""
        return (observation.to_json(member_id) for observation in self.of(member_id))


class Listener(Protocol):
    """Called with every event of a member as it comes."""

    def __call__(self, member_id: int, line: int, ns: int, event: str, fields: dict[str, TraceValue]) -> None:
        """The how-manyth line of the member it is, counted from 1; the fields of the event, and its component."""


class Journal:
    """Every trace line of a run, by member; what the node does is hashed in the order in which it was emitted."""

    def __init__(self) -> None:
        self.lines: dict[int, list[str]] = {}
        self.on_event: Listener | None = None
        self._hash = hashlib.sha256()
        self._unhashed: list[str] = []

    def add(self, member_id: int, ns: int, event: str, line: str, fields: dict[str, TraceValue]) -> None:
        """Take an event of a member, in the order of the run."""
        lines = self.lines.setdefault(member_id, [])
        lines.append(line)
        # What a service logs may name what no two executions share, such as addresses of objects.
        if event != TraceKind.LOG:
            self._unhashed.append(line)
            if len(self._unhashed) == LINES_HASHED_AT_ONCE:
                self._hash_lines()
        if self.on_event is not None:
            self.on_event(member_id, len(lines), ns, event, fields)

    def digest(self) -> "hashlib._Hash":
        """A copy of the running hash, to be continued with other parts of the outcome."""
        self._hash_lines()
        return self._hash.copy()

    def _hash_lines(self) -> None:
        self._hash.update("".join(line + "\n" for line in self._unhashed).encode())
        self._unhashed.clear()


class SimulatedTracer:
    """`ports.Tracer` of one incarnation of a member. The fields are those of the process runtime's tracer."""

    def __init__(self, journal: Journal, *, member_id: int, component: str, incarnation: int) -> None:
        self._journal = journal
        self._member_id = member_id
        self._component = component
        self._writer = LineWriter({"member": member_id, "component": component, "pid": incarnation})

    def emit(self, now: Now, event: str, **fields: int | str | bool | None) -> None:
        """Fields with a name that every line has get `field_` before it."""
        line = self._writer.line(now, event, fields)
        fields["component"] = self._component
        self._journal.add(self._member_id, now.ns, event, line, fields)


class ErrorLog:
    """`ports.ErrorSink`: counts errors, traces the first of each kind and keeps all texts of the run."""

    def __init__(self, tracer: SimulatedTracer) -> None:
        self._tracer = tracer
        self.counts: dict[str, int] = {}
        self.texts: list[str] = []

    def report(self, now: Now, kind: str, text: str) -> None:
        """The first of a kind is an event of the trace; all texts are kept."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.texts.append(f"{now.ns} {kind}: {text}")
        if self.counts[kind] == 1:
            self._tracer.emit(now, TraceKind.ERROR, kind=kind, text=text)
