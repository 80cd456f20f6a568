"""When each member was in an election, led, and could take part, by its trace.

Pure facts; this module knows no promise, and nothing of faults.
"""

from dataclasses import dataclass, field
from typing import Final

from upheaval.records import Json, MemberFolder, TraceEvent
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import NEVER_NS

_OVER: Final = "CLOSED"
"""The state of a finished election."""
_ENDING: Final = ("TERMINATING", "CLOSED")
"""The module states in which a member takes no part any more."""


@dataclass(slots=True)
class Span:
    """An interval. `state` and `line` are those of the member's last trace line in it."""

    member_id: int
    state: str
    line: int
    begin_ns: int
    end_ns: int = NEVER_NS
    is_in_order: bool = False
    """Whether it ended with an ordered end of the process."""
    closed_ns: int = NEVER_NS
    """Of an election: when the consensus module closed within it."""
    has_commit_fallen: bool = False
    """Of an election: whether the commit position of its process had decreased, before it or within it."""


@dataclass(slots=True)
class MemberSpans:
    """The intervals of one member, each kind in order of time. An interval without an end in the trace lasts
    for ever.
    """

    member_id: int
    elections: list[Span] = field(default_factory=list)
    """Elections in sequence without an end between them count as one."""
    led: list[Span] = field(default_factory=list)
    """For a killed process, up to the next start: no trace says when it died."""
    there: list[Span] = field(default_factory=list)
    """From its first term after a start; for a killed process, up to the next start."""
    last_ns: int = 0
    """The time of the last trace line."""


def spans_of(folder: MemberFolder) -> MemberSpans:
    """Read the trace of one member. Raises `UsageError` for a malformed line."""
    reader = _Reader(MemberSpans(folder.member_id))
    for event in folder.traced():
        reader.add(event)
    return reader.spans


class _Reader:
    def __init__(self, spans: MemberSpans) -> None:
        self.spans = spans
        self._election: Span | None = None
        self._led: Span | None = None
        self._there: Span | None = None
        self._is_ending: Span | None = None
        """What it led until its module ended."""
        self._has_commit_fallen = False
        """Whether the commit position of the process decreased."""
        self._component: Json = None
        """Which of its processes takes part in elections."""

    def add(self, event: TraceEvent) -> None:
        """Take the next trace line."""
        is_of_process = event.fields.get("component") == self._component
        match event.event:
            case TraceKind.ELECTION_STATE:
                self._component = event.fields.get("component")
                self._elect(event)
            case TraceKind.PROCESS_START if is_of_process:
                self._end(event.ns)
                self._has_commit_fallen = False
            case TraceKind.COMMIT_WENT_BACK:
                self._has_commit_fallen = True
                if self._election is not None:
                    self._election.has_commit_fallen = True
            case TraceKind.PROCESS_END if is_of_process:
                led = self._led or self._is_ending
                if led is not None and event.fields.get("status") == 0:
                    led.is_in_order = True
                self._end(event.ns)
            case TraceKind.MODULE_STATE if event.fields.get("new") in _ENDING:
                led = self._led if event.fields.get("new") == _OVER else None
                # A member whose module closes within an election stays in it until its process ends.
                election, self._election = self._election, None
                if election is not None:
                    election.closed_ns = event.ns
                self._end(event.ns)
                self._is_ending, self._election = led, election
        self.spans.last_ns = event.ns

    def _elect(self, event: TraceEvent) -> None:
        state, member_id = str(event.fields.get("state")), self.spans.member_id
        if self._led is not None:
            self._led.end_ns, self._led = event.ns, None
        if state != _OVER:
            if self._election is None:
                self._election = Span(member_id, state, event.line, event.ns)
                self.spans.elections.append(self._election)
            self._election.state, self._election.line = state, event.line
            self._election.has_commit_fallen = self._has_commit_fallen
            return
        if self._election is not None:
            self._election.end_ns, self._election = event.ns, None
        if self._there is None:
            self._there = Span(member_id, state, event.line, event.ns)
            self.spans.there.append(self._there)
        if event.fields.get("leader_member_id") == member_id:
            self._led = Span(member_id, state, event.line, event.ns)
            self.spans.led.append(self._led)

    def _end(self, at_ns: int) -> None:
        """The process takes no part any more. Its election lasted at least up to its last line."""
        if self._election is not None:
            self._election.end_ns = self.spans.last_ns
        for span in (self._led, self._there):
            if span is not None:
                span.end_ns = at_ns
        self._election = self._led = self._there = self._is_ending = None
