"""Traces of a simulated run: the same lines as the process runtime writes, kept in memory in the order of the run.

Also the protocol traces, which no digest covers. This module does not interpret the events.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from upheaval_node.protocol_trace import Observation
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.trace_lines import LineWriter, TraceValue
from upheaval_node.types import NULL_VALUE, Now

OBSERVATIONS_KEPT: Final = 100_000
"""The number of latest observations kept per member: the end of a long run matters most."""
LINES_HASHED_AT_ONCE: Final = 1000


class ProtocolTraces:
    """The messages and state changes of the members of a run. The digest leaves them out, since they follow from the
    rest.
    """

    def __init__(self, count: int = OBSERVATIONS_KEPT) -> None:
        self._limit = count
        self._of: dict[int, deque[Observation]] = {}

    def of(self, member_id: int) -> deque[Observation]:
        """The kept observations of one member, the newest ones."""
        return self._of.setdefault(member_id, deque(maxlen=self._limit))

    def lines(self, member_id: int) -> Iterator[str]:
        """The lines of `protocol.jsonl`."""
        return (observation.to_json(member_id) for observation in self.of(member_id))


class Listener(Protocol):
    """Called with every event of a member, at once."""

    def __call__(self, member_id: int, line: int, ns: int, event: str, fields: dict[str, TraceValue]) -> None:
        """`line` is the number of the member's line, from 1; `fields` are the event's fields, including its
        component.
        """


class Journal:
    """All trace lines of a run, by member. The lines of the node are hashed in the order of the run."""

    def __init__(self) -> None:
        self.lines: dict[int, list[str]] = {}
        self.on_event: Listener | None = None
        self._hash = hashlib.sha256()
        self._unhashed: list[str] = []

    def add(self, member_id: int, ns: int, event: str, line: str, fields: dict[str, TraceValue]) -> None:
        """Add an event of a member, in the order of the run."""
        lines = self.lines.setdefault(member_id, [])
        lines.append(line)
        # A service's log may differ between equal executions, for example in addresses of objects.
        if event != TraceKind.LOG:
            self._unhashed.append(line)
            if len(self._unhashed) == LINES_HASHED_AT_ONCE:
                self._hash_lines()
        if self.on_event is not None:
            self.on_event(member_id, len(lines), ns, event, fields)

    def added_lines(self) -> Callable[[], Iterator[bytes]]:
        """Reads the lines since its last call, by member."""
        read: dict[int, int] = {}

        def added() -> Iterator[bytes]:
            for member_id, lines in self.lines.items():
                begin, read[member_id] = read.get(member_id, 0), len(lines)
                yield from (line.encode() for line in lines[begin:])

        return added

    def digest(self) -> "hashlib._Hash":
        """A copy of the running hash, to continue with other results."""
        self._hash_lines()
        return self._hash.copy()

    def _hash_lines(self) -> None:
        self._hash.update("".join(line + "\n" for line in self._unhashed).encode())
        self._unhashed.clear()


class SimulatedTracer:
    """`ports.Tracer` of one incarnation of a member. Its fields are the same as in the process runtime.

    The companions of a cluster have the numbers -1, -2 and so on. In their lines all of them are member -1.
    """

    def __init__(self, journal: Journal, *, member_id: int, component: str, incarnation: int) -> None:
        self._journal = journal
        self._member_id = member_id
        self._component = component
        self._writer = LineWriter({"member": max(member_id, NULL_VALUE), "component": component, "pid": incarnation})

    def emit(self, now: Now, event: str, **fields: int | str | bool | None) -> None:
        """A field whose name every line already has gets the prefix `field_`."""
        line = self._writer.line(now, event, fields)
        fields["component"] = self._component
        self._journal.add(self._member_id, now.ns, event, line, fields)


class ErrorLog:
    """`ports.ErrorSink`: counts errors, traces the first of each kind, and keeps all texts of the run."""

    def __init__(self, tracer: SimulatedTracer) -> None:
        self._tracer = tracer
        self.counts: dict[str, int] = {}
        self.texts: list[str] = []

    def report(self, now: Now, kind: str, text: str) -> None:
        """Trace the first error of a kind; keep all texts."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.texts.append(f"{now.ns} {kind}: {text}")
        if self.counts[kind] == 1:
            self._tracer.emit(now, TraceKind.ERROR, kind=kind, text=text)
