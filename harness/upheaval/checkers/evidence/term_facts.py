"""When a member led each leadership term, and how positions moved in it, by the member's trace.

Pure facts; this module knows no promise. Steps are arrays, because a long run has very many of them.
"""

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.records import TraceEvent
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import NEVER_NS

_OVER: Final = "CLOSED"
"""The state of a finished election."""
_CATCHUP_FLAG: Final = 1
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a trace line, and the position that it has."""

    ns: int
    line: int
    position: int


class Steps:
    """A position that rises: the lines that moved it past all earlier ones."""

    __slots__ = ("_lines", "_ns", "_positions")

    def __init__(self) -> None:
        self._ns = array("q")
        self._lines = array("q")
        self._positions = array("q")

    def add(self, event: TraceEvent, position: int) -> None:
        """Take the next line with a position."""
        if position > self.highest:
            self._ns.append(event.ns)
            self._lines.append(event.line)
            self._positions.append(position)

    @property
    def highest(self) -> int:
        """The highest position; -1 without any."""
        return self._positions[-1] if self._positions else _NONE

    def first_from(self, position: int) -> Moment | None:
        """When a position at or past that one occurred first; None for never."""
        index = bisect_left(self._positions, position)
        if index == len(self._ns):
            return None
        return Moment(self._ns[index], self._lines[index], self._positions[index])


@dataclass(slots=True)
class Lead:
    """When a member led a term, as far as its trace shows. A killed leader's interval ends with its next start."""

    begin_ns: int
    line: int
    end_ns: int = NEVER_NS


@dataclass(slots=True)
class TermFacts:
    """Facts about one leadership term on one member."""

    leads: list[Lead] = field(default_factory=list)
    sent: Steps = field(default_factory=Steps)
    """The commit positions that it sent as the leader (CommitPosition)."""
    heard: Steps = field(default_factory=Steps)
    """The commit positions that it received (CommitPosition)."""
    announced: Steps = field(default_factory=Steps)
    """The commit position that it received when it joined the term (NewLeadershipTerm)."""
    appended: Steps = field(default_factory=Steps)
    """The append positions that it reported (AppendPosition). During catch-up they belong to the term that it
    has read.
    """
    reports: dict[int, Steps] = field(default_factory=dict)
    """The append positions that each follower reported to it as the leader (AppendPosition)."""


class TermReader:
    """Reads the trace of one member line by line."""

    def __init__(self) -> None:
        self.terms: dict[int, TermFacts] = {}
        self.has_caught_up = False
        """Whether the member ever reported a position during catch-up."""
        self._led: TermFacts | None = None

    def add(self, member_id: int, event: TraceEvent) -> None:
        """Take the next line."""
        match event.event:
            case TraceKind.SEND | TraceKind.RECEIVE:
                self._on_message(event)
            case TraceKind.LEADERSHIP_TERM if event.fields.get("source") == "election":
                term = event.fields.get("leadership_term_id")
                if event.fields.get("leader_member_id") == member_id and type(term) is int:
                    self._led = self._term(term)
                    self._led.leads.append(Lead(event.ns, event.line))
            case TraceKind.ELECTION_STATE if event.fields.get("state") != _OVER:
                self._end(event.ns)
            case TraceKind.PROCESS_START | TraceKind.PROCESS_END if event.fields.get("component") in OF_MODULE:
                self._end(event.ns)

    def _end(self, ns: int) -> None:
        if self._led is not None:
            self._led.leads[-1].end_ns, self._led = ns, None

    def _term(self, term: int) -> TermFacts:
        known = self.terms.get(term)
        if known is None:
            known = self.terms[term] = TermFacts()
        return known

    def _on_message(self, event: TraceEvent) -> None:
        fields = event.fields
        message, term, position = fields.get("message"), fields.get("leadership_term_id"), fields.get("log_position")
        if type(term) is not int or type(position) is not int:
            return
        is_sent = event.event == TraceKind.SEND
        if message == "CommitPosition":
            known = self._term(term)
            (known.sent if is_sent else known.heard).add(event, position)
        elif message == "AppendPosition":
            self._on_report(event, term, position, is_sent=is_sent)
        elif message == "NewLeadershipTerm" and not is_sent:
            commit_position = fields.get("commit_position")
            if type(commit_position) is int:
                self._term(term).announced.add(event, commit_position)

    def _on_report(self, event: TraceEvent, term: int, position: int, *, is_sent: bool) -> None:
        follower = event.fields.get("follower_member_id")
        if is_sent:
            self._term(term).appended.add(event, position)
            self.has_caught_up |= event.fields.get("flags") == _CATCHUP_FLAG
        elif self._led is not None and type(follower) is int:
            # A member that catches up names the term that it has reached in this leader's log.
            self._led.reports.setdefault(follower, Steps()).add(event, position)
